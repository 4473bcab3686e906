"""Cells that mean a level of training in another spelling."""

from __future__ import annotations

import unicodedata

import polars as pl
import pytest

from tabapp.data.new_rows.levels import LevelIndex, Levels, matched_levels
from tabapp.data.schema import Column
from tabapp.data.small import FEW

NFD = unicodedata.normalize("NFD", "Gemüse")


def column(*levels: str) -> Column:
    return Column(name="c", kind="categorical", reason="", levels=levels, level_counts=(2,) * len(levels))


@pytest.mark.parametrize(
    ("levels", "cell", "level", "is_said"),
    [
        (("1", "2", "3"), "2.0", "2", False),
        (("1.0", "2.0"), "2", "2.0", False),
        (("1", "2"), "+2", "2", False),
        (("-1", "2"), "-1.00", "-1", False),
        (("01067", "80331"), "1067", "01067", True),
        (("01067", "80331"), "1067.0", "01067", True),
        (("1067", "80331"), "01067", "1067", True),
        (("1067", "01067"), "1067.0", "1067", False),
        (("2.50", "3.10"), "2.5", "2.50", True),
        (("Gemüse", "Käse"), NFD, "Gemüse", False),
        ((NFD, "Käse"), "Gemüse", NFD, False),
        (("Clay", "Sand"), "clay", "Clay", True),
        (("New York", "Rome"), "new  york", "New York", True),
        (("New York", "Rome"), "NewYork", "New York", True),
        (("Straße", "Weg"), "STRASSE", "Straße", True),
        (("A1", "B2"), "Ａ１", "A1", True),
    ],
)
def test_other_spellings_mean_the_level(levels, cell, level, is_said):
    found = LevelIndex(levels).find(cell, ".")
    assert found is not None
    assert (found.level, found.is_said) == (level, is_said)


@pytest.mark.parametrize(
    ("levels", "cell"),
    [
        (("1", "2"), "3.0"),
        (("1", "2"), "2.5"),
        (("1067", "01067"), "001067"),
        (("Clay", "clay"), "CLAY"),
        (("1.1", "1.10"), "1.100"),
        (("Clay", "Sand"), "Rock"),
        (("1", "2"), "two"),
        (("A1", "B2"), ""),
        (("1" * 30, "2"), "1" * 30 + ".0"),
    ],
)
def test_ambiguous_and_new_cells_mean_no_level(levels, cell):
    assert LevelIndex(levels).find(cell, ".") is None


def test_numbers_with_a_decimal_comma_mean_a_level_where_the_file_has_one():
    index = LevelIndex(("0.5", "1.5"))
    assert index.find("1,5", ".") is None
    found = index.find("1,5", ",")
    assert found is not None
    assert found.level == "1.5"
    assert index.find("2,5", ",") is None


@pytest.mark.parametrize("n_rows", [4, 2 * FEW])
def test_cells_are_replaced_and_counted(n_rows):
    cells = (["2.0", "Clay", "clay", None, "Rock", "2"] * n_rows)[: 6 * (n_rows // 4)]
    times, counted = len(cells) // 6, Levels()
    matched = matched_levels(pl.Series(cells, dtype=pl.String), column("2", "Clay"), counted)
    assert matched.to_list() == ["2", "Clay", "Clay", None, "Rock", "2"] * times
    assert counted.respelled == {("clay", "Clay"): times}
    assert counted.unseen == {"Rock": times}
    assert counted.n_unseen == times


@pytest.mark.parametrize("n_rows", [6, 2 * FEW])
def test_known_levels_stay_the_same_series(n_rows):
    values = pl.Series(["2", "Clay"] * (n_rows // 2), dtype=pl.String)
    assert matched_levels(values, column("2", "Clay")) is values
