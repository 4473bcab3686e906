"""TabNet's masks, shared layers and losses compared with the paper."""

from __future__ import annotations

from math import log
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.tabnet import Decisions, TabNet, TabNetMethod, TabNetNetwork, TabNetParams
from torch import Tensor

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.objective import Objective
from tests.nn.overfitting import N_ROWS, lowest_training_loss
from tests.plugins.tables import make_context, make_table

MIXED = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1)


def mixed_rows(n_rows: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n_rows, 4), torch.stack([torch.arange(n_rows) % 5, torch.arange(n_rows) % 3], 1)


@pytest.mark.parametrize("training", [True, False])
def test_masks_are_sparse_distributions(training: bool) -> None:
    torch.manual_seed(0)
    network = TabNetNetwork(MIXED, TabNetParams(n_steps=4)).train(training)
    decided = network.decide(*mixed_rows(300))
    assert decided.masks.shape == (4, 300, 4 + 4 + 3)
    assert decided.masks.min() == 0
    torch.testing.assert_close(decided.masks.sum(-1), torch.ones(4, 300))
    assert (decided.masks == 0).float().mean() > 0.1
    assert decided.decisions.min() >= 0


def test_a_feature_is_used_once_with_a_relaxation_of_one() -> None:
    torch.manual_seed(0)
    network = TabNetNetwork(MIXED, TabNetParams(n_steps=3, relaxation=1.0))
    with torch.no_grad():
        for attend in network.attentions:
            # The first column has by far the highest score before the prior is applied.
            attend.norm.weight.zero_()
            attend.norm.bias.copy_(torch.tensor([10.0] + [0.0] * 10))
    masks = network.decide(*mixed_rows(50)).masks
    assert (masks[0, :, 0] == 1).all()
    torch.testing.assert_close(masks[1:, :, 0], torch.full((2, 50), 1 / 11))
    network.relaxation = 2.0
    again = network.decide(*mixed_rows(50)).masks
    assert (again[:, :, 0] == 1).all()


def test_attention_uses_the_second_half_and_the_decision_the_first() -> None:
    torch.manual_seed(0)
    network = TabNetNetwork(MIXED, TabNetParams(n_steps=1, width=5)).eval()
    x, codes = mixed_rows(40)
    assert network.attentions[0].linear.in_features == 5
    flat = network.input_norm(network.input(x, codes))
    mask = network.attentions[0](torch.ones_like(flat), network.first(flat, network.shared)[:, 5:])
    decision = network.steps[0](mask * flat, network.shared)[:, :5].relu()
    torch.testing.assert_close(network(x, codes), decision @ network.head.weight.T)
    # The masks depend on the row.
    assert network.decide(x, codes).masks.std(1).max() > 0.01


def test_parameter_count() -> None:
    """Shared layers count once; norms belong to every step and layer."""
    n, d, steps = 8, 16, 3
    network = TabNetNetwork(Sizes(n_numeric=n, cardinalities=(), d_out=1), TabNetParams(width=d, n_steps=steps))
    shared = n * 4 * d + 2 * d * 4 * d
    transformer = 2 * (2 * d * 4 * d) + 4 * (2 * 4 * d)
    attentive = d * n + 2 * n
    expected = 2 * n + shared + (steps + 1) * transformer + steps * attentive + d
    assert sum(p.numel() for p in network.parameters()) == expected


