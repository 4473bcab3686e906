"""Plots of out-of-fold predictions: confusion matrix, ROC and precision-recall curves, calibration, residuals; as small tuples.

A model that was not trained on a row predicts it. Curves have at most `MOST_POINTS` points, evenly spaced along their length, which
keeps the shape of steep and flat parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.findings import ReliabilityBin, ResidualBand
from tabapp.metrics import Z95

Array = npt.NDArray[Any]
Curve = tuple[tuple[float, float], ...]

MOST_POINTS = 64
MOST_CLASSES = 30
OTHER = "other"
N_BINS = 10
N_DENSITY = 32
LEAST_RESIDUAL_BINS, MOST_RESIDUAL_BINS = 8, 40
"""Limits of the number of bins, which is twice the cube root of the rows (Rice's rule)."""
FAR = (0.005, 0.995)
"""Quantiles beyond which values count in the outermost bins, so that a few outliers do not put all other rows in one bin."""


@dataclass(frozen=True)
class Residuals:
    """Truth minus prediction: `counts` in equal bins of `span`, the 5, 25, 50, 75 and 95 % quantiles, and bands."""

    counts: tuple[int, ...]
    span: tuple[float, float]
    quantiles: tuple[float, ...]
    bands: tuple[ResidualBand, ...]


def sample_rows(n_rows: int, most: int, seed: int) -> npt.NDArray[np.intp] | slice:
    """All rows, or a seeded sample of `most` of them in ascending order."""
    if n_rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def rounded(value: float) -> float:
    """Round to four significant digits, enough for a plot."""
    return float(f"{value:.4g}")


FoundT = TypeVar("FoundT")


def with_rounded(found: FoundT) -> FoundT:
    """A finding, or a tuple of findings, with `rounded` numbers."""
    return cast("FoundT", _rounded(found))


def _rounded(value: object) -> object:
    match value:
        case float():
            return rounded(value)
        case tuple():
            return tuple(map(_rounded, cast("tuple[object, ...]", value)))
        case msgspec.Struct():
            return msgspec.structs.replace(
                value, **{name: _rounded(each) for name, each in msgspec.structs.asdict(value).items()}
            )
        case _:
            return value


def confusion(
    truth: Array, prediction: Array, classes: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Labels, and the confusion matrix by true class (rows) and predicted class (columns).

    With more than `MOST_CLASSES` classes, the rarest are merged into "other".
    """
    n_classes = prediction.shape[1]
    chosen = prediction.argmax(axis=1)
    matrix = np.bincount(truth.astype(np.int64) * n_classes + chosen, minlength=n_classes**2)
    matrix = matrix.reshape(n_classes, n_classes)
    labels = classes
    if n_classes > MOST_CLASSES:
        order = np.argsort(-matrix.sum(axis=1), kind="stable")
        kept, rest = np.sort(order[: MOST_CLASSES - 1]), order[MOST_CLASSES - 1 :]
        place = np.full(n_classes, MOST_CLASSES - 1)
        place[kept] = np.arange(len(kept))
        small = np.zeros((MOST_CLASSES, MOST_CLASSES), dtype=np.int64)
        np.add.at(small, (place[:, None], place[None, :]), matrix)
        matrix, labels = small, (*(classes[code] for code in kept), f"{OTHER} {len(rest)}")
    return labels, tuple(tuple(map(int, row)) for row in matrix)


def _counts_by_threshold(positive: Array, score: Array) -> tuple[Array, Array]:
    """True and false positives for each threshold, highest threshold first, starting at (0, 0)."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    hits = np.cumsum(positive[order])[ends]
    return np.r_[0, hits], np.r_[0, ends + 1 - hits]


def _thinned(x: Array, y: Array) -> Curve:
    """At most `MOST_POINTS` points, evenly spaced along the curve, including its ends."""
    length = np.r_[0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))]
    if len(x) > MOST_POINTS:
        steps = np.linspace(0.0, length[-1], MOST_POINTS)
        kept = np.unique(np.clip(np.searchsorted(length, steps), 0, len(x) - 1))
        x, y = x[kept], y[kept]
    return tuple((rounded(a), rounded(b)) for a, b in zip(x, y, strict=True))


def roc_curve(positive: Array, score: Array) -> Curve:
    """(false positive rate, true positive rate) over all thresholds, from (0, 0) to (1, 1); empty if only one class is present.

    Args:
        positive: (rows,) bool. score: (rows,) higher for positive rows.
    """
    hits, false = _counts_by_threshold(positive, score)
    if hits[-1] == 0 or false[-1] == 0:
        return ()
    return _thinned(false / false[-1], hits / hits[-1])


def precision_recall_curve(positive: Array, score: Array) -> Curve:
    """(recall, precision) over all thresholds, highest first; empty without a positive row."""
    hits, false = _counts_by_threshold(positive, score)
    if hits[-1] == 0:
        return ()
    recall, precision = hits[1:] / hits[-1], hits[1:] / (hits[1:] + false[1:])
    return _thinned(np.r_[0.0, recall], np.r_[precision[0], precision])


