"""Fits that can be trained together as one stacked network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import FitContext
from tabapp.nn.training.checkpoint import FILE
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams, batch_size_for
from tabapp.nn.training.stopping import criterion
from tabapp.nn.training.trainer import Training

FREE = frozenset(TrainingParams.__struct_fields__) - {"numeric"}
"""Hyperparameters in which members of a group may differ, whatever the network: those that leave its inputs the same."""


@dataclass
class Member:
    """A fit of a group.

    Attributes:
        network: new; it gets the best weights.
        free: hyperparameters in which members may differ: those of training, and rates of dropout that only `Dropout` modules read.
        random: the state of torch's generator after the network was built, from which the separate fit would continue.
        n_epochs: train for so many epochs without early stopping, and keep the last weights; None stops early.
        result: set when the member ends.
        stopped: the engine ended this fit.
    """

    network: nn.Module
    train: Table
    valid: Table
    params: TrainingParams
    objective: Objective
    context: FitContext
    method: TrainingMethod
    random: Tensor
    free: frozenset[str] = FREE
    n_epochs: int | None = None
    result: Training | None = None
    stopped: bool = False
    best_loss: float = field(default=float("inf"), init=False)
    best_epoch: int = field(default=0, init=False)

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.params.batch_size or batch_size_for(len(self.train))

    @property
    def patience(self) -> int:
        """Epochs without improvement after which it ends."""
        return self.params.max_epochs if self.params.patience is None else self.params.patience

    def architecture(self) -> tuple[object, ...]:
        """Members of a group are equal in this."""
        shapes = tuple((name, tuple(t.shape), t.dtype) for name, t in self.network.state_dict().items())
        modules = tuple(type(module) for module in self.network.modules())
        fixed = {key: value for key, value in msgspec.structs.asdict(self.params).items() if key not in self.free}
        objective, context = self.objective, self.context
        data = objective.task, objective.n_classes, self.train.weight is None, context.device
        return modules, repr(fixed), shapes, *data, criterion(context), self.n_epochs is None

    def can_stack(self) -> bool:
        """Whether it can be part of a group. Batch statistics, special training methods, other targets and hidden cells cannot, and
        a fit with a checkpoint continues alone."""
        normalized = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.network.modules())  # pyright: ignore[reportPrivateUsage]
        buffers = any(t.is_floating_point() for t in self.network.buffers())
        plain = type(self.method) is TrainingMethod and self.method.shared is None and not self.params.hidden_rate
        plain = plain and not self.objective.is_constant
        return plain and not normalized and not buffers and not (self.context.folder / FILE).exists()


def groups_of(members: Sequence[Member]) -> list[list[Member]]:
    """Members that can be trained together; groups of one are trained separately."""
    groups: dict[object, list[Member]] = {}
    for number, member in enumerate(members):
        groups.setdefault(member.architecture() if member.can_stack() else number, []).append(member)
    return list(groups.values())
