"""Predictions of a trained network for a real table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from .network import SIZES, Memory, PriorFittedNetwork, encode


@dataclass(frozen=True)
class Predictor:
    """A network and the number of permutations of columns and classes over which it averages."""

    network: PriorFittedNetwork
    permutations: int

    @classmethod
    def load(cls, file: Path, *, permutations: int = 4) -> Predictor:
        """The network of a file that `save_network` wrote."""
        with safe_open(file, "pt") as tensors:
            network = PriorFittedNetwork(SIZES[tensors.metadata()["size"]])
            network.load_state_dict({name: tensors.get_tensor(name).float() for name in tensors.keys()})  # noqa: SIM118
        return cls(network.eval(), permutations)

    def predict(
        self,
        context: NDArray[np.floating[Any]],
        categorical: NDArray[np.bool_],
        labels: NDArray[np.int64],
        query: NDArray[np.floating[Any]],
        *,
        n_classes: int,
        seed: int,
    ) -> NDArray[np.float64]:
        """(query rows, n_classes) probabilities. Arguments as of `Context`."""
        return Context(self, context, categorical, labels, n_classes=n_classes, seed=seed).predict(query)


class Context:
    """Labeled rows that the network has read.

    Args:
        context: (rows, columns) numbers and codes of categories, NaN for missing cells.
        categorical: (columns,) whether a column holds codes.
        labels: (rows,) classes from 0.

    Raises:
        ValueError: for more classes than the network has.
    """

    @torch.inference_mode()
    def __init__(
        self,
        predictor: Predictor,
        context: NDArray[np.floating[Any]],
        categorical: NDArray[np.bool_],
        labels: NDArray[np.int64],
        *,
        n_classes: int,
        seed: int,
    ) -> None:
        network = predictor.network
        if n_classes > network.size.classes:
            raise ValueError(f"the network predicts at most {network.size.classes} classes, not {n_classes}")
        self._network, self._rows, self._n_classes = network, torch.from_numpy(context).float(), n_classes
        self._categorical = torch.from_numpy(categorical).unsqueeze(0)
        rng = np.random.default_rng(seed)
        cells = encode(self._rows.unsqueeze(0), self._categorical, len(context))
        self._passes: list[tuple[NDArray[np.int64], NDArray[np.int64], torch.Tensor, list[Memory]]] = []
        for _ in range(predictor.permutations):
            columns, names = rng.permutation(context.shape[1]), rng.permutation(n_classes)
            known = torch.from_numpy(names[labels]).unsqueeze(0)
            self._passes.append((columns, names, known, network.read(cells[:, :, columns], known)))

    @property
    def memories(self) -> list[list[Memory]]:
        """What the network keeps of the rows in each pass."""
        return [memories for *_, memories in self._passes]

    @torch.inference_mode()
    def predict(self, query: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(rows, n_classes) probabilities, averaged over permutations of columns and classes.

        Shape: (rows, columns), as the context.
        """
        cells = self._encoded(query)
        total = np.zeros((len(query), self._n_classes))
        for columns, names, known, memories in self._passes:
            logits = self._network.answer(cells[:, :, columns], known, memories)
            total += logits.softmax(2)[0][:, names].double().numpy()
        return total / len(self._passes)

    @torch.inference_mode()
    def attention(self, query: NDArray[np.floating[Any]]) -> list[NDArray[np.float32]]:
        """(heads, rows, context rows) attention of rows to the context in each layer, averaged over the permutations."""
        cells = self._encoded(query)
        found = [
            torch.stack([layer[0] for layer in self._network.attention(cells[:, :, columns], known, memories)])
            for columns, _, known, memories in self._passes
        ]
        return list(torch.stack(found).mean(0).numpy())

    def _encoded(self, query: NDArray[np.floating[Any]]) -> torch.Tensor:
        values = torch.cat([self._rows, torch.from_numpy(query).float()]).unsqueeze(0)
        return encode(values, self._categorical, len(self._rows))[:, len(self._rows) :]
