from pathlib import Path

import numpy as np
import pytest
import torch
from tabapp_plugins.prior_fitted.network import SIZES, Layer, PriorFittedNetwork, Size, encode
from tabapp_plugins.prior_fitted.reading import Predictor

from benchmarks.prior.optimizer import Muon, orthogonalized
from benchmarks.prior.state import save_network, weights_of

SMALL = Size(width=16, layers=2, heads=2, hidden=2, group=2, tags=3, thinking=2)


@pytest.fixture
def network() -> PriorFittedNetwork:
    torch.manual_seed(0)
    return PriorFittedNetwork(SMALL).double().eval()


def test_cells_are_encoded_by_the_context_alone() -> None:
    values = torch.tensor([[[0.0, 1.0], [2.0, float("nan")], [4.0, 3.0], [100.0, 3.0], [float("nan"), 2.0]]])
    cells = encode(values, torch.tensor([[False, True]]), n_context=3)[0]
    deviation = (8 / 3) ** 0.5
    torch.testing.assert_close(cells[:3, 0, 0], torch.tensor([-2, 0, 2]) / deviation)
    # The second number is the share of the context below minus the share above.
    torch.testing.assert_close(cells[:, 0, 1], torch.tensor([-2 / 3, 0, 2 / 3, 1, 0]))
    assert 3 < cells[3, 0, 0] < 8
    assert cells[4, 0].tolist() == [0, 0, 1, 0]
    torch.testing.assert_close(cells[:, 1, 1], torch.tensor([-0.5, 0.0, 0.5, 0.5, 0.0]))
    assert cells[:, 1, 3].tolist() == [1] * 5
    outside = encode(torch.cat([values, 1e6 * torch.ones(1, 1, 2)], 1), torch.tensor([[False, True]]), 3)
    assert torch.equal(outside[0, :5], cells)


def test_a_memory_of_the_context_answers_as_the_rows_do(network: PriorFittedNetwork) -> None:
    cells, labels = torch.randn(2, 20, 5, 4).double(), torch.randint(0, 3, (2, 12))
    for layer in network.layers:
        torch.nn.init.normal_(layer.rows.growth)
    expected = network(cells, labels, torch.float64)
    memories = network.read(cells[:, :12], labels, torch.float64)
    assert len(memories) == 2
    torch.testing.assert_close(network.answer(cells[:, 12:], labels, memories), expected)
    torch.testing.assert_close(network.answer(cells[:, 15:16], labels, memories), expected[:, 3:4])


def test_predictions_ignore_the_order_of_context_rows_and_other_query_rows(network: PriorFittedNetwork) -> None:
    cells, labels = torch.randn(2, 20, 5, 4).double(), torch.randint(0, 3, (2, 12))
    expected = network(cells, labels, torch.float64)
    order = torch.randperm(12)
    shuffled = torch.cat([cells[:, order], cells[:, 12:]], 1)
    torch.testing.assert_close(network(shuffled, labels[:, order], torch.float64), expected)
    torch.testing.assert_close(network(cells[:, :13], labels, torch.float64), expected[:, :1])


def test_labels_and_cells_of_the_context_matter(network: PriorFittedNetwork) -> None:
    cells, labels = torch.randn(1, 20, 5, 4).double(), torch.arange(12).unsqueeze(0) % 3
    expected = network(cells, labels, torch.float64)
    assert not torch.allclose(network(cells, labels.flip(1), torch.float64), expected)
    changed = cells.clone()
    changed[:, 0] += 1
    assert not torch.allclose(network(changed, labels, torch.float64), expected)


def test_classes_without_context_rows_have_no_probability(network: PriorFittedNetwork) -> None:
    labels = torch.tensor([[0, 1, 0, 1], [2, 3, 4, 2]])
    probabilities = network(torch.randn(2, 6, 3, 4).double(), labels, torch.float64).softmax(2)
    assert (probabilities[0, :, :2] > 0).all()
    assert (probabilities[0, :, 2:] == 0).all()
    assert (probabilities[1, :, 2:5] > 0).all()
    assert probabilities[1, :, [0, 1, 5, 9]].sum() == 0


