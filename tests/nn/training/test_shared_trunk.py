"""Several targets from one network: what the loss of another target is a mean of, and the rows that have only other targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tabapp.features.arrays import OtherTarget, Table
from tabapp.nn.training.objective import Objective, weights_of
from tabapp.nn.training.shared_trunk import MOST_PARTLY_LABELED, SharedTrunk, other_parts, with_partly_labeled

CPU = torch.device("cpu")
NUMBER, CLASSES = OtherTarget(name="number"), OtherTarget(name="classes", n_classes=3)


def table(others: np.ndarray, target: np.ndarray | None = None, weight: np.ndarray | None = None) -> Table:
    n = len(others)
    return Table(np.arange(n, dtype=np.float32)[:, None], np.zeros((n, 0), np.int32), target, weight, others)


def loss_of(known_share: float, weight: np.ndarray | None = None) -> float:
    values = np.tile([1.0, 3.0], 500)
    values[round(1_000 * known_share) :] = np.nan
    trunk = SharedTrunk(other_parts(table(values[:, None], weight=weight), (NUMBER,), CPU), 1, 0.5)
    return float(trunk.loss(torch.zeros(1_000, 2), torch.arange(1_000)))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_the_loss_of_another_target_does_not_shrink_with_its_share_of_rows(share):
    # Standardized values are -1 and 1, so that the squared error of zero is 1.
    assert loss_of(share) == pytest.approx(0.5)
    assert loss_of(share, np.full(1_000, 7.0, np.float32)) == pytest.approx(0.5)


def test_each_of_several_targets_is_a_mean_over_its_own_rows():
    others = np.array([[1.0, 0.0], [3.0, np.nan], [np.nan, 1.0], [np.nan, np.nan]])
    trunk = SharedTrunk(other_parts(table(others), (NUMBER, CLASSES), CPU), 1, 1.0)
    assert trunk.d_out == 4
    output = torch.zeros(4, 5)
    output[:, 1] = 1.0
    expected = ((1 - -1) ** 2 + 0) / 2, np.log(3)
    assert float(trunk.loss(output, torch.arange(4))) == pytest.approx(np.mean(expected), rel=1e-6)
    assert float(trunk.loss(output[:1], torch.tensor([3]))) == 0.0


@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("weight", [None, np.array([1.0, 3.0], np.float32)])
def test_rows_with_only_another_target_are_learned_without_weight_for_the_own_one(task, weight):
    target = np.array([5.0, 9.0]) if task == "regression" else np.array([0, 1])
    train = table(np.array([[1.0], [np.nan]]), target, weight)
    unlabeled = table(np.array([[np.nan], [4.0], [2.0], [np.nan]]))
    joined = with_partly_labeled(train, task, unlabeled)
    assert joined.numeric[:, 0].tolist() == [0, 1, 1, 2]
    weights = weights_of(joined, task)
    assert weights is not None
    assert weights[2:].tolist() == [0, 0]
    assert weights.mean() == pytest.approx(1)
    own = np.ones(2) if weight is None else weight
    np.testing.assert_allclose(weights[:2] / weights[0], own / own[0])
    objective = Objective(task=task, n_classes=1 if task == "regression" else 2, mean=7.0, std=2.0)
    assert torch.isfinite(objective.target(joined, CPU)).all()
    (part,) = other_parts(joined, (NUMBER,), CPU)
    assert part.known.tolist() == [True, False, True, True]
    assert float(part.weight[2]) == pytest.approx(1)


def test_rows_with_only_another_target_are_limited_and_evenly_spaced():
    n = 5 * MOST_PARTLY_LABELED
    train = table(np.ones((1, 1)), np.array([1.0]))
    joined = with_partly_labeled(train, "regression", table(np.arange(n, dtype=float)[:, None]))
    kept = joined.numeric[1:, 0]
    assert len(kept) == MOST_PARTLY_LABELED
    assert (kept[0], kept[-1]) == (0, n - 1)
    assert set(np.diff(kept)) == {5, 6}
    few = with_partly_labeled(train, "regression", table(np.arange(3.0)[:, None]))
    assert few.numeric[1:, 0].tolist() == [0, 1, 2]
    assert with_partly_labeled(train, "regression", None) is train
    assert with_partly_labeled(train, "regression", table(np.full((3, 1), np.nan))) is train
