"""NODE compared with its formulas, evaluated for each leaf."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tabapp_plugins.node import NODE, NODENetwork, NODEParams, ObliviousTrees
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Shape
from tabapp.nn.layers.embeddings import embedding_width
from tabapp.nn.layers.entmax import entmax15, entmoid15
from tabapp.nn.plugin import Sizes
from tests.nn.overfitting import lowest_training_loss
from tests.plugins.tables import make_context, make_table

EIGHT = Sizes(n_numeric=8, cardinalities=(), d_out=1)


def no_codes(n_rows: int) -> Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.int64)


def explicit_output(trees: ObliviousTrees, x: Tensor) -> Tensor:
    """(rows, n_trees, d_tree), with every leaf's weight as the product over its path."""
    values = torch.einsum("bi,tdi->btd", x, entmax15(trees.selection))
    z = (values - trees.threshold) * (-trees.log_temperature).exp()
    leaves = []
    for leaf in range(2**trees.depth):
        turns = [entmoid15(-z[..., d] if leaf >> d & 1 else z[..., d]) for d in range(trees.depth)]
        leaves.append(torch.stack(turns).prod(0))
    return torch.einsum("btl,tcl->btc", torch.stack(leaves, -1), trees.response)


@pytest.mark.parametrize(("n_trees", "depth", "d_tree"), [(5, 6, 3), (1, 1, 1), (4, 3, 2)])
def test_output_equals_the_sum_over_all_leaves(n_trees: int, depth: int, d_tree: int) -> None:
    torch.manual_seed(0)
    trees, x = ObliviousTrees(7, n_trees, depth, d_tree), torch.randn(50, 7)
    trees.initialize(x[:40])
    torch.testing.assert_close(trees(x), explicit_output(trees, x), atol=1e-5, rtol=1e-5)


def test_leaf_weights_sum_to_one_and_selectors_are_sparse() -> None:
    torch.manual_seed(0)
    trees, x = ObliviousTrees(40, 6, 4, 16), torch.randn(64, 40)
    trees.initialize(x)
    with torch.no_grad():
        # With unit vectors as responses, the outputs are the leaf weights.
        trees.response.copy_(torch.eye(16).expand(6, 16, 16))
        weights = trees(x)
        selector = entmax15(trees.selection)
    assert weights.min() >= 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(64, 6), atol=1e-6, rtol=0)
    torch.testing.assert_close(selector.sum(-1), torch.ones(6, 4))
    assert ((selector == 0).sum(-1) > 0).all()


def test_a_hard_stump_is_a_step_function() -> None:
    trees = ObliviousTrees(1, 1, 1, 1)
    with torch.no_grad():
        trees.threshold.fill_(0.25)
        trees.log_temperature.fill_(-12)
        trees.response.copy_(torch.tensor([[[3.0, -1.0]]]))
    x = torch.linspace(-1, 1, 101)[:, None]
    x = x[(x[:, 0] - 0.25).abs() > 1e-3]
    assert torch.equal(trees(x)[:, 0, 0], torch.where(x[:, 0] > 0.25, 3.0, -1.0))


@pytest.mark.parametrize(("n_layers", "expected"), [(1, 192_512), (2, 192_512 + 192_512 + 2048 * 1024 * 6)])
def test_parameter_counts(n_layers: int, expected: int) -> None:
    """Per layer d_in · T · D + 2 T D + T · c · 2^D; 192,512 is the authors' count on California housing."""
    network = NODENetwork(EIGHT, NODEParams(n_layers=n_layers, n_trees=1024, extra_channels=1))
    assert sum(p.numel() for p in network.parameters()) == (expected)


def test_initial_thresholds_are_in_the_data_range_and_branches_are_soft() -> None:
    torch.manual_seed(0)
    table, _, _ = make_table("regression", n_rows=3000, n_numeric=8, cardinalities=())
    table.numeric[:, 0] = 0.0
    network = NODENetwork(EIGHT, NODEParams(n_layers=2, n_trees=12))
    NODE().initialize(network, table)
    x = torch.tensor(table.numeric)
    for layer in network.layers:
        assert isinstance(layer, ObliviousTrees)
        values = layer.weighted_features(x)
        share_below = (values < layer.threshold.unsqueeze(-1)).float().mean(-1)
        assert 0.3 < share_below.mean() < 0.7
        assert share_below.std() > 0.2
        z = (values - layer.threshold.unsqueeze(-1)) * (-layer.log_temperature).exp().unsqueeze(-1)
        # The temperatures are computed from 2,048 of the 3,000 rows.
        assert z.abs().amax(-1).min() > 1 - 1e-4
        assert z.abs().amax() < 2
        x = torch.cat([x, layer(x).flatten(1)], dim=1)


