"""Presets: models as their papers have them, which run only where `--models` names them."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.describe import RecordingTrial
from tabapp.models.presets import Preset

SHAPE = Shape(2_000, 8, 2, 2)


@pytest.mark.parametrize("name", registry.presets())
def test_a_preset_belongs_to_a_model_and_says_what_it_is(name):
    plugin, model = registry.get(name), registry.get(name.partition(":")[0])
    assert plugin.name == name
    assert isinstance(plugin, type(model))
    assert type(plugin).__doc__ not in (None, type(model).__doc__)
    assert plugin.portfolio("binary", SHAPE, "cpu") == ()


@pytest.mark.parametrize("name", registry.presets())
def test_all_trials_of_a_preset_have_its_values(name):
    plugin = registry.get(name)
    assert isinstance(plugin, Preset)
    drawn = plugin.search_space(RecordingTrial(), "binary", SHAPE, "cpu")
    for params in (plugin.defaults("binary", SHAPE, "cpu"), drawn):
        values = msgspec.structs.asdict(params)
        assert {key: values[key] for key in plugin.fixed} == plugin.fixed


def test_the_published_sizes_are_those_of_every_device():
    for name in ("ft_transformer:paper", "npt:base", "npt:small"):
        plugin = registry.get(name)
        assert plugin.defaults("binary", SHAPE, "cpu") == plugin.defaults("binary", SHAPE, "cuda:0")


def test_presets_do_not_compete_by_default():
    assert not {*registry.names()} & {*registry.presets()}
