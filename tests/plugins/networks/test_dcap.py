"""DCAP's products compared with their formula for each pair."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from tabapp_plugins.dcap import DCAP, CrossAttention, DCAPNetwork, DCAPParams, pooling_weights
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Shape
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.trainer import train_network
from tests.plugins.tables import make_context, make_table

MIXED = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1)


def n_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def mixed_rows(n_rows: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n_rows, 4), torch.stack([torch.arange(n_rows) % 5, torch.arange(n_rows) % 3], 1)


def test_scalar_embeddings_yield_products_of_features() -> None:
    params = DCAPParams(n_layers=1, d_embedding=1, n_heads=1, widths=(4,))
    network = DCAPNetwork(Sizes(n_numeric=5, cardinalities=(), d_out=1), params).eval()
    layer = network.layers[0]
    with torch.no_grad():
        network.embeddings.numeric.fill_(1)
        layer.kernel.fill_(1)
        layer.attention.output.weight.fill_(1)
        layer.attention.output.bias.zero_()
        # Attention of each feature to itself only.
        layer.attention.hidden.copy_(~torch.eye(5, dtype=torch.bool))
    x = torch.randn(30, 5)
    (products,) = network.products(network.embeddings(x, torch.zeros(30, 0, dtype=torch.int64)))
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    torch.testing.assert_close(products, torch.stack([x[:, i] * x[:, j] for i, j in pairs], 1))


@pytest.mark.parametrize("kernel", ["vector", "scalar", "matrix"])
def test_layers_equal_the_formula_for_each_pair(kernel: str) -> None:
    torch.manual_seed(0)
    network = DCAPNetwork(MIXED, DCAPParams(n_layers=2, d_embedding=6, kernel=kernel)).eval()
    first = embedded = network.embeddings(*mixed_rows(10))
    sums = network.products(embedded)
    for layer, expected in zip(network.layers, sums, strict=True):
        attended, products = layer.attention(first), []
        for p, (i, j) in enumerate(combinations(range(6), 2)):
            left, right = attended[:, i], embedded[:, j]
            weighted = left @ layer.kernel[p].T if kernel == "matrix" else layer.kernel[p] * left
            products.append(weighted * right)
        products = torch.stack(products, 1)
        torch.testing.assert_close(products.sum(2), expected, atol=1e-6, rtol=1e-5)
        first = torch.nn.functional.adaptive_avg_pool1d(products.transpose(1, 2), 6).transpose(1, 2)


def test_attention_is_restricted_to_later_features_and_does_not_project_values() -> None:
    torch.manual_seed(0)
    attention = CrossAttention(5, DCAPParams(d_embedding=8)).eval()
    x = torch.randn(3, 5, 8)
    changed = x.clone()
    changed[:, 2] += 1
    moved = (attention(changed) - attention(x)).abs().amax((0, 2))
    assert (moved[:3] > 1e-4).all()
    assert (moved[3:] == 0).all()
    # The last feature attends only to itself, and values are not projected.
    torch.testing.assert_close(attention(x)[:, 4], attention.output(x[:, 4]))
    assert attention(x).shape == x.shape


def test_partner_pooling_is_the_mean_over_pairs_of_a_feature() -> None:
    weights = pooling_weights(4, "partner")
    products = torch.arange(6.0)
    # Pairs 01 02 03 12 13 23 are numbered 0 to 5.
    torch.testing.assert_close(weights @ products, torch.tensor([1.0, 7 / 3, 3.0, 11 / 3]))
    blocks = pooling_weights(7, "blocks")
    values = torch.randn(1, 1, 21)
    expected = torch.nn.functional.adaptive_avg_pool1d(values, 7)[0, 0]
    torch.testing.assert_close(blocks @ values[0, 0], expected)


def test_parameter_count() -> None:
    d, n, layers, width = 16, 6, 2, 20
    pairs = n * (n - 1) // 2
    network = DCAPNetwork(MIXED, DCAPParams(d_embedding=d, n_layers=layers, widths=(width,)))
    attention = 2 * d * d + d * d + d
    hidden = (n * d + layers * pairs) * width + width + 2 * width
    expected = (4 + 5 + 3) * d + layers * (attention + pairs * d) + hidden + width + 1
    assert n_parameters(network) == expected


@pytest.mark.parametrize("kernel", ["vector", "scalar", "matrix"])
@pytest.mark.parametrize("pooling", ["blocks", "partner"])
def test_gradient_reaches_every_parameter(kernel: str, pooling: str) -> None:
    torch.manual_seed(0)
    network = DCAPNetwork(MIXED, DCAPParams(n_layers=2, kernel=kernel, pooling=pooling))
    network(*mixed_rows(60)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


@pytest.mark.slow
def test_overfits_64_random_rows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    table, spec, _ = make_table("binary", n_rows=64)
    table = Table(table.numeric, table.categorical, np.random.default_rng(0).integers(0, 2, 64))
    context = make_context("binary", spec, 2, tmp_path, metric="log_loss")
    params = DCAPParams(
        widths=(64,), dropout=0.0, attention_dropout=0.0, learning_rate=3e-3, average_decay=0.0,
        batch_size=64, max_epochs=250, unseen_rate=0.0, weight_decay=0.0,
    )  # fmt: skip
    network = DCAP().build(MIXED, params)
    objective = Objective.fit(table, context)
    method = DCAP().method(network, params, objective, context)
    assert train_network(network, table, table, params, objective, context, method).best_loss < 1e-3


def test_predictions_in_chunks_equal_one_pass() -> None:
    torch.manual_seed(0)
    network = DCAPNetwork(MIXED, DCAPParams()).eval()
    x, codes = mixed_rows(50)
    whole = network(x, codes)
    network.rows_at_once = 7
    torch.testing.assert_close(network(x, codes), whole, atol=1e-6, rtol=1e-5)
    assert network(x[:0], codes[:0]).shape == (0, 1)


def test_reports_why_it_is_skipped() -> None:
    plugin = DCAP()
    assert plugin.supports("binary", Shape(1000, 1, 1, 2)) is None
    assert plugin.supports("binary", Shape(1000, 1, 0, 2)) == (
        "It multiplies pairs of features; there is only one feature."
    )
    too_many = plugin.supports("binary", Shape(1000, 100, 29, 2))
    assert too_many == "It supports at most 128 features; the table has 129."
