"""Explanations of an NPT: integrated gradients, and attention between the attributes of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tabapp.models.contract import AttentionMap, Float32
from tabapp.nn.integrated import integrated_gradients

from .network import Entries, Memory, NPTNetwork, Predicted

MAP_ROWS = 256
"""Rows whose attention is computed together."""


class FromEmbedded(nn.Module):
    """Predictions of embedded rows from contexts, whose keys and values stay as they are.

    Shape: (rows, n_attributes · d_embedding) and any codes to (rows, contexts, d_out).
    """

    def __init__(
        self, network: NPTNetwork, memories: Sequence[Memory], target: Callable[[list[Predicted]], Tensor]
    ) -> None:
        super().__init__()
        self.network, self._target = network, target
        # Tensors made in inference mode cannot take part in a gradient.
        self._memories = [Memory([k.clone() for k in m.keys], [v.clone() for v in m.values]) for m in memories]
        self.train(network.training)

    def forward(self, embedded: Tensor, codes: Tensor) -> Tensor:
        tokens = embedded.unflatten(1, (len(self.network.attributes), -1))
        return self._target([self.network.recall_embedded(tokens, memory) for memory in self._memories])


def gradients_of_attributes(
    network: FromEmbedded, output: Callable[[Tensor], Tensor], rows: Entries, reference: Entries
) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The base, the (rows, n_attributes) integrated gradients, and the (rows,) completeness errors.

    Paths are straight in the embedded entries, and therefore in numbers and in the embeddings of levels. An entry that is
    missing in one of both rows changes gradually, too.
    """
    with torch.no_grad():
        embedded = [network.network.embedding(entries).flatten(1) for entries in (rows, reference)]
    codes = [
        torch.zeros(len(entries), 0, dtype=torch.int64, device=rows.hidden.device) for entries in (rows, reference)
    ]
    base, values, errors = integrated_gradients(network, output, embedded[0], codes[0], embedded[1], codes[1])
    return base, values.reshape(len(rows), len(network.network.attributes), -1).sum(axis=2), errors


def maps_between_attributes(
    network: NPTNetwork, memory: Memory, entries: Entries, places: Sequence[int], device: torch.device
) -> list[AttentionMap]:
    """Attention between attributes by layer and head, averaged over the rows.

    Args:
        places: the feature of each attribute; `tabapp.nn.layers.attention.TARGET` for the target of the run.
    """
    sums: list[Tensor] = []
    with torch.inference_mode():
        for first in range(0, len(entries), MAP_ROWS):
            part = entries.take(slice(first, first + MAP_ROWS)).to(device)
            found = [each.float().sum(0) for each in network.attention_between_attributes(part, memory)]
            sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
    return [
        AttentionMap(f"layer {2 * i + 2}", tuple(places), tuple(places), (total / len(entries)).cpu().numpy())
        for i, total in enumerate(sums)
    ]


def attention_of_target(
    network: NPTNetwork, memory: Memory, entries: Entries, target: int, features: Sequence[int], device: torch.device
) -> Float32:
    """(rows, features) shares of the attention of the target to each feature of its row, mean over heads and blocks.

    Args:
        target, features: their attributes.
    """
    parts: list[Tensor] = []
    with torch.inference_mode():
        for first in range(0, len(entries), MAP_ROWS):
            part = entries.take(slice(first, first + MAP_ROWS)).to(device)
            found = network.attention_between_attributes(part, memory)
            weights = torch.stack([each[:, :, target].float().mean(1) for each in found]).mean(0)[:, list(features)]
            parts.append((weights / weights.sum(1, keepdim=True)).cpu())
    return torch.cat(parts).numpy()
