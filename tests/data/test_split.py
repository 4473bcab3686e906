"""Folds, holdouts and early-stopping rows: balanced, stratified, grouped, by time, and reproducible."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabapp.data.split import early_stopping_rows, make_folds, make_holdout, second_folds
from tabapp.errors import DataError

CLASSES = np.repeat([0, 1, 2], [600, 300, 100])
NUMBERS = np.random.default_rng(0).exponential(size=1000)


def test_folds_are_stratified_by_class() -> None:
    folds = make_folds(CLASSES, "multiclass", 5, seed=0)
    assert folds.dtype == np.int16
    for label, count in enumerate((120, 60, 20)):
        assert (np.bincount(folds[label == CLASSES], minlength=5) == count).all()


def test_folds_are_stratified_by_numbers() -> None:
    folds = make_folds(NUMBERS, "regression", 5, seed=0)
    means = [NUMBERS[folds == fold].mean() for fold in range(5)]
    assert np.bincount(folds).tolist() == [200] * 5
    assert np.ptp(means) < 0.1
    shuffled = np.random.default_rng(1).permutation(folds)
    assert np.ptp(means) < np.ptp([NUMBERS[shuffled == fold].mean() for fold in range(5)])


@settings(max_examples=80, deadline=None)
@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=8).filter(lambda counts: sum(counts) > 1),
    n_folds=st.integers(2, 10),
    seed=st.integers(0, 5),
)
def test_folds_of_any_class_counts(counts: list[int], n_folds: int, seed: int) -> None:
    target = np.repeat(np.arange(len(counts)), counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folds = make_folds(target, "multiclass", n_folds, seed)
    sizes = np.bincount(folds)
    assert len(sizes) == min(n_folds, len(target))
    assert np.ptp(sizes) <= 1
    for label in range(len(counts)):
        assert np.ptp(np.bincount(folds[target == label], minlength=len(sizes))) <= 1


def test_copies_of_a_class_go_to_different_folds() -> None:
    copies = np.random.default_rng(0).integers(0, 400, 1000)
    folds = make_folds(CLASSES, "multiclass", 5, 0, copies=copies)
    for label in np.unique(CLASSES):
        for row in np.unique(copies):
            same = folds[(label == CLASSES) & (copies == row)]
            assert len(set(same)) == min(5, len(same))
        assert np.ptp(np.bincount(folds[label == CLASSES], minlength=5)) <= 1
    distinct = make_folds(NUMBERS, "regression", 5, 0, copies=np.arange(1000)[::-1])
    assert (distinct == make_folds(NUMBERS, "regression", 5, 0)).all()


def test_folds_depend_only_on_the_seed() -> None:
    first, again, other = (make_folds(CLASSES, "multiclass", 5, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("task", ["multiclass", "regression"])
@pytest.mark.parametrize("n_groups", [2, 3, 40, 900])
def test_groups_are_never_split(task: str, n_groups: int) -> None:
    groups = np.array([f"g{i}" for i in np.random.default_rng(0).integers(0, n_groups, 1000)])
    target = CLASSES if task == "multiclass" else NUMBERS
    folds = make_folds(target, task, 5, 0, groups)  # type: ignore[arg-type]
    for group in np.unique(groups):
        assert len(np.unique(folds[groups == group])) == 1
    assert np.unique(folds).tolist() == list(range(folds.max() + 1))
    assert 2 <= folds.max() + 1 <= 5


def test_one_group_or_one_row_is_rejected() -> None:
    with pytest.raises(DataError, match="one group"):
        make_folds(CLASSES, "multiclass", 5, 0, np.zeros(1000))
    with pytest.raises(DataError, match="cannot be split"):
        make_folds(CLASSES[:1], "multiclass", 5, 0)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_second_folds_are_other_folds_of_a_stratified_sample(task: str) -> None:
    target = CLASSES if task == "multiclass" else NUMBERS
    folds = make_folds(target, task, 5, 0)  # type: ignore[arg-type]
    second = second_folds(folds, target, task, 200, 0)  # type: ignore[arg-type]
    drawn = second >= 0
    assert drawn.sum() == 200
    assert (second != folds).all()
    assert {(int(a), int(b)) for a, b in zip(folds[drawn], second[drawn], strict=True)} == {
        (a, b) for a in range(5) for b in range(5) if a != b
    }
    if task == "multiclass":
        np.testing.assert_allclose(np.bincount(CLASSES[drawn]) / 200, np.bincount(CLASSES) / 1000, atol=0.01)
    assert (second == second_folds(folds, target, task, 200, 0)).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("n_groups", [100, 900])
def test_rows_of_a_group_have_the_same_second_fold(n_groups: int) -> None:
    groups = np.array([f"g{i}" for i in np.random.default_rng(0).integers(0, n_groups, 1000)])
    folds = make_folds(CLASSES, "multiclass", 5, 0, groups)
    second = second_folds(folds, CLASSES, "multiclass", 150, 0, groups)
    assert 100 < (second >= 0).sum() < 200
    assert (second != folds).all()
    for group in np.unique(groups):
        assert len(np.unique(second[groups == group])) == 1


def test_no_row_has_a_second_fold_with_two_folds_a_holdout_or_few_groups() -> None:
    groups = np.arange(1000) // 100
    for folds in (
        make_folds(CLASSES, "multiclass", 2, 0),
        make_holdout(CLASSES, "multiclass", 0.2, 0),
    ):
        assert (second_folds(folds, CLASSES, "multiclass", 100, 0) == -1).all()
    folds = make_folds(CLASSES, "multiclass", 5, 0, groups)
    assert (second_folds(folds, CLASSES, "multiclass", 100, 0, groups) == -1).all()


def test_holdout_is_stratified() -> None:
    holdout = make_holdout(CLASSES, "multiclass", 0.2, seed=0)
    assert set(np.unique(holdout)) == {-1, 0}
    assert np.bincount(CLASSES[holdout == 0]).tolist() == [120, 60, 20]
    assert (holdout == make_holdout(CLASSES, "multiclass", 0.2, seed=0)).all()


def test_holdout_has_the_latest_rows() -> None:
    days = np.random.default_rng(0).permutation(1000)
    moments = np.datetime64("2024-01-01") + days
    for time in (days.astype(float), moments):
        holdout = make_holdout(NUMBERS, "regression", 0.1, 0, time=time)
        assert set(days[holdout == 0]) == set(range(900, 1000))


def test_rows_of_equal_time_stay_together_and_rows_without_time_are_training_rows() -> None:
    time = np.repeat([1.0, 2.0, 3.0, np.nan], 250)
    holdout = make_holdout(NUMBERS, "regression", 0.1, 0, time=time)
    assert (holdout == np.where(time == 3, 0, -1)).all()
    assert (make_holdout(NUMBERS, "regression", 0.9, 0, time=time) == np.where(time >= 2, 0, -1)).all()
    assert (make_holdout(NUMBERS, "regression", 0.1, 0, time=np.ones(1000)) == 0).sum() == 100


def test_holdout_does_not_split_groups() -> None:
    groups = np.random.default_rng(0).integers(0, 30, 1000)
    holdout = make_holdout(CLASSES, "multiclass", 0.2, 0, groups=groups)
    assert not set(groups[holdout == 0]) & set(groups[holdout == -1])
    assert 120 <= (holdout == 0).sum() <= 280


@pytest.mark.parametrize(("n_rows", "kept"), [(1000, 150), (1999, 300), (2000, 200), (80_000, 5000)])
def test_number_of_early_stopping_rows(n_rows: int, kept: int) -> None:
    target = np.random.default_rng(0).integers(0, 2, n_rows + 50)
    rows = np.arange(50, n_rows + 50)
    mask = early_stopping_rows(target, "binary", rows, seed=0)
    assert mask.shape == (n_rows,)
    assert mask.sum() == kept
    assert abs(target[rows][mask].mean() - target[rows].mean()) < 1 / kept + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_rare_classes_stay_in_training(seed: int) -> None:
    target = np.array([0] * 60 + [1] * 35 + [2] * 2 + [3])
    mask = early_stopping_rows(target, "multiclass", np.arange(98), seed)
    assert set(target[~mask]) == {0, 1, 2, 3}
    assert 0 < mask.sum() < 20


def test_early_stopping_rows_respect_groups_and_time() -> None:
    rows = np.arange(0, 1000, 2)
    groups = np.arange(1000) // 10
    mask = early_stopping_rows(CLASSES, "multiclass", rows, 0, groups=groups)
    assert not set(groups[rows][mask]) & set(groups[rows][~mask])
    assert mask.sum() == 75
    late = early_stopping_rows(NUMBERS, "regression", rows, 0, time=np.arange(1000.0))
    assert rows[late].min() > rows[~late].max()


def test_early_stopping_rows_of_two_rows() -> None:
    assert early_stopping_rows(np.array([0, 1]), "binary", np.array([0, 1]), 0).sum() == 1
    assert early_stopping_rows(np.array([0.5, 0.5]), "regression", np.array([0, 1]), 0).sum() == 1
