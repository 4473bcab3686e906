"""The training rows of fits that are trained as one stacked network, and their place in the steps of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tabapp.features.arrays import UNSEEN
from tabapp.nn.training.members import Member
from tabapp.nn.training.trainer import batches, inputs


class Batch(NamedTuple):
    """The rows of a step: (members, rows, n_numeric), (members, rows, n_categorical), and (members, rows) targets and weights."""

    numeric: Tensor
    categorical: Tensor
    target: Tensor
    weight: Tensor


class StackedRows:
    """Training rows on the device. Members with the same table share its rows.

    Args:
        members: of the same architecture.
        dtype: of the weights of rows.
    """

    def __init__(self, members: Sequence[Member], device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        self._members = list(members)
        firsts = {id(member.train): member for member in reversed(members)}
        tables = [inputs(member.train, device) for member in firsts.values()]
        self._numeric, self._categorical = (torch.cat([table[i] for table in tables]) for i in (0, 1))
        self._target = torch.cat([member.objective.target(member.train, device) for member in firsts.values()])
        self._weight = None
        if members[0].train.weight is not None:
            self._weight = torch.cat([_row_weights(member, device) for member in firsts.values()])
        starts: dict[int, int] = {}
        n_rows = 0
        for key, member in firsts.items():
            starts[key] = n_rows
            n_rows += len(member.train)
        self._starts = torch.tensor([[starts[id(member.train)]] for member in members], device=device)
        # On a CPU, each member draws what a separate fit draws after building its network.
        self._random = [_generator(member) for member in members] if device.type == "cpu" else []
        self._plan()

    def _plan(self) -> None:
        """Place the rows of every member in the steps of an epoch; done when members change, so that no step waits for the host."""
        lengths = [[len(part) for part in batches(torch.arange(len(m.train)), m.batch_size)] for m in self._members]
        n_steps, width = max(map(len, lengths)), max(map(max, lengths))
        self._lengths = [[each[step] if step < len(each) else 0 for each in lengths] for step in range(n_steps)]
        counts = torch.tensor(self._lengths).unsqueeze(2)
        inside = torch.arange(width) < counts
        starts = counts.cumsum(0) - counts
        # A padded row is the first of its member's order, with weight 0.
        self._places = ((starts + torch.arange(width)) * inside).to(self._device)
        self._rows = torch.zeros_like(self._places)
        # The mean over all rows times the number of members is the sum of their own means.
        scale = inside * (len(self._members) * width / counts.clamp_min(1).double())
        self._scale = scale.to(self._device, self._dtype)
        self.active = (counts[:, :, 0] > 0).to(self._device, torch.float64)
        """(steps, members) 1 where a member has rows in a step, else 0."""
        most = max(len(member.train) for member in self._members)
        self._beyond = torch.arange(most) >= torch.tensor([[len(member.train)] for member in self._members])
        self._beyond = self._beyond.to(self._device)
        rates = [member.params.unseen_rate for member in self._members]
        self._unseen_rate = torch.tensor(rates, device=self._device).view(-1, 1, 1) if any(rates) else None

    def __len__(self) -> int:
        """Number of steps of an epoch."""
        return len(self._lengths)

    def shuffle(self) -> None:
        """Draw an order of the rows of every member."""
        orders = self._orders()
        chosen = orders.expand(len(self), *orders.shape).gather(2, self._places)
        torch.add(chosen, self._starts, out=self._rows)

    def _orders(self) -> Tensor:
        """(members, most rows) permutations of each member's rows, with any numbers beyond them."""
        if self._random:
            orders = [
                torch.randperm(len(member.train), device=self._device, generator=random)
                for member, random in zip(self._members, self._random, strict=True)
            ]
            return nn.utils.rnn.pad_sequence(orders, batch_first=True)
        # At once: a permutation for each member takes longer to start than to compute.
        keys = torch.rand(self._beyond.shape, device=self._device).masked_fill(self._beyond, 2.0)
        return keys.argsort(1)

    def batch(self, step: Tensor, number: int) -> Batch:
        """The rows of the step with a number, which is also a tensor (1,), from which a recorded step reads it."""
        rows = self._rows.index_select(0, step)[0]
        weight = self._scale.index_select(0, step)[0]
        if self._weight is not None:
            weight = weight * self._weight[rows]
        codes = self._with_unseen(self._categorical[rows], number)
        return Batch(self._numeric[rows], codes, self._target[rows], weight)

    def _with_unseen(self, codes: Tensor, number: int) -> Tensor:
        """Codes of which some are replaced by that of unseen levels; on a CPU, drawn as a separate fit draws them."""
        if not codes.shape[2] or self._unseen_rate is None:
            return codes
        if not self._random:
            return codes.masked_fill(torch.rand(codes.shape, device=self._device) < self._unseen_rate, UNSEEN)
        hidden: list[Tensor] = []
        for member, random, length in zip(self._members, self._random, self._lengths[number], strict=True):
            drawn = torch.rand(length, codes.shape[2], device=self._device, generator=random)
            hidden.append(nn.functional.pad(drawn < member.params.unseen_rate, (0, 0, 0, codes.shape[1] - length)))
        return codes.masked_fill(torch.stack(hidden), UNSEEN)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint contains besides the random numbers of torch."""
        return {f"order.{i}": random.get_state() for i, random in enumerate(self._random)}

    def resume(self, saved: dict[str, Tensor]) -> None:
        """Continue after `state`."""
        for i, random in enumerate(self._random):
            random.set_state(saved[f"order.{i}"])

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only some members."""
        self._members = [self._members[i] for i in kept]
        self._random = [self._random[i] for i in kept] if self._random else []
        self._starts = self._starts[torch.tensor(kept, device=self._device)]
        self._plan()


def _row_weights(member: Member, device: torch.device) -> Tensor:
    weight: Any = member.train.weight
    return torch.tensor(weight / weight.mean(), device=device)


def _generator(member: Member) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(member.random)
    return generator
