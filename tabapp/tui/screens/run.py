"""Run screen: the live leaderboard with charts and events."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import NO_MODEL
from tabapp.tui.screens.steerable import SteerableView
from tabapp.tui.viewmodels.model_details import model_details
from tabapp.tui.viewmodels.query import HINT
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.feed import Feed
from tabapp.tui.widgets.importance import Importances, importance_facts
from tabapp.tui.widgets.leaderboard import TITLES, Leaderboard
from tabapp.tui.widgets.resources import ResourceUse
from tabapp.tui.widgets.tuning_panel import Tuning, tuning_facts


class RunningView(SteerableView):
    """Leaderboard, tuning, importance, resources and events."""

    VIEW: View = "run"
    MAIN = "#leaderboard"
    BY_TARGET = True
    FILTER_HINT = HINT
    BINDINGS: ClassVar = bindings_for("run")

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="upper"):
            yield Leaderboard()
            with Vertical(id="side"):
                yield Tuning("Tuning", id="tuning")
                yield Importances("Importance", id="importances")
                yield ResourceUse("Resources", id="resources")
        yield Feed("Events", id="feed")

    def draw(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        leaderboard = self.query_one(Leaderboard)
        leaderboard.show_snapshot(snapshot)
        facts = tuning_facts(state, leaderboard.model, snapshot.history)
        if facts is not None:
            self.query_one(Tuning).show(facts)
        importances = self.query_one(Importances)
        importances.show(importance_facts(state))
        importances.set_class(state.importances is None, "-waiting")
        self.query_one(ResourceUse).show(state.resources)
        self.query_one("#resources").set_class(
            bool(state.resources) and state.resources[-1].gpu_percent is not None, "-gpu"
        )
        self.query_one(Feed).show(state.feed)

    def flash(self) -> None:
        """Highlight the leaderboard for a second after a new best score."""
        leaderboard = self.query_one(Leaderboard)
        leaderboard.add_class("-flash")
        self.set_timer(1.0, lambda: leaderboard.remove_class("-flash"))

    @on(Table.Moved, "#leaderboard")
    def _cursor_moved(self) -> None:
        snapshot = self.snapshot
        model = self.query_one(Leaderboard).model
        self.tabapp.chosen_model = model or self.tabapp.chosen_model
        facts = tuning_facts(snapshot.state, model, snapshot.history)
        if facts is not None:
            self.query_one(Tuning).show(facts)

    @on(Table.HeaderClicked)
    def _header_clicked(self, event: Table.HeaderClicked) -> None:
        self.query_one(Leaderboard).sort = TITLES.get(event.title, "rank")
        self.redraw()

    @on(Table.Selected, "#leaderboard")
    def action_details(self) -> None:
        leaderboard = self.query_one(Leaderboard)
        row = next((row for row in self.snapshot.state.leaderboard if row.model == leaderboard.model), None)
        if leaderboard.toggle_fold():
            self.redraw()
        elif row is not None:
            self.tabapp.push_screen(Reading(row.title, model_details(self.snapshot.state, row)))
        else:
            self.warn(NO_MODEL)

    def steered_model(self) -> str | None:
        return self.query_one(Leaderboard).model

    def action_finish(self) -> None:
        if self.is_under_way():
            dialog = Decision(
                "Finish now?",
                "Fitting stops, and the best models so far become the bundle.",
                [Option("finish", "Finish now", key="y", dangerous=True)],
            )
            self.tabapp.push_screen(dialog, lambda answer: self.tabapp.finish() if answer else None)

    def action_sort(self) -> None:
        self.query_one(Leaderboard).next_sort()
        self.redraw()

    def action_charts(self) -> None:
        self.toggle_charts()

    def set_filter(self, text: str) -> None:
        self.query_one(Leaderboard).filter = text
