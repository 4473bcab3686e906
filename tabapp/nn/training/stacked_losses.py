"""The early-stopping loss of several networks at once, on their device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tabapp.metrics import LOG_LOSS, RMSE
from tabapp.metrics.classification import LEAST_PROBABILITY
from tabapp.nn.training.members import Member
from tabapp.nn.training.objective import target_of
from tabapp.nn.training.stopping import criterion


class StackedLosses:
    """`metrics.loss` of the members' criterion, without a copy of their predictions to the host.

    Args:
        members: with an equal task and criterion.
        device: of the outputs.
    """

    def __init__(self, members: Sequence[Member], device: torch.device) -> None:
        objective = members[0].objective
        self._criterion, self._n_classes = criterion(members[0].context), objective.n_classes

        def padded(rows: Callable[[Member], Tensor]) -> Tensor:
            return nn.utils.rnn.pad_sequence([rows(member) for member in members], batch_first=True).to(device)

        def column(value: Callable[[Member], float]) -> Tensor:
            return torch.tensor([[value(member)] for member in members], dtype=torch.float64).to(device)

        def shares(member: Member) -> Tensor:
            weight = member.valid.weight
            rows = torch.ones(len(member.valid)) if weight is None else torch.tensor(weight)
            return rows.double() / rows.double().sum()

        dtype = torch.float64 if objective.task == "regression" else torch.int64
        self._truth = padded(lambda member: torch.tensor(target_of(member.valid), dtype=dtype))
        self._shares = padded(shares)
        self._mean, self._std = column(lambda m: m.objective.mean), column(lambda m: m.objective.std)
        unlimited = float("-inf"), float("inf")
        self._least, self._most = (column(lambda m, i=i: (m.objective.limits or unlimited)[i]) for i in (0, 1))

    def __call__(self, output: Tensor) -> Tensor:
        """(members,) float64 losses, infinite where one is undefined, of (members, rows, d_out) outputs."""
        output = output.double()
        if self._criterion == LOG_LOSS:
            rows = self._nats(output)
        else:
            predicted = (output[:, :, 0] * self._std + self._mean).clamp(self._least, self._most)
            rows = (self._truth - predicted).abs()
        is_rmse = self._criterion == RMSE
        losses = ((rows.square() if is_rmse else rows) * self._shares).sum(1)
        return (losses.sqrt() if is_rmse else losses).nan_to_num(nan=float("inf"))

    def _nats(self, output: Tensor) -> Tensor:
        """Negative log probability of each row's true class."""
        if self._n_classes == 2:
            positive = output[:, :, 0].clamp(-500, 500).sigmoid()
            likelihood = torch.where(self._truth == 1, positive, 1 - positive)
        else:
            likelihood = output[:, :, : self._n_classes].softmax(2).gather(2, self._truth.unsqueeze(2)).squeeze(2)
        return -likelihood.to(torch.float32).double().clamp(LEAST_PROBABILITY, 1.0).log()

    def keep(self, kept: Tensor) -> None:
        """Keep only some members."""
        for name in ("_truth", "_shares", "_mean", "_std", "_least", "_most"):
            setattr(self, name, getattr(self, name)[kept])
