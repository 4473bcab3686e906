"""Correlated columns, conditional permutation, accumulated local effects and interactions, on tables with known answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data.schema import Column, Schema
from tabapp.explain.dependence import association_matrix, groups_of, permuted_within, strata_of
from tabapp.explain.effects import HeldOut, effect_of
from tabapp.explain.fold_model import FoldModel
from tabapp.explain.interactions import interactions
from tabapp.explain.permutation import permutation_importance
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models.contract import FittedModel

NAMES = ("a", "twin", "bent", "c", "noise")
COLUMNS = [Column(name=name, kind="numeric", reason="") for name in NAMES]


def frame(n_rows=800, seed=0):
    """`twin` copies `a`, and `bent` depends on `a` without rank correlation."""
    generator = np.random.default_rng(seed)
    a, c, noise = generator.normal(size=(3, n_rows))
    twin = a + generator.normal(scale=0.05, size=n_rows)
    bent = np.abs(a) + generator.normal(scale=0.02, size=n_rows)
    return pl.DataFrame(dict(zip(NAMES, (a, twin, bent, c, noise), strict=True)))


class Formula(FittedModel):
    """A known function of the numeric features."""

    def __init__(self, function):
        self.function = function

    def predict(self, table):
        return self.function(*table.numeric.T).astype(np.float32)

    def save(self, folder):
        raise NotImplementedError


def folds(function, n_rows=800):
    table = frame(n_rows)
    numeric = table.to_numpy().astype(np.float32)
    model = Formula(function)
    spec = FeatureSpec(numeric=NAMES, categorical=(), cardinalities=(), sources=NAMES)
    whole = Table(numeric, np.empty((n_rows, 0), dtype=np.int32))
    whole = Table(whole.numeric, whole.categorical, model.predict(whole).astype(np.float64))
    parts = np.array_split(np.arange(n_rows), 2)
    return [FoldModel(model, whole.take(rows), spec, rows) for rows in parts]


def held_out(function, table=None):
    table = frame(300) if table is None else table
    schema = Schema(
        columns=tuple(COLUMNS), target="y", target_reason="", task="regression", task_reason="", rows=table.height
    )
    preparer = FeaturePreparer.fit(table, schema, FeatureRecipe(), 0)
    return [HeldOut(Formula(function), preparer, table[:150]), HeldOut(Formula(function), preparer, table[150:])]


def test_copies_and_bent_columns_are_associated():
    found = association_matrix(COLUMNS, frame())
    assert found[0, 1] > 0.98
    assert found[0, 2] < found[2, 0] + 1e-12
    assert found[0, 4] < 0.15
    assert found[3, 4] < 0.15
    np.testing.assert_allclose(found, found.T)
    assert groups_of(NAMES, found) == [("a", "twin")]


def test_levels_that_are_the_same_are_associated():
    generator = np.random.default_rng(0)
    color = generator.choice(["red", "green", "blue"], 500)
    table = pl.DataFrame(
        {"color": color, "paint": np.char.upper(color), "size": generator.normal(size=500) + 4 * (color == "red")}
    )
    columns = [Column(name=name, kind="categorical", reason="") for name in ("color", "paint")]
    columns.append(Column(name="size", kind="numeric", reason=""))
    found = association_matrix(columns, table)
    assert found[0, 1] == pytest.approx(1, abs=0.02)
    assert 0.3 < found[0, 2] < 0.9


def test_rows_are_permuted_within_their_cells():
    generator = np.random.default_rng(0)
    cells = generator.integers(0, 5, 300)
    order = permuted_within(cells, generator)
    assert sorted(order) == list(range(300))
    np.testing.assert_array_equal(cells[order], cells)
    assert (order != np.arange(300)).mean() > 0.9


def test_a_group_matters_more_than_its_members():
    """A model that averages two copies loses little when one of them is shuffled."""
    models = folds(lambda a, twin, bent, c, noise: (a + twin) / 2)
    found = permutation_importance(models, "rmse", ["a", "twin", ("a", "twin"), ("c", "noise")], seed=0)
    by_name = {each.column: each.mean for each in found.columns}
    assert by_name["a + twin"] > 1.7 * by_name["a"] > 0
    assert by_name["c + noise"] == 0


def test_conditional_importance_of_a_copy_is_small():
    models = folds(lambda a, twin, bent, c, noise: a + c)
    table = frame()
    association = association_matrix(COLUMNS, table)
    within = strata_of(COLUMNS, association, table, ["a", "c"])
    assert "a" in within
    plain = permutation_importance(models, "rmse", ["a"], seed=0).columns[0].mean
    conditional = permutation_importance(models, "rmse", ["a"], seed=0, within=within).columns[0].mean
    assert 0 < conditional < 0.6 * plain


def test_accumulated_effects_of_a_sum_are_its_term():
    (curve,) = effect_of(held_out(lambda a, twin, bent, c, noise: 3 * a + c), COLUMNS[0], frame(300)["a"]).curves
    effect = effect_of(held_out(lambda a, twin, bent, c, noise: 3 * a + c), COLUMNS[0], frame(300)["a"])
    slopes = np.diff(curve.ale) / np.diff(effect.places)
    np.testing.assert_allclose(slopes, 3, rtol=1e-4)
    assert np.mean(curve.ale) == pytest.approx(np.mean(curve.values), abs=0.5)


def test_accumulated_effects_of_a_column_that_is_mostly_zero_have_the_mean_of_the_predictions():
    table = frame(300).with_columns(a=pl.when(pl.int_range(300) % 10 == 0).then(pl.col("a").abs() + 1).otherwise(0.0))
    effect = effect_of(held_out(lambda a, twin, bent, c, noise: 3 * a, table), COLUMNS[0], table["a"])
    # Of a linear model, the curve is the line itself, on the rows between the places.
    np.testing.assert_allclose(effect.curves[0].ale, 3 * np.asarray(effect.places), atol=1e-4)


def test_accumulated_effects_ignore_impossible_rows():
    """Where a and its copy differ, the model has a cliff that no row is near; partial dependence sees it."""

    def cliff(a, twin, bent, c, noise):
        return a + 100 * (np.abs(a - twin) > 1)

    effect = effect_of(held_out(cliff), COLUMNS[0], frame(300)["a"])
    (curve,) = effect.curves
    assert max(curve.values) > 20
    assert max(np.abs(curve.ale)) < 5


def test_the_product_interacts_and_the_sum_does_not():
    found = interactions(held_out(lambda a, twin, bent, c, noise: a * c + noise), ["a", "c", "noise"], 0, seed=0)
    by_pair = {(each.a, each.b): each for each in found}
    assert (found[0].a, found[0].b) == ("a", "c")
    assert by_pair["a", "c"].h > 0.9
    assert by_pair["a", "noise"].h < 0.05
    assert by_pair["a", "c"].size == pytest.approx(1, rel=0.5)
