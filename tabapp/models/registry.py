"""Discovery of model plugins: entry points of the group `tabapp.models`, and files in the user's plugin folder. Listing their
names imports none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from tabapp.errors import UsageError, did_you_mean
from tabapp.models.contract import Plugin
from tabapp.plugin_files import UnsafePlugin, load_module, model_files

GROUP = "tabapp.models"
VARIANTS = "tabapp.variants"
"""Entry points of models that compete only in runs with rows without a target."""
_BUILT_IN = "tabapp_plugins"
TAG_MEMBERS = {
    "core": "starts_first",
    "attention": "has_attention",
    "imputation": "can_impute",
    "training_rows": "contains_training_rows",
}
"""Tags that once changed how tabapp treats a plugin, and the members of the contract that do so now. Ignoring such a tag could
drop the privacy notice for training rows, so a plugin that still has one is unavailable until it is updated."""


@dataclass(frozen=True)
class Found:
    """The result of looking a model up.

    Attributes:
        plugin: None if its module cannot be imported or is not a plugin.
        reason: why the model is unavailable; None if it is available.
    """

    name: str
    plugin: Plugin | None
    reason: str | None


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _variants() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=VARIANTS)}


def variants() -> list[str]:
    """Names of the models that compete only in runs with rows without a target. Imports no plugin."""
    return sorted(_variants())


def is_built_in(plugin: Plugin) -> bool:
    """Whether a plugin belongs to tabapp itself."""
    return type(plugin).__module__.partition(".")[0] == _BUILT_IN


def has_only_built_in() -> bool:
    """Whether no plugin of others is installed. Imports no plugin."""
    return not model_files() and all(point.value.startswith(f"{_BUILT_IN}.") for point in _entry_points().values())


def unused_files() -> list[Path]:
    """Plugin-folder files that are ignored because an installed model has the same name."""
    return [file for name, file in model_files().items() if name in _entry_points()]


def names() -> list[str]:
    """Names of all models, built-in ones first. Imports no plugin."""
    found = _entry_points()
    ours = sorted(name for name in found if found[name].value.startswith(f"{_BUILT_IN}."))
    return ours + sorted((set(found) | set(model_files())) - set(ours))


def check_names(wanted: list[str] | tuple[str, ...]) -> None:
    """Check that every name belongs to a model.

    Raises:
        UsageError: a name is unknown; the message suggests the closest known name.
    """
    known = [*names(), *variants()]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known) or f"; the models are {', '.join(known)}."
            raise UsageError(f"There is no model named {name!r}{hint}")


@cache
def find(name: str) -> Found:
    """Import the plugin of one model. An error in the plugin becomes the reason, not an exception."""
    point, file = _entry_points().get(name) or _variants().get(name), model_files().get(name)
    if point is None and file is None:
        return Found(name, None, f"no model named {name!r} is installed")
    try:
        plugin = point.load()() if point is not None else _of_file(model_files()[name])
    except UnsafePlugin as error:
        return Found(name, None, str(error))
    except Exception as error:
        return Found(name, None, f"its plugin does not load: {type(error).__name__}: {error}")
    if not isinstance(plugin, Plugin):
        return Found(name, None, f"{point.value if point else file} is not a tabapp Plugin")
    return Found(name, plugin, _unavailable(plugin))


def title_in_source(name: str) -> str:
    """The title of a model as the source of its plugin states it, or its name. Imports no plugin, which may take seconds."""
    point = _entry_points().get(name) or _variants().get(name)
    if point is None:
        files, of_class = [model_files()[name]] if name in model_files() else [], r"\w+"
    else:
        files, of_class = _sources(point.module), re.escape(point.attr)
    stated = re.compile(
        rf"^class {of_class}\b(?:(?!^class ).)*?^    title(?:: [^=\n]+)? = ([\"'])(.+?)\1", re.MULTILINE | re.DOTALL
    )
    for file in files:
        try:
            match = stated.search(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if match is not None:
            return match[2]
    return name


def _sources(module: str) -> list[Path]:
    """The files of a module or a package. Imports none of them."""
    root, *rest = module.split(".")
    spec = find_spec(root)
    if spec is None or spec.origin is None:
        return []
    if not spec.submodule_search_locations:
        return [Path(spec.origin)]
    place = Path(spec.origin).parent.joinpath(*rest)
    return sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def _unavailable(plugin: Plugin) -> str | None:
    missing = [package for package in plugin.requires if find_spec(package) is None]
    if missing:
        return f"needs the package {missing[0]}"
    removed = [tag for tag in getattr(plugin, "tags", ()) if tag in TAG_MEMBERS]
    if removed:
        return f"its tag {removed[0]!r} is no longer read; set `{TAG_MEMBERS[removed[0]]} = True` in its class instead"
    return None


def get(name: str) -> Plugin:
    """The plugin of an available model.

    Raises:
        UsageError: the model is unknown or unavailable.
    """
    found = find(name)
    if found.plugin is None or found.reason:
        raise UsageError(f"The model {name!r} cannot be used: {found.reason}.")
    return found.plugin


def _of_file(file: Path) -> Plugin:
    """Import a plugin-folder file and create its plugin.

    Raises:
        ImportError: the file does not define exactly one plugin with the file's name.
        Exception: any error raised by the file itself.
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
