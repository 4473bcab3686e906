"""The training loop of all networks (Gorishniy et al. 2021, section 4.4). The data are on the device, batches are slices of
a permutation created there, and no operation within an epoch waits for the device.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch
from torch import Tensor, nn

from tabapp import metrics
from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.models.contract import FitContext
from tabapp.nn.training.checkpoint import Progress, Saving, load_checkpoint, save_checkpoint
from tabapp.nn.training.cuda_graphs import GraphedSteps, can_record, is_recording
from tabapp.nn.training.memory import is_out_of_memory, prediction_rows, step_rows
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective, target_of, weights_of
from tabapp.nn.training.params import TrainingParams, batch_size_for
from tabapp.nn.training.stopping import criterion

PLANNED_SHARE = 0.95
"""Of the time left, for schedules: epochs do not all take the same time."""


class Network(Protocol):
    """A module that maps (rows, n_numeric) floats and (rows, n_categorical) codes to (rows, d_out), or to
    (rows, members, d_out).
    """

    def __call__(self, numeric: Tensor, categorical: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Training:
    """Result of training: the best epoch (0 if none was completed), the number of started epochs, and the best loss.

    Attributes:
        step_rows: rows whose gradients were computed at once in the end, if more did not fit in memory.
    """

    best_epoch: int
    n_epochs: int
    best_loss: float
    step_rows: int | None = None


def batches(order: Tensor, size: int) -> Iterator[Tensor]:
    """Cut a permutation into batches; a last batch of one row, for which batch normalization is undefined, is merged with
    the previous one.
    """
    start = 0
    while start < len(order):
        end = start + size
        if len(order) - end <= 1:
            end = len(order)
        yield order[start:end]
        start = end


def inputs(table: Table, device: torch.device) -> tuple[Tensor, Tensor]:
    """A table's (rows, n_numeric) float32 and (rows, n_categorical) int64 on the device."""
    numeric = torch.tensor(table.numeric, dtype=torch.float32, device=device)
    return numeric, torch.tensor(table.categorical, dtype=torch.int64, device=device)


def predict_output(network: nn.Module, numeric: Tensor, categorical: Tensor, chunk: int | None = None) -> Tensor:
    """(rows, d_out) or (rows, members, d_out) output in evaluation mode, by chunks of rows.

    Args:
        chunk: rows at once; None chooses them by the memory that a row takes. They are halved until they fit in memory.

    Raises:
        torch.OutOfMemoryError: not even one row fits.
    """
    chunk = prediction_rows(network, numeric, categorical) if chunk is None else chunk
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            while True:
                try:
                    parts = [
                        network(x, codes).float()
                        for x, codes in zip(numeric.split(chunk), categorical.split(chunk), strict=True)
                    ]
                    return torch.cat(parts)
                except Exception as error:
                    if chunk == 1 or not is_out_of_memory(error):
                        raise
                    chunk //= 2
    finally:
        network.train(was_training)


