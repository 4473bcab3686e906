"""The departures of a model from its paper: `NOTE[DIFF]` paragraphs in the docstrings of the code that the model uses."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tabapp.models.contract import Plugin

SHARED = "tabapp.nn"
"""Parts that networks share. Code outside this package and that of the plugin is not followed."""
_NOTE = re.compile(r"NOTE\[DIFF\]:? ")
_Definition = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class _Module:
    """A module: its docstring, its definitions by name, and its imports as module and name by local name."""

    text: str | None
    definitions: dict[str, _Definition]
    imports: dict[str, tuple[str, str]]


def departures(plugin: Plugin) -> tuple[str, ...]:
    """The paragraphs in the module of a plugin, or in all modules of its package, and in the shared code that they use."""
    own = type(plugin).__module__
    package = own.partition(".")[0]
    start = [name for name in _own_modules(plugin) if _read(name) is not None]
    pending = [(name, definition) for name in start for definition in (_read(name) or _EMPTY).definitions]
    pending += [place for name in start for place in (_read(name) or _EMPTY).imports.values()]
    reached: dict[tuple[str, str], None] = {}
    while pending:
        place = pending.pop(0)
        module, name = place
        if place in reached or not _is_followed(module, package) or (found := _read(module)) is None:
            continue
        reached[place] = None
        if name in found.definitions:
            pending += _uses(found, module, found.definitions[name])
        elif name in found.imports:
            pending.append(found.imports[name])
    modules = dict.fromkeys(
        [*start, *(module for module, name in reached if name in (_read(module) or _EMPTY).definitions)]
    )
    notes: dict[str, None] = {}
    for module in modules:
        found = _read(module) or _EMPTY
        texts = [found.text]
        for name, definition in found.definitions.items():
            if (module, name) in reached:
                nodes = [node for node in ast.walk(definition) if isinstance(node, _Definition)]
                texts += [ast.get_docstring(node) for node in nodes]
        notes |= dict.fromkeys(note for text in texts for note in notes_of(text))
    return tuple(notes)


def notes_of(docstring: str | None) -> Iterator[str]:
    """The paragraphs on departures in a docstring, without their mark."""
    for paragraph in paragraphs(docstring):
        if match := _NOTE.match(paragraph):
            yield paragraph[match.end() :]


def without_notes(docstring: str | None) -> str:
    """A docstring without its paragraphs on departures."""
    return "\n\n".join(text for text in paragraphs(docstring) if text and not _NOTE.match(text))


def paragraphs(docstring: str | None) -> Iterator[str]:
    """The paragraphs of a docstring, each on one line."""
    for paragraph in (docstring or "").split("\n\n"):
        yield " ".join(paragraph.split())


_EMPTY = _Module(None, {}, {})


def _own_modules(plugin: Plugin) -> list[str]:
    own = type(plugin).__module__
    source = inspect.getsourcefile(type(plugin))
    if source is None:
        return []
    file = Path(source)
    # A model with several files has a package, whose `__init__.py` exports the plugin.
    package = file.parent / "__init__.py"
    if package.is_file() and type(plugin).__name__ in package.read_text(encoding="utf-8"):
        parent = own.rpartition(".")[0]
        return [f"{parent}.{each.stem}" for each in sorted(file.parent.glob("*.py")) if each.stem != "__init__"]
    return [own]


def _is_followed(module: str, package: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in (SHARED, package))


@cache
def _read(module: str) -> _Module | None:
    """Read a module without importing it; None if it has no source."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        return None
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    is_package = found.submodule_search_locations is not None
    definitions = {node.name: node for node in tree.body if isinstance(node, _Definition)}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = _absolute(node, module, is_package=is_package)
            imports |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
    return _Module(ast.get_docstring(tree), definitions, imports)


def _absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def _uses(found: _Module, module: str, definition: _Definition) -> list[tuple[str, str]]:
    """What a definition refers to, in its module or in others."""
    names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    return [(module, name) for name in sorted(names & set(found.definitions))] + [
        found.imports[name] for name in sorted(names & set(found.imports))
    ]
