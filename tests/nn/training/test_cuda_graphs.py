"""Training steps that a GPU repeats from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.mlp import MLPNetwork
from tabapp_plugins.realmlp import plugin as realmlp

from tabapp.models import registry
from tabapp.models.contract import GroupFit
from tabapp.nn.layers.dropout import dropout
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training import cuda_graphs, stacked, trainer
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tests.nn.replays import replays_in
from tests.plugins.tables import defaults_of, make_context, make_table

N_TRAIN = 200


def deep(name: str) -> DeepPlugin:
    plugin = registry.get(name)
    assert isinstance(plugin, DeepPlugin)
    return plugin


def repeats_steps(name: str) -> bool:
    """Whether a model's training method allows recorded steps."""
    plugin = registry.get(name)
    if not isinstance(plugin, DeepPlugin):
        return False
    table, spec, n_classes = make_table("regression", n_rows=100)
    params = defaults_of(plugin, "regression", table, spec, n_classes)
    if not isinstance(params, trainer.TrainingParams) or type(plugin).fit is not DeepPlugin.fit:
        return False
    context = make_context("regression", spec, n_classes, Path())
    network = plugin.build(Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1), params)
    return plugin.method(network, params, Objective.fit(table, context), context).repeats_steps


USABLE = [name for name in registry.names() if registry.find(name).reason is None]
RECORDED = [name for name in USABLE if repeats_steps(name)]


def prediction_of(name: str, task: Any, device: str, folder: Path, **changes: Any) -> np.ndarray:
    """Predictions on unseen rows after a few epochs."""
    plugin = deep(name)
    table, spec, n_classes = make_table(task, n_rows=300)
    params = defaults_of(plugin, task, table, spec, n_classes)
    params = msgspec.structs.replace(params, **{"max_epochs": 6, **changes})
    folder.mkdir()
    context = make_context(task, spec, n_classes, folder)
    context.device = device
    model = plugin.fit(table.take(slice(0, N_TRAIN)), table.take(slice(N_TRAIN, None)), params, context)
    return model.predict(table.take(slice(N_TRAIN, None)))


def test_most_networks_repeat_their_steps() -> None:
    assert {"mlp", "tabm", "ft_transformer", "realmlp", "resnet", "modern_nca"} <= set(RECORDED)
    # With the defaults for a CPU, its neighbors are searched in some epochs only.
    assert "tabr" not in RECORDED


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_realmlp_with_numbers_that_can_be_recorded_is_the_same(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dropout draws other random numbers from a tensor.
    changes = {"dropout": 0.0, "weight_decay": 0.5}
    expected = prediction_of("realmlp", task, "cpu", tmp_path / "a", **changes)
    monkeypatch.setattr(realmlp, "can_record", lambda device: True)
    found = prediction_of("realmlp", task, "cpu", tmp_path / "b", **changes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    without = prediction_of("realmlp", task, "cpu", tmp_path / "c", **{**changes, "weight_decay": 0.0})
    assert np.abs(without - expected).max() > 1e-2 * np.abs(expected).max()


def test_realmlp_lowers_a_recorded_rate_of_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realmlp, "can_record", lambda device: True)
    rates: list[float] = []

    class Observed(realmlp.RealMLPMethod):
        def schedule(self, optimizer: torch.optim.Optimizer, progress: float) -> None:
            super().schedule(optimizer, progress)
            rate = self.network.dropout
            assert isinstance(rate, torch.Tensor)
            rates.append(rate.item())

    monkeypatch.setattr(realmlp, "RealMLPMethod", Observed)
    prediction_of("realmlp", "regression", "cpu", tmp_path / "fit", dropout=0.4)
    assert rates[1] == pytest.approx(0.4)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1


def test_dropout_with_a_tensor_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 400)
    dropped = dropout(x, torch.tensor(0.3))
    share = (dropped == 0).double().mean().item()
    # Six standard errors of a share of 160,000 draws.
    assert share == pytest.approx(0.3, abs=6 * (0.3 * 0.7 / x.numel()) ** 0.5)
    torch.testing.assert_close(dropped.max(), torch.tensor(1 / 0.7))


def test_the_average_with_a_recorded_share_is_the_same() -> None:
    averages: list[dict[str, torch.Tensor]] = []
    for recorded in (False, True):
        torch.manual_seed(0)
        network = MLPNetwork(Sizes(n_numeric=3, cardinalities=(), d_out=1), (8,), 0.0)
        average = trainer.WeightAverage(network, 0.8, recorded=recorded)
        for _ in range(30):
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.add_(torch.randn_like(parameter))
            average.begin_step()
            average.update()
        averages.append(average.state())
    torch.testing.assert_close(averages[1], averages[0])


