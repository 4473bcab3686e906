"""Pre-trained models with random weights: equal to their packages, alone and in batches, saved and loaded."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.checks.subject import Subject
from tabapp.models.checks.suite import run_checks
from tabapp.models.contract import FittedModel, Shape
from tabapp.weights import place, store
from tests.foundation.conftest import SPEC, context_of, randomized, some_rows

pytest.importorskip("lightpfn")


def fitted(name: str, n_classes: int, folder: Path, train: Table, valid: Table) -> FittedModel:
    task: Any = {1: "regression", 2: "binary"}.get(n_classes, "multiclass")
    plugin = registry.get(name)
    defaults = plugin.defaults(task, Shape(len(train), 3, 2, n_classes), "cpu")
    return plugin.fit(train, valid, defaults, context_of(task, n_classes, folder))


@pytest.mark.parametrize("n_classes", [2, 7])
def test_lightpfn_equals_its_package(n_classes: int, light: Path, tmp_path: Path) -> None:
    from lightpfn import LightPFNClassifier, load_model

    train, valid, new = (some_rows(n, n_classes, seed) for n, seed in ((90, 0), (30, 1), (70, 2)))
    model = fitted("lightpfn", n_classes, tmp_path, train, valid)
    network = load_model(light.parent / "published" / "model.safetensors")
    own = LightPFNClassifier(model=network, device="cpu", n_estimators=4, random_state=3)
    rows = train.joined(valid)

    def matrix(table: Table) -> Any:
        codes = np.where(table.categorical < 2, np.nan, table.categorical).astype(np.float32)
        return np.concatenate([table.numeric, codes], axis=1)

    own.fit(matrix(rows), rows.target)
    assert np.abs(model.predict(new) - own.predict_proba(matrix(new))).max() < 1e-6


def test_a_row_gets_the_same_answer_alone_in_a_batch_and_after_loading(light: Path, tmp_path: Path) -> None:
    train, valid, new = some_rows(90, 3, 0), some_rows(30, 3, 1), some_rows(70, 3, 2)
    model = fitted("lightpfn", 3, tmp_path / "fit", train, valid)
    together = model.predict(new)
    alone = np.concatenate([model.predict(new.take(slice(row, row + 1))) for row in range(5)])
    assert np.array_equal(together[:5], alone)
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    loaded = registry.get("lightpfn").load(tmp_path / "saved")
    loaded.check(SPEC, "multiclass", 3)
    assert np.array_equal(loaded.predict(new), together)
    assert loaded.pretrained() == model.pretrained()
    assert sorted(file.suffix for file in (tmp_path / "saved").iterdir()) == [".json", ".safetensors"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_keeps_the_promises_of_the_contract(light: Path) -> None:
    plugin = registry.get("lightpfn")
    results = list(run_checks(Subject(plugin, fit_seconds=900.0, quick_seconds=900.0)))
    assert [result for result in results if result.status == "broken"] == []
    assert sum(result.status == "ok" for result in results) > 30


def test_a_prediction_of_lightpfn_is_the_mean_of_the_classes_of_its_rows(light: Path, tmp_path: Path) -> None:
    """Its weights of rows say exactly what its prediction rests on."""
    train, valid, new = some_rows(90, 3, 0), some_rows(30, 3, 1), some_rows(70, 3, 2)
    model = fitted("lightpfn", 3, tmp_path, train, valid)
    stored, rows = model.stored_rows(), train.joined(valid)
    assert stored is not None
    assert rows.target is not None
    shares = stored.shares(new)
    classes = np.eye(3)[np.asarray(rows.target, dtype=np.int64)[stored.source]]
    # The decoder adds a small number to each share of a class.
    assert np.abs(shares @ classes - model.predict(new)).max() < 1e-3
    found = model.row_neighbors(new, 4)
    assert found is not None
    assert np.array_equal(found.weight[:, 0], shares.max(axis=1))
    assert np.array_equal(found.index[:, 0], stored.source[shares.argmax(axis=1)])


def test_rows_of_one_class_predict_that_class(light: Path, tmp_path: Path) -> None:
    train, valid, new = some_rows(90, 3, 0), some_rows(30, 3, 1), some_rows(5, 3, 2)
    stored = fitted("lightpfn", 3, tmp_path, train, valid).stored_rows()
    assert stored is not None
    target = train.joined(valid).target
    assert target is not None
    few = stored.take(np.flatnonzero(target[stored.source] == 1)[:7])
    assert np.array_equal(few.predict(new), np.tile(np.eye(3, dtype=np.float32)[1], (5, 1)))
    assert np.allclose(few.shares(new), 1 / 7)


def test_a_context_is_read_once_while_memory_suffices(
    light: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that fit into the memory keep what their network has read, and others read it again for the same answer."""
    from tabapp_plugins.foundation import networks
    from tabapp_plugins.foundation.light import LightPFN

    networks.forget()
    train, valid, new = some_rows(90, 3, 0), some_rows(30, 3, 1), some_rows(70, 3, 2)
    models = [fitted("lightpfn", 3, tmp_path, train, valid) for _ in range(2)]
    reads: list[int] = []
    read = LightPFN.reader
    monkeypatch.setattr(LightPFN, "reader", lambda *given: (reads.append(1), read(*given))[1])
    expected = [model.predict(new) for model in models]
    assert not reads
    (size,) = set(networks.kept_bytes().values())
    assert size > 0
    networks.forget()
    monkeypatch.setattr(networks, "MOST_KEPT", size * 3 // 2)
    for _ in range(3):
        assert all(np.array_equal(model.predict(new), each) for model, each in zip(models, expected, strict=True))
    # The second model has read its rows for all calls but the first.
    assert len(reads) == 2
    assert list(networks.kept_bytes()) == [models[0]]


def test_a_fit_past_its_deadline_reads_nothing(light: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from tabapp_plugins.foundation.light import LightPFN

    plugin = registry.get("lightpfn")
    monkeypatch.setattr(LightPFN, "reader", lambda *given: pytest.fail("it was read"))
    late = replace(context_of("binary", 2, tmp_path), soft_deadline=0.0)
    params = plugin.defaults("binary", Shape(60, 3, 2, 2), "cpu")
    assert plugin.fit(some_rows(60, 2, 0), some_rows(20, 2, 1), params, late).pretrained() is not None


def test_the_context_is_a_stratified_sample_of_the_rows(light: Path, tmp_path: Path) -> None:
    from tabapp_plugins.foundation.context import ContextParams, chosen_rows

    rows = some_rows(1_000, 2)
    rare = Table(rows.numeric, rows.categorical, (np.arange(1_000) % 100 == 7).astype(np.int64))
    chosen = chosen_rows(rare, 100, context_of("binary", 2, tmp_path))
    assert len(chosen) == 100
    assert np.all(np.diff(chosen) > 0)
    assert rare.target is not None
    assert 1 <= rare.target[chosen].sum() <= 2
    heavy = Table(rows.numeric, rows.categorical, rare.target, (np.arange(1_000) < 10).astype(np.float32) + 1e-6)
    assert np.mean(chosen_rows(heavy, 100, context_of("binary", 2, tmp_path)) < 10) > 0.9
    assert ContextParams().max_context == 4_096


@pytest.mark.slow
def test_other_weights_of_the_same_name_are_refused(light: Path, tmp_path: Path, weights_folder: Path) -> None:
    """A saved model refers to its weights by their hash."""
    from tabapp.errors import UsageError
    from tabapp.weights.adding import add
    from tests.foundation.conftest import published_light

    store_of_model = light
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(place.FOLDER_VARIABLE, str(store_of_model))
        model = fitted("lightpfn", 2, tmp_path / "fit", some_rows(60, 2, 0), some_rows(20, 2, 1))
        (tmp_path / "saved").mkdir()
        model.save(tmp_path / "saved")
    plugin = registry.find("lightpfn").plugin
    assert plugin is not None
    add("lightpfn", plugin.weights[0], published_light(tmp_path / "other", seed=5))
    from tabapp_plugins.foundation import networks

    networks.forget()
    with pytest.raises(
        UsageError, match=r"Other weights of this name are installed. Install them with `tabapp weights"
    ):
        plugin.load(tmp_path / "saved")


def test_without_weights_the_model_is_listed_with_the_command(weights_folder: Path) -> None:
    for name in ("kumo", "tabicl", "lightpfn"):
        found = registry.find(name)
        assert found.plugin is not None
        assert found.reason is not None
        group = found.plugin.weights[0].group
        assert found.reason.startswith("needs the package") or f"`tabapp weights fetch {group}`" in found.reason


def test_a_changed_file_of_weights_is_not_read(made_light: Path, weights_folder: Path) -> None:
    import shutil

    from tabapp.errors import UsageError

    shutil.copytree(made_light, weights_folder)
    record = store.find("lightpfn-classifier")
    assert record is not None
    content = bytearray(record.path.read_bytes())
    content[-1] ^= 1
    record.path.write_bytes(bytes(content))
    with pytest.raises(UsageError, match="has another SHA-256 than when it was installed"):
        store.verified(record)


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of structured-data-models at a fraction of their size."""
    pytest.importorskip("sdm")
    from sdm.models.kumo.tabular import model as kumo
    from sdm.models.tabiclv2 import model as tabicl

    small = {"num_embedding_layers": 1, "num_inducing_points": 8, "num_icl_layers": 1, "num_icl_heads": 2}
    changed = kumo.MODEL_KWARGS["small"] | small | {"cell_channels": 16, "icl_channels": 32}
    monkeypatch.setitem(kumo.MODEL_KWARGS, "small", changed)
    network = partial(tabicl._TabICLv2, channels=16, num_embedding_heads=2, **small)
    monkeypatch.setattr(tabicl, "_TabICLv2", network)


@pytest.mark.parametrize("n_classes", [2, 7, 1])
@pytest.mark.parametrize("name", ["kumo", "tabicl"])
def test_structured_models_equal_their_package(
    name: str, n_classes: int, tmp_path: Path, weights_folder: Path, small_networks: None
) -> None:
    """With weights that are stored without the confined process; rows with missing cells and with categories unseen in training."""
    import pyarrow as pa
    import torch
    from safetensors.torch import save_file
    from sdm import TableTensor
    from sdm.models import KumoTabular, TabICLv2

    task: Any = "regression" if n_classes == 1 else "classification"
    torch.manual_seed(0)
    network: Any = (
        KumoTabular(task=task, size="small", pretrained=False, device="cpu")
        if name == "kumo"
        else TabICLv2(task=task, pretrained=False, device="cpu")
    )
    randomized(network, 0)
    made = tmp_path / "made.safetensors"
    state = next(iter(network.models.values())).state_dict()
    save_file({key: tensor.clone() for key, tensor in state.items()}, made)
    kind = "regressor" if n_classes == 1 else "classifier"
    record = store.Installed(
        name=f"kumo-small-{kind}" if name == "kumo" else f"tabicl-{kind}",
        sha256=store.sha256_of(made),
        n_bytes=made.stat().st_size,
        source=f"{kind}.pt",
        source_sha256="0" * 64,
        license="OpenMDW-1.1",
        added_at="2026-11-27T00:00:00+00:00",
    )
    store.keep(record, made)
    train, valid, new = (some_rows(n, n_classes, seed) for n, seed in ((80, 0), (20, 1), (64, 2)))
    model = fitted(name, n_classes, tmp_path / kind, train, valid)

    def features(table: Table) -> Any:
        columns = {f"n{i}": pa.array(np.ascontiguousarray(v), from_pandas=True) for i, v in enumerate(table.numeric.T)}
        for i, codes in enumerate(table.categorical.T):
            columns[f"c{i}"] = pa.array([None if c == 1 else str(c) for c in codes.tolist()], pa.string())
        stypes = {name: "numerical" if name[0] == "n" else "categorical" for name in columns}
        return TableTensor.from_arrow(pa.table(columns), stypes=stypes)

    rows = train.joined(valid)
    assert rows.target is not None
    offset = rows.target.mean() if n_classes == 1 else 0.0
    y = pa.array(rows.target - offset if n_classes == 1 else [str(code) for code in rows.target.tolist()])
    kinds = {"target": "numerical" if n_classes == 1 else "categorical"}
    target = TableTensor.from_arrow(pa.table({"target": y}), stypes=kinds)
    network.fit(features(rows), target, num_estimators=4, generator=torch.Generator("cpu").manual_seed(3))
    own = network.predict(features(new))
    output, predicted = own.numerical.numpy(), model.predict(new)
    if n_classes == 1:
        assert np.abs(predicted - output.mean(axis=1) - offset).max() < 1e-6
    else:
        order = [int(name) for name in next(names for names in own.columns.values() if names)]
        assert np.abs(predicted[:, order] - output).max() < 1e-6
    alone = np.concatenate([model.predict(new.take(slice(row, row + 1))) for row in range(3)])
    assert np.array_equal(predicted[:3], alone)
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    assert np.array_equal(registry.get(name).load(tmp_path / "saved").predict(new), predicted)
