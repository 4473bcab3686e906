"""Properties of every network, in addition to the plugin checks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.amformer.network import AMFormerParams
from tabapp_plugins.autoint import AutoIntParams
from tabapp_plugins.dcn_v2 import DCNV2Params
from tabapp_plugins.ft_transformer import FTTransformerModel, FTTransformerNetwork, FTTransformerParams, projection_for
from tabapp_plugins.mlp import MLPParams
from tabapp_plugins.resnet import ResNetParams
from tabapp_plugins.snn import SNNParams
from tabapp_plugins.tab_transformer import TabTransformerParams
from tabapp_plugins.tabm import TabMParams
from torch import nn

from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.plugin import DeepPlugin, SavedModel, Sizes
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tests.nn.overfitting import SIZES, lowest_training_loss
from tests.plugins.tables import make_context, make_table

UNDROPPED: dict[str, TrainingParams] = {
    "mlp": MLPParams(widths=(64, 64), dropout=0.0, learning_rate=3e-3),
    "resnet": ResNetParams(width=48, hidden_dropout=0.0, learning_rate=3e-3),
    "ft_transformer": FTTransformerParams(
        n_layers=2, d_token=48, attention_dropout=0.0, ffn_dropout=0.0, learning_rate=2e-3
    ),
    "tabm": TabMParams(n_members=4, width=64, n_bins=8, dropout=0.0, learning_rate=5e-3),
    "snn": SNNParams(widths=(64, 64), dropout=0.0, learning_rate=3e-3),
    "dcn_v2": DCNV2Params(width=48, hidden_dropout=0.0, cross_dropout=0.0, learning_rate=3e-3),
    "autoint": AutoIntParams(n_layers=2, d_token=48, attention_dropout=0.0, learning_rate=3e-3),
    "amformer": AMFormerParams(
        n_layers=2, d_token=24, attention_dropout=0.0, ffn_dropout=0.0, learning_rate=4e-3, warmup_steps=20
    ),
    "tab_transformer": TabTransformerParams(n_layers=2, attention_dropout=0.0, ffn_dropout=0.0, learning_rate=2e-3),
}
NETWORKS = list(UNDROPPED)
EXPENSIVE = ("ft_transformer", "amformer", "tab_transformer")


def n_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def without_dropout(name: str) -> tuple[DeepPlugin, TrainingParams]:
    """A small network of each kind, without dropout."""
    plugin = registry.get(name)
    assert isinstance(plugin, DeepPlugin)
    params = UNDROPPED[name]
    return plugin, msgspec.structs.replace(params, weight_decay=0.0, unseen_rate=0.0, average_decay=0.0, batch_size=64)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in EXPENSIVE else name for name in NETWORKS]
)
def test_overfits_64_random_rows(name: str, tmp_path: Path) -> None:
    plugin, params = without_dropout(name)
    assert lowest_training_loss(plugin, params, tmp_path, goal=1e-3, max_epochs=1000) < 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_reaches_every_parameter(name: str) -> None:
    plugin, params = without_dropout(name)
    torch.manual_seed(0)
    network = plugin.build(SIZES, params)
    x, codes = torch.randn(60, 4), torch.stack([torch.arange(60) % 5, torch.arange(60) % 3], 1)
    plugin.initialize(network, Table(x.numpy(), codes.int().numpy()))
    network.train()(x, codes).square().sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        # The keys' bias shifts all scores of a query equally, so softmax cancels it.
        gradient = parameter.grad
        if parameter_name.endswith("query_key_value.bias"):
            query, _, value = gradient.chunk(3)
            gradient = torch.cat([query, value])
        assert (gradient != 0).any(), parameter_name


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_are_independent(name: str) -> None:
    plugin, params = without_dropout(name)
    torch.manual_seed(0)
    network = plugin.build(SIZES, params).eval()
    x, codes = torch.randn(20, 4), torch.randint(0, 3, (20, 2))
    with torch.no_grad():
        alone = torch.cat([network(x[i : i + 1], codes[i : i + 1]) for i in range(20)])
        torch.testing.assert_close(network(x, codes), alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("n_layers", "expected"), [(1, 94_241), (2, 290_473), (3, 930_241), (4, 2_159_785), (5, 4_176_101), (6, 7_182_337)]
)
def test_ft_transformer_parameter_counts_of_the_scaling_rule(n_layers: int, expected: int) -> None:
    params = FTTransformerParams.scaled(n_layers)
    assert n_parameters(FTTransformerNetwork(Sizes(n_numeric=100, cardinalities=(), d_out=1), params)) == expected


def test_ft_transformer_default_is_table_15() -> None:
    params = FTTransformerParams()
    assert params == FTTransformerParams.scaled(3)
    assert n_parameters(FTTransformerNetwork(Sizes(n_numeric=8, cardinalities=(), d_out=1), params)) == 894_913
    with_255 = msgspec.structs.replace(params, ffn_factor=1.333333333333333)
    assert n_parameters(FTTransformerNetwork(Sizes(n_numeric=100, cardinalities=(), d_out=1), with_255)) == 928_507


def test_ft_transformer_projects_tokens_for_many_features(tmp_path: Path) -> None:
    plugin = registry.get("ft_transformer")
    assert plugin.supports("binary", Shape(10_000, 2_000, 0, 2)) is None
    params = plugin.defaults("binary", Shape(10_000, 2_000, 0, 2), "cuda:0")
    # Supplement C.3 has 128 tokens for the 2,000 features of Epsilon; the count is by hand.
    network = FTTransformerNetwork(Sizes(n_numeric=2_000, cardinalities=(), d_out=1), params)
    assert network.blocks[0].attention.key_compression.out_features == 128
    assert n_parameters(network) == 3_196_609
    assert plugin.defaults("binary", Shape(10_000, 300, 0, 2), "cuda:0").projection == 0
    table, spec, _ = make_table("binary", n_rows=30)
    saved = SavedModel(
        sizes=SIZES, objective=Objective.fit(table, make_context("binary", spec, 2, tmp_path)), params={}, facts={}
    )
    projected = FTTransformerNetwork(SIZES, FTTransformerParams(projection=0.5))
    assert FTTransformerModel(projected, saved, torch.device("cpu")).attention(table) is None


def test_128_tokens_remain_of_any_number_of_features() -> None:
    widths = range(301, 5_001)
    assert {int((n + 1) * projection_for(Shape(10_000, n, 0, 2))) for n in widths} == {128}


def test_ft_transformer_without_biases_ignores_a_zero_feature() -> None:
    torch.manual_seed(0)
    network = FTTransformerNetwork(SIZES, FTTransformerParams(token_bias=False))
    x, codes = torch.zeros(3, 4), torch.ones(3, 2, dtype=torch.int64)
    assert (network.tokenizer(x, codes)[:, 1:5] == 0).all()
    assert n_parameters(FTTransformerNetwork(SIZES, FTTransformerParams())) - n_parameters(network) == 6 * 192


def test_mlp_and_resnet_parameter_counts() -> None:
    sizes = Sizes(n_numeric=8, cardinalities=(), d_out=1)
    assert n_parameters(registry.get("mlp").build(sizes, MLPParams())) == 151_681
    assert n_parameters(registry.get("resnet").build(sizes, ResNetParams())) == 299_137
    synthetic = ResNetParams(n_layers=4, width=256, hidden_factor=1.5)
    sizes = Sizes(n_numeric=100, cardinalities=(), d_out=1)
    assert n_parameters(registry.get("resnet").build(sizes, synthetic)) == 817_665


def test_ft_transformer_does_not_depend_on_the_order_of_columns() -> None:
    torch.manual_seed(0)
    network = FTTransformerNetwork(SIZES, FTTransformerParams.scaled(2)).eval()
    permuted = FTTransformerNetwork(SIZES, FTTransformerParams.scaled(2)).eval()
    permuted.load_state_dict(network.state_dict())
    order = torch.tensor([2, 0, 3, 1])
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(permuted.tokenizer.numeric, name).copy_(getattr(network.tokenizer.numeric, name)[order])
        x, codes = torch.randn(10, 4), torch.randint(0, 3, (10, 2))
        torch.testing.assert_close(permuted(x[:, order], codes), network(x, codes), atol=1e-6, rtol=0)


def test_attention_equals_the_mean_cls_row_without_cls(tmp_path: Path) -> None:
    torch.manual_seed(0)
    _, params = without_dropout("ft_transformer")
    network = FTTransformerNetwork(SIZES, params).eval()
    table, spec, _ = make_table("binary", n_rows=30)
    x, codes = torch.tensor(table.numeric), torch.tensor(table.categorical, dtype=torch.int64)
    # By definition: probabilities of all tokens in every layer, then the first row.
    with torch.no_grad():
        tokens, rows = network.tokenizer(x, codes), []
        for block in network.blocks:
            seen = block.attended(tokens)
            query, key, _ = block.attention.query_key_value(seen).chunk(3, dim=-1)
            query, key = (t.unflatten(2, (8, 6)).transpose(1, 2) for t in (query, key))
            rows.append(torch.softmax(query @ key.transpose(2, 3) / 6**0.5, dim=-1)[:, :, 0].mean(1))
            tokens = block(tokens, cls_only=False)
        expected = torch.stack(rows).mean(0)[:, 1:]
        expected = (expected / expected.sum(1, keepdim=True)).numpy()
    context = make_context("binary", spec, 2, tmp_path)
    saved = SavedModel(sizes=SIZES, objective=Objective.fit(table, context), params={}, facts={})
    attention = FTTransformerModel(network, saved, torch.device("cpu")).attention(table)
    assert attention.shape == (30, 6)
    assert attention.dtype == np.float32
    np.testing.assert_allclose(attention, expected, atol=1e-6)
    np.testing.assert_allclose(attention.sum(1), 1, atol=1e-5)


def test_attention_ranks_the_informative_feature_first(tmp_path: Path) -> None:
    plugin, params = without_dropout("ft_transformer")
    table, spec, _ = make_table("regression", n_rows=800, cardinalities=(3,))
    table = Table(table.numeric, table.categorical, table.numeric[:, 2].astype(np.float64) ** 2)
    params = msgspec.structs.replace(params, max_epochs=15)
    model = plugin.fit(
        table.take(slice(0, 600)), table.take(slice(600, None)), params, make_context("regression", spec, 1, tmp_path)
    )
    assert model.attention(table).mean(0).argmax() == 2


@pytest.mark.parametrize(("name", "own"), [("mlp", "quantile"), ("realmlp", "robust")])
def test_numbers_can_be_transformed_in_another_way(name: str, own: str) -> None:
    plugin = registry.get(name)
    defaults = plugin.defaults("binary", Shape(1_000, 4, 0, 2), "cpu")
    assert plugin.features_for(defaults) == plugin.features()
    assert plugin.features().numeric == own
    for other in ("quantile", "standard", "robust"):
        chosen = plugin.features_for(msgspec.structs.replace(defaults, numeric=other))
        assert chosen == msgspec.structs.replace(plugin.features(), numeric=other)
