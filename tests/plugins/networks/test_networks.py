"""Properties of each network from its paper: signal, degree, tokens. Tests of all networks are in tests/nn."""

from __future__ import annotations

import pytest
import torch
from tabapp_plugins.amformer.network import AMFormerNetwork, AMFormerParams
from tabapp_plugins.autoint import AutoInt, AutoIntNetwork, AutoIntParams
from tabapp_plugins.dcn_v2 import CrossLayer, DCNV2Network, DCNV2Params
from tabapp_plugins.snn import SNNNetwork
from tabapp_plugins.tab_transformer import TabTransformer, TabTransformerNetwork, TabTransformerParams
from torch import Tensor, nn

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.plugin import Sizes

MIXED = Sizes(n_numeric=3, cardinalities=(5, 4), d_out=1)


def no_codes(n_rows: int) -> Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.int64)


def test_snn_preserves_mean_and_variance_over_sixteen_layers() -> None:
    torch.manual_seed(0)
    network = SNNNetwork(Sizes(n_numeric=256, cardinalities=(), d_out=1), (256,) * 16, 0.05).train()
    x = torch.randn(4096, 256)
    for block in network.blocks:
        x = block(x)
        assert 0.9 < x.var().item() < 1.1
        assert abs(x.mean().item()) < 0.1
    assert all((m.bias == 0).all() for m in network.modules() if isinstance(m, nn.Linear))


def test_one_cross_layer_is_a_product() -> None:
    layer = CrossLayer(2, 0.0)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
        layer.linear.bias.zero_()
    x = torch.randn(50, 2)
    crossed = layer(x, x) - x
    torch.testing.assert_close(crossed[:, 0], x[:, 0] * x[:, 1])
    assert (crossed[:, 1] == 0).all()


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_n_cross_layers_are_a_polynomial_of_degree_n_plus_one(n_layers: int) -> None:
    torch.manual_seed(0)
    network = DCNV2Network(
        Sizes(n_numeric=3, cardinalities=(), d_out=1),
        DCNV2Params(n_cross_layers=n_layers, n_hidden_layers=0, width=8, variant="stacked"),
    )
    network.double().eval()
    line = torch.linspace(-1, 1, n_layers + 3, dtype=torch.float64)[:, None] * torch.tensor([[1.0, -2.0, 0.5]]).double()
    differences = network(line, no_codes(len(line)))[:, 0]
    for _ in range(n_layers + 1):
        differences = differences.diff()
    assert differences.abs().max() > 1e-6
    assert differences.diff().abs().max() < 1e-9


def test_dcn_variants_differ_in_the_input_of_the_head() -> None:
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=5, cardinalities=(), d_out=2)
    assert DCNV2Network(sizes, DCNV2Params(width=16)).head.in_features == 32
    assert DCNV2Network(sizes, DCNV2Params(width=16, variant="stacked")).head.in_features == 16
    deep = DCNV2Network(sizes, DCNV2Params(width=64, n_cross_layers=8)).eval()
    assert deep(torch.full((4, 5), 5.2), no_codes(4)).abs().max() < 1e3


def test_autoint_ignores_a_zero_feature() -> None:
    torch.manual_seed(0)
    network = AutoIntNetwork(MIXED, AutoIntParams(d_token=8))
    x, codes = torch.randn(6, 3), torch.ones(6, 2, dtype=torch.int64)
    x[:, 1] = 0
    tokens = network.tokenizer(x, codes)
    assert tokens.shape == (6, 5, 8)
    assert (tokens[:, 1] == 0).all()
    torch.testing.assert_close(network.tokenizer(2 * x, codes)[:, 0], 2 * tokens[:, 0])
    assert not torch.equal(tokens[:, 3], tokens[:, 4])
    layer = network.layers[0]
    assert layer.residual.bias is None
    decayed = {name for name, _ in network.named_parameters()} - AutoInt().undecayed(network)
    assert decayed == {f"layers.{i}.{part}.weight" for i in range(3) for part in ("query_key_value", "residual")} | {
        "head.weight"
    }