def test_the_host_starts_few_steps_ahead_where_they_are_long() -> None:
    def windows(seconds_per_step: float) -> list[int]:
        found = [1]
        for _ in range(9):
            found.append(cuda_graphs.steps_ahead(found[-1], found[-1] * seconds_per_step))
        return found

    assert windows(1e-4) == [1, 2, 4, 8, 16, 32, 32, 32, 32, 32]
    assert windows(0.012)[-1] == 8
    assert windows(1.0) == [1] * 10


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
# Rounding errors grow faster in a retrieval network: `test_retrieval` compares shorter fits.
@pytest.mark.parametrize("name", sorted({*RECORDED} - {"modern_nca"}))
def test_recorded_steps_train_the_same_network(
    name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = replays_in(trainer, monkeypatch)
    changes: dict[str, Any] = {"average_decay": 0.9}
    if name != "realmlp":
        changes["max_gradient_norm"] = 1.0
    recorded = prediction_of(name, task, "cuda:0", tmp_path / "a", **changes)
    assert replayed[-1] > len(replayed) / 2
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 10**9)
    replayed.clear()
    eager = prediction_of(name, task, "cuda:0", tmp_path / "b", **changes)
    assert replayed[-1] == 0
    # The same random numbers; sums of gradients differ in their last bits.
    np.testing.assert_allclose(recorded, eager, rtol=0.02, atol=0.02 * np.abs(eager).max())


def predictions_of_group(name: str, folder: Path, *, trials: bool) -> list[np.ndarray]:
    """Predictions of two fits of different lengths, or of five trials on the same rows, that are trained as one stacked network."""
    plugin = deep(name)
    table, spec, n_classes = make_table("multiclass", n_rows=300)
    params = defaults_of(plugin, "multiclass", table, spec, n_classes)
    train, valid = table.take(slice(0, N_TRAIN)), table.take(slice(N_TRAIN, None))
    fits: list[GroupFit] = []
    for number in range(5 if trials else 2):
        (folder / str(number)).mkdir(parents=True)
        seed = 0 if trials else number
        context = make_context("multiclass", spec, n_classes, folder / str(number), seed=seed)
        context.device = "cuda:0"
        # Some continue alone after a few epochs.
        changes: dict[str, Any] = {"max_epochs": 6 + 3 * number}
        if trials:
            changes |= {"weight_decay": 1e-2 * number, "learning_rate": 1e-3 * (1 + number)}
            changes |= {rate: 0.1 * number for rate in plugin.free_params if rate.endswith("dropout")}
        rows = train if trials else train.take(slice(20 * seed, None))
        fits.append(GroupFit(rows, valid, msgspec.structs.replace(params, **changes), context))
    models = plugin.fit_group(fits)
    return [model.predict(valid) for model in models if model is not None]


@pytest.mark.gpu
@pytest.mark.parametrize("trials", [False, True])
@pytest.mark.parametrize("name", [name for name in RECORDED if registry.get(name).stacks])
def test_recorded_steps_train_the_same_group(
    name: str, trials: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = replays_in(stacked, monkeypatch)
    recorded = predictions_of_group(name, tmp_path / "a", trials=trials)
    assert max(replayed) > 10
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 10**9)
    replayed.clear()
    eager = predictions_of_group(name, tmp_path / "b", trials=trials)
    assert max(replayed) == 0
    assert len(recorded) == len(eager) == (5 if trials else 2)
    for found, expected in zip(recorded, eager, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in RECORDED if registry.get(name).stacks])
def test_stacked_trials_on_a_gpu_equal_separate_ones(name: str, tmp_path: Path) -> None:
    plugin = deep(name)
    table, spec, n_classes = make_table("multiclass", n_rows=300)
    params = defaults_of(plugin, "multiclass", table, spec, n_classes)
    undropped = {rate: 0.0 for rate in plugin.free_params if rate.endswith("dropout")}
    # One batch, so that the order of rows does not matter.
    changes = {"max_epochs": 5, "batch_size": N_TRAIN, "unseen_rate": 0.0, **undropped}
    train, valid = table.take(slice(0, N_TRAIN)), table.take(slice(N_TRAIN, None))
    fits: list[GroupFit] = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        context = make_context("multiclass", spec, n_classes, tmp_path / str(number))
        context.device = "cuda:0"
        rate = 1e-3 * (1 + number)
        fits.append(GroupFit(train, valid, msgspec.structs.replace(params, learning_rate=rate, **changes), context))
    separate = [plugin.fit(fit.train, fit.valid, fit.params, fit.context) for fit in fits]
    for model, other in zip(plugin.fit_group(fits), separate, strict=True):
        assert model is not None
        # Five steps amplify the rounding errors of bfloat16, which are up to 2^-9, by about an order of magnitude.
        np.testing.assert_allclose(model.predict(valid), other.predict(valid), atol=20 * 2**-9)


@pytest.mark.gpu
def test_a_step_that_cannot_be_recorded_stays_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(TrainingMethod):
        def before_update(self, optimizer: torch.optim.Optimizer) -> None:
            assert all(parameter.sum().item() < 1e9 for parameter in self.network.parameters())

    possible: list[bool] = []

    class Observed(cuda_graphs.GraphedSteps):
        def __call__(self, rows: torch.Tensor) -> None:
            super().__call__(rows)
            possible.append(self.is_possible)

    monkeypatch.setattr(trainer, "GraphedSteps", Observed)
    plugin = deep("mlp")
    monkeypatch.setattr(
        type(plugin),
        "method",
        lambda self, network, params, objective, context: Waiting(network, params, objective, repeats_steps=True),
    )
    found = prediction_of("mlp", "regression", "cuda:0", tmp_path / "fit")
    assert np.isfinite(found).all()
    assert possible[0]
    assert not possible[-1]