def learned_state(network: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers of a network by name, without the training rows that modules with `stores_rows` contain: training does
    not change those, and copies of them could exhaust the memory.
    """
    stored = tuple(
        f"{name}." if name else "" for name, module in network.named_modules() if getattr(module, "stores_rows", False)
    )
    return {name: t for name, t in network.state_dict().items() if not (stored and name.startswith(stored))}


class WeightAverage:
    """Exponential moving average of a network's weights and buffers, which is evaluated and saved.

    NOTE[DIFF]: Gorishniy et al. 2021 use no averaging and a constant learning rate until patience runs out. On CPUs,
    and for MLP, ResNet, SNN, NODE, DCN V2 and DCAP on GPUs too, averaging replaces learning-rate annealing and does not
    depend on the time of the deadline.

    Args:
        recorded: `update` is part of recorded steps.
    """

    def __init__(self, network: nn.Module, decay: float, *, recorded: bool = False) -> None:
        live = {name: t for name, t in learned_state(network).items() if t.is_floating_point()}
        self._live = list(live.values())
        self._names = list(live)
        self._average = [t.clone() for t in self._live]
        self._decay = decay
        self.n_steps = 0
        self._share = torch.zeros((), device=self._live[0].device) if recorded else None

    def state(self) -> dict[str, Tensor]:
        """The averages by name."""
        return dict(zip(self._names, self._average, strict=True))

    def begin_step(self) -> None:
        """Set the share of the next step's weights. First steps have larger shares, so that the initial weights soon vanish."""
        self.n_steps += 1
        if self._share is not None:
            self._share.fill_(1 - self._decay_of_step)

    @torch.no_grad()
    def update(self) -> None:
        """Add the weights after a step."""
        share = 1 - self._decay_of_step if self._share is None else self._share
        for average, live in zip(self._average, self._live, strict=True):
            average.lerp_(live, share)

    @property
    def _decay_of_step(self) -> float:
        return min(self._decay, (1 + self.n_steps) / (10 + self.n_steps))

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the network's weights and their average; a second call restores them."""
        for live, average in zip(self._live, self._average, strict=True):
            kept = live.clone()
            live.copy_(average)
            average.copy_(kept)


def seed_everything(context: FitContext) -> torch.device:
    """Set torch's seed and number of threads for the fit, and return its device."""
    torch.set_num_threads(context.n_threads)
    torch.manual_seed(context.seed)
    return torch.device(context.device)


class Steps:
    """Optimizer steps on the training rows, which are on the device. If a step does not fit in memory, the gradients of
    smaller chunks of the batch are summed.

    Attributes:
        optimizer: the method's optimizer.
        average: moving average of the weights; None if the parameters disable it.
        n_steps: number of completed steps.
        chunk: maximum number of rows whose gradients are computed at once; `most_rows` if a fit found that more do not fit.
    """

    def __init__(
        self,
        network: nn.Module,
        train: Table,
        params: TrainingParams,
        objective: Objective,
        device: torch.device,
        method: TrainingMethod,
        most_rows: int | None = None,
    ) -> None:
        self._params, self._method, self._device = params, method, device
        self._numeric, self._categorical = inputs(train, device)
        self._target = objective.target(train, device)
        weight = weights_of(train, objective.task)
        self._weight = None if weight is None else torch.tensor(weight, device=device)
        method.start(self._numeric, self._categorical, self._target, self._weight)
        self.optimizer = method.optimizer()
        self._parameters = list(network.parameters())
        recorded = can_record(device) and method.repeats_steps
        self.average = None
        if params.average_decay:
            self.average = WeightAverage(network, params.average_decay, recorded=recorded)
        self._batch_size = params.batch_size or batch_size_for(len(train))
        self._per_epoch = max(1, ceil((len(train) - 1) / self._batch_size))
        # A batch may have one row more than its size.
        self.n_steps = 0
        self._planned_chunk = step_rows(network, self._numeric, self._categorical, self._batch_size + 1)
        self.chunk = min(self._planned_chunk, most_rows or self._planned_chunk)
        self._graphs = GraphedSteps(self._take, device, self.optimizer) if recorded else None

    @property
    def fewer_rows(self) -> int | None:
        """`chunk` if more rows did not fit in memory."""
        return self.chunk if self.chunk < self._planned_chunk else None

    def state(self, learned: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """What a checkpoint contains besides the optimizer.

        Args:
            learned: `learned_state` of the network.
        """
        groups = {"network": learned, "method": self._method.state()}
        return groups | {"average": self.average.state()} if self.average else groups

    def resume(self, progress: Progress) -> None:
        """Continue after the steps of a checkpoint, whose tensors are restored."""
        self.n_steps, self.chunk = progress.n_steps, progress.chunk
        if self.average:
            self.average.n_steps = progress.n_steps
        self._method.resume()

    def progress(
        self, epoch: int, planned_epochs: int, *, best_epoch: int = 0, best_loss: float = 0.0, seconds: float = 0.0
    ) -> Progress:
        """The counters of a checkpoint."""
        return Progress(
            epoch=epoch,
            best_epoch=best_epoch,
            best_loss=best_loss,
            n_steps=self.n_steps,
            planned_epochs=planned_epochs,
            chunk=self.chunk,
            seconds=seconds,
        )

    def run_epoch(self, planned_epochs: int, context: FitContext) -> bool:
        """Train on every row once, in random order. Return False if the soft deadline passed, which ends the epoch early.

        Raises:
            torch.OutOfMemoryError: not even two rows fit.
        """
        for rows in batches(torch.randperm(len(self._target), device=self._device), self._batch_size):
            self._step(rows, min(self.n_steps / (planned_epochs * self._per_epoch), 1.0))
            if context.seconds_left() <= 0:
                return False
        return True

    @contextmanager
    def averaged(self) -> Generator[None]:
        """Give the network the averaged weights for the duration of a block."""
        if self.average:
            self.average.swap()
        yield
        if self.average:
            self.average.swap()

    def _step(self, rows: Tensor, elapsed: float) -> None:
        self._method.schedule(self.optimizer, elapsed)
        if self.average:
            self.average.begin_step()
        (self._graphs or self._take)(rows)
        self.n_steps += 1

    def _take(self, rows: Tensor) -> None:
        """Take a step whose rates are set. On a GPU, its operations may be recorded, and then repeated without this method."""
        while True:
            try:
                self._backward(rows)
                break
            except Exception as error:
                if min(self.chunk, len(rows)) < 4 or not is_out_of_memory(error) or is_recording(self._device):
                    raise
                self.chunk = min(self.chunk, len(rows)) // 2
        if self._params.max_gradient_norm:
            nn.utils.clip_grad_norm_(self._parameters, self._params.max_gradient_norm)
        self._method.before_update(self.optimizer)
        self.optimizer.step()
        if self.average:
            self.average.update()

    def _backward(self, rows: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for part in batches(rows, self.chunk):
            codes, numeric = self._categorical[part], self._numeric[part]
            if self._params.hidden_rate:
                hidden = torch.rand(len(part), numeric.shape[1] + codes.shape[1], device=self._device)
                hidden = hidden < self._params.hidden_rate
                numeric = numeric.masked_fill(hidden[:, : numeric.shape[1]], 0.0)
                codes = codes.masked_fill(hidden[:, numeric.shape[1] :], MISSING)
            if self._params.unseen_rate and codes.shape[1]:
                hidden = torch.rand(codes.shape, device=self._device) < self._params.unseen_rate
                codes = codes.masked_fill(hidden, UNSEEN)
            weight = None if self._weight is None else self._weight[part]
            loss = self._method.loss(part, numeric, codes, self._target[part], weight)
            (loss if len(part) == len(rows) else loss * (len(part) / len(rows))).backward()


def train_epochs(
    network: nn.Module,
    train: Table,
    n_epochs: int,
    planned_epochs: int,
    params: TrainingParams,
    objective: Objective,
    context: FitContext,
    method: TrainingMethod,
) -> Training:
    """Train a network for a number of epochs without early-stopping rows, and leave the last weights, or their moving average,
    in it.

    A repeated fit resumes from the checkpoint in the fit's folder with the same result.

    Args:
        planned_epochs: epochs over which schedules run, which may be more.

    Raises:
        torch.OutOfMemoryError: not even two rows fit.
    """
    device = torch.device(context.device)
    network.to(device).train()
    if objective.is_constant:
        return Training(0, 0, 0.0)
    steps = Steps(network, train, params, objective, device, method, context.most_step_rows)
    state = steps.state(learned_state(network))
    epoch = 0
    if resumed := load_checkpoint(context.folder, state, steps.optimizer):
        epoch = resumed.epoch
        steps.resume(resumed)
    saving = Saving()
    while epoch < n_epochs:
        epoch += 1
        if not steps.run_epoch(planned_epochs, context):
            break
        if saving.is_due():
            with saving.timed():
                save_checkpoint(context.folder, state, steps.optimizer, steps.progress(epoch, planned_epochs))
    if steps.average:
        steps.average.swap()
    network.eval()
    return Training(epoch, epoch, float("nan"), steps.fewer_rows)


def train_network(
    network: nn.Module,
    train: Table,
    valid: Table,
    params: TrainingParams,
    objective: Objective,
    context: FitContext,
    method: TrainingMethod,
) -> Training:
    """Train a network and leave the weights in it that were best on `valid` by `criterion`. After the soft deadline, the
    current epoch ends early and its weights are evaluated as usual. Checkpoints are written to the fit's folder; a repeated
    fit resumes from them with the same result.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
        torch.OutOfMemoryError: not even two rows fit.
    """
    device = torch.device(context.device)
    network.to(device).train()
    if objective.is_constant:
        return Training(0, 0, 0.0)
    steps = Steps(network, train, params, objective, device, method, context.most_step_rows)
    valid_numeric, valid_categorical = inputs(valid, device)
    learned = learned_state(network)
    best = {name: t.clone() for name, t in learned.items()}
    best_loss, best_epoch, epoch = float("inf"), 0, 0
    planned = params.max_epochs
    patience = params.max_epochs if params.patience is None else params.patience

    state = steps.state(learned) | {"best": best}
    started, saving = time.monotonic(), Saving()
    seconds_before = 0.0
    if resumed := load_checkpoint(context.folder, state, steps.optimizer):
        epoch, best_epoch, best_loss = resumed.epoch, resumed.best_epoch, resumed.best_loss
        planned, seconds_before = resumed.planned_epochs, resumed.seconds
        steps.resume(resumed)

    while epoch < planned and epoch - best_epoch <= patience:
        is_complete = steps.run_epoch(planned, context)
        with steps.averaged():
            with method.precision():
                prediction = objective.prediction(predict_output(network, valid_numeric, valid_categorical))
            loss = metrics.loss(criterion(context), target_of(valid), prediction, valid.weight)
            if loss < best_loss or epoch == 0:
                best_loss, best_epoch = loss, epoch + 1
                for name, t in learned.items():
                    best[name].copy_(t)
        epoch += 1
        if not is_complete:
            break
        seconds = seconds_before + time.monotonic() - started
        if method.scheduled:
            # Annealing helps only if it completes, so it is planned to end before the deadline.
            left = context.seconds_left() * PLANNED_SHARE / (seconds / epoch)
            planned = int(min(planned, epoch + max(left, 1)))
        if saving.is_due():
            progress = steps.progress(epoch, planned, best_epoch=best_epoch, best_loss=best_loss, seconds=seconds)
            with saving.timed():
                save_checkpoint(context.folder, state, steps.optimizer, progress)
        context.report(epoch, metrics.score(context.metric, target_of(valid), prediction, valid.weight))

    with torch.no_grad():
        for name, t in learned.items():
            t.copy_(best[name])
    network.eval()
    return Training(best_epoch, epoch, best_loss, steps.fewer_rows)
