"""Variants of FT-Transformer that its paper names: ReLU instead of ReGLU, and PostNorm (supplement C.1)."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.ft_transformer import FTTransformer, FTTransformerNetwork, FTTransformerParams
from torch import nn

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.plugin import Sizes
from tests.plugins.tables import defaults_of, make_context, make_table

SIZES = Sizes(n_numeric=3, cardinalities=(4,), d_out=1)
SMALL = FTTransformerParams(n_layers=2, d_token=16)


def rows(n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 3, generator=generator), torch.randint(0, 4, (n, 1), generator=generator)


def network(**changes: object) -> FTTransformerNetwork:
    torch.manual_seed(0)
    return FTTransformerNetwork(SIZES, msgspec.structs.replace(SMALL, **changes)).eval()


def test_relu_has_no_gate():
    gated, plain = (network(activation=name).blocks[0].ffn for name in ("reglu", "relu"))
    hidden = int(16 * 4 / 3)
    assert gated.first.out_features == 2 * hidden
    assert plain.first.out_features == hidden
    x = torch.randn(5, 16)
    torch.testing.assert_close(plain(x), plain.second(torch.relu(plain.first(x))))
    torch.testing.assert_close(
        gated(x), gated.second(gated.first(x)[:, :hidden] * torch.relu(gated.first(x)[:, hidden:]))
    )


def test_postnorm_follows_its_equations():
    model = network(normalization="post")
    numeric, codes = rows()
    x = model.tokenizer(numeric, codes)
    for block in model.blocks:
        x = block.attention_normalization(x + block.attention(x, cls_only=False))
        x = block.ffn_normalization(x + block.ffn(x))
    # The prediction has no normalization of its own.
    expected = model.head(torch.relu(x[:, 0]))
    torch.testing.assert_close(model(numeric, codes), expected)
    assert isinstance(model.normalization, nn.Identity)
    assert isinstance(network().normalization, nn.LayerNorm)


@pytest.mark.parametrize("changes", [{"activation": "relu"}, {"normalization": "post"}, {"projection": 0.5}])
def test_the_attention_of_a_variant_is_that_of_its_forward_pass(changes):
    model = network(**changes)
    numeric, codes = rows()
    if changes == {"projection": 0.5}:
        assert model.attention_maps(numeric, codes) == []
        return
    maps = model.attention_maps(numeric, codes)
    share = torch.stack([each.weights.mean(1)[:, 0] for each in maps]).mean(0)
    torch.testing.assert_close(model.cls_attention(numeric, codes), share)
    assert float(share.detach().sum(1).mean()) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"activation": "relu"}, {"normalization": "post"}])
def test_a_variant_learns_and_loads(changes, tmp_path):
    plugin, (table, spec, n_classes) = FTTransformer(), make_table("regression", n_rows=400)
    params = msgspec.structs.replace(
        defaults_of(plugin, "regression", table, spec, n_classes), **changes, max_epochs=12
    )
    train, valid = table.take(slice(0, 300)), table.take(slice(300, 400))
    model = plugin.fit(train, valid, params, make_context("regression", spec, n_classes, tmp_path))
    predicted = model.predict(valid)
    assert np.corrcoef(predicted, valid.target)[0, 1] > 0.5
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(plugin.load(tmp_path / "model").predict(valid), predicted)
    assert plugin.undecayed(model.network) >= {
        f"blocks.{i}.{part}_normalization.weight" for i in (1,) for part in ("attention", "ffn")
    }


def test_the_preset_has_post_normalization():
    params = registry.get("ft_transformer:postnorm").defaults("binary", Shape(2_000, 8, 2, 2), "cpu")
    assert params.normalization == "post"
