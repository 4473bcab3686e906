"""Diagnose screen: every analysis of the run, a queue of those that were asked for, and their results with charts."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.protocol.analyses import Diagnose
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Analysis, Request, Value
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState, is_partial
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Option
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels.diagnosis_entries import Entry, entries
from tabapp.tui.viewmodels.texts import Snapshot, model_name
from tabapp.tui.widgets.diagnosis import Analyses, Result
from tabapp.tui.widgets.findings import Findings, findings

LOOK_AGAIN_SECONDS = 1.0
"""Time between two looks at whether the process of an analysis that this view did not start is alive."""


class DiagnoseView(RunView):
    """A list of analyses, and the result of the one under the cursor."""

    CSS_PATH = sheet("diagnose")
    VIEW: View = "diagnose"
    MAIN = "#analyses"
    BY_TARGET = True
    BINDINGS: ClassVar = bindings_for("diagnose")

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[Entry] = []
        self._places: dict[tuple[RunFolder, str], int] = {}
        """The step of each result to which the user has moved."""
        self._found: Findings | None = None
        self._of_target: tuple[RunFolder, int, RunState] | None = None
        """The folder of a target, how many analyses had ended when it was read, and its state."""
        self._looked = 0.0
        self._wanted = ""
        """Start of the key of the analysis that the cursor moves to."""
        self._is_busy = False

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="diagnose-body"):
            yield Analyses()
            yield Result()

    def draw(self, snapshot: Snapshot) -> None:
        state = self._state(snapshot)
        jobs = self.tabapp.analyses.jobs_of(self._folder)
        if state.underway is not None and time.monotonic() - self._looked >= LOOK_AGAIN_SECONDS:
            self._looked = time.monotonic()
            self._is_busy = self._folder.is_running()
        self._entries = entries(state, jobs, is_busy=self._is_busy)
        is_animated = self.app.animation_level != "none"
        frame = (
            int(snapshot.now * 4) if is_animated and any(each.status == "running" for each in self._entries) else None
        )
        self.query_one(Analyses).show_entries(self._entries, frame)
        self._move_to_wanted()
        self._draw_result(state)

    def point_at(self, analysis: Analysis[Any]) -> None:
        """Move the cursor to an analysis."""
        self._wanted = str(analysis.event.__struct_config__.tag)
        self.redraw()

    def _move_to_wanted(self) -> None:
        found = next((each for each in self._entries if self._wanted and each.key.startswith(self._wanted)), None)
        if found is not None:
            self._wanted = ""
            self.query_one(Analyses).move_to_key(found.key)

    @property
    def _folder(self) -> RunFolder:
        return self.tabapp.run_of_target

    @property
    def _entry(self) -> Entry | None:
        key = self.query_one(Analyses).key
        return next((each for each in self._entries if each.key == key), None)

    def _state(self, snapshot: Snapshot) -> RunState:
        """The state of the shown run. The events of a target's analyses are in its own folder only."""
        if not snapshot.state.targets or self._folder == self.tabapp.folder:
            return snapshot.state
        folder, ended = self._folder, self.tabapp.analyses.ended
        if self._of_target is None or self._of_target[:2] != (folder, ended):
            self._of_target = (folder, ended, snapshot.state)
            self.run_worker(self._read_target(folder, ended), exit_on_error=False)
        return self._of_target[2]

    async def _read_target(self, folder: RunFolder, ended: int) -> None:
        state = await asyncio.to_thread(folder.state)
        if state.finished is not None:
            self._of_target = (folder, ended, state)
            self.redraw()

    def _draw_result(self, state: RunState) -> None:
        entry, result = self._entry, self.query_one(Result)
        if entry is None:
            return
        self._found = findings(entry, state, self._places.get((self._folder, entry.key)), *result.room)
        result.show(entry.key, self._found)

    @on(Table.Moved, "#analyses")
    @on(Result.Resized)
    def _draw_again(self) -> None:
        self.redraw()

    def action_step(self, step: int) -> None:
        entry, found = self._entry, self._found
        if entry is None or found is None or found.steps < 2:
            self.warn("This result has a single chart.")
            return
        place = found.place + step
        # A line stops at the edge of its chart; maps and charts follow each other in a circle.
        place = max(0, min(place, found.steps - 1)) if found.step_name == "threshold" else place % found.steps
        self._places[self._folder, entry.key] = place
        self.redraw()

    def action_cancel(self) -> None:
        entry = self._entry
        job = next((each for each in self.tabapp.analyses.jobs if entry is not None and each.number == entry.job), None)
        if job is not None:
            self.tabapp.analyses.cancel(job)
            self.redraw()
        elif entry is not None and entry.status == "running":
            self.warn("Another process runs this analysis. End it there.")
        else:
            self.warn("This analysis is neither running nor queued.")

    # -- asking -------------------------------------------------------------------------------------------------------

    @on(Table.Selected, "#analyses")
    def action_ask(self) -> None:
        """Keep the threshold at the line if it was moved; else ask for the analysis under the cursor."""
        entry, found = self._entry, self._found
        if entry is None:
            return
        if entry.request is None or entry.status == "impossible":
            self.warn(entry.text or "The run makes this by itself; it cannot be asked for.")
        elif found is not None and found.moved is not None and isinstance(entry.result, ThresholdChosen):
            self._keep_threshold(entry, entry.result, found.moved)
        else:
            self._ask(entry.request)

    def _keep_threshold(self, entry: Entry, known: ThresholdChosen, value: float) -> None:
        request, key = entry.request, (self._folder, entry.key)
        assert request is not None

        def answer(kept: str | None) -> None:
            if kept == "keep":
                self._places.pop(key, None)
                self._add(request, f"{known.metric}@{value:.4g}")
            elif kept == "other":
                self._ask(request)

        options = [
            Option("keep", f"Keep {value:.3f}", "predict and explain label rows by it", "k"),
            Option("other", "Choose it by a metric or by costs", "", "m"),
        ]
        message = f"The bundle has the threshold {known.value:.3f}."
        self.tabapp.push_screen(Decision("The threshold of the positive class", message, options), answer)

    def _ask(self, request: Request) -> None:
        """Ask for the value of the option, or for the model, if there is one; then queue the analysis."""
        state = self._state(self.snapshot)
        if request.values is not None:
            self._ask_value(request, {each.value: each for each in request.values(state)})
        elif request.is_limited:
            self._ask_model(request, state)
        else:
            self._add(request)

    def _ask_value(self, request: Request, values: dict[str, Value]) -> None:
        def chosen(value: str | None) -> None:
            if value is None:
                return
            question = values[value].question
            if question is None:
                self._add(request, value)
                return

            def check(text: str) -> str:
                return question.value.format(question.check(text))

            dialog = Ask(question.title, question.message, question.default, check)
            self.tabapp.push_screen(dialog, lambda answer: self._add(request, answer) if answer is not None else None)

        options = [Option(each.value, each.label, each.note) for each in values.values()]
        self.tabapp.push_screen(Choice(request.question, options), chosen)

    def _ask_model(self, request: Request, state: RunState) -> None:
        folds = state.plan.folds if state.plan is not None else 0
        rows = [row for row in state.leaderboard if row.model != ev.ENSEMBLE and row.score is not None]
        if request.models is not None:
            able = request.models(state)
            rows = [row for row in rows if row.model in able]
        if not request.trains and len(rows) == 1:
            self._add(request)
            return
        options = [Option("", "The best model", "which the analysis chooses")]
        options += [
            Option(row.model, model_name(row), format_score(row.score)) for row in rows if not is_partial(row, folds)
        ]
        what = "the model to train again" if request.trains else "the model"
        dialog = Choice(f"{request.title}: {what}", options, current="")
        self.tabapp.push_screen(dialog, lambda model: self._add(request, model=model) if model is not None else None)

    def _add(self, request: Request, value: str | None = None, *, model: str | None = None) -> None:
        message = self.tabapp.analyses.add(self._folder, Diagnose(request.option, value, model or None))
        if message:
            self.notify(message, timeout=3, markup=False)
        self.redraw()
