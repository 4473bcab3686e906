"""The columns of the data: kind, shape, values and role."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, short_range

SHAPE_WIDTH = 10
SHORT_BELOW = 80
KINDS = {"categorical": "category", "identifier": "id"}
SHORT_KINDS = {
    "numeric": "num",
    "categorical": "cat",
    "boolean": "bool",
    "datetime": "date",
    "identifier": "id",
    "constant": "const",
}
IGNORED = "ignored"
"""Stands for the values of a column that the models do not see."""
MARKS = {
    "feature": ("✓", "$success"),
    "target": ("◎", "bold $accent"),
    "ignore": ("–", MUTED),
    "group": ("g", "$secondary"),
    "time": ("t", "$secondary"),
    "weight": ("w", "$secondary"),
}
Order = Literal["file", "missing", "unique", "association"]
ORDERS: tuple[Order, ...] = ("file", "missing", "unique", "association")
ORDER_TEXTS: Mapping[Order, str] = {
    "file": "in the order of the file",
    "missing": "most missing first",
    "unique": "most distinct first",
    "association": "most associated with the target first",
}


def column_row(
    column: ev.ColumnView, rows: int, kinds: Mapping[str, str], given: Collection[str], association: float | None
) -> Row:
    """A column as a row.

    Args:
        rows: number of rows in the data.
        kinds: the labels of kinds.
        given: the columns whose kinds the user has set.
        association: how well the column alone predicts the target, from 0 to 1; None if it is not known.
    """
    role = column.role
    style = {"ignore": MUTED, "target": "bold $accent"}.get(role, "")
    missing = column.missing / rows if rows else 0.0
    values = IGNORED if role == "ignore" else column.summary
    kind = kinds.get(column.kind, column.kind) + ("*" if column.name in given else "")
    return Row(
        column.name,
        (
            Content.styled(*MARKS.get(role, ("?", ""))),
            Content.styled(column.name, style),
            Content.styled(kind, MUTED if role == "ignore" else ""),
            Content.styled("100%" if missing >= 0.9995 else f"{missing:.1%}", "$warning" if missing > 0.5 else MUTED),
            Content.styled(f"{column.unique:,}", MUTED),
            Content.styled("" if association is None else f"{association:.2f}", MUTED),
            Content.styled(charts.histogram(column.histogram, SHAPE_WIDTH), MUTED if role == "ignore" else "$primary"),
            Content.styled(values, MUTED),
        ),
    )


def columns_for(longest_name: int, longest_kind: int, width: int, *, associated: bool) -> tuple[Column, ...]:
    """The columns of the table; a long name leaves room for the rest, and the longest kind for its mark."""
    return (
        Column("", width=1),
        Column("name", width=min(longest_name, max(12, width // 3))),
        Column("kind", width=longest_kind + 1),
        Column("miss", "right", width=5),
        Column("unique", "right", priority=3),
        Column("assoc" if associated else "", "right", width=5 if associated else None, priority=1),
        Column("shape", width=SHAPE_WIDTH, priority=1),
        Column("values", flexible=True, priority=2, shorten=_shorter_values),
    )


def _shorter_values(cell: Content, width: int) -> Content:
    return Content.styled(short_range(cell.plain, width), MUTED)


class Columns(Table):
    """Shows the schema of a state: targets first, the others in the chosen order.

    Attributes:
        filter: text that the name or the kind of a shown column contains.
        order: of the columns.
        associations: how well each column alone predicts the target; empty while it is not known.
    """

    def __init__(self) -> None:
        super().__init__(columns_for(4, 4, 80, associated=False), id="columns", empty="Reading the file…")
        self.filter = ""
        self.order: Order = "file"
        self.associations: Mapping[str, float] = {}

    def show_state(self, state: RunState, given: Collection[str] = ()) -> None:
        """Draw the columns whose name or kind contains the filter; `given` are those whose kinds the user has set."""
        if state.schema is None:
            if state.finished is not None:
                self.set_empty(state.finished.message or "The file was not read.")
            return
        kinds = SHORT_KINDS if self.size.width < SHORT_BELOW else KINDS
        shown = [
            column
            for column in state.schema.columns
            if self.filter.casefold() in f"{column.name} {column.kind}".casefold()
        ]
        shown.sort(key=self._place)
        rows = [
            column_row(
                column,
                state.schema.rows + state.schema.rows_without_target,
                kinds,
                given,
                self.associations.get(column.name),
            )
            for column in shown
        ]
        self.set_empty(f"No column matches “{self.filter}”." if self.filter else "The table has no columns.")
        longest_name = max([4, *(len(column.name) for column in state.schema.columns)])
        longest_kind = max([4, *(len(kinds.get(column.kind, column.kind)) for column in state.schema.columns)])
        self.show(rows, columns_for(longest_name, longest_kind, self.size.width, associated=bool(self.associations)))

    def _place(self, column: ev.ColumnView) -> tuple[bool, float]:
        value: Callable[[ev.ColumnView], float] = {
            "file": lambda column: 0.0,
            "missing": lambda column: column.missing,
            "unique": lambda column: column.unique,
            "association": lambda column: self.associations.get(column.name, -1.0),
        }[self.order]
        return column.role != "target", -value(column)

    def column(self, state: RunState) -> ev.ColumnView | None:
        """The column under the cursor."""
        columns = state.schema.columns if state.schema else ()
        return next((column for column in columns if column.name == self.key), None)
