"""The columns of the data: kind, shape, values and role."""

from __future__ import annotations

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED

SHAPE_WIDTH = 10
SHORT_BELOW = 60
KINDS = {"categorical": "category", "identifier": "id"}
SHORT_KINDS = {
    "numeric": "num",
    "categorical": "cat",
    "boolean": "bool",
    "datetime": "date",
    "identifier": "id",
    "constant": "const",
}
MARKS = {
    "feature": ("✓", "$success"),
    "target": ("◎", "bold $accent"),
    "ignore": ("–", MUTED),
    "group": ("g", "$secondary"),
    "time": ("t", "$secondary"),
    "weight": ("w", "$secondary"),
}


def column_row(column: ev.ColumnView, rows: int, kinds: dict[str, str]) -> Row:
    """A column as a row; `rows` is the number of rows in the data, `kinds` the labels of kinds."""
    role = column.role
    style = {"ignore": MUTED, "target": "bold $accent"}.get(role, "")
    missing = column.missing / rows if rows else 0.0
    if role == "target":
        values = Content.assemble(("target", "$accent"), (f" · {column.summary}", MUTED))
    elif role == "ignore":
        values = Content.styled("ignored", MUTED)
    else:
        values = Content.styled(column.summary if role == "feature" else f"{role}: {column.summary}", MUTED)
    kind = kinds.get(column.kind, column.kind) + ("*" if column.overridden else "")
    return Row(
        column.name,
        (
            Content.styled(*MARKS.get(role, ("?", ""))),
            Content.styled(column.name, style),
            Content.styled(kind, MUTED if role == "ignore" else ""),
            Content.styled(f"{missing:.1%}", "$warning" if missing > 0.5 else MUTED),
            Content.styled(f"{column.unique:,}", MUTED),
            Content.styled(charts.histogram(column.histogram, SHAPE_WIDTH), MUTED if role == "ignore" else "$primary"),
            values,
        ),
    )


def columns_for(longest_name: int, width: int) -> tuple[Column, ...]:
    """The columns; a long name leaves room for the rest."""
    return (
        Column("", width=1),
        Column("name", width=min(longest_name, max(12, width // 3))),
        Column("kind"),
        Column("miss", "right", width=5),
        Column("unique", "right", priority=3),
        Column("shape", width=SHAPE_WIDTH, priority=1),
        Column("values", flexible=True, priority=2),
    )


class Columns(Table):
    """Shows the schema of a state."""

    def __init__(self) -> None:
        super().__init__(columns_for(4, 80), id="columns", empty="Reading the file…")
        self.filter = ""

    def show_state(self, state: RunState) -> None:
        """Draw the columns whose name or kind contains the filter."""
        if state.schema is None:
            if state.finished is not None:
                self.set_empty(state.finished.message or "The file was not read.")
            return
        kinds = SHORT_KINDS if self.size.width < SHORT_BELOW else KINDS
        rows = [
            column_row(column, state.schema.rows + state.schema.rows_without_target, kinds)
            for column in state.schema.columns
            if self.filter.casefold() in f"{column.name} {column.kind}".casefold()
        ]
        longest = max([4, *(len(column.name) for column in state.schema.columns)])
        self.show(rows, columns_for(longest, self.size.width))

    def column(self, state: RunState) -> ev.ColumnView | None:
        """The column under the cursor."""
        columns = state.schema.columns if state.schema else ()
        return next((column for column in columns if column.name == self.key), None)
