"""Rows that repeat another row."""

from __future__ import annotations

import numpy as np
import polars as pl

from tabapp.data.duplicates import groups_of_equal_rows, mistaken_copies
from tabapp.data.split import early_stopping_rows, make_folds, make_holdout
from tests.data.checks.tables import CLASSES, NOISE, N

RANDOM = np.random.default_rng(15)


def with_copies() -> tuple[pl.DataFrame, np.ndarray]:
    """A table whose first 200 rows were appended to it once more."""
    rows = np.concatenate([np.arange(N), np.arange(200)])
    return pl.DataFrame({"x": NOISE[rows], "y": CLASSES[rows]}), rows


def test_rows_copied_by_mistake_are_never_on_both_sides_of_a_split() -> None:
    table, rows = with_copies()
    groups = groups_of_equal_rows(table, table["y"])
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


def test_rows_that_are_equal_by_nature_are_not_grouped() -> None:
    coarse = pl.DataFrame({"x": np.round(NOISE * 20), "y": CLASSES})
    assert coarse.n_unique() < 0.9 * N
    runs = pl.DataFrame({"x": np.repeat(NOISE, 2), "y": np.repeat(CLASSES, 2)})
    scattered = pl.DataFrame({"x": NOISE, "y": CLASSES})[
        np.concatenate([np.arange(N), RANDOM.integers(0, N, 200)]).tolist()
    ]
    few = pl.DataFrame({"x": [1, 2] * 50, "y": [0, 1] * 50})
    for table in (coarse, runs, scattered, few, scattered[:3]):
        assert mistaken_copies(table, table["y"]) is None
        assert groups_of_equal_rows(table, None) is None


def test_appended_and_oversampled_rows_are_mistakes() -> None:
    table = pl.DataFrame({"x": NOISE, "y": CLASSES})
    twice = pl.concat([table, table])
    assert mistaken_copies(twice, None) == "most repeat earlier rows in the same order"
    of_class = np.flatnonzero(CLASSES == 1)
    rows = np.concatenate([np.arange(N), RANDOM.choice(of_class, 3 * len(of_class))])
    oversampled = table[RANDOM.permutation(rows).tolist()]
    assert mistaken_copies(oversampled, oversampled["y"]) == "nearly all are of one class"
    assert mistaken_copies(oversampled, None) is None
    groups = groups_of_equal_rows(oversampled, oversampled["y"])
    assert groups is not None
    assert len(np.unique(groups)) == oversampled.n_unique()
