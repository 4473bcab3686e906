"""Rows that repeat another row."""

from __future__ import annotations

import numpy as np
import polars as pl

from tabapp.data.duplicates import groups_of_equal_rows
from tabapp.data.split import early_stopping_rows, make_folds, make_holdout
from tests.data.checks.tables import CLASSES, NOISE, N

RANDOM = np.random.default_rng(15)


def with_copies() -> tuple[pl.DataFrame, np.ndarray]:
    rows = np.concatenate([np.arange(N), RANDOM.integers(0, N, 200)])
    return pl.DataFrame({"x": NOISE[rows], "y": CLASSES[rows]}), rows


def test_equal_rows_are_never_on_both_sides_of_a_split() -> None:
    table, rows = with_copies()
    groups = groups_of_equal_rows(table)
    assert groups is not None
    target = table["y"].to_numpy()
    for task, answer in (("binary", target), ("regression", table["x"].to_numpy())):
        fold = make_folds(answer, task, 5, 0, groups=groups)  # type: ignore[arg-type]
        assert all(len(set(fold[rows == row])) == 1 for row in set(rows))
        assert np.bincount(fold).min() > 0.8 * len(rows) / 5
        scored = make_holdout(answer, task, 0.2, 0, groups=groups) == 0  # type: ignore[arg-type]
        assert all(len(set(scored[rows == row])) == 1 for row in set(rows))
        assert 0.15 < scored.mean() < 0.25
        stopping = early_stopping_rows(answer, task, np.arange(len(rows)), 0, groups=groups)  # type: ignore[arg-type]
        assert all(len(set(stopping[rows == row])) == 1 for row in set(rows))
    share = [target[fold == number].mean() for number in range(5)]
    assert max(share) - min(share) < 0.1


def test_equal_rows_are_grouped_only_if_most_rows_are_distinct() -> None:
    assert groups_of_equal_rows(pl.DataFrame({"x": [1, 2, 3]})) is None
    assert groups_of_equal_rows(pl.DataFrame({"x": [1, 2] * 50})) is None
    assert groups_of_equal_rows(pl.DataFrame({"x": [1, 2, 2]})) is not None
