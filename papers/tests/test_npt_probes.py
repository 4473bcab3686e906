"""Probes of NPT: the lookup task, interventions, corruption and deletion (Kossen et al. 2021, sections 4.2 to 4.4)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.network import NPTNetwork

from papers.npt_probes import LookupTask, corrupted_predictions, deletion, looked_up, train_lookup
from tests.plugins.networks.test_npt import fit, made


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> NPTModel:
    return fit(made(240), made(60, 1), tmp_path_factory.mktemp("npt"), also_predict=("b", "k"))


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


def test_corruption_removes_only_the_information_of_other_rows(model: NPTModel, tmp_path: Path) -> None:
    test = made(6, 3)
    first, second = (corrupted_predictions(model, test, seed) for seed in (0, 0))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, model.predict(test))
    # Permutations have no effect on identical rows.
    same = NPTModel(
        model.network, model.saved, model.context.take(torch.zeros(300).long()), model.source, model.draws, model.device
    )
    np.testing.assert_allclose(corrupted_predictions(same, test, 0), same.predict(test), rtol=1e-5)


@pytest.mark.slow
def test_deletion_keeps_few_of_many_identical_rows(model: NPTModel) -> None:
    rows = torch.arange(60)
    small = NPTModel(model.network, model.saved, model.context, model.source, rows[None], model.device)
    found = deletion(small, made(1, 3), seed=0)
    assert 1 <= len(found.kept) <= 60
    assert found.kept_distance > 0
    assert found.random_distance > 0
    alike = NPTModel(
        model.network, model.saved, model.context.take(torch.zeros(300).long()), model.source, rows[None], model.device
    )
    assert len(deletion(alike, made(1, 3), seed=0).kept) == 1
    no_target = NPTModel(
        model.network,
        msgspec.structs.replace(model.saved, objective=None),
        model.context,
        model.source,
        model.draws,
        model.device,
    )
    with pytest.raises(ValueError, match="numeric target"):
        deletion(no_target, made(1, 3), seed=0)
