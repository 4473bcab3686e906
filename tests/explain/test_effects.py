from __future__ import annotations

import time
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tabapp.data.schema import Column, Schema
from tabapp.explain.effects import HeldOut, effect_of, effects, grid_of
from tabapp.features.arrays import FeatureRecipe
from tabapp.features.prepare import FeaturePreparer
from tabapp.models.contract import FittedModel

ROWS = 400
LEVELS = ("red", "green", "blue")


def column(name, kind="numeric", **more):
    return Column(name=name, kind=kind, reason="", **more)


class Known(FittedModel):
    """Predicts 2·size², plus 10 where the color has the first level's code."""

    def predict(self, table):
        return 2 * table.numeric[:, 0] ** 2 + 10.0 * (table.categorical[:, 0] == 2)

    def save(self, folder):
        raise NotImplementedError


class KnownClasses(Known):
    """Four classes, of which only the last two depend on size."""

    def predict(self, table):
        share = np.clip(table.numeric[:, 0] / 20 + 0.25, 0, 0.5)
        return np.column_stack([np.full(len(table), 0.2), np.full(len(table), 0.3), share, 0.5 - share])


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(0)
    return pl.DataFrame(
        {"size": generator.normal(size=ROWS), "color": generator.choice(LEVELS, ROWS, p=[0.5, 0.3, 0.2])}
    )


COLUMNS = (
    column("size"),
    column("color", "categorical", levels=LEVELS, level_counts=(200, 120, 80)),
)


def folds(frame, model=Known):
    schema = Schema(columns=COLUMNS, target="y", target_reason="", task="regression", task_reason="", rows=ROWS)
    preparer = FeaturePreparer.fit(frame, schema, FeatureRecipe(), 0)
    return [HeldOut(model(), preparer, frame[:50]), HeldOut(model(), preparer, frame[50:80])]


def test_the_effect_of_a_number_is_its_curve(frame):
    effect = effect_of(folds(frame), COLUMNS[0], frame["size"])
    assert effect is not None
    assert len(effect.places) == 12
    assert sum(effect.counts) == ROWS
    (curve,) = effect.curves
    # The color adds 10 to about half of the rows: 80 of them are predicted at every grid point.
    share = (frame["color"][:80] == "red").mean()
    expected = 2 * np.array(effect.places) ** 2 + 10 * share
    np.testing.assert_allclose(curve.values, expected, rtol=1e-4)
    np.testing.assert_allclose(np.subtract(curve.high, curve.low), 10, rtol=1e-4)


def test_the_effect_of_a_category_has_a_value_per_level(frame):
    effect = effect_of(folds(frame), COLUMNS[1], frame["color"])
    assert effect is not None
    assert set(effect.labels) == set(LEVELS)
    assert effect.places == ()
    counts = dict(zip(effect.labels, effect.counts, strict=True))
    assert counts == {level: (frame["color"] == level).sum() for level in LEVELS}
    values = dict(zip(effect.labels, effect.curves[0].values, strict=True))
    assert values["red"] - values["blue"] == pytest.approx(10, rel=1e-5)
    assert values["green"] == pytest.approx(values["blue"])


def test_of_many_classes_those_that_vary_most_are_shown(frame):
    effect = effect_of(folds(frame, KnownClasses), COLUMNS[0], frame["size"], "abcdef")
    assert effect is not None
    assert {"c", "d"} < {curve.label for curve in effect.curves}
    assert len(effect.curves) == 3


def test_ordered_levels_keep_their_order():
    values = pl.Series("grade", ["high"] * 5 + ["low"] * 3 + ["middle"] * 2)
    _, labels, counts = grid_of(column("grade", "categorical", order=("low", "middle", "high")), values)
    assert (labels, counts) == (("low", "middle", "high"), (3, 2, 5))


def test_dates_are_labeled_and_few_distinct_numbers_form_the_grid():
    days = pl.Series("day", [datetime(2024, 1, 1) + timedelta(days=n) for n in range(300)])
    grid, labels, counts = grid_of(column("day", "datetime"), days)
    assert len(grid) == len(labels) == 12
    assert labels[0].startswith("2024-01-0")
    assert sum(counts) == 300
    grid, labels, counts = grid_of(column("n"), pl.Series("n", [1.0, 2.0, 2.0, 5.0, None]))
    assert (grid.to_list(), labels, counts) == ([1.0, 2.0, 5.0], (), (1, 2, 1))


def test_constant_and_text_columns_have_no_effect(frame):
    text = frame.with_columns(pl.lit("a b c").alias("note"))
    assert effect_of(folds(frame), column("note", "text"), text["note"]) is None
    assert effect_of(folds(frame), column("size"), pl.Series("size", [1.0] * 5)) is None
    assert effect_of(folds(frame), column("size"), pl.Series("size", [None] * 5, dtype=pl.Float64)) is None


def test_the_deadline_is_kept(frame):
    assert [effect.feature for effect in effects(folds(frame), COLUMNS, frame)] == ["size", "color"]
    assert effects(folds(frame), COLUMNS, frame, deadline=time.monotonic() - 1) == []
