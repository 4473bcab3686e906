"""Predictions of a trained network for a real table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from benchmarks.prior.network import SIZES, PriorFittedNetwork, encode


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

    @torch.inference_mode()
    def predict(
        self,
        context: NDArray[np.float64],
        categorical: NDArray[np.bool_],
        labels: NDArray[np.int64],
        query: NDArray[np.float64],
        *,
        n_classes: int,
        seed: int,
    ) -> NDArray[np.float64]:
        """(query rows, n_classes) probabilities.

        Args:
            context, query: (rows, columns) numbers and codes of categories, NaN for missing cells.
            categorical: (columns,) whether a column holds codes.
            labels: (context rows,) classes from 0.

        Raises:
            ValueError: for more classes than the network has.
        """
        most = self.network.size.classes
        if n_classes > most:
            raise ValueError(f"the network predicts at most {most} classes, not {n_classes}")
        rng = np.random.default_rng(seed)
        values = torch.from_numpy(np.concatenate([context, query])).float()
        cells = encode(values.unsqueeze(0), torch.from_numpy(categorical).unsqueeze(0), len(context))
        total = np.zeros((len(query), n_classes))
        for _ in range(self.permutations):
            columns, names = rng.permutation(values.shape[1]), rng.permutation(n_classes)
            known = torch.from_numpy(names[labels]).unsqueeze(0)
            logits = self.network(cells[:, :, columns], known)
            total += logits.softmax(2)[0][:, names].double().numpy()
        return total / self.permutations
