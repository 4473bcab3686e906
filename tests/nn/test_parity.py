"""Our networks and the authors' package compute the same outputs and gradients from the same weights.

All comparisons run in float64. Different orders of summation then differ by about 1e-13 on any processor, and a
different formula by 1e-4 or more, so one tolerance suffices for every layer.
"""

from __future__ import annotations

import msgspec
import pytest
import torch
from tabapp_plugins.ft_transformer import FTTransformer, FTTransformerNetwork, FTTransformerParams
from tabapp_plugins.mlp import MLPNetwork
from tabapp_plugins.resnet import ResNetNetwork, ResNetParams
from torch import Tensor, nn

from tabapp.nn.plugin import Sizes

rtdl = pytest.importorskip("rtdl_revisiting_models")
CARDINALITIES = (5, 3, 7)
CLOSE = {"atol": 1e-10, "rtol": 1e-10}
Pairs = list[tuple[Tensor, Tensor]]


def copy_into_oracle(pairs: Pairs) -> None:
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(ours)


def linear_pairs(ours: nn.Linear, theirs: nn.Linear) -> Pairs:
    return [(ours.weight, theirs.weight), (ours.bias, theirs.bias)]


def norm_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    return list(zip(ours.parameters(), theirs.parameters(), strict=True))


def ft_transformer_pairs(ours: FTTransformerNetwork, theirs: nn.Module) -> Pairs:
    pairs: Pairs = [(ours.tokenizer.cls, theirs.cls_embedding.weight)]
    if ours.tokenizer.numeric is not None:
        pairs += norm_pairs(ours.tokenizer.numeric, theirs.cont_embeddings)
    if ours.tokenizer.categorical is not None:
        tables = ours.tokenizer.categorical.weight.split(CARDINALITIES)
        pairs += [(t, e.weight) for t, e in zip(tables, theirs.cat_embeddings.embeddings, strict=True)]
        pairs.append((ours.tokenizer.categorical.bias, theirs.cat_embeddings.bias))
    for mine, other in zip(ours.blocks, theirs.backbone.blocks, strict=True):
        packed, attention = mine.attention.query_key_value, other["attention"]
        weights, biases = packed.weight.chunk(3), packed.bias.chunk(3)
        for w, b, layer in zip(weights, biases, (attention.W_q, attention.W_k, attention.W_v), strict=True):
            pairs += [(w, layer.weight), (b, layer.bias)]
        pairs += linear_pairs(mine.attention.output, attention.W_out)
        if mine.attention.key_compression is not None:
            pairs.append((mine.attention.key_compression.weight, attention.key_compression.weight))
            pairs.append((mine.attention.value_compression.weight, attention.value_compression.weight))
        assert (mine.attention_normalization is None) == ("attention_normalization" not in other)
        if mine.attention_normalization is not None:
            pairs += norm_pairs(mine.attention_normalization, other["attention_normalization"])
        pairs += norm_pairs(mine.ffn_normalization, other["ffn_normalization"])
        pairs += linear_pairs(mine.ffn.first, other["ffn"].linear1) + linear_pairs(
            mine.ffn.second, other["ffn"].linear2
        )
    output = theirs.backbone.output
    return pairs + norm_pairs(ours.normalization, output.normalization) + linear_pairs(ours.head, output.linear)


def make_ft_transformer(n_layers: int, n_numeric: int, cardinalities: tuple[int, ...], projection: float = 0.0):
    torch.manual_seed(0)
    without_dropout = {"attention_dropout": 0.0, "ffn_dropout": 0.0}
    params = msgspec.structs.replace(FTTransformerParams.scaled(n_layers), projection=projection, **without_dropout)
    ours = FTTransformerNetwork(Sizes(n_numeric=n_numeric, cardinalities=cardinalities, d_out=3), params)
    kwargs = rtdl.FTTransformer.get_default_kwargs(n_layers) | without_dropout
    if projection:
        kwargs |= {
            "linformer_kv_compression_ratio": projection,
            "linformer_kv_compression_sharing": "headwise",
        }
    theirs = rtdl.FTTransformer(n_cont_features=n_numeric, cat_cardinalities=list(cardinalities), d_out=3, **kwargs)
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return ours.double(), theirs.double()


