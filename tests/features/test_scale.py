"""Shift and scale: compared with scikit-learn and the formulas of the papers, and finite for any input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from tabapp.features.scale import ScaleMap

GENERATOR = np.random.default_rng(0)


def table() -> np.ndarray:
    values = np.column_stack(
        [GENERATOR.normal(5, 3, 400), GENERATOR.exponential(1e6, 400), GENERATOR.integers(0, 9, 400)]
    )
    values[::7, 1] = np.nan
    return values


def test_standard_equals_scikit_learn() -> None:
    values, new = table(), table() * 2
    reference = StandardScaler().fit(values)
    np.testing.assert_allclose(
        ScaleMap.fit_standard(values).transform(new), reference.transform(new), rtol=1e-5, atol=1e-6
    )


def test_robust_equals_the_formula_of_realmlp() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [100.0], [np.nan]])
    q25, q75 = np.quantile(x[:6, 0], (0.25, 0.75))
    z = (x[:6, 0] - 2.5) / (q75 - q25)
    shown = ScaleMap.fit_robust(x).transform(x)
    np.testing.assert_allclose(shown[:6, 0], z / np.sqrt(1 + (z / 3) ** 2), rtol=1e-6)
    assert np.isnan(shown[6, 0])


def test_robust_falls_back_to_the_range_and_then_to_zero() -> None:
    values = np.column_stack([[0.0] * 9 + [8.0], [7.0] * 10])
    fitted = ScaleMap.fit_robust(values)
    assert fitted.factors.tolist() == [2 / 8, 0.0]
    assert fitted.transform(values)[:, 1].tolist() == [0.0] * 10


@pytest.mark.parametrize("fit", [ScaleMap.fit_standard, ScaleMap.fit_robust])
def test_extreme_values_stay_finite_and_ordered(fit: object) -> None:
    values = np.column_stack([GENERATOR.normal(size=50), np.linspace(0, 1e-300, 50), np.full(50, 3.0)])
    fitted = fit(values)  # type: ignore[operator]
    far = np.array([[-3e38] * 3, [-10.0] * 3, [0.0] * 3, [10.0] * 3, [3e38] * 3])
    shown = fitted.transform(far)
    assert np.isfinite(shown).all()
    assert (np.diff(shown, axis=0) >= 0).all()
    assert np.abs(shown).max() <= (3.0 if fitted.smooth else 1000.0)
