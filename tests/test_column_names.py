"""Names of columns in options: every list of names survives the equivalent command, the shell and the table."""

from __future__ import annotations

import shlex
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabapp.cli.commands.run import run
from tabapp.column_names import ColumnNames, column_name, join_record, split_record
from tabapp.errors import UsageError
from tabapp.run.options.config import NAMING, OPTIONS, RunConfig, command_line, with_exact_names
from tabapp.run.options.keywords import config_from_keywords

COLUMNS = (
    "distance, km",
    "x>=5",
    "rate=1",
    "leak, do not use",
    'say "x"',
    "-h",
    "@file",
    "a,b",
    "a",
    "b",
    "größe",
    "x",
)

PIECES = (
    "a",
    "b",
    "1",
    ",",
    "=",
    '"',
    "'",
    "[",
    "]",
    "-",
    "--help",
    "@",
    "*",
    "$",
    "\\",
    " ",
    "\n",
    "\r",
    "é",
    "e\u0301",
)
pieces = st.sampled_from(PIECES)
names = st.one_of(
    st.lists(pieces, min_size=1, max_size=6).map("".join), st.text(st.characters(codec="utf-8"), min_size=1)
)
tables = st.lists(names.map(column_name).filter(bool), min_size=1, max_size=8, unique=True)


def parsed(command: str) -> RunConfig:
    """The configuration of a command, as a shell and the command line read it."""
    program, *words = shlex.split(command)
    assert program == "tabapp"
    params = run.make_context("run", words).params
    return RunConfig(**{name: value for name, value in params.items() if name in RunConfig.__struct_fields__})


@given(tables.filter(lambda table: not any("\0" in name for name in table)), st.data())
@settings(deadline=None)
def test_any_names_survive_the_equivalent_command(table: list[str], data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(table), min_size=1, max_size=4, unique=True)
    one = st.none() | st.sampled_from(table)
    target = data.draw(some)
    config = RunConfig(
        data="t.csv",
        target=target[0] if len(target) == 1 else tuple(target),
        ignore=tuple(data.draw(some)),
        kinds=dict.fromkeys(data.draw(some), "numeric"),
        null=tuple(f"{name}=?" for name in data.draw(some)),
        monotonic=dict.fromkeys(data.draw(some), "-"),
        group=data.draw(one),
        time=data.draw(one),
        weight=data.draw(one),
    )
    again = parsed(command_line(config))
    assert with_exact_names(again, table) == config
    # Names in double quotes, as the completion of a shell writes them, are the same columns.
    quoted = ColumnNames(table).named(join_record([*config.ignore, config.ignore[0]]))
    assert join_record([*config.ignore, config.ignore[0]]) in table or quoted == [*config.ignore, config.ignore[0]]


@given(st.lists(names, min_size=1))
def test_a_record_has_the_fields_that_were_joined(fields: list[str]) -> None:
    stripped = [field.strip() for field in fields if field.strip()]
    assert split_record(join_record(stripped)) == stripped


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["leak, do not use"], ("leak, do not use",)),
        (['"leak, do not use",x'], ("leak, do not use", "x")),
        (["a,b"], ("a,b",)),
        (["a, b"], ("a", "b")),
        (["b,x", "a"], ("b", "x", "a")),
        (["b,b"], ("b",)),
        (['say "x"', '"say ""x"""'], ('say "x"',)),
        ([" a ", "distance,\n km"], ("a", "distance, km")),
        ([unicodedata.normalize("NFD", "größe")], ("größe",)),
        # For the sentence that there is no such column.
        (["a,c"], ("a", "c")),
        (["leak, do use"], ("leak, do use",)),
        (["-x"], ("-x",)),
        (["", ","], ()),
    ],
    ids=str,
)
def test_a_value_is_a_column_or_else_a_record(values: list[str], found: tuple[str, ...]) -> None:
    assert ColumnNames(COLUMNS).several(values) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("distance, km=numeric", {"distance, km": "numeric"}),
        ('"distance, km"=numeric', {"distance, km": "numeric"}),
        ('"distance, km=numeric",a=text', {"distance, km": "numeric", "a": "text"}),
        ("x>=5=numeric", {"x>=5": "numeric"}),
        ("rate=1=numeric, b = text", {"rate=1": "numeric", "b": "text"}),
        ("a,b=text", {"a,b": "text"}),
        ("c=text", {"c": "text"}),
    ],
)
def test_a_setting_is_after_the_last_equal_sign(text: str, found: dict[str, str]) -> None:
    config = config_from_keywords("t.csv", {"kind": text})
    assert with_exact_names(config, COLUMNS).kinds == found


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"kind": "x,c=text"}, "--kind 'x' does not have the form COLUMN=KIND. Example: --kind zip=categorical."),
        ({"monotonic": "a=up,b=-"}, "--monotonic 'a=up' is not valid"),
        ({"target": "b,x,b"}, "'b' twice"),
        ({"target": ","}, "contains no column"),
        ({"target": ",".join(map(str, range(51)))}, "at most 50"),
    ],
)
def test_a_wrong_value_is_rejected_when_the_columns_are_known(keywords: dict[str, str], words: str) -> None:
    config = config_from_keywords("t.csv", keywords)
    columns = [*COLUMNS, *map(str, range(51))]
    with pytest.raises(UsageError) as raised:
        with_exact_names(config, columns)
    assert words in str(raised.value)


