"""Data screen: the columns, the plan of the run and its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from tabapp.run.protocol import paging
from tabapp.run.record import events as ev
from tabapp.run.record.folder import with_runs_dir
from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import UNSTARTED, View, bindings_for, has_started
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.paging.client import Pager
from tabapp.tui.paging.row_cache import TableRows
from tabapp.tui.parts.column_panel import ColumnFacts, ColumnPanel
from tabapp.tui.parts.columns import ORDER_TEXTS, ORDERS, Columns
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.session.plan.columns import ColumnEditing
from tabapp.tui.session.plan.editing import PlanEditing
from tabapp.tui.session.plan.start_request import WAITING
from tabapp.tui.viewmodels.plan_fields import plan_fields
from tabapp.tui.viewmodels.texts import MUTED, Snapshot, count, file_size
from tabapp.tui.widgets.checks import Checks, warning_line, without_options
from tabapp.tui.widgets.plan import Plan, PlanNote
from tabapp.tui.widgets.preview import Preview
from tabapp.warning_text import sentence

if TYPE_CHECKING:
    from tabapp.tui.session.plan.exchange import PlanExchange

NO_COLUMN = "There is no column under the cursor."


class DataView(RunView):
    """The columns and the plan. This screen opens first."""

    VIEW: View = "data"
    MAIN = "#columns"
    BINDINGS: ClassVar = bindings_for("data")

    def __init__(self) -> None:
        super().__init__()
        self._pager = Pager(self.tabapp.folder)
        self.rows = TableRows(self._pager)
        self._shown: tuple[object, object] = (None, None)
        self._targets: tuple[str, ...] = ()
        self._rated: ev.SchemaInferred | None = None
        self._copies = False
        self._plan = PlanEditing(self.tabapp)
        self._columns = ColumnEditing(self.tabapp, self._plan)

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="upper"):
            with Vertical(id="columns-box", classes="box"):
                yield Columns()
                yield Static("", id="reason")
            yield ColumnPanel("Column", id="column")
            with Vertical(id="plan-box", classes="box"):
                yield Plan()
                yield PlanNote("", id="plan-note")
                yield Button("Start run  ctrl+r", id="start", compact=True)
        yield Checks()
        yield Preview()

    _reason = Content("")

    def on_mount(self) -> None:
        super().on_mount()
        set_titles(self.query_one("#columns-box"), "Columns")
        set_titles(self.query_one("#plan-box"), "Plan")
        self.rows.listener = self._show_rows
        self.call_after_refresh(self._read_head)

    async def on_unmount(self) -> None:
        await self._pager.close()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.rows.listener = self._show_rows

    def _read_head(self) -> None:
        # The engine takes a while for a large file; the first rows can be read at once.
        if self.snapshot.state.read is None:
            self.run_worker(self.rows.head(), exit_on_error=False)

    def _show_rows(self) -> None:
        self.query_one(Preview).show_rows(self.rows, self._targets)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, snapshot: Snapshot) -> None:
        self._draw_columns(snapshot)
        self._draw_plan(snapshot)
        self._draw_rows(snapshot.state)
        self.set_class(snapshot.state.schema is None, "-reading")

    def _draw_columns(self, snapshot: Snapshot) -> None:
        state, columns, box = snapshot.state, self.query_one(Columns), self.query_one("#columns-box")
        if state.schema is not self._rated and columns.associations:
            columns.associations = {}
            self._rate()
        columns.show_state(state, self.tabapp.planning.kinds)
        self._explain_column()
        if state.schema is not None:
            used = sum(column.role == "feature" for column in state.schema.columns)
            order = "" if columns.order == "file" else f" · {ORDER_TEXTS[columns.order]}"
            set_titles(box, f"Columns · {len(state.schema.columns)} · {count(used, 'feature')}{order}")
            self.query_one(Checks).show_schema(state.schema)
        if state.read is not None:
            read = state.read
            facts = [f"{read.rows:,} rows", file_size(read.n_bytes), read.encoding, read.delimiter]
            set_titles(box, subtitle=" · ".join({"\t": "tab"}.get(fact, fact) for fact in facts if fact))

    def _draw_plan(self, snapshot: Snapshot) -> None:
        plan, planning = snapshot.state.plan, self.tabapp.planning
        fields = self.query_one(Plan)
        n_changed = 0
        if plan is not None:
            shown = plan_fields(plan, planning.config, planning.changed)
            n_changed = sum(field.is_changed for field in shown)
            fields.show_fields(shown, is_open=snapshot.phase == "ready")
            self.query_one(PlanNote).show((plan, fields.field if fields.has_focus else None))
        changed = f"{n_changed} changed" if n_changed else ""
        undo = "u undoes" if planning.undoes and not has_started(snapshot.state) else ""
        title = " · ".join(word for word in ("Plan", changed, undo) if word)
        set_titles(self.query_one("#plan-box"), title, "updating the plan…" if planning.waits else "")
        self._show_start(snapshot)
        self._copy_command()

    def _draw_rows(self, state: RunState) -> None:
        targets = () if state.plan is None else state.plan.targets or (state.plan.target,)
        if targets != self._targets:
            self._targets = targets
            self._show_rows()
        if state.read is None or (state.read, state.schema) == self._shown:
            return
        before, self._shown = self._shown[0], (state.read, state.schema)
        if before is not None and before != state.read:
            self._open_again()
        kinds = {column.name: column.kind for column in state.schema.columns} if state.schema else {}
        numeric = [kinds.get(name) == "numeric" for name in state.read.names] if kinds else None
        self.rows.show_first(state.read.names, state.read.preview, height=state.read.rows, numeric=numeric)

    def _open_again(self) -> None:
        """Forget the rows: the file was read again, in another way."""
        self.run_worker(self._pager.close(), exit_on_error=False)
        self._pager = Pager(self.tabapp.folder)
        self.rows.listener = None
        self.rows = TableRows(self._pager)
        self.rows.listener = self._show_rows

    def _show_start(self, snapshot: Snapshot) -> None:
        button = self.query_one("#start", Button)
        waits = "Starts when the plan is ready · esc cancels"
        label = {"": "Start run  ctrl+r", "sent": "Starting the run…"}.get(snapshot.start)
        if label is None:
            label = waits if button.size.width >= len(waits) else "Waits for the plan · esc"
        if str(button.label) != label:
            button.label = label
        button.disabled = snapshot.phase not in UNSTARTED or snapshot.trouble is not None
        button.display = not has_started(snapshot.state)

    @on(Table.Moved, "#columns")
    def _explain_column(self) -> None:
        state = self.snapshot.state
        column = self.query_one(Columns).column(state)
        text = Content("")
        if column is not None:
            reason = column.reason
            if column.role == "target" and state.plan is not None:
                reason = state.plan.target_reason
            text = Content.assemble((f"{column.name} ", "bold"), (f"{column.kind}: {reason}", MUTED))
            if state.schema is not None:
                n_rows = state.schema.rows + state.schema.rows_without_target
                warnings = tuple(map(without_options, state.schema.warnings))
                self.query_one(ColumnPanel).show(ColumnFacts(column, reason, warnings, n_rows))
        if not text.is_same(self._reason):
            self._reason = text
            self.query_one("#reason", Static).update(text)

    @on(Table.Moved, "#plan")
    @on(Plan.FocusChanged)
    def _explain_field(self) -> None:
        self._draw_plan(self.snapshot)

    def set_filter(self, text: str) -> None:
        self.query_one(Columns).filter = text

    # -- the start ----------------------------------------------------------------------------------------------------

    @on(Button.Pressed, "#start")
    def action_start(self) -> None:
        if self.is_unstarted():
            self.tabapp.start_run()

    def action_cancel_start(self) -> None:
        self.tabapp.cancel_start()

    # -- the plan -----------------------------------------------------------------------------------------------------

    def action_edit(self, name: str) -> None:
        """Edit a field of the plan."""
        if self._changeable():
            self._plan.edit(name)

    def action_step(self, direction: int) -> None:
        """Choose the next value of the field under the cursor; outside of the plan, the next quality."""
        if self._changeable():
            fields = self.query_one(Plan)
            name = fields.field.name if fields.has_focus and fields.field is not None else "quality"
            self._said(self._plan.step(name, direction))

    def action_reset(self) -> None:
        fields = self.query_one(Plan)
        if self._changeable():
            if fields.has_focus and fields.field is not None:
                self._plan.reset(fields.field.name)
                self.redraw()
            else:
                self.warn("Press tab to go to the plan. Backspace gives the field under the cursor its default.")

    def action_undo(self) -> None:
        if not self._changeable():
            return
        if self.tabapp.planning.waits:
            self.warn("The plan is being updated. Undo it in a moment.")
        elif not self.tabapp.undo_plan():
            self.warn("There is no change of the plan to undo.")
        self.redraw()

    def _exchange(self) -> PlanExchange:
        from tabapp.tui.session.plan.exchange import PlanExchange

        return PlanExchange(self.tabapp, self._plan)

    def action_presets(self) -> None:
        if self._changeable():
            self._exchange().choose_preset()

    def action_editor(self) -> None:
        if self._changeable():
            self._exchange().edit_as_text(self.app)

    def on_paste(self, event: events.Paste) -> None:
        """Fill the plan from a pasted command."""
        event.stop()
        if self._changeable():
            self.run_worker(self._exchange().use_command(event.text), exit_on_error=False)

    def action_copy_command(self) -> None:
        """Copy the command of the plan; while the plan is being updated, that of the next one."""
        self._copies = self.snapshot.state.plan is not None
        if self._copies:
            self._copy_command()
        else:
            self.warn("The command is known once the plan is ready.")

    def _copy_command(self) -> None:
        plan = self.snapshot.state.plan
        if self._copies and plan is not None and not self.tabapp.planning.waits:
            self._copies = False
            self.tabapp.copy(with_runs_dir(plan.command, self.tabapp.runs_dir))

    # -- columns ------------------------------------------------------------------------------------------------------

    def _column(self) -> ev.ColumnView | None:
        """The column under the cursor; warns if there is none."""
        column = self.query_one(Columns).column(self.snapshot.state)
        if column is None:
            self.warn(NO_COLUMN)
        return column

    def action_toggle_target(self) -> None:
        """Add the column under the cursor to the targets, or remove it."""
        if self._changeable() and (column := self._column()) is not None:
            plan = self.snapshot.state.plan
            self._said("" if plan is None else self._columns.toggle_target(column, plan))

    def action_toggle_column(self) -> None:
        if self._changeable() and (column := self._column()) is not None:
            self._said(self._columns.toggle_feature(column))

    def action_kind(self) -> None:
        if self._changeable() and (column := self._column()) is not None:
            self._columns.choose_kind(column)

    def action_sort(self) -> None:
        """Sort the columns by the next order."""
        if self.snapshot.state.schema is None:
            self.warn("The file is still being read. Its columns can be sorted once they are shown.")
            return
        columns = self.query_one(Columns)
        columns.order = ORDERS[(ORDERS.index(columns.order) + 1) % len(ORDERS)]
        if columns.order == "association" and not columns.associations:
            self._rate()
        self.redraw()

    def _rate(self) -> None:
        self._rated = self.snapshot.state.schema
        self.run_worker(self._fetch_associations(), exit_on_error=False)

    async def _fetch_associations(self) -> None:
        schema, reply = self._rated, await self._pager.ask(paging.RateColumns())
        if isinstance(reply, paging.Failed):
            self.warn(reply.message)
        elif isinstance(reply, paging.Rated) and schema is self._rated:
            self.query_one(Columns).associations = reply.associations
            self.redraw()

    @on(Table.Selected, "#columns")
    def action_inspect(self) -> None:
        """Show the column under the cursor beside the target."""
        # The first paint does not wait for what only an action needs.
        from tabapp.tui.dialogs.column_inspector import ColumnInspector

        state, column = self.snapshot.state, self._column()
        if column is None or state.schema is None:
            return
        name, schema = column.name, state.schema
        target = state.plan.target if state.plan is not None else "the target"
        inspector = ColumnInspector(
            column,
            schema.warnings,
            schema.rows + schema.rows_without_target,
            target,
            lambda: self._pager.ask(paging.InspectColumn(column=name)),
        )
        self.tabapp.push_screen(inspector, self._inspected)

    def _inspected(self, answer: str | None) -> None:
        table = self.query_one(Columns)
        actions: dict[str, Callable[[], None]] = {
            "kind": self.action_kind,
            "target": self._take_target,
            "also": self.action_toggle_target,
            "include": self.action_toggle_column,
        }
        if answer in ("next", "previous"):
            table.action_move(1 if answer == "next" else -1)
            self.action_inspect()
        elif answer:
            actions[answer]()

    def _take_target(self) -> None:
        if self._changeable() and (column := self._column()) is not None:
            self._plan.change({"target": column.name})

    # -- rows, checks and fields --------------------------------------------------------------------------------------

    @on(Table.Selected, "#plan")
    def _edit_field(self, event: Table.Selected) -> None:
        self.action_edit(event.key)

    @on(Table.Selected, "#checks")
    def _show_remedies(self) -> None:
        warning = self.query_one(Checks).warning
        if warning is None:
            return
        if not warning.remedies or has_started(self.snapshot.state):
            self.tabapp.push_screen(Reading("Check", Content.assemble(warning_line(warning), ".")))
            return
        options = [
            Option(
                str(place),
                f"{remedy.label[:1].upper()}{remedy.label[1:]}",
                f"--{remedy.option.replace('_', '-')} {remedy.value}",
                key=str(place + 1),
            )
            for place, remedy in enumerate(warning.remedies)
        ]
        dialog = Decision("Check", f"{sentence(without_options(warning))}.", options, stay="Leave it as it is")
        self.tabapp.push_screen(dialog, lambda place: self._remedy(warning, place) if place else None)

    def _remedy(self, warning: ev.WarningView, place: str) -> None:
        if self._changeable():
            self._plan.apply(warning.remedies[int(place)])
            self.redraw()

    @on(Table.Selected, "#preview")
    def action_table(self) -> None:
        rows = self.rows
        if not rows.layout.names:
            self.warn(rows.trouble or "The file is still being read; its rows can be shown in a moment.")
            return
        preview, column = self.query_one(Preview), self.query_one(Columns).column(self.snapshot.state)
        if preview.has_focus and preview.key is not None and not rows.filter and rows.sorted_by is None:
            rows.row = int(preview.key)
        elif column is not None and column.name in rows.layout.names:
            rows.column = rows.layout.names.index(column.name)
        from tabapp.tui.screens.whole_table import WholeTable

        self.tabapp.push_screen(WholeTable(rows, self.snapshot.file))

    def _said(self, message: str) -> None:
        """Show why a change is not possible, or that it is requested."""
        if message:
            self.warn(message)
        self.redraw()

    def _changeable(self) -> bool:
        """Whether the plan can be changed now; warns if not."""
        if not self.is_unstarted():
            return False
        snapshot = self.snapshot
        if snapshot.start == "waiting":
            self.warn(WAITING)
        elif snapshot.start == "sent":
            self.warn("The run is starting, so its plan can no longer be changed.")
        elif snapshot.phase == "reading" or snapshot.state.plan is None:
            self.warn("The file is still being read. The plan can be changed once it is shown.")
        return snapshot.phase == "ready" and snapshot.state.plan is not None
