"""Explain screen: feature importance by two measures, effects of features, and the slices with the largest errors."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from tabapp.errors import TabappError
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.protocol.analyses import Diagnose, analyze_in_background
from tabapp.run.record.analysis import Request, all_requests, any_result
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import title_of
from tabapp.run.texts.diagnoses import diagnosis_tables, tables_of
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.dialogs.basic import Ask, Choice, Option, Reading, reading_width
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels import diagnoses as d
from tabapp.tui.viewmodels.diagnoses import analysis_options, interactions_content, tables_content
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.effects import Effects, WeakSlices, effect_facts, slice_details
from tabapp.tui.widgets.explanation import Explanation, ReadingNotes
from tabapp.tui.widgets.importance import importance_facts

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
            case d.INTERACTIONS:
                for found in state.results(InteractionsReady):
                    self.tabapp.push_screen(Reading("Interactions", interactions_content(found, state, self._room)))
            case d.KNOWN:
                self.tabapp.push_screen(Reading("Analyses", tables_content(diagnosis_tables(state), self._room)))
            case _:
                self._request(next(each for each in all_requests() if each.option == kind))

    def _map_chosen(self, choice: str | None) -> None:
        if choice is not None:
            self.tabapp.push_screen(Reading(*d.chosen_map(self.snapshot.state, choice, self._room)))

    def _request(self, request: Request) -> None:
        """Analyze the run, after a question for the value of the option if it has one."""
        if request.values is None:
            self._analyze(request)
            return
        values = {each.value: each for each in request.values(self.snapshot.state)}

        def analyze(value: str | None) -> None:
            if value is not None:
                self._analyze(request, value)

        def chosen(value: str | None) -> None:
            question = values[value].question if value is not None else None
            if question is None:
                analyze(value)
                return
            form, check = question.value, lambda text: form.format(text.strip())
            self.tabapp.push_screen(Ask(question.title, question.message, question.default, check), analyze)

        options = [Option(each.value, each.label, each.note) for each in values.values()]
        self.tabapp.push_screen(Choice(request.question, options), chosen)

    def _analyze(self, request: Request, value: str | None = None) -> None:
        self.run_worker(self._analysis(request, value), group="analysis", exclusive=True, exit_on_error=False)

    async def _analysis(self, request: Request, value: str | None) -> None:
        # Minutes may pass: what is in progress stays on the screen. A later analysis ends this one, and shows its own name.
        self._show_progress(request.title.lower())
        try:
            wish, folder = Diagnose(request.option, value), self.tabapp.run_of_target.path
            found: AnalysisEvent = await analyze_in_background(any_result(), wish, folder)
        except (TabappError, OSError) as error:
            self._show_progress("")
            self.notify(f"No result: {error}", severity="error", markup=False)
            return
        self._show_progress("")
        tables = tables_of(found, self.snapshot.state)
        self.tabapp.push_screen(Reading(tables[0].title, tables_content(tables, self._room)))

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