def gain_curve(positive: Array, score: Array) -> Curve:
    """Cumulative gain: (share of rows by descending score, share of the positive rows among them), from (0, 0) to (1, 1); empty
    without a positive row. The lift at a share of rows is their quotient.
    """
    hits, false = _counts_by_threshold(positive, score)
    if hits[-1] == 0:
        return ()
    return _thinned((hits + false) / len(score), hits / hits[-1])


def mean_curve(curves: list[Curve], n_points: int = MOST_POINTS) -> Curve:
    """The mean of curves over a grid of x from 0 to 1: the macro average over classes (one versus rest)."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return ()
    grid = np.linspace(0.0, 1.0, n_points)
    heights = [np.interp(grid, *np.array(curve).T) for curve in curves]
    return tuple((rounded(x), rounded(y)) for x, y in zip(grid, np.mean(heights, axis=0), strict=True))


def wilson(hits: Array, counts: Array) -> tuple[Array, Array]:
    """95 % interval of the share `hits` / `counts`. Wilson: "Probable inference", JASA 22, 1927."""
    share, z2 = hits / counts, Z95**2
    center = (share + z2 / (2 * counts)) / (1 + z2 / counts)
    half = Z95 / (1 + z2 / counts) * np.sqrt(share * (1 - share) / counts + z2 / (4 * counts**2))
    return np.clip(center - half, 0, 1), np.clip(center + half, 0, 1)


def calibration(observed: Array, probability: Array) -> tuple[tuple[ReliabilityBin, ...], float]:
    """Non-empty bins of equal width over the probability, and the expected calibration error.

    The error is the mean absolute difference of predicted and observed over the bins, weighted by rows: Naeini, Cooper, Hauskrecht,
    "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.

    Args:
        observed: (rows,) bool. probability: (rows,) in [0, 1].
    """
    place = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    counts = np.bincount(place, minlength=N_BINS)
    used = np.flatnonzero(counts)
    n = counts[used]
    predicted = np.bincount(place, weights=probability, minlength=N_BINS)[used] / n
    hits = np.bincount(place, weights=observed.astype(np.float64), minlength=N_BINS)[used]
    low, high = wilson(hits, n)
    error = float(np.sum(n * np.abs(hits / n - predicted)) / len(probability))
    bins = tuple(
        ReliabilityBin(predicted=rounded(p), observed=rounded(o), low=rounded(a), high=rounded(b), count=int(c))
        for p, o, a, b, c in zip(predicted, hits / n, low, high, n, strict=True)
    )
    return bins, error


def density(truth: Array, prediction: Array) -> tuple[tuple[tuple[int, ...], ...], tuple[float, float]]:
    """Number of rows by bin of the truth (lowest first) and bin of the prediction, and the span of both axes."""
    both = np.concatenate([truth, prediction])
    low, high = (float(value) for value in np.quantile(both, FAR))
    place = [_bins(values, low, high, N_DENSITY) for values in (truth, prediction)]
    counts = np.bincount(place[0] * N_DENSITY + place[1], minlength=N_DENSITY**2).reshape(N_DENSITY, N_DENSITY)
    return tuple(tuple(map(int, row)) for row in counts), (rounded(low), rounded(high))


def residuals(truth: Array, prediction: Array) -> Residuals:
    """The distribution of truth minus prediction, overall and by prediction."""
    residual = truth - prediction
    low, high = (float(value) for value in np.quantile(residual, FAR))
    n_bins = int(np.clip(2 * np.cbrt(len(residual)), LEAST_RESIDUAL_BINS, MOST_RESIDUAL_BINS))
    counts = np.bincount(_bins(residual, low, high, n_bins), minlength=n_bins)
    quantiles = np.quantile(residual, (0.05, 0.25, 0.5, 0.75, 0.95))
    order = np.argsort(prediction, kind="stable")
    bands: list[ResidualBand] = []
    for rows in np.array_split(order, min(N_BINS, max(1, len(order) // 10))):
        low_, median, high_ = (rounded(float(value)) for value in np.quantile(residual[rows], (0.1, 0.5, 0.9)))
        mean = rounded(float(prediction[rows].mean()))
        bands.append(ResidualBand(predicted=mean, low=low_, median=median, high=high_, count=len(rows)))
    return Residuals(
        tuple(map(int, counts)),
        (rounded(low), rounded(high)),
        tuple(rounded(float(q)) for q in quantiles),
        tuple(bands),
    )


def _bins(values: Array, low: float, high: float, n_bins: int) -> npt.NDArray[np.int64]:
    if high <= low:
        return np.full(len(values), n_bins // 2)
    return np.clip(((values - low) / (high - low) * n_bins).astype(np.int64), 0, n_bins - 1)
