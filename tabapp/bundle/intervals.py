"""Half-widths of prediction intervals, from out-of-fold errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.bundle.format import COVERAGES

INTERVAL_LEVEL = 0.90

Float64 = npt.NDArray[np.float64]


def residual_quantile(
    truth: npt.NDArray[Any],
    prediction: npt.NDArray[Any],
    weight: npt.NDArray[Any] | None = None,
    coverage: float = INTERVAL_LEVEL,
) -> float:
    """Half-width of an interval that covers a share of new rows, from the absolute errors on rows that the model was not fitted on.

    Split-conformal prediction with the symmetric absolute residual: the ⌈(n+1) · coverage⌉-th smallest error, or the largest
    where there are fewer rows. Vovk, Gammerman, Shafer: "Algorithmic Learning in a Random World", 2005; Lei, G'Sell, Rinaldo,
    Tibshirani, Wasserman, JASA 113, 2018, section 2.2.

    NOTE[DIFF] the residuals are out-of-fold ones, each of another fold's model, as in the jackknife+ and CV+ (Barber, Candès,
    Ramdas, Tibshirani, Annals of Statistics 49, 2021) but pooled into one half-width, so the guarantee is approximate. With row
    weights it is the weighted quantile.

    Args:
        truth, prediction: (rows,) in target units.
        weight: (rows,) or None.
        coverage: share of rows in (0, 1).
    """
    return _residual_quantiles(truth, prediction, weight, (coverage,))[0]


def half_widths(
    truth: npt.NDArray[Any], prediction: npt.NDArray[Any], weight: npt.NDArray[Any] | None = None
) -> tuple[float, ...]:
    """`residual_quantile` for each of `COVERAGES`."""
    return _residual_quantiles(truth, prediction, weight, COVERAGES)


def _residual_quantiles(
    truth: npt.NDArray[Any],
    prediction: npt.NDArray[Any],
    weight: npt.NDArray[Any] | None,
    coverages: Sequence[float],
) -> tuple[float, ...]:
    error = np.abs(np.asarray(truth, dtype=np.float64) - prediction)
    order = np.argsort(error, kind="stable")
    ordered: Float64 = error[order]
    if weight is None:
        positions = [int(np.ceil(round((len(error) + 1) * coverage, 9))) - 1 for coverage in coverages]
    else:
        cumulative = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
        positions = [int(np.count_nonzero(cumulative < coverage * cumulative[-1])) for coverage in coverages]
    return tuple(float(ordered[min(position, len(ordered) - 1)]) for position in positions)
