"""Numbers mapped to a standard normal by their quantiles, for deep models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.preprocessing import QuantileTransformer

Float64 = npt.NDArray[np.float64]

_NOISE = 1e-5
_BOUND = 1e-7
_LIMIT = 5.199337582605575
"""norm.ppf(1 - 1e-7): sklearn clips the distribution function at 1e-7 and 1 - 1e-7."""


@dataclass(frozen=True)
class QuantileMap:
    """A fitted quantile transform.

    Attributes:
        quantiles: (n_quantiles, columns) float64 values at the references, per column.
        means: (columns,) float64 training means that missing cells take before the transform, or NaN where they stay missing.
    """

    quantiles: Float64
    means: Float64

    @classmethod
    def fit(cls, values: Float64, seed: int, *, keep_missing: bool = False) -> QuantileMap:
        """Fit on training rows.

        scikit-learn's `QuantileTransformer` with normal output, max(min(rows / 30, 1000), 10) quantiles, no subsampling, on
        values with a little noise that breaks ties (Gorishniy et al. 2021; the noise is TabM's, absolute 1e-5).

        NOTE[DIFF]: sklearn refuses more quantiles than rows with a warning; they are capped at the number of rows.

        Args:
            values: (rows, columns) float64, NaN where missing, never infinite; every column has a value.
            keep_missing: missing cells stay NaN, in `transform` as well, instead of taking the mean.
        """
        means = np.full(values.shape[1], np.nan) if keep_missing else np.nanmean(values, axis=0)
        filled = np.where(np.isnan(values), means, values)
        generator = np.random.default_rng(seed)
        n_rows = len(values)
        n_quantiles = min(max(min(n_rows // 30, 1000), 10), n_rows)
        transformer = QuantileTransformer(
            n_quantiles=n_quantiles, output_distribution="normal", subsample=10**9, random_state=seed
        )
        transformer.fit(filled + _NOISE * generator.standard_normal(filled.shape))
        return cls(np.ascontiguousarray(transformer.quantiles_, dtype=np.float64), means)

    def transform(self, values: Float64) -> npt.NDArray[np.float32]:
        """Map (rows, columns) to float32 within ±5.199, whatever the values, or NaN; the same as sklearn's transform."""
        result = np.empty(values.shape, dtype=np.float32)
        references = np.linspace(0, 1, len(self.quantiles))
        for i in range(values.shape[1]):
            column = np.where(np.isnan(values[:, i]), self.means[i], values[:, i])
            quantiles = self.quantiles[:, i]
            # Both directions are averaged, so that a run of equal quantiles maps to its middle.
            rising = np.interp(column, quantiles, references)
            falling = np.interp(-column, -quantiles[::-1], -references[::-1])
            share = 0.5 * (rising - falling)
            share[column - _BOUND < quantiles[0]] = 0.0
            share[column + _BOUND > quantiles[-1]] = 1.0
            result[:, i] = np.clip(norm.ppf(share), -_LIMIT, _LIMIT)
        return result
