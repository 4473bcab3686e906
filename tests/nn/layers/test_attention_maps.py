"""Attention maps equal the softmax rows that the networks compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.plugin import HasAttentionMaps, Sizes
from tests.nn.test_integrated import CARDINALITIES, table, tensors

NETWORKS = ("ft_transformer", "autoint", "tab_transformer", "amformer", "tabnet", "node")


def network_of(name):
    torch.manual_seed(0)
    plugin = registry.get(name)
    shape = Shape(n_rows=2_000, n_numeric=3, n_categorical=2, n_classes=2)
    sizes = Sizes(n_numeric=3, cardinalities=CARDINALITIES, d_out=1, n_classes=2)
    return plugin.build(sizes, plugin.defaults("binary", shape, "cpu")).eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_shares_of_features(name):
    network = network_of(name)
    assert isinstance(network, HasAttentionMaps)
    with torch.inference_mode():
        found = network.attention_maps(*tensors(table(6, 0)))
    assert found
    for each in found:
        assert each.weights.shape[0] == 6
        assert each.weights.shape[2:] == (len(each.queries), len(each.keys))
        np.testing.assert_allclose(each.weights.sum(3), 1, atol=1e-5)
        features = {3, 4} if name == "tab_transformer" else set(range(5))
        assert {key for key in each.keys if key >= 0} == features
        assert each.kind == {"tabnet": "mask", "node": "selection"}.get(name, "attention")


@pytest.mark.parametrize("name", ["ft_transformer", "autoint", "tab_transformer"])
def test_weights_are_those_of_the_forward_pass(name, monkeypatch):
    """The fused kernel, whose queries and keys are captured, computes the same softmax."""
    network, rows = network_of(name), tensors(table(6, 0))
    captured = []

    def attend(query, key, value, dropout_rate=0.0, dropout_p=0.0):
        captured.append(torch.softmax(query @ key.transpose(2, 3) / key.shape[3] ** 0.5, dim=3))
        return captured[-1] @ value

    monkeypatch.setattr("tabapp.nn.layers.attention.attend", attend)
    monkeypatch.setattr("tabapp.nn.layers.attention.MANY_TOKENS", 0)
    monkeypatch.setattr("tabapp_plugins.autoint.attend", attend)
    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    with torch.inference_mode():
        network(*rows)
        found = network.attention_maps(*rows)
    compared = list(zip(found, captured, strict=False))
    assert compared
    for each, expected in compared:
        if each.weights.shape[2] == expected.shape[2]:
            np.testing.assert_allclose(each.weights, expected, atol=1e-5)


def test_the_row_of_cls_is_what_importances_average():
    network, rows = network_of("ft_transformer"), tensors(table(6, 0))
    with torch.inference_mode():
        found = network.attention_maps(*rows)
        mean = torch.stack([each.weights[:, :, 0].mean(1) for each in found]).mean(0)
        np.testing.assert_allclose(mean, network.cls_attention(*rows), atol=1e-5)


@pytest.mark.parametrize("prompts", ["multiplicative", "none", "both"])
def test_weights_of_sums_and_products_are_those_of_the_forward_pass(prompts, monkeypatch):
    torch.manual_seed(0)
    plugin = registry.get("amformer")
    params = plugin.params_type(prompts=prompts, n_prompts=6, n_layers=2, d_token=16, n_heads=2, top_k=2)
    sizes = Sizes(n_numeric=3, cardinalities=CARDINALITIES, d_out=1, n_classes=2)
    network, rows, captured = plugin.build(sizes, params).eval(), tensors(table(6, 0)), []

    def attend(query, key, value, dropout_rate):
        captured.append(torch.softmax(query @ key.transpose(2, 3) / key.shape[3] ** 0.5, dim=3))
        return captured[-1] @ value

    def softmax(scores):
        captured.append(torch.softmax(scores, dim=3))
        return captured[-1]

    monkeypatch.setattr("tabapp.nn.layers.attention.attend", attend)
    monkeypatch.setattr("tabapp.nn.layers.attention.MANY_TOKENS", 0)
    monkeypatch.setattr("tabapp.nn.layers.arithmetic.softmax", softmax)
    with torch.inference_mode():
        network(*rows)
        expected = list(captured)
        found = network.attention_maps(*rows)
    assert [each.title for each in found] == [f"layer {i}, {s}" for i in (1, 2) for s in ("sums", "products")]
    for each, weights in zip(found, expected, strict=True):
        assert set(each.keys) == set(range(-1, 5))
        has_prompts = prompts == "both" or (prompts == "multiplicative" and each.title.endswith("products"))
        assert each.queries == ((-2,) * 6 if has_prompts else each.keys)
        largest = each.weights.topk(weights.shape[3]).values
        np.testing.assert_allclose(largest, weights.sort(descending=True).values, atol=1e-5)
        if weights.shape[3] == len(each.keys):
            np.testing.assert_allclose(each.weights, weights, atol=1e-5)
