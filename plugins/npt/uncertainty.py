"""Uncertainty of the cells that a Non-Parametric Transformer fills.

NPT predicts the mean of a number without its variance (Kossen et al. 2021, section 2.6). The variance here is that of hidden cells
of the stored rows, distributed over cells by the spread of predictions with dropout (Gal, Ghahramani: "Dropout as a Bayesian
Approximation", ICML 2016). Training has predicted these cells too, so it is slightly too small.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from tabapp.features.arrays import FIRST_LEVEL, MISSING, Table
from tabapp.models.contract import Float32, Uncertainty

from .network import Entries, Memory, NPTNetwork, Predicted

PASSES = 8
HIDDEN_SHARE = 0.15
"""Share of the known numbers of the stored rows that are hidden, as in training."""


class Recaller(Protocol):
    """A trained NPT; see `NPTModel`."""

    network: NPTNetwork
    context: Entries
    draws: Tensor
    device: torch.device

    def recall(self, entries: Entries, memories: list[Memory] | None = None) -> list[Predicted]:
        """Predict every entry of some rows from each context."""
        ...

    def memories(self) -> list[Memory]:
        """Keys and values of each context."""
        ...

    def feature(self, predicted: list[Predicted], feature: int) -> Float32:
        """Predictions of a feature: (rows,) in the table's units, or (rows, codes) probabilities."""
        ...


def uncertainty_of(model: Recaller, table: Table, entries: Entries) -> Uncertainty:
    """The uncertainty of the missing cells of a table, whose rows are `entries`; see `FittedModel.imputation_uncertainty`."""
    n_numeric, n_categorical = table.numeric.shape[1], table.categorical.shape[1]
    numeric = torch.full(table.numeric.shape, torch.nan)
    if n_numeric and len(table):
        mean_square, mean_spread = _calibration(model, n_numeric)
        variance = _spread(model, entries, model.memories())[:, :n_numeric].square()
        # Half of the way to the mean of the column, which is all that is known without dropout.
        relative = torch.where(mean_spread > 0, 0.5 + 0.5 * variance / mean_spread, 1.0)
        numeric = (mean_square * relative).sqrt().masked_fill(~torch.from_numpy(table.numeric).isnan(), torch.nan)
    wrong = torch.full(table.categorical.shape, torch.nan)
    if n_categorical and len(table):
        predicted = model.recall(entries)
        missing = torch.from_numpy(table.categorical) == MISSING
        for j in range(n_categorical):
            levels = torch.from_numpy(model.feature(predicted, n_numeric + j))[:, FIRST_LEVEL:]
            if levels.shape[1]:
                shares = levels / levels.sum(1, keepdim=True).clamp_min(1e-12)
                wrong[:, j] = torch.where(missing[:, j], 1 - shares.amax(1), torch.nan)
    return Uncertainty(numeric.numpy(), wrong.numpy())


def _calibration(model: Recaller, n_numeric: int) -> tuple[Tensor, Tensor]:
    """(n_numeric,) mean squared errors of hidden numbers of the first context, and mean variances of their predictions."""
    context = model.context.take(model.draws[0])
    generator = torch.Generator().manual_seed(0)
    chosen = (torch.rand(context.hidden.shape, generator=generator) < HIDDEN_SHARE) & ~context.hidden
    chosen[:, n_numeric:] = False
    # Hidden in the context too, where a row would find its own number.
    shown = Entries(context.numeric, context.categorical, context.hidden | chosen)
    with torch.inference_mode():
        memories = [model.network.remember(shown.to(model.device))]
    predicted = model.recall(shown, memories)[0].numeric.float().cpu()
    chosen = chosen[:, :n_numeric]
    errors = (predicted - context.numeric)[:, :n_numeric].square()
    variances = _spread(model, shown, memories)[:, :n_numeric].square()
    return _mean_of(errors, chosen), _mean_of(variances, chosen)


def _mean_of(values: Tensor, chosen: Tensor) -> Tensor:
    """(columns,) means of the chosen values; of all columns where a column has none."""
    everywhere = values[chosen].mean() if chosen.any() else torch.tensor(1.0)
    counts = chosen.sum(0)
    return torch.where(counts > 0, torch.where(chosen, values, 0.0).sum(0) / counts.clamp(min=1), everywhere)


def _spread(model: Recaller, entries: Entries, memories: list[Memory]) -> Tensor:
    """(rows, n_numeric) standard deviation of predicted numbers over passes with dropout."""
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(0)
        model.network.train()
        try:
            passes = [_mean_numeric(model.recall(entries, memories)) for _ in range(PASSES)]
        finally:
            model.network.eval()
    return torch.stack(passes).std(0)


def _mean_numeric(predicted: list[Predicted]) -> Tensor:
    return torch.stack([each.numeric.float() for each in predicted]).mean(0).cpu()
