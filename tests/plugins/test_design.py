"""The matrix of linear models and nearest neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from tabapp_plugins._shared import design
from tabapp_plugins._shared.design import LIMIT, Design

from tabapp.features.arrays import Table


@pytest.mark.parametrize("cells", [1, 7, 40, 10**6])
@pytest.mark.parametrize("n_rows", [0, 1, 12])
def test_numbers_are_standardized_alike_in_parts_of_every_size(
    n_rows: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    numbers = generator.normal(5.0, 3.0, (30, 11)).astype(np.float32)
    numbers[generator.random(numbers.shape) < 0.1] = np.nan
    fitted = Design.fit(Table(numbers, np.zeros((30, 0), np.int32)))
    rows = 100.0 * numbers[:n_rows]
    monkeypatch.setattr(design, "CELLS_TOGETHER", cells)
    found = fitted.wide_matrix(Table(rows, np.zeros((n_rows, 0), np.int32)))
    expected = np.clip((rows.astype(np.float64) - fitted.mean) / fitted.std, -LIMIT, LIMIT).astype(np.float32)
    np.testing.assert_array_equal(found[:, :11], np.where(np.isnan(rows), 0.0, expected))
    np.testing.assert_array_equal(found[:, 11:], np.isnan(rows[:, fitted.indicators]))
