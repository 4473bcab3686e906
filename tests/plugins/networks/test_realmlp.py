"""RealMLP compared with the authors' package, and its parts with the paper's formulas."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import optuna
import pytest
import torch
from tabapp_plugins.realmlp.network import (
    FEW_ROWS,
    Categories,
    NTKLinear,
    ParametricActivation,
    ParametricMish,
    RealMLPNetwork,
    RealMLPParams,
)
from tabapp_plugins.realmlp.plugin import RealMLP, coslog4, flat_cos

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.scale import ScaleMap
from tabapp.models.contract import Shape
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.objective import Objective
from tests.plugins.tables import make_context, make_table

SIZES = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1)


def test_schedules_have_the_values_of_their_formulas() -> None:
    for zero in (0, 1 / 15, 0.2, 7 / 15, 1):
        assert coslog4(zero) == pytest.approx(0, abs=1e-12)
    for peak in (2**0.5, 2**1.5, 2**2.5, 2**3.5):
        assert coslog4((peak - 1) / 15) == pytest.approx(1)
    assert [flat_cos(t) for t in (0, 0.49, 0.5, 0.75, 1)] == pytest.approx([1, 1, 1, 0.5, 0])


def test_the_fast_activation_in_training_is_the_one_of_the_formula() -> None:
    torch.manual_seed(0)
    x = torch.cat([3 * torch.randn(6, 4, dtype=torch.double), torch.tensor([[-200.0, -20.0, 19.9, 200.0]]).double()])
    a = torch.rand(4, dtype=torch.double)
    expected = x + a * (torch.nn.functional.mish(x) - x)
    torch.testing.assert_close(ParametricMish.apply(x, a), expected)
    x.requires_grad_()
    a.requires_grad_()
    assert torch.autograd.gradcheck(ParametricMish.apply, (x, a))
    activation = ParametricActivation("mish", 4, learned=True)
    for values in (x.detach().float(), 1e4 * torch.randn(5, 4)):
        outputs: list[torch.Tensor] = []
        gradients: list[torch.Tensor] = []
        for training in (True, False):
            values = values.detach().clone().requires_grad_()
            activation.train(training).zero_grad()
            outputs.append(activation(values))
            outputs[-1].square().sum().backward()
            assert values.grad is not None
            assert activation.weight is not None
            assert activation.weight.grad is not None
            gradients += [values.grad, activation.weight.grad]
        torch.testing.assert_close(outputs[0], outputs[1])
        torch.testing.assert_close(gradients[0], gradients[2], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradients[1], gradients[3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_initial_values_of_each_unit_have_unit_standard_deviation(n_classes: int) -> None:
    torch.manual_seed(0)
    table, _, _ = make_table("regression", n_rows=500)
    sizes = msgspec.structs.replace(SIZES, d_out=n_classes, n_classes=n_classes)
    network = RealMLPNetwork(sizes, RealMLPParams(widths=(64, 32))).eval()
    RealMLP().initialize(network, table)
    with torch.no_grad():
        x = network.inputs(torch.tensor(table.numeric), torch.tensor(table.categorical).long())
        for layer, activation in zip(network.layers, network.activations, strict=True):
            values = layer(x)
            torch.testing.assert_close(values.std(0, correction=0), torch.ones(values.shape[1]), atol=0.02, rtol=0)
            # A bias is minus a mean of five values, so each unit is zero somewhere within its range.
            assert ((values.amin(0) < 0) & (values.amax(0) > 0)).all()
            x = activation(values)
        torch.testing.assert_close(network.head(x).std(0, correction=0), torch.ones(n_classes), atol=0.02, rtol=0)


def test_constant_inputs_leave_weights_finite() -> None:
    layer = NTKLinear(3, 5)
    layer.fit(torch.zeros(10, 3))
    assert layer.weight.isfinite().all()
    assert (layer.bias == 0).all()


def test_categories_are_scaled_like_numbers() -> None:
    # Two levels become one column of ±1, few levels one column each, and many levels an embedding. Missing and unseen
    # levels are zeros before scaling.
    categories = Categories((4, 5, 30), most_one_hot=8)
    assert categories.d_out == 1 + 3 + 8
    codes = torch.tensor([[2, 2, 2], [3, 3, 9], [1, 4, 29], [0, 1, 0]])
    expected = torch.tensor([[1.0, 1, 0, 0], [-1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    assert torch.equal(categories.one_hot(codes), expected)
    categories.fit_scaling(codes.repeat(25, 1))
    columns = expected.repeat(25, 1).numpy()
    low, median, high = np.quantile(columns, (0.25, 0.5, 0.75), axis=0, method="closest_observation")
    spread = np.where(high > low, high - low, (columns.max(0) - columns.min(0)) / 2)
    scaled = (expected.numpy() - median) / spread
    clipped = scaled / np.sqrt(1 + (scaled / 3) ** 2)
    np.testing.assert_allclose(categories(codes)[:, :4].detach().numpy(), clipped, atol=1e-6)


def test_rates_of_parameter_groups(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression")
    context = make_context("regression", spec, 1, tmp_path)
    params = RealMLPParams.tuned_defaults("regression")
    network = RealMLPNetwork(SIZES, params)
    method = RealMLP().method(network, params, Objective.fit(table, context), context)
    optimizer = method.optimizer()
    method.schedule(optimizer, (2**3.5 - 1) / 15)
    names = {id(p): name for name, p in network.named_parameters()}
    groups = {names[id(p)]: group for group in optimizer.param_groups for p in group["params"]}
    rate = groups["layers.0.weight"]["lr"]
    assert rate == pytest.approx(0.2)
    assert groups["scale"]["lr"] == pytest.approx(6 * rate)
    for name in ("layers.1.bias", "head.bias", "activations.0.weight", "numeric.frequency", "numeric.linear.bias"):
        assert groups[name]["lr"] == pytest.approx(0.1 * rate)
    assert groups["layers.1.bias"]["weight_decay"] == 0
    assert groups["head.weight"]["weight_decay"] == pytest.approx(0.02 * flat_cos((2**3.5 - 1) / 15))
    assert groups["head.weight"]["betas"] == (0.9, 0.95)
    assert network.dropout == pytest.approx(0.15 * flat_cos((2**3.5 - 1) / 15))
    method.schedule(optimizer, 1.0)
    assert network.dropout == pytest.approx(0)
    assert groups["scale"]["lr"] == pytest.approx(0)


def test_predictions_stay_within_the_training_targets(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=200)
    params = RealMLPParams.tuned_defaults("regression")
    params = msgspec.structs.replace(params, widths=(32,), max_epochs=3)
    model = RealMLP().fit(table, table, params, make_context("regression", spec, 1, tmp_path))
    far = Table(100 * table.numeric, table.categorical)
    prediction = model.predict(far)
    assert prediction.min() >= table.target.min() - 1e-3
    assert prediction.max() <= table.target.max() + 1e-3
    assert np.isclose(prediction, table.target.min()).any() or np.isclose(prediction, table.target.max()).any()


@pytest.mark.parametrize(("metric", "smoothing"), [("accuracy", 0.1), ("log_loss", 0.0), ("roc_auc", 0.0)])
def test_labels_are_smoothed_only_for_label_metrics(metric: str, smoothing: float, tmp_path: Path) -> None:
    table, spec, _ = make_table("binary")
    params = RealMLPParams(widths=(8,), max_epochs=1)
    model = RealMLP().fit(table, table, params, make_context("binary", spec, 2, tmp_path, metric=metric))
    assert model.saved.params["label_smoothing"] == smoothing


def test_smoothed_loss_is_cross_entropy_of_smoothed_classes(tmp_path: Path) -> None:
    table, spec, _ = make_table("binary", n_rows=30)
    context = make_context("binary", spec, 2, tmp_path)
    params = RealMLPParams(widths=(8,), label_smoothing=0.3)
    network = RealMLPNetwork(msgspec.structs.replace(SIZES, n_classes=2), params).eval()
    objective = Objective.fit(table, context)
    method = RealMLP().method(network, params, objective, context)
    x, codes = torch.tensor(table.numeric), torch.tensor(table.categorical).long()
    target = objective.target(table, torch.device("cpu"))
    logits = torch.nn.functional.pad(network(x, codes), (1, 0))
    expected = torch.nn.functional.cross_entropy(logits, target.long(), label_smoothing=0.3)
    torch.testing.assert_close(method.loss(torch.arange(30), x, codes, target, None), expected)


def test_the_simplified_variant(tmp_path: Path) -> None:
    network = RealMLPNetwork(SIZES, RealMLPParams.simplified("regression"))
    assert (network.head.weight == 0).all()
    names = {name for name, _ in network.named_parameters()}
    assert not any(name.startswith(("numeric", "activations", "categorical")) for name in names)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_gradient_reaches_every_parameter(task: str) -> None:
    n_classes = {"regression": 1, "binary": 2, "multiclass": 3}[task]
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=4, cardinalities=(5, 3, 20), d_out=n_classes if n_classes > 2 else 1, n_classes=n_classes)
    network = RealMLPNetwork(sizes, RealMLPParams(dropout=0.0, widths=(32, 32)))
    codes = torch.stack([torch.arange(60) % 5, torch.arange(60) % 3, torch.arange(60) % 20], 1)
    network.fit_to(torch.randn(60, 4), codes)
    network(torch.randn(60, 4), codes).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert (parameter.grad != 0).any(), name


def test_overfits_64_random_rows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    table, spec, _ = make_table("binary", n_rows=64)
    table = Table(table.numeric, table.categorical, np.random.default_rng(0).integers(0, 2, 64))
    params = RealMLPParams(dropout=0.0, weight_decay=0.0, widths=(64, 64), unseen_rate=0.0)
    model = RealMLP().fit(table, table, params, make_context("binary", spec, 2, tmp_path, metric="log_loss"))
    probability = model.predict(table)[np.arange(64), table.target]
    assert -np.log(probability).mean() < 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the package and its trainer
def test_error_equals_the_package(tmp_path: Path) -> None:
    pytabkit = pytest.importorskip("pytabkit")
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(4500, n_features=10, noise=1.0, random_state=0)
    X, train, valid, test = X.astype(np.float32), slice(0, 1200), slice(1200, 1500), slice(1500, None)
    scaled = ScaleMap.fit_robust(X[train].astype(np.float64)).transform(X.astype(np.float64))
    names = tuple(f"x{i}" for i in range(10))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    tables = [Table(scaled[rows], np.zeros((len(y[rows]), 0), np.int32), y[rows]) for rows in (train, valid, test)]

    def rmse(prediction: np.ndarray) -> float:
        return float(np.sqrt(np.mean((prediction.ravel() - y[test]) ** 2)))

    ours, theirs = [], []
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        context = make_context("regression", spec, 1, tmp_path / str(seed), seed=seed)
        model = RealMLP().fit(tables[0], tables[1], RealMLPParams.tuned_defaults("regression"), context)
        ours.append(rmse(model.predict(tables[2])))
        oracle = pytabkit.RealMLP_TD_Regressor(device="cpu", random_state=seed, n_threads=1)
        oracle.fit(X[train], y[train], X[valid], y[valid])
        theirs.append(rmse(oracle.predict(X[test])))
    assert np.mean(ours) <= 1.01 * np.mean(theirs)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_few_rows_have_defaults_with_a_low_rate(task: str) -> None:
    plugin = RealMLP()
    few, many = (plugin.defaults(task, Shape(n_rows, 8, 0, 1), "cpu") for n_rows in (FEW_ROWS - 1, FEW_ROWS))
    assert many == RealMLPParams.tuned_defaults(task)
    assert (few.learning_rate, few.batch_size, few.max_epochs) == (0.02, 128, 128)
    assert few.activation == many.activation
    drawn = optuna.create_study().ask()
    assert plugin.search_space(drawn, task, Shape(FEW_ROWS - 1, 8, 0, 1), "cpu").batch_size == 128
