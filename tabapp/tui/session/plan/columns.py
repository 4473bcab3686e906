"""Edits of columns: their kinds, and whether they are features or targets."""

from __future__ import annotations

from tabapp.run.options.config import OPTIONS
from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Choice, Option
from tabapp.tui.session.host import Host
from tabapp.tui.session.plan.editing import PlanEditing

DETECTED = "detected"
KINDS = (
    Option("numeric", "numeric", "ordered numbers"),
    Option("categorical", "categorical", "categories without an order"),
    Option("boolean", "boolean", "two values"),
    Option("text", "text", "words"),
    Option("datetime", "datetime", "dates or times"),
    Option("identifier", "identifier", "names the rows; not a feature"),
)


class ColumnEditing:
    """Requests changes of single columns."""

    def __init__(self, app: Host, plan: PlanEditing) -> None:
        self._app = app
        self._plan = plan

    def choose_kind(self, column: ev.ColumnView) -> None:
        """Ask for the kind of a column."""
        given = self._app.planning.kinds
        detected = Option(DETECTED, "as detected", "removes the kind that you have set")
        options = [*KINDS, detected] if column.name in given else list(KINDS)
        dialog = Choice(f"Kind of {column.name}: now {column.kind}", options, current=column.kind)
        self._app.push_screen(dialog, lambda kind: self._set_kind(column.name, kind) if kind else None)

    def _set_kind(self, name: str, kind: str) -> None:
        others = {other: given for other, given in self._app.planning.kinds.items() if other != name}
        self._plan.change({"kinds": others if kind == DETECTED else {**others, name: kind}})

    def toggle_feature(self, column: ev.ColumnView) -> str:
        """Include a column as a feature, or ignore it. Returns why that is not possible, or an empty text."""
        ignored, name = self._app.planning.ignored, column.name
        if column.role == "target":
            return f"{name} is a target. Press t to choose another column."
        if name in ignored:
            self._plan.change({"ignore": [other for other in ignored if other != name]})
        elif column.role != "ignore":
            self._plan.change({"ignore": [*ignored, name]})
        elif column.kind == "constant":
            return f"{name} cannot be a feature. {column.reason}"
        else:
            kind = self._usable_kind(column)
            self._plan.change({"kinds": {**self._app.planning.kinds, name: kind}})
            self._app.notify(f"{name} becomes a feature, read as {kind}. K changes its kind.", timeout=4)
        return ""

    def _usable_kind(self, column: ev.ColumnView) -> str:
        """The kind with which a column that tabapp ignores becomes a feature: that of its warning's remedy, or its own."""
        schema = self._app.snapshot().state.schema
        for warning in schema.warnings if schema is not None else ():
            for remedy in warning.remedies:
                if remedy.option == "kind" and warning.column == column.name:
                    return OPTIONS["kind"].parse(remedy.value)[column.name]
        return "categorical" if column.kind == "identifier" else column.kind

    def toggle_target(self, column: ev.ColumnView, plan: ev.PlanMade) -> str:
        """Add a column to the targets, or remove it. Returns why that is not possible, or an empty text."""
        names = list(plan.targets or (plan.target,))
        if names == [column.name]:
            return f"{column.name} is the only target. Press t to choose another column."
        names = [name for name in names if name != column.name] if column.name in names else [*names, column.name]
        self._plan.change({"target": names[0] if len(names) == 1 else names})
        return ""
