"""The cache of rows between a screen and the pager process."""

from __future__ import annotations

import asyncio

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
