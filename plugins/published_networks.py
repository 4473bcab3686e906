"""Networks as tuned by Gorishniy et al. 2021, supplement B, for `--models mlp:paper` and others.

NOTE[DIFF]: the size of category embeddings, which the paper tunes on its only dataset with categories, follows a rule
(`embedding_width`), and batches follow `batch_size_for` where the paper has a size for each dataset. For networks without published
defaults, the first trial has those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from tabapp.models.contract import Shape, Task, Trial
from tabapp.models.presets import Preset

from ._shared.search import zero_or
from .autoint import AutoInt, AutoIntParams
from .dcn_v2 import DCNV2, DCNV2Params
from .grownet import GrowNet, GrowNetParams
from .mlp import MLP, MLPParams
from .node import NODE, NODEParams
from .resnet import ResNet, ResNetParams
from .snn import SNN, SNNParams
from .tabnet import TabNet, TabNetParams

MANY_ROWS = 100_000
"""The paper gives its datasets with more rows larger networks: column (B) of Tables 8, 9, 10 and 13."""
PLAIN: Mapping[str, Any] = {"average_decay": 0.0, "max_gradient_norm": 0.0}
"""The paper trains by AdamW alone: no average of the weights, and no limit of the gradient."""


def _is_large(shape: Shape) -> bool:
    return shape.n_rows > MANY_ROWS


def _widths(trial: Trial, shape: Shape, least_layers: int, most_layers: int) -> tuple[int, ...]:
    """The first and the last size are tuned separately; those between are equal."""
    widest = 1024 if _is_large(shape) else 512
    n_layers = trial.suggest_int("n_layers", least_layers, 2 * most_layers if _is_large(shape) else most_layers)
    first = trial.suggest_int("first_width", 1, widest)
    middle = trial.suggest_int("middle_width", 1, widest) if n_layers > 2 else 0
    last = trial.suggest_int("last_width", 1, widest) if n_layers > 1 else 0
    return (first, *[middle] * (n_layers - 2), *[last] * (n_layers > 1))


class PublishedMLP(Preset, MLP):
    """MLP tuned in the space of Gorishniy et al. 2021, Table 8."""

    name = "mlp:paper"
    title = "MLP (paper)"
    fixed: ClassVar[Mapping[str, Any]] = PLAIN

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> MLPParams:
        """Table 8; the number of rows selects its column (A) or (B)."""
        return MLPParams(
            **PLAIN,
            widths=_widths(trial, shape, 1, 8),
            dropout=zero_or(trial, "dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )


class PublishedResNet(Preset, ResNet):
    """ResNet tuned in the space of Gorishniy et al. 2021, Table 9."""

    name = "resnet:paper"
    title = "ResNet (paper)"
    fixed: ClassVar[Mapping[str, Any]] = PLAIN

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ResNetParams:
        """Table 9; the number of rows selects its column (A) or (B)."""
        return ResNetParams(
            **PLAIN,
            n_layers=trial.suggest_int("n_layers", 1, 16 if _is_large(shape) else 8),
            width=trial.suggest_int("width", 64, 1024 if _is_large(shape) else 512),
            hidden_factor=trial.suggest_float("hidden_factor", 1.0, 4.0),
            hidden_dropout=trial.suggest_float("hidden_dropout", 0.0, 0.5),
            residual_dropout=zero_or(trial, "residual_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )


class PublishedSNN(Preset, SNN):
    """SNN tuned in the space of Gorishniy et al. 2021, Table 10."""

    name = "snn:paper"
    title = "SNN (paper)"
    fixed: ClassVar[Mapping[str, Any]] = PLAIN

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> SNNParams:
        """Table 10; the number of rows selects its column (A) or (B)."""
        return SNNParams(
            **PLAIN,
            widths=_widths(trial, shape, 2, 16),
            dropout=zero_or(trial, "dropout", 0.0, 0.1),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-5, 1e-3, log=True),
        )


class PublishedNODE(Preset, NODE):
    """NODE with the default of its paper, tuned in the grid of its paper (Gorishniy et al. 2021, supplement B.6)."""

    name = "node:paper"
    title = "NODE (paper)"

    def defaults(self, task: Task, shape: Shape, device: str) -> NODEParams:
        """The default of Popov et al. 2020 on every device."""
        return NODEParams(extra_channels=0 if task == "multiclass" else 2)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> NODEParams:
        """The grid of Popov et al. 2020 on every device. With several classes, a leaf has one value for each."""
        n_layers = trial.suggest_categorical("n_layers", [2, 4, 8])
        total = trial.suggest_categorical("n_trees_of_all_layers", [1024, 2048])
        return NODEParams(
            n_layers=n_layers,
            n_trees=total // n_layers,
            depth=trial.suggest_categorical("depth", [6, 8]),
            extra_channels=0 if task == "multiclass" else trial.suggest_categorical("extra_channels", [1, 2]),
        )


class PublishedTabNet(Preset, TabNet):
    """TabNet tuned in the space of Gorishniy et al. 2021, Table 11, with the batches of supplement B.7.

    NOTE[DIFF]: the supplement gives virtual batches of 2,048 and more rows, and batches of 256 and more. A virtual batch is a part
    of a batch, so the two are exchanged here. It names datasets; here the number of rows selects the sizes.
    """

    name = "tabnet:paper"
    title = "TabNet (paper)"

    def defaults(self, task: Task, shape: Shape, device: str) -> TabNetParams:
        """The defaults of the model on a GPU, with the published batches."""
        return msgspec.structs.replace(super().defaults(task, shape, "cuda:0"), **_batches(shape))

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> TabNetParams:
        """Table 11 on every device."""
        return TabNetParams(
            **_batches(shape),
            n_steps=trial.suggest_int("n_steps", 3, 10),
            width=trial.suggest_categorical("width", [8, 16, 32, 64, 128]),
            relaxation=trial.suggest_float("relaxation", 1.0, 2.0),
            sparsity=trial.suggest_float("sparsity", 1e-6, 1e-1, log=True),
            decay_rate=trial.suggest_float("decay_rate", 0.4, 0.95),
            decay_steps=trial.suggest_categorical("decay_steps", [100, 500, 2000]),
            learning_rate=trial.suggest_float("learning_rate", 1e-3, 1e-2),
        )


def _batches(shape: Shape) -> dict[str, Any]:
    """Those of the paper's datasets with up to 40,000, up to 100,000, and more training rows."""
    size, virtual = (2048, 256) if shape.n_rows <= 40_000 else (8192, 512) if not _is_large(shape) else (16384, 1024)
    return {"batch_size": size, "virtual_batch_size": virtual}


