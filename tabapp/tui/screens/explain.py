"""Explain: what the columns matter, told in two ways, and whether the two agree."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from tabapp.run.state import title_of
from tabapp.tui.actions import View, bindings_for
from tabapp.tui.screens.base import RunView
from tabapp.tui.texts import Snapshot
from tabapp.tui.widgets.explanation import Explanation, ReadingNotes
from tabapp.tui.widgets.importance import importance_facts


class ExplainView(RunView):
    """Importances with their intervals, and how to read them."""

    VIEW: View = "explain"
    MAIN = "#explanation"
    BINDINGS: ClassVar = bindings_for("explain")

    def compose_body(self) -> ComposeResult:
        yield Explanation()
        yield ReadingNotes("How to read this", id="notes")

    def draw(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        self.query_one(Explanation).show_state(state)
        attention = state.importances.attention_model if state.importances else None
        metric = state.plan.metric_title if state.plan else "the score"
        title = title_of(state, attention) if attention else None
        self.query_one(ReadingNotes).show((importance_facts(state), metric, title))

    def action_sort(self) -> None:
        table = self.query_one(Explanation)
        table.sort = "attention" if table.sort == "permutation" else "permutation"
        self.redraw()
