"""Descriptions of models agree with what the plugins do."""

from __future__ import annotations

import optuna
import pytest

from tabapp.models import registry
from tabapp.models.contract import Params, Shape
from tabapp.models.departures import departures
from tabapp.models.describe import REFERENCE_SHAPE, Distribution, describe, field_texts, search_space

NAMES = [name for name in registry.names() if registry.find(name).reason is None]


@pytest.mark.parametrize("name", NAMES)
def test_sampled_parameters_are_in_the_described_search_space(name: str) -> None:
    plugin = registry.get(name)
    described = {each.name: each for each in search_space(plugin, plugin.tasks[0], REFERENCE_SHAPE, "cpu")}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn: set[str] = set()
    for _ in range(100):
        trial = study.ask()
        plugin.search_space(trial, plugin.tasks[0], REFERENCE_SHAPE, "cpu")
        for draw, distribution in trial.distributions.items():
            expected = described[draw]
            if isinstance(distribution, optuna.distributions.CategoricalDistribution):
                assert distribution.choices == expected.choices
            else:
                assert (distribution.low, distribution.high, distribution.log) == (
                    expected.low,
                    expected.high,
                    expected.log,
                )
            assert all(trial.params[other] in values for other, values in expected.condition)
        drawn |= set(trial.distributions)
    assert drawn == set(described)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_has_a_complete_description(name: str) -> None:
    plugin = registry.get(name)
    description = describe(plugin)
    assert description.title
    assert description.paper
    assert [each.name for each in description.hyperparameters] == list(plugin.params_type.__struct_fields__)
    assert description.costs
    assert all(each.cost.seconds > 0 for each in description.costs)
    assert any(each.shape.n_features == 0 for each in description.skipped)
    for each in description.skipped:
        assert plugin.supports(each.task, each.shape) == each.reason


class BaseParams(Params, frozen=True, kw_only=True):
    """Shared fields.

    Attributes:
        rate, decay: of the optimizer,
            in units of nothing.
    """

    rate: float = 1.0
    decay: float = 0.0


class DerivedParams(BaseParams, frozen=True, kw_only=True):
    """Attributes:
    width: number of units: at least 1.
    rate: another description.

    A paragraph that describes no field.
    """

    width: int = 4


def test_field_texts_come_from_the_class_and_its_bases() -> None:
    assert field_texts(DerivedParams) == {
        "rate": "another description.",
        "decay": "of the optimizer, in units of nothing.",
        "width": "number of units: at least 1.",
    }


class Nested:
    """Draws `depth` only with `use_depth`, and `width` only with a depth above 1."""

    def search_space(self, trial, task, shape, device):
        if trial.suggest_categorical("use_depth", [False, True]) and trial.suggest_int("depth", 1, 3) > 1:
            trial.suggest_float("width", 0.5, 2.0, log=True)


def test_conditions_of_nested_draws_are_found() -> None:
    found = search_space(Nested(), "binary", Shape(1_000, 4, 2, 2), "cpu")  # pyright: ignore[reportArgumentType]
    assert found == (
        Distribution("use_depth", "categorical", choices=(False, True)),
        Distribution("depth", "int", 1, 3, 1, condition=(("use_depth", (True,)),)),
        Distribution("width", "float", 0.5, 2.0, log=True, condition=(("use_depth", (True,)), ("depth", (2, 3)))),
    )


def test_departures_of_shared_code_are_those_that_the_model_uses():
    """A note counts where the model's code leads to it: not that of every file of the package."""
    found = {name: " ".join(departures(registry.get(name))) for name in ("mlp", "resnet", "tabr", "npt", "lightgbm")}
    for name in ("mlp", "resnet"):
        assert "averaging replaces" in found[name]
        assert "Clipped to the range of the training target" in found[name]
        assert "`unseen_rate`" in found[name]
        assert "retrieve neighbors from the early-stopping rows" not in found[name]
        assert "pre-train" not in found[name]
    assert "retrieve neighbors from the early-stopping rows" in found["tabr"]
    assert "averaging replaces" not in found["npt"], "it has a training loop of its own"
    assert "1/256" in found["npt"]
    assert "averaging" not in found["lightgbm"]
    variant = " ".join(departures(registry.get("ft_transformer_pretrained")))
    assert "pre-train with one of the two tasks" in variant
