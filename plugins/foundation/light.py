"""LightPFN, a small pre-trained network for classification, with the package lightpfn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import Table
from tabapp.models.contract import Float32, Params, Task
from tabapp.weights.pretrained import Pretrained

from .context import ContextPlugin
from .model import Reader, Saved, matrix_of
from .networks import bytes_of


class _Reader:
    """The network with its context."""

    def __init__(self, model: Any, saved: Saved, rows: Table, device: str) -> None:
        from lightpfn import LightPFNClassifier

        self.saved = saved
        self.classifier: Any = LightPFNClassifier(
            model=model,
            device=device,
            n_estimators=saved.params.n_estimators,
            max_context=saved.n_rows,
            random_state=saved.seed,
        )
        self.classifier.fit(matrix_of(rows), rows.target, cat=None)
        self.n_bytes = bytes_of(self.classifier.members_)

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        shares = np.zeros((len(table), self.saved.n_classes))
        shares[:, self.classifier.classes_] = self.classifier.predict_proba(matrix_of(table))
        return shares

    def attention(self, table: Table) -> list[Float32]:
        """The attention of the decoder: its mean over the heads and estimators is the weight of each row's class."""
        import torch

        found: list[Any] = []

        def see(decoder: Any, arguments: tuple[Any, ...]) -> None:
            keys, _, hidden, _ = arguments
            n_estimators, n_rows, _ = hidden.shape
            query = decoder.q(hidden).view(n_estimators, n_rows, decoder.n_heads, decoder.head_dim).transpose(1, 2)
            query = decoder.scaling(query, keys.shape[2]).float()
            logits = query @ keys.float().transpose(2, 3) / decoder.head_dim**0.5
            found.extend(torch.softmax(logits, dim=-1).cpu().numpy())

        hook = self.classifier.fit_net_.decoder.register_forward_pre_hook(see)
        try:
            self.predict(table)
        finally:
            hook.remove()
        return [np.asarray(np.mean(found, axis=0), dtype=np.float32)]


def _network(config: Mapping[str, Any]) -> Any:
    """The network of a configuration, with random weights.

    Raises:
        TypeError, ValueError: it is not a configuration of this network.
    """
    from lightpfn.model.lightpfn import Config
    from lightpfn.model.lightpfn import LightPFN as Network

    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType]
        for name, value in config.items()
    }
    return Network(Config(**values))


class LightPFN(ContextPlugin):
    """NOTE[DIFF]: at most 4,096 rows are kept as context instead of 20,000."""

    name = "lightpfn"
    title = "LightPFN"
    paper = "Otto 2026, LightPFN"
    tasks = ("binary", "multiclass")
    requires = ("torch", "lightpfn", "sklearn", "safetensors")
    weights = (
        Pretrained(
            name="lightpfn-classifier",
            group="lightpfn",
            tasks=("binary", "multiclass"),
            repository="ueuegio/LightPFN",
            revision="bd389ab59a89dd0e05c9ecb7c642c08ee52e9637",
            files=("model.safetensors", "config.json"),
            license="Apache-2.0",
            license_url="https://huggingface.co/ueuegio/LightPFN",
            n_parameters=4_603_088,
        ),
    )

    def weights_for(self, task: Task, params: Params) -> Pretrained:
        return self.weights[0]

    def built(self, weights: str, path: Path, device: str) -> Any:
        from safetensors import safe_open
        from safetensors.torch import load_file

        with safe_open(path, framework="pt") as file:
            config = json.loads((file.metadata() or {})["config"])
        model = _network(config)
        model.load_state_dict(load_file(path), strict=True)
        return model.to(device).eval()

    def reader(self, network: Any, saved: Saved, rows: Table, device: str) -> Reader:
        return _Reader(network, saved, rows, device)

    def converted(self, weights: str, tensors: Mapping[str, Any], config: Any) -> dict[str, Any]:
        """The weights of a published file.

        Raises:
            ValueError: the file has the weights of another network.
        """
        if not isinstance(config, dict):
            raise ValueError("it comes without the configuration of its network, config.json")
        try:
            expected = _network(config).state_dict()
        except (TypeError, ValueError) as error:
            raise ValueError(f"its configuration is not one of this network ({error})") from None
        wrong = sorted(tensors.keys() ^ expected.keys()) or [
            name for name, tensor in tensors.items() if tensor.shape != expected[name].shape
        ]
        if wrong:
            raise ValueError(f"it does not have the weights of this network ({wrong[0]!r} differs)")
        return dict(tensors)
