"""Training methods: the parts of training in which networks differ."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tabapp.nn.layers import fused
from tabapp.nn.layers.precision import autocast, bfloat16_output, has_fast_bfloat16
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tabapp.nn.training.shared_trunk import SharedTrunk


def decay_groups(module: nn.Module, weight_decay: float, undecayed: set[str]) -> list[dict[str, Any]]:
    """Parameter groups for AdamW: the parameters named in `undecayed` are not decayed."""
    named = list(module.named_parameters())
    return [
        {"params": [p for name, p in named if name not in undecayed], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name in undecayed], "weight_decay": 0.0},
    ]


class TrainingMethod:
    """AdamW at a constant rate on the objective's loss (Gorishniy et al. 2021, section 4.4). Networks with another
    method override the parts that differ.

    Args:
        network: the network, on its device.
        params: its hyperparameters.
        objective: the loss.
        undecayed: names of the parameters without weight decay.
        low_precision: use bfloat16 in the network where the device is fast at it.
        bfloat16_weights: with `low_precision` on a GPU, train by `bfloat16_output`.
        repeats_steps: every training step starts the same operations on the same tensors, apart from learning rates, so that a GPU
            can repeat a recorded step.
    """

    scheduled: ClassVar[bool] = False
    """Whether `schedule` changes anything: the loop then plans how many epochs the deadline leaves time for, and stops
    after them."""

    def __init__(
        self,
        network: nn.Module,
        params: TrainingParams,
        objective: Objective,
        *,
        undecayed: set[str] | None = None,
        low_precision: bool = False,
        bfloat16_weights: bool = False,
        repeats_steps: bool = False,
    ) -> None:
        self.network, self.params, self.objective = network, params, objective
        self.undecayed = undecayed or set()
        self.device = torch.device("cpu")
        self._low_precision, self._bfloat16_weights = low_precision, bfloat16_weights
        self._kernels_pay = False
        self.repeats_steps = repeats_steps
        self.shared: SharedTrunk | None = None
        """The loss of the other targets of the run, if the network learns them, too."""

    def start(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        """Called once before the first step with all training rows on the device: (rows, n_numeric) float32,
        (rows, n_categorical) int64, (rows,) target as the loss takes it, and (rows,) weights of mean one.
        """
        self.device = numeric.device
        self._low_precision = self._low_precision and has_fast_bfloat16(self.device)
        self._bfloat16_weights &= self._low_precision and self.device.type == "cuda"
        self._kernels_pay = numeric.numel() + categorical.numel() >= fused.LEAST_CELLS

    @contextmanager
    def precision(self) -> Generator[None]:
        """Context in which the network predicts, and trains if not by `bfloat16_output`: autocast where it pays."""
        with autocast(self.device, self._low_precision), fused.serving(self._kernels_pay):
            yield

    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer over the network's parameters."""
        groups = decay_groups(self.network, self.params.weight_decay, self.undecayed)
        return torch.optim.AdamW(groups, lr=self.params.learning_rate, fused=True)

    def schedule(self, optimizer: torch.optim.Optimizer, progress: float) -> None:
        """Set the learning rates of the next step. `progress` is the share of planned steps that are done, in [0, 1)."""

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called in every step between the gradients and the optimizer's step; does nothing by default."""

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint contains besides the network and the optimizer, by name; called after `start`. A resumed fit fills
        these tensors in place and then calls `resume`."""
        return {}

    def resume(self) -> None:
        """Called once in a fit that resumes from a checkpoint, after the tensors of `state` are filled."""

    def loss(self, rows: Tensor, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Mean loss of one batch.

        Args:
            rows: (batch,) indices among the training rows.
            numeric, categorical, target, weight: values of those rows; some levels may be replaced by the code for unseen ones.
        """
        if self._bfloat16_weights:
            with fused.serving(self._kernels_pay):
                output = bfloat16_output(self.network, numeric, categorical)
        else:
            with self.precision():
                output = self.network(numeric, categorical)
        loss = self.objective.loss(output, target, weight)
        return loss if self.shared is None else loss + self.shared.loss(output, rows)
