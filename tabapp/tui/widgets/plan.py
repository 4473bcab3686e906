"""The plan of a run as a list of fields that can be edited, and the note below it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from textual.message import Message

from tabapp.run.options.config import OPTIONS
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.plan_fields import NONE, Field
from tabapp.tui.viewmodels.texts import MUTED, short_command

LABEL_WIDTH = 13
UNKNOWN = "The plan appears here once the file is read."


def wrap_command(command: str, width: int) -> list[str]:
    """Wrap a command, preferably at spaces and after commas."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)
    wrapper.wordsep_simple_re = re.compile(r"(\s+)|(?<=,)")
    return wrapper.wrap(command)


class Plan(Table):
    """A row for each option of the run. The row under the cursor shows the values that the arrow keys reach."""

    class FocusChanged(Message):
        """The list got or lost the focus."""

    def __init__(self) -> None:
        columns = (
            Column("field", width=LABEL_WIDTH),
            Column("value", flexible=True, least=10),
            Column("key", "right", width=1),
        )
        super().__init__(columns, header=False, id="plan", empty=UNKNOWN)
        self._fields: dict[str, Field] = {}

    @property
    def field(self) -> Field | None:
        """The field under the cursor."""
        return self._fields.get(self.key or "")

    def about_row(self) -> Sequence[Content]:
        field = self.field
        if field is None:
            return ()
        option = OPTIONS[field.name]
        words = [option.help] if option.help.endswith(".") else [f"{option.help}."]
        words.append(f"{field.key or 'enter'} edits it.")
        words += ["backspace restores the default."] if field.is_set else []
        return [Content.assemble((f"{field.label}, {field.text}", "bold"), (": ", MUTED), " ".join(words))]

    def show_fields(self, fields: Sequence[Field], *, is_open: bool) -> None:
        """Draw the fields; those of a plan that is not open show no keys."""
        self._fields = {field.name: field for field in fields}
        room = max(10, self.size.width - LABEL_WIDTH - 7)
        self.show([self._row(field, room, is_open=is_open) for field in fields])

    def _row(self, field: Field, room: int, *, is_open: bool) -> Row:
        here = is_open and self.has_focus and field.name == (self.key or next(iter(self._fields)))
        style = "bold $accent" if field.name == "target" else MUTED if field.text == NONE or not field.is_set else ""
        style = "" if style == MUTED and field.name in ("metric", "validation", "budget", "models", "task") else style
        value = Content.styled(field.text if len(field.text) <= room or not field.short else field.short, style)
        if here and field.steps:
            value = _steps(field, room)
        return Row(
            field.name,
            (
                Content.assemble(("•" if field.is_changed else " ", "bold $accent"), (field.label, MUTED)),
                value,
                Content.styled(field.key if is_open else "", "bold $primary"),
            ),
        )

    def on_focus(self) -> None:
        self.post_message(self.FocusChanged())

    def on_blur(self) -> None:
        self.post_message(self.FocusChanged())


def _steps(field: Field, room: int) -> Content:
    """All steps with the current one marked if they fit, or the value between arrows."""
    parts = [
        Content.styled(step.label, "bold underline" if index == field.place else MUTED)
        for index, step in enumerate(field.steps)
    ]
    if field.place % 1:
        parts.insert(int(field.place + 1), Content.styled(field.text, "bold underline"))
    line = Content(" ").join(parts)
    shown = line if line.cell_length <= room - 4 else Content(field.text)
    return Content.assemble(("‹ ", "$primary"), shown, (" ›", "$primary"))


class PlanNote(Panel[tuple[ev.PlanMade, Field | None]], can_focus=False):
    """What the budget buys, and the command that starts the same run, or what the field under the cursor means."""

    def draw(self, facts: tuple[ev.PlanMade, Field | None], width: int, height: int) -> list[Content]:
        # The first paint comes before any plan.
        from tabapp.tui.viewmodels.forecast import forecast

        plan, field = facts
        expected = forecast(plan)
        lines = [Content.assemble(("▸ ", "$primary"), expected)] if expected else []
        if field is not None:
            text = Content.assemble((f"{OPTIONS[field.name].help} ", MUTED), (_reason(plan, field.name), MUTED))
            return [*lines, *text.wrap(width)]
        command = wrap_command(short_command(plan.command), max(10, width - 2))
        room = height - len(lines)
        if len(command) > room > 0:
            command = [*command[: room - 1], command[room - 1][: width - 3] + " …"]
        return [*lines, *(Content.styled(line, "$secondary") for line in command)]


def _reason(plan: ev.PlanMade, name: str) -> str:
    """Why the plan has chosen the value of a field."""
    reason = {
        "target": plan.target_reason,
        "task": plan.task_reason,
        "validation": plan.validation_reason,
        "device": plan.device_reason,
    }.get(name, "")
    return f"Here: {reason}" if reason else ""
