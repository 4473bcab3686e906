"""Kumo Tabular and TabICLv2, with the networks and the preparation of the package structured-data-models."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import MISSING, Table
from tabapp.models.contract import Float32, Params, Shape, Task, Trial
from tabapp.weights.pretrained import BRANCH, Pretrained

from .context import ContextPlugin
from .model import ContextParams, Reader, Saved
from .networks import bytes_of

CLASSIFICATION: tuple[Task, ...] = ("binary", "multiclass")
REGRESSION: tuple[Task, ...] = ("regression",)
Size = Literal["small", "medium", "large"]


class _Reader:
    """A network of the package with its context.

    Attributes:
        model: has read the context; its weights are shared with other models of the process.
    """

    def __init__(self, model: Any, saved: Saved, rows: Table, device: str) -> None:
        import torch

        self.saved, self.device = saved, device
        # The weights are shared, the cache of the context is not.
        self.model = copy.copy(model)
        # The package computes in single precision, which would round targets with a large offset.
        self.offset = float(np.mean(rows.target)) if saved.task == "regression" and rows.target is not None else 0.0
        generator = torch.Generator(device).manual_seed(saved.seed)
        with torch.inference_mode():
            self.model.fit(
                self._features(rows), self._target(rows), num_estimators=saved.params.n_estimators, generator=generator
            )
        self.n_bytes = bytes_of(vars(self.model).get("_cache"))

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        import torch

        with torch.inference_mode():
            output = self.model.predict(self._features(table))
        values: npt.NDArray[Any] = output.numerical.float().cpu().numpy().astype(np.float64)
        if self.saved.task == "regression":
            return values.mean(axis=1) + self.offset
        names = next(names for stype, names in output.columns.items() if str(stype) == "numerical")
        shares = np.zeros((len(table), self.saved.n_classes))
        shares[:, [int(name) for name in names]] = values
        return shares

    def attention(self, table: Table) -> list[Float32]:
        """The attention of the layers between rows. Their predictions mix it with what each layer computes of the rows."""
        from sdm.nn import SDPA

        block = next(iter(self.model.models.values())).icl_block
        found: list[list[Any]] = [[] for _ in block.layers]
        hooks: list[Any] = []
        for layer, seen in zip(block.layers, found, strict=True):

            def see(module: Any, _: Any, named: dict[str, Any], seen: list[Any] = seen) -> None:
                seen.append(_attention_of(module, named["query"], named["key"]))

            attentions = [module for module in layer.modules() if isinstance(module, SDPA)]
            hooks += [module.register_forward_pre_hook(see, with_kwargs=True) for module in attentions]
        try:
            self.predict(table)
        finally:
            for hook in hooks:
                hook.remove()
        return [np.asarray(np.mean(layer, axis=0), dtype=np.float32) for layer in found]

    def _features(self, table: Table) -> Any:
        """The columns as the package takes them: numbers with NaN, and the codes of categories as text."""
        import pyarrow as pa
        from sdm import TableTensor

        columns: dict[str, Any] = {}
        stypes: dict[str, str] = {}
        for place, numbers in enumerate(table.numeric.T):
            columns[f"n{place}"] = pa.array(np.ascontiguousarray(numbers), from_pandas=True)
            stypes[f"n{place}"] = "numerical"
        for place, codes in enumerate(table.categorical.T):
            columns[f"c{place}"] = pa.array(
                [None if code == MISSING else str(code) for code in codes.tolist()], pa.string()
            )
            stypes[f"c{place}"] = "categorical"
        return TableTensor.from_arrow(pa.table(columns), stypes=stypes, device=self.device)

    def _target(self, table: Table) -> Any:
        import pyarrow as pa
        from sdm import TableTensor

        assert table.target is not None
        is_number = self.saved.task == "regression"
        values = pa.array(table.target - self.offset if is_number else [str(code) for code in table.target.tolist()])
        kind = "numerical" if is_number else "categorical"
        return TableTensor.from_arrow(pa.table({"target": values}), stypes={"target": kind}, device=self.device)


def _attention_of(module: Any, query: Any, key: Any) -> Float32:
    """(heads, rows, n) attention of one call: queries (..., rows, heads, d) and keys (..., n, heads or fewer, d)."""
    import torch

    if module.query_scaling is not None:
        query = module.query_scaling(query, key_len=key.size(-3))
    key = key.repeat_interleave(query.size(-2) // key.size(-2), dim=-2)
    scale = query.size(-1) ** -0.5 if module.scale is None else module.scale
    logits = torch.einsum("...qhd,...khd->...hqk", query.float(), key.float()) * scale
    shares = torch.softmax(logits, dim=-1)
    return shares.reshape(-1, *shares.shape[-3:]).mean(dim=0).cpu().numpy()


class StructuredPlugin(ContextPlugin):
    """A model of structured-data-models."""

    def built(self, weights: str, path: Path, device: str) -> Any:
        from safetensors.torch import load_file

        model = self.network(weights, device)
        task = next(iter(model.models))
        model.models[task].load_state_dict(load_file(path, device=device), assign=True)
        return model.eval()

    def reader(self, network: Any, saved: Saved, rows: Table, device: str) -> Reader:
        return _Reader(network, saved, rows, device)

    def network(self, weights: str, device: str) -> Any:
        """The network of a file of weights, with random weights."""
        raise NotImplementedError

    def converted(self, weights: str, tensors: Mapping[str, Any], config: Any) -> dict[str, Any]:
        """The weights of a published file by the names that the network has.

        Raises:
            ValueError: the file has the weights of another network.
        """
        state = self.renamed(weights, tensors)
        model = self.network(weights, "cpu")
        expected = next(iter(model.models.values())).state_dict()
        wrong = sorted(state.keys() ^ expected.keys()) or [
            name for name, tensor in state.items() if tensor.shape != expected[name].shape
        ]
        if wrong:
            raise ValueError(f"it does not have the weights of this network ({wrong[0]!r} differs)")
        return state

    def renamed(self, weights: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a published file by the names that the network has."""
        return dict(tensors)