def test_numbers_can_be_tokens_of_tab_transformer() -> None:
    torch.manual_seed(0)
    network = TabTransformerNetwork(MIXED, TabTransformerParams(n_layers=1, d_token=16, numeric_tokens=True)).eval()
    x, codes = torch.randn(8, 3), torch.stack([torch.arange(8) % 5, torch.arange(8) % 4], 1)
    (layer,) = network.attention_maps(x, codes)
    assert layer.queries == layer.keys == (0, 1, 2, 3, 4)
    encoded = network.encoded_columns(x, codes, codes, codes)
    assert encoded.shape == (8, 2, 16)
    assert (network.encoded_columns(x.flip(0), codes, codes, codes) - encoded).abs().max() > 1e-4
    assert network.feature_attention(x, codes)["attention"].isfinite().all()
    only_numbers = TabTransformerNetwork(
        Sizes(n_numeric=3, cardinalities=(), d_out=1), TabTransformerParams(n_layers=1, d_token=16, numeric_tokens=True)
    )
    assert only_numbers(x, codes[:, :0]).shape == (8, 1)


@pytest.mark.parametrize("column_embedding", ["concatenated", "added"])
def test_tab_transformer_attends_among_categorical_columns(column_embedding: str) -> None:
    torch.manual_seed(0)
    params = TabTransformerParams(n_layers=2, d_token=16, column_embedding=column_embedding)
    network = TabTransformerNetwork(MIXED, params).eval()
    x, codes = torch.randn(8, 3), torch.stack([torch.arange(8) % 5, torch.arange(8) % 4], 1)
    before, encoded = network(x, codes), network.encoded_columns(x, codes, codes, codes).flatten(1)
    assert not torch.allclose(network(x.flip(0), codes), before)
    assert encoded.shape == (8, 32)
    # The encoding of a column depends on the level of the other column.
    changed = codes.clone()
    changed[:, 1] = (changed[:, 1] + 1) % 4
    assert (
        network.encoded_columns(x, changed, changed, changed).flatten(1)[:, :16] - encoded[:, :16]
    ).abs().max() > 1e-4
    # Permuting levels together with their embeddings has no effect.
    renamed = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        level = network.tokenizer.level
        level[:5] = level[:5][renamed.argsort()].clone()
    codes[:, 0] = renamed[codes[:, 0]]
    torch.testing.assert_close(network(x, codes), before)


def test_tab_transformer_uses_a_single_numeric_column() -> None:
    torch.manual_seed(0)
    params = TabTransformerParams(n_layers=1, d_token=16)
    network = TabTransformerNetwork(Sizes(n_numeric=1, cardinalities=(3,), d_out=1), params).eval()
    codes = torch.ones(2, 1, dtype=torch.int64)
    low, high = network(torch.tensor([[-1.0], [2.0]]), codes)[:, 0].tolist()
    assert low != high


def test_tab_transformer_without_categorical_columns_is_an_mlp_with_layer_normalization() -> None:
    params = TabTransformerParams(n_layers=1, d_token=16)
    network = TabTransformerNetwork(Sizes(n_numeric=6, cardinalities=(), d_out=1), params).eval()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    codes = torch.empty(3, 0, dtype=torch.int64)
    torch.testing.assert_close(network(x, codes), network.head(torch.nn.functional.layer_norm(x, (6,))))
    assert network.attention_maps(x, codes) == []
    numbers = Shape(1000, 5, 0, 2)
    assert TabTransformer().supports("binary", numbers) is None
    assert TabTransformer().skipped_by_default("binary", numbers) is not None, "MLP is the same network"
    assert TabTransformer().skipped_by_default("binary", Shape(1000, 5, 1, 2)) is None
    assert TabTransformer().merit("binary", numbers) > 0
    variant = registry.get("tab_transformer_pretrained")
    reason = variant.supports("binary", Shape(1000, 5, 0, 2, n_unlabeled=100))
    assert reason == "It pre-trains the embeddings of categorical columns; the table has none."


def permuted_blocks(weight: Tensor, order: list[int], width: int = 1) -> Tensor:
    """Permute blocks of `width` rows."""
    return weight.unflatten(0, (-1, width))[order].flatten(0, 1)


