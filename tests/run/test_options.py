"""The declarations of options: every place that uses them, and how sentences spell them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tabapp.cli.main import COMMANDS, group
from tabapp.errors import given, option, spelled_in_python, spelling_of_children
from tabapp.run.options.config import OPTIONS, RunConfig, check_config, command_line

ROOT = Path(__file__).parents[2]


def options_in_sentences() -> Iterator[str]:
    """The constant names that the code gives to `option` and `given`."""
    for file in (ROOT / "tabapp").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("option", "given"):
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    yield name.value


def test_sentences_name_options_that_exist() -> None:
    names: set[str] = set()
    for command in COMMANDS:
        found = group.get_command(click.Context(group), command)
        assert found is not None
        names |= {flag.removeprefix("--").replace("-", "_") for parameter in found.params for flag in parameter.opts}
    used = set(options_in_sentences())
    assert len(used) > 20
    assert used <= names


def test_every_option_has_a_default_that_is_valid() -> None:
    check_config(RunConfig(data="t.csv"))
    assert [each.name for each in OPTIONS.values()] == list(OPTIONS)
    assert all(each.summary and each.section for each in OPTIONS.values())


@pytest.mark.parametrize("name", OPTIONS)
def test_what_a_screen_asks_for_has_examples_that_are_valid(name: str) -> None:
    """A placeholder of the command line, such as TIME, is no help where a value is typed."""
    option = OPTIONS[name]
    words = option.expected.partition("such as ")[2].replace(" or ", ", ")
    for example in filter(None, words.split(", ")):
        assert option.read(example) not in (None, option.default)
    if option.metavar not in (None, "TEXT", "NAME"):
        assert option.metavar not in option.expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("budget", "a time such as 90s, 10m or 2h"),
        ("max_memory", "a size such as 8GiB or 512MiB"),
        ("folds", "a number of folds such as 7"),
        ("seeds", "a whole number, 1 to 100"),
        ("workers", "a whole number, 1 or more, or auto"),
        ("hide_cells", "a number from 0 to 0.9"),
        ("monotonic", "COLUMN=+ or COLUMN=- such as age=+"),
        ("name", "a name such as first try"),
    ],
)
def test_a_screen_asks_for_a_value_in_plain_words(name: str, expected: str) -> None:
    assert OPTIONS[name].expected == expected


@pytest.mark.parametrize(
    ("name", "value", "on_command_line", "in_python"),
    [
        ("folds", None, "--folds", "folds"),
        ("hide_cells", 0.3, "--hide-cells 0.3", "hide_cells=0.3"),
        ("missing_columns", "fill", "--missing-columns fill", "missing_columns='fill'"),
        ("kind", {"zip": "numeric"}, "--kind zip=numeric", "kind={'zip': 'numeric'}"),
        ("kind", {"a b": "text", "c": "text"}, "--kind 'a b=text' --kind c=text", "kind={'a b': 'text', 'c': 'text'}"),
        ("ignore", "a, b", "--ignore 'a, b'", "ignore='a, b'"),
    ],
)
def test_an_option_is_spelled_for_its_reader(name: str, value: object, on_command_line: str, in_python: str) -> None:
    assert option(name, value) == on_command_line
    with spelled_in_python():
        assert option(name, value) == in_python
    assert option(name, value) == on_command_line


def test_a_value_that_was_given_is_quoted() -> None:
    assert given("workers", "x") == "--workers 'x'"
    with spelled_in_python():
        assert given("workers", "x") == "workers='x'"


def test_a_child_process_spells_options_as_its_parent() -> None:
    assert spelling_of_children() == {}
    with spelled_in_python():
        environment = {**os.environ, **spelling_of_children()}
    words = [sys.executable, "-c", "from tabapp.errors import option; print(option('device', 'cpu'))"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "device='cpu'"


def test_the_command_has_the_order_of_the_help() -> None:
    config = RunConfig(data="t.csv", name="a", seed=3, positive="yes", monotonic={"a,b": "+"}, budget=90.0)
    assert command_line(config) == (
        "tabapp --auto t.csv --positive yes --budget 90s --seed 3 --monotonic a,b=+ --name a"
    )
