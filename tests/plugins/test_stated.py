"""The classes of the built-in plugins state what the engine needs to know before it imports them."""

from __future__ import annotations

import pytest

from tabapp.models import registry
from tabapp.models.stated import libraries_of, stated_libraries, stated_title, warming_up

NAMES = [*registry.names(), *registry.variants()]


@pytest.mark.parametrize("name", NAMES)
def test_stated_members_are_those_of_the_plugin(name: str) -> None:
    plugin = registry.find(name).plugin
    assert plugin is not None
    assert stated_title(name) == plugin.title
    assert stated_libraries(name) == libraries_of(plugin.requires)


def test_the_models_that_warm_up_a_gpu() -> None:
    plugins = {name: registry.find(name).plugin for name in registry.names()}
    assert warming_up() == [name for name, plugin in plugins.items() if plugin is not None and plugin.warms_up]


def test_an_unknown_model_may_need_anything() -> None:
    assert stated_libraries("no_such_model") == "torch"
    assert stated_title("no_such_model") == "no_such_model"
