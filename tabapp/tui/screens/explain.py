"""Explain screen: feature importance by two measures, effects of features, and the slices with the largest errors."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from tabapp.run.analyses.attention_importances import missing
from tabapp.run.analyses.between_rows import ANALYSIS as ROWS
from tabapp.run.analyses.between_rows import BetweenRowsReady, models_of_rows
from tabapp.run.protocol.analyses import Diagnose
from tabapp.run.record.analysis import all_requests
from tabapp.run.record.state import title_of
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Choice, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.screens.diagnose import DiagnoseView
from tabapp.tui.viewmodels.attention_choice import attention_choices, chosen_attention, with_attention
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.effects import Effects, WeakSlices, effect_facts, slice_details
from tabapp.tui.widgets.explanation import Explanation, NotesFacts, ReadingNotes
from tabapp.tui.widgets.importance import importance_facts

PANELS = ("", "-effect", "-slices")
"""The panel below the importances on a narrow terminal: notes, effect or largest errors."""


class ExplainView(RunView):
    """Importances with their intervals, the effect of the feature under the cursor, and weak slices."""

    CSS_PATH = sheet("explain")
    VIEW: View = "explain"
    MAIN = "#explanation"
    BY_TARGET = True
    BINDINGS: ClassVar = bindings_for("explain")

    _panel = 0
    _attention_model: str | None = None
    """The model whose attention is shown; None for the first."""

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="explain-upper"):
            yield Explanation()
            yield Effects("Effect", id="effect")
        with Horizontal(id="explain-lower"):
            yield WeakSlices()
            yield ReadingNotes("How to read this", id="notes")

    def draw(self, snapshot: Snapshot) -> None:
        state = with_attention(snapshot.state, self._attention_model)
        explanation = self.query_one(Explanation)
        explanation.show_state(state)
        self.query_one(Effects).show(effect_facts(state, explanation.key))
        self.query_one(WeakSlices).show_state(state)
        attention = state.importances.attention_model if state.importances else None
        metric = state.plan.metric_title if state.plan else "the score"
        title = title_of(state, attention) if attention else None
        found = chosen_attention(state, attention)
        self.query_one(ReadingNotes).show(NotesFacts(importance_facts(state), metric, title, found))

    def leave_target(self, left: int | None, target: int | None) -> None:
        self.query_one(Explanation).close_groups()

    @on(Table.Moved, "#explanation")
    def _cursor_moved(self) -> None:
        self.query_one(Effects).show(effect_facts(self.snapshot.state, self.query_one(Explanation).key))

    @on(Table.Selected, "#explanation")
    def _feature_chosen(self) -> None:
        table = self.query_one(Explanation)
        if not table.toggle(table.key or ""):
            self.warn("Only a group of correlated columns, marked with ▸, opens.")

    @on(Table.Selected, "#slices")
    def _slice_chosen(self) -> None:
        state, key = self.snapshot.state, self.query_one(WeakSlices).key
        rows = state.slices.rows if state.slices is not None else ()
        row = next((row for row in rows if f"{row.column} {row.level}" == key), None)
        if state.slices is not None and row is not None:
            self.tabapp.push_screen(Reading(f"{row.column} {row.level}", slice_details(state.slices, row, state)))

    def action_sort(self) -> None:
        found = self.snapshot.state.importances
        if found is None:
            self.warn("There are no importances to sort; they are computed after the fits.")
            return
        shown = with_attention(self.snapshot.state, self._attention_model).importances
        if shown is None or all(row.attention is None for row in shown.rows):
            self.warn("No fitted model weighs columns by attention, so permutation is the only order.")
            return
        table = self.query_one(Explanation)
        table.sort = "attention" if table.sort == "permutation" else "permutation"
        self.redraw()

    def action_choose_attention(self) -> None:
        state = self.snapshot.state
        options = [Option(*each) for each in attention_choices(state)]
        if not options:
            self.warn(
                "No fitted model has attention; it is computed after the fits of FT-Transformer, AMFormer and others."
            )
            return
        shown = chosen_attention(state, self._attention_model)
        current = None if shown is None else shown.model
        self.tabapp.push_screen(Choice("Attention of a model", options, current=current), self._attention_chosen)

    def _attention_chosen(self, model: str | None) -> None:
        if model is None:
            return
        self._attention_model = model
        if model in missing(self.snapshot.state):
            request = next(each for each in all_requests() if each.option == "attention")
            asked = self.tabapp.analyses.add(self.tabapp.run_of_target, Diagnose(request.option, model))
            self.notify(asked or "The attention of this model is computed now.", timeout=3, markup=False)
        self.redraw()

    async def action_rows(self) -> None:
        """Show on the Diagnose screen which rows predictions rest on; computed first if it is not known."""
        state = self.snapshot.state
        if state.result(BetweenRowsReady) is None:
            if not models_of_rows(state):
                self.warn("No fitted model predicts from other rows. Start a run with npt, tabr or modern_nca.")
                return
            asked = self.tabapp.analyses.add(self.tabapp.run_of_target, Diagnose("rows"))
            self.notify(asked or "It is computed now.", timeout=3, markup=False)
        await self.tabapp.action_view("diagnose")
        if isinstance(screen := self.app.screen, DiagnoseView):
            screen.point_at(ROWS)

    def action_charts(self) -> None:
        if self.has_class("-wide"):
            self.toggle_charts()
            return
        self.remove_class(*filter(None, PANELS))
        self._panel = (self._panel + 1) % len(PANELS)
        if PANELS[self._panel]:
            self.add_class(PANELS[self._panel])
        self.call_after_refresh(self.redraw)
