"""Training of NPT: Kossen et al. 2021, section 2.6 and appendices C.1, C.4 and C.5."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tabapp.models.contract import FitContext, Params
from tabapp.nn.optimizers import Lamb, Lookahead, clamp_gradients, cosine_down, flat_then_anneal
from tabapp.nn.precision import autocast, has_fast_bfloat16

from .network import Attributes, Entries, NPTNetwork, Predicted

RANDOMIZED = 0.1
"""Share of the chosen entries that get random content instead of being hidden (appendix C.4.3)."""
OTHER_STREAM = 2**31
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
        learning_rate: learning rate of LAMB.
        flat: share of the steps before the learning rate is annealed.
        n_steps: training steps.
        batch_rows: maximum rows per training step; with all rows, each step uses the whole table.
        feature_masking, target_masking: probability of masking a known entry of a feature or of the target. With a target
            masking of 1, the model never sees targets of other rows.
        max_gradient: maximum absolute value of each gradient element.
        n_evaluations: number of evaluations on the early-stopping rows.
        context_rows: maximum number of rows that a prediction attends to.
        n_contexts: number of sampled contexts whose predictions are averaged, if there are more rows than context_rows.
        also_predict: names of features that are additional targets: always predicted in training and evaluation, hidden in
            predictions.
    """

    d_embedding: int = 64
    n_layers: int = 8
    n_heads: int = 8
    dropout: float = 0.1
    normalize_keys: bool = True
    learning_rate: float = 1e-3
    flat: float = 0.7
    n_steps: int = 10_000
    batch_rows: int = 2048
    feature_masking: float = 0.15
    target_masking: float = 0.5
    max_gradient: float = 1.0
    n_evaluations: int = 40
    context_rows: int = 4096
    n_contexts: int = 4
    also_predict: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Training data.

    Attributes:
        entries: unmodified contents; missing entries and targets that must not be seen are hidden.
        weight: (rows,) float32 weight of the target's loss.
        strata: (rows,) int64: every batch contains rows of each stratum in proportion.
    """

    entries: Entries
    weight: Tensor
    strata: Tensor


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


def corrupt(
    entries: Entries, attributes: Attributes, params: NPTParams, generator: torch.Generator
) -> tuple[Entries, Tensor]:
    """Choose entries to predict, and hide nine tenths of them; the rest get random content and no mask bit. Targets
    that are always predicted are always hidden.

    Returns:
        The input of the network, and a (rows, n_attributes) bool mask of the entries with a loss.
    """
    device = entries.hidden.device
    chance = torch.full((len(attributes),), params.feature_masking, device=device)
    chance[list(attributes.targets)] = params.target_masking
    chosen = (torch.rand(entries.hidden.shape, generator=generator, device=device) < chance) & ~entries.hidden
    randomized = chosen & (torch.rand(chosen.shape, generator=generator, device=device) < RANDOMIZED)
    if params.target_masking >= 1:
        randomized[:, list(attributes.targets)] = False
    in_numeric, in_categorical = randomized[:, : attributes.n_numeric], randomized[:, attributes.n_numeric :]
    noise = torch.randn(entries.numeric.shape, generator=generator, device=device)
    numeric = torch.where(in_numeric, noise, entries.numeric)
    n_levels = torch.tensor(attributes.n_levels, device=device)
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


def objective(losses: Tensor, chosen: Tensor, weight: Tensor, targets: tuple[int, ...], tradeoff: float) -> Tensor:
    """(1 - λ) · mean loss of the chosen targets + λ · mean loss of the chosen features (section 2.6).

    Each mean is over its own entries and zero without any. Without targets, λ is 1.
    """
    is_target = torch.zeros(losses.shape[1], dtype=torch.bool, device=losses.device)
    is_target[list(targets)] = True
    at_targets, at_features = chosen & is_target, chosen & ~is_target
    target_loss = (losses * weight.unsqueeze(1))[at_targets].sum() / at_targets.sum().clamp(min=1)
    feature_loss = losses[at_features].sum() / at_features.sum().clamp(min=1)
    if not targets:
        return feature_loss
    return (1 - tradeoff) * target_loss + tradeoff * feature_loss


def train_npt(
    network: NPTNetwork,
    rows: Rows,
    params: NPTParams,
    evaluate: Callable[[], tuple[float, float]],
    context: FitContext,
) -> Training:
    """Train on the fit's device, and leave the weights in the network that were best by `evaluate`.

    If not all steps fit before the deadline, fewer are planned, so that the learning rate is annealed and the trade-off
    is shifted to the targets by the last step.

    Args:
        rows: rows on the device. Targets that must not be seen in training are hidden.
        evaluate: the loss of the early-stopping rows, and the score to report.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
    """
    device = rows.entries.hidden.device
    low_precision = has_fast_bfloat16(device)
    generator = torch.Generator(device).manual_seed(context.seed)
    # A separate generator, so that masks are independent of the order of rows.
    order_generator = torch.Generator().manual_seed(context.seed + OTHER_STREAM)
    strata = rows.strata.cpu()
    weights = list(network.parameters())
    optimizer = Lookahead(Lamb(weights, params.learning_rate))
    pace = _Pace(context, params.n_steps)
    every = max(1, round(params.n_steps / params.n_evaluations / optimizer.n_fast)) * optimizer.n_fast
    order, position = torch.empty(0, dtype=torch.int64), 0
    best = {name: t.clone() for name, t in network.state_dict().items()}
    best_loss, best_step, step = math.inf, 0, 0
    while step < pace.n_steps:
        if position + params.batch_rows > len(order):
            order, position = stratified_order(strata, order_generator), 0
        batch: Tensor | slice = order[position : position + params.batch_rows].to(device)
        position += params.batch_rows
        if params.batch_rows >= len(strata):
            batch = slice(None)
        truth = rows.entries.take(batch)
        shown, chosen = corrupt(truth, network.attributes, params, generator)
        network.train()
        with autocast(device, low_precision):
            predicted = network(shown)
        tradeoff = cosine_down(step / pace.n_steps) if params.feature_masking else 0.0
        loss = objective(
            entry_losses(predicted, truth), chosen, rows.weight[batch], network.attributes.targets, tradeoff
        )
        optimizer.zero_grad()
        loss.backward()
        clamp_gradients(weights, params.max_gradient)
        optimizer.fast.learning_rate = params.learning_rate * flat_then_anneal(step / pace.n_steps, params.flat)
        optimizer.step()
        step += 1
        last = pace.after(step)
        if step % every == 0 or last:
            network.eval()
            loss_now, score = evaluate()
            if loss_now < best_loss or not best_step:
                best_loss, best_step = loss_now, step
                for name, t in network.state_dict().items():
                    best[name].copy_(t)
            if context.seconds_left() > 0:
                context.report(step, score)
                pace.plan(step)
    network.load_state_dict(best)
    network.eval()
    return Training(step, best_step, best_loss)


class _Pace:
    """Plans the number of steps within the deadline."""

    def __init__(self, context: FitContext, n_steps: int) -> None:
        self.n_steps = self._wanted = n_steps
        self._context = context
        self._seconds_at_start = context.seconds_left()
        self._looks = (2, 10, 30)

    def after(self, step: int) -> bool:
        """Return True if this step was the last one."""
        if step in self._looks:
            self.plan(step)
        return step >= self.n_steps or self._context.seconds_left() <= 0

    def plan(self, step: int) -> None:
        """Limit the planned steps to those that the time allows."""
        left = self._context.seconds_left()
        if math.isfinite(left):
            seconds_per_step = (self._seconds_at_start - left) / step
            affordable = step + max(1, int(SPARE_TIME * left / max(seconds_per_step, 1e-6)))
            self.n_steps = min(self._wanted, affordable)
