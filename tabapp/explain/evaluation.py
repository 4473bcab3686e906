"""What out-of-fold predictions look like beside the truth: confusion, curves, calibration, residuals; as small tuples.

Every row of the truth is predicted by a model that has not seen it. Curves have at most `MOST_POINTS` points, evenly spaced along
their length, so that neither steep nor flat parts lose their shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Curve = tuple[tuple[float, float], ...]

MOST_POINTS = 64
MOST_CLASSES = 20
OTHER = "other"
N_BINS = 10
N_DENSITY = 32
LEAST_RESIDUAL_BINS, MOST_RESIDUAL_BINS = 8, 40
"""Between them twice the cube root of the rows (Rice's rule)."""
FAR = (0.005, 0.995)
"""Quantiles beyond which values count in the outermost bins, so that a few outliers do not squeeze the rest into one."""
Z95 = 1.959964


@dataclass(frozen=True)
class Reliability:
    """Rows that were given about the same probability: its mean, how often it came true with its 95 % interval, how many rows."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Residuals:
    """Truth minus prediction: `counts` in equal bins of `span`, quantiles at 5, 25, 50, 75 and 95 %, and bands over predictions.

    `bands` hold, for rows of about equal prediction, (mean prediction, 10 %, 50 % and 90 % quantile of the residual, rows).
    """

    counts: tuple[int, ...]
    span: tuple[float, float]
    quantiles: tuple[float, ...]
    bands: tuple[tuple[float, float, float, float, int], ...]


def sample_rows(n_rows: int, most: int, seed: int) -> npt.NDArray[np.intp] | slice:
    """All rows, or a seeded sample of `most` of them in their order."""
    if n_rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def rounded(value: float) -> float:
    """Four significant digits: pictures need no more."""
    return float(f"{value:.4g}")


def confusion(
    truth: Array, prediction: Array, classes: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Labels, and rows by true class (down) and most probable class (across).

    With more than `MOST_CLASSES` classes the rarest are taken together as "other".
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
    """True and false positives for each threshold, the highest first; from (0, 0)."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    hits = np.cumsum(positive[order])[ends]
    return np.r_[0, hits], np.r_[0, ends + 1 - hits]


def _thinned(x: Array, y: Array) -> Curve:
    """At most `MOST_POINTS` points, evenly spaced along the curve, its ends among them."""
    length = np.r_[0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))]
    if len(x) > MOST_POINTS:
        steps = np.linspace(0.0, length[-1], MOST_POINTS)
        kept = np.unique(np.clip(np.searchsorted(length, steps), 0, len(x) - 1))
        x, y = x[kept], y[kept]
    return tuple((rounded(a), rounded(b)) for a, b in zip(x, y, strict=True))


def roc_curve(positive: Array, score: Array) -> Curve:
    """(false positive rate, true positive rate) over all thresholds, from (0, 0) to (1, 1); empty with one class present.

    Args:
        positive: (rows,) bool. score: (rows,) higher for positive rows.
    """
    hits, false = _counts_by_threshold(positive, score)
    if hits[-1] == 0 or false[-1] == 0:
        return ()
    return _thinned(false / false[-1], hits / hits[-1])


def precision_recall_curve(positive: Array, score: Array) -> Curve:
    """(recall, precision) over all thresholds, from the highest; empty without a positive row."""
    hits, false = _counts_by_threshold(positive, score)
    if hits[-1] == 0:
        return ()
    recall, precision = hits[1:] / hits[-1], hits[1:] / (hits[1:] + false[1:])
    return _thinned(np.r_[0.0, recall], np.r_[precision[0], precision])


def mean_curve(curves: list[Curve], n_points: int = MOST_POINTS) -> Curve:
    """The mean of curves over a grid of x from 0 to 1, as the macro average over classes (one against the rest)."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return ()
    grid = np.linspace(0.0, 1.0, n_points)
    heights = [np.interp(grid, *np.array(curve).T) for curve in curves]
    return tuple((rounded(x), rounded(y)) for x, y in zip(grid, np.mean(heights, axis=0), strict=True))


def wilson(hits: Array, counts: Array) -> tuple[Array, Array]:
    """95 % interval of a share of `hits` among `counts`. Wilson: "Probable inference", JASA 22, 1927."""
    share, z2 = hits / counts, Z95**2
    centre = (share + z2 / (2 * counts)) / (1 + z2 / counts)
    half = Z95 / (1 + z2 / counts) * np.sqrt(share * (1 - share) / counts + z2 / (4 * counts**2))
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def calibration(came_true: Array, probability: Array) -> tuple[tuple[Reliability, ...], float]:
    """Bins of equal width over the probability, without empty ones, and the expected calibration error.

    The error is the mean distance of predicted and observed over the bins, weighted by rows: Naeini, Cooper, Hauskrecht,
    "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.

    Args:
        came_true: (rows,) bool. probability: (rows,) in [0, 1].
    """
    place = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    counts = np.bincount(place, minlength=N_BINS)
    used = np.flatnonzero(counts)
    n = counts[used]
    predicted = np.bincount(place, weights=probability, minlength=N_BINS)[used] / n
    hits = np.bincount(place, weights=came_true.astype(np.float64), minlength=N_BINS)[used]
    low, high = wilson(hits, n)
    error = float(np.sum(n * np.abs(hits / n - predicted)) / len(probability))
    bins = tuple(
        Reliability(rounded(p), rounded(o), rounded(a), rounded(b), int(c))
        for p, o, a, b, c in zip(predicted, hits / n, low, high, n, strict=True)
    )
    return bins, error


def density(truth: Array, prediction: Array) -> tuple[tuple[tuple[int, ...], ...], tuple[float, float]]:
    """Rows by bin of the truth (lowest first) and bin of the prediction, both over the same span; and that span."""
    both = np.concatenate([truth, prediction])
    low, high = (float(value) for value in np.quantile(both, FAR))
    place = [_bins(values, low, high, N_DENSITY) for values in (truth, prediction)]
    counts = np.bincount(place[0] * N_DENSITY + place[1], minlength=N_DENSITY**2).reshape(N_DENSITY, N_DENSITY)
    return tuple(tuple(map(int, row)) for row in counts), (rounded(low), rounded(high))


def residuals(truth: Array, prediction: Array) -> Residuals:
    """The distribution of truth minus prediction, in all and over predictions."""
    residual = truth - prediction
    low, high = (float(value) for value in np.quantile(residual, FAR))
    n_bins = int(np.clip(2 * np.cbrt(len(residual)), LEAST_RESIDUAL_BINS, MOST_RESIDUAL_BINS))
    counts = np.bincount(_bins(residual, low, high, n_bins), minlength=n_bins)
    quantiles = np.quantile(residual, (0.05, 0.25, 0.5, 0.75, 0.95))
    order = np.argsort(prediction, kind="stable")
    bands: list[tuple[float, float, float, float, int]] = []
    for rows in np.array_split(order, min(N_BINS, max(1, len(order) // 10))):
        a, b, c = (rounded(float(value)) for value in np.quantile(residual[rows], (0.1, 0.5, 0.9)))
        bands.append((rounded(float(prediction[rows].mean())), a, b, c, len(rows)))
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
