"""Several targets from one network: it has outputs for the other targets, too, and their losses are added in training (Caruana:
"Multitask Learning", Machine Learning 28, 1997). Predictions use the outputs of the run's target, which come first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tabapp.features.arrays import OtherTarget, Table
from tabapp.nn.training.objective import Objective


@dataclass(frozen=True)
class OtherPart:
    """One other target.

    Attributes:
        objective: its loss; numbers are standardized by the training rows that have it.
        target: (rows,) as the loss takes it, with any valid value where it is missing.
        known: (rows,) float32: 1 where it is present, else 0.
    """

    objective: Objective
    target: Tensor
    known: Tensor


def other_parts(train: Table, others: tuple[OtherTarget, ...], device: torch.device) -> list[OtherPart]:
    """The other targets of training rows, without those that are constant in them."""
    if train.others is None:
        return []
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
        filled = np.where(is_known, values, objective.mean if other.n_classes == 1 else 0)
        rows = Table(train.numeric, train.categorical, target=filled)
        present = torch.tensor(is_known, dtype=torch.float32, device=device)
        found.append(OtherPart(objective, objective.target(rows, device), present))
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

    def loss(self, output: Tensor, rows: Tensor, weight: Tensor | None) -> Tensor:
        """Weighted mean loss of the other targets of some training rows.

        Args:
            output: (rows, d) or (rows, members, d), of all targets.
            rows: (rows,) indices among the training rows.
            weight: (rows,) weights of these rows, or None.
        """
        total, start = output.new_zeros(()), self._first
        for part in self._parts:
            end = start + part.objective.d_out
            known = part.known[rows]
            known = known if weight is None else known * weight
            total = total + part.objective.loss(output[..., start:end], part.target[rows], known)
            start = end
        return self._share * total / len(self._parts)
