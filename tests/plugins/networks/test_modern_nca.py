"""ModernNCA's vote compared with values by hand; no row votes for itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tabapp_plugins.modern_nca import ModernNCANetwork, ModernNCAParams

from tabapp.nn.layers.neighbors import SEARCH_CELLS
from tabapp.nn.plugin import Sizes

PLAIN = ModernNCAParams(width=4, n_frequencies=0)


def identity_network(n_classes: int, **params: object) -> ModernNCANetwork:
    """A network whose keys are its four numeric columns."""
    d_out = n_classes if n_classes > 2 else 1
    settings = ModernNCAParams(width=4, n_frequencies=0, **params)
    network = ModernNCANetwork(Sizes(n_numeric=4, cardinalities=(), d_out=d_out, n_classes=n_classes), settings)
    with torch.no_grad():
        network.projection.weight.copy_(torch.eye(4))
        network.projection.bias.zero_()
    return network


def codes_of(n_rows: int) -> torch.Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.int64)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probability_in_distant_clusters_is_their_purity(n_classes: int) -> None:
    network = identity_network(n_classes).eval()
    rows = torch.cat([torch.zeros(10, 4), torch.full((10, 4), 1000.0)])
    target = torch.tensor([0] * 7 + [1] * 3 + [0] * 2 + [1] * 8)
    network.candidates.put(rows, codes_of(20), target, None)
    output = network(torch.stack([rows[0], rows[-1]]), codes_of(2))
    positive = output.sigmoid()[:, 0] if n_classes == 2 else output.softmax(1)[:, 1]
    torch.testing.assert_close(positive, torch.tensor([0.3, 0.8]), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_vote_uses_distances_and_not_their_squares() -> None:
    torch.manual_seed(0)
    network = identity_network(1, temperature=0.7).eval()
    keys, target, weight = torch.randn(50, 4), torch.randn(50), torch.rand(50) + 0.5
    network.candidates.put(keys, codes_of(50), target, weight)
    x = torch.randn(6, 4)
    vote = weight * torch.exp(-torch.cdist(x, keys) / 0.7)
    expected = (vote * target).sum(1) / vote.sum(1)
    torch.testing.assert_close(network(x, codes_of(6))[:, 0], expected, atol=1e-4, rtol=1e-4)


def test_accuracy_on_random_labels_is_chance() -> None:
    torch.manual_seed(0)
    network = identity_network(2, temperature=1e-4, sample_rate=1.0).train()
    rows, labels = torch.randn(400, 4), torch.randint(0, 2, (400,))
    network.candidates.put(rows, codes_of(400), labels, None)
    output = torch.cat(
        [network.training_output(batch, rows[batch], codes_of(50)) for batch in torch.arange(400).split(50)]
    )
    accuracy = ((output[:, 0] > 0).long() == labels).float().mean()
    assert abs(accuracy - 0.5) < 0.08
    # If rows could be their own neighbors, the accuracy would be 1.
    assert ((network.eval()(rows, codes_of(400))[:, 0] > 0).long() == labels).all()


def test_gradient_is_finite_for_identical_rows() -> None:
    torch.manual_seed(0)
    network = ModernNCANetwork(Sizes(n_numeric=4, cardinalities=(), d_out=1), PLAIN).train()
    rows = torch.randn(10, 4).repeat(4, 1)
    network.candidates.put(rows, codes_of(40), torch.randn(40), None)
    network.training_output(torch.arange(20), rows[:20], codes_of(20)).sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().max() < 10


def test_batch_of_one_row_without_candidates_has_an_output() -> None:
    network = identity_network(2).train()
    network.candidates.put(torch.zeros(1, 4), codes_of(1), torch.zeros(1), None)
    assert network.training_output(torch.zeros(1, dtype=torch.int64), torch.zeros(1, 4), codes_of(1)).isfinite().all()


def test_large_predictions_are_split_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = identity_network(1).eval()
    network.candidates.put(torch.randn(30, 4), codes_of(30), torch.randn(30), None)
    x = torch.randn(25, 4)
    whole = network(x, codes_of(25))
    monkeypatch.setitem(SEARCH_CELLS, "cpu", 100)
    np.testing.assert_allclose(network(x, codes_of(25)).detach(), whole.detach(), rtol=1e-5, atol=1e-6)
