"""Numeric embeddings against the authors' package and by hand."""

from __future__ import annotations

from math import pi

import pytest
import torch

from tabapp.nn.layers.numeric import FeatureLinear, PBLDEmbedding, PeriodicEmbedding


@pytest.mark.parametrize(("activated", "lite"), [(True, False), (False, False), (True, True)])
def test_periodic_equals_the_package_with_the_same_weights(activated: bool, lite: bool) -> None:
    rtdl_num_embeddings = pytest.importorskip("rtdl_num_embeddings")
    torch.manual_seed(0)
    ours = PeriodicEmbedding(5, n_frequencies=12, frequency_scale=0.3, d_embedding=7, activated=activated, lite=lite)
    theirs = rtdl_num_embeddings.PeriodicEmbeddings(
        5, 7, n_frequencies=12, frequency_init_scale=0.3, activation=activated, lite=lite
    )
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    theirs.periodic.weight.data.copy_(ours.frequency.data)
    theirs.linear.weight.data.copy_(ours.linear.weight.data)
    theirs.linear.bias.data.copy_(ours.linear.bias.data)
    x = 3 * torch.randn(40, 5)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-5)


def test_frequencies_are_within_three_standard_deviations() -> None:
    torch.manual_seed(0)
    frequency = PeriodicEmbedding(100, n_frequencies=100, frequency_scale=0.5).frequency
    assert frequency.abs().max() <= 1.5
    torch.testing.assert_close(frequency.std(), torch.tensor(0.5), atol=0.02, rtol=0)


def test_pbld_by_hand() -> None:
    torch.manual_seed(0)
    embedding = PBLDEmbedding(3, n_frequencies=16, frequency_scale=0.1, d_embedding=4)
    assert embedding.phase.abs().max() <= pi
    assert embedding.linear.weight.abs().max() <= 0.25
    assert embedding.linear.bias.abs().max() <= 0.25
    x = torch.randn(10, 3)
    embedded = embedding(x)
    assert embedded.shape == (10, 3, 4)
    assert (embedded[..., 3] == x).all()
    wave = torch.cos(2 * pi * embedding.frequency[1] * x[:, 1:2] + embedding.phase[1])
    expected = wave @ embedding.linear.weight[1] + embedding.linear.bias[1]
    torch.testing.assert_close(embedded[:, 1, :3], expected)


def test_feature_linear_has_one_layer_per_feature() -> None:
    torch.manual_seed(0)
    layer = FeatureLinear(2, 3, 5)
    x = torch.randn(4, 2, 3)
    for j in range(2):
        torch.testing.assert_close(layer(x)[:, j], x[:, j] @ layer.weight[j] + layer.bias[j])
