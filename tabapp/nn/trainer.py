"""The training loop of all networks (Gorishniy et al. 2021, section 4.4). The data are on the device, batches are slices of
a permutation created there, and no operation within an epoch waits for the device.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch
from torch import Tensor, nn

from tabapp import metrics
from tabapp.features.arrays import UNSEEN, Table
from tabapp.models.contract import FitContext, Float32
from tabapp.nn.checkpoint import Progress, load_checkpoint, save_checkpoint
from tabapp.nn.method import TrainingMethod
from tabapp.nn.objective import Objective, target_of
from tabapp.nn.params import TrainingParams, batch_size_for
from tabapp.nn.stopping import criterion

PREDICTION_ROWS = 8192
CHECKPOINT_SECONDS = 20.0
"""Training seconds between two checkpoints: what a kill costs at most, far more than writing one takes."""
PLANNED_SHARE = 0.95
"""Of the time left, for schedules: epochs do not all take the same time."""


class Network(Protocol):
    """A module that maps (rows, n_numeric) floats and (rows, n_categorical) codes to (rows, d_out), or to
    (rows, members, d_out).
    """

    def __call__(self, numeric: Tensor, categorical: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Training:
    """Result of training: the best epoch (0 if none was completed), the number of started epochs, and the best loss."""

    best_epoch: int
    n_epochs: int
    best_loss: float


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


def predict_output(network: nn.Module, numeric: Tensor, categorical: Tensor, chunk: int = PREDICTION_ROWS) -> Tensor:
    """(rows, d_out) or (rows, members, d_out) output in evaluation mode. Chunks are halved until they fit in memory.

    Raises:
        torch.OutOfMemoryError: not even one row fits.
    """
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
                except (torch.OutOfMemoryError, MemoryError):
                    if chunk == 1:
                        raise
                    chunk //= 2
    finally:
        network.train(was_training)


class WeightAverage:
    """Exponential moving average of a network's weights and buffers, which is evaluated and saved.

    NOTE[DIFF]: the paper uses no averaging and a constant learning rate until patience runs out. Under a budget, averaging
    replaces learning-rate annealing and does not depend on the time of the deadline.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        live = {name: t for name, t in network.state_dict().items() if t.is_floating_point()}
        self._live = list(live.values())
        self._names = list(live)
        self._average = [t.clone() for t in self._live]
        self._decay = decay
        self.n_steps = 0

    def state(self) -> dict[str, Tensor]:
        """The averages by name."""
        return dict(zip(self._names, self._average, strict=True))

    @torch.no_grad()
    def update(self) -> None:
        """Add the weights after a step. First steps have larger weights, so that the initial weights soon vanish."""
        self.n_steps += 1
        decay = min(self._decay, (1 + self.n_steps) / (10 + self.n_steps))
        for average, live in zip(self._average, self._live, strict=True):
            average.lerp_(live, 1 - decay)

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
    current epoch ends early and its weights are evaluated as usual. If a step does not fit in memory, the gradients of
    smaller chunks of the batch are summed. Checkpoints are written to the fit's folder; a repeated fit resumes from them
    with the same result.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
        torch.OutOfMemoryError: not even two rows fit.
    """
    device = torch.device(context.device)
    network.to(device).train()
    if objective.is_constant:
        return Training(0, 0, 0.0)
    numeric, categorical = inputs(train, device)
    target = objective.target(train, device)
    weight = None if train.weight is None else torch.tensor(train.weight / train.weight.mean(), device=device)
    valid_numeric, valid_categorical = inputs(valid, device)
    method.start(numeric, categorical, target, weight)
    optimizer = method.optimizer()
    weights = list(network.parameters())
    average = WeightAverage(network, params.average_decay) if params.average_decay else None
    size = params.batch_size or batch_size_for(len(train))
    steps_per_epoch = max(1, ceil((len(train) - 1) / size))
    best = {name: t.clone() for name, t in network.state_dict().items()}
    best_loss, best_epoch, epoch, n_steps = float("inf"), 0, 0, 0
    planned, chunk = params.max_epochs, size + 1
    patience = params.max_epochs if params.patience is None else params.patience

    state: dict[str, dict[str, Tensor]] = {"network": dict(network.state_dict()), "best": best}
    if average:
        state["average"] = average.state()
    started = saved_at = time.monotonic()
    seconds_before = 0.0
    if resumed := load_checkpoint(context.folder, state, optimizer):
        epoch, best_epoch, best_loss = resumed.epoch, resumed.best_epoch, resumed.best_loss
        n_steps, planned, chunk = resumed.n_steps, resumed.planned_epochs, resumed.chunk
        seconds_before = resumed.seconds
        if average:
            average.n_steps = n_steps

    def backward(rows: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        for part in batches(rows, chunk):
            codes = categorical[part]
            if params.unseen_rate and codes.shape[1]:
                hidden = torch.rand(codes.shape, device=device) < params.unseen_rate
                codes = codes.masked_fill(hidden, UNSEEN)
            loss = method.loss(part, numeric[part], codes, target[part], None if weight is None else weight[part])
            (loss if len(part) == len(rows) else loss * (len(part) / len(rows))).backward()

    def step(rows: Tensor) -> None:
        nonlocal chunk, n_steps
        method.schedule(optimizer, min(n_steps / (planned * steps_per_epoch), 1.0))
        while True:
            try:
                backward(rows)
                break
            except (torch.OutOfMemoryError, MemoryError):
                if min(chunk, len(rows)) < 4:
                    raise
                chunk = min(chunk, len(rows)) // 2
        if params.max_gradient_norm:
            nn.utils.clip_grad_norm_(weights, params.max_gradient_norm)
        optimizer.step()
        n_steps += 1
        if average:
            average.update()

    def evaluate() -> Float32:
        with method.precision():
            return objective.prediction(predict_output(network, valid_numeric, valid_categorical))

    while epoch < planned and epoch - best_epoch <= patience:
        out_of_time = False
        for rows in batches(torch.randperm(len(train), device=device), size):
            step(rows)
            out_of_time = context.seconds_left() <= 0
            if out_of_time:
                break
        if average:
            average.swap()
        prediction = evaluate()
        loss = metrics.loss(criterion(context), target_of(valid), prediction, valid.weight)
        if loss < best_loss or epoch == 0:
            best_loss, best_epoch = loss, epoch + 1
            for name, t in network.state_dict().items():
                best[name].copy_(t)
        if average:
            average.swap()
        epoch += 1
        if out_of_time:
            break
        now = time.monotonic()
        seconds = seconds_before + now - started
        if method.scheduled:
            # Annealing helps only if it completes, so it is planned to end before the deadline.
            left = context.seconds_left() * PLANNED_SHARE / (seconds / epoch)
            planned = int(min(planned, epoch + max(left, 1)))
        if now - saved_at > CHECKPOINT_SECONDS:
            saved_at = now
            progress = Progress(
                epoch=epoch,
                best_epoch=best_epoch,
                best_loss=best_loss,
                n_steps=n_steps,
                planned_epochs=planned,
                chunk=chunk,
                seconds=seconds,
            )
            save_checkpoint(context.folder, state, optimizer, progress)
        context.report(epoch, metrics.score(context.metric, target_of(valid), prediction, valid.weight))

    network.load_state_dict(best)
    network.eval()
    return Training(best_epoch, epoch, best_loss)
