"""The rows that an NPT predicts from, and changes of them: corruption and deletion (Kossen et al. 2021, sections 4.3 and 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tabapp.features.arrays import Table
from tabapp.models.contract import Floats, RowNeighbors, RowWeights, StoredRows

from .network import Entries, Memory, NPTNetwork, Predicted

WEIGHT_ROWS = 64
"""Rows whose attention by layer and head is computed together."""
NEIGHBOR_ROWS = 512
"""Rows whose neighbors are searched together."""


class Recalling(Protocol):
    """What stored rows use of a fitted model."""

    network: NPTNetwork
    device: torch.device

    def queries(self, table: Table) -> Entries: ...
    def recall(self, entries: Entries, memories: list[Memory] | None = None) -> list[Predicted]: ...
    def prediction(self, predicted: list[Predicted]) -> Floats: ...


class NPTRows(StoredRows):
    """The rows of the contexts.

    Args:
        context: the stored rows; `source` are their positions in the fit.
        draws: indices into them, by context.
        memories: keys and values of the contexts, if they are known.
    """

    def __init__(
        self,
        model: Recalling,
        context: Entries,
        source: npt.NDArray[np.int64],
        draws: Sequence[Tensor],
        memories: Sequence[Memory] = (),
    ) -> None:
        self.source = source
        self._model, self._context, self._draws = model, context, draws
        self._memories = list(memories)

    def predict(self, table: Table) -> Floats:
        return self._model.prediction(self._model.recall(self._model.queries(table), self._remembered()))

    def weights(self, table: Table) -> list[RowWeights]:
        """Attention of each layer, averaged over contexts."""
        network, queries = self._model.network, self._model.queries(table)
        layers: list[Tensor] = []
        with torch.inference_mode():
            for draw, memory in zip(self._draws, self._remembered(), strict=True):
                for first in range(0, len(queries), WEIGHT_ROWS):
                    part = queries.take(slice(first, first + WEIGHT_ROWS)).to(self._model.device)
                    found = network.attention_between_rows(part, memory)
                    layers = layers or [torch.zeros(len(each), len(queries), len(self)) for each in found]
                    for total, each in zip(layers, found, strict=True):
                        total[:, first : first + WEIGHT_ROWS].index_add_(2, draw, each.float().cpu())
        return [
            RowWeights(f"layer {2 * i + 1}", (total / total.sum(2, keepdim=True)).numpy())
            for i, total in enumerate(layers)
        ]

    def neighbors(self, table: Table, n: int) -> RowNeighbors:
        """The rows with the highest attention, mean over heads, layers and contexts."""
        parts = [self.shares(table.take(slice(i, i + NEIGHBOR_ROWS))) for i in range(0, len(table), NEIGHBOR_ROWS)]
        weight, nearest = torch.from_numpy(np.concatenate(parts)).topk(min(n, len(self.source)), dim=1)
        return RowNeighbors(self.source[nearest.numpy()], weight.numpy())

    def take(self, rows: npt.NDArray[np.int64]) -> NPTRows:
        place = torch.full((len(self),), -1)
        place[torch.from_numpy(rows)] = torch.arange(len(rows))
        kept = [place[draw][place[draw] >= 0] for draw in self._draws]
        chosen = self._context.take(torch.from_numpy(rows))
        return NPTRows(self._model, chosen, self.source[rows], [draw for draw in kept if len(draw)])

    def permuted(self, seed: int) -> NPTRows:
        """The mask bits of a missing entry stay with its content, and each context keeps its entries."""
        generator = torch.Generator().manual_seed(seed)
        parts = [_permuted(self._context.take(draw), generator) for draw in self._draws]
        ends = np.cumsum([len(part) for part in parts])
        draws = [torch.arange(end - len(part), end) for part, end in zip(parts, ends.tolist(), strict=True)]
        return NPTRows(self._model, Entries.joined(parts), np.arange(ends[-1]), draws)

    def _remembered(self) -> list[Memory]:
        if not self._memories:
            network, device = self._model.network, self._model.device
            with torch.inference_mode():
                self._memories = [network.remember(self._context.take(draw).to(device)) for draw in self._draws]
        return self._memories


def _permuted(context: Entries, generator: torch.Generator) -> Entries:
    orders = torch.argsort(torch.rand(context.hidden.shape, generator=generator), dim=0)
    n_numeric = context.numeric.shape[1]
    return Entries(
        context.numeric.gather(0, orders[:, :n_numeric]),
        context.categorical.gather(0, orders[:, n_numeric:]),
        context.hidden.gather(0, orders),
    )
