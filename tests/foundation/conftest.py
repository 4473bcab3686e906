"""Weights of pre-trained models for tests: networks of the packages with random numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext
from tabapp.weights import place
from tabapp.weights.adding import add

SMALL: dict[str, Any] = {
    "col_dim": 16,
    "col_blocks": 1,
    "col_heads": 2,
    "n_inducing": 8,
    "row_blocks": 1,
    "row_heads": 2,
    "n_cls": 2,
    "icl_blocks": 1,
    "icl_heads": 2,
    "n_thinking": 2,
    "n_freq": 4,
    "decoder_heads": 2,
}
"""A small network of LightPFN."""


def randomized(network: Any, seed: int) -> Any:
    """A network whose weights are all random. Those that a new network sets to 0 would hide the context from its predictions."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * weight.shape[-1] ** -0.5)
    return network.eval()


def published_light(folder: Path, seed: int = 0) -> Path:
    """Files as LightPFN publishes them, with random weights; returns that of the weights."""
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("lightpfn.checkpoint")
    from lightpfn.model.lightpfn import Config, LightPFN

    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.save_model(randomized(LightPFN(Config(**SMALL)), seed), folder)
    return folder / "model.safetensors"


@pytest.fixture
def weights_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of weights."""
    folder = tmp_path / "weights"
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture(scope="session")
def made_light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights with those of a small LightPFN, installed once by the confined process."""
    pytest.importorskip("lightpfn")
    where = tmp_path_factory.mktemp("light")
    file = published_light(where / "published")
    plugin = registry.find("lightpfn").plugin
    assert plugin is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(place.FOLDER_VARIABLE, str(where / "weights"))
        add("lightpfn", plugin.weights[0], file)
    return where / "weights"


@pytest.fixture
def light(made_light: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `made_light` as that of the process."""
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(made_light))
    return made_light


SPEC = FeatureSpec(
    numeric=("a", "b", "c"), categorical=("d", "e"), cardinalities=(6, 5), sources=("a", "b", "c", "d", "e")
)


def some_rows(n_rows: int, n_classes: int, seed: int = 0) -> Table:
    """Rows with missing numbers, missing categories and those unseen in training."""
    random = np.random.default_rng(seed)
    numeric = random.normal(size=(n_rows, 3)).astype(np.float32)
    numeric[random.random((n_rows, 3)) < 0.1] = np.nan
    codes = random.integers(0, (6, 5), size=(n_rows, 2)).astype(np.int32)
    target = random.normal(size=n_rows) if n_classes == 1 else random.integers(0, n_classes, n_rows)
    return Table(numeric, codes, target)


def context_of(task: Any, n_classes: int, folder: Path, seed: int = 3) -> FitContext:
    """The context of a fit on a CPU."""
    return FitContext(
        task=task,
        n_classes=n_classes,
        metric="rmse" if n_classes == 1 else "log_loss",
        features=SPEC,
        seed=seed,
        device="cpu",
        n_threads=1,
        folder=folder,
    )


def write_table(folder: Path) -> Path:
    """A table with 120 rows and two classes."""
    random = np.random.default_rng(0)
    number = random.normal(size=120)
    label = np.where(number + random.normal(size=120) > 0, "yes", "no")
    pl.DataFrame({"a": number, "b": random.choice(["x", "y", "z"], 120), "t": label}).write_csv(folder / "data.csv")
    return folder / "data.csv"


def damaged(content: bytes, how: int) -> bytes:
    """A mutation of a file: cut, changed bytes, another header, or other files altogether."""
    random = np.random.default_rng(how)
    if how % 6 == 0:
        return content[: int(random.integers(0, len(content)))]
    if how % 6 == 1:
        return int(random.integers(2**31, 2**62)).to_bytes(8, "little") + content[8:]
    if how % 6 == 2:
        return random.bytes(int(random.integers(0, 5_000)))
    if how % 6 == 3:
        header = json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}}).encode()
        return len(header).to_bytes(8, "little") + header + b"\0" * 4
    changed = bytearray(content)
    for where in random.integers(0, min(len(content), 4_000 if how % 6 == 4 else len(content)), size=20):
        changed[where] ^= int(random.integers(1, 256))
    return bytes(changed)
