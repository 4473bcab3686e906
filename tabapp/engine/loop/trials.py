"""The trials of all models, between Optuna's studies and the candidates of a run: start, record, prune and recover them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from optuna.storages import RDBStorage
from optuna.trial import TrialState

from tabapp.engine.fit.candidates import Candidate, Scorer, pilots_of, read_results
from tabapp.engine.loop.board import Board
from tabapp.engine.machine.devices import CPU
from tabapp.engine.plan.make_plan import Plan, fit_device
from tabapp.engine.schedule.competition import Competition
from tabapp.engine.schedule.tuning import OTHER_DEVICE, KnownTrial, Tuner
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.undefined import OptionalScore, defined

Emit = Callable[[ev.Event], None]

STACKED_TRIALS = 8
"""Trials whose first folds train as one stacked network: the sampler learns from their scores only when all have ended."""


class Trials:
    """Has one tuner per model, and keeps candidates, studies and events in step.

    Args:
        known: trials of earlier sessions by model and number, as the events record them.
        stacks: whether several fits may be trained as one stacked network.
    """

    def __init__(
        self,
        folder: RunFolder,
        plan: Plan,
        shape: Shape,
        n_folds: int,
        *,
        storage: RDBStorage,
        scorer: Scorer,
        known: Mapping[str, Mapping[int, KnownTrial]],
        emit: Emit,
        stacks: bool,
    ) -> None:
        self._folder, self._plan, self._shape, self._n_folds = folder, plan, shape, n_folds
        self._storage, self._scorer, self._known, self._emit = storage, scorer, known, emit
        # Networks that hide cells or learn other targets cannot be stacked.
        self._stacks = stacks and not plan.hide_cells and not shape.n_other_targets
        self._tuners: dict[str, Tuner] = {}

    def competition(self) -> Competition:
        """A competition without models, whose candidates are these trials."""
        return Competition(
            self._plan.metric,
            self._n_folds,
            trials=1 if self._plan.quality == "fast" else self._plan.trials,
            new_trial=self.new,
            siblings=self.siblings,
            loss=self._scorer.loss,
        )

    def add_model(self, plugin: Plugin, competition: Competition, board: Board) -> None:
        """Open the study of a model that competes, and take over its trials of an earlier session.

        Complete fits count, and open trials continue with their missing folds.
        """
        plan, name = self._plan, plugin.name
        tuner = self._tuners[name] = Tuner(
            self._storage,
            plugin,
            task=plan.task,
            shape=self._shape,
            device=fit_device(plugin, plan, self._shape),
            metric=plan.metric,
            seed=plan.seed,
            fixed=plan.fixed_values(name),
        )
        restored = tuner.restore(self._known.get(name, {}))
        if restored:
            message = f"{plugin.title}: {restored} trials are read from the events of the run."
            self._emit(ev.Log(level="warning", message=message))
        for number, params, state, cause in tuner.earlier_trials():
            candidate = self._candidate(name, number, params)
            read_results(self._folder, candidate)
            if cause == OTHER_DEVICE and not candidate.is_complete:
                # It counts neither as a trial nor as a failure.
                continue
            competition.add(candidate)
            competition.models[name].spent += candidate.seconds
            if candidate.is_complete:
                candidate.status = "complete"
                board.mark_stale()
                if not state.is_finished():
                    self._record(candidate)
            elif state == TrialState.PRUNED:
                candidate.status = "pruned" if candidate.results else "failed"
                candidate.cause = cause
                competition.models[name].failures += candidate.status == "failed"

    def new(self, model: str) -> Candidate:
        """Start the next trial of a model."""
        return self._candidate(model, *self._tuners[model].ask())

    def siblings(self, first: Candidate) -> Iterator[Candidate]:
        """Start trials that train together with the first fold of a new one; none on a CPU, where that takes longer."""
        if not self._stacks or first.device == CPU or not registry.get(first.model).stacks:
            return
        for _ in range(STACKED_TRIALS - 1):
            asked = self._tuners[first.model].ask_sibling(first.trial)
            if asked is None:
                return
            first.batch = first.trial
            yield self._candidate(first.model, *asked)

    def _candidate(self, model: str, number: int, params: dict[str, Any]) -> Candidate:
        n_pilots = pilots_of(registry.get(model), self._n_folds)
        tuner = self._tuners[model]
        batch = tuner.batch_of(number)
        return Candidate(model, number, params, self._n_folds, n_pilots, device=tuner.device, batch=batch)

    def should_prune(self, candidate: Candidate, step: int, value: float) -> bool:
        """Whether a fit should end, given a point of its learning curve on the early-stopping rows."""
        return self._tuners[candidate.model].should_prune(candidate.trial, step, value)

    def complete(self, candidate: Candidate) -> None:
        """Record a candidate that has all of its folds, and rank the hyperparameters of its model."""
        candidate.status = "complete"
        self._record(candidate)

    def _record(self, candidate: Candidate) -> None:
        tuner = self._tuners[candidate.model]
        score = defined(self._scorer.value(candidate))
        tuner.record(candidate.trial, score)
        self._emit(
            ev.TrialFinished(
                model=candidate.model,
                trial=candidate.trial,
                score=score,
                seconds=round(candidate.seconds, 3),
                params=candidate.params,
            )
        )
        ranked = tuner.rank_parameters()
        if ranked is not None:
            n_trials, shares = ranked
            rows = tuple(
                ev.ParameterImportance(name=name, importance=round(share, 4)) for name, share in shares.items()
            )
            self._emit(ev.ParametersRanked(model=candidate.model, n_trials=n_trials, rows=rows))

    def prune(self, candidate: Candidate, reason: str, score: OptionalScore) -> None:
        """End a candidate that gets no further folds; `score` is on the folds it has, None if there are none or it is undefined."""
        candidate.status, candidate.cause = "pruned", reason
        self._tuners[candidate.model].record_pruned(candidate.trial, reason, score)
        self._emit(
            ev.TrialPruned(
                model=candidate.model, trial=candidate.trial, reason=reason, score=score, params=candidate.params
            )
        )

    def fail(self, candidate: Candidate, reason: str) -> None:
        """End a candidate whose fit failed."""
        candidate.status, candidate.cause = "failed", reason
        self._tuners[candidate.model].record_pruned(candidate.trial, reason)
