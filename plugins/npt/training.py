"""Training of NPT: Kossen et al. 2021, section 2.6 and appendices C.1, C.4 and C.5."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tabapp.models.contract import FitContext, Params
from tabapp.nn.layers.precision import autocast, has_fast_bfloat16
from tabapp.nn.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from tabapp.nn.training.memory import is_out_of_memory
from tabapp.nn.training.optimizers import (
    Lamb,
    Lookahead,
    clamp_gradients,
    cosine_down,
    cyclic,
    flat_then_anneal,
    warm_then_polynomial,
)
from tabapp.nn.training.params import OTHERS_SHARE
from tabapp.nn.training.trainer import CHECKPOINT_SECONDS

from .network import Attention, Attributes, Entries, NPTNetwork, Predicted

RANDOMIZED = 0.1
"""Share of the chosen entries that get random content instead of being hidden (appendix C.4.3)."""
OTHER_STREAM = 2**31
OTHERS_WEIGHT = OTHERS_SHARE / (1 + OTHERS_SHARE)
"""Weight of the mean loss of the other targets in the loss of all targets: that of the run has the rest, two thirds."""
LEAST_BATCH_ROWS = 16
SPARE_TIME = 0.85
"""Share of the time left that is planned, to leave room for the last steps and evaluations."""


class NPTParams(Params, frozen=True, kw_only=True):
    """Appendix C.1; the defaults are NPT-Base.

    Attributes:
        d_embedding: size of each attribute's embedding, a multiple of n_heads.
        n_layers: number of layers, which alternate between attention across rows and across attributes; must be even.
        n_heads: attention heads of both types of layers.
        dropout: dropout rate of attention probabilities, hidden layers, embeddings and outputs.
        normalize_keys: apply layer normalization to the inputs of keys and values too (equation 4); False follows the
            authors' code.
        attention: "both" kinds of layers, or an ablation: "rows" leaves the layers between attributes out (appendix B.5), and
            with "attributes" each row attends to itself only.
        learning_rate: learning rate of LAMB.
        flat: share of the steps before the learning rate is annealed.
        cycles: number of cosine cycles of the learning rate instead (appendix C.1.2); 0 for flat, then annealed.
        warmup: share of the steps in which the learning rate rises from 0, before it falls to 0 as a polynomial of `decay_power`
            (appendix C.1.3, for Forest Cover); 0 for flat, then annealed. The paper does not give the power.
        n_steps: training steps.
        batch_rows: maximum rows per training step; with all rows, each step uses the whole table.
        feature_masking, target_masking: probability of masking a known entry of a feature or of the target. With a target
            masking of 1, the model never sees targets of other rows.
        max_gradient: maximum absolute value of each gradient element.
        n_evaluations: number of evaluations on the early-stopping rows.
        context_rows: maximum number of rows that a prediction attends to.
        n_contexts: number of sampled contexts whose predictions are averaged, if there are more rows than context_rows.
        unlabeled: unlabeled training rows for each labeled one.
        feature_weight: constant weight of the loss of features, from 0 to 1; the targets have the rest. None decreases it from 1
            to 0 along a cosine (section 2.6).
        also_predict: names of features that are additional targets: always predicted in training and evaluation, hidden in
            predictions.
        other_targets: learn the other targets of the run as well, as the paper does with several targets: the known ones are masked
            and shown in training and in the context, and hidden in the rows to predict.
    """

    d_embedding: int = 64
    n_layers: int = 8
    n_heads: int = 8
    dropout: float = 0.1
    normalize_keys: bool = True
    attention: Attention = "both"
    learning_rate: float = 1e-3
    flat: float = 0.7
    cycles: int = 0
    warmup: float = 0.0
    decay_power: float = 1.0
    n_steps: int = 10_000
    batch_rows: int = 2048
    feature_masking: float = 0.15
    target_masking: float = 0.5
    max_gradient: float = 1.0
    n_evaluations: int = 40
    context_rows: int = 4096
    n_contexts: int = 4
    unlabeled: float = 0.0
    feature_weight: float | None = None
    also_predict: tuple[str, ...] = ()
    other_targets: bool = False


@dataclass(frozen=True)
class Rows:
    """Training data.

    Attributes:
        entries: unmodified contents; missing entries and targets that must not be seen are hidden.
        weight: (rows,) float32 weight of the target's loss.
        strata: (rows,) int64: every batch contains rows of each stratum in proportion.
        own: the attribute of the run's target; None without one.
    """

    entries: Entries
    weight: Tensor
    strata: Tensor
    own: int | None = None


@dataclass(frozen=True)
class Training:
    """Result of training: number of steps, the step of the best weights, and their loss."""

    n_steps: int
    best_step: int
    best_loss: float


def stratified_order(strata: Tensor, generator: torch.Generator) -> Tensor:
    """A random order of rows in which every sequence of consecutive rows contains each stratum in about its
    proportion.
    """
    shuffled = torch.randperm(len(strata), generator=generator)
    by_stratum = shuffled[torch.argsort(strata[shuffled], stable=True)]
    _, counts = torch.unique_consecutive(strata[by_stratum], return_counts=True)
    rank = torch.cat([torch.arange(int(n)) for n in counts])
    size = counts.repeat_interleave(counts)
    offset = torch.rand(len(counts), generator=generator).repeat_interleave(counts)
    return by_stratum[torch.argsort((rank + offset) / size, stable=True)]


@lru_cache(maxsize=64)
def _constants(
    attributes: Attributes, feature_masking: float, target_masking: float, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """The chance of each attribute to be predicted, which attributes are targets, and the levels of categorical attributes.

    They are copied to the device once, since every copy waits for it.
    """
    is_target = torch.zeros(len(attributes), dtype=torch.bool)
    is_target[list(attributes.targets)] = True
    chance = torch.where(is_target, target_masking, feature_masking)
    n_levels = torch.tensor(attributes.n_levels)
    return chance.to(device), is_target.to(device), n_levels.to(device)


def corrupt(
    entries: Entries, attributes: Attributes, params: NPTParams, generator: torch.Generator
) -> tuple[Entries, Tensor]:
    """Choose entries to predict, and hide nine tenths of them; the rest get random content and no mask bit. Targets
    that are always predicted are always hidden.

    Returns:
        The input of the network, and a (rows, n_attributes) bool mask of the entries with a loss.
    """
    device = entries.hidden.device
    chance, is_target, n_levels = _constants(attributes, params.feature_masking, params.target_masking, device)
    chosen = (torch.rand(entries.hidden.shape, generator=generator, device=device) < chance) & ~entries.hidden
    randomized = chosen & (torch.rand(chosen.shape, generator=generator, device=device) < RANDOMIZED)
    if params.target_masking >= 1:
        randomized = randomized & ~is_target
    in_numeric, in_categorical = randomized[:, : attributes.n_numeric], randomized[:, attributes.n_numeric :]
    noise = torch.randn(entries.numeric.shape, generator=generator, device=device)
    numeric = torch.where(in_numeric, noise, entries.numeric)
    draw = torch.rand(entries.categorical.shape, generator=generator, device=device)
    categorical = torch.where(in_categorical, (draw * n_levels).long(), entries.categorical)
    return Entries(numeric, categorical, entries.hidden | (chosen & ~randomized)), chosen


def entry_losses(predicted: Predicted, truth: Entries) -> Tensor:
    """(rows, n_attributes) squared error of standardized numbers, and cross-entropy of levels."""
    numeric = (predicted.numeric.float() - truth.numeric).square()
    levels = [
        F.cross_entropy(logits.float(), truth.categorical[:, j], reduction="none")
        for j, logits in enumerate(predicted.logits)
    ]
    return torch.cat([numeric, *[loss.unsqueeze(1) for loss in levels]], dim=1)


def objective(
    losses: Tensor,
    chosen: Tensor,
    weight: Tensor,
    targets: tuple[int, ...],
    tradeoff: float,
    own: int | None = None,
) -> Tensor:
    """(1 - λ) · loss of the targets + λ · mean loss of the chosen features (section 2.6). Without targets, λ is 1.

    The loss of a target is the mean over its chosen entries. That of several is (1 - w) · loss of `own` + w · mean loss of the
    others, with w = `OTHERS_WEIGHT`; their mean without `own`. A target without chosen entries has the loss 0.

    NOTE[DIFF]: the paper predicts its only target, or averages over the entries of several. With k other targets, the one that a
    run scores would then have a share of 1 / (k + 1) of the loss.
    """
    is_target = _is_target(losses.shape[1], targets, losses.device)
    at_features = chosen & ~is_target
    # Selecting entries by a mask would wait for the device to count them.
    feature_loss = torch.where(at_features, losses, 0.0).sum() / at_features.sum().clamp(min=1)
    if not targets:
        return feature_loss
    counts = chosen.sum(0)
    means = torch.where(chosen, losses * weight.unsqueeze(1), 0.0).sum(0) / counts.clamp(min=1)
    others = tuple(target for target in targets if target != own)
    is_other = _is_target(losses.shape[1], others, losses.device)
    target_loss = torch.where(is_other, means, 0.0).sum() / (is_other & (counts > 0)).sum().clamp(min=1)
    if own is not None:
        target_loss = (1 - OTHERS_WEIGHT) * means[own] + OTHERS_WEIGHT * target_loss if others else means[own]
    return (1 - tradeoff) * target_loss + tradeoff * feature_loss


@lru_cache(maxsize=64)
def _is_target(n_attributes: int, targets: tuple[int, ...], device: torch.device) -> Tensor:
    mask = torch.zeros(n_attributes, dtype=torch.bool)
    mask[list(targets)] = True
    return mask.to(device)


def train_npt(
    network: NPTNetwork,
    rows: Rows,
    params: NPTParams,
    evaluate: Callable[[], tuple[float, float]],
    context: FitContext,
) -> Training:
    """Train on the fit's device, and leave the weights in the network that were best by `evaluate`.

    If not all steps fit before the deadline, fewer are planned, so that the learning rate is annealed and the trade-off
    is shifted to the targets by the last step. Checkpoints are written to the fit's folder; a repeated fit resumes from them with
    the same result.

    Args:
        rows: rows on the device. Targets that must not be seen in training are hidden.
        evaluate: the loss of the early-stopping rows, and the score to report.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
        torch.OutOfMemoryError: not even `LEAST_BATCH_ROWS` rows fit.
    """
    steps = Steps(network, rows, params, context)
    pace = _Pace(context, params.n_steps)
    n_fast = steps.optimizer.n_fast
    every = max(1, round(params.n_steps / params.n_evaluations / n_fast)) * n_fast
    weights = dict(network.state_dict())
    best = {name: t.clone() for name, t in weights.items()}
    best_loss, best_step = math.inf, 0
    state = {"network": weights, "best": best, "moments": steps.optimizer.state(), "order": steps.state}
    started = saved_at = time.monotonic()
    seconds_before = 0.0
    if resumed := load_checkpoint(context.folder, state, None):
        best_loss, best_step, seconds_before = resumed.best_loss, resumed.best_epoch, resumed.seconds
        steps.resume(resumed.n_steps, resumed.chunk)
        pace.resume(resumed.n_steps, resumed.planned_epochs)
    while steps.n_steps < pace.n_steps:
        steps.run(pace.n_steps)
        last = pace.after(steps.n_steps)
        if steps.n_steps % every == 0 or last:
            network.eval()
            # After the deadline, no score is reported, and the first weights are the best whatever their loss.
            is_needed = best_step or context.seconds_left() > 0
            loss, score = evaluate() if is_needed else (math.inf, math.nan)
            if loss < best_loss or not best_step:
                best_loss, best_step = loss, steps.n_steps
                for name, t in weights.items():
                    best[name].copy_(t)
            if context.seconds_left() > 0:
                context.report(steps.n_steps, score)
                pace.plan(steps.n_steps)
            now = time.monotonic()
            if now - saved_at > CHECKPOINT_SECONDS and not last:
                saved_at = now
                progress = Progress(
                    epoch=steps.n_steps,
                    best_epoch=best_step,
                    best_loss=best_loss,
                    n_steps=steps.n_steps,
                    planned_epochs=pace.n_steps,
                    chunk=steps.batch_rows,
                    seconds=seconds_before + now - started,
                )
                steps.note_random_state()
                save_checkpoint(context.folder, state, None, progress)
        if last:
            break
    network.load_state_dict(best)
    network.eval()
    return Training(steps.n_steps, best_step, best_loss)


def train_steps(
    network: NPTNetwork, rows: Rows, params: NPTParams, n_steps: int, planned: int, context: FitContext
) -> None:
    """Train for a number of steps without early-stopping rows, and leave the last weights in the network.

    Args:
        planned: steps over which the schedules run, which may be more.

    Raises:
        torch.OutOfMemoryError: not even `LEAST_BATCH_ROWS` rows fit.
    """
    steps = Steps(network, rows, params, context)
    # Lookahead moves the weights every few steps.
    n_fast = steps.optimizer.n_fast
    n_steps = max(1, round(n_steps / n_fast)) * n_fast
    while steps.n_steps < n_steps and context.seconds_left() > 0:
        steps.run(max(planned, n_steps))
    network.eval()


class Steps:
    """Training steps, each on a batch of the rows.

    Attributes:
        optimizer: LAMB with Lookahead.
        n_steps: number of steps so far.
        batch_rows: rows of a batch. A batch that does not fit in memory is halved, and so are all later ones: the gradients of
            parts of a batch cannot be summed, since its rows attend to each other.
        state: the order of rows, the position in it, and the states of the random generators.
    """

    def __init__(self, network: NPTNetwork, rows: Rows, params: NPTParams, context: FitContext) -> None:
        self._network, self._rows, self._params = network, rows, params
        self._device = rows.entries.hidden.device
        self._low_precision = has_fast_bfloat16(self._device)
        self._masks = torch.Generator(self._device).manual_seed(context.seed)
        # A separate generator, so that masks are independent of the order of rows.
        self._orders = torch.Generator().manual_seed(context.seed + OTHER_STREAM)
        self._strata = rows.strata.cpu()
        self._weights = list(network.parameters())
        self.optimizer = Lookahead(Lamb(self._weights, params.learning_rate))
        self.n_steps, self.batch_rows = 0, params.batch_rows
        n_rows = len(self._strata)
        self.state = {
            "rows": torch.zeros(n_rows, dtype=torch.int64, device=self._device),
            "position": torch.tensor(n_rows),
            "masks": self._masks.get_state(),
            "orders": self._orders.get_state(),
        }
        self._position = n_rows

    def note_random_state(self) -> None:
        """Bring `state` up to date."""
        self.state["masks"].copy_(self._masks.get_state())
        self.state["orders"].copy_(self._orders.get_state())
        self.state["position"].fill_(self._position)

    def resume(self, n_steps: int, batch_rows: int) -> None:
        """Continue from a `state` that was filled from a checkpoint."""
        self.n_steps = self.optimizer.n_steps = n_steps
        self.batch_rows = batch_rows
        self._position = int(self.state["position"])
        self._masks.set_state(self.state["masks"])
        self._orders.set_state(self.state["orders"])

    def run(self, planned: int) -> None:
        """Take one step of `planned` ones."""
        params, progress = self._params, self.n_steps / planned
        tradeoff = cosine_down(progress) if params.feature_weight is None else params.feature_weight
        tradeoff = tradeoff if params.feature_masking else 0.0
        batch = self._next_batch()
        self._network.train()
        while True:
            try:
                self.backward(batch, tradeoff)
                break
            except Exception as error:
                if not is_out_of_memory(error) or self.batch_rows // 2 < LEAST_BATCH_ROWS:
                    raise
            self.batch_rows = min(self.batch_rows, len(self._strata)) // 2
            batch = self._next_batch()
        clamp_gradients(self._weights, params.max_gradient)
        self.optimizer.fast.learning_rate = params.learning_rate * rate_factor(progress, params)
        self.optimizer.step()
        self.n_steps += 1

    def _next_batch(self) -> Tensor | slice:
        order = self.state["rows"]
        if self.batch_rows >= len(order):
            return slice(None)
        if self._position + self.batch_rows > len(order):
            # Copied once for all batches of this order, since every copy to a device waits for it.
            order.copy_(stratified_order(self._strata, self._orders))
            self._position = 0
        first, self._position = self._position, self._position + self.batch_rows
        return order[first : self._position]

    def backward(self, batch: Tensor | slice, tradeoff: float) -> None:
        """Compute the gradients of a batch, without waiting for the device."""
        self.optimizer.zero_grad()
        truth, targets = self._rows.entries.take(batch), self._network.attributes.targets
        shown, chosen = corrupt(truth, self._network.attributes, self._params, self._masks)
        with autocast(self._device, self._low_precision):
            predicted = self._network(shown)
        weight = self._rows.weight[batch]
        losses = entry_losses(predicted, truth)
        objective(losses, chosen, weight, targets, tradeoff, self._rows.own).backward()


class _Pace:
    """Plans the number of steps within the deadline."""

    def __init__(self, context: FitContext, n_steps: int) -> None:
        self.n_steps = self._wanted = n_steps
        self._context = context
        self._seconds_at_start = context.seconds_left()
        self._first = 0
        self._looks = (2, 10, 30)

    def resume(self, step: int, planned: int) -> None:
        """Continue after the steps of a checkpoint."""
        self._first, self.n_steps = step, planned
        self._looks = tuple(step + look for look in self._looks)

    def after(self, step: int) -> bool:
        """Return True if this step was the last one."""
        if step in self._looks:
            self.plan(step)
        return step >= self.n_steps or self._context.seconds_left() <= 0

    def plan(self, step: int) -> None:
        """Limit the planned steps to those that the time allows."""
        left = self._context.seconds_left()
        if math.isfinite(left):
            seconds_per_step = (self._seconds_at_start - left) / (step - self._first)
            affordable = step + max(1, int(SPARE_TIME * left / max(seconds_per_step, 1e-6)))
            self.n_steps = min(self._wanted, affordable)


def rate_factor(progress: float, params: NPTParams) -> float:
    """Factor on the learning rate at a share of the steps."""
    if params.cycles:
        return cyclic(progress, params.cycles)
    if params.warmup:
        return warm_then_polynomial(progress, params.warmup, params.decay_power)
    return flat_then_anneal(progress, params.flat)
