"""Generated tables with a known truth: every cell is read as what it means, or a sentence names the column and the text."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.frontdoor import changes, layouts, levels, moments, names, numbers  # noqa: F401
from tests.frontdoor.tables import SITUATIONS, Format, Phase, Situation, try_table

SLOW_TABLES = 2_000
PENDING = frozenset(
    [
        "aligned_with_spaces",
        "another_unit",
        "another_year",
        "approximate",
        "both_limits",
        "codes_as_floats",
        "codes_stored_as_floats",
        "credit_and_debit",
        "decomposed_names",
        "detection_limit",
        "digits_of_other_scripts",
        "doubtful_class",
        "doubtful_class_of_two",
        "doubtful_level",
        "footers",
        "footnotes",
        "fractions",
        "gaps_of_the_target",
        "indian_grouping",
        "lap_times",
        "large_offsets",
        "leading_apostrophe",
        "line_of_types",
        "line_of_units",
        "lost_zeros",
        "many_odd_texts",
        "markdown",
        "millions_in_words",
        "mixed_units",
        "mysql",
        "nested_columns",
        "one_cell_with_a_unit",
        "one_unit_in_the_target",
        "only_unknown_levels",
        "other_case",
        "other_composition",
        "other_minus_signs",
        "other_spaces",
        "percent_in_some_cells",
        "powers_of_ten",
        "psql",
        "row_names",
        "second_header",
        "sentinels",
        "several_footnotes",
        "shares_instead_of_percent",
        "single_quotes",
        "special_names",
        "thousands_and_millions",
        "trailing_minus",
    ]
)
"""Situations that are not handled yet."""
HANDLED = [name for name in SITUATIONS if name not in PENDING]


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


@pytest.mark.parametrize("name", HANDLED)
def test_a_table_is_read_right_or_the_difference_is_said(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    # One combination of each situation, spread over all of them.
    possible = combinations(situation)
    examine(situation, *possible[list(SITUATIONS).index(name) % len(possible)], 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", HANDLED)
def test_many_tables_are_read_right_or_the_difference_is_said(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    for seed in range(1, 1 + -(-SLOW_TABLES // len(SITUATIONS))):
        possible = combinations(situation)
        examine(situation, *possible[seed % len(possible)], seed, tmp_path)
