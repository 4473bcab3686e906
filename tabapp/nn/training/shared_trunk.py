"""Several targets from one network: it has outputs for the other targets, too, and their losses are added in training (Caruana:
"Multitask Learning", Machine Learning 28, 1997). Predictions use the outputs of the run's target, which come first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tabapp.features.arrays import OtherTarget, Table
from tabapp.nn.training.objective import Objective
from tabapp.task import Task

MOST_PARTLY_LABELED = 10
"""Rows that lack the run's target and have another one that a fit learns from, for each row with the target."""


@dataclass(frozen=True)
class OtherPart:
    """One other target.

    Attributes:
        objective: its loss; numbers are standardized by the training rows that have it.
        target: (rows,) as the loss takes it, with any valid value where it is missing.
        known: (rows,) bool: whether it is present.
        weight: (rows,) float32 weight of a row in its loss: 0 where it is missing, of mean one without that.
    """

    objective: Objective
    target: Tensor
    known: Tensor
    weight: Tensor


def with_partly_labeled(train: Table, task: Task, unlabeled: Table | None) -> Table:
    """The training rows, then the rows that lack the run's target and have another one.

    The target of these rows is NaN, or -1 for classes, so that only the loss of the other targets learns from them.

    Args:
        unlabeled: `FitContext.unlabeled`.
    """
    rows = partly_labeled(unlabeled, len(train))
    if rows is None or train.target is None:
        return train
    target = np.full(len(rows), np.nan) if task == "regression" else np.full(len(rows), -1)
    weight = None if train.weight is None else np.full(len(rows), train.weight.mean(), train.weight.dtype)
    return train.joined(replace(rows, target=target, weight=weight))


def partly_labeled(unlabeled: Table | None, n_labeled: int) -> Table | None:
    """The rows without the run's target that have another one, evenly spaced, at most `MOST_PARTLY_LABELED` for each row with it;
    None if there are none."""
    if unlabeled is None or unlabeled.others is None:
        return None
    places = np.flatnonzero(np.isfinite(unlabeled.others).any(axis=1))
    if not len(places):
        return None
    n = min(len(places), MOST_PARTLY_LABELED * n_labeled)
    return unlabeled.take(places[np.linspace(0, len(places) - 1, n).round().astype(int)])


def other_parts(train: Table, others: tuple[OtherTarget, ...], device: torch.device) -> list[OtherPart]:
    """The other targets of training rows, without those that are constant in them."""
    if train.others is None:
        return []
    weight = np.ones(len(train)) if train.weight is None else train.weight.astype(np.float64)
    weight = weight / weight.mean()
    found: list[OtherPart] = []
    for values, other in zip(train.others.T, others, strict=True):
        is_known = np.isfinite(values)
        known = values[is_known]
        if not len(known) or known.min() == known.max():
            continue
        if other.n_classes == 1:
            objective = Objective(task="regression", n_classes=1, mean=float(known.mean()), std=float(known.std()))
        else:
            objective = Objective(task="binary" if other.n_classes == 2 else "multiclass", n_classes=other.n_classes)
        rows = Table(train.numeric, train.categorical, target=np.where(is_known, values, np.nan))
        weights = torch.tensor(is_known * weight, dtype=torch.float32, device=device)
        found.append(
            OtherPart(objective, objective.target(rows, device), torch.tensor(is_known, device=device), weights)
        )
    return found


class SharedTrunk:
    """The loss of the other targets.

    Args:
        first: width of the output of the run's target, which precedes the others.
        share: weight of the mean loss of the other targets.
    """

    def __init__(self, parts: list[OtherPart], first: int, share: float) -> None:
        self._parts, self._first, self._share = parts, first, share

    @property
    def d_out(self) -> int:
        """Width of the outputs of all other targets."""
        return sum(part.objective.d_out for part in self._parts)

    def loss(self, output: Tensor, rows: Tensor) -> Tensor:
        """`share` times the mean loss of the other targets of some training rows; the loss of a target is a mean over the rows that
        have it.

        Args:
            output: (rows, d) or (rows, members, d), of all targets.
            rows: (rows,) indices among the training rows.
        """
        total, start = output.new_zeros(()), self._first
        for part in self._parts:
            end = start + part.objective.d_out
            n_known = part.known[rows].sum().clamp(min=1)
            loss = part.objective.loss(output[..., start:end], part.target[rows], part.weight[rows])
            total = total + loss * (len(rows) / n_known)
            start = end
        return self._share * total / len(self._parts)
