"""Explain screen: feature importance by two measures, effects of features, and the slices with the largest errors."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from tabapp.errors import TabappError
from tabapp.printable import one_line
from tabapp.run.protocol.analyses import analyze_in_background
from tabapp.run.record import events as ev
from tabapp.run.record.state import title_of
from tabapp.run.texts.diagnoses import diagnosis_tables, table_of
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.dialogs.basic import Ask, Choice, Option, Reading, reading_width
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels import diagnoses as d
from tabapp.tui.viewmodels.diagnoses import analysis_options, interactions_content, tables_content
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.effects import Effects, WeakSlices, effect_facts, slice_details
from tabapp.tui.widgets.explanation import Explanation, ReadingNotes
from tabapp.tui.widgets.importance import importance_facts
from tabapp.tui.widgets.table import Table

PANELS = ("", "-effect", "-slices")
"""The panel below the importances on a narrow terminal: notes, effect or largest errors."""


class ExplainView(RunView):
    """Importances with their intervals, the effect of the feature under the cursor, and weak slices."""

    VIEW: View = "explain"
    MAIN = "#explanation"
    BY_TARGET = True
    BINDINGS: ClassVar = bindings_for("explain")

    _panel = 0

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="explain-upper"):
            yield Explanation()
            yield Effects("Effect", id="effect")
        with Horizontal(id="explain-lower"):
            yield WeakSlices()
            yield ReadingNotes("How to read this", id="notes")

    def draw(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        explanation = self.query_one(Explanation)
        explanation.show_state(state)
        self.query_one(Effects).show(effect_facts(state, explanation.key))
        self.query_one(WeakSlices).show_state(state)
        attention = state.importances.attention_model if state.importances else None
        metric = state.plan.metric_title if state.plan else "the score"
        title = title_of(state, attention) if attention else None
        self.query_one(ReadingNotes).show((importance_facts(state), metric, title))

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
        if all(row.attention is None for row in found.rows):
            self.warn("No fitted model weighs columns by attention, so permutation is the only order.")
            return
        table = self.query_one(Explanation)
        table.sort = "attention" if table.sort == "permutation" else "permutation"
        self.redraw()

    @property
    def _room(self) -> int:
        return reading_width(self.app.size.width)

    def action_analyze(self) -> None:
        state = self.snapshot.state
        options = [Option(*each) for each in analysis_options(state, len(diagnosis_tables(state)))]
        self.tabapp.push_screen(Choice("Analyze the run", options), self._analysis_chosen)

    def _analysis_chosen(self, kind: str | None) -> None:
        state = self.snapshot.state
        match kind:
            case None:
                return
            case d.ATTENTION:
                options = [Option(*each) for each in d.attention_options(state)]
                self.tabapp.push_screen(Choice("Attention map", options), self._map_chosen)
            case d.INTERACTIONS if state.interactions is not None:
                self.tabapp.push_screen(
                    Reading("Interactions", interactions_content(state.interactions, state, self._room))
                )
            case d.KNOWN:
                self.tabapp.push_screen(Reading("Analyses", tables_content(diagnosis_tables(state), self._room)))
            case d.THRESHOLD:
                title = "Threshold: the best by which metric"
                options = [Option(*each) for each in d.threshold_options(state)]
                self.tabapp.push_screen(Choice(title, options), self._metric_chosen)
            case d.FAIRNESS:
                columns = state.schema.columns if state.schema is not None else ()
                target = state.plan.target if state.plan is not None else ""
                options = [
                    Option(column.name, one_line(column.name), column.kind)
                    for column in columns
                    if column.name != target and column.kind != "text"
                ]
                self.tabapp.push_screen(
                    Choice("Groups of the column", options),
                    lambda column: self._analyze("--fairness", column) if column is not None else None,
                )
            case _:
                self._analyze(f"--{kind}")

    def _map_chosen(self, choice: str | None) -> None:
        if choice is not None:
            self.tabapp.push_screen(Reading(*d.chosen_map(self.snapshot.state, choice, self._room)))

    def _metric_chosen(self, metric: str | None) -> None:
        if metric == d.COST:
            message = "The costs of a false negative and of a false positive:"
            dialog = Ask("Threshold by costs", message, "fn=5,fp=1", lambda text: f"cost:{text.strip()}")
            self.tabapp.push_screen(dialog, self._metric_chosen)
        elif metric is not None:
            self._analyze("--threshold", metric)

    def _analyze(self, *words: str) -> None:
        self.run_worker(self._analysis(list(words)), group="analysis", exclusive=True, exit_on_error=False)

    async def _analysis(self, words: list[str]) -> None:
        # Minutes may pass: what is in progress stays on the screen. A later analysis ends this one, and shows its own name.
        self._show_progress(d.name_of(words[0]))
        try:
            arguments = ["diagnose", str(self.tabapp.run_of_target.path), *words]
            found: ev.AnyAnalysisEvent = await analyze_in_background(ev.AnyAnalysisEvent, arguments)
        except (TabappError, OSError) as error:
            self._show_progress("")
            self.notify(f"No result: {error}", severity="error", markup=False)
            return
        self._show_progress("")
        result = table_of(found, self.snapshot.state)
        if result is not None:
            self.tabapp.push_screen(Reading(result.title, tables_content([result], self._room)))

    def _show_progress(self, analysis: str) -> None:
        self.query_one(Explanation).analysis = analysis
        self.redraw()

    def action_charts(self) -> None:
        if self.has_class("-wide"):
            self.toggle_charts()
            return
        self.remove_class(*filter(None, PANELS))
        self._panel = (self._panel + 1) % len(PANELS)
        if PANELS[self._panel]:
            self.add_class(PANELS[self._panel])
        self.call_after_refresh(self.redraw)
