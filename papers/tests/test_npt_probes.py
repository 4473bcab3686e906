"""Probes of NPT: the lookup task and interventions (Kossen et al. 2021, section 4.2)."""

from __future__ import annotations

import pytest
import torch
from tabapp_plugins.npt.network import NPTNetwork

from papers.npt.probes import LookupTask, looked_up, train_lookup


def lookup_network(task: LookupTask, n_steps: int) -> NPTNetwork:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = NPTNetwork(task.attributes, d_embedding=16, n_layers=4, n_heads=4, dropout=0.0, normalize_keys=True)
    train_lookup(network, task, n_steps=n_steps, n_rows=12, n_sets=8, learning_rate=8e-3, seed=0)
    return network


def lookup_correlation(network: NPTNetwork, task: LookupTask) -> float:
    generator = torch.Generator().manual_seed(99)
    drawn = [task.draw(12, generator) for _ in range(50)]
    said = torch.cat([looked_up(network, each) for each in drawn])
    truth = torch.cat([each.truth for each in drawn])
    return float(torch.corrcoef(torch.stack([said, truth]))[0, 1])


def intervention_slope(network: NPTNetwork, task: LookupTask) -> float:
    """Slope of the prediction against the target of a copy."""
    drawn = task.draw(12, torch.Generator().manual_seed(98))
    values = torch.linspace(-1.5, 1.5, 13)
    said = torch.stack([looked_up(network, drawn.with_targets(value.expand(12)))[0] for value in values])
    centered = values - values.mean()
    return float((centered * (said - said.mean())).sum() / centered.square().sum())


@pytest.mark.slow
def test_learns_the_lookup_task() -> None:
    """Short version of the task: the target is determined by another row only."""
    network = lookup_network(LookupTask(), 300)
    assert lookup_correlation(network, LookupTask()) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("n_random", "added"), [(0, 0.0), (3, 0.0), (0, 1.0), (3, 1.0)])
def test_solves_every_variant_of_the_lookup_task(n_random: int, added: float) -> None:
    """All variants of Table 3, and the interventions of section 4.2."""
    task = LookupTask(n_random=n_random, added=added)
    network = lookup_network(task, 1000)
    assert lookup_correlation(network, task) > 0.99
    assert intervention_slope(network, task) == pytest.approx(1, abs=0.05)
