"""An ensemble of candidates, and its selection."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tabapp.engine.fit.candidates import Candidate, Score, Scorer, digest
from tabapp.ensemble.averaging import NO_AVERAGING, Averaging
from tabapp.ensemble.calibration import Calibration, ClassScaling
from tabapp.ensemble.greedy import cross_fitted
from tabapp.ensemble.scaling import of_mean
from tabapp.ensemble.temperature import HIGHEST, LOWEST
from tabapp.models.contract import Floats
from tabapp.policy import POLICY, Policy
from tabapp.run.record import events as ev
from tabapp.run.record.undefined import defined

LEAST_CHANGE = 0.005
"""Smallest difference of a temperature to 1 that is stored."""


@dataclass(frozen=True)
class Selected:
    """An ensemble: members with positive weights that sum to 1, its cross-fitted score, and its out-of-fold predictions of the
    `covered` rows (a mask over the scored rows), which are its `blend` with its `calibration`.

    Its score and the calibration of its bundle are those of the mean of its fold models once the gain of the mean is known.
    `compared` compares it with the best single model.
    """

    members: tuple[tuple[Candidate, float], ...]
    score: Score
    prediction: Floats
    covered: npt.NDArray[np.bool_]
    blend: Floats
    calibration: Calibration | None = None
    averaging: Averaging = NO_AVERAGING
    compared: ev.EnsembleCompared | None = None

    def averaged(self, averaging: Averaging, metric: str) -> Selected:
        """The ensemble with the score that is expected of the mean of its fold models."""
        score = Score(*averaging.interval(metric, self.score.value, self.score.low, self.score.high))
        return replace_fields(self, score=score, averaging=averaging)

    @property
    def fits(self) -> list[str]:
        """Ids of the fits of all members."""
        return [name for candidate, _ in self.members for name in candidate.fit_names]

    @cached_property
    def identity(self) -> str:
        """A digest of its members and its predictions, which those of its fold models' mean share."""
        members = [(candidate.identity, weight) for candidate, weight in self.members]
        content = hashlib.sha256(np.ascontiguousarray(self.prediction).data).hexdigest()
        return digest(members, self.calibration, content)

    @property
    def calibration_of_mean(self) -> Calibration | None:
        """The calibration of the mean of the fold models, for new rows; None for none."""
        if isinstance(self.calibration, ClassScaling):
            return of_mean(self.calibration, self.averaging.temperature)
        if self.blend.ndim == 1:
            return None
        value = (self.calibration or 1.0) * self.averaging.temperature
        value = min(max(value, LOWEST), HIGHEST)
        return None if abs(value - 1.0) < LEAST_CHANGE else round(value, 4)

    def event(self) -> ev.EnsembleChanged:
        """The ensemble as an event."""
        return ev.EnsembleChanged(
            members=tuple(
                ev.EnsembleMember(
                    model=candidate.model, trial=candidate.trial, weight=round(weight, 6), seeds=candidate.seeds
                )
                for candidate, weight in self.members
            ),
            score=defined(self.score.value),
            low=defined(self.score.low),
            high=defined(self.score.high),
            identity=self.identity,
            folds=len(self.members[0][0].results),
        )


def select_ensemble(
    candidates: list[Candidate],
    scorer: Scorer,
    metric: str,
    seed: int,
    *,
    is_final: bool = True,
    kept: Container[tuple[str, int]] = (),
    policy: Policy = POLICY,
) -> Selected | None:
    """Select an ensemble from the candidates that cover the most folds; None if no candidate has a fold.

    The result does not depend on the order of the candidates.

    Args:
        is_final: False takes a tenth of the time: fewer candidates, rounds and rows, and no calibration.
        kept: models and trials that are among the candidates if they are usable.
    """
    scored = [candidate for candidate in candidates if candidate.results]
    if not scored:
        return None
    most = max(len(candidate.results) for candidate in scored)
    folds = max((tuple(sorted(c.results)) for c in scored if len(c.results) == most), key=lambda folds: -folds[0])
    usable = [candidate for candidate in scored if tuple(sorted(candidate.results)) == folds]
    most_candidates = policy.ensemble_candidates if is_final else policy.interim_candidates
    usable = best_of_all_models(sorted(usable, key=lambda c: (scorer.loss(c), c.key)), most_candidates, kept)
    predictions: list[Floats] = []
    covered = scorer.out_of_fold(usable[0])[1]
    for candidate in usable:
        predictions.append(scorer.out_of_fold(candidate)[0][covered])
    weight, groups = scorer.weight, scorer.groups
    result = cross_fitted(
        predictions,
        scorer.target[covered],
        metric,
        weight=None if weight is None else weight[covered],
        groups=None if groups is None else groups[covered],
        seed=seed,
        is_final=is_final,
        policy=policy,
    )
    members = tuple((candidate, float(w)) for candidate, w in zip(usable, result.weights, strict=True) if w > 0)
    score = Score(result.score, result.low, result.high)
    return Selected(members, score, result.prediction, covered, result.blend, result.calibration)


def best_of_all_models(candidates: list[Candidate], n: int, kept: Container[tuple[str, int]] = ()) -> list[Candidate]:
    """The first n candidates, in their order, but the first of each model before others of the same models; and those that are
    kept."""
    firsts: dict[str, Candidate] = {}
    for candidate in candidates:
        firsts.setdefault(candidate.model, candidate)
    others = (candidate for candidate in candidates if firsts[candidate.model] is not candidate)
    chosen = {candidate.key for candidate in [*firsts.values(), *others][:n]}
    return [candidate for candidate in candidates if candidate.key in chosen or candidate.key in kept]
