"""The comparison with the truth finds what differs, and is content only with sentences that name the column and a text."""

from __future__ import annotations

import polars as pl
import pytest

from tests.frontdoor.truth import Cells, Field, difference

CELLS = Cells(["1.50", "<2.50", "", "4"], [1.5, 2.5, None, 4.0], [None, "<", None, None])
FIELD = Field("lead", CELLS, CELLS)
MARKS = pl.Series("lead mark", [None, "<", None, None], dtype=pl.String)


def typed(*cells: object) -> pl.DataFrame:
    return pl.DataFrame([pl.Series("lead", cells), MARKS])


def test_the_truth_has_no_difference() -> None:
    assert difference(FIELD, CELLS, typed(1.5, 2.5, None, 4.0), {}) is None
    grams = Field("lead", CELLS, CELLS, scales=(1.0, 1000.0))
    assert difference(grams, CELLS, typed(1500.0, 2500.0, None, 4000.0), {}) is None


@pytest.mark.parametrize(
    ("frame", "what", "texts"),
    [
        (typed(1.5, None, None, 4.0), "1 cells differ: '<2.50' is None, not 2.5", ("<2.50",)),
        (typed(1.5, 2.5, 0.0, 4.0), "1 cells differ: '' is 0.0, not None", ()),
        (typed("1.50", "<2.50", None, "4"), "1 cells differ: '<2.50' is '<2.50', not 2.5", ("<2.50",)),
        (typed(1500.0, 2500.0, None, 4000.0), "3 cells differ: '1.50' is 1500.0, not 1.5", ("1.50", "<2.50", "4")),
        (typed(1.5, 2.5, None, 4.0)[:, :1], "1 marks differ: '<2.50' has None, not '<'", ("<2.50",)),
        (typed(1.5, 2.5, None, 4.0)[:, 1:], "the column is left out", ()),
    ],
)
def test_what_differs_is_found(frame: pl.DataFrame, what: str, texts: tuple[str, ...]) -> None:
    found = difference(FIELD, CELLS, frame, {})
    assert found is not None
    assert (found.what, found.texts) == (what, texts)
    assert not found.is_said(["width: '<2.50' is read as missing"])
    assert found.is_said(["lead: '<2.50' and 1.50 are read as missing"])
    assert found.is_said(["lead: it is left out"]) is (texts == ())


def test_a_level_has_one_spelling() -> None:
    composed, decomposed = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"
    cells = Cells([composed, decomposed], [composed, decomposed])
    field, spelled = Field("label", cells, cells), dict[str, str]()
    both = difference(field, cells, pl.DataFrame({"label": [composed, decomposed]}), spelled)
    assert both is not None
    assert both.texts == (decomposed,)
    assert difference(field, cells, pl.DataFrame({"label": [composed, composed]}), spelled) is None
    assert difference(field, cells, pl.DataFrame({"label": [decomposed, decomposed]}), spelled) is not None
