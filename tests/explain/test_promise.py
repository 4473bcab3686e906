"""Columns that matter are examined first."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp.explain.fold_model import FoldModel
from tabapp.explain.promise import association, promising_order
from tabapp.features.arrays import FIRST_LEVEL, FeatureSpec, Table
from tests.explain.models import COLUMNS, LinearModel, fold_models

N = 400


@pytest.fixture(scope="module")
def columns():
    generator = np.random.default_rng(0)
    numeric = generator.normal(size=(N, 5)).astype(np.float32)
    numeric[:, 3] = 7.0
    numeric[::3, 1] = np.nan
    numeric[:, 4] = np.nan
    categorical = generator.integers(FIRST_LEVEL, 6, (N, 3)).astype(np.int32)
    categorical[:, 2] = np.arange(N) + FIRST_LEVEL
    return numeric, categorical


def test_association_with_a_number(columns):
    numeric, categorical = columns
    target = np.nan_to_num(numeric[:, 1]) + 2 * np.abs(numeric[:, 2]) + (categorical[:, 1] == 3)
    found = association(Table(numeric, categorical, target.astype(np.float64)), is_class=False)
    strong, weak = found[[1, 2, 6]], found[[0, 3, 4, 5, 7]]
    assert strong.min() > 3 * weak.max()
    assert (found[[3, 4, 7]] == 0).all(), "constants, missing columns and identifiers explain nothing"


def test_association_with_classes(columns):
    numeric, categorical = columns
    target = (np.nan_to_num(numeric[:, 1]) > 0.3).astype(np.int64) + (categorical[:, 1] == 3)
    found = association(Table(numeric, categorical, target), is_class=True)
    assert found[[1, 6]].min() > 3 * found[[0, 2, 3, 4, 5, 7]].max()


class KnowsItsUse(LinearModel):
    def use_of_features(self):
        return np.array([1.0, 3.0, 0.0, 1.5])


def test_the_use_of_the_features_by_the_models_decides():
    def unneeded():
        raise AssertionError

    order = promising_order(fold_models(model=KnowsItsUse), COLUMNS, False, unneeded)
    # The features of a column add up, and ties keep their order.
    assert [COLUMNS[place] for place in order] == ["weak", "strong", "noise", "color", "unused", "absent"]


def test_association_decides_where_a_model_does_not_know_its_use():
    folds = fold_models()
    mixed = [*folds[:2], *fold_models(n_folds=1, model=KnowsItsUse)]
    train = folds[0].table
    for models in (folds, mixed):
        order = promising_order(models, COLUMNS, False, lambda: train)
        assert COLUMNS[order[0]] == "strong"
        assert COLUMNS[order[-1]] == "absent"


def test_a_table_of_two_thousand_columns_takes_the_columns_that_matter_first():
    generator = np.random.default_rng(0)
    numeric = generator.normal(size=(300, 2_000)).astype(np.float32)
    names = tuple(f"c{i}" for i in range(2_000))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    target = numeric[:, -10:].sum(axis=1).astype(np.float64)
    table = Table(numeric, np.zeros((300, 0), np.int32), target)
    order = promising_order([FoldModel(LinearModel(), table, spec)], names, False, lambda: table)
    assert set(order[:6]) <= set(range(1_990, 2_000))
    assert len(set(order[:100]) & set(range(1_990, 2_000))) >= 9