def kumo_weights(size: str, n_classifier: int, n_regressor: int) -> tuple[Pretrained, Pretrained]:
    """The two files of a size, with their numbers of parameters."""
    license_url = "https://huggingface.co/nvidia/Kumo-Tabular"
    return tuple(
        Pretrained(
            name=f"kumo-{size}-{kind}",
            group=f"kumo-{size}",
            tasks=tasks,
            repository="nvidia/Kumo-Tabular",
            revision="v1.0.1",
            files=(f"{size}/{kind}.pt",),
            license="OpenMDW-1.1",
            license_url=license_url,
            n_parameters=n_parameters,
        )
        for kind, tasks, n_parameters in (
            ("classifier", CLASSIFICATION, n_classifier),
            ("regressor", REGRESSION, n_regressor),
        )
    )  # pyright: ignore[reportReturnType]


class KumoParams(ContextParams, frozen=True, kw_only=True):
    """Attributes:
    size: that of the network. The larger ones take several times the time and memory.
    """

    size: Size = "small"


class Kumo(StructuredPlugin):
    """NOTE[DIFF]: the default size is small instead of large, and at most 4,096 rows are kept as context."""

    name = "kumo"
    title = "Kumo Tabular"
    paper = "NVIDIA 2026, Kumo Tabular"
    requires = ("torch", "sdm", "pyarrow", "safetensors")
    params_type = KumoParams
    most_classes: ClassVar[int | None] = None
    weights = (
        *kumo_weights("small", 27_458_266, 28_466_231),
        *kumo_weights("medium", 61_485_274, 62_492_087),
        *kumo_weights("large", 213_668_250, 215_683_191),
    )

    def weights_for(self, task: Task, params: Params) -> Pretrained:
        assert isinstance(params, KumoParams)
        return next(w for w in self.weights if w.group == f"kumo-{params.size}" and task in w.tasks)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> KumoParams:
        """The number of estimators and of context rows, and on a GPU the installed sizes."""
        from tabapp.weights import store

        drawn = super().search_space(trial, task, shape, device)
        assert isinstance(drawn, KumoParams)
        sizes = [size for size in get_args(Size) if store.find(self.weights_for(task, KumoParams(size=size)).name)]
        if device == "cpu" or len(sizes) < 2:
            return drawn
        return msgspec.structs.replace(drawn, size=trial.suggest_categorical("size", sizes))

    def network(self, weights: str, device: str) -> Any:
        from sdm.models import KumoTabular

        size: Size = next(each for each in get_args(Size) if f"-{each}-" in weights)
        task = "classification" if weights.endswith("classifier") else "regression"
        return KumoTabular(task=task, size=size, pretrained=False, device=device)


class TabICL(StructuredPlugin):
    """NOTE[DIFF]: at most 4,096 rows are kept as context."""

    name = "tabicl"
    title = "TabICL v2"
    paper = "Qu et al. 2026, TabICLv2: A better, faster, scalable, and open tabular foundation model"
    requires = ("torch", "sdm", "pyarrow", "safetensors")
    most_features = 500
    weights = tuple(
        Pretrained(
            name=f"tabicl-{kind}",
            group="tabicl",
            tasks=tasks,
            repository="jingang/TabICL",
            revision=BRANCH,
            files=(f"tabicl-{kind}-v2-20260212.ckpt",),
            license="BSD-3-Clause",
            license_url="https://huggingface.co/jingang/TabICL",
            n_parameters=n_parameters,
        )
        for kind, tasks, n_parameters in (
            ("classifier", CLASSIFICATION, 27_551_618),
            ("regressor", REGRESSION, 28_544_991),
        )
    )

    def weights_for(self, task: Task, params: Params) -> Pretrained:
        return next(each for each in self.weights if task in each.tasks)

    def network(self, weights: str, device: str) -> Any:
        from sdm.models import TabICLv2

        task = "classification" if weights.endswith("classifier") else "regression"
        return TabICLv2(task=task, pretrained=False, device=device)

    def renamed(self, weights: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
        from sdm.models.tabiclv2.ckpt import remap_ckpt

        if "row_embedding.y_emb.weight" in tensors or "row_embedding.y_lin.weight" in tensors:
            return dict(tensors)
        try:
            return remap_ckpt(dict(tensors), is_classifier=weights.endswith("classifier"))
        except KeyError as error:
            raise ValueError(f"it does not have the weights of this network ({error} is missing)") from None
