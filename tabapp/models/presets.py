"""Fixed hyperparameters: those of a preset, and those that the user sets with `--set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from tabapp.models.contract import Params, Plugin, Shape, Task, Trial

P = TypeVar("P", bound=Params)


def with_fixed(params: P, fixed: Mapping[str, Any]) -> P:
    """The hyperparameters with these values, as far as the model has them."""
    return msgspec.structs.replace(params, **{name: fixed[name] for name in params.__struct_fields__ if name in fixed})


class Preset(Plugin):
    """Base class of presets, before the class of the model: all trials have the values of `fixed`, and there is no portfolio.

    Attributes:
        fixed: values by hyperparameter.
    """

    fixed: ClassVar[Mapping[str, Any]] = {}

    def defaults(self, task: Task, shape: Shape, device: str) -> Any:
        return with_fixed(super().defaults(task, shape, device), self.fixed)  # pyright: ignore[reportAbstractUsage]

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[Any, ...]:
        return ()

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> Any:
        return with_fixed(super().search_space(trial, task, shape, device), self.fixed)  # pyright: ignore[reportAbstractUsage]
