"""Shift and scale numbers, for models based on distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_MAX_DEVIATION = 1e3
"""In a sample of n rows no value is more than √(n - 1) standard deviations from the mean (Samuelson 1968). Below a million rows
this bound changes no training value, and it keeps extreme values at prediction time finite."""
_SMOOTH_BOUND = 3.0


@dataclass(frozen=True)
class ScaleMap:
    """A fitted shift and scale per column.

    Attributes:
        centers: (columns,) float64 mean or median of the non-missing training cells.
        factors: (columns,) float64 multipliers of the distance from the center; 0 for a constant column.
        smooth: clip the result smoothly to (-3, 3), else clip it at ±1000.
    """

    centers: Float64
    factors: Float64
    smooth: bool

    @classmethod
    def fit_standard(cls, values: Float64) -> ScaleMap:
        """(x - mean) / population standard deviation.

        Args:
            values: (rows, columns) float64, NaN where missing, never infinite; each column has a non-missing cell.
        """
        return cls(np.nanmean(values, axis=0), _inverse(np.nanstd(values, axis=0)), smooth=False)

    @classmethod
    def fit_robust(cls, values: Float64) -> ScaleMap:
        """(x - median) / (q75 - q25), or / half the range where that is 0; then x / √(1 + (x / 3)²).

        RealMLP (Holzmüller et al. 2024).

        Args:
            values: as for `fit_standard`.
        """
        low, q25, median, q75, high = np.nanquantile(values, (0.0, 0.25, 0.5, 0.75, 1.0), axis=0)
        spread = np.where(q75 > q25, q75 - q25, (high - low) / 2)
        return cls(median, _inverse(spread), smooth=True)

    def transform(self, values: Float64) -> npt.NDArray[np.float32]:
        """Map (rows, columns) to float32 within the bounds; NaN stays NaN."""
        with np.errstate(over="ignore"):
            scaled = np.clip((values - self.centers) * self.factors, -_MAX_DEVIATION, _MAX_DEVIATION)
        if self.smooth:
            scaled /= np.sqrt(1 + (scaled / _SMOOTH_BOUND) ** 2)
        return scaled.astype(np.float32)


def _inverse(spread: Float64) -> Float64:
    """1 / spread, or 0 if the spread is 0 or so small that its inverse is infinite."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1 / spread
    return np.where(np.isfinite(inverse), inverse, 0.0)
