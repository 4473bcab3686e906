"""Several fits of one architecture as one stacked network: folds, seeds, and trials with other hyperparameters of training.

A small network leaves a GPU idle, since starting an operation takes longer than the operation. Here every operation computes all
networks at once (`torch.func.vmap` over their weights), so that M fits take as many launches as one. Each network keeps its own
rows, order of rows, learning rate, averages, early stopping and best weights: results are those of separate fits up to rounding,
except that dropout, and on a GPU also the order of rows and the choice of unseen levels, draw other random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from tabapp import metrics
from tabapp.models.contract import FitStopped
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.mapped import mapping
from tabapp.nn.training.checkpoint import Saving
from tabapp.nn.training.cuda_graphs import GraphedSteps, can_record
from tabapp.nn.training.group_checkpoint import GroupProgress, load_group, restore_random_numbers, save_group
from tabapp.nn.training.members import Member, groups_of
from tabapp.nn.training.memory import MOST_ROWS, is_out_of_memory
from tabapp.nn.training.objective import target_of
from tabapp.nn.training.stacked_adamw import Coefficients, StackedAdamW
from tabapp.nn.training.stacked_losses import StackedLosses
from tabapp.nn.training.stacked_rows import StackedRows
from tabapp.nn.training.stopping import criterion
from tabapp.nn.training.trainer import Training, inputs, train_epochs, train_network


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
        params = [member.params for member in members]
        self._n_steps = torch.zeros(len(members), dtype=torch.float64, device=device)
        self._optimizer = StackedAdamW(
            self._weights.detach(),
            self._numbers([each.learning_rate for each in params]),
            self._numbers([each.weight_decay for each in params]),
            torch.cat(parts).to(device) if undecayed else None,
        )
        self._average = self._weights.detach().clone()
        self._average_decay = self._numbers([each.average_decay for each in params])
        self._best = self._average.clone()
        # Against NaN, any loss is better.
        self._best_losses = self._numbers([float("nan")] * len(members))
        norms = [each.max_gradient_norm or float("inf") for each in params]
        self._largest_norm = self._numbers(norms).to(self._weights.dtype).unsqueeze(1)
        self._is_clipped = any(each.max_gradient_norm for each in params)
        # Members with one rate of dropout share a faster operation.
        self._dropouts, rates = dropouts(self._network), [[m.rate for m in dropouts(e.network)] for e in members]
        self._rates = torch.tensor(rates, device=device) if any(each != rates[0] for each in rates) else None
        self._rows = StackedRows(members, device, self._weights.dtype)
        tables = [inputs(member.valid, device) for member in members]
        self._valid = tuple(nn.utils.rnn.pad_sequence([table[i] for table in tables], batch_first=True) for i in (0, 1))
        self._losses = StackedLosses(members, device) if members[0].n_epochs is None else None
        self._unreported: list[tuple[Member, int, float, Tensor]] = []
        for member in members:
            train = member.train.take(slice(0, 2))
            member.method.start(*inputs(train, device), member.objective.target(train, device), None)
        self._everyone = list(members)
        self._plan_steps()

    def _numbers(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self._device)

    def _output(self, weights: Tensor, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(members, rows, d_out) from (members, n) weights and (members, rows, n_numeric), (members, rows, n_categorical)."""

        def one(flat: Sequence[Tensor], rates: Tensor | None, x: Tensor, codes: Tensor) -> Tensor:
            if rates is not None:
                for module, rate in zip(self._dropouts, rates.unbind(), strict=True):
                    module.rate = rate
            named = {name: t.view(shape) for name, t, shape in zip(self._names, flat, self._shapes, strict=True)}
            return functional_call(self._network, {**named, **self._buffers}, (x, codes))

        in_dims = 0, None if self._rates is None else 0, 0, 0
        mapped: Callable[..., Tensor] = vmap(one, in_dims, randomness="different")
        own = [module.rate for module in self._dropouts]
        try:
            with mapping(), self._precision():
                return mapped(weights.split(self._sizes, dim=1), self._rates, numeric, categorical)
        finally:
            for module, rate in zip(self._dropouts, own, strict=True):
                module.rate = rate

    def _plan_steps(self) -> None:
        """Prepare steps of the members; done when they change."""
        self._steps = torch.arange(len(self._rows), device=self._device)
        size = len(self._rows), len(Coefficients._fields) + 1, len(self.members), 1
        self._coefficients = torch.zeros(size, dtype=self._weights.dtype, device=self._device)
        self._graphs = None
        if can_record(self._device) and self.members[0].method.repeats_steps:
            self._graphs = GraphedSteps(self._step, self._device)

    def run_epoch(self) -> bool:
        """Train every member on each of its rows once, in an order of its own; False if the soft deadline ended it early."""
        self._rows.shuffle()
        active = self._rows.active
        n_steps = self._n_steps + active.cumsum(0)
        decays = torch.minimum(self._average_decay, (1 + n_steps) / (10 + n_steps))
        numbers = *self._optimizer.coefficients(n_steps, active), active * (1 - decays)
        self._coefficients.copy_(torch.stack(numbers, 1).unsqueeze(3))
        self._n_steps.copy_(n_steps[-1])
        for number in range(len(self._rows)):
            self._number = number
            (self._graphs or self._step)(self._steps[number : number + 1])
            if min(member.context.seconds_left() for member in self.members) <= 0:
                return False
        return True

    def _step(self, step: Tensor) -> None:
        """Take the step with a number, (1,), of the epoch. On a GPU, it is recorded and then repeated."""
        batch = self._rows.batch(step, self._number)
        *numbers, share = self._coefficients.index_select(0, step)[0].unbind()
        self._weights.grad = None
        output = self._output(self._weights, batch.numeric, batch.categorical)
        self._objective.loss(output.flatten(0, 1), batch.target.flatten(), batch.weight.flatten()).backward()
        gradient = self._weights.grad
        assert gradient is not None
        if self._is_clipped:
            norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient = gradient * (self._largest_norm / (norms + 1e-6)).clamp_max(1.0)
        weights = self._weights.detach()
        self._optimizer.step(weights, gradient, Coefficients(*numbers))
        self._average.lerp_(weights, share)

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
        saving = Saving()
        while self.members:
            is_complete = self.run_epoch()
            # Those of the epoch before, while the device computes this one.
            self._report()
            epoch += 1
            self._judge(epoch, reports=is_complete)
            self._end(epoch, is_over=not is_complete)
            if self.members and saving.is_due():
                self._report()
                with saving.timed():
                    self._save(epoch)
        self._report()
        for member in self._everyone:
            member.network.eval()

    @torch.no_grad()
    def _judge(self, epoch: int, *, reports: bool) -> None:
        """Score all members on their early-stopping rows after an epoch, and keep the weights of those that have improved."""
        # Without averaging, the average is the last weights.
        output, losses = None, torch.full_like(self._best_losses, float("nan"))
        if self._losses is not None:
            output = self.predict(self._average)
            losses = self._losses(output)
        improved = ~(losses >= self._best_losses)
        self._best_losses = torch.where(improved, losses, self._best_losses)
        self._best = torch.where(improved.unsqueeze(1), self._average, self._best)
        # The only time in an epoch that the host waits for the device.
        found = torch.stack([losses, improved.double()]).tolist()
        if output is not None and any(member.context.metric != criterion(member.context) for member in self.members):
            # Now, because a copy waits for everything that the device has been asked to do before.
            output = output.cpu()
        for i, member in enumerate(self.members):
            if member.result is not None:
                continue
            if found[1][i]:
                member.best_loss, member.best_epoch = found[0][i], epoch
            if reports and output is not None:
                self._unreported.append((member, epoch, found[0][i], output[i, : len(member.valid)]))

    def _report(self) -> None:
        """Report the scores of the last epoch."""
        for member, epoch, score, output in self._unreported:
            if member.context.metric != criterion(member.context):
                valid, prediction = member.valid, member.objective.prediction(output)
                score = metrics.score(member.context.metric, target_of(valid), prediction, valid.weight)
            try:
                member.context.report(epoch, score)
            except FitStopped:
                member.stopped = True
        self._unreported.clear()

    def _end(self, epoch: int, *, is_over: bool) -> None:
        """End members that have stopped, and give their networks their best weights.

        On a GPU, they stay in the stacked network until three quarters of it have ended: a smaller one must be recorded again, and
        takes not much less time.
        """
        for i, member in enumerate(self.members):
            if member.result is not None:
                continue
            if member.n_epochs is not None:
                is_done = epoch >= member.n_epochs
            else:
                is_done = epoch >= member.params.max_epochs or epoch - member.best_epoch > member.patience
            if is_over or is_done or member.stopped:
                member.result = Training(member.best_epoch, epoch, member.best_loss)
                self._give(member, self._best[i])
        left = [i for i, member in enumerate(self.members) if member.result is None]
        if len(left) <= (len(self.members) / 4 if self._graphs is not None else len(self.members) - 1):
            self._keep(left)

    def _keep(self, kept: Sequence[int]) -> None:
        """Continue with some of the members."""
        self.members = [self.members[i] for i in kept]
        if not self.members:
            return
        index = torch.tensor(kept, dtype=torch.int64, device=self._device)
        self._weights = self._weights.detach()[index].requires_grad_()
        for name in ("_n_steps", "_average", "_average_decay", "_best", "_best_losses", "_largest_norm"):
            setattr(self, name, getattr(self, name)[index])
        self._rates = None if self._rates is None else self._rates[index]
        self._valid = tuple(part[index] for part in self._valid)
        self._optimizer.keep(index)
        self._rows.keep(kept)
        if self._losses is not None:
            self._losses.keep(index)
        self._plan_steps()

    def _state(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint that `_resume` fills in place."""
        return {
            "weights": self._weights.detach(),
            "average": self._average,
            "best": self._best,
            "n_steps": self._n_steps,
            **self._optimizer.state(),
        }

    def _save(self, epoch: int) -> None:
        """Write a checkpoint to the folder of the first fit."""
        everyone = self._everyone
        tensors = self._state() | self._rows.state()
        tensors["best_losses"] = torch.tensor([member.best_loss for member in everyone], dtype=torch.float64)
        for i, member in enumerate(everyone):
            if member.result is not None:
                tensors[f"ended.{i}"] = torch.cat([p.detach().flatten() for p in member.network.parameters()])
        progress = GroupProgress(
            fits=tuple(member.context.folder.name for member in everyone),
            epoch=epoch,
            stacked=tuple(i for i, member in enumerate(everyone) if any(member is other for other in self.members)),
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
            if progress.epochs[i]:
                everyone[i].result = Training(progress.best_epochs[i], progress.epochs[i], loss)
                self._give(everyone[i], saved[f"ended.{i}"].to(self._device))
        self._keep(progress.stacked)
        for name, t in self._state().items():
            t.copy_(saved[name])
        self._best_losses = self._numbers([member.best_loss for member in self.members])
        self._rows.resume(saved)
        restore_random_numbers(saved)
        return progress.epoch

    @torch.no_grad()
    def _give(self, member: Member, weights: Tensor) -> None:
        """Set the weights of a member's network, from (n,)."""
        for parameter, part in zip(member.network.parameters(), weights.split(self._sizes), strict=True):
            parameter.copy_(part.view(parameter.shape))


def dropouts(network: nn.Module) -> list[Dropout]:
    """Modules of a network whose rates may differ between members."""
    return [module for module in network.modules() if isinstance(module, Dropout)]
