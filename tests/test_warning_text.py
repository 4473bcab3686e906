"""Warnings in words: the same sentence everywhere, and one for many columns."""

from __future__ import annotations

import pytest

from tabapp.data.schema import DataWarning
from tabapp.errors import option, spelled_in_python
from tabapp.run.record.events import WarningView
from tabapp.warning_text import MOST_LINES, first_lines, general_action, parts, sentence, sentences


def identifier(name: str, kind: str = "categorical") -> DataWarning:
    action = f"left out; --kind {name}={kind} keeps it"
    return DataWarning(check="identifier", column=name, message=f"Identifier: {name} is distinct.", action=action)


@pytest.mark.parametrize("kind", [DataWarning, WarningView])
def test_a_sentence_has_the_column_the_finding_and_the_action_with_its_option(kind) -> None:
    warning = kind(check="leak", column="later", message="It predicts y.", action="kept; --ignore later leaves it out")
    assert sentence(warning) == "later: It predicts y → kept; --ignore later leaves it out"
    assert parts(warning) == ("later: ", "It predicts y", " → kept; --ignore later leaves it out")


def test_a_column_that_the_message_quotes_is_not_named_twice_and_a_letter_is_no_name() -> None:
    def said(message: str) -> str:
        return sentence(DataWarning(check="x", column="a", message=message, action="kept"))

    assert said("The column 'a' is odd.") == "The column 'a' is odd → kept"
    assert said("A table is odd.") == "a: A table is odd → kept"
    assert sentence(DataWarning(check="x", message="3 rows are odd.", action="")) == "3 rows are odd"


def test_many_columns_with_the_same_problem_share_a_sentence_that_counts_and_names_them() -> None:
    rows = [DataWarning(check="repaired_rows", message=f"Line {i} is short.", action="filled") for i in range(5)]
    names = [f"id{i}" for i in range(12)]
    found = sentences([rows[0], *map(identifier, names), identifier("n", "numeric"), *rows[1:]])
    assert found == [
        "Line 0 is short → filled",
        "12 columns (id0, id1, id2, id3, id4 and 7 more), such as id0: Identifier: id0 is distinct → left out; "
        "--kind COLUMN=categorical keeps it",
        "n: Identifier: n is distinct → left out; --kind n=numeric keeps it",
        *(f"Line {i} is short → filled" for i in range(1, 5)),
    ]
    assert sentences(map(identifier, names[:3])) == [sentence(identifier(name)) for name in names[:3]]


@pytest.mark.parametrize("name", ["id", "my id", "a=b", "id (old)"])
@pytest.mark.parametrize(
    ("keyword", "value", "on_command_line", "in_python"),
    [
        ("ignore", "{}", ("--ignore COLUMN", "--ignore 'COLUMN'"), ("ignore='COLUMN'",)),
        (
            "kind",
            {"{}": "numeric"},
            ("--kind COLUMN=numeric", "--kind 'COLUMN=numeric'"),
            ("kind={'COLUMN': 'numeric'}",),
        ),
        ("null", "{}=NA", ("--null COLUMN=NA", "--null 'COLUMN=NA'"), ("null='COLUMN=NA'",)),
    ],
)
def test_the_column_of_an_option_is_found_as_errors_spell_options(
    name, keyword, value, on_command_line, in_python
) -> None:
    given = {key.format(name): each for key, each in value.items()} if isinstance(value, dict) else value.format(name)
    words = {option(keyword, given): on_command_line}
    with spelled_in_python():
        words[option(keyword, given)] = in_python
    for spelled, expected in words.items():
        action = f"left out; {spelled} changes it"
        warning = DataWarning(check="x", column=name, message="It is odd.", action=action)
        assert general_action(warning) in [f"left out; {each} changes it" for each in expected]


def test_a_column_called_like_a_word_of_the_action_is_replaced_in_the_option_only() -> None:
    (found,) = sentences([identifier(name) for name in ("keeps", "left", "out", "it")])
    assert "--kind COLUMN=categorical keeps it" in found


def test_ten_lines_and_the_number_of_the_others() -> None:
    lines = [f"line {i}" for i in range(MOST_LINES + 7)]
    assert first_lines(lines[:MOST_LINES], "see") == lines[:MOST_LINES]
    assert first_lines(lines, "`tabapp report x` lists all") == [
        *lines[:MOST_LINES],
        "and 7 more; `tabapp report x` lists all",
    ]
