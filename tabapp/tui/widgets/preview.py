"""The first rows of the table, scrollable sideways."""

from __future__ import annotations

from textual.content import Content

from tabapp.run.state import RunState
from tabapp.tui.texts import MUTED
from tabapp.tui.widgets.panel import set_titles
from tabapp.tui.widgets.table import Column, Row, Table

LONGEST = 40


class Preview(Table):
    """Shows the rows that the engine sent along; an empty cell is a dot."""

    def __init__(self, *, id: str = "preview") -> None:  # noqa: A002
        super().__init__([], wide=True, id=id)
        set_titles(self, "Preview")

    def show_state(self, state: RunState) -> None:
        """Draw the preview of a state."""
        if state.read is None:
            return
        kinds = {column.name: column.kind for column in state.schema.columns} if state.schema else {}
        columns = [
            Column(name, "right" if kinds.get(name) == "numeric" else "left", width=_width(state, index))
            for index, name in enumerate(state.read.names)
        ]
        rows = [
            Row(str(number), tuple(Content.styled("·", MUTED) if cell is None else Content(cell) for cell in cells))
            for number, cells in enumerate(state.read.preview)
        ]
        set_titles(self, f"Preview · {len(rows)} of {state.read.rows:,} rows", "←/→ scroll · p whole screen")
        self.show(rows, columns)


def _width(state: RunState, index: int) -> int:
    assert state.read is not None
    cells = [row[index] or "" for row in state.read.preview]
    return min(LONGEST, max(len(state.read.names[index]), *map(len, cells), 1))
