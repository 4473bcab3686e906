"""Several fits of one architecture as one stacked network: folds, seeds, learning rates, weight decays.

A small network leaves a GPU idle, since starting an operation takes longer than the operation. Here every operation computes all
networks at once (`torch.func.vmap` over their weights), so that M fits take as many launches as one. Each network keeps its own
rows, order of rows, learning rate, averages, early stopping and best weights: results are those of separate fits up to rounding,
except that dropout, and on a GPU also the choice of unseen levels, draws other random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from tabapp import metrics
from tabapp.features.arrays import UNSEEN, Table
from tabapp.models.contract import FitStopped
from tabapp.nn.cuda_graphs import GraphedSteps, can_record
from tabapp.nn.group_checkpoint import GroupProgress, load_group, restore_random_numbers, save_group
from tabapp.nn.mapped import mapping
from tabapp.nn.members import Member, groups_of
from tabapp.nn.memory import MOST_ROWS, is_out_of_memory
from tabapp.nn.objective import target_of
from tabapp.nn.stacked_adamw import StackedAdamW
from tabapp.nn.stopping import criterion
from tabapp.nn.trainer import CHECKPOINT_SECONDS, Training, batches, inputs, train_epochs, train_network


def train_members(members: Sequence[Member]) -> None:
    """Train all members, in groups where they can be stacked. A group that does not fit in memory is halved."""
    waiting = groups_of(members)
    while waiting:
        group = waiting.pop()
        if len(group) == 1:
            _train_alone(group[0])
            continue
        try:
            Group(group).train()
        except Exception as error:
            if not is_out_of_memory(error) or any(member.result for member in group):
                raise
            half = len(group) // 2
            waiting += [group[:half], group[half:]]


def _train_alone(member: Member) -> None:
    """Train a member as a separate fit would."""
    torch.random.set_rng_state(member.random)
    rest = member.params, member.objective, member.context, member.method
    try:
        if member.n_epochs is None:
            member.result = train_network(member.network, member.train, member.valid, *rest)
        else:
            planned = member.params.max_epochs
            member.result = train_epochs(member.network, member.train, member.n_epochs, planned, *rest)
    except FitStopped:
        member.stopped = True


def _padded(parts: Sequence[Tensor]) -> Tensor:
    """(members, most rows, ...) from tensors of different lengths, with zeros below the shorter ones."""
    return nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


class Group:
    """Members that are trained together, with all of their rows on the device.

    Args:
        members: of equal `Member.architecture`; each `can_stack`.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        for member in members:
            member.best_loss, member.best_epoch = float("inf"), 0
        self._network = members[0].network
        self._objective, self._precision = members[0].objective, members[0].method.precision
        device = self._device = torch.device(members[0].context.device)
        named = dict(self._network.named_parameters())
        self._names, self._shapes = list(named), [p.shape for p in named.values()]
        self._sizes = [prod(shape) for shape in self._shapes]
        for member in members:
            member.network.to(device).train()
        # One leaf for all weights: an operation of the optimizer is one launch, and the gradient of a split is one concatenation.
        rows = [torch.cat([p.detach().flatten() for p in member.network.parameters()]) for member in members]
        self._weights = torch.stack(rows).requires_grad_()
        self._buffers = dict(self._network.named_buffers())
        undecayed = members[0].method.undecayed
        parts = [
            torch.full((n,), float(name not in undecayed)) for name, n in zip(self._names, self._sizes, strict=True)
        ]
        self._optimizer = StackedAdamW(
            self._weights.detach(),
            self._column([member.params.learning_rate for member in members]),
            self._column([member.params.weight_decay for member in members]),
            torch.cat(parts).to(device),
        )
        self._average = self._weights.detach().clone()
        self._average_decay = self._column([member.params.average_decay for member in members])
        self._best = self._average.clone()
        self._largest_norm = self._column([member.params.max_gradient_norm or float("inf") for member in members])
        tables = [inputs(member.train, device) for member in members]
        self._numeric, self._categorical = (_padded([table[i] for table in tables]) for i in (0, 1))
        self._target = _padded([member.objective.target(member.train, device) for member in members])
        self._weight = None
        if members[0].train.weight is not None:
            self._weight = _padded([_row_weights(member.train, device) for member in members])
        tables = [inputs(member.valid, device) for member in members]
        self._valid = tuple(_padded([table[i] for table in tables]) for i in (0, 1))
        for member in members:
            member.method.start(*inputs(member.train.take(slice(0, 2)), device), self._target[0, :2], None)
        self._random = [_generator(member, device) for member in members]
        self._everyone = list(members)
        self._plan_steps()

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=self._weights.dtype, device=self._device).unsqueeze(1)

    def _output(self, weights: Tensor, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(members, rows, d_out) from (members, n) weights and (members, rows, n_numeric), (members, rows, n_categorical)."""

        def one(flat: Sequence[Tensor], x: Tensor, codes: Tensor) -> Tensor:
            named = {name: t.view(shape) for name, t, shape in zip(self._names, flat, self._shapes, strict=True)}
            return functional_call(self._network, {**named, **self._buffers}, (x, codes))

        mapped: Callable[..., Tensor] = vmap(one, randomness="different")
        with mapping(), self._precision():
            return mapped(weights.split(self._sizes, dim=1), numeric, categorical)

    def _plan_steps(self) -> None:
        """Place the rows of every member in the steps of an epoch; done when members change, so that no step waits for the host."""
        lengths = [[len(part) for part in batches(torch.arange(len(m.train)), m.batch_size)] for m in self.members]
        n_steps, width = max(map(len, lengths)), max(map(max, lengths))
        self._lengths = [[each[step] if step < len(each) else 0 for each in lengths] for step in range(n_steps)]
        counts = torch.tensor(self._lengths).unsqueeze(2)
        inside = torch.arange(width) < counts
        starts = counts.cumsum(0) - counts
        # A padded row is the first of its member's order, with weight 0.
        self._places = ((starts + torch.arange(width)) * inside).to(self._device)
        self._weights_in_step = (inside * (width / counts.clamp_min(1))).to(self._device, self._weights.dtype)
        self._active = (counts > 0).to(self._device, self._weights.dtype)
        self._member = torch.arange(len(self.members), device=self._device).unsqueeze(1)
        self._orders = torch.zeros(len(self.members), max(len(m.train) for m in self.members), dtype=torch.int64).to(
            self._device
        )
        self._steps = torch.arange(n_steps, device=self._device)
        self._lengths_now = self._lengths[0]
        self._unseen_rate = self._column([member.params.unseen_rate for member in self.members]).unsqueeze(2)
        self._graphs = None
        if can_record(self._device) and self.members[0].method.repeats_steps:
            self._graphs = GraphedSteps(self._step, self._device)

    def run_epoch(self) -> bool:
        """Train every member on each of its rows once, in an order of its own; False if the soft deadline ended it early."""
        orders = [
            torch.randperm(len(m.train), device=self._device, generator=random)
            for m, random in zip(self.members, self._random, strict=True)
        ]
        self._orders.copy_(_padded(orders))
        for step in range(len(self._lengths)):
            self._lengths_now = self._lengths[step]
            (self._graphs or self._step)(self._steps[step : step + 1])
            if min(member.context.seconds_left() for member in self.members) <= 0:
                return False
        return True

    def _step(self, step: Tensor) -> None:
        """Take the step with a number, (1,), of the epoch. On a GPU, it is recorded and then repeated."""
        member, active, weight = self._member, self._active[step][0], self._weights_in_step[step][0]
        index = self._orders.gather(1, self._places[step][0])
        codes = self._with_unseen(self._categorical[member, index])
        if self._weight is not None:
            weight = weight * self._weight[member, index]
        self._weights.grad = None
        output = self._output(self._weights, self._numeric[member, index], codes)
        # The mean over all rows times the number of members is the sum of their own means.
        loss = self._objective.loss(output.flatten(0, 1), self._target[member, index].flatten(), weight.flatten())
        (loss * len(self.members)).backward()
        gradient = self._weights.grad
        assert gradient is not None
        if any(each.params.max_gradient_norm for each in self.members):
            norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient = gradient * (self._largest_norm / (norms + 1e-6)).clamp_max(1.0)
        weights = self._weights.detach()
        self._optimizer.step(weights, gradient, active)
        n = self._optimizer.n_steps
        decay = torch.minimum(self._average_decay, (1 + n) / (10 + n))
        self._average.lerp_(weights, active * (1 - decay))

    def _with_unseen(self, codes: Tensor) -> Tensor:
        """Codes of which some are replaced by that of unseen levels; on a CPU, drawn as a separate fit draws them."""
        if not codes.shape[2] or not any(member.params.unseen_rate for member in self.members):
            return codes
        if self._graphs is not None:
            return codes.masked_fill(torch.rand(codes.shape, device=self._device) < self._unseen_rate, UNSEEN)
        hidden: list[Tensor] = []
        for member, random, length in zip(self.members, self._random, self._lengths_now, strict=True):
            drawn = torch.rand(length, codes.shape[2], device=self._device, generator=random)
            hidden.append(nn.functional.pad(drawn < member.params.unseen_rate, (0, 0, 0, codes.shape[1] - length)))
        return codes.masked_fill(torch.stack(hidden), UNSEEN)

    @torch.no_grad()
    def predict(self, weights: Tensor) -> Tensor:
        """(members, most valid rows, d_out) outputs on the early-stopping rows, in evaluation mode."""
        numeric, categorical = self._valid
        chunk = max(1, MOST_ROWS // len(self.members))
        self._network.eval()
        try:
            parts = zip(numeric.split(chunk, 1), categorical.split(chunk, 1), strict=True)
            return torch.cat([self._output(weights, x, codes).float() for x, codes in parts], dim=1)
        finally:
            self._network.train()

    def train(self) -> None:
        """Train all members until each has stopped early, was stopped by the engine, or has reached the soft deadline. Their
        networks get their best weights. A group that was killed resumes from its checkpoint.

        Raises:
            torch.OutOfMemoryError: a step of all members does not fit.
        """
        epoch = self._resume()
        saved_at = time.monotonic()
        while self.members:
            is_complete = self.run_epoch()
            epoch += 1
            uses_average = self._average_decay > 0
            weights = torch.where(uses_average, self._average, self._weights.detach())
            output = self.predict(weights) if any(member.n_epochs is None for member in self.members) else weights
            ended = [
                self._judge(i, member, epoch, output[i], weights, reports=is_complete) or not is_complete
                for i, member in enumerate(self.members)
            ]
            self._end(ended, epoch)
            if self.members and time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                saved_at = time.monotonic()
                self._save(epoch)
        for member in self._everyone:
            member.network.eval()

    def _judge(self, i: int, member: Member, epoch: int, output: Tensor, weights: Tensor, *, reports: bool) -> bool:
        """Score a member on its early-stopping rows after an epoch; returns whether it ends."""
        if member.n_epochs is not None:
            member.best_epoch, member.best_loss = epoch, float("nan")
            self._best[i].copy_(weights[i])
            return epoch >= member.n_epochs
        context, valid = member.context, member.valid
        prediction = member.objective.prediction(output[: len(valid)])
        loss = metrics.loss(criterion(context), target_of(valid), prediction, valid.weight)
        if loss < member.best_loss or epoch == 1:
            member.best_loss, member.best_epoch = loss, epoch
            self._best[i].copy_(weights[i])
        if not reports:
            return True
        try:
            context.report(epoch, metrics.score(context.metric, target_of(valid), prediction, valid.weight))
        except FitStopped:
            member.stopped = True
        done = epoch >= member.params.max_epochs or epoch - member.best_epoch > member.patience
        return done or member.stopped

    def _end(self, ended: Sequence[bool], epoch: int) -> None:
        """Give the networks of members that have ended their best weights, and continue without them."""
        for i, member in enumerate(self.members):
            if ended[i]:
                member.result = Training(member.best_epoch, epoch, member.best_loss)
                self._give(member, self._best[i])
        if not any(ended):
            return
        self._keep([i for i, is_over in enumerate(ended) if not is_over])

    def _keep(self, kept: Sequence[int]) -> None:
        """Continue with some of the members."""
        self.members, self._random = [self.members[i] for i in kept], [self._random[i] for i in kept]
        index = torch.tensor(kept, dtype=torch.int64, device=self._device)
        self._optimizer.keep(index)
        self._weights = self._weights.detach()[index].requires_grad_()
        names = ("_average", "_average_decay", "_best", "_largest_norm", "_numeric", "_categorical", "_target")
        for name in names:
            setattr(self, name, getattr(self, name)[index])
        self._weight = None if self._weight is None else self._weight[index]
        self._valid = tuple(part[index] for part in self._valid)
        if self.members:
            self._plan_steps()

    def _state(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint that `_resume` fills in place."""
        return {
            "weights": self._weights.detach(),
            "average": self._average,
            "best": self._best,
            **self._optimizer.state(),
        }

    def _save(self, epoch: int) -> None:
        """Write a checkpoint to the folder of the first fit."""
        everyone = self._everyone
        tensors = self._state()
        tensors["best_losses"] = torch.tensor([member.best_loss for member in everyone], dtype=torch.float64)
        left = [i for i, member in enumerate(everyone) if member.result is None]
        tensors |= {f"order.{i}": random.get_state() for i, random in zip(left, self._random, strict=True)}
        for i, member in enumerate(everyone):
            if member.result is not None:
                tensors[f"ended.{i}"] = torch.cat([p.detach().flatten() for p in member.network.parameters()])
        progress = GroupProgress(
            fits=tuple(member.context.folder.name for member in everyone),
            epoch=epoch,
            left=tuple(left),
            best_epochs=tuple(member.best_epoch for member in everyone),
            epochs=tuple(member.result.n_epochs if member.result else 0 for member in everyone),
        )
        save_group(everyone[0].context.folder, tensors, progress)

    def _resume(self) -> int:
        """Continue from a checkpoint of the same fits; returns the number of completed epochs, 0 without one."""
        everyone = self._everyone
        found = load_group(everyone[0].context.folder)
        if found is None or found[1].fits != tuple(member.context.folder.name for member in everyone):
            return 0
        saved, progress = found
        for i, loss in enumerate(saved["best_losses"].tolist()):
            everyone[i].best_loss, everyone[i].best_epoch = loss, progress.best_epochs[i]
            if i not in progress.left:
                everyone[i].result = Training(progress.best_epochs[i], progress.epochs[i], loss)
                self._give(everyone[i], saved[f"ended.{i}"].to(self._device))
        self._keep(progress.left)
        for name, t in self._state().items():
            t.copy_(saved[name])
        for i, random in zip(progress.left, self._random, strict=True):
            random.set_state(saved[f"order.{i}"])
        restore_random_numbers(saved)
        return progress.epoch

    @torch.no_grad()
    def _give(self, member: Member, weights: Tensor) -> None:
        """Set the weights of a member's network, from (n,)."""
        for parameter, part in zip(member.network.parameters(), weights.split(self._sizes), strict=True):
            parameter.copy_(part.view(parameter.shape))


def _row_weights(table: Table, device: torch.device) -> Tensor:
    weight: Any = table.weight
    return torch.tensor(weight / weight.mean(), device=device)


def _generator(member: Member, device: torch.device) -> torch.Generator:
    """The random numbers from which a separate fit would draw after building its network."""
    generator = torch.Generator(device)
    if device.type == "cpu":
        generator.set_state(member.random)
    else:
        generator.manual_seed(member.context.seed)
    return generator
