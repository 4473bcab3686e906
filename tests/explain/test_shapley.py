"""Shapley values against their definition, on functions whose values are known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import polars as pl
import pytest

from tabapp.explain.shapley import Effort, shapley_values

SAMPLED = Effort(enumerated=0, tolerance=0.0, evaluations=2_000)
COLORS = ("red", "green", "blue")


def table(n_rows, n_numeric, seed=0):
    """Numbers, and a category with missing cells."""
    generator = np.random.default_rng(seed)
    columns = {f"x{i}": generator.normal(size=n_rows) for i in range(n_numeric)}
    colors = [None if generator.random() < 0.2 else COLORS[code] for code in generator.integers(0, 3, n_rows)]
    return pl.DataFrame({**columns, "color": pl.Series(colors, dtype=pl.String)})


def interacting(rows):
    """An output with interactions between numbers, and between a number and the category."""
    x = rows.select(pl.exclude("color")).to_numpy()
    color = rows["color"].replace_strict({"red": 1.0, "green": -2.0, "blue": 0.5}, default=3.0).to_numpy()
    three = x[:, 0] * x[:, 1] * x[:, 2]
    return (
        np.tanh(three)
        + np.tanh(x[:, 0] * x[:, -2] * x[:, -1])
        + x[:, 2] * color
        + np.abs(x[:, -1])
        + 0.5 * np.maximum(x[:, 0], color)
    )


def by_definition(output, row, reference, columns):
    """Means over all orders of the columns, with the row of every coalition built one cell at a time."""
    values = np.zeros(len(columns))
    orders = list(permutations(range(len(columns))))
    for index in range(reference.height):
        rows = []
        for order in orders:
            current = reference[index : index + 1]
            rows.append(current)
            for column in order:
                current = current.with_columns(row[columns[column]])
                rows.append(current)
        outputs = output(pl.concat(rows)).reshape(len(orders), -1)
        for order, line in zip(orders, outputs, strict=True):
            values[list(order)] += np.diff(line)
    return values / len(orders) / reference.height


def test_enumerated_values_equal_the_definition():
    rows = table(5, n_numeric=3)
    row, reference = rows[:1], rows[1:]
    found = shapley_values(interacting, row, reference, rows.columns)
    np.testing.assert_allclose(found.values, by_definition(interacting, row, reference, rows.columns), atol=1e-12)
    assert not found.errors.any()
    assert found.base == pytest.approx(interacting(reference).mean())
    assert found.base + found.values.sum() == pytest.approx(interacting(row)[0])


def test_sampled_values_are_within_their_error_of_the_exact_ones():
    rows = table(30, n_numeric=7, seed=1)
    reference, explained = rows[:20], rows[20:]
    inside = []
    for index in range(explained.height):
        row = explained[index : index + 1]
        exact = shapley_values(interacting, row, reference, rows.columns, effort=Effort(enumerated=10**6))
        sampled = shapley_values(interacting, row, reference, rows.columns, effort=SAMPLED)
        assert not exact.errors.any()
        assert sampled.base + sampled.values.sum() == pytest.approx(sampled.output, abs=1e-9)
        difference = np.abs(sampled.values - exact.values)
        assert sampled.errors.max() > 1e-3
        assert difference.max() <= 1.5 * sampled.errors.max()
        inside.append(difference.max() <= sampled.errors.max())
    assert np.mean(inside) >= 0.9, "in 95 % of samples"


def test_more_permutations_reduce_the_error_until_the_tolerance():
    rows = table(21, n_numeric=9, seed=2)
    errors = [
        shapley_values(
            interacting,
            rows[:1],
            rows[1:],
            rows.columns,
            effort=Effort(enumerated=0, tolerance=tolerance, evaluations=10**6),
        ).errors.max()
        for tolerance in (10.0, 0.02)
    ]
    assert errors[1] <= 0.02 < errors[0]


def test_copies_share_and_irrelevant_columns_get_nothing():
    rows = table(12, n_numeric=4, seed=3).with_columns(copy=pl.col("x0"))

    def output(frame):
        return (3 * (frame["x0"] + frame["copy"]) + frame["x1"]).to_numpy()

    found = dict(zip(rows.columns, shapley_values(output, rows[:1], rows[1:], rows.columns).values, strict=True))
    assert found["x0"] == pytest.approx(found["copy"])
    difference = rows["x0"][0] - rows["x0"][1:].mean()
    assert found["x0"] == pytest.approx(3 * difference)
    assert [found[name] for name in ("x2", "x3", "color")] == [0.0, 0.0, 0.0]


def test_a_row_equal_to_the_reference_has_no_contributions():
    rows = table(3, n_numeric=3)
    found = shapley_values(interacting, rows[:1], pl.concat([rows[:1]] * 3), rows.columns)
    assert not found.values.any()
    assert found.base == pytest.approx(found.output)


def test_a_wide_table_keeps_to_its_columns():
    rows = table(4, n_numeric=80, seed=4)
    found = shapley_values(interacting, rows[:1], rows[1:], rows.columns, effort=Effort(evaluations=1_000))
    assert found.base + found.values.sum() == pytest.approx(found.output)
    assert np.abs(found.values[3:78]).max() == 0.0


def test_a_learned_model_ranks_the_relevant_columns_first():
    import xgboost

    generator = np.random.default_rng(5)
    names = ["strong", "weak", "copy_a", "copy_b", "noise_1", "noise_2", "noise_3", "noise_4"]
    x = generator.normal(size=(1_500, 8))
    x[:, 3] = x[:, 2]
    y = 3 * x[:, 0] + x[:, 1] * (x[:, 0] > 0) + 2 * x[:, 2] + generator.normal(scale=0.1, size=1_500)
    settings = {"max_depth": 4, "eta": 0.1, "colsample_bynode": 0.5, "nthread": 1, "seed": 0}
    booster = xgboost.train(settings, xgboost.DMatrix(x, y, nthread=1), 80)
    frame = pl.DataFrame(x, schema=names)
    values = np.array(
        [
            shapley_values(
                lambda rows: booster.inplace_predict(rows.to_numpy()).astype(np.float64),
                frame[index : index + 1],
                frame[1000 + 10 * index : 1010 + 10 * index],
                names,
            ).values
            for index in range(12)
        ]
    )
    importance = dict(zip(names, np.abs(values).mean(axis=0), strict=True))
    assert min(importance[name] for name in names[:4]) > 3 * max(importance[name] for name in names[4:])
    assert importance["strong"] == max(importance.values())
    assert 0.3 < importance["copy_a"] / importance["copy_b"] < 3, "both copies share what one would have"
    for name in names[4:]:
        column = values[:, names.index(name)]
        margin = 2.2 * column.std(ddof=1) / np.sqrt(len(column))
        assert abs(column.mean()) <= margin, f"the interval of {name} contains zero"
