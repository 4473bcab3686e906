"""The first rows of the table, scrollable sideways, with the target first."""

from __future__ import annotations

from collections.abc import Collection

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

    def show_rows(self, rows: TableRows, targets: Collection[str] = ()) -> None:
        """Draw the known first rows, with the targets as the first columns, where a wide table shows them."""
        layout = rows.layout
        order = sorted(range(len(layout.names)), key=lambda index: layout.names[index] not in targets)
        n_targets = sum(name in targets for name in layout.names)
        columns = [
            Column(
                one_line(layout.names[index]),
                "right" if layout.numeric[index] else "left",
                width=layout.widths[index],
            )
            for index in order
        ]
        shown = [
            Row(
                str(number),
                tuple(_cell(cells[index], "$accent" if place < n_targets else "") for place, index in enumerate(order)),
            )
            for number, cells in enumerate(rows.first_rows)
        ]
        if rows.whole_height is not None:
            of = f"{rows.whole_height:,} rows"
        else:
            of = f"about {rows.about:,} rows · still reading…" if rows.about else "all rows · still reading…"
        set_titles(self, f"Preview · {len(shown)} of {of}", "←/→ scroll · a all rows")
        self.show(shown, columns)


def _cell(text: str | None, style: str) -> Content:
    return Content.styled(EMPTY, MUTED) if text is None else Content.styled(one_line(text), style)
