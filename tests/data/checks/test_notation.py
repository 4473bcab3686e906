"""Warnings about numbers with something beside them, other texts among numbers, and texts that are mostly numbers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.data.checks.tables import NOISE, N, found

CHANCE = random.Random(0)
NUMBERS = [round(CHANCE.uniform(20, 90), 1) for _ in range(N)]


def some(spell: Callable[[float], str], every: int = 5) -> list[str]:
    return [spell(x) if i % every == 0 else f"{x}" for i, x in enumerate(NUMBERS)]


def of_units(unit: str, other: str) -> list[str]:
    return [f"{x} {unit}" if i % 5 else other for i, x in enumerate(NUMBERS)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (some(lambda x: "<30.5"), "120 of 600 numbers have a mark, such as '<30.5', read as 30.5: '<' (120)."),
        (
            some(lambda x: "30.5-"),
            "120 of 600 numbers have a sign, CR or DR after them, such as '30.5-', read as -30.5.",
        ),
        (some(lambda x: "30,5"), "120 of 600 numbers are in another notation, such as '30,5', read as 30.5."),
        (of_units("kg", "30.5"), "120 of 600 numbers are without kg, such as '30.5', read as 30.5 kg."),
        (of_units("kg", "500 g"), "120 of 600 numbers have other units, such as '500 g', read as 0.5 kg: 'g' (120)."),
        (of_units("%", "0.125"), "120 of 600 numbers are without %, such as '0.125', read as 12.5 %."),
    ],
)
def test_another_notation_is_reported_with_an_example_and_its_value(cells: list[str], message: str) -> None:
    (warning,) = found("notation", x=cells, y=NOISE).values()
    assert warning.message == message
    assert "--kind x=categorical keeps the texts" in warning.action
    assert ("'x mark'" in warning.action) == ("<" in message)


@pytest.mark.parametrize(
    "cells",
    [
        NUMBERS,
        [f"${x}" for x in NUMBERS],
        some(lambda x: f"€{x}"),
        [f"{x} kg" for x in NUMBERS],
        [f"{x}K" for x in NUMBERS],
        [f"{x}".replace(".", ",") for x in NUMBERS],
        [f"{x}".translate(str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")) for x in NUMBERS],
    ],
)
def test_one_notation_needs_no_warning(cells: list[object]) -> None:
    for check in ("notation", "set_aside", "mostly_numbers"):
        assert found(check, x=cells, y=NOISE) == {}


def test_texts_that_are_set_aside_are_reported_with_their_counts() -> None:
    cells = [*map(str, NUMBERS[:-3]), "none given", "none given", "12 of them"]
    (warning,) = found("set_aside", x=cells, y=NOISE).values()
    assert warning.message == f"3 of {N} cells are no numbers: 'none given' (2), '12 of them' (1)."
    assert warning.action.startswith("read as missing;")


def test_marks_of_a_target_are_reported() -> None:
    (warning,) = found("notation", x=NOISE, y=some(lambda x: f"{x}*")).values()
    assert warning.column == "y"
    assert warning.message.startswith(f"120 of {N} numbers have a mark, ")


def test_texts_that_are_mostly_numbers_are_reported() -> None:
    cells = [f"{x}" if i % 4 else f"{x:.0f}-{x + 10:.0f}" for i, x in enumerate(NUMBERS)]
    (warning,) = found("mostly_numbers", x=cells, y=NOISE).values()
    assert warning.message.startswith("75% of the cells are numbers; texts such as ")
    assert "--kind x=numeric" in warning.action
    money = [f"{'$€'[i % 2]}{x}" for i, x in enumerate(NUMBERS)]
    (warning,) = found("mostly_numbers", x=money, y=NOISE).values()
    assert warning.message == "100% of the cells are numbers, but their units cannot be converted: $, €."


def test_codes_are_not_reported_as_numbers() -> None:
    zip_code = [f"{i * 37 % 10_000:05}" if i % 4 else f"{i}-{i % 10}" for i in range(N)]
    grades = [("1", "2", "3", "3+")[i % 4] for i in range(N)]
    assert found("mostly_numbers", zip_code=zip_code, zip=zip_code, grades=grades, y=NOISE) == {}