def batch(n_numeric: int, cardinalities: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    codes = torch.zeros(16, 0, dtype=torch.int64)
    if cardinalities:
        codes = torch.stack([torch.randint(0, c, (16,)) for c in cardinalities], 1)
    return torch.randn(16, n_numeric, dtype=torch.float64), codes


@pytest.mark.parametrize("projection", [0.0, 0.3])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize(("n_numeric", "cardinalities"), [(4, CARDINALITIES), (6, ()), (0, CARDINALITIES), (80, ())])
def test_ft_transformer_output_and_gradients(
    n_layers: int, n_numeric: int, cardinalities: tuple[int, ...], projection: float
) -> None:
    ours, theirs = make_ft_transformer(n_layers, n_numeric, cardinalities, projection)
    pairs = ft_transformer_pairs(ours, theirs)
    assert sum(p.numel() for p, _ in pairs) == sum(p.numel() for p in ours.parameters())
    assert len(pairs) == len(list(theirs.parameters()))
    copy_into_oracle(pairs)
    x, codes = batch(n_numeric, cardinalities)
    inputs = (x if n_numeric else None, codes if cardinalities else None)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(x, codes), theirs.eval()(*inputs), **CLOSE)
    ours.train()(x, codes).square().sum().backward()
    theirs.train()(*inputs).square().sum().backward()
    theirs_by_name = dict(theirs.named_parameters())
    torch.testing.assert_close(ours.tokenizer.cls.grad, theirs_by_name["cls_embedding.weight"].grad, **CLOSE)
    torch.testing.assert_close(ours.head.weight.grad, theirs_by_name["backbone.output.linear.weight"].grad, **CLOSE)
    for i, block in enumerate(ours.blocks):
        parts = block.attention.query_key_value.weight.grad.chunk(3)
        for part, name in zip(parts, "qkv", strict=True):
            expected = theirs_by_name[f"backbone.blocks.{i}.attention.W_{name}.weight"].grad
            torch.testing.assert_close(part, expected, **CLOSE)


def test_ft_transformer_applies_weight_decay_to_the_same_parameters() -> None:
    ours, theirs = make_ft_transformer(3, 8, ())
    undecayed = FTTransformer().undecayed(ours)
    names = [name for name, _ in ours.named_parameters()]
    decayed, free = theirs.make_parameter_groups()
    # One tensor contains the three projections of a block here, so one weight and one bias correspond to three each in
    # the package.
    assert len([n for n in names if n not in undecayed]) == len(decayed["params"]) - 2 * 3
    assert len(undecayed) == len(free["params"]) - 2 * 3
    assert sum(p.numel() for n, p in ours.named_parameters() if n in undecayed) == sum(
        p.numel() for p in free["params"]
    )


def test_mlp() -> None:
    torch.manual_seed(0)
    ours = MLPNetwork(Sizes(n_numeric=7, cardinalities=(), d_out=2), (32, 32, 32), 0.1).double()
    theirs = rtdl.MLP(d_in=7, d_out=2, n_blocks=3, d_block=32, dropout=0.1).double()
    pairs = [p for a, b in zip(ours.blocks, theirs.blocks, strict=True) for p in linear_pairs(a[0], b.linear)]
    copy_into_oracle(pairs + linear_pairs(ours.head, theirs.output))
    x, codes = batch(7, ())
    torch.testing.assert_close(ours.eval()(x, codes), theirs.eval()(x), **CLOSE)


def test_resnet_output_and_gradients() -> None:
    torch.manual_seed(0)
    params = ResNetParams(width=24, hidden_factor=1.5, n_layers=3, hidden_dropout=0.0)
    ours = ResNetNetwork(Sizes(n_numeric=7, cardinalities=(), d_out=2), params).double()
    theirs = rtdl.ResNet(
        d_in=7, d_out=2, n_blocks=3, d_block=24, d_hidden=None, d_hidden_multiplier=1.5, dropout1=0.0, dropout2=0.0
    ).double()
    pairs = linear_pairs(ours.projection, theirs.input_projection)
    for mine, other in zip(ours.blocks, theirs.blocks, strict=True):
        pairs += norm_pairs(mine.normalization, other.normalization)
        pairs += linear_pairs(mine.first, other.linear1) + linear_pairs(mine.second, other.linear2)
    pairs += norm_pairs(ours.normalization, theirs.output.normalization) + linear_pairs(ours.head, theirs.output.linear)
    copy_into_oracle(pairs)
    x, codes = batch(7, ())
    for mode in (True, False):
        torch.testing.assert_close(ours.train(mode)(x, codes), theirs.train(mode)(x), **CLOSE)
    ours.train()(x, codes).sum().backward()
    theirs.train()(x).sum().backward()
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, **CLOSE)
