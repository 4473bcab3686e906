"""Data screen: the columns, the plan of the run and its start."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from tabapp.run.options.units import parse_budget
from tabapp.run.record import events as ev
from tabapp.run.record.folder import with_runs_dir
from tabapp.tui.chrome.actions import UNSTARTED, View, bindings_for, has_started
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Choice, Option
from tabapp.tui.dialogs.model_choice import ModelChoice
from tabapp.tui.paging.client import Pager
from tabapp.tui.paging.row_cache import TableRows
from tabapp.tui.parts.columns import Columns
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.session.start_request import WAITING
from tabapp.tui.viewmodels.texts import MUTED, Snapshot, count, file_size
from tabapp.tui.widgets.plan import QUALITIES, Checks, Plan, PlanFacts, long_duration
from tabapp.tui.widgets.preview import Preview

BUDGETS = (60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
VALIDATIONS = (
    Option("auto", "automatic", "chosen by the number of rows"),
    Option("holdout", "holdout", "scores on one held-out part of the rows; fast"),
    Option("cv 3", "3-fold cross-validation", "each row is scored once"),
    Option("cv 5", "5-fold cross-validation", "each row is scored once"),
    Option("cv 10", "10-fold cross-validation", "twice the time of 5 folds, slightly more training rows"),
)
KINDS = (
    Option("numeric", "numeric", "ordered numbers"),
    Option("categorical", "categorical", "categories without an order"),
    Option("text", "text", "words"),
    Option("datetime", "datetime", "dates or times"),
)


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

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="upper"):
            with Vertical(id="columns-box", classes="box"):
                yield Columns()
                yield Static("", id="reason")
            with Vertical(id="plan-box", classes="box"):
                yield Plan("", id="plan")
                yield Button("Start run  ctrl+r", id="start", compact=True)
        yield Checks("Checks", id="checks")
        yield Preview()

    _reason = Content("")

    def on_mount(self) -> None:
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
        self.query_one(Preview).show_rows(self.rows)

    def draw(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        columns = self.query_one(Columns)
        columns.show_state(state)
        self._explain_column()
        box = self.query_one("#columns-box")
        if state.schema is not None:
            used = sum(column.role == "feature" for column in state.schema.columns)
            set_titles(box, f"Columns · {len(state.schema.columns)} · {count(used, 'feature')}")
            self.query_one(Checks).show(state.schema)
        if state.read is not None:
            facts = [
                f"{state.read.rows:,} rows",
                file_size(state.read.n_bytes),
                state.read.encoding,
                state.read.delimiter,
            ]
            set_titles(box, subtitle=" · ".join({"\t": "tab"}.get(fact, fact) for fact in facts if fact))
        if state.plan is not None or not has_started(state):
            self.query_one(Plan).show(PlanFacts(state.plan, snapshot.phase == "ready"))
        set_titles(self.query_one("#plan-box"), subtitle="updating the plan…" if self.tabapp.planning.waits else "")
        self._show_start(snapshot)
        if state.read is not None and (state.read, state.schema) != self._shown:
            self._shown = (state.read, state.schema)
            kinds = {column.name: column.kind for column in state.schema.columns} if state.schema else {}
            numeric = [kinds.get(name) == "numeric" for name in state.read.names] if kinds else None
            self.rows.show_first(state.read.names, state.read.preview, height=state.read.rows, numeric=numeric)
        self.set_class(state.schema is None, "-reading")

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
        if not text.is_same(self._reason):
            self._reason = text
            self.query_one("#reason", Static).update(text)

    @on(Button.Pressed, "#start")
    def action_start(self) -> None:
        if self.is_unstarted():
            self.tabapp.start_run()

    def action_cancel_start(self) -> None:
        self.tabapp.cancel_start()

    def action_pick_target(self) -> None:
        state = self.snapshot.state
        if self._changeable() and state.schema is not None and state.plan is not None:
            options = [
                Option(column.name, column.name, f"{column.kind} · {column.summary}") for column in state.schema.columns
            ]
            dialog = Choice(
                "Target: the column to predict",
                options,
                current=state.plan.target,
                hint="type to filter, or several targets: a,b",
                parse=str.strip,
            )
            self.tabapp.push_screen(dialog, lambda name: self._change(target=name) if name else None)

    def action_toggle_target(self) -> None:
        """Add the column under the cursor to the targets, or remove it."""
        column, plan = self.query_one(Columns).column(self.snapshot.state), self.snapshot.state.plan
        if not self._changeable() or plan is None:
            return
        if column is None:
            self.warn("There is no column under the cursor.")
            return
        names = list(plan.targets or (plan.target,))
        if names == [column.name]:
            self.warn(f"{column.name} is the only target. Press t to choose another column.")
            return
        names = [name for name in names if name != column.name] if column.name in names else [*names, column.name]
        self._change(target=names[0] if len(names) == 1 else names)

    def action_pick_metric(self) -> None:
        plan = self.snapshot.state.plan
        if self._changeable() and plan is not None:
            dialog = Choice(
                "Metric: the score to compare models by",
                [Option(metric.name, metric.name, metric.description) for metric in plan.metrics],
                current=plan.metric,
                hint="or type prices of errors: cost:fn=5,fp=1" if plan.task == "binary" else "type to filter",
                parse=str.strip if plan.task == "binary" else None,
            )
            self.tabapp.push_screen(dialog, lambda name: self._change(metric=name) if name else None)

    def action_pick_budget(self) -> None:
        plan = self.snapshot.state.plan
        if self._changeable() and plan is not None:
            options = [Option(str(seconds), long_duration(seconds)) for seconds in BUDGETS]
            current = None if plan.budget is None else str(plan.budget)
            dialog = Choice(
                "Budget: time for the whole run",
                options,
                current=current,
                hint="or type a time: 90s, 15m, 1.5h",
                parse=lambda text: str(parse_budget(text)),
            )
            self.tabapp.push_screen(dialog, lambda text: self._change(budget=float(text)) if text else None)

    def action_pick_validation(self) -> None:
        if self._changeable():
            self.tabapp.push_screen(Choice("Validation: how models are scored", VALIDATIONS), self._validation_chosen)

    def _validation_chosen(self, choice: str | None) -> None:
        if choice:
            way, _, folds = choice.partition(" ")
            self._change(validation=way, folds=int(folds) if folds else None)

    def action_quality(self, step: int) -> None:
        plan = self.snapshot.state.plan
        if self._changeable() and plan is not None:
            asked = self.tabapp.planning.asked.get("quality", plan.quality)
            index = max(0, min(QUALITIES.index(asked) + step, len(QUALITIES) - 1))
            if QUALITIES[index] != asked:
                self._change(quality=QUALITIES[index])
            else:
                self.warn(f"{asked} is the {'highest' if step > 0 else 'lowest'} quality.")

    def action_pick_models(self) -> None:
        plan = self.snapshot.state.plan
        if not self._changeable() or plan is None:
            return
        # A plan of an earlier version lists only the models that it has.
        choices = plan.choices or tuple(
            ev.ModelChoice(
                name=model.name,
                title=model.title,
                family=model.family,
                reason=model.reason,
                is_planned=model.reason is None,
            )
            for model in plan.models
        )
        self.tabapp.push_screen(ModelChoice(choices), self._models_chosen)

    def _models_chosen(self, names: str | None) -> None:
        if names is not None:
            self._change(models=names.split(",") if names else [], exclude=[])

    def action_toggle_column(self) -> None:
        column = self.query_one(Columns).column(self.snapshot.state)
        if not self._changeable():
            return
        if column is None:
            self.warn("There is no column under the cursor.")
            return
        ignored = self.tabapp.planning.ignored
        if column.role == "target":
            self.notify(f"{column.name} is a target. Press t to choose another column.", severity="warning")
        elif column.name in ignored:
            self._change(ignore=[name for name in ignored if name != column.name])
        elif column.role == "ignore":
            self._include(column)
        else:
            self._change(ignore=[*ignored, column.name])

    def _include(self, column: ev.ColumnView) -> None:
        if column.kind == "constant":
            self.notify(f"{column.name} cannot be a feature. {column.reason}", severity="warning")
            return
        dialog = Choice(f"Use {column.name} as", KINDS)
        kinds = self.tabapp.planning.kinds
        self.tabapp.push_screen(dialog, lambda kind: self._change(kinds={**kinds, column.name: kind}) if kind else None)

    @on(Table.Selected, "#columns")
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

    def action_copy_command(self) -> None:
        plan = self.snapshot.state.plan
        if plan is not None:
            self.tabapp.copy(with_runs_dir(plan.command, self.tabapp.runs_dir))
        else:
            self.warn("The command is known once the plan is ready.")

    def set_filter(self, text: str) -> None:
        self.query_one(Columns).filter = text

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

    def _change(self, **options: Any) -> None:
        self.tabapp.change_plan(options)
        self.redraw()
