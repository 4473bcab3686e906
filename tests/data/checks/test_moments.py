"""Warnings on dates that are read by a rule, and on texts most of which are dates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.schema import DataWarning
from tests.data.checks.tables import CLASSES, NOISE, frame

N = len(NOISE)
DAYS = [f"20{15 + i % 8}-0{1 + i % 9}-{1 + i * 7 % 28:02}" for i in range(N)]
MOMENTS = [f"{day} 0{i % 10}:15:00" for i, day in enumerate(DAYS)]


def warnings_on(cells: Sequence[str]) -> list[DataWarning]:
    schema = infer_schema(frame(when=cells, noise=NOISE, y=CLASSES), target="y")
    return [each for each in schema.warnings if each.check in ("moments", "mostly_dates")]


def replaced(cells: list[str], **others: str) -> list[str]:
    """Cells of which each of the first tens has another text."""
    for i, text in enumerate(others.values()):
        cells = [*cells[: 10 * i], *[text] * 10, *cells[10 * i + 10 :]]
    return cells


SUSPECT: dict[str, tuple[list[str], list[str]]] = {
    "open ends": (
        replaced(DAYS, end="9999-12-31", word="ongoing"),
        [
            f"20 of {N} cells are open ends",
            "'9999-12-31' (10), 'ongoing' (10)",
            "'when mark'",
            "--null when=9999-12-31",
        ],
    ),
    "some offsets": (
        [cell + "+02:00" * (i % 3 > 0) for i, cell in enumerate(MOMENTS)],
        [f"{len(range(0, N, 3))} of {N} moments have no offset from UTC", repr(MOMENTS[0]), "taken for UTC"],
    ),
    "both orders": (
        [f"0{1 + i % 9}/{1 + i % 12:02}/20{15 + i % 8}" for i in range(N)],
        ["fit day first as well as month first", "YYYY-MM-DD"],
    ),
    "zones with two meanings": (
        [f"{cell} CST" for cell in MOMENTS],
        ["CST", "has more than one meaning", "read as UTC-06:00"],
    ),
    "day numbers among dates": (replaced(DAYS, number="45364"), ["10 of", "'45364'", "2024-03-13 00:00:00"]),
    "timestamps among dates": (replaced(DAYS, number="1710299106"), ["10 of", "since 1970", "2024-03-13 03:05:06"]),
    "other texts": (
        [*DAYS[:-3], "soon", "2024-13-45", "see note 5"],
        [f"3 of {N} cells are no dates: 'soon' (1), '2024-13-45' (1)", "--kind when=categorical"],
    ),
    "years among dates": (replaced(DAYS, year="2019"), ["10 of", "are years, such as '2019'", "2019-01-01"]),
    "another calendar": (
        [f"140{i % 4}-0{1 + i % 9}-{1 + i % 28:02}" for i in range(N)],
        ["1400 to 1403", "Gregorian calendar"],
    ),
    "mostly dates": (
        [f"about {i}" if i % 4 == 0 else day for i, day in enumerate(DAYS)],
        ["75% of the cells are dates", "'about", "--kind when=datetime"],
    ),
    "two orders in one column": (
        [
            f"{13 + i % 9}/0{1 + i % 9}/20{10 + i % 10}" if i % 3 else f"0{1 + i % 9}/{13 + i % 9}/2024"
            for i in range(N)
        ],
        ["67% of the cells are dates with the day first", "--kind when=datetime"],
    ),
}


@pytest.mark.parametrize(("cells", "parts"), SUSPECT.values(), ids=SUSPECT)
def test_a_rule_is_reported_with_cells_and_remedy(cells: list[str], parts: list[str]) -> None:
    (warning,) = warnings_on(cells)
    assert warning.column == "when"
    for part in parts:
        assert part in f"{warning.message} {warning.action}"


CLEAN: dict[str, list[str]] = {
    "days": DAYS,
    "moments": MOMENTS,
    "all with offsets": [f"{cell}{'+02:00' if i % 2 else 'Z'}" for i, cell in enumerate(MOMENTS)],
    "day first": [f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(N)],
    "zones": [f"{cell} CET" for cell in MOMENTS],
    "timestamps": [str(1_700_000_000 + 86_400 * i) for i in range(N)],
    "words": [("red", "green", "blue")[i % 3] for i in range(N)],
    "names with numbers": [f"part {i % 40} of 2024-01-{1 + i % 28:02}" for i in range(N)],
    "seldom dates": [day if i % 5 == 0 else f"about {i}" for i, day in enumerate(DAYS)],
}


@pytest.mark.parametrize("cells", CLEAN.values(), ids=CLEAN)
def test_other_columns_are_not_reported(cells: list[str]) -> None:
    assert warnings_on(cells) == []
