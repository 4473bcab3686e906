"""Candidates: a model with fixed hyperparameters, its folds, and its out-of-fold score."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.fit.jobs import FitResult, decode_result
from tabapp.engine.fit.run_data import RunData
from tabapp.models.contract import STEP_ROWS, Float32, Floats, Plugin
from tabapp.run.record.folder import RunFolder

REMOVED = "removed"
"""In the folder of a fit, an empty folder in place of a model that no ensemble can have."""

CandidateStatus = Literal["active", "complete", "pruned", "failed"]

MOST_KEPT_BYTES = 64 * 2**20
"""Predictions that stay in memory: every decision of the scheduler compares those of several candidates."""
PILOT_FOLDS, PILOTS_OF_MANY_FOLDS = 2, 3
"""Folds that find the number of steps of a candidate, which its other folds reuse; the second value is for more than five folds.
`benchmarks/results/early_stopping.json` has the test error of boosters with other numbers of pilots. On concrete, german_credit,
pima_diabetes and auto_mpg, reuse changed the test error of MLP to 0.976 and of TabM to 0.989 times that of early stopping in each
fold, and of RealMLP, which has a schedule, to 1.02.
"""


def digest(*parts: object) -> str:
    """A short digest of the texts of values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def pilots_of(plugin: Plugin, n_folds: int) -> int:
    """Number of folds that find the number of steps of a model for the others; 0 if each finds its own."""
    return min(n_folds, PILOT_FOLDS if n_folds <= 5 else PILOTS_OF_MANY_FOLDS) if plugin.reuses_steps else 0


@dataclass
class Candidate:
    """One trial of one model.

    Attributes:
        n_pilots: the first folds, whose numbers of steps the others reuse; 0 if each finds its own.
        results: complete fits by fold.
        further: complete fits of further seeds by fold, whose predictions are averaged with those of `results`.
        device: the device that its hyperparameters were chosen for, on which all of its fits run.
        status: active while more folds are wanted.
        cause: reason why it was pruned or failed.
        fits_alone: a group of its folds failed, so that they are trained one by one.
        batch: number of the trial whose first fold trains together with that of this one, and of others; None if it trains alone.
        fits: the folder of its fits; None for that of the run.
        has_models: False if the models of its fits were removed, because no ensemble can have them.
    """

    model: str
    trial: int
    params: dict[str, Any]
    n_folds: int
    n_pilots: int = 0
    results: dict[int, FitResult] = field(default_factory=dict[int, FitResult])
    further: tuple[dict[int, FitResult], ...] = ()
    status: CandidateStatus = "active"
    cause: str = ""
    device: str = "cpu"
    retried: bool = False
    n_lost: int = 0
    fits_alone: bool = False
    batch: int | None = None
    fits: Path | None = None
    has_models: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.model, self.trial

    @property
    def is_complete(self) -> bool:
        """Whether every fold has a fit."""
        return len(self.results) == self.n_folds

    @property
    def fold_scores(self) -> dict[int, float]:
        """The score on each complete fold where the metric is defined."""
        return {fold: result.score for fold, result in self.results.items() if result.score is not None}

    @property
    def seconds(self) -> float:
        """Training time of all folds and seeds together."""
        return sum(result.seconds for results in (self.results, *self.further) for result in results.values())

    @property
    def seconds_of_row(self) -> float:
        """Seconds in which the models of all folds and seeds predict a row, by the time that their held-out rows took."""
        fits = (result for results in (self.results, *self.further) for result in results.values())
        return sum(fit.predict_seconds / max(1, fit.n_rows) for fit in fits)

    @property
    def seeds(self) -> int:
        """Number of seeds whose predictions are averaged."""
        return 1 + len(self.further)

    @property
    def n_fits(self) -> int:
        """Number of fits that its predictions come from."""
        return len(self.results) * self.seeds

    @property
    def missing_folds(self) -> list[int]:
        """Folds without a fit, in order."""
        return [fold for fold in range(self.n_folds) if fold not in self.results]

    def can_start(self, fold: int) -> bool:
        """Whether the pilots of a fold are complete. Otherwise its fit would depend on the order of fits."""
        return fold < self.n_pilots or all(pilot in self.results for pilot in range(self.n_pilots))

    @property
    def step_rows(self) -> int | None:
        """Rows whose gradients fit in memory together, if the first fold ran out of it. Other folds do not count, since their order
        depends on the number of workers."""
        return self.results[0].summary.get(STEP_ROWS) if 0 in self.results else None

    def group_of(self, fold: int, open_folds: Iterable[int]) -> tuple[int, ...]:
        """The other open folds that can be trained together with one: those that stop early if it does, else those that reuse its
        numbers of steps. Empty for the first fit, which decides whether there are others."""
        if not self.results or self.fits_alone or self.step_rows is not None:
            return ()
        is_pilot = fold < self.n_pilots
        alike = (other for other in open_folds if other != fold and (other < self.n_pilots) == is_pilot)
        return tuple(other for other in alike if self.can_start(other))

    def pilots_of(self, fold: int) -> tuple[FitResult, ...]:
        """The fits whose numbers of steps the fit on a fold reuses."""
        return () if fold < self.n_pilots else tuple(self.results[pilot] for pilot in range(self.n_pilots))

    @property
    def identity(self) -> str:
        """A digest of its out-of-fold predictions, by the folds and their scores."""
        scores = sorted((fold, result.score) for fold, result in self.results.items())
        return digest(self.model, self.trial, scores, *([self.seeds] if self.further else []))

    def fit_name(self, fold: int, seed: int = 0) -> str:
        """The id of the fit on a fold with a seed, unique in the run."""
        return fit_name(self.model, self.trial, fold, seed)

    @property
    def fit_names(self) -> list[str]:
        """The ids of its complete fits, of all folds and seeds."""
        return [self.fit_name(fold, seed) for fold in self.results for seed in range(self.seeds)]

    def place(self, run: RunFolder, fold: int, seed: int = 0) -> Path:
        """The folder of the fit on a fold with a seed."""
        return (self.fits or run.fits) / self.fit_name(fold, seed)

    def remove_models(self, run: RunFolder) -> None:
        """Remove the models of its fits. What cannot be removed stays; the run does not need the space at once."""
        self.has_models = False
        for place in (self.place(run, fold, seed) for fold in self.results for seed in range(self.seeds)):
            with contextlib.suppress(OSError):
                (place / "model").rename(place / REMOVED)
                for path in (place / REMOVED).iterdir():
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink()

    def out_of_fold(self, run: RunFolder, fold: int) -> Floats:
        """Predictions of the held-out rows of a fold, averaged over the seeds."""
        places = (self.place(run, fold, seed) / "oof.npy" for seed in range(self.seeds))
        return mean_of_seeds([np.load(place, allow_pickle=False) for place in places])