def test_merit_of_tab_transformer_is_lower_with_fewer_categories() -> None:
    merits = [registry.get("tab_transformer").merit("binary", Shape(1000, 8 - n, n, 2)) for n in (8, 4, 1)]
    assert merits == [1.0, 0.5, 0.125]


def test_autoint_does_not_depend_on_the_order_of_columns() -> None:
    torch.manual_seed(0)
    sizes, params, order = Sizes(n_numeric=4, cardinalities=(), d_out=1), AutoIntParams(d_token=8), [2, 0, 3, 1]
    network, permuted = AutoIntNetwork(sizes, params).eval(), AutoIntNetwork(sizes, params).eval()
    state = network.state_dict()
    state["tokenizer.numeric"] = state["tokenizer.numeric"][order]
    state["head.weight"] = permuted_blocks(state["head.weight"].t(), order, 8).t()
    permuted.load_state_dict(state)
    x, changed = torch.randn(10, 4), AutoIntNetwork(sizes, params).eval()
    changed.load_state_dict(network.state_dict())
    torch.testing.assert_close(permuted(x[:, order], no_codes(10)), network(x, no_codes(10)), atol=1e-6, rtol=0)
    assert not torch.allclose(changed(x[:, order], no_codes(10)), network(x, no_codes(10)), atol=1e-3)


@pytest.mark.parametrize("column_embedding", ["concatenated", "added"])
def test_tab_transformer_does_not_depend_on_the_order_of_columns(column_embedding: str) -> None:
    torch.manual_seed(0)
    cardinalities, order = (5, 3, 4), [2, 0, 1]
    params = TabTransformerParams(n_layers=2, column_embedding=column_embedding)  # type: ignore[arg-type]
    network = TabTransformerNetwork(Sizes(n_numeric=0, cardinalities=cardinalities, d_out=1), params).eval()
    moved = Sizes(n_numeric=0, cardinalities=tuple(cardinalities[i] for i in order), d_out=1)
    permuted = TabTransformerNetwork(moved, params).eval()
    state = network.state_dict()
    tables = state["tokenizer.level"].split(cardinalities)
    state["tokenizer.level"] = torch.cat([tables[i] for i in order])
    state["tokenizer.column"] = state["tokenizer.column"][order]
    state["head.0.weight"] = permuted_blocks(state["head.0.weight"].t(), order, params.d_token).t()
    permuted.load_state_dict(state)
    codes = torch.stack([torch.randint(0, n, (10,)) for n in cardinalities], dim=1)
    none = torch.zeros(10, 0)
    torch.testing.assert_close(permuted(none, codes[:, order]), network(none, codes), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backbone", ["ft_transformer", "autoint"])
def test_amformer_does_not_depend_on_the_order_of_columns(backbone: str) -> None:
    """Weights that mix tokens are permuted too."""
    torch.manual_seed(0)
    sizes, order = Sizes(n_numeric=4, cardinalities=(), d_out=1), [2, 0, 3, 1]
    params = AMFormerParams(n_layers=2, d_token=16, n_heads=4, backbone=backbone)  # type: ignore[arg-type]
    network, permuted = AMFormerNetwork(sizes, params).eval(), AMFormerNetwork(sizes, params).eval()
    state = network.state_dict()
    n_cls = backbone == "ft_transformer"
    tokens = [0, *(1 + i for i in order)] if n_cls else order
    for name in ("numeric.weight", "numeric.bias"):
        state[name] = state[name][order]
    for i in range(params.n_layers):
        fusion = state[f"layers.{i}.arithmetic.fusion.weight"]
        n_products = fusion.shape[1] - len(tokens)
        columns = [*tokens, *range(len(tokens), len(tokens) + n_products)]
        rows = tokens if len(fusion) == len(tokens) else range(len(fusion))
        state[f"layers.{i}.arithmetic.fusion.weight"] = fusion[list(rows)][:, columns]
    if not n_cls:
        state["pool.weight"] = state["pool.weight"][:, order]
    permuted.load_state_dict(state)
    x = torch.randn(10, 4)
    torch.testing.assert_close(permuted(x[:, order], no_codes(10)), network(x, no_codes(10)), atol=1e-5, rtol=0)
