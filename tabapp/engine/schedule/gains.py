"""What a candidate adds to an ensemble, measured on the rows of its folds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.fit.candidates import Scorer
from tabapp.engine.fit.numbering import ScoredRows
from tabapp.ensemble.sampling import sample_rows
from tabapp.models.contract import Floats

MOST_ROWS = 20_000
"""Rows that a gain is measured on."""
LEAST_ERROR = 1e-9
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Weights of a candidate in the blends with the ensemble that measure what it adds."""


def gain_over(
    known: list[Floats],
    prediction: Floats,
    among: npt.NDArray[np.bool_],
    scorer: Scorer,
    metric_name: str,
    seed: int,
) -> float:
    """How much lower an error is with a prediction than with the first of the known ones, which the others join one after another,
    as a share of that error; NaN where the metric is undefined, or both have no error.

    Args:
        known: out-of-fold predictions of all scored rows, each (rows,) or (rows, classes).
        prediction: in the same shape.
        among: (rows,) mask of the rows that are compared.
    """
    metric, compared = metrics.get(metric_name), ScoredRows.where(among)
    weight = compared.of(scorer.weight)
    sample = sample_rows(compared.of(scorer.target), metric.name, MOST_ROWS, seed, weight)
    rows = compared.at(sample.rows)
    stacked = np.stack([rows.of(values) for values in (*known, prediction)]).astype(np.float64)
    target = rows.of(scorer.target)

    def losses_of(blends: npt.NDArray[np.float64]) -> list[float]:
        parts, function = metric.blended(blends, target, sample.weight)
        return [metric.as_loss(function(part)) for part in parts]

    def best_blend(added: npt.NDArray[np.float64], shares: tuple[float, ...]) -> npt.NDArray[np.float64]:
        blends = np.stack([share * added + (1 - share) * current for share in shares])
        return blends[int(np.argmin(losses_of(blends)))]

    current = stacked[0]
    for added in stacked[1:-1]:
        current = best_blend(added, (0.0, *SHARES))
    without, best = losses_of(np.stack([current, best_blend(stacked[-1], SHARES)]))
    offset = 1.0 if metric.greater_is_better else 0.0
    error = abs(offset + without)
    if error < LEAST_ERROR and best <= without:
        return math.nan
    return (without - best) / max(error, LEAST_ERROR)
