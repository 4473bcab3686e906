"""Tuning screen: all trials and charts of their hyperparameters."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from tabapp.run.record.state import RunState, title_of
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Choice, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import NO_TRIAL
from tabapp.tui.screens.steerable import SteerableView
from tabapp.tui.viewmodels.model_details import trial_details
from tabapp.tui.viewmodels.query import HINT
from tabapp.tui.viewmodels.texts import Snapshot, count
from tabapp.tui.widgets.trial_panels import (
    TITLES,
    BestFacts,
    BestSoFar,
    HyperparameterImportance,
    ParameterImportanceFacts,
    SlicePlot,
    Trials,
    ordered_parameters,
    slice_facts,
)


class TuningView(SteerableView):
    """The table of trials, and charts of the model under the cursor: best so far, slice and hyperparameter importance."""

    CSS_PATH = sheet("tuning")
    VIEW: View = "tuning"
    MAIN = "#trials"
    BY_TARGET = True
    FILTER_HINT = HINT
    BINDINGS: ClassVar = bindings_for("tuning")

    _parameter: str | None = None
    _shown_model: str | None = None

    def compose_body(self) -> ComposeResult:
        with Container(id="tuning-body"):
            yield Trials()
            with Container(id="tuning-charts"):
                yield BestSoFar("Best so far", id="best")
                yield SlicePlot("Slice", id="slice")
                yield HyperparameterImportance("Importance", id="deciding")

    def draw(self, snapshot: Snapshot) -> None:
        trials = self.query_one(Trials)
        trials.show_state(snapshot.state)
        chosen = self.tabapp.chosen_model
        if chosen is not None and chosen != self._shown_model:
            self._shown_model = chosen
            rows = trials.of_model(chosen)
            under = trials.trial
            if rows and (under is None or under.model != chosen):
                trials.move_to_key(next((row.key for row in rows if row.best), rows[0].key))
        self._draw_charts(snapshot.state)

    def _draw_charts(self, state: RunState) -> None:
        trials = self.query_one(Trials)
        under = trials.trial
        rows = trials.of_model(under.model if under is not None else trials.only)
        scores = tuple(row.score for row in reversed(rows) if row.is_complete and row.score is not None)
        greater = state.plan.greater_is_better if state.plan else True
        self.query_one(BestSoFar).show(BestFacts(rows[0].title if rows else "", scores, greater))
        model = rows[0].model if rows else ""
        ranked = state.parameter_importances.get(model)
        parameters = ordered_parameters(rows, ranked)
        facts = slice_facts(rows, parameters, self._parameter, under.key if under is not None else None)
        self.query_one(SlicePlot).show(facts)
        chosen = facts.slice.parameter if facts.slice is not None else ""
        self.query_one(HyperparameterImportance).show(
            ParameterImportanceFacts(facts.title, ranked, chosen, len(scores))
        )

    def leave_target(self, left: int | None, target: int | None) -> None:
        self._parameter = self._shown_model = self.query_one(Trials).only = None

    @on(Table.Moved, "#trials")
    def _cursor_moved(self) -> None:
        under = self.query_one(Trials).trial
        if under is not None and under.model != self._shown_model:
            self._shown_model = self.tabapp.chosen_model = under.model
            self._parameter = None
        self._draw_charts(self.snapshot.state)

    @on(Table.HeaderClicked)
    def _header_clicked(self, event: Table.HeaderClicked) -> None:
        self.query_one(Trials).sort = TITLES.get(event.title, "score")
        self.redraw()

    @on(Table.Selected, "#trials")
    def action_details(self) -> None:
        trials = self.query_one(Trials)
        if trials.trial is not None:
            text = trial_details(self.snapshot.state, trials.trial, trials.of_model(trials.trial.model))
            self.tabapp.push_screen(Reading(f"{trials.trial.title} #{trials.trial.trial}", text))
        else:
            self.warn(NO_TRIAL)

    def steered_model(self) -> str | None:
        under = self.query_one(Trials).trial
        return under.model if under is not None else None

    def action_pick_model(self) -> None:
        trials, state = self.query_one(Trials), self.snapshot.state
        models = dict.fromkeys(row.model for row in reversed(trials.trials))
        options = [
            Option(model, title_of(state, model), count(len(trials.of_model(model)), "trial")) for model in models
        ]
        everything = Option("", "all models", count(len(trials.trials), "trial"))
        dialog = Choice("Show the trials of", [everything, *options], current=trials.only or "")
        self.tabapp.push_screen(dialog, self._model_picked)

    def _model_picked(self, model: str | None) -> None:
        if model is not None:
            self.query_one(Trials).only = model or None
            self._parameter = None
            self.redraw()

    def action_parameter(self, step: int) -> None:
        state, trials = self.snapshot.state, self.query_one(Trials)
        rows = trials.of_model(self.steered_model() or trials.only)
        parameters = ordered_parameters(rows, state.parameter_importances.get(rows[0].model)) if rows else []
        if len(parameters) < 2:
            self.warn("Fewer than two hyperparameters differ between the complete trials of this model.")
            return
        place = parameters.index(self._parameter) if self._parameter in parameters else 0
        self._parameter = parameters[(place + step) % len(parameters)]
        self._draw_charts(state)

    def action_charts(self) -> None:
        self.toggle_charts()

    def action_sort(self) -> None:
        self.query_one(Trials).next_sort()
        self.redraw()

    def action_copy_parameters(self) -> None:
        trial = self.query_one(Trials).trial
        if trial is not None and trial.params:
            self.tabapp.copy(msgspec.json.encode(trial.params).decode())
        else:
            self.warn(NO_TRIAL if trial is None else "This trial has no hyperparameters.")

    def set_filter(self, text: str) -> None:
        self.query_one(Trials).filter = text
