"""A metric and a model are named where they are declared, and nowhere else in the program."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import tabapp
from tabapp import metrics
from tabapp.models.stated import BOOSTERS, GROUPS

PACKAGE = Path(tabapp.__file__).parent
MODELS = {point.name for group in GROUPS for point in entry_points(group=group)} - set(BOOSTERS)
"""Boosters have the names of the libraries that the program imports for them."""
FAMILIES = {"gbdt", "deep", "classic"}
OF_METRICS, OF_MODELS = ("metrics/", "bundle/export/script"), ("bundle/export/script",)
OF_FAMILIES = ("models/contract.py", "models/checks/", "nn/plugin.py")


@cache
def literals() -> list[tuple[str, str]]:
    """The strings of all modules that are no documentation, each after its place."""
    found: list[tuple[str, str]] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        found += (
            (f"{file.relative_to(PACKAGE).as_posix()}:{node.lineno}", node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
        )
    return found


def places(names: Collection[str], declared_in: tuple[str, ...]) -> list[str]:
    """Where modules have a string that equals a name, other than those that declare it."""
    return [f"{place} {value!r}" for place, value in literals() if value in names and not place.startswith(declared_in)]


@pytest.mark.parametrize(
    ("names", "declared_in"),
    [(metrics.BUILT_IN, OF_METRICS), (MODELS, OF_MODELS), (FAMILIES, OF_FAMILIES)],
    ids=["metrics", "models", "families"],
)
def test_no_module_names_what_another_declares(names: Collection[str], declared_in: tuple[str, ...]) -> None:
    assert places(names, declared_in) == []


def test_names_are_found_where_they_are_declared() -> None:
    assert len(places(metrics.BUILT_IN, ("none",))) >= len(metrics.BUILT_IN)
    assert places(FAMILIES, ("none",))
