"""How many training steps were repeated from a recording."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tabapp.nn.training.cuda_graphs import GraphedSteps


def replays_in(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets, after each step of later fits, the number of steps that were repeated so far.

    Args:
        module: the one that makes the fits' `GraphedSteps`.
    """
    replayed: list[int] = []

    class Observed(GraphedSteps):
        def __call__(self, rows: torch.Tensor) -> None:
            super().__call__(rows)
            replayed.append(self.n_replayed)

    monkeypatch.setattr(module, "GraphedSteps", Observed)
    return replayed
