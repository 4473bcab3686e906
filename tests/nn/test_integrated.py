"""Integrated gradients of networks: complete, and exact where the network is linear."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tabapp_plugins.realmlp.network import Categories
from torch import nn

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Shape
from tabapp.nn.integrated import PathError, integrated_gradients
from tabapp.nn.layers import gather
from tabapp.nn.layers.embeddings import FlatInput, OneHotOrEmbedding
from tabapp.nn.training.objective import Objective

QUICK = ("mlp", "ft_transformer", "tabm")
NETWORKS = (*QUICK, "resnet", "snn", "node", "tabnet", "grownet", "dcn_v2", "autoint", "dcap", "tab_transformer", "amformer",
            "realmlp", "modern_nca", "tabr")  # fmt: skip
CARDINALITIES = (5, 60)


def table(n_rows, seed):
    generator = np.random.default_rng(seed)
    return Table(
        numeric=generator.normal(size=(n_rows, 3)).astype(np.float32),
        categorical=np.column_stack([generator.integers(2, n, n_rows) for n in CARDINALITIES]).astype(np.int32),
        target=generator.integers(0, 2, n_rows).astype(np.float64),
    )


class Additive(nn.Module):
    """The sum of squares of the numbers and of a weight for each level."""

    def __init__(self):
        super().__init__()
        self.levels = nn.Embedding(CARDINALITIES[0], 1)

    def forward(self, numeric, categorical):
        return numeric.square().sum(1, keepdim=True) + self.levels(categorical[:, 0])


class Categorical(nn.Module):
    """A layer over columns of levels."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        generator = torch.Generator().manual_seed(0)
        for parameter in module.parameters():
            nn.init.normal_(parameter, generator=generator)
        width = self.encoded(torch.zeros(1, 0), torch.full((1, 2), 2)).shape[1]
        self.weight = torch.randn(width, 1, generator=generator)

    def encoded(self, numeric, categorical):
        return self.module(numeric, categorical) if isinstance(self.module, FlatInput) else self.module(categorical)

    def forward(self, numeric, categorical):
        return (self.encoded(numeric[:, :0], categorical) @ self.weight).tanh()


class Ordinal(nn.Module):
    """Uses codes as numbers."""

    def forward(self, numeric, categorical):
        return numeric.sum(1, keepdim=True) + categorical.sum(1, keepdim=True)


def tensors(rows):
    return torch.tensor(rows.numeric), torch.tensor(rows.categorical, dtype=torch.int64)


def test_values_of_a_sum_are_the_changes_of_its_terms():
    torch.manual_seed(0)
    network, rows, reference = Additive(), table(2, 0), table(4, 1)
    base, values, errors = integrated_gradients(network, lambda out: out[:, 0], *tensors(rows), *tensors(reference))
    weight = network.levels.weight.detach().numpy()[:, 0]
    expected = np.column_stack(
        [
            rows.numeric**2 - (reference.numeric**2).mean(0),
            weight[rows.categorical[:, 0]] - weight[reference.categorical[:, 0]].mean(),
            np.zeros(2),
        ]
    )
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert base == pytest.approx(float(network(*tensors(reference)).detach().mean()), abs=1e-5)
    assert errors.max() < 1e-3


class Steep(nn.Module):
    """Rises within a thousandth of the path, and falls elsewhere."""

    def forward(self, numeric, categorical):
        return (numeric[:, :1] * 3_000).tanh() - numeric[:, 1:2] ** 2


def test_steep_parts_of_a_path_get_more_points():
    rows = Table(np.array([[0.7, 1.0]], dtype=np.float32), np.zeros((1, 0), np.int32), None)
    reference = Table(np.array([[-0.4, 0.0]], dtype=np.float32), np.zeros((1, 0), np.int32), None)
    base, values, errors = integrated_gradients(Steep(), lambda out: out[:, 0], *tensors(rows), *tensors(reference))
    assert base == pytest.approx(-1)
    np.testing.assert_allclose(values, [[2, -1]], atol=0.02)
    assert errors.max() < 0.01