@pytest.mark.parametrize(("n_shared", "n_independent"), [(2, 2), (0, 1), (1, 0)])
def test_gradient_reaches_every_parameter(n_shared: int, n_independent: int) -> None:
    torch.manual_seed(0)
    network = TabNetNetwork(MIXED, TabNetParams(n_shared=n_shared, n_independent=n_independent))
    network(*mixed_rows(60)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_gradients_are_finite_for_constant_columns() -> None:
    torch.manual_seed(0)
    network = TabNetNetwork(MIXED, TabNetParams(n_steps=10))
    x, codes = torch.zeros(64, 4), torch.full((64, 2), 2)
    (network(x, codes)[:, 0] - torch.randn(64)).square().mean().backward()
    total = sum(p.grad.square().sum().item() for p in network.parameters() if p.grad is not None)
    assert 0 < total < 1e38


def test_entropy_and_importance_by_hand() -> None:
    masks = torch.tensor([[[0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0]]])
    decisions = torch.tensor([[[1.0, 2.0]], [[0.0, 1.0]]])
    decided = Decisions(masks, decisions)
    assert decided.entropy().item() == pytest.approx(np.log(2) / 2)
    torch.testing.assert_close(decided.importance(), torch.tensor([[0.375, 0.375, 0.25]]))
    silent = Decisions(masks, torch.zeros_like(decisions))
    torch.testing.assert_close(silent.importance(), torch.tensor([[0.25, 0.25, 0.5]]))


def test_mask_entropy_is_part_of_the_loss(tmp_path: Path) -> None:
    torch.manual_seed(0)
    table, spec, _ = make_table("regression", n_rows=64)
    objective = Objective.fit(table, make_context("regression", spec, 1, tmp_path))
    params = TabNetParams(sparsity=0.0)
    network = TabNetNetwork(MIXED, params)
    x, codes = mixed_rows(64)
    target = objective.target(table, torch.device("cpu"))
    plain = TabNetMethod(network, params, objective).loss(torch.arange(64), x, codes, target, None)
    heavy = msgspec.structs.replace(params, sparsity=0.5)
    penalized = TabNetMethod(network, heavy, objective).loss(torch.arange(64), x, codes, target, None)
    entropy = network.decide(x, codes).entropy()
    torch.testing.assert_close(penalized, plain + 0.5 * entropy)
    torch.testing.assert_close(plain, objective.loss(network(x, codes), target, None))


def test_learning_rate_decay_continues_after_a_kill() -> None:
    params = TabNetParams(decay_rate=0.5, decay_steps=10, learning_rate=1.0)
    network = TabNetNetwork(MIXED, params)
    objective = Objective(task="regression", n_classes=1)
    method = TabNetMethod(network, params, objective)
    optimizer = method.optimizer()
    rates = []
    for _ in range(21):
        method.schedule(optimizer, 0.0)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        network(*mixed_rows(8)).sum().backward()
        optimizer.step()
    assert rates[0] == 1.0
    assert rates[10] == pytest.approx(0.5)
    assert rates[20] == pytest.approx(0.25)
    resumed = TabNetMethod(network, params, objective)
    resumed.schedule(optimizer, 0.0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5**2.1)


@pytest.mark.slow
def test_overfits_64_random_rows(tmp_path: Path) -> None:
    """All rows except a few: a row whose decisions are all zero after ReLU has logit 0, loss ln 2 and no gradient. Over
    twelve seeds, this happened to zero to three of 64 rows, depending on rounding; the test allows six.
    """
    params = TabNetParams(width=32, sparsity=0.0, momentum=0.1, learning_rate=1e-2)
    goal = 6 * log(2) / N_ROWS
    assert lowest_training_loss(TabNet(), params, tmp_path, goal=goal, max_epochs=400) < goal


@pytest.mark.slow
def test_masks_select_the_two_informative_features(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    numeric = generator.normal(size=(4000, 10)).astype(np.float32)
    target = (numeric[:, 3] * numeric[:, 7] > 0).astype(np.int64)
    table = Table(numeric, np.zeros((4000, 0), dtype=np.int32), target)
    names = tuple(f"x{i}" for i in range(10))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    params = TabNetParams(batch_size=256, max_epochs=25, sparsity=1e-2)
    context = make_context("binary", spec, 2, tmp_path)
    model = TabNet().fit(table.take(slice(0, 3000)), table.take(slice(3000, None)), params, context)
    attention = model.attention(table)
    assert attention is not None
    assert attention.shape == (4000, 10)
    np.testing.assert_allclose(attention.sum(1), 1, atol=1e-5)
    share = attention.mean(0)
    assert set(np.argsort(share)[-2:]) == {3, 7}
    assert share[[3, 7]].sum() > 0.6
