"""Pages, search, filter and sort of a table equal the results of plain Python."""

from __future__ import annotations

import polars as pl
import pytest

from tabapp.data.reading import pages as pages_module
from tabapp.data.reading.pages import Condition, Pages, saved_rows

N = 1_000
CITIES = ("Oslo", "new York", "Rome (old)", None)


def table() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "n": [str((i * 7919) % N) for i in range(N)],
            "city": [CITIES[i % 4] for i in range(N)],
            "mixed": ["n/a" if i % 100 == 0 else f"{i / 10}" for i in range(N)],
        },
        schema={"n": pl.String, "city": pl.String, "mixed": pl.String},
    )


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(pages_module, "SLICE_ROWS", 64)


@pytest.fixture
def pages():
    return Pages(table())


def finish(work):
    """Run all slices of work; returns their number and the result."""
    n_slices = 0
    while True:
        try:
            next(work)
            n_slices += 1
        except StopIteration as end:
            return n_slices, end.value


def condition(value, column=None, operator=":", negated=False):
    try:
        number = float(value)
    except ValueError:
        number = None
    return Condition(column, operator, value.casefold(), number, negated)


def test_page_is_a_part_of_the_table(pages):
    numbers, cells = pages.page(990, 100, 1, 2)
    assert numbers == list(range(990, 1000))
    assert cells == [list(row) for row in table()[990:].select("city", "mixed").rows()]
    assert pages.page(2_000, 10, 0, 3) == ([], [])


def test_long_cells_are_truncated_only_in_pages():
    pages = Pages(pl.DataFrame({"a": ["x" * 5_000]}))
    assert len(pages.page(0, 1, 0, 1)[1][0][0]) == pages_module.LONGEST_CELL
    assert pages.cell(0, 0) == "x" * 5_000
    assert pages.widths() == [pages_module.WIDEST_COLUMN]


@pytest.mark.parametrize(
    ("conditions", "keeps"),
    [
        ([condition("OSLO")], lambda n, city, mixed: city == "Oslo"),
        ([condition("(old)")], lambda n, city, mixed: city == "Rome (old)"),
        ([condition("new york", "city")], lambda n, city, mixed: city == "new York"),
        ([condition("oslo", "city", "=")], lambda n, city, mixed: city == "Oslo"),
        ([condition("oslo", negated=True)], lambda n, city, mixed: city != "Oslo"),
        ([condition("900", "n", ">")], lambda n, city, mixed: float(n) > 900),
        ([condition("10", "n", "<=")], lambda n, city, mixed: float(n) <= 10),
        ([condition("5.0", "n", "=")], lambda n, city, mixed: float(n) == 5),
        ([condition("3", "mixed", "<")], lambda n, city, mixed: mixed != "n/a" and float(mixed) < 3),
        (
            [condition("rome"), condition("500", "n", ">=")],
            lambda n, city, mixed: city == "Rome (old)" and int(n) >= 500,
        ),
        ([condition("no such text")], lambda n, city, mixed: False),
        ([], lambda n, city, mixed: True),
    ],
)
def test_filter_keeps_matching_rows(pages, conditions, keeps):
    n_slices, _ = finish(pages.filter(conditions))
    expected = [i for i, row in enumerate(table().rows()) if keeps(*row)]
    assert pages.height == len(expected)
    assert pages.page(0, N, 0, 3)[0] == expected
    assert n_slices > 10 or not conditions


def test_canceled_filter_changes_nothing(pages):
    work = pages.filter([condition("oslo")])
    next(work)
    work.close()
    assert pages.height == N


def test_numeric_columns_are_sorted_as_numbers(pages):
    pages.sort(0)
    assert [row[0] for row in pages.page(0, N, 0, 1)[1]] == [str(i) for i in range(N)]
    pages.sort(0, descending=True)
    assert [row[0] for row in pages.page(0, 3, 0, 1)[1]] == ["999", "998", "997"]
    pages.sort(2)
    cells = [row[0] for row in pages.page(0, N, 2, 1)[1]]
    assert cells[-10:] == ["n/a"] * 10, "texts come after numbers"
    assert [float(cell) for cell in cells[:-10]] == sorted(float(cell) for cell in cells[:-10])


@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_texts_is_stable_with_empty_cells_last(pages, descending):
    pages.sort(1, descending=descending)
    numbers, cells = pages.page(0, N, 1, 1)
    order = sorted({city for city in CITIES if city}, reverse=descending)
    assert list(dict.fromkeys(row[0] for row in cells)) == [*order, None]
    for city in CITIES:
        of_city = [number for number, row in zip(numbers, cells, strict=True) if row[0] == city]
        assert of_city == sorted(of_city)


def test_filter_and_sort_combine(pages):
    pages.sort(0)
    finish(pages.filter([condition("oslo", "city")]))
    expected = sorted(int(n) for n, city, _ in table().rows() if city == "Oslo")
    assert [int(row[0]) for row in pages.page(0, N, 0, 1)[1]] == expected
    assert pages.cell(3, 1) == "Oslo"
    pages.sort(None)
    numbers = pages.page(0, N, 0, 1)[0]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("start", [0, 63, 64, 500, 997, 999])
@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("text", ["99", "ROME", "(old)", "nowhere"])
def test_search_wraps_around(pages, start, direction, text):
    hits = [
        i for i, row in enumerate(table().rows()) if any(cell and text.casefold() in cell.casefold() for cell in row)
    ]
    ahead = [i for i in hits if i >= start] if direction > 0 else [i for i in reversed(hits) if i <= start]
    behind = [i for i in hits if i < start] if direction > 0 else [i for i in reversed(hits) if i > start]
    expected = next(iter([*ahead, *behind]), None)
    _, found = finish(pages.find(text, start, direction))
    assert (found[0] if found else None) == expected
    if found:
        assert text.casefold() in (table().row(found[0])[found[1]] or "").casefold()


def test_search_is_limited_to_the_view(pages):
    finish(pages.filter([condition("rome")]))
    _, found = finish(pages.find("Rome", 10, 1))
    assert found == (10, 1)
    _, found = finish(pages.find("Oslo", 0, 1))
    assert found is None


def test_empty_table():
    pages = Pages(pl.DataFrame({"a": []}, schema={"a": pl.String}))
    assert pages.page(0, 10, 0, 1) == ([], [])
    assert finish(pages.find("x", 0, 1)) == (0, None)
    finish(pages.filter([condition("x")]))
    pages.sort(0)
    assert pages.height == 0
    assert pages.widths() == [1]


def test_saved_rows_are_read_as_text(tmp_path):
    assert saved_rows(tmp_path / "none.arrow") is None
    pl.DataFrame({"a": [1.5, None], "b": ["x", "y"]}).write_ipc(tmp_path / "t.arrow")
    frame = saved_rows(tmp_path / "t.arrow")
    assert frame is not None
    assert frame.rows() == [("1.5", "x"), (None, "y")]
