"""Attention of each network per feature: its definition, and a planted table on which it ranks the relevant columns first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.amformer.network import Layer
from tabapp_plugins.autoint import InteractingLayer

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.checks.tables import make_context
from tabapp.models.contract import FittedModel, Shape
from tabapp.nn.layers.arithmetic import HardAttention
from tabapp.nn.layers.attention import SelfAttention

NUMERIC, CATEGORICAL = ("x0", "x1", "x2", "x3"), ("c0", "c1", "c2", "c3")
RELEVANT = {1, 6}
"""The positions of x1 and c2, on which the target depends."""
ATTENTIVE = ("ft_transformer", "autoint", "tab_transformer", "amformer", "npt")


def planted(n_rows: int = 700, seed: int = 0) -> tuple[Table, FeatureSpec]:
    """Two classes that depend on one numeric and one categorical column among eight."""
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n_rows, 4)).astype(np.float32)
    codes = generator.integers(2, 6, size=(n_rows, 4)).astype(np.int32)
    signal = 1.5 * numeric[:, 1] + 3 * (codes[:, 2] >= 4) - 1.5 + 0.3 * generator.normal(size=n_rows)
    spec = FeatureSpec(
        numeric=NUMERIC, categorical=CATEGORICAL, cardinalities=(6,) * 4, sources=(*NUMERIC, *CATEGORICAL)
    )
    return Table(numeric, codes, (signal > 0).astype(np.int64)), spec


def fitted(name: str, folder: Path, seed: int = 0, **changes: Any) -> tuple[FittedModel, Table]:
    """A model of the planted table, and rows that it was not trained on."""
    plugin, (table, spec) = registry.get(name), planted(seed=seed)
    params = plugin.defaults("binary", Shape(450, 4, 4, 2), "cpu")
    if name.startswith("npt"):
        changes = {"n_steps": 60, "d_embedding": 8, "context_rows": 128, "batch_rows": 128, **changes}
    params = msgspec.structs.replace(params, **({"max_epochs": 30} if hasattr(params, "max_epochs") else {}) | changes)
    context = make_context("binary", spec, 2, folder)
    return plugin.fit(table.take(slice(0, 450)), table.take(slice(450, 550)), params, context), table.take(
        slice(550, None)
    )


@pytest.mark.parametrize("name", ATTENTIVE)
def test_attention_is_finite_and_sums_to_one(name: str, tmp_path: Path) -> None:
    short = {} if name == "npt" else {"max_epochs": 1}
    model, rows = fitted(name, tmp_path, **short)
    assert registry.get(name).has_attention
    assert registry.get(name).attention_kind == "attention"
    weights = model.attention(rows)
    assert weights is not None
    assert weights.dtype == np.float32
    assert weights.shape == (len(rows), 8)
    unseen = np.isnan(weights)
    assert (unseen.any(axis=0) == unseen.all(axis=0)).all()
    assert unseen[0].nonzero()[0].tolist() == ([0, 1, 2, 3] if name == "tab_transformer" else [])
    np.testing.assert_allclose(np.nansum(weights, axis=1), 1, atol=1e-5)
    again = model.attention(rows.take(slice(0, 10)))
    assert again is not None
    np.testing.assert_allclose(again, weights[:10], atol=1e-5, err_msg="attention depends on the other rows")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ft_transformer", "autoint", "amformer"])
def test_relevant_columns_are_above_noise(name: str, tmp_path: Path) -> None:
    model, rows = fitted(name, tmp_path)
    mean = np.asarray(model.attention(rows)).mean(axis=0)
    assert set(np.argsort(-mean)[:2].tolist()) == RELEVANT, mean


@pytest.mark.slow
def test_a_relevant_category_is_above_noise_in_tab_transformer(tmp_path: Path) -> None:
    model, rows = fitted("tab_transformer", tmp_path)
    assert int(np.nanargmax(np.asarray(model.attention(rows)).mean(axis=0))) == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["node", "tabnet"])
def test_selections_have_their_own_name_and_find_the_relevant_columns(name: str, tmp_path: Path) -> None:
    plugin = registry.get(name)
    assert plugin.has_attention
    assert plugin.attention_kind == "selection"
    changes = {"sparsity": 1e-2, "batch_size": 64, "learning_rate": 2e-2} if name == "tabnet" else {}
    model, rows = fitted(name, tmp_path, **changes)
    mean = np.asarray(model.attention(rows)).mean(axis=0)
    assert mean.sum() == pytest.approx(1, abs=1e-4)
    assert int(mean.argmax()) in RELEVANT, mean


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", ["ft_transformer", "autoint", "amformer"])
def test_relevant_columns_are_above_noise_in_every_draw(name: str, seed: int, tmp_path: Path) -> None:
    model, rows = fitted(name, tmp_path, seed)
    mean = np.asarray(model.attention(rows)).mean(axis=0)
    assert int(mean.argmax()) in RELEVANT, mean


@torch.no_grad()
def test_sized_attention_is_that_of_the_definition() -> None:
    torch.manual_seed(0)
    tokens = torch.randn(3, 5, 8)
    layer = SelfAttention(8, 2, 0.0)
    query, key, value = layer.query_key_value(tokens).chunk(3, dim=2)
    expected = torch.zeros(3, 2, 5, 5)
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        alpha = torch.softmax(query[:, :, part] @ key[:, :, part].transpose(1, 2) / 2, dim=2)
        # What a head adds to the output: its values times its columns of the output projection.
        size = (value[:, :, part] @ layer.output.weight[:, part].T).norm(dim=2)
        expected[:, head] = alpha * size.unsqueeze(1)
    expected = expected / expected.sum(3, keepdim=True)
    torch.testing.assert_close(layer.sized_probabilities(tokens), expected)


@torch.no_grad()
def test_a_column_without_a_value_gets_no_attention() -> None:
    torch.manual_seed(0)
    layer = HardAttention(8, 2, n_prompts=4, top_k=3, dropout=0.0)
    tokens = torch.randn(3, 5, 8)
    # Keys are selected by a part of the token that the values do not read.
    layer.value.weight[:, 0] = 0
    tokens[:, 2] = 0
    tokens[:, 2, 0] = 5
    layer.key.weight[:, 0] = layer.prompts.mean(0) if layer.prompts is not None else 0
    assert layer.probabilities(tokens)[..., 2].mean() > 0
    shares = layer.sized_probabilities(tokens)
    assert float(shares[..., 2].abs().max()) == 0
    torch.testing.assert_close(shares.sum(3), torch.ones(3, 2, 4))


def test_amformer_averages_the_layers_of_each_stream(tmp_path: Path) -> None:
    model, rows = fitted("amformer", tmp_path, max_epochs=1)
    streams = model.attention_streams(rows)
    assert list(streams) == ["sums", "products"]
    np.testing.assert_array_equal(streams["sums"], model.attention(rows))
    network: Any = model.network  # pyright: ignore[reportAttributeAccessIssue]
    tokens = network.tokens(torch.tensor(rows.numeric), torch.tensor(rows.categorical, dtype=torch.int64))
    found: list[torch.Tensor] = []
    for layer in network.layers:
        assert isinstance(layer, Layer)
        products = layer.arithmetic.multiplicative
        assert products is not None
        found.append(products.sized_probabilities(tokens).mean((1, 2)))
        tokens = layer(tokens)
    expected = torch.stack(found).mean(0)[:, 1:].detach().numpy()
    np.testing.assert_allclose(streams["products"], expected / expected.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("stream", ["additive", "multiplicative"])
def test_amformer_with_one_stream_has_its_attention(stream: str, tmp_path: Path) -> None:
    model, rows = fitted(f"amformer:{stream}", tmp_path, max_epochs=1)
    assert model.attention_streams(rows) == {}
    assert np.isfinite(np.asarray(model.attention(rows))).all()
    assert bool(model.combinations(rows)) == (stream == "multiplicative")


def test_combinations_are_the_most_frequent_factors_of_each_prompt(tmp_path: Path) -> None:
    model, rows = fitted("amformer", tmp_path, max_epochs=1, top_k=2)
    found = model.combinations(rows)
    network: Any = model.network  # pyright: ignore[reportAttributeAccessIssue]
    with torch.no_grad():
        codes = torch.tensor(rows.categorical, dtype=torch.int64)
        frequencies = network.selection(torch.tensor(rows.numeric), codes)[:, 1:]
    assert len(found) == len(frequencies)
    means = [np.mean(each.frequencies) for each in found]
    assert means == sorted(means, reverse=True)
    expected = sorted(tuple(row.topk(3).values.round(decimals=4).tolist()) for row in frequencies)
    np.testing.assert_allclose(sorted(each.frequencies for each in found), expected, atol=1e-4)
    for each in found:
        assert len(set(each.features)) == 3
        assert list(each.frequencies) == sorted(each.frequencies, reverse=True)


def test_autoint_weights_its_attention_by_values(tmp_path: Path) -> None:
    model, rows = fitted("autoint", tmp_path, max_epochs=1)
    network: Any = model.network  # pyright: ignore[reportAttributeAccessIssue]
    tokens = network.tokenizer(torch.tensor(rows.numeric), torch.tensor(rows.categorical, dtype=torch.int64))
    found: list[torch.Tensor] = []
    for layer in network.layers:
        assert isinstance(layer, InteractingLayer)
        value = layer.query_key_value(tokens).chunk(3, dim=2)[2].unflatten(2, (2, -1)).norm(dim=3)
        weights = layer.probabilities(tokens) * value.transpose(1, 2).unsqueeze(2)
        found.append((weights / weights.sum(3, keepdim=True)).mean((1, 2)))
        tokens = layer(tokens)
    np.testing.assert_allclose(
        np.asarray(model.attention(rows)), torch.stack(found).mean(0).detach().numpy(), atol=1e-6
    )


def test_npt_has_the_attention_of_the_target(tmp_path: Path) -> None:
    model, rows = fitted("npt", tmp_path)
    expected = np.zeros(8)
    maps = model.attention_maps(rows)
    for each in maps:
        row = each.weights[:, each.queries.index(-3)].mean(axis=0)
        for key, weight in zip(each.keys, row, strict=True):
            if key >= 0:
                expected[key] += weight / len(maps)
    mean = np.asarray(model.attention(rows)).mean(axis=0)
    np.testing.assert_allclose(mean, expected / expected.sum(), atol=2e-3)


def test_npt_without_attention_between_attributes_has_none(tmp_path: Path) -> None:
    model, rows = fitted("npt", tmp_path, attention="rows", n_steps=5)
    assert model.attention(rows) is None
