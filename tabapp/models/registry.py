"""Discovery of model plugins. Listing their names imports none of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from tabapp.discovery import Discovery, Found, entry_point, points
from tabapp.errors import UsageError, did_you_mean
from tabapp.models.contract import Plugin
from tabapp.models.stated import GROUP, GROUPS, PRESETS, VARIANTS
from tabapp.plugin_files import model_files
from tabapp.weights import store

_BUILT_IN = "tabapp_plugins"
TAG_MEMBERS = {
    "core": "starts_first",
    "attention": "has_attention",
    "imputation": "can_impute",
    "training_rows": "contains_training_rows",
}
"""Tags that once changed how tabapp treats a plugin, and the members of the contract that do so now. Ignoring such a tag could
drop the privacy notice for training rows, so a plugin that still has one is unavailable until it is updated."""


def variants() -> list[str]:
    """Names of the models that compete only in runs with rows without a target. Imports no plugin."""
    return sorted(points(VARIANTS))


def presets() -> list[str]:
    """Names of the models that compete only if they are named, such as `npt:base`. Imports no plugin."""
    return sorted(points(PRESETS))


def is_built_in(plugin: Plugin) -> bool:
    """Whether a plugin belongs to tabapp itself."""
    return type(plugin).__module__.partition(".")[0] == _BUILT_IN


def are_built_in(models: Iterable[str]) -> bool:
    """Whether all models of these names belong to tabapp itself. Imports no plugin."""
    found = [entry_point(model, GROUPS) for model in models]
    return all(point is not None and point.value.startswith(f"{_BUILT_IN}.") for point in found)


def has_only_built_in() -> bool:
    """Whether no plugin of others is installed. Imports no plugin."""
    return not model_files() and len(_built_in()) == len(points(GROUP))


def unused_files() -> list[Path]:
    """Plugin-folder files that are ignored because an installed model has the same name."""
    return [file for name, file in model_files().items() if name in points(GROUP)]


def names() -> list[str]:
    """Names of all models, built-in ones first. Imports no plugin."""
    ours = _built_in()
    return ours + sorted({*points(GROUP), *model_files()} - set(ours))


def _built_in() -> list[str]:
    return sorted(name for name, point in points(GROUP).items() if point.value.startswith(f"{_BUILT_IN}."))


def check_names(wanted: list[str] | tuple[str, ...]) -> None:
    """Check that every name belongs to a model.

    Raises:
        UsageError: a name is unknown; the message suggests the closest known name.
    """
    known = [*names(), *variants(), *presets()]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known) or f"; the models are {', '.join(known)}."
            raise UsageError(f"There is no model named {name!r}{hint}")


def _why_unusable(name: str, plugin: Plugin) -> str | None:
    missing = [package for package in plugin.requires if find_spec(package) is None]
    if missing:
        return f"needs the package {missing[0]}"
    removed = [tag for tag in getattr(plugin, "tags", ()) if tag in TAG_MEMBERS]
    if removed:
        return f"its tag {removed[0]!r} is no longer read; set `{TAG_MEMBERS[removed[0]]} = True` in its class instead"
    return None


def _in_module(module: ModuleType, name: str) -> Plugin:
    """The plugin that a plugin-folder file defines.

    Raises:
        ImportError: the file does not define exactly one plugin with the file's name.
        Exception: any error raised by the class.
    """
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Plugin) and value.__module__ == module.__name__
    ]
    matching = [plugin for plugin in classes if getattr(plugin, "name", None) == name]
    if len(matching) != 1:
        raise ImportError(f"{module.__file__} must define a Plugin whose name is {name!r}")
    return matching[0]()


def is_loaded(name: str) -> bool:
    """Whether the plugin of a model has been imported, or tried to."""
    return MODELS.is_found(name)


MODELS = Discovery("model", Plugin, GROUPS, model_files, _in_module, _why_unusable)


def find(name: str) -> Found[Plugin]:
    """Import one plugin; an error becomes the reason, not an exception. Weights that are installed later are seen."""
    found = MODELS.find(name)
    plugin = found.plugin
    if plugin is None or found.reason or not plugin.weights or store.has_any(plugin.weights):
        return found
    return replace(found, reason=f"weights not installed: `{plugin.weights[0].command}`")


def get(name: str) -> Plugin:
    """A plugin that can train a model.

    Raises:
        UsageError: it cannot be used.
    """
    found = find(name)
    if found.plugin is None or found.reason:
        raise UsageError(f"The model {name!r} cannot be used: {found.reason}.")
    return found.plugin


def trains_nothing(name: str) -> bool:
    """Whether a model trains nothing, as `Plugin` has it; False for a model that is not installed."""
    plugin = MODELS.find(name).plugin
    return plugin is not None and plugin.trains_nothing


def get_to_load(name: str) -> Plugin:
    """A plugin that can load a model; the bundle of the model may contain the weights that are not installed.

    Raises:
        UsageError: it cannot be used.
    """
    return MODELS.get(name)
