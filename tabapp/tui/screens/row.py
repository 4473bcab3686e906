"""The explanation of one row: its contributions, edited values, the curve over a column, and nearest changes."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Input

from tabapp.errors import UsageError
from tabapp.printable import one_line
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Ask, Choice, Option
from tabapp.tui.parts.lines import Header, KeyBar, StatusLine, Tabs
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.session.row_explanation import ExplainerClient, RowExplanation
from tabapp.tui.viewmodels.texts import Snapshot, threshold_metric
from tabapp.tui.widgets.row_panels import Contributions, RowChanges, RowCurve, RowFacts, RowSummary

NOT_YET = "The row is not explained yet."


class RowView(RunView):
    """Covers the Predict screen until Escape.

    Args:
        client: the explainer process, which the Predict screen keeps.
        row: counted from 0; the file has `n_rows`.
    """

    CSS_PATH = sheet("row")
    VIEW: View = "row"
    MAIN = "#row-columns"
    BINDINGS: ClassVar = bindings_for("row")

    def __init__(self, client: ExplainerClient, row: int, n_rows: int, target: str) -> None:
        super().__init__()
        self._client = client
        self._n_rows = n_rows
        self._target = target
        self._row = RowExplanation(client, row, self.redraw)

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield Header(id="header")
        yield Tabs("predict")
        with Container(id="body"):
            yield RowSummary("Row", id="row-summary")
            with Horizontal(id="row-body"):
                yield Contributions()
                with Vertical(id="row-side"):
                    yield RowCurve("What if", id="row-curve")
                    yield RowChanges("Nearest changes", id="row-changes")
        yield Input(id="filter", compact=True)
        yield KeyBar("row")

    def compose_body(self) -> ComposeResult:
        yield from ()

    def on_mount(self) -> None:
        super().on_mount()
        self._show()

    @property
    def _column(self) -> str:
        return self.query_one(Contributions).key or ""

    def draw(self, snapshot: Snapshot) -> None:
        is_animated = self._row.working and self.app.animation_level != "none"
        table = self.query_one(Contributions)
        table.show_row(self._facts(int(snapshot.now * 4) if is_animated else None))
        # The first rows of the table put the cursor on a column.
        facts = self._facts(int(snapshot.now * 4) if is_animated else None)
        for panel in (RowSummary, RowCurve, RowChanges):
            self.query_one(panel).show(facts)

    def _facts(self, frame: int | None) -> RowFacts:
        row = self._row
        return RowFacts(
            target=self._target,
            row=row.row,
            values=dict(row.values),
            fixed=frozenset(row.fixed),
            predicted=row.predicted,
            explained=row.explained,
            curve=row.curve,
            changes=row.changes,
            goal=row.goal,
            column=self._column,
            is_current=row.is_current,
            working=row.working,
            trouble=row.trouble,
            frame=frame,
            metric=threshold_metric(self.snapshot.state, row.predicted.threshold if row.predicted else None),
        )

    def _show(self) -> None:
        self.run_worker(self._show_row(), exit_on_error=False)

    async def _show_row(self) -> None:
        await self._row.show(self._column or None)
        if self._row.curve is None and self._column:
            await self._row.draw(self._column)

    @on(Table.Moved, "#row-columns")
    def _moved(self) -> None:
        self.redraw()
        if self._column and self._row.explained is not None:
            self.run_worker(self._row.draw(self._column), exit_on_error=False)

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_close(self) -> None:
        self.dismiss()

    @on(Table.Selected, "#row-columns")
    def action_edit(self) -> None:
        column, found = self._column, self._row.explained
        if not column or found is None:
            self.warn(NOT_YET)
            return
        cell = self._row.values.get(column, self._row.original.get(column))
        message = "Another value, as the file spells it; leave it empty for a missing value:"
        dialog = Ask(f"What if {one_line(column)} were", message, cell or "", lambda text: text)
        self.tabapp.push_screen(dialog, lambda text: self._set(column, text))

    def _set(self, column: str, text: str | None) -> None:
        if text is None:
            return
        value = text or None
        if value == self._row.original.get(column):
            self._row.values.pop(column, None)
        else:
            self._row.values[column] = value
        self._show()

    def action_undo(self) -> None:
        if self._row.values:
            self._row.values.clear()
            self._show()
        else:
            self.warn("No value is changed; enter changes the one under the cursor.")

    def action_fix(self) -> None:
        if self._column:
            self._row.fixed ^= {self._column}
            self.redraw()

    def action_search(self) -> None:
        predicted = self._row.predicted
        if predicted is None:
            self.warn(NOT_YET)
        elif predicted.probabilities:
            options = [
                Option(label, one_line(label), f"{share:.1%}")
                for label, share in sorted(predicted.probabilities.items(), key=lambda item: -item[1])
                if label != predicted.prediction
            ]
            self.tabapp.push_screen(Choice("Nearest changes to reach the class", options), self._search)
        else:
            dialog = Ask("Nearest changes", "The prediction to reach:", predicted.prediction, _check_number)
            self.tabapp.push_screen(dialog, self._search)

    def _search(self, goal: str | None) -> None:
        if goal is not None:
            self.run_worker(self._row.search(goal), exit_on_error=False)

    def action_step(self, step: int) -> None:
        row = self._row.row + step
        if 0 <= row < self._n_rows:
            fixed = self._row.fixed
            self._row = RowExplanation(self._client, row, self.redraw)
            self._row.fixed = fixed
            self._show()
        else:
            self.warn("This is the last row." if step > 0 else "This is the first row.")

    def action_charts(self) -> None:
        self.toggle_charts()

    def action_copy_command(self) -> None:
        self.tabapp.copy(self._row.command())


def _check_number(text: str) -> str:
    try:
        float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number.") from None
    return text
