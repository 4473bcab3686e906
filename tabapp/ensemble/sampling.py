"""A seeded sample of rows that estimates the same score: it keeps rare classes and weights the rows accordingly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tabapp import metrics

Array = npt.NDArray[np.floating]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Sample:
    """Sampled rows in ascending order, and their weights: (sampled,) with mean 1, or None if all weights are equal."""

    rows: Rows
    weight: npt.NDArray[np.float64] | None


def _quotas(counts: npt.NDArray[np.intp], max_rows: int) -> npt.NDArray[np.intp]:
    """Number of rows to sample from each class: all rows of small classes, and equal shares of the rest from large ones."""
    quotas = np.zeros_like(counts)
    remaining, open_classes = max_rows, len(counts)
    for code in np.argsort(counts, kind="stable"):
        quotas[code] = min(counts[code], remaining // open_classes)
        remaining -= quotas[code]
        open_classes -= 1
    return quotas


def sample_rows(
    target: npt.NDArray[np.generic], metric: str, max_rows: int, seed: int, weight: Array | None = None
) -> Sample:
    """Draw at most `max_rows` rows, the same for the same seed.

    For classification, every class gets an equal share, so that 500 positives among a million rows are all kept; each row is
    weighted by the number of rows that it represents. For regression, the rows are evenly spaced over the sorted target.

    Args:
        target: (rows,) class codes, or numbers in target units.
        metric: name of the metric that scores the sample.
        weight: (rows,) row weights, or None.
    """
    n_rows = len(target)
    if n_rows <= max_rows:
        return Sample(np.arange(n_rows), None if weight is None else np.asarray(weight, dtype=np.float64))
    generator = np.random.default_rng(seed)
    if metrics.get(metric).is_classification:
        _, codes, counts = np.unique(target, return_inverse=True, return_counts=True)
        quotas = _quotas(counts, max_rows)
        parts = [
            generator.choice(np.flatnonzero(codes == code), quota, replace=False) for code, quota in enumerate(quotas)
        ]
        rows = np.sort(np.concatenate(parts))
        represented = (counts / np.maximum(quotas, 1))[codes[rows]]
    else:
        order = np.lexsort((generator.random(n_rows), target))
        rows = np.sort(order[np.linspace(0, n_rows - 1, max_rows).round().astype(np.intp)])
        represented = np.ones(max_rows)
    if weight is not None:
        represented = represented * np.asarray(weight, dtype=np.float64)[rows]
    elif np.ptp(represented) == 0:
        return Sample(rows, None)
    return Sample(rows, represented / represented.mean())
