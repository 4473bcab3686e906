"""The search among training rows, and properties of every network that uses it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.modern_nca import ModernNCAParams
from tabapp_plugins.tabr import TabRNetwork, TabRParams

from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.contract import FittedModel, Shape, Task
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.retrieval import Candidates, RetrievalNetwork, too_many_rows
from tabapp.nn.training import cuda_graphs, trainer
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tests.nn.replays import replays_in
from tests.plugins.tables import make_context, make_table

PARAMS: dict[str, TrainingParams] = {
    "modern_nca": ModernNCAParams(width=32, n_blocks=1, block_width=32, n_frequencies=8, d_embedding=8, dropout=0.0),
    "tabr": TabRParams(
        width=32,
        n_neighbors=16,
        dropout=0.0,
        context_dropout=0.0,
        n_encoder_blocks=1,
        n_frequencies=8,
        learning_rate=2e-3,
    ),
}
NAMES = list(PARAMS)


def plugin_of(name: str) -> DeepPlugin:
    plugin = registry.get(name)
    assert isinstance(plugin, DeepPlugin)
    return plugin


def network_with_rows(name: str, n_rows: int = 60, n_classes: int = 2) -> RetrievalNetwork:
    """A fresh network whose candidates are random rows."""
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=n_classes if n_classes > 2 else 1, n_classes=n_classes)
    network = plugin_of(name).build(sizes, PARAMS[name])
    assert isinstance(network, RetrievalNetwork)
    codes = torch.stack([torch.arange(n_rows) % 5, torch.arange(n_rows) % 3], 1)
    target = torch.randn(n_rows) if n_classes == 1 else torch.randint(0, n_classes, (n_rows,))
    network.candidates.put(torch.randn(n_rows, 4), codes, target, None)
    return network


def test_too_many_rows_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert too_many_rows(Shape(100_000, 3, 0, 1)) is None
    reason = too_many_rows(Shape(100_001, 3, 0, 1))
    assert reason is not None
    assert "100,000 without a GPU" in reason
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert too_many_rows(Shape(1_000_000, 3, 0, 1)) is None
    assert too_many_rows(Shape(1_000_001, 3, 0, 1)) is not None


def test_any_number_of_candidates_is_saved() -> None:
    stored, loaded = Candidates(2, 1), Candidates(2, 1)
    stored.put(torch.randn(5, 2), torch.ones(5, 1, dtype=torch.int64), torch.randn(5), None)
    loaded.load_state_dict(stored.state_dict())
    assert len(loaded) == 5
    for name, tensor in stored.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_recomputed_when_weights_change(name: str) -> None:
    network = network_with_rows(name).eval()
    before = network.candidates.keys(network).clone()
    assert network.candidates.keys(network) is network.candidates.keys(network)
    other = network_with_rows(name)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    network.load_state_dict(other.state_dict())
    torch.testing.assert_close(network.candidates.keys(network), other.eval().candidates.keys(other))
    assert not torch.allclose(network.candidates.keys(network), before)


@pytest.mark.parametrize("name", NAMES)
def test_training_row_does_not_use_its_own_target(name: str) -> None:
    network = network_with_rows(name, n_classes=1).train()
    stored, rows = network.candidates, torch.arange(10)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = 0.0

    def outputs() -> torch.Tensor:
        torch.manual_seed(1)
        return network.training_output(rows, stored.numeric[rows], stored.categorical[rows].long()).detach()

    before = outputs()
    stored.target[3] += 100.0
    changed = (outputs() - before).abs().flatten() > 1e-6
    assert not changed[3]
    assert changed.any()


@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_reaches_every_parameter(name: str, n_classes: int) -> None:
    network = network_with_rows(name, n_classes=n_classes).train()
    stored, rows = network.candidates, torch.randperm(60)[:32]
    network.training_output(rows, stored.numeric[rows], stored.categorical[rows].long()).square().sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        # A vector added to all keys changes no distance, so it has no effect in ModernNCA.
        shifts = ("blocks.1.bias", "blocks.0.4.bias") if name == "modern_nca" else ("to_key.bias",)
        assert (parameter.grad != 0).any() or parameter_name in shifts, parameter_name


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_independent(name: str) -> None:
    network = network_with_rows(name).eval()
    x, codes = torch.randn(20, 4), torch.randint(0, 3, (20, 2))
    with torch.no_grad():
        alone = torch.cat([network(x[i : i + 1], codes[i : i + 1]) for i in range(20)])
        torch.testing.assert_close(network(x, codes), alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "tabr" else name for name in NAMES]
)
def test_overfits_64_random_rows(name: str, tmp_path: Path) -> None:
    """A row does not see itself in training, so it must be identified by its features and other rows."""
    plugin = plugin_of(name)
    table, spec, _ = make_table("binary", n_rows=64)
    labels = np.random.default_rng(0).integers(0, 2, 64)
    context = make_context("binary", spec, 2, tmp_path)
    objective = Objective.fit(Table(table.numeric, table.categorical, labels), context)
    network = network_with_rows(name)
    x, codes, target = torch.tensor(table.numeric), torch.tensor(table.categorical).long(), torch.tensor(labels).float()
    params = msgspec.structs.replace(PARAMS[name], weight_decay=0.0)
    method = plugin.method(network.train(), params, objective, context)
    method.start(x, codes, target, None)
    optimizer, loss = method.optimizer(), torch.tensor(torch.inf)
    for _ in range(500):
        loss = method.loss(torch.arange(64), x, codes, target, None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 1e-3:
            break
    assert loss < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_row_neighbors_are_rows_of_the_fit(name: str, tmp_path: Path) -> None:
    """Training rows come first, then early-stopping rows."""
    plugin = plugin_of(name)
    table, spec, _ = make_table("regression", n_rows=120)
    params = msgspec.structs.replace(PARAMS[name], max_epochs=2)
    train, valid = table.take(slice(0, 80)), table.take(slice(80, None))
    model = plugin.fit(train, valid, params, make_context("regression", spec, 1, tmp_path))
    found = model.row_neighbors(table, 5)
    assert found is not None
    assert found.index.shape == found.weight.shape == (120, 5)
    assert found.index.dtype == np.int64
    assert found.weight.dtype == np.float32
    assert (np.diff(found.weight, axis=1) <= 0).all()
    assert (found.index[:, 0] == np.arange(120)).all()
    assert 0 < found.weight.sum(1).max() <= 1 + 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_early_stopping_rows_are_retrieved_only_after_training(name: str, tmp_path: Path) -> None:
    plugin = plugin_of(name)
    table, spec, _ = make_table("regression", n_rows=120)
    table = Table(table.numeric, table.categorical, table.target, np.arange(1, 121, dtype=np.float32))
    params = msgspec.structs.replace(PARAMS[name], max_epochs=2)
    context = make_context("regression", spec, 1, tmp_path)
    train, valid = table.take(slice(0, 80)), table.take(slice(80, None))
    doubled = Table(valid.numeric, valid.categorical, valid.target * 2 - valid.target.mean(), valid.weight)
    models = [plugin.fit(train, rows, params, context) for rows in (valid, doubled)]
    stored, other = (model.network.candidates for model in models)
    for one, another in zip(models[0].network.parameters(), models[1].network.parameters(), strict=True):
        torch.testing.assert_close(one, another, rtol=0, atol=0)
    torch.testing.assert_close(stored.target[:80], other.target[:80], rtol=0, atol=0)
    assert (stored.target[80:] != other.target[80:]).all()
    torch.testing.assert_close(stored.weight, torch.tensor(table.weight / train.weight.mean()))
    assert (models[0].predict(train) != models[1].predict(train)).any()
    as_published = plugin.fit(train, valid, msgspec.structs.replace(params, stopping_rows=False), context)
    assert len(as_published.network.candidates) == len(train)


@pytest.mark.parametrize("name", NAMES)
def test_training_rows_are_saved_with_the_model(name: str, tmp_path: Path) -> None:
    plugin = plugin_of(name)
    assert plugin.contains_training_rows
    table, spec, n_classes = make_table("multiclass", n_rows=90)
    params = msgspec.structs.replace(PARAMS[name], max_epochs=2, average_decay=0.9)
    train, valid = table.take(slice(0, 60)), table.take(slice(60, None))
    model = plugin.fit(train, valid, params, make_context("multiclass", spec, n_classes, tmp_path))
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    loaded = plugin.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    np.testing.assert_array_equal(loaded.network.candidates.numeric.numpy(), table.numeric)


LINEAR = TabRParams(width=32, n_neighbors=16, dropout=0.0, context_dropout=0.0)
"""Hyperparameters with which the keys of TabR are a linear function of a row."""


def fit_on_gpu(
    name: str, params: TrainingParams, task: Task, folder: Path, monkeypatch: pytest.MonkeyPatch, *, recorded: bool
) -> tuple[FittedModel, Table, list[int]]:
    """A model after a few epochs, unseen rows, and the number of recorded steps after each step."""
    replayed = replays_in(trainer, monkeypatch)
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 3 if recorded else 10**9)
    table, spec, n_classes = make_table(task, n_rows=300)
    folder.mkdir()
    context = make_context(task, spec, n_classes, folder)
    context.device = "cuda:0"
    valid = table.take(slice(200, None))
    return plugin_of(name).fit(table.take(slice(0, 200)), valid, params, context), valid, replayed


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize(("batch_size", "max_epochs"), [(8, 1), (64, 4)])
@pytest.mark.parametrize(
    ("name", "params"), [*PARAMS.items(), pytest.param("tabr", LINEAR, id="tabr with linear keys")]
)
def test_recorded_steps_train_the_same_network(
    name: str,
    params: TrainingParams,
    batch_size: int,
    max_epochs: int,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TabR encodes all candidates with gradients in steps of 64 rows only. The model predicts the same on a CPU."""
    params = msgspec.structs.replace(params, batch_size=batch_size, max_epochs=max_epochs, learning_rate=2e-4)

    def fit(folder: str, *, recorded: bool, learning_rate: float = 2e-4) -> tuple[FittedModel, Table, list[int]]:
        changed = msgspec.structs.replace(params, learning_rate=learning_rate)
        return fit_on_gpu(name, changed, task, tmp_path / folder, monkeypatch, recorded=recorded)

    model, valid, replayed = fit("recorded", recorded=True)
    # Steps of two lengths.
    assert replayed[-1] >= len(replayed) - 2 * 3
    eager, _, replayed = fit("eager", recorded=False)
    assert replayed[-1] == 0
    found, expected = model.predict(valid), eager.predict(valid)
    learned = np.abs(expected - fit("untrained", recorded=False, learning_rate=1e-9)[0].predict(valid)).max()
    # If the initial weights differ by 1e-6, predictions differ by up to a twentieth of what they change in training.
    assert np.abs(found - expected).max() < 0.1 * learned
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    on_cpu = plugin_of(name).load(tmp_path / "model").predict(valid)
    np.testing.assert_allclose(on_cpu, found, rtol=1e-3, atol=1e-3 * np.abs(found).max())


@pytest.mark.gpu
def test_recorded_steps_encode_candidates_in_chunks_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, sizes = TabRNetwork.key, list[int]()

    def key_of_few_rows(self: TabRNetwork, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            sizes.append(len(numeric))
            if len(numeric) > 60:
                raise torch.OutOfMemoryError
        return key(self, numeric, categorical)

    monkeypatch.setattr(TabRNetwork, "key", key_of_few_rows)
    params = msgspec.structs.replace(PARAMS["tabr"], max_epochs=2, batch_size=8)
    model, valid, replayed = fit_on_gpu("tabr", params, "regression", tmp_path / "fit", monkeypatch, recorded=True)
    assert replayed[-1] > len(replayed) / 2
    assert sizes[0] == 200
    fitting = next(i for i, size in enumerate(sizes) if size <= 60)
    assert max(sizes[fitting:]) <= 60
    assert np.isfinite(model.predict(valid)).all()
