"""TabNet pre-trained on rows without a target: Arik & Pfister 2021, "Tabular self-supervised learning"."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import FitContext, Shape, Task, Trial
from tabapp.nn.pretraining import Pretrained, train_on_pretext

from .tabnet import FeatureTransformer, TabNet, TabNetNetwork, TabNetParams, scaled_linear

HIDDEN = 0.3
"""Probability that a feature of a row is hidden. NOTE[DIFF]: the paper names none; this is the share of TabTransformer."""


class PretrainedTabNetParams(TabNetParams, frozen=True, kw_only=True):
    """Attributes:
    pretraining_steps: maximum number of steps of pre-training.
    """

    pretraining_steps: int = 5000


class Decoder(nn.Module):
    """A feature transformer and a linear layer for each decision step; the reconstructed features are the sum over the steps.

    NOTE[DIFF]: the paper reconstructs the embeddings of categories, which a network can make constant. Here, their levels are
    predicted.

    Shape: (n_steps, rows, width) decisions to (rows, n_numeric) and a (rows, cardinality) for each categorical column.
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], params: TabNetParams) -> None:
        super().__init__()
        d = 2 * params.width
        shared = [scaled_linear(params.width if i == 0 else d, 2 * d, gated=True) for i in range(params.n_shared)]
        self.shared = nn.ModuleList(shared)
        self.steps = nn.ModuleList([FeatureTransformer(params.width, params) for _ in range(params.n_steps)])
        self.outputs = nn.ModuleList([scaled_linear(d, n_numeric + sum(cardinalities)) for _ in range(params.n_steps)])
        self.n_numeric, self.cardinalities = n_numeric, cardinalities

    def forward(self, decisions: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        parts = zip(self.steps, self.outputs, decisions, strict=True)
        total = torch.stack([output(step(decided, self.shared)) for step, output, decided in parts]).sum(0)
        numeric, levels = total.split([self.n_numeric, total.shape[1] - self.n_numeric], dim=1)
        return numeric, levels.split(list(self.cardinalities), dim=1)


def reconstruction_loss(network: TabNetNetwork, decoder: Decoder, numeric: Tensor, categorical: Tensor) -> Tensor:
    """Mean loss of hidden features, which are chosen anew. The steps neither see a hidden feature nor may select it (P[0] = 1 - S
    in the paper). The numbers are normal by their quantiles, so their errors need no other scale.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to a scalar.
    """
    hidden = torch.rand(len(numeric), numeric.shape[1] + categorical.shape[1], device=numeric.device) < HIDDEN
    decided = network.decide(numeric, categorical, (~hidden).float())
    values, logits = decoder(decided.decisions)
    losses = [(values - numeric).square()]
    losses += [F.cross_entropy(each, categorical[:, j], reduction="none")[:, None] for j, each in enumerate(logits)]
    return torch.where(hidden, torch.cat(losses, dim=1), 0.0).sum() / hidden.sum().clamp(min=1)


class PretrainedTabNet(Pretrained, TabNet):
    """Its trials differ only in fine-tuning, so that all of them share one pre-training."""

    name = "tabnet_pretrained"
    title = "TabNet, pre-trained"
    params_type = PretrainedTabNetParams
    architecture = ("n_steps", "width", "n_shared", "n_independent", "virtual_batch_size", "momentum", "relaxation")
    task_parts = ("head.",)

    def learn_rows(self, network: nn.Module, rows: Table, params: Any, context: FitContext) -> dict[str, Any]:
        """Reconstruct hidden features with a decoder, which is not kept."""
        assert isinstance(network, TabNetNetwork)
        spec, n_steps = context.features, params.pretraining_steps
        decoder = Decoder(len(spec.numeric), spec.cardinalities, network.params)

        def loss(numeric: Tensor, categorical: Tensor) -> Tensor:
            return reconstruction_loss(network, decoder, numeric, categorical)

        return train_on_pretext(network, decoder, loss, rows, n_steps, context, TabNetParams().learning_rate)

    def defaults(self, task: Task, shape: Shape, device: str) -> PretrainedTabNetParams:
        """Those of TabNet, with 16 units for the reconstruction; on a CPU, 600 steps of pre-training."""
        params: dict[str, Any] = msgspec.structs.asdict(super().defaults(task, shape, device)) | {"width": 16}
        return PretrainedTabNetParams(**params, pretraining_steps=600 if device == "cpu" else 5000)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> PretrainedTabNetParams:
        """Sparsity, learning rate and its decay of Table 11 of Gorishniy et al. 2021."""
        return msgspec.structs.replace(
            self.defaults(task, shape, device),
            sparsity=trial.suggest_float("sparsity", 1e-6, 1e-1, log=True),
            decay_rate=trial.suggest_float("decay_rate", 0.4, 0.95),
            decay_steps=trial.suggest_categorical("decay_steps", [100, 500, 2000]),
            learning_rate=trial.suggest_float("learning_rate", 1e-3, 1e-2),
        )
