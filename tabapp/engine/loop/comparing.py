"""The ensemble compared with single models and with the best constant prediction, on the rows that both score."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Scorer
from tabapp.ensemble.averaging import Averaging
from tabapp.metrics.metric import Metric
from tabapp.models.contract import Floats
from tabapp.run.record import events as ev
from tabapp.run.record.undefined import defined

RESAMPLES, FEW_RESAMPLES = 200, 50
"""Bootstrap resamples at the end of a run, and while it selects ensembles that are replaced soon."""
MOST_ROWS = 4_000
"""Rows that are resampled. A standard error is in proportion to one over the square root of the rows."""

Array = npt.NDArray[Any]


class Ensemble(Protocol):
    """What is compared: the out-of-fold predictions of the `covered` rows, and how its fold models are averaged."""

    @property
    def prediction(self) -> Floats: ...
    @property
    def covered(self) -> npt.NDArray[np.bool_]: ...
    @property
    def averaging(self) -> Averaging: ...


def compare_ensemble(
    selected: Ensemble,
    candidates: Sequence[Candidate],
    scorer: Scorer,
    metric: str,
    *,
    identity: str,
    seed: int,
    n_resamples: int = RESAMPLES,
    deadline: float | None = None,
) -> ev.EnsembleCompared:
    """Compare the out-of-fold predictions of the ensemble with the best constant, then with those of candidates, in their order.

    Candidates that do not cover the same rows are left out.

    Args:
        identity: that of the row of the ensemble on the leaderboard.
        deadline: `time.monotonic()` after which no further candidate is compared.
    """
    covered = selected.covered
    truth = scorer.target[covered]
    weight = None if scorer.weight is None else scorer.weight[covered]
    paired = _Paired(metrics.get(metric), truth, weight, selected, seed, n_resamples)
    what, constant = best_constant(paired.metric, truth, weight, scorer.classes)
    rows = [paired.difference(constant, model=ev.BASELINE, what=what)]
    for candidate in candidates:
        if deadline is not None and time.monotonic() > deadline:
            break
        prediction, own = scorer.out_of_fold(candidate)
        if (own & covered).sum() == covered.sum():
            names = {"model": candidate.model, "trial": candidate.trial, "identity": candidate.identity}
            rows.append(paired.difference(prediction[covered], **names))
    known = tuple(row for row in rows if row is not None)
    return ev.EnsembleCompared(identity=identity, n_rows=len(truth), rows=known)


class _Paired:
    """Differences of scores from that of an ensemble, each by the same resamples of the rows.

    The score of the ensemble is the one that is shown: that of the mean of its fold models, if the gain of the mean is known.
    """

    def __init__(
        self, metric: Metric, truth: Array, weight: Array | None, selected: Ensemble, seed: int, n_resamples: int
    ) -> None:
        self.metric, self._truth, self._weight = metric, truth, weight
        generator = np.random.default_rng(seed)
        n_rows = min(len(truth), MOST_ROWS)
        self._rows = np.sort(generator.choice(len(truth), n_rows, replace=False))
        base = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)[self._rows]
        self._drawn = [
            base * np.bincount(generator.integers(0, n_rows, n_rows), minlength=n_rows) for _ in range(n_resamples)
        ]
        expected = partial(selected.averaging.score, metric.name)
        self._score = expected(self._value(selected.prediction))
        self._error = selected.averaging.error_of(metric.name, self._value(selected.prediction))
        self._scores = np.array([expected(float(each)) for each in self._resampled(selected.prediction)])

    def _value(self, prediction: Array) -> float:
        return self.metric.value(self._truth, prediction, self._weight)

    def _resampled(self, prediction: Array) -> Array:
        function = self.metric.resampled(self._truth[self._rows], prediction[self._rows])
        return np.array([function(drawn) if drawn.sum() > 0 else math.nan for drawn in self._drawn])

    def difference(self, prediction: Array, **names: Any) -> ev.PairedDifference | None:
        """How much better the first prediction is than another; None where the metric is undefined."""
        score, sign = self._value(prediction), 1.0 if self.metric.greater_is_better else -1.0
        differences = sign * (self._scores - self._resampled(prediction))
        known = differences[np.isfinite(differences)]
        advantage = sign * (self._score - score)
        if math.isnan(advantage) or len(known) < 2:
            return None
        error = float(np.std(known, ddof=1)) * math.sqrt(len(self._rows) / len(self._truth))
        margin = metrics.Z95 * math.hypot(error, self._error)
        return ev.PairedDifference(
            **names, score=defined(score), advantage=advantage, low=advantage - margin, high=advantage + margin
        )


def best_constant(
    metric: Metric, truth: Array, weight: Array | None, classes: Sequence[str]
) -> tuple[str, npt.NDArray[np.float64]]:
    """What predicts best without any column, in words, and its predictions: the same for each row."""
    constants = list(_constants(truth, weight, classes))
    return min(constants, key=lambda each: metric.as_loss(metric.value(truth, each[1], weight)))


def _constants(
    truth: Array, weight: Array | None, classes: Sequence[str]
) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    shares = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not classes:
        values = np.asarray(truth, dtype=np.float64)
        by_value = np.argsort(values)
        half = np.searchsorted(np.cumsum(shares[by_value]), shares.sum() / 2)
        yield "the mean", np.full(len(truth), np.average(values, weights=shares))
        yield "the median", np.full(len(truth), values[by_value[min(int(half), len(values) - 1)]])
        return
    frequencies = np.bincount(truth, weights=shares, minlength=len(classes)) / shares.sum()
    yield "the share of each class", np.tile(frequencies, (len(truth), 1))
    # The most frequent class is the one that its shares predict.
    for code in range(2 if len(classes) == 2 else 0):
        yield f"class {classes[code]}", np.tile(np.eye(2)[code], (len(truth), 1))
