"""Presets: models as their papers have them, which run only where `--models` names them."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.describe import RecordingTrial, search_space
from tabapp.models.presets import Preset

SHAPE = Shape(2_000, 8, 2, 2)


class Fixed:
    """A trial that draws one choice."""

    def __init__(self, choice: object) -> None:
        self.choice = choice

    def suggest_categorical(self, name: str, choices: list[object]) -> object:
        assert self.choice in choices
        return self.choice


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


def test_npt_small_is_tuned_among_the_eight_variants_of_its_sweep():
    plugin = registry.get("npt:small")
    base = plugin.defaults("binary", SHAPE, "cpu")
    assert (base.d_embedding, base.n_layers, base.n_heads, base.flat, base.cycles) == (128, 8, 8, 0.5, 0)
    assert (base.target_masking, base.feature_masking, base.learning_rate) == (1.0, 0.15, 1e-3)
    (drawn,) = search_space(plugin, "binary", SHAPE, "cpu")
    assert len(drawn.choices) == 8
    changed = []
    for choice in drawn.choices:
        params = plugin.search_space(Fixed(choice), "binary", SHAPE, "cpu")
        before, after = map(msgspec.structs.asdict, (base, params))
        changed.append({name: value for name, value in after.items() if value != before[name]})
    assert changed == [
        {},
        {"n_layers": 16},
        {"n_heads": 16},
        {"n_layers": 16, "n_heads": 16},
        {"target_masking": 0.1},
        {"target_masking": 0.5},
        {"feature_masking": 0.2},
        {"cycles": 2},
    ]


def test_presets_do_not_compete_by_default():
    assert not {*registry.names()} & {*registry.presets()}
