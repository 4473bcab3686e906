"""Rows without a target."""

from __future__ import annotations

import polars as pl

from tabapp.data.infer import infer_schema
from tabapp.data.profile import schema_with_warnings
from tabapp.data.reading.read import Reading
from tabapp.data.schema import DataWarning
from tests.data.checks.tables import CLASSES, NOISE, N, found, frame

LABELS = ["yes" if label else "no" for label in CLASSES]


def test_rows_without_a_target_are_counted_with_the_texts_that_made_them_so() -> None:
    labels = [None if i < 60 else " NA " if i < 66 else label for i, label in enumerate(LABELS)]
    table = frame(x=NOISE).with_columns(pl.Series("y", labels))
    schema = infer_schema(table, target="y")
    (warning,) = [each for each in schema.warnings if each.check == "no_target"]
    assert warning.message == f"66 of {N} rows without a target: 60 empty, 6 read as missing (6 'NA')."
    assert warning.action.endswith("; --keep-null y=NA makes 'NA' a class")
    assert warning.column == "y"
    assert schema.rows_without_target == 66


def test_texts_in_a_target_of_numbers_are_named() -> None:
    odd = ["broken", "sick", "later", "lost", "no idea"]
    numbers = [*(odd[i % 5] for i in range(15)), *NOISE[15:]]
    warning = found("no_target", x=CLASSES, y=numbers)["y"]
    assert all(f"3 {text!r}" in warning.message for text in odd)
    assert "keep-null" not in warning.action
    assert warning.message.startswith(f"15 of {N} rows without a target: 15 read as missing (3 ")


def test_a_complete_target_is_no_finding() -> None:
    assert found("no_target", x=NOISE, y=LABELS) == {}


def test_leaks_come_first_then_rows_that_are_lost_whatever_was_found_first() -> None:
    labels = ["" if i < 60 else label for i, label in enumerate(LABELS)]
    table = frame(id=[f"K{i}" for i in range(N)], x=NOISE, copy=labels, y=labels)
    repaired = DataWarning(check="repaired_rows", message="2 rows are short.", action="filled")
    reading = Reading(table, "csv", "utf-8", ",", 1, (repaired,), {})
    checks = [warning.check for warning in schema_with_warnings(reading, target="y").warnings]
    assert checks == ["leak", "no_target", "repaired_rows", "identifier"]
