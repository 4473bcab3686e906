"""A table that keeps its cursor on the same row when rows change, and draws only visible lines."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual

from tabapp.printable import one_line
from tabapp.tui.content import Content, flat
from tabapp.tui.viewmodels.texts import MUTED


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        width: cells; None for as wide as its widest cell.
        flexible: is cut first, down to `least` cells. Of several, each takes what the earlier ones leave, up to its widest cell;
            the last takes the remaining width.
        priority: 0 is always shown; without room, columns with the highest number are hidden first.
        shorten: gives a cell a form of at most so many cells where it does not fit; None cuts its end.
        wraps: a cell that does not fit takes further lines instead.
        spreads: it takes them only where the table has free lines for all of the cell.
    """

    title: str
    align: Literal["left", "right"] = "left"
    width: int | None = None
    flexible: bool = False
    least: int = 8
    priority: int = 0
    shorten: Callable[[Content, int], Content] | None = None
    wraps: bool = False
    spreads: bool = False


@dataclass(frozen=True)
class Row:
    """A row; the cursor follows its key."""

    key: str
    cells: tuple[Content, ...]


GAP = 2
TRIAL = re.compile(r" #\d+$")


def fit_widths(columns: Sequence[Column], natural: Sequence[int], available: int) -> list[int]:
    """Column widths that fit; 0 hides a column.

    Columns are hidden by descending priority until the rest fits with flexible columns at their least width, which then take the
    remaining width.
    """
    widths = [
        min(wide, column.least) if column.flexible else wide for column, wide in zip(columns, natural, strict=True)
    ]

    def used() -> int:
        shown = [width for width in widths if width]
        return sum(shown) + GAP * (len(shown) - 1)

    for index in sorted(range(len(columns)), key=lambda index: -columns[index].priority):
        if used() <= available or columns[index].priority == 0:
            break
        widths[index] = 0
    flexible = [index for index, column in enumerate(columns) if column.flexible and widths[index]]
    for index in flexible:
        room = widths[index] + available - used()
        widths[index] = max(1, room if index == flexible[-1] else min(room, natural[index]))
    return widths


def _flat_row(row: Row) -> Row:
    cells = tuple(map(flat, row.cells))
    # A cached row keeps its identity, which makes comparisons short.
    return row if all(cell is own for cell, own in zip(cells, row.cells, strict=True)) else Row(row.key, cells)


def _same_row(one: Row, other: Row) -> bool:
    # Content compares equal by its text alone; a change of style must be drawn too.
    if one is other:
        return True
    return one.key == other.key and all(cell.is_same(twin) for cell, twin in zip(one.cells, other.cells, strict=True))


