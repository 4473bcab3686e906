"""How models are found: entry points of the group `tabapp.models`, and files in the user's plugin folder, looked up without
importing any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from tabapp.errors import UsageError, did_you_mean
from tabapp.models.contract import Plugin
from tabapp.plugin_files import load_module, model_files

GROUP = "tabapp.models"


@dataclass(frozen=True)
class Found:
    """A model that is installed, and whether it can be used here.

    `plugin` is None and `reason` says why when its module does not import or it lacks a package.
    """

    name: str
    plugin: Plugin | None
    reason: str | None


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def unused_files() -> list[Path]:
    """Files of the plugin folder that nothing asks for, since an installed model has their name."""
    return [file for name, file in model_files().items() if name in _entry_points()]


def names() -> list[str]:
    """Names of all installed models, tabapp's own first; nothing is imported."""
    found = _entry_points()
    ours = sorted(name for name in found if found[name].value.startswith("tabapp_plugins."))
    return ours + sorted((set(found) | set(model_files())) - set(ours))


def check_names(wanted: list[str] | tuple[str, ...]) -> None:
    """Refuse names that are not installed models.

    Raises:
        UsageError: names the first wrong one and the nearest right one.
    """
    known = names()
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known) or f"; the models are {', '.join(known)}."
            raise UsageError(f"There is no model named {name!r}{hint}")


@cache
def find(name: str) -> Found:
    """Import one model's plugin. A broken plugin is a reason, never an exception."""
    point, file = _entry_points().get(name), model_files().get(name)
    if point is None and file is None:
        return Found(name, None, f"no model named {name!r} is installed")
    try:
        plugin = point.load()() if point is not None else _of_file(model_files()[name])
    except Exception as error:
        return Found(name, None, f"its plugin does not load: {type(error).__name__}: {error}")
    if not isinstance(plugin, Plugin):
        return Found(name, None, f"{point.value if point else file} is not a tabapp Plugin")
    missing = [package for package in plugin.requires if find_spec(package) is None]
    return Found(name, plugin, f"needs the package {missing[0]}" if missing else None)


def get(name: str) -> Plugin:
    """The usable plugin of that name.

    Raises:
        UsageError: it is not installed, does not load, or lacks a package.
    """
    found = find(name)
    if found.plugin is None or found.reason:
        raise UsageError(f"The model {name!r} cannot be used: {found.reason}.")
    return found.plugin


def _of_file(file: Path) -> Plugin:
    """The one plugin that a file of the plugin folder defines.

    Raises:
        ImportError: it does not define exactly one plugin of the file's name.
        Exception: whatever the file raises.
    """
    module = load_module(file)
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Plugin) and value.__module__ == module.__name__
    ]
    matching = [plugin for plugin in classes if getattr(plugin, "name", None) == file.stem]
    if len(matching) != 1:
        raise ImportError(f"{file} must define a Plugin whose name is {file.stem!r}")
    return matching[0]()