class PublishedGrowNet(Preset, GrowNet):
    """GrowNet with at most 40 learners, tuned in the grid of Gorishniy et al. 2021, Table 12."""

    name = "grownet:paper"
    title = "GrowNet (paper)"

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> GrowNetParams:
        """Table 12."""
        return GrowNetParams(
            width=trial.suggest_categorical("width", [32, 64, 128]),
            learning_rate=trial.suggest_categorical("learning_rate", [0.0001, 0.001, 0.01]),
        )


class PublishedDCNV2(Preset, DCNV2):
    """DCN V2 in the parallel variant, which the paper reports, tuned in the space of Gorishniy et al. 2021, Table 13."""

    name = "dcn_v2:paper"
    title = "DCN V2 (paper)"
    fixed: ClassVar[Mapping[str, Any]] = {**PLAIN, "variant": "parallel"}

    def defaults(self, task: Task, shape: Shape, device: str) -> DCNV2Params:
        """The defaults of the model on a GPU."""
        return super().defaults(task, shape, "cuda:0")

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> DCNV2Params:
        """Table 13; the number of rows selects its column (A) or (B)."""
        most_layers = 16 if _is_large(shape) else 8
        return DCNV2Params(
            **self.fixed,
            n_cross_layers=trial.suggest_int("n_cross_layers", 1, most_layers),
            n_hidden_layers=trial.suggest_int("n_hidden_layers", 1, most_layers),
            width=trial.suggest_int("width", 64, 1024 if _is_large(shape) else 512),
            hidden_dropout=trial.suggest_float("hidden_dropout", 0.0, 0.5),
            cross_dropout=zero_or(trial, "cross_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )


class PublishedAutoInt(Preset, AutoInt):
    """AutoInt with the model's defaults of a GPU on every device, tuned in the space of Gorishniy et al. 2021, Table 14."""

    name = "autoint:paper"
    title = "AutoInt (paper)"

    def defaults(self, task: Task, shape: Shape, device: str) -> AutoIntParams:
        """The defaults of the model on a GPU."""
        return super().defaults(task, shape, "cuda:0")
