"""Tables of a model's input."""

from __future__ import annotations

import numpy as np

from tabapp.features.arrays import Table


def test_joined_tables_have_the_rows_of_both_and_the_arrays_that_both_have() -> None:
    a = Table(np.zeros((2, 1), np.float32), np.ones((2, 1), np.int32), np.arange(2), np.ones(2, np.float32))
    b = Table(np.ones((1, 1), np.float32), np.zeros((1, 1), np.int32), np.arange(2, 3))
    joined = a.joined(b)
    assert joined.numeric.ravel().tolist() == [0.0, 0.0, 1.0]
    assert joined.categorical.ravel().tolist() == [1, 1, 0]
    assert joined.target is not None
    assert joined.target.tolist() == [0, 1, 2]
    assert joined.weight is None
    assert joined.others is None
