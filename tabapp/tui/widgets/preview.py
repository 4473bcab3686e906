"""The first rows of the table, scrollable sideways."""

from __future__ import annotations

from tabapp.printable import one_line
from tabapp.tui.content import Content
from tabapp.tui.paging.row_cache import TableRows
from tabapp.tui.parts.grid import EMPTY
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED


class Preview(Table):
    """Shows the first rows of the file; an empty cell is a dot."""

    def __init__(self) -> None:
        super().__init__([], wide=True, id="preview", empty="Reading the file…")
        set_titles(self, "Preview")

    def show_rows(self, rows: TableRows) -> None:
        """Draw the known first rows."""
        layout = rows.layout
        columns = [
            Column(one_line(name), "right" if numeric else "left", width=width)
            for name, width, numeric in zip(layout.names, layout.widths, layout.numeric, strict=True)
        ]
        shown = [
            Row(str(number), tuple(Content.styled(EMPTY, MUTED) if c is None else Content(one_line(c)) for c in cells))
            for number, cells in enumerate(rows.first_rows)
        ]
        if rows.whole_height is not None:
            of = f"{rows.whole_height:,} rows"
        else:
            of = f"about {rows.about:,} rows · still reading…" if rows.about else "all rows · still reading…"
        set_titles(self, f"Preview · {len(shown)} of {of}", "←/→ scroll · a all rows")
        self.show(shown, columns)