def test_a_network_that_computes_with_codes_is_rejected():
    rows = table(2, 0)
    with pytest.raises(PathError):
        integrated_gradients(Ordinal(), lambda out: out[:, 0], *tensors(rows), *tensors(rows))


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS])
def test_contributions_of_a_network_add_up_to_its_output(tmp_path, name):
    plugin = registry.get(name)
    shape = Shape(n_rows=200, n_numeric=3, n_categorical=2, n_classes=2)
    spec = FeatureSpec(
        numeric=("a", "b", "c"), categorical=("d", "e"), cardinalities=CARDINALITIES, sources=("a", "b", "c", "d", "e")
    )
    context = FitContext("binary", 2, "log_loss", spec, seed=0, device="cpu", n_threads=1, folder=tmp_path)
    context.soft_deadline = 0.0
    train = table(200, 0)
    model = plugin.fit(train, table(50, 1), plugin.defaults("binary", shape, "cpu"), context)
    rows, reference = table(2, 2), table(3, 3)
    assert model.contributions(rows, 1) is None, "a network has no exact contributions"
    found = model.contributions(rows, 1, reference)
    assert found is not None
    output = found.base + found.values.sum(axis=1)
    probability = model.predict(rows)[:, 1].astype(np.float64)
    np.testing.assert_allclose(1 / (1 + np.exp(-output)), probability, atol=1e-4)
    before = model.predict(reference)[:, 1].astype(np.float64)
    assert found.base == pytest.approx(np.log(before / (1 - before)).mean(), abs=1e-3)
    change = np.abs(output[:, None] - np.log(before / (1 - before))).mean(axis=1)
    if name not in ("modern_nca", "tabr"):  # their neighbors change along the path, which is not continuous
        assert (found.errors <= 0.011 * change + 1e-4).all()


@pytest.mark.parametrize(
    "module",
    [
        OneHotOrEmbedding(CARDINALITIES, most_one_hot=32),
        OneHotOrEmbedding(CARDINALITIES, most_one_hot=100),
        Categories(CARDINALITIES, most_one_hot=8),
        FlatInput(0, CARDINALITIES),
    ],
    ids=["mixed", "one_hot", "realmlp", "embeddings"],
)
def test_networks_that_gather_columns_at_once_as_on_a_gpu_have_the_same_values(module, monkeypatch):
    network = Categorical(module)
    rows, reference = table(2, 0), table(4, 1)
    arguments = network, lambda out: out[:, 0], *tensors(rows), *tensors(reference)
    expected = integrated_gradients(*arguments)[1]
    monkeypatch.setattr(gather, "starts_operations_slowly", lambda device: True)
    assert gather.is_preferred(tensors(rows)[1])
    base, values, errors = integrated_gradients(*arguments)
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert np.abs(values[:, 3:]).min(axis=1).max() > 0, "both categories contribute"
    output = network(*tensors(rows)).detach().numpy()[:, 0]
    np.testing.assert_allclose(base + values.sum(axis=1), output, atol=1e-4)
    assert errors.max() <= 0.01 * np.abs(output - base).max()


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_explained_outputs_are_those_of_predictions(task):
    n_classes = {"binary": 2, "multiclass": 3, "regression": 1}[task]
    objective = Objective(task=task, n_classes=n_classes, mean=5.0, std=2.0)
    output = torch.randn(4, 3, objective.d_out, generator=torch.Generator().manual_seed(0))
    predicted = objective.prediction(output).astype(np.float64)
    for code in range(n_classes):
        found = objective.explained(output, code).numpy()
        expected = predicted if task == "regression" else np.log(predicted[:, code] / (1 - predicted[:, code]))
        np.testing.assert_allclose(found, expected, atol=1e-4)