def test_orthogonalized_matrices_have_singular_values_near_1() -> None:
    matrices = torch.randn(3, 12, 30, generator=torch.Generator().manual_seed(1))
    for each in (orthogonalized(matrices), orthogonalized(matrices.transpose(1, 2))):
        singular = torch.linalg.svdvals(each)
        assert singular.min() > 0.5
        assert singular.max() < 1.3
    u, _, vh = torch.linalg.svd(matrices[0], full_matrices=False)
    cosine = torch.nn.functional.cosine_similarity(orthogonalized(matrices)[0].flatten(), (u @ vh).flatten(), dim=0)
    assert cosine > 0.98


def test_muon_takes_steps_of_the_size_of_adam() -> None:
    """Squares of packed matrices are orthogonalized each by itself; other parameters take steps of Adam."""
    network = PriorFittedNetwork(SMALL)
    before = {name: p.clone() for name, p in weights_of(network).items()}
    for p in network.parameters():
        p.grad = torch.randn_like(p)
    Muon(network, weight_decay=0).step(0.01)
    moved = {name: before[name] - p for name, p in weights_of(network).items()}
    packed = moved["layers.0.columns.query_key_value.weight"]
    for square in packed.split(16):
        assert torch.linalg.svdvals(square / (0.01 * 0.2 * 16**0.5)).max() < 1.3
        assert 0.7 * 0.002 < square.square().mean().sqrt() < 1.2 * 0.002
    torch.testing.assert_close(moved["tags"].abs(), torch.full_like(moved["tags"], 0.01), rtol=1e-3, atol=1e-6)
    assert all(p.grad is None for p in network.parameters())


def test_a_predictor_reads_its_file_and_averages_permutations(tmp_path: Path) -> None:
    file = tmp_path / "network.safetensors"
    save_network(file, weights_of(PriorFittedNetwork(SIZES["tiny"])), "tiny")
    rng = np.random.default_rng(0)
    context, query, labels = rng.normal(size=(30, 5)), rng.normal(size=(7, 5)), rng.integers(0, 3, 30)
    context[0, 0] = np.nan
    kinds = np.array([False, False, True, False, False])
    predictor = Predictor.load(file, permutations=3)
    probabilities = predictor.predict(context, kinds, labels, query, n_classes=3, seed=0)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    again = Predictor.load(file, permutations=3).predict(context, kinds, labels, query, n_classes=3, seed=0)
    np.testing.assert_array_equal(probabilities, again)
    one = Predictor.load(file, permutations=1).predict(context, kinds, labels, query, n_classes=3, seed=0)
    assert not np.allclose(one, probabilities)
    with pytest.raises(ValueError, match="at most 10 classes"):
        predictor.predict(context, kinds, labels, query, n_classes=11, seed=0)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 13, 3, 7), (1, 70, 16, 33), (40, 128, 2, 100)])
@pytest.mark.parametrize("labels_only", [False, True])
def test_the_fused_layer_computes_and_learns_as_the_layer_does(
    shape: tuple[int, int, int, int], labels_only: bool
) -> None:
    from benchmarks.prior.fused import fused_layer

    torch.manual_seed(0)
    *sizes, n_keys = shape
    layer = Layer(Size(width=96, layers=2, heads=3, hidden=2)).cuda()
    for parameter in layer.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    x = torch.randn(*sizes, 96, device="cuda", dtype=torch.bfloat16)
    upstream = torch.randn(*sizes[:2], 1 if labels_only else sizes[2], 96, device="cuda")
    results: list[list[torch.Tensor]] = []
    for fused in (False, True):
        leaf = x.clone().requires_grad_()
        layer.zero_grad()
        y = (
            fused_layer(layer, leaf, n_keys, labels_only=labels_only)
            if fused
            else layer(leaf, n_keys, labels_only=labels_only)[0]
        )
        (y * upstream).sum().backward()
        results.append([y, leaf.grad, *(p.grad for p in layer.parameters())])
    for own, other in zip(*results, strict=True):
        assert (own - other).norm() <= 0.02 * own.norm()