def test_output_is_the_mean_of_the_first_channels_of_all_layers() -> None:
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=3, cardinalities=(5,), d_out=2)
    network = NODENetwork(sizes, NODEParams(n_layers=2, n_trees=4, depth=2, extra_channels=1))
    x, codes = torch.randn(20, 3), torch.randint(0, 5, (20, 1))
    flat = network.input(x, codes)
    first = network.layers[0](flat)
    second = network.layers[1](torch.cat([flat, first.flatten(1)], 1))
    torch.testing.assert_close(network(x, codes), torch.cat([first, second], 1)[:, :, :2].mean(1))


def test_predictions_in_chunks_equal_one_pass() -> None:
    torch.manual_seed(0)
    network = NODENetwork(EIGHT, NODEParams(n_trees=8, n_layers=2)).eval()
    x = torch.randn(50, 8)
    whole = network(x, no_codes(50))
    network.rows_at_once = 7
    torch.testing.assert_close(network(x, no_codes(50)), whole, atol=1e-6, rtol=1e-5)
    assert network(x[:0], no_codes(0)).shape == (0, 1)


@pytest.mark.slow
def test_overfits_64_random_rows(tmp_path: Path) -> None:
    params = NODEParams(n_trees=64, depth=8, extra_channels=0, learning_rate=0.1)
    assert lowest_training_loss(NODE(), params, tmp_path, goal=1e-3, max_epochs=1400) < 1e-3


@pytest.mark.slow
def test_selectors_find_the_feature_that_determines_the_target(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=1500, cardinalities=(3,))
    table = Table(table.numeric, table.categorical, np.sign(table.numeric[:, 2]).astype(np.float64))
    params = NODEParams(n_trees=32, depth=3, extra_channels=0, learning_rate=3e-2, max_epochs=30)
    context = make_context("regression", spec, 1, tmp_path)
    model = NODE().fit(table.take(slice(0, 1200)), table.take(slice(1200, None)), params, context)
    attention = model.attention(table.take(slice(0, 10)))
    assert attention is not None
    assert attention.shape == (10, 5)
    np.testing.assert_allclose(attention.sum(1), 1, atol=1e-6)
    assert (attention == attention[0]).all()
    # A category's share is the sum over its inputs. Over six seeds and tables the informative input ends at 0.42 to 0.56
    # (all seven start at about 1/7), and at 3.3 to 6 times the next one.
    per_input = attention[0] / [1, 1, 1, 1, embedding_width(3)]
    assert per_input[2] > 2 / 7
    assert per_input[2] > 2 * np.delete(per_input, 2).max()


def test_reports_why_it_is_skipped() -> None:
    plugin = NODE()
    assert plugin.supports("binary", Shape(1000, 5, 0, 2)) is None
    assert plugin.supports("binary", Shape(999, 5, 0, 2)) == "It needs at least 1,000 training rows; the table has 999."
    assert plugin.supports("multiclass", Shape(9000, 5, 0, 21)) == (
        "It supports at most 20 classes; the target has 21."
    )
    wide = plugin.supports("regression", Shape(9000, 2001, 0, 1))
    assert wide == "It supports at most 2,000 features; the table has 2,001."


def test_defaults_equal_the_paper_on_a_gpu_and_are_smaller_on_a_cpu() -> None:
    shape = Shape(20_000, 8, 0, 1)
    plugin = NODE()
    paper = plugin.defaults("regression", shape, "cuda:0")
    assert (paper.n_layers, paper.n_trees, paper.depth, paper.extra_channels) == (1, 2048, 6, 2)
    assert paper.learning_rate == 1e-3
    on_cpu = plugin.defaults("regression", shape, "cpu")
    assert on_cpu.n_trees <= 256
    assert (
        plugin.cost("regression", shape, on_cpu, "cpu").seconds < plugin.cost("regression", shape, paper, "cpu").seconds
    )


def test_every_parameter_of_a_deep_network_is_trained() -> None:
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=3, cardinalities=(5,), d_out=1)
    network = NODENetwork(sizes, NODEParams(n_layers=2, n_trees=8, depth=3))
    x, codes = torch.randn(60, 3), torch.arange(60)[:, None] % 5
    NODE().initialize(network, Table(x.numpy(), codes.int().numpy()))
    network(x, codes).square().sum().backward()
    for layer in network.layers:
        assert isinstance(layer, nn.Module)
    # Additional channels are trained in all layers except the last.
    assert (network.layers[0].response.grad[:, 1:] != 0).any()
    assert (network.layers[1].response.grad[:, 1:] == 0).all()
    assert all(p.grad is not None and (p.grad != 0).any() for p in network.parameters())