def fit_name(model: str, trial: int, fold: int, seed: int = 0) -> str:
    """The id of a fit, unique in the run."""
    return f"{model}-{trial:04d}-f{fold}" + (f"s{seed}" if seed else "")


def mean_of_seeds(predictions: Sequence[Floats]) -> Floats:
    """The mean of the predictions of several seeds, in their type."""
    first = predictions[0]
    return first if len(predictions) == 1 else np.stack(predictions).mean(axis=0, dtype=np.float64).astype(first.dtype)


@dataclass(frozen=True)
class Score:
    """An out-of-fold score with its 95 % bootstrap interval, on the rows that the candidate's folds cover; NaN where the metric is
    undefined."""

    value: float
    low: float
    high: float


class Scorer:
    """Out-of-fold predictions and scores of candidates, cached until their folds change."""

    def __init__(self, folder: RunFolder, data: RunData, metric: str, seed: int) -> None:
        self._folder = folder
        self._data = data
        self._metric = metric
        self._seed = seed
        self._values: dict[tuple[str, int], tuple[int, float]] = {}
        self._known: dict[tuple[tuple[str, int], bool], tuple[int, Score]] = {}
        """Scores by candidate and whether their intervals are exact, with the number of fits."""
        self.target: npt.NDArray[np.int64] | npt.NDArray[np.float64] = data.scored.of(data.target)
        """Target of the scored rows."""
        self.weight: Float32 | None = data.scored.of(data.weight)
        """Weights of the scored rows, or None."""
        self.groups: npt.NDArray[np.int64] | None = data.scored.of(data.groups)
        """Groups of the scored rows, or None."""
        self.folds: npt.NDArray[np.int16] = data.scored.of(data.fold)
        """Folds of the scored rows."""
        self.classes = data.schema.classes
        """Labels of the target; empty for regression."""
        self._read: dict[tuple[str, int], tuple[int, Floats, npt.NDArray[np.bool_]]] = {}
        """Predictions that were read, with the number of their fits, the least recent first."""
        self._lock = Lock()
        self._compared: dict[tuple[tuple[str, int], ...], tuple[tuple[int, int], bool]] = {}

    def out_of_fold(self, candidate: Candidate) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Out-of-fold predictions of the scored rows, and a mask of the rows that the candidate's folds cover; both read-only."""
        known = self._read.get(candidate.key)
        if known is None or known[0] != candidate.n_fits:
            known = candidate.n_fits, *self._read_folds(candidate)
        # An ensemble is selected in a thread of its own.
        with self._lock:
            self._read.pop(candidate.key, None)
            self._read[candidate.key] = known
            while sum(prediction.nbytes for _, prediction, _ in self._read.values()) > MOST_KEPT_BYTES:
                self._read.pop(next(iter(self._read)))
        return known[1], known[2]

    def _read_folds(self, candidate: Candidate) -> tuple[Floats, npt.NDArray[np.bool_]]:
        covered = np.zeros(len(self.target), dtype=bool)
        prediction: Floats | None = None
        parts = {fold: candidate.out_of_fold(self._folder, fold) for fold in sorted(candidate.results)}
        for fold, part in parts.items():
            if prediction is None:
                prediction = np.zeros((len(self.target), *part.shape[1:]), dtype=np.result_type(*parts.values()))
            rows = self._data.among_scored(self._data.held_out(fold))
            rows.put(prediction, part)
            covered |= self.folds == fold
        if prediction is None:
            raise ValueError(f"{candidate.key} has no complete fold")
        prediction.setflags(write=False)
        covered.setflags(write=False)
        return prediction, covered

    def value(self, candidate: Candidate) -> float:
        """The candidate's score on the rows that its folds cover; NaN if the metric is undefined there."""
        known = self._values.get(candidate.key)
        if known is not None and known[0] == candidate.n_fits:
            return known[1]
        value = metrics.score(self._metric, *self._rows_of(candidate))
        self._values[candidate.key] = candidate.n_fits, value
        return value

    def score(self, candidate: Candidate, *, exact: bool = True) -> Score:
        """The candidate's score with its interval, which takes a hundred times as long; on large tables, it is approximate and
        takes less if it does not need to be exact."""
        key = candidate.key, exact
        known = self._known.get(key)
        if known is not None and known[0] == candidate.n_fits:
            return known[1]
        value = self.value(candidate)
        interval = metrics.interval if exact else partial(metrics.approximate_interval, value=value)
        score = Score(value, *interval(self._metric, *self._rows_of(candidate), seed=self._seed))
        self._known[key] = candidate.n_fits, score
        return score

    def _rows_of(self, candidate: Candidate) -> tuple[npt.NDArray[Any], Floats, Float32 | None]:
        """Target, predictions and weights of the rows that the candidate's folds cover."""
        prediction, covered = self.out_of_fold(candidate)
        return self.target[covered], prediction[covered], None if self.weight is None else self.weight[covered]

    def clearly_behind(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether a candidate is worse than another and their 95 % intervals, on the rows that both cover, do not overlap."""
        key, folds = (candidate.key, other.key), (candidate.n_fits, other.n_fits)
        known = self._compared.get(key)
        if known is not None and known[0] == folds:
            return known[1]
        (prediction, covered), (other_prediction, other_covered) = self.out_of_fold(candidate), self.out_of_fold(other)
        both = covered & other_covered
        truth, weight = self.target[both], None if self.weight is None else self.weight[both]

        def interval(values: Floats) -> tuple[float, float]:
            return metrics.interval(self._metric, truth, values[both], weight, seed=self._seed)

        (low, high), (other_low, other_high) = interval(prediction), interval(other_prediction)
        behind = high < other_low if metrics.get(self._metric).greater_is_better else low > other_high
        self._compared[key] = folds, behind
        return behind

    def loss(self, candidate: Candidate) -> float:
        """The candidate's score, negated if greater is better; infinite where the metric is undefined."""
        return metrics.get(self._metric).as_loss(self.value(candidate))


def read_results(folder: RunFolder, candidate: Candidate) -> None:
    """Read the complete fits of a candidate that an earlier session left."""
    for result in saved_results(folder, candidate, range(candidate.n_folds)):
        candidate.results[result.fold] = result
    candidate.has_models = not any((candidate.place(folder, fold) / REMOVED).exists() for fold in candidate.results)


def read_further_seeds(folder: RunFolder, candidate: Candidate, n_seeds: int) -> None:
    """Read the fits of the further seeds of a candidate that an ensemble averages.

    Raises:
        ValueError: one is missing.
    """
    further: list[dict[int, FitResult]] = []
    for seed in range(1, n_seeds):
        results = {result.fold: result for result in saved_results(folder, candidate, candidate.results, seed)}
        if len(results) < len(candidate.results):
            raise ValueError(f"{candidate.model} #{candidate.trial} lacks a fit of its seed {seed + 1}")
        further.append(results)
    candidate.further = tuple(further)


def saved_results(folder: RunFolder, candidate: Candidate, folds: Iterable[int], seed: int = 0) -> list[FitResult]:
    """The results of those folds of a candidate whose folders are complete."""
    paths = (candidate.place(folder, fold, seed) / "metrics.json" for fold in folds)
    return [decode_result(path.read_bytes()) for path in paths if path.is_file()]
