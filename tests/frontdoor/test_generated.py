"""Generated tables with a known truth: every cell is read as what it means, or a sentence names the column and the text."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.frontdoor import changes, layouts, levels, moments, names, numbers  # noqa: F401
from tests.frontdoor.tables import SITUATIONS, Format, Phase, Situation, try_table

SLOW_TABLES = 2_000


def combinations(situation: Situation) -> list[tuple[Phase, Format]]:
    """Where the unusual cells are, and the format of the files."""
    return [*product(situation.phases, situation.formats)]


def examine(situation: Situation, phase: Phase, form: Format, seed: int, folder: Path) -> None:
    """Try a table, and fail if something differs silently, or is said of an ordinary column."""
    outcome = try_table(situation, phase, form, seed, folder)
    assert outcome.silent() == []
    assert outcome.false_alarms == []
    if phase in situation.is_read:
        assert outcome.differences[phase] == [], outcome.said[phase]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_table_is_read_right_or_the_difference_is_said(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    # One combination of each situation, spread over all of them.
    possible = combinations(situation)
    examine(situation, *possible[list(SITUATIONS).index(name) % len(possible)], 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_many_tables_are_read_right_or_the_difference_is_said(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    for seed in range(1, 1 + -(-SLOW_TABLES // len(SITUATIONS))):
        possible = combinations(situation)
        examine(situation, *possible[seed % len(possible)], seed, tmp_path)
