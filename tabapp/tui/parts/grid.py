"""A grid of table cells that draws and fetches only visible cells."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tabapp.printable import one_line
from tabapp.tui.paging.row_cache import TableRows

GAP = 2
EMPTY, ABSENT = "·", "…"


class Grid(ScrollView, can_focus=True):
    """A table of any size with a cell cursor and a fixed header and row numbers."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--header",
        "grid--number",
        "grid--cursor",
        "grid--row",
        "grid--empty",
        "grid--match",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", show=False),
        Binding("down,j", "move(1, 0)", show=False),
        Binding("left,h", "move(0, -1)", show=False),
        Binding("right,l", "move(0, 1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("pagedown,ctrl+d", "page(1)", show=False),
        Binding("home,g", "to_row(0)", show=False),
        Binding("end,G", "to_row(-1)", show=False),
        Binding("0,circumflex_accent", "to_column(0)", show=False),
        Binding("dollar_sign", "to_column(-1)", show=False),
        Binding("ctrl+right", "page_sideways(1)", show=False),
        Binding("ctrl+left", "page_sideways(-1)", show=False),
        Binding("enter", "select", show=False),
    ]

    class Moved(Message):
        """The cursor moved to another cell."""

    class Selected(Message):
        """A cell was selected with Enter or a double click."""

    class HeaderClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, rows: TableRows, *, id: str = "table") -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows = rows
        self._starts: list[int] = []
        self._gutter = 1
        self._styles: dict[str, Style] = {}
        self._shape: object = None

    def show(self) -> None:
        """Draw the current rows."""
        rows, layout = self.rows, self.rows.layout
        shape = (layout, rows.height)
        if shape != self._shape:
            self._shape = shape
            self._starts = [0, *accumulate(width + GAP for width in layout.widths)]
            self._gutter = max(3, len(f"{max(rows.height, rows.whole_height or 0):,}"))
            self.virtual_size = Size(self._gutter + GAP + 1 + self._starts[-1], rows.height + 1)
        self._bring_into_view()
        self.look()
        self.refresh()

    def look(self) -> None:
        """Report the visible rows and columns, so that they are fetched."""
        first, last = self._columns_seen()
        top = self.scroll_offset.y
        self.rows.look_at(top, max(top, top + self._window.height - 2), first, last)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.look()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        self.look()

    def on_resize(self) -> None:
        self._bring_into_view()
        self.look()

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    # -- drawing ----------------------------------------------------------------------------------------------------

    @property
    def _window(self) -> Size:
        """The size without scrollbars."""
        return self.scrollable_content_region.size

    @property
    def _room(self) -> int:
        """The width without row numbers."""
        return max(1, self._window.width - self._gutter - GAP)

    def _columns_seen(self) -> tuple[int, int]:
        """The first and last column that are at least partly visible."""
        n_columns = len(self.rows.layout.names)
        if not n_columns:
            return 0, 0
        left = self.scroll_offset.x
        first = min(bisect_right(self._starts, left) - 1, n_columns - 1)
        last = min(bisect_right(self._starts, left + self._room - 1) - 1, n_columns - 1)
        return max(0, first), max(0, last)

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self.get_component_rich_style(name) if name else self.rich_style
        return self._styles[name]

    def render_line(self, y: int) -> Strip:
        row = y - 1 + self.scroll_offset.y
        width = self._window.width
        if y and row >= self.rows.height:
            text = ""
            if y == 1 and not self.rows.busy:
                text = self.rows.trouble or ("No row fits the filter." if self.rows.filter else "There are no rows.")
            return Strip([Segment(set_cell_size(f" {one_line(text)}", width), self._style("grid--empty"))], width)
        if y == 0:
            gutter, base = " " * self._gutter, self._style("grid--header")
        else:
            number = self.rows.number_of(row)
            gutter = f"{number + 1:,}".rjust(self._gutter) if number is not None else ABSENT.rjust(self._gutter)
            on_row = row == self.rows.row
            base = self._style("grid--row") if on_row else self._style("")
        first, last = self._columns_seen()
        segments: list[Segment] = []
        for column in range(first, last + 1) if self.rows.layout.names else ():
            segments += self._cell(row if y else -1, column, base)
        hidden = self.scroll_offset.x - (self._starts[first] if self._starts else 0)
        body = Strip(segments).crop(hidden, hidden + self._room).adjust_cell_length(self._room, base)
        edge = Segment(f"{gutter}{' ' * GAP}", self._style("grid--header" if y == 0 else "grid--number"))
        return Strip([edge, *body], width)

    def _cell(self, row: int, column: int, base: Style) -> list[Segment]:
        layout = self.rows.layout
        width, right = layout.widths[column], layout.numeric[column]
        gap = Segment(" " * GAP, base)
        if row < 0:
            title = one_line(layout.names[column])
            sorted_by = self.rows.sorted_by
            if sorted_by is not None and sorted_by[0] == column:
                arrow = "↓" if sorted_by[1] else "↑"
                if cell_len(title) + 2 <= width:
                    title = f"{title} {arrow}"
                else:  # In the gap, so that a narrow column keeps its name.
                    gap = Segment(arrow.ljust(GAP), base)
            style = base + Style(bold=True) if column == self.rows.column else base
            return [Segment(_fit(title, width, right), style), gap]
        here, text = self.rows.cell(row, column)
        style = base
        if not here or text is None:
            style = base + self._style("grid--empty")
        if row == self.rows.row and column == self.rows.column:
            style = base + self._style("grid--cursor")
        shown = _fit(EMPTY if here and text is None else one_line(text) if text is not None else ABSENT, width, right)
        search = self.rows.search.casefold()
        if search and text is not None and (at := shown.casefold().find(search)) >= 0:
            end = at + len(search)
            match = style + self._style("grid--match")
            return [Segment(shown[:at], style), Segment(shown[at:end], match), Segment(shown[end:], style), gap]
        return [Segment(shown, style), gap]

    # -- moving -----------------------------------------------------------------------------------------------------

    def move_to(self, row: int, column: int) -> None:
        """Move the cursor to a cell, or to the nearest one."""
        rows = self.rows
        row = max(0, min(row, rows.height - 1))
        column = max(0, min(column, len(rows.layout.names) - 1))
        if (row, column) != (rows.row, rows.column):
            rows.row, rows.column = row, column
            self.post_message(self.Moved())
        self._bring_into_view()
        self.refresh()

    def _bring_into_view(self) -> None:
        rows = self.rows
        page = max(1, self._window.height - 1)
        left, top = self.scroll_offset
        y = min(top, rows.row) if rows.row < top + page else rows.row - page + 1
        x = left
        if self._starts and rows.column < len(rows.layout.names):
            start, end = self._starts[rows.column], self._starts[rows.column] + rows.layout.widths[rows.column]
            if end > left + self._room:
                x = end - self._room
            if start < x:
                x = start
        if (x, y) != (left, top):
            self.scroll_to(x, y, animate=False, force=True, immediate=True)

    @property
    def _page(self) -> int:
        return max(1, self._window.height - 2)

    def action_move(self, rows: int, columns: int) -> None:
        self.move_to(self.rows.row + rows, self.rows.column + columns)

    def action_page(self, pages: int) -> None:
        self.move_to(self.rows.row + pages * self._page, self.rows.column)

    def action_page_sideways(self, direction: int) -> None:
        first, last = self._columns_seen()
        self.move_to(self.rows.row, last + 1 if direction > 0 else first - 1)

    def action_to_row(self, row: int) -> None:
        self.move_to(self.rows.height - 1 if row < 0 else row, self.rows.column)

    def action_to_column(self, column: int) -> None:
        self.move_to(self.rows.row, len(self.rows.layout.names) - 1 if column < 0 else column)

    def action_select(self) -> None:
        if self.rows.height:
            self.post_message(self.Selected())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.rows.layout.names:
            return
        x = offset.x - self._gutter - GAP + self.scroll_offset.x
        column = min(bisect_right(self._starts, max(0, x)) - 1, len(self.rows.layout.names) - 1)
        if offset.y == 0:
            self.post_message(self.HeaderClicked(column))
            return
        row = offset.y - 1 + self.scroll_offset.y
        if row < self.rows.height:
            self.move_to(row, column)
            if event.chain == 2:
                self.action_select()


def _fit(text: str, width: int, right: bool) -> str:
    """A text padded or cut to a width."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)
