"""Pre-trained models start by themselves where the committed results show a gain, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.lab.unlabeled_rows import gained_with, gains
from benchmarks.machine import RESULTS, Results
from tabapp.models import registry
from tabapp.nn.pretraining import MEASURED, Pretrained


def test_models_follow_the_committed_results():
    results = msgspec.json.decode((RESULTS / "unlabeled_rows.json").read_bytes(), type=Results)
    rule = gained_with(results.results)
    for name in registry.variants():
        plugin = registry.get(name)
        assert isinstance(plugin, Pretrained)
        assert plugin.gained_with == rule.get(name, ()), f"set {name}.gained_with to {rule.get(name, ())}"
        assert set(plugin.gained_with) <= set(MEASURED)


def scores(differences: list[float], catboost: float, labeled: int = 50) -> dict[str, float]:
    """Scores of one draw of as many tables as there are differences between a network with and without pre-training."""
    found: dict[str, float] = {}
    for i, difference in enumerate(differences):
        values = {"tabnet": 0.5, "tabnet_pretrained": 0.5 + difference, "catboost": catboost, "self_training": 0.1}
        found |= {f"t{i}/{labeled}/{model}/0": value for model, value in values.items()}
    return found


@pytest.mark.parametrize(
    ("differences", "catboost", "starts"),
    [
        ([0.1, 0.2, 0.1, 0.2], 0.4, (50,)),
        ([0.1, 0.2, 0.1, 0.2], 0.65, (50,)),  # Better than CatBoost on two tables of four.
        ([0.1, 0.2, 0.1, 0.2], 0.9, ()),  # Always behind CatBoost.
        ([0.3, -0.2, 0.1, -0.1], 0.4, ()),  # The spread over tables is larger than the gain.
        ([0.1, 0.2, 0.1], 0.4, ()),  # Too few tables.
    ],
)
def test_a_gain_exceeds_the_spread_and_the_rivals(differences, catboost, starts):
    assert gained_with(scores(differences, catboost)) == {"tabnet_pretrained": starts}


def test_numbers_of_labeled_rows_without_a_gain_do_not_count():
    found = scores([0.1, 0.2, 0.1, 0.2], 0.4, 50) | scores([-0.1] * 4, 0.4, 200) | scores([0.1] * 4, 0.4, 1000)
    assert gained_with(found) == {"tabnet_pretrained": (50, 1000)}
    assert [gain.starts for gain in gains(found)] == [True, False, True]


def test_a_score_below_a_constant_counts_as_one():
    found = scores([0.1] * 4, 0.4)
    found |= {f"t{i}/50/tabnet/0": -5.0 for i in range(4)}
    (gain,) = gains(found)
    assert gain.mean == pytest.approx(0.6)
