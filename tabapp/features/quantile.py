"""Map numbers to a standard normal distribution by their quantiles, for deep models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_NOISE = 1e-5
_BOUND = 1e-7
_LIMIT = 5.199337582605575
"""The normal quantile of 1 - 1e-7: scikit-learn clips the distribution function to [1e-7, 1 - 1e-7]."""


@dataclass(frozen=True)
class QuantileMap:
    """A fitted quantile transform.

    Attributes:
        quantiles: (n_quantiles, columns) float64 values at the references, per column.
        means: (columns,) float64 training means that replace missing cells before the transform, or NaN to keep them missing.
    """

    quantiles: Float64
    means: Float64

    @classmethod
    def fit(cls, values: Float64, seed: int, *, keep_missing: bool = False) -> QuantileMap:
        """Fit on training rows.

        Uses the `QuantileTransformer` of scikit-learn with normal output, max(min(rows / 30, 1000), 10) quantiles and no
        subsampling. A little noise breaks ties (Gorishniy et al. 2021; absolute noise of 1e-5 as in TabM).

        NOTE[DIFF]: the number of quantiles is capped at the number of rows, because scikit-learn warns about more.

        Args:
            values: (rows, columns) float64, NaN where missing, never infinite; each column has a non-missing cell.
            keep_missing: missing cells stay NaN, also in `transform`, instead of being replaced by the mean.
        """
        # Imported here because only training needs it, and a prediction must start quickly.
        from sklearn.preprocessing import QuantileTransformer

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
        """Map (rows, columns) to float32 within ±5.199 or NaN, exactly as scikit-learn does."""
        # Imported here because only some recipes need it.
        from scipy.special import ndtri

        result = np.empty(values.shape, dtype=np.float32)
        references = np.linspace(0, 1, len(self.quantiles))
        for i in range(values.shape[1]):
            column = np.where(np.isnan(values[:, i]), self.means[i], values[:, i])
            quantiles = self.quantiles[:, i]
            # Average both directions, so that a run of equal quantiles maps to its middle.
            rising = np.interp(column, quantiles, references)
            falling = np.interp(-column, -quantiles[::-1], -references[::-1])
            share = 0.5 * (rising - falling)
            share[column - _BOUND < quantiles[0]] = 0.0
            share[column + _BOUND > quantiles[-1]] = 1.0
            result[:, i] = np.clip(ndtri(share), -_LIMIT, _LIMIT)
        return result
