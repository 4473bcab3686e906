"""The leaderboard: one row per model, at its best trial, and a row for the ensemble."""

from __future__ import annotations

import math
import time
from collections.abc import Container
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

import numpy as np
from msgspec.structs import replace

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Scorer
from tabapp.engine.fit.summaries import merged
from tabapp.engine.loop.comparing import FEW_RESAMPLES, compare_ensemble
from tabapp.engine.loop.selection import Selected, select_ensemble
from tabapp.engine.loop.time_share import Allowance
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.competition import Competition
from tabapp.engine.schedule.gains import gain_over
from tabapp.ensemble.temperature import load_optimizer
from tabapp.models import registry
from tabapp.models.contract import Floats
from tabapp.policy import POLICY, Policy
from tabapp.run.record import events as ev
from tabapp.run.record.undefined import defined

STOPPED = "stopped by you"
NOT_STARTED = "not started within the budget"
WITHOUT_SCORE = {"ok": 0, "running": 1, "queued": 2, "failed": 3}
"""Order of rows without a score; skipped models come last."""
SELECTION_SHARE, FIRST_SELECTION_SECONDS = 0.006, 0.3
"""Selections during fitting take at most the first share of the elapsed time, plus these seconds: the first candidates change the
ensemble most."""


@dataclass
class Board:
    """Builds the leaderboard rows, and keeps the ensemble up to date in the background."""

    plan: Plan
    competition: Competition
    scorer: Scorer
    policy: Policy = POLICY
    selected: Selected | None = None
    left_out: set[str] = field(default_factory=set[str])
    """Models that the user excludes from the ensemble."""
    only: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The candidates that the ensemble may have; empty for all."""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _selecting: Future[Selected | None] | None = None
    _allowance: Allowance = field(default_factory=lambda: Allowance(SELECTION_SHARE, FIRST_SELECTION_SECONDS))
    _stale: bool = False
    _loads: bool = False
    n_selections: int = 0
    _gains: dict[tuple[tuple[str, int], ...], tuple[object, float]] = field(
        default_factory=dict[tuple[tuple[str, int], ...], tuple[object, float]]
    )

    @property
    def is_selecting(self) -> bool:
        """Whether an ensemble is being selected in the background."""
        return self._selecting is not None

    def mark_stale(self) -> None:
        """Select the ensemble again at the next refresh, since a candidate became complete."""
        self._stale = True

    def refresh(self) -> Selected | None:
        """Start or collect the background selection; returns a new ensemble when one is ready."""
        if self._selecting is not None and self._selecting.done():
            future, self._selecting = self._selecting, None
            self.selected = future.result()
            self.n_selections += 1
            return self.selected
        if self._stale and self._selecting is None and self._allowance.is_left:
            self._stale = False
            complete = [candidate for candidate in self._eligible() if candidate.is_complete]
            if complete:
                self._selecting = self._pool.submit(self._select_for_now, complete)
                if not self._loads and metrics.get(self.plan.metric).is_classification:
                    # The end of the run should not wait for it.
                    self._loads = True
                    self._pool.submit(load_optimizer)
        return None

    def _select_for_now(self, complete: list[Candidate]) -> Selected | None:
        began = time.thread_time()
        try:
            # The best of each model may leave no room for others: the members would lose their places to single better trials.
            selected = self._select(complete, is_final=False, kept=frozenset(self.weights()))
            return None if selected is None else self._compared(selected, complete)
        finally:
            self._allowance.spend(time.thread_time() - began)

    def _compared(self, selected: Selected, complete: list[Candidate]) -> Selected:
        """An ensemble of the moment, with its difference from the best single model."""
        best = min(complete, key=lambda candidate: (self.scorer.loss(candidate), candidate.key))
        found = compare_ensemble(
            selected,
            [best],
            self.scorer,
            self.plan.metric,
            identity=selected.identity,
            seed=self.plan.seed,
            n_resamples=FEW_RESAMPLES,
        )
        return replace_fields(selected, compared=found)

    def compare_now(self, deadline: float | None) -> ev.EnsembleCompared | None:
        """The ensemble compared with the best trial of each model, the best first."""
        if self.selected is None:
            return None
        best = [self.competition.best_of(name) for name in self.competition.models]
        ordered = sorted((c for c in best if c is not None), key=lambda c: (self.scorer.loss(c), c.key))
        plan = self.plan
        return compare_ensemble(
            self.selected,
            ordered,
            self.scorer,
            plan.metric,
            identity=self.selected.identity,
            seed=plan.seed,
            deadline=deadline,
        )

    def select_now(self) -> Selected | None:
        """Select the ensemble from all candidates, and wait for it."""
        self._pool.shutdown(wait=True)
        self.selected = self._select(self._eligible())
        return self.selected

    def score_rows(self) -> None:
        """Compute the scores that the rows of the final leaderboard have, which takes a second on large tables."""
        best = (self.competition.best_of(name) for name in self.competition.models)
        for candidate in best:
            if candidate is not None:
                self.scorer.score(candidate)

    def _select(
        self, candidates: list[Candidate], *, is_final: bool = True, kept: Container[tuple[str, int]] = ()
    ) -> Selected | None:
        plan = self.plan
        return select_ensemble(
            candidates, self.scorer, plan.metric, plan.seed, is_final=is_final, kept=kept, policy=self.policy
        )

    def weights(self) -> dict[tuple[str, int], float]:
        """Weight of each member of the current ensemble by model and trial."""
        return {} if self.selected is None else {candidate.key: weight for candidate, weight in self.selected.members}

    def gain(self, candidate: Candidate, beside: tuple[Candidate, ...] = ()) -> float:
        """How much lower the error of the current ensemble is with a candidate, as a share of the error: the difference of its
        score to 1, or the score itself if lower is better. It is measured on the rows of the candidate's folds.

        Without an ensemble, the best other candidate on these rows takes its place; infinite without that. Where the metric is
        undefined on the rows, or neither has an error there, just as much as all time is worth.

        Args:
            beside: candidates that join the ensemble first, if it has a score.
        """
        beside = beside if self.selected is not None else ()
        keys = tuple(c.key for c in (candidate, *beside))
        state = tuple(len(c.results) for c in (candidate, *beside)), self._state_of_rivals()
        known = self._gains.get(keys)
        if known is None or known[0] != state:
            known = self._gains[keys] = state, self._measured_gain(candidate, beside)
        return known[1]

    def _state_of_rivals(self) -> object:
        """Identifies what the gain of a candidate is measured against."""
        if self.selected is not None:
            return self.n_selections
        return tuple((candidate.key, len(candidate.results)) for candidate in self.competition.candidates.values())

    def _measured_gain(self, candidate: Candidate, beside: tuple[Candidate, ...]) -> float:
        prediction, covered = self.scorer.out_of_fold(candidate)
        if self.selected is not None:
            blended = np.zeros(prediction.shape, dtype=prediction.dtype)
            blended[self.selected.covered] = self.selected.blend
            rows = self.selected.covered & covered
            joining: list[Floats] = []
            for other in beside:
                other_prediction, other_covered = self.scorer.out_of_fold(other)
                if (rows & other_covered).any():
                    rows &= other_covered
                    joining.append(other_prediction)
            rivals = [([blended, *joining], rows)]
        else:
            others = (c for c in self.competition.candidates.values() if c.results and c is not candidate)
            rivals = [([values], rows & covered) for values, rows in map(self.scorer.out_of_fold, others)]
        gains = [
            gain_over(known, prediction, rows, self.scorer, self.plan.metric, self.plan.seed)
            for known, rows in rivals
            if rows.any()
        ]
        known_gains = [gain for gain in gains if not math.isnan(gain)]
        return min(known_gains, default=self.policy.gain_of_all_time if gains else math.inf)

    def _eligible(self) -> list[Candidate]:
        """The candidates that may join the ensemble: all of them if the user excludes every model that has a score."""
        usable = (candidate for candidate in self.competition.candidates.values() if candidate.has_models)
        candidates = [candidate for candidate in usable if not self.only or candidate.key in self.only]
        wanted = [candidate for candidate in candidates if candidate.model not in self.left_out]
        return wanted if any(candidate.results for candidate in wanted) else candidates

    def rows(self, activity: dict[str, str], *, over: bool = False) -> tuple[ev.LeaderboardRow, ...]:
        """The leaderboard: the ensemble, then the models, best first.

        A model may have a better score than the ensemble by chance, since its best trial is selected on the rows that score it.

        Args:
            activity: describes the running fits of each model.
            over: nothing more will run.
        """
        weights: dict[str, float] = {}
        if self.selected is not None:
            for candidate, weight in self.selected.members:
                weights[candidate.model] = weights.get(candidate.model, 0.0) + weight
        offered = [model.name for model in self.plan.models if model.is_offered]
        rows = [self._model_row(name, activity.get(name, ""), weights, over) for name in offered]
        if self.selected is not None:
            rows.append(self._ensemble_row(self.selected))
        greater = metrics.get(self.plan.metric).greater_is_better

        def order(row: ev.LeaderboardRow) -> tuple[bool, bool, int, float, str]:
            if row.score is None:
                return True, True, WITHOUT_SCORE.get(row.status, len(WITHOUT_SCORE)), 0.0, row.model
            return False, row.model != "ensemble", -row.folds, -row.score if greater else row.score, row.model

        rows.sort(key=order)
        ranked: list[ev.LeaderboardRow] = []
        for rank, row in enumerate(rows, start=1):
            ranked.append(replace(row, rank=rank if row.score is not None else 0))
        return tuple(ranked)

    def _ensemble_row(self, selected: Selected) -> ev.LeaderboardRow:
        members = [candidate for candidate, _ in selected.members]
        n_models = len(members)
        return ev.LeaderboardRow(
            rank=0,
            model="ensemble",
            title=f"Ensemble of {n_models}" if n_models > 1 else "Ensemble (best single)",
            family="ensemble",
            score=defined(selected.score.value),
            low=defined(selected.score.low),
            high=defined(selected.score.high),
            folds=len(members[0].results),
            trials=len([c for c in self.competition.candidates.values() if c.status in ("complete", "pruned")]),
            fit_seconds=round(sum(candidate.seconds for candidate in members), 3),
            predict_ms_per_1k=_total([predict_ms_per_1k(candidate) for candidate in members]),
            status="ok",
            reason=_partial(members[0]),
            in_ensemble=1.0,
            identity=selected.identity,
        )

    def _model_row(self, name: str, activity: str, weights: dict[str, float], over: bool) -> ev.LeaderboardRow:
        planned = next(model for model in self.plan.models if model.name == name)
        row = ev.LeaderboardRow(rank=0, model=name, title=planned.title, family=planned.family, activity=activity)
        if planned.reason is not None:
            return replace(row, status="skipped", reason=planned.reason)
        record = self.competition.models.get(name)
        if record is None and over:
            return replace(row, status="skipped", reason=NOT_STARTED, not_started=True)
        if record is None:
            return row
        candidates = self.competition.of_model(name)
        row = replace(
            row,
            trials=sum(candidate.status != "active" for candidate in candidates),
            held="stopped" if record.stopped else "paused" if record.paused and not over else "",
            share=record.share,
            left_out=name in self.left_out,
        )
        best = self.competition.best_of(name)
        failed = [candidate for candidate in candidates if candidate.status == "failed"]
        if best is None and failed and not activity:
            return replace(row, status="failed", reason=failed[-1].cause, trial=failed[-1].trial)
        if best is None and record.stopped and not activity:
            return replace(row, status="skipped", reason=STOPPED)
        if best is None and over and not candidates:
            return replace(row, status="skipped", reason=NOT_STARTED, not_started=True)
        if best is None and over:
            return replace(row, status="skipped", reason="the run ended during its first fold")
        if best is None:
            return replace(row, status="running" if activity else "queued")
        score = self.scorer.score(best, exact=over)
        undefined = f"{metrics.get(self.plan.metric).title} is undefined on its rows" if math.isnan(score.value) else ""
        reasons = list(filter(None, [_partial(best), undefined]))
        reasons += [f"trial {candidate.trial} failed: {candidate.cause}" for candidate in failed[-1:]]
        reasons += [STOPPED] if record.stopped else []
        return replace(
            row,
            score=defined(score.value),
            low=defined(score.low),
            high=defined(score.high),
            folds=len(best.results),
            trial=best.trial,
            fit_seconds=round(best.seconds, 3),
            predict_ms_per_1k=predict_ms_per_1k(best),
            status="running" if activity else "ok",
            reason="; ".join(reasons) or None,
            in_ensemble=round(weights.get(name, 0.0), 6),
            params=best.params,
            summary=merged([result.summary for _, result in sorted(best.results.items())]),
            identity=best.identity,
        )


def _partial(candidate: Candidate) -> str | None:
    """The folds of a candidate that lacks some, in words."""
    return None if candidate.is_complete else f"{len(candidate.results)} of {candidate.n_folds} folds"


def predict_ms_per_1k(candidate: Candidate) -> float:
    """Milliseconds to predict 1,000 rows with the models of a candidate in a bundle, measured on its held-out rows."""
    models = len(candidate.results) if registry.trains_nothing(candidate.model) else 1
    return round(1e6 * candidate.seconds_of_row / max(1, models), 3)


def _total(values: list[float]) -> float:
    return round(sum(values), 3)