def test_options_are_repeatable_and_take_records() -> None:
    config = parsed(
        "tabapp t.csv --target a --target '\"a,b\",b' --ignore x --ignore=-h --kind a=text --kind 'x>=5=text'"
    )
    exact = with_exact_names(config, COLUMNS)
    assert exact.target == ("a", "a,b", "b")
    assert exact.ignore == ("x", "-h")
    assert exact.kinds == {"a": "text", "x>=5": "text"}
    assert parsed("tabapp t.csv --exclude mlp --exclude linear,mlp").exclude == ("mlp", "linear")


def test_a_column_of_one_role_is_named_as_it_is_or_in_quotes() -> None:
    for text in ("distance, km", '"distance, km"', " distance,  km"):
        assert with_exact_names(RunConfig(data="t.csv", group=text), COLUMNS).group == "distance, km"
    assert with_exact_names(RunConfig(data="t.csv", time="a, b"), COLUMNS).time == "a, b"


def test_two_columns_that_differ_in_the_form_of_letters_stay_two() -> None:
    composed, decomposed = "größe", unicodedata.normalize("NFD", "größe")
    both = ColumnNames([composed, decomposed])
    assert [both.find(name) for name in (composed, decomposed)] == [composed, decomposed]
    assert ColumnNames([composed]).find(decomposed) == composed
    assert ColumnNames([decomposed]).find(composed) == decomposed
    # A mixed form is neither.
    mixed = "größé" + decomposed
    assert ColumnNames([unicodedata.normalize(form, mixed) for form in ("NFC", "NFD")]).find(mixed) is None


@pytest.mark.parametrize(
    ("name", "near"),
    [("GRÖSSE", "größe"), ("Distance km", "distance, km"), ("a b", "a,b"), ("c", None), ("größe", None)],
)
def test_a_name_that_differs_in_case_or_punctuation_is_found_as_alike(name: str, near: str | None) -> None:
    assert ColumnNames(COLUMNS).alike(name) == near


@pytest.mark.parametrize(
    ("text", "found"),
    [("rate=1=5", ("rate=1", "5")), ("rate=1", None), ("a=", ("a", "")), ("a=x=5", ("a", "x=5")), ("c=1", None)],
)
def test_an_assignment_names_the_longest_column(text: str, found: Any) -> None:
    assert ColumnNames(COLUMNS).assignment(text) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("distance, km=NA", ("distance, km=NA",)),
        ('"distance, km"=NA', ("distance, km=NA",)),
        ('"distance, km=n,a",x', ("distance, km=n,a", "x")),
        ("none,distance, km=NA,rate=1=?,a,b=-", ("none", "distance, km=NA", "rate=1=?", "a,b=-")),
        ("a=NA, b=NA,x", ("a=NA", "b=NA", "x")),
        ("c,d=e", ("c", "d=e")),
    ],
)
def test_texts_of_one_column_follow_its_name(value: str, found: tuple[str, ...]) -> None:
    for name in ("null", "keep_null"):
        config = with_exact_names(config_from_keywords("t.csv", {name: value}), [*COLUMNS, "d, e"])
        # Twice, as for a configuration that is read again.
        assert getattr(with_exact_names(config, COLUMNS), name) == found
        assert getattr(with_exact_names(parsed(command_line(config)), COLUMNS), name) == found


def test_every_option_that_names_columns_resolves_them() -> None:
    asked: dict[str, Any] = {
        "target": '"a,b"',
        "group": '"a,b"',
        "time": '"a,b"',
        "weight": '"a,b"',
        "ignore": ('"a,b"',),
    }
    asked |= {"kinds": {'"a,b"': "text"}, "monotonic": {'"a,b"': "+"}}
    assert {OPTIONS[name].field for name in NAMING} == set(asked)
    exact = with_exact_names(RunConfig(data="t.csv", **asked), COLUMNS)
    for field in asked:
        value = getattr(exact, field)
        assert list([value] if isinstance(value, str) else value) == ["a,b"]
