"""Values of the training rows on which predictions rest."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from tabapp.bundle.prediction.neighbors import Neighbor
from tabapp.explain.training_rows import training_cells

TRAINING = pl.DataFrame({"age": ["31", None], "city": ["x", "y"], "income": [" >50K", "0.1"]})
SCHEMA = SimpleNamespace(target="income", inputs=[SimpleNamespace(name="age"), SimpleNamespace(name="city")])


@pytest.mark.parametrize(
    ("row", "target", "expected"),
    [
        (0, ">50K", {"age": "31", "city": "x"}),
        (1, 0.1, {"age": None, "city": "y"}),
        (0, "<=50K", None),
        (1, 0.2, None),
        (0, 0.1, None),
        (2, ">50K", None),
    ],
)
def test_values_are_those_of_a_row_with_the_same_target(row, target, expected):
    assert training_cells(Neighbor(row, 0.5, target), TRAINING, SCHEMA) == expected


def test_a_file_without_the_target_is_another_one():
    assert training_cells(Neighbor(0, 0.5, ">50K"), TRAINING.drop("income"), SCHEMA) is None
