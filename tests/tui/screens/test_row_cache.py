"""The cache of rows between a screen and the pager process."""

from __future__ import annotations

import asyncio

import pytest

from tabapp.run.protocol import paging
from tabapp.tui.paging.client import Pager
from tabapp.tui.paging.row_cache import TableRows


class SlowPager(Pager):
    """Opens the table when a test says so, and keeps the filters that it is sent."""

    def __init__(self) -> None:
        self.opening: list[asyncio.Event] = []
        self.filters: list[str] = []

    async def ask(self, request: paging.AnyRequest) -> paging.AnyReply:
        if isinstance(request, paging.OpenTable):
            self.opening.append(asyncio.Event())
            await self.opening[-1].wait()
            return paging.Opened(names=["name"], rows=9, height=9, widths=[4], note="")
        if isinstance(request, paging.FilterRows):
            self.filters.append(request.conditions[0].value)
        return paging.Height(height=9)


async def test_the_last_filter_typed_while_the_table_opens_is_the_one_that_holds():
    pager = SlowPager()
    rows = TableRows(pager)
    first = asyncio.create_task(rows.set_filter("a"))
    second = asyncio.create_task(rows.set_filter("an"))
    await asyncio.sleep(0)
    first_opening, second_opening = pager.opening
    first_opening.set()
    await first
    await rows.set_filter("ann")
    second_opening.set()
    await second
    assert rows.filter == "ann"
    assert pager.filters[-1] == "ann"


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["1", "-2.5", "+3", ".5", "1e-9", "6.02E+23"], True),
        (["3,14", "2,5", "1 234,5"], True),
        (["1,234.50", "12'000", "1.234.567,8"], True),
        (["$7.25", "€ 8", "9 €", "31%"], True),
        (["1001", None, "1003", ""], True),
        (["?", *map(str, range(9))], True),
        (["A/5 21171", "113803", "PC 17599"], False),
        (["2024-01-03", "2024-02-03"], False),
        (["2024.01.03", "10.0.0.1"], False),
        (["12:30", "1/2", "7 m", "-"], False),
        ([None, None], False),
    ],
)
def test_columns_of_numbers_are_right_aligned_before_their_kind_is_known(cells, numeric):
    """The kind of an identifier or a class is not numeric, so a column would jump to the left once kinds are known."""
    rows = TableRows(SlowPager())
    read = [["x", cell] for cell in cells]
    rows.show_first(["name", "value"], read, height=None)
    assert rows.layout.numeric == (False, numeric)
    rows.show_first(["name", "value"], read, height=len(read), numeric=[False, False])
    assert rows.layout.numeric == (False, numeric)


def test_a_column_that_the_engine_reads_as_numbers_is_right_aligned_however_it_is_written():
    rows = TableRows(SlowPager())
    rows.show_first(["length"], [["7 m"], ["1 km"]], height=2, numeric=[True])
    assert rows.layout.numeric == (True,)
