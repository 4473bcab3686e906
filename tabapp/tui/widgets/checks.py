"""Possible problems of the data, each with the changes of the plan that remedy it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, count
from tabapp.warning_text import parts

UNLABELED = "unlabeled"
ARROW = " → "


def without_options(warning: ev.WarningView) -> ev.WarningView:
    """A warning without the options that change its action, where keys do that: clauses of one, or the end of a clause."""
    if not warning.remedies:
        return warning
    clauses = (re.split(r"(?:, and |, | with )?--", clause)[0] for clause in warning.action.split("; "))
    return msgspec.structs.replace(warning, action="; ".join(clause for clause in clauses if clause))


def warning_line(warning: ev.WarningView) -> Content:
    """A warning with its mark, its column and the action taken."""
    return Content.assemble(("⚠ ", "$warning"), warning_text(warning))


def warning_text(warning: ev.WarningView) -> Content:
    """A warning with its column and the action taken."""
    named, message, action = parts(without_options(warning))
    return Content.assemble((named, "bold"), message, (action, MUTED))


def shorter_line(line: Content, width: int) -> Content:
    """A warning in at most `width` cells: with fewer clauses of the action, then with the beginnings of problem and action."""
    problem, arrow, action = line.plain.rpartition(ARROW)
    if not arrow:
        return line
    start, end = line[: len(problem)], line[len(problem) :]
    for clause in reversed(list(re.finditer("; ", action))):
        end = line[len(problem) : len(problem) + len(arrow) + clause.start()]
        if start.cell_length + end.cell_length <= width:
            return start + end
    return start.truncate(max(width - end.cell_length, width // 2), ellipsis=True) + end


def unlabeled_rows(facts: ev.SchemaInferred) -> str:
    """The numbers of rows without a target, of the table unless a warning says it, and of `--unlabelled`; empty without any."""
    said = any(warning.check == "no_target" for warning in facts.warnings)
    words = (
        [f"{count(facts.rows_without_target, 'row')} without a target"]
        if facts.rows_without_target and not said
        else []
    )
    words += [f"{count(facts.rows_unlabelled, 'row')} of --unlabelled"] if facts.rows_unlabelled else []
    return f"{' and '.join(words)}, for models that learn from unlabeled rows" if words else ""


class Checks(Table):
    """A row for each warning."""

    def __init__(self) -> None:
        columns = (Column("", width=1), Column("warning", flexible=True, shorten=shorter_line, spreads=True))
        super().__init__(columns, header=False, id="checks")
        set_titles(self, "Checks")
        self._facts: ev.SchemaInferred | None = None

    @property
    def warning(self) -> ev.WarningView | None:
        """The warning under the cursor."""
        warnings = self._facts.warnings if self._facts is not None else ()
        return warnings[int(self.key)] if self.key is not None and self.key.isdigit() else None

    def about_row(self) -> Sequence[Content]:
        warning = self.warning
        if warning is None:
            return ()
        remedies = " enter offers what you can do." if warning.remedies else ""
        return [Content.assemble(warning_line(warning), f".{remedies}")]

    def show_schema(self, facts: ev.SchemaInferred) -> None:
        """Draw the warnings of a table."""
        if facts is self._facts:
            return
        self._facts = facts
        number = len(facts.warnings)
        set_titles(
            self,
            f"Checks · {count(number, 'warning')}" if number else "Checks",
            "enter shows what you can do" if number else "",
        )
        mark = Content.styled("⚠", "$warning")
        rows = [Row(str(place), (mark, warning_text(warning))) for place, warning in enumerate(facts.warnings)]
        if text := unlabeled_rows(facts):
            rows.append(Row(UNLABELED, (Content.styled("ⓘ", "$primary"), Content(text))))
        self.set_empty("✓ No problems found.")
        self.show(rows)
