"""Cache of table rows: visible rows are fetched from the pager process while scrolling."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabapp.run.protocol import paging
from tabapp.tui.paging.client import Pager
from tabapp.tui.viewmodels.query import Term, number, parse
from tabapp.tui.viewmodels.texts import are_numbers

BLOCK_ROWS, BLOCK_COLUMNS = 128, 64
MOST_BLOCKS = 32
FIRST_ROWS = 200
_MOST_SAMPLED = 100


@dataclass(frozen=True)
class Layout:
    """The columns of the table.

    Attributes:
        widths: in cells of the terminal, enough for the title too.
        numeric: whether a column contains numbers, which are right-aligned with their title.
    """

    names: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()
    numeric: tuple[bool, ...] = ()


@dataclass
class _Block:
    numbers: Sequence[int]
    cells: Sequence[Sequence[str | None]]


class TableRows:
    """A filtered and sorted view of the table, which caches the blocks that were shown and notifies a listener of changes.

    Attributes:
        height: rows of the view; `whole_height` rows of the table, None while unknown.
        about: estimated height from the file size while the file is read.
        filter: the typed query; `problem` explains a query that is not valid.
        sorted_by: column and direction (True is descending); None is the order of the file.
        note: a sentence about where the rows come from.
        trouble: a sentence that explains why there are no rows.
        busy: the current work in a word or two; empty when idle.
    """

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self.layout = Layout()
        self.height = 0
        self.whole_height: int | None = None
        self.about: int | None = None
        self.filter = ""
        self.problem = ""
        self.search = ""
        self.sorted_by: tuple[int, bool] | None = None
        self.note = ""
        self.trouble = ""
        self.busy = ""
        self.row, self.column = 0, 0
        """Position of the cursor, kept while no screen shows the table."""
        self.listener: Callable[[], None] | None = None
        self._blocks: OrderedDict[tuple[int, int], _Block] = OrderedDict()
        self._first: list[list[str | None]] = []
        self._wanted: tuple[int, int, int, int] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._opened = False
        self._view = 0

    # -- what there is ----------------------------------------------------------------------------------------------

    @property
    def first_rows(self) -> Sequence[Sequence[str | None]]:
        """The first rows of the file, independent of filter and order."""
        return self._first

    def show_first(
        self,
        names: Sequence[str],
        rows: Sequence[Sequence[str | None]],
        *,
        height: int | None,
        about: int | None = None,
        numeric: Sequence[bool] | None = None,
    ) -> None:
        """Set the first rows, read from the head of the file or by the engine, which knows the height.

        Args:
            numeric: columns that the engine reads as numbers, in whatever way they are written.
        """
        if self._opened:
            return
        self._first = [list(row) for row in rows]
        self.height = height if height is not None else len(rows)
        self.whole_height, self.about = height, about
        widths = [
            max([1, *(min(40, len(row[index] or "")) for row in rows[:_MOST_SAMPLED])]) for index in range(len(names))
        ]
        known = numeric or [False] * len(names)
        self._lay_out(names, widths, [each or self._has_numbers(index) for index, each in enumerate(known)])
        self._notify()

    def _has_numbers(self, column: int) -> bool:
        """Whether the first cells of a column are numbers. It does not depend on the kind, so a column keeps its place when the
        kinds are known, and identifiers and classes that are numbers are aligned as such."""
        return are_numbers([row[column] for row in self._first[:_MOST_SAMPLED]])

    def _lay_out(self, names: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> None:
        fitting = tuple(max(width, min(40, len(name))) for name, width in zip(names, widths, strict=True))
        self.layout = Layout(tuple(names), fitting, tuple(numeric))

    def number_of(self, row: int) -> int | None:
        """Index in the file of a row of the view, from 0; None while it is not fetched."""
        block = self._block(row, self.column)
        if block is not None and row % BLOCK_ROWS < len(block.numbers):
            return block.numbers[row % BLOCK_ROWS]
        return row if self._unchanged else None

    def cell(self, row: int, column: int) -> tuple[bool, str | None]:
        """Whether a cell is fetched, and its text (None if empty). Long texts are cut."""
        block = self._block(row, column)
        if block is not None and row % BLOCK_ROWS < len(block.cells):
            return True, block.cells[row % BLOCK_ROWS][column % BLOCK_COLUMNS]
        if self._unchanged and row < len(self._first):
            return True, self._first[row][column]
        return False, None

    @property
    def _unchanged(self) -> bool:
        """Whether the view has no filter and the order of the file."""
        return self._view == 0

    def _block(self, row: int, column: int) -> _Block | None:
        return self._blocks.get((row // BLOCK_ROWS, column // BLOCK_COLUMNS))

    # -- fetching ---------------------------------------------------------------------------------------------------

    def look_at(self, first_row: int, last_row: int, first_column: int, last_column: int) -> None:
        """Set the visible area and fetch its missing blocks; a later call replaces an earlier one."""
        self._wanted = (first_row, last_row, first_column, last_column)
        if self._fetching is None and self._missing() is not None and not self.trouble:
            self._fetching = asyncio.create_task(self._fetch())

    def _missing(self) -> tuple[int, int] | None:
        """The first visible block that is not fetched."""
        if self._wanted is None or self.whole_height is None:
            return None
        first_row, last_row, first_column, last_column = self._wanted
        if self._unchanged and last_row < len(self._first):
            return None
        for row in range(first_row // BLOCK_ROWS, min(last_row, self.height - 1) // BLOCK_ROWS + 1):
            for column in range(first_column // BLOCK_COLUMNS, last_column // BLOCK_COLUMNS + 1):
                if (row, column) not in self._blocks:
                    return row, column
        return None

    async def _fetch(self) -> None:
        try:
            if not await self.open():
                return
            while (place := self._missing()) is not None:
                view = self._view
                request = paging.ReadPage(
                    start=place[0] * BLOCK_ROWS,
                    count=BLOCK_ROWS,
                    first_column=place[1] * BLOCK_COLUMNS,
                    columns=BLOCK_COLUMNS,
                )
                reply = await self._pager.ask(request)
                if self._failed(reply):
                    return
                if view == self._view and isinstance(reply, paging.Page):
                    self._blocks[place] = _Block(reply.numbers, reply.cells)
                    while len(self._blocks) > MOST_BLOCKS:
                        self._blocks.popitem(last=False)
                    self._notify()
        finally:
            self._fetching = None

    async def open(self) -> bool:
        """Open the table in the pager if needed; returns whether it is open."""
        if self._opened:
            return True
        self.busy = "reading the table…"
        self._notify()
        reply = await self._pager.ask(paging.OpenTable())
        self.busy = ""
        if self._failed(reply) or not isinstance(reply, paging.Opened):
            return False
        if not self._opened:
            self._opened = True
            same = tuple(reply.names) == self.layout.names
            numeric = self.layout.numeric if same else [False] * len(reply.names)
            if not same:
                self._first = []
            self._lay_out(reply.names, reply.widths, numeric)
            self.height, self.whole_height, self.note = reply.height, reply.rows, reply.note
            self._notify()
        return True

    def _failed(self, reply: paging.AnyReply) -> bool:
        if not isinstance(reply, paging.Failed):
            return False
        self.trouble, self.busy = reply.message, ""
        self._notify()
        return True

    def _notify(self) -> None:
        if self.listener is not None:
            self.listener()

    # -- asking -----------------------------------------------------------------------------------------------------

    async def head(self) -> None:
        """Fetch the first rows of the file before the engine has read it."""
        reply = await self._pager.ask(paging.ReadHead(count=FIRST_ROWS))
        if isinstance(reply, paging.Head) and reply.names and self.whole_height is None:
            self.show_first(reply.names, reply.cells, height=None, about=reply.about)

    async def set_filter(self, text: str) -> None:
        """Show only the rows that match a query; a later query replaces it."""
        if text == self.filter:
            return
        self.filter = text
        query = parse(text, self.layout.names)
        self.problem = query.problem
        # A later query may have been sent while this one waited for the table.
        if await self.open() and text == self.filter:
            await self._change("filtering…", paging.FilterRows(conditions=[_condition(term) for term in query.terms]))

    async def sort(self, column: int | None, *, descending: bool = False) -> None:
        """Sort the rows by a column, or restore the order of the file."""
        order = self.sorted_by = None if column is None else (column, descending)
        if await self.open() and order == self.sorted_by:
            await self._change("sorting…", paging.SortRows(column=column, descending=descending))

    async def _change(self, words: str, request: paging.AnyRequest) -> None:
        self.busy = words
        self._notify()
        reply = await self._pager.ask(request)
        if self._failed(reply) or not isinstance(reply, paging.Height):
            return
        self.busy = ""
        self.height = reply.height
        self._blocks.clear()
        self._view = self._view + 1 if self.filter or self.sorted_by is not None else 0
        self.row = max(0, min(self.row, self.height - 1))
        self._notify()

    async def find(self, text: str, direction: int) -> bool | None:
        """Move the cursor to the next row that contains a text; False if no row does, None if a later search replaced this one."""
        self.search = text
        if not await self.open() or text != self.search:
            return None
        self.busy = f"searching for “{text}”…"
        self._notify()
        start = self.row + direction
        if not 0 <= start < self.height:
            start = 0 if direction > 0 else max(0, self.height - 1)
        reply = await self._pager.ask(paging.FindText(text=text, start=start, direction=direction))
        if self._failed(reply) or not isinstance(reply, paging.Found):
            return None
        self.busy = ""
        if reply.row is not None:
            self.row, self.column = reply.row, reply.column
        self._notify()
        return reply.row is not None

    async def text(self, row: int, column: int) -> str:
        """The full text of a cell."""
        here, text = self.cell(row, column)
        if here and not self._opened:
            return text or ""
        reply = await self._pager.ask(paging.ReadCell(row=row, column=column))
        if self._failed(reply) or not isinstance(reply, paging.Cell):
            return ""
        return reply.text or ""


def _condition(term: Term) -> paging.RowCondition:
    return paging.RowCondition(
        column=term.field or None,
        operator=term.operator or ":",
        value=term.value,
        number=number(term.value),
        negated=term.negated,
    )