def _same(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    return len(rows) == len(others) and all(map(_same_row, rows, others))


def _cut(cell: Content, width: int) -> Content:
    """A cell cut to a width; the number of a trial at its end stays: "FT-Transf… #12"."""
    trial = TRIAL.search(cell.plain)
    if cell.cell_length <= width or trial is None or trial.end() - trial.start() > width - 2:
        return cell.truncate(width, ellipsis=True)
    kept = cell[trial.start() :]
    return cell[: trial.start()].truncate(width - kept.cell_length, ellipsis=True) + kept


class Table(ScrollView, can_focus=True):
    """Rows with a cursor, a fixed header and columns that adapt to the width.

    With `wide`, columns keep their natural width and the table scrolls sideways instead.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--header", "table--cursor", "table--cursor-blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("pagedown,ctrl+d", "page(1)", show=False),
        Binding("home,g", "move_to(0)", show=False),
        Binding("end,G", "move_to(-1)", show=False),
        Binding("enter", "select", show=False),
        Binding("h,left", "scroll_sideways(-1)", show=False),
        Binding("l,right", "scroll_sideways(1)", show=False),
    ]

    ORDERS: ClassVar[tuple[str, ...]] = ()
    """Names of the orders of a table that can be sorted; `sort` is one of them."""
    sort = ""

    @property
    def has_header(self) -> bool:
        """Whether a line with the titles of the columns is shown."""
        return bool(self._header)

    def about_row(self) -> Sequence[Content]:
        """What the row under the cursor is, for the help; nothing where its cells say it."""
        return ()

    class Moved(Message):
        """The cursor moved to another row."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            return self.table

    class Selected(Moved):
        """A row was selected with Enter or a double click."""

    class HeaderClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, table: Table, title: str) -> None:
            super().__init__()
            self.table = table
            self.title = title

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        wide: bool = False,
        header: bool = True,
        id: str | None = None,  # noqa: A002
        empty: str = "",
    ) -> None:
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._rows: tuple[Row, ...] = ()
        self._index = 0
        self._wide = wide
        self._header = int(header)
        self._empty = empty
        self._natural: list[int] = []
        self._widths = [0] * len(self._columns)
        self._tops: Sequence[int] = range(1)
        """The first line of each row, and the number of all lines."""

    @property
    def key(self) -> str | None:
        """The key of the row under the cursor."""
        return self._rows[self._index].key if self._rows else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, also those for which there is no room."""
        return self._columns

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows shown, in order."""
        return self._rows

    def show(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Replace the content. The cursor stays on the row with the same key, or at its position if that row was removed."""
        rows = tuple(map(_flat_row, rows))
        if columns is not None and tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._rows = ()
            self._natural = []
        if self._natural and _same(rows, self._rows):
            return
        key, old = self.key, self._rows
        self._rows = rows
        keys = [row.key for row in rows]
        self._index = keys.index(key) if key in keys else min(self._index, max(0, len(rows) - 1))
        widths, tops = self._widths, self._tops
        self._measure()
        if len(old) == len(rows) and widths == self._widths and tops == self._tops:
            first = self._header - self.scroll_offset.y
            for index, (before, after) in enumerate(zip(old, rows, strict=True)):
                top, end = first + self._tops[index], first + self._tops[index + 1]
                if not _same_row(before, after) and self._header < end and top < self.size.height:
                    self.refresh(Region(0, top, self.size.width, end - top))
        else:
            self.refresh()
        if self.key is not None and self.key != key:
            self.post_message(self.Moved(self, self.key))
        elif self._rows and keys[self._index] == key:
            self._bring_into_view()

    def set_empty(self, text: str) -> None:
        """Set the text shown without rows."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    def move_to_key(self, key: str) -> None:
        """Move the cursor to a row, if it exists."""
        for index, row in enumerate(self._rows):
            if row.key == key:
                self._move(index)

    def _measure(self) -> None:
        self._natural = [
            column.width
            or max([len(column.title) if self._header else 0, *(row.cells[index].cell_length for row in self._rows)])
            for index, column in enumerate(self._columns)
        ]
        width = self.size.width
        self._widths = list(self._natural) if self._wide else fit_widths(self._columns, self._natural, width - 2)
        shown = [wide for wide in self._widths if wide]
        across = sum(shown) + GAP * (len(shown) - 1) + 2 if self._wide else width
        self._tops = range(len(self._rows) + 1)
        if any(column.wraps or column.spreads for column in self._columns):
            self._tops = list(accumulate(self._heights(), initial=0))
        self.virtual_size = Size(across, self._tops[-1] + self._header)

    def _heights(self) -> list[int]:
        """The lines of each row; rows that spread get free lines from the top."""
        heights = [self._height_of(row, [column.wraps for column in self._columns]) for row in self._rows]
        if not any(column.spreads for column in self._columns):
            return heights
        free = self.size.height - self._header - sum(heights)
        spreading = [column.wraps or column.spreads for column in self._columns]
        for index, row in enumerate(self._rows):
            more = self._height_of(row, spreading) - heights[index]
            if 0 < more <= free:
                heights[index] += more
                free -= more
        return heights

    def _height_of(self, row: Row, wrapping: Sequence[bool]) -> int:
        """The lines of a row in which some cells wrap."""
        lines = (
            len(cell.wrap(width))
            for wraps, width, cell in zip(wrapping, self._widths, row.cells, strict=True)
            if wraps and width
        )
        return max([1, *lines])

    def _row_at(self, line: int) -> int:
        """The index of the row that has a line."""
        return bisect_right(self._tops, line) - 1

    def on_resize(self) -> None:
        self._measure()
        self._bring_into_view()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        scroll_x, scroll_y = self.scroll_offset
        width = self.size.width
        at = y - self._header + scroll_y
        if y < self._header:
            style = self.get_visual_style("table--header")
            line = self._line([Content(one_line(column.title)) for column in self._columns])
        elif at < self._tops[-1]:
            index = self._row_at(at)
            style = self._cursor_style() if index == self._index else self.visual_style
            top, end = self._tops[index], self._tops[index + 1]
            line = self._line(self._rows[index].cells, at - top, spreads=end - top > 1)
        else:
            style = self.visual_style
            line = Content.styled(f" {one_line(self._empty)}" if y == self._header and not self._rows else "", MUTED)
        across = max(width, self.virtual_size.width) if self._wide else width
        strips = Visual.to_strips(self, line.truncate(across, ellipsis=not self._wide, pad=True), across, 1, style)
        return strips[0].crop(scroll_x, scroll_x + width) if strips else Strip.blank(width, style.rich_style)

    def _cursor_style(self) -> Style:
        name = "table--cursor" if self.has_focus else "table--cursor-blurred"
        # Textual leaves "reverse" out of the visual style.
        return self.get_visual_style(name) + Style(reverse=bool(self.get_component_styles(name).text_style.reverse))

    def _line(self, cells: Sequence[Content], number: int = 0, *, spreads: bool = False) -> Content:
        """A line of a row, which may have several; those after the first have only what cells continue."""
        parts: list[Content] = []
        for column, width, cell in zip(self._columns, self._widths, cells, strict=True):
            if not width:
                continue
            if column.wraps or (column.spreads and spreads):
                wrapped = cell.wrap(width)
                cell = wrapped[number] if number < len(wrapped) else Content("")
            elif number:
                cell = Content("")
            elif column.shorten is not None and cell.cell_length > width:
                cell = column.shorten(cell, width)
            fitted = _cut(cell, width)
            room = width - fitted.cell_length
            parts.append(fitted.pad_left(room) if column.align == "right" else fitted.pad_right(room))
        return Content(" ") + Content(" " * GAP).join(parts)

    def _move(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if not self._rows or index == self._index:
            return
        self._index = index
        self._bring_into_view()
        self.refresh()
        self.post_message(self.Moved(self, self._rows[index].key))

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """Set the position of a scrollbar that appears after scrolling."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def _bring_into_view(self) -> None:
        page = max(1, self.size.height - self._header)
        top = self.scroll_offset.y
        first, end = self._tops[self._index : self._index + 2] if self._rows else (0, 0)
        if first < top:
            self.scroll_to(y=first, animate=False, force=True, immediate=True)
        elif end > top + page:
            self.scroll_to(y=min(first, end - page), animate=False, force=True, immediate=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "select":
            # Without rows, Enter belongs to the screen.
            return bool(self._rows)
        if action == "scroll_sideways":
            return self._wide
        return super().check_action(action, parameters)

    def is_shown(self, column: Column) -> bool:
        """Whether there is room for a column."""
        return bool(self._widths[self._columns.index(column)])

    def action_move(self, rows: int) -> None:
        self._move(self._index + rows)

    def action_page(self, pages: int) -> None:
        lines, top = max(1, self.size.height - self._header - 1), self._tops[self._index]
        if pages > 0:
            self._move(max(self._index + 1, self._row_at(top + lines)))
        else:
            self._move(min(self._index - 1, bisect_left(self._tops, top - lines)))

    def action_move_to(self, index: int) -> None:
        self._move(len(self._rows) - 1 if index < 0 else index)

    def action_scroll_sideways(self, direction: int) -> None:
        self.scroll_relative(x=direction * 12, animate=False, force=True)

    def action_select(self) -> None:
        if self.key is not None:
            self.post_message(self.Selected(self, self.key))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < self._header:
            title = self._title_at(offset.x + self.scroll_offset.x)
            if title:
                self.post_message(self.HeaderClicked(self, title))
            return
        at = offset.y - self._header + self.scroll_offset.y
        if at < self._tops[-1]:
            self._move(self._row_at(at))
            if event.chain == 2:
                self.action_select()

    def _title_at(self, x: int) -> str | None:
        start = 1
        for column, width in zip(self._columns, self._widths, strict=True):
            if not width:
                continue
            if start <= x < start + width:
                return column.title
            start += width + GAP
        return None
