"""Run screen: the live leaderboard with charts and events."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tabapp.run.texts.verdict import verdict_of
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import NO_MODEL
from tabapp.tui.screens.steerable import SteerableView
from tabapp.tui.session.bundle_export import ask_for_export
from tabapp.tui.viewmodels.model_details import model_details
from tabapp.tui.viewmodels.query import HINT
from tabapp.tui.viewmodels.reasons import why_content
from tabapp.tui.viewmodels.texts import Snapshot, after_finishing
from tabapp.tui.widgets.feed import Feed
from tabapp.tui.widgets.importance import Importances, importance_facts
from tabapp.tui.widgets.leaderboard import TITLES, Leaderboard
from tabapp.tui.widgets.resources import ResourceUse
from tabapp.tui.widgets.running.now import Now, now_facts
from tabapp.tui.widgets.running.result import Result, ResultFacts
from tabapp.tui.widgets.running.score_curve import ScoreCurve, curve_facts
from tabapp.tui.widgets.tuning_panel import Tuning, tuning_facts


class RunningView(SteerableView):
    """The score over time and what happens now, or the result; the leaderboard; events, tuning and importance."""

    CSS_PATH = sheet("run")
    VIEW: View = "run"
    MAIN = "#leaderboard"
    BY_TARGET = True
    FILTER_HINT = HINT
    BINDINGS: ClassVar = bindings_for("run")

    def __init__(self) -> None:
        super().__init__()
        self._is_result_hidden = False

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="run-top"):
            yield ScoreCurve("Score", id="score-curve")
            with Vertical(id="run-side"):
                yield Now("Now", id="now")
                yield ResourceUse("Resources", id="resources")
            yield Result("Result", id="verdict")
        yield Leaderboard()
        with Horizontal(id="run-bottom"):
            yield Feed("Events", id="feed")
            yield Tuning("Tuning", id="tuning")
            yield Importances("Importance", id="importances")

    def draw(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        leaderboard = self.query_one(Leaderboard)
        leaderboard.show_snapshot(snapshot)
        facts = tuning_facts(state, leaderboard.model)
        if facts is not None:
            self.query_one(Tuning).show(facts)
        self.query_one(Importances).show(importance_facts(state))
        verdict = verdict_of(state) if state.is_over else None
        self.set_class(verdict is not None and not self._is_result_hidden, "-ended")
        if verdict is not None:
            self.query_one(Result).show(ResultFacts(verdict, bool(state.finished and state.finished.bundle)))
        self.query_one(ScoreCurve).show(curve_facts(state, snapshot.now))
        self.query_one(Now).show(now_facts(state, snapshot.now))
        self.query_one(ResourceUse).show(state.resources)
        self.query_one("#resources").set_class(
            bool(state.resources) and state.resources[-1].gpu_percent is not None, "-gpu"
        )
        self.query_one(Feed).show(state.feed)

    def action_start(self) -> None:
        if self.snapshot.state.plan is None:
            self.warn("There is no plan yet. ctrl+r on screen 2 starts the run as soon as there is one.")
        elif self.is_unstarted():
            self.tabapp.start_run()

    def action_result(self) -> None:
        """Hide the result, or show it again."""
        if verdict_of(self.snapshot.state) is None:
            self.warn("The run ended without a score.")
            return
        self._is_result_hidden = not self._is_result_hidden
        self.redraw()

    def action_why(self) -> None:
        """Explain the place of the model under the cursor."""
        leaderboard = self.query_one(Leaderboard)
        row = next((row for row in self.snapshot.state.leaderboard if row.model == leaderboard.model), None)
        if row is None:
            self.warn(NO_MODEL)
        else:
            self.tabapp.push_screen(Reading(f"Why: {row.title}", why_content(self.snapshot.state, row)))

    def action_report(self) -> None:
        """Ask where to write the report of the run."""
        ask_for_export(self.tabapp, ".html")

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
        facts = tuning_facts(snapshot.state, model)
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
                f"Fitting stops, and {after_finishing(self.tabapp.whole_state)}.",
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
