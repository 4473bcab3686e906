"""The model whose importances a run shows, and the rows of its shuffles, by the time of its predictions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tabapp.engine.loop.explained_model import SPARE, explained_model, n_passes, rows_in_time, seconds_of_pass


def candidate(seconds: float, n_rows: int = 1_000, folds: int = 4) -> Any:
    """A candidate whose fold models predict `n_rows` held-out rows in so many seconds."""
    fit = SimpleNamespace(predict_seconds=seconds / folds, n_rows=n_rows // folds)
    return SimpleNamespace(results=dict.fromkeys(range(folds), fit))


def test_a_pass_takes_the_time_of_its_rows() -> None:
    assert seconds_of_pass(candidate(2.0), 500) == pytest.approx(SPARE)
    assert seconds_of_pass(candidate(2.0), 5_000) == pytest.approx(2 * SPARE)


def test_columns_after_the_first_block_have_no_reserved_time() -> None:
    assert n_passes(10, 2) == 6
    assert n_passes(20, 2) == n_passes(1_000, 2) == 11


def test_rows_are_as_many_as_can_be_shuffled_in_time() -> None:
    each = candidate(1.0)
    whole = SPARE * n_passes(9, 1)
    assert rows_in_time(each, 9, whole, 1, 1_000) == 1_000
    assert rows_in_time(each, 9, whole / 4, 1, 1_000) == 250
    assert rows_in_time(each, 9, -1.0, 1, 1_000) == 0
    assert rows_in_time(candidate(0.0), 9, -1.0, 1, 1_000) == 1_000, "the clock measured no time"


def test_the_best_model_is_explained_if_its_shuffles_fit_in_the_time() -> None:
    best, others = candidate(1.0), [candidate(0.1), candidate(0.001)]
    assert explained_model([best, *others], 9, SPARE * 10, 1, 2_000) is best


def test_half_of_the_rows_are_enough() -> None:
    best, other = candidate(1.0), candidate(0.1)
    assert explained_model([best, other], 9, SPARE * 5.1, 1, 2_000) is best
    assert explained_model([best, other], 9, SPARE * 4.9, 1, 2_000) is other


def test_a_small_table_needs_all_of_its_rows() -> None:
    best, other = candidate(1.0, n_rows=200), candidate(0.1, n_rows=200)
    assert explained_model([best, other], 9, SPARE * 10, 1, 2_000) is best
    assert explained_model([best, other], 9, SPARE * 9, 1, 2_000) is other


def test_the_fastest_model_is_explained_if_there_is_no_time_for_any() -> None:
    fastest = candidate(0.01)
    assert explained_model([candidate(3.0), fastest, candidate(1.0)], 9, 0.001, 1, 2_000) is fastest
