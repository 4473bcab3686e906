"""How models and metrics are found: entry points of installed packages, and files in the user's plugin folder.

Listing names imports no plugin, and what a class states about itself can be read from its source. `tabapp.models.registry` and
`tabapp.metrics.registry` each have a `Discovery`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from tabapp.errors import UsageError
from tabapp.plugin_files import UnsafePlugin, load_module

T = TypeVar("T")


@dataclass(frozen=True)
class Found(Generic[T]):
    """The result of looking a plugin up.

    Attributes:
        plugin: None if it cannot be imported or is of another kind.
        reason: why it cannot be used; None if it can.
    """

    name: str
    plugin: T | None
    reason: str | None


class Discovery(Generic[T]):
    """The installed plugins of one kind.

    Args:
        what: what one is called in messages, such as "model".
        kind: the class of the plugins. An entry point refers to an instance, or to a subclass that takes no arguments.
        groups: the groups of their entry points.
        files: returns the files of the plugin folder that define one, by name.
        in_module: returns the plugin with a name from the module of such a file; may raise anything.
        why_unusable: why a plugin that has been found under a name cannot be used, or None.
    """

    def __init__(
        self,
        what: str,
        kind: type[T],
        groups: tuple[str, ...],
        files: Callable[[], dict[str, Path]],
        in_module: Callable[[ModuleType, str], object],
        why_unusable: Callable[[str, T], str | None],
    ) -> None:
        self._what, self._kind, self._groups, self._files = what, kind, groups, files
        self._in_module, self._why_unusable = in_module, why_unusable
        self._found: dict[str, Found[T]] = {}

    def forget(self) -> None:
        """Import plugins again that were found."""
        self._found.clear()

    def is_found(self, name: str) -> bool:
        """Whether a plugin has been looked up."""
        return name in self._found

    def find(self, name: str) -> Found[T]:
        """Import one plugin, of an entry point before a file of its name. An error becomes the reason, not an exception."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def get(self, name: str) -> T:
        """A plugin that can be used.

        Raises:
            UsageError: it cannot be used.
        """
        found = self.find(name)
        if found.plugin is None or found.reason:
            raise UsageError(f"The {self._what} {name!r} cannot be used: {found.reason}.")
        return found.plugin

    def _look_up(self, name: str) -> Found[T]:
        point, file = entry_point(name, self._groups), self._files().get(name)
        try:
            if point is not None:
                plugin: Any = point.load()
                plugin = plugin() if isinstance(plugin, type) else plugin
            elif file is not None:
                plugin = self._in_module(load_module(file), name)
            else:
                return Found(name, None, f"no {self._what} named {name!r} is installed")
        except UnsafePlugin as error:
            return Found(name, None, str(error))
        except Exception as error:
            return Found(name, None, f"its plugin does not load: {type(error).__name__}: {error}")
        if not isinstance(plugin, self._kind):
            return Found(name, None, f"{point.value if point else file} is not a tabapp {self._kind.__name__}")
        return Found(name, plugin, self._why_unusable(name, plugin))


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


def entry_point(name: str, groups: tuple[str, ...]) -> EntryPoint | None:
    """The entry point with a name in the first of some groups that has one."""
    return next((points(group)[name] for group in groups if name in points(group)), None)


def stated(member: str, point: EntryPoint | None, file: Path | None) -> Any:
    """The literal that the class of a plugin assigns to a member on one line of its own source, which is not imported.

    Args:
        point: refers to the class; None if a file of the plugin folder defines it.

    Returns:
        None if the class itself assigns no literal; what a base class assigns is not found.
    """
    of_class = rf"^class {re.escape(point.attr) if point else '[a-zA-Z_0-9]+'}\b.*?(?=^class |\Z)"
    of_member = re.compile(rf"^    {member}(?:: [^=\n]+)? = (.+)$", re.MULTILINE)
    for source in _sources(point.module) if point else [file] if file else []:
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        for of_plugin in re.finditer(of_class, text, re.MULTILINE | re.DOTALL):
            if found := of_member.search(of_plugin[0]):
                return _literal(found[1])
    return None


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


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
