"""Training steps of NPT: masking, losses and optimizer of Kossen et al. 2021, section 2.6 and appendices C.1 and C.4."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tabapp.models.contract import FitContext
from tabapp.nn.layers.precision import autocast, has_fast_bfloat16
from tabapp.nn.training.cuda_graphs import GraphedSteps, can_record
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

from .network import Attributes, Entries, NPTNetwork, Predicted
from .params import NPTParams

RANDOMIZED = 0.1
"""Share of the chosen entries that get random content instead of being hidden (appendix C.4.3)."""
OTHER_STREAM = 2**31
OTHERS_WEIGHT = OTHERS_SHARE / (1 + OTHERS_SHARE)
"""Weight of the mean loss of the other targets in the loss of all targets: that of the run has the rest, two thirds."""
LEAST_BATCH_ROWS = 16


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
    tradeoff: Tensor | float,
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


class Steps:
    """Training steps, each on a batch of the rows. On a GPU, they are recorded.

    Attributes:
        optimizer: LAMB with Lookahead.
        n_steps: number of steps so far.
        batch_rows: rows of a batch. A batch that does not fit in memory is halved, and so are all later ones: the gradients of
            parts of a batch cannot be summed, since its rows attend to each other.
        state: the order of rows, the position in it, and the states of the random generators.
    """

    def __init__(self, network: NPTNetwork, rows: Rows, params: NPTParams, context: FitContext) -> None:
        self._network, self._rows, self._params = network, rows, params
        self._device = device = rows.entries.hidden.device
        self._low_precision = has_fast_bfloat16(device)
        self._masks = torch.Generator(device).manual_seed(context.seed)
        # A separate generator, so that masks are independent of the order of rows.
        self._orders = torch.Generator().manual_seed(context.seed + OTHER_STREAM)
        self._strata = rows.strata.cpu()
        self._weights = list(network.parameters())
        # Recorded steps read the numbers that change between steps from tensors.
        self._tradeoff, self._rate = torch.zeros((), device=device), torch.zeros((), device=device)
        self.optimizer = Lookahead(Lamb(self._weights, self._rate))
        self._take = GraphedSteps(self.take, device, generators=[self._masks]) if can_record(device) else self.take
        self.n_steps, self.batch_rows = 0, params.batch_rows
        n_rows = len(self._strata)
        self._every_row = torch.arange(n_rows, device=device)
        self.state = {
            "rows": torch.zeros(n_rows, dtype=torch.int64, device=device),
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
        self._tradeoff.fill_(tradeoff if params.feature_masking else 0.0)
        self._rate.fill_(params.learning_rate * rate_factor(progress, params))
        batch = self._next_batch()
        self._network.train()
        while True:
            try:
                self._take(batch)
                break
            except Exception as error:
                if not is_out_of_memory(error) or self.batch_rows // 2 < LEAST_BATCH_ROWS:
                    raise
            self.batch_rows = min(self.batch_rows, len(self._strata)) // 2
            batch = self._next_batch()
        self.optimizer.after_fast_step()
        self.n_steps += 1

    def _next_batch(self) -> Tensor:
        order = self.state["rows"]
        if self.batch_rows >= len(order):
            return self._every_row
        if self._position + self.batch_rows > len(order):
            # Copied once for all batches of this order, since every copy to a device waits for it.
            order.copy_(stratified_order(self._strata, self._orders))
            self._position = 0
        first, self._position = self._position, self._position + self.batch_rows
        return order[first : self._position]

    def take(self, batch: Tensor) -> None:
        """Take one step of LAMB on the rows of a batch, without waiting for the device."""
        self.optimizer.zero_grad()
        truth, targets = self._rows.entries.take(batch), self._network.attributes.targets
        shown, chosen = corrupt(truth, self._network.attributes, self._params, self._masks)
        with autocast(self._device, self._low_precision):
            predicted = self._network(shown)
        losses, weight = entry_losses(predicted, truth), self._rows.weight[batch]
        objective(losses, chosen, weight, targets, self._tradeoff, self._rows.own).backward()
        clamp_gradients(self._weights, self._params.max_gradient)
        self.optimizer.fast.step()


def rate_factor(progress: float, params: NPTParams) -> float:
    """Factor on the learning rate at a share of the steps."""
    if params.cycles:
        return cyclic(progress, params.cycles)
    if params.warmup:
        return warm_then_polynomial(progress, params.warmup, params.decay_power)
    return flat_then_anneal(progress, params.flat)
