"""The help of a screen: the row under the cursor, the panels, signs, words and keys, all searchable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from tabapp.run.record.events import ENSEMBLE
from tabapp.run.record.state import RunState
from tabapp.run.texts.verdict import verdict_of
from tabapp.tui.chrome.actions import MOVING_HELP, Phase, View, actions_for
from tabapp.tui.chrome.glossary import CELLS, SCORE, SIGNS, WORDS
from tabapp.tui.chrome.help_texts import PANELS, SCREENS
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.parts.columns import IGNORED
from tabapp.tui.parts.table import Table
from tabapp.tui.viewmodels.texts import MUTED
from tabapp.tui.viewmodels.verdict_lines import verdict_lines
from tabapp.tui.widgets.checks import warning_line

HEAD = "bold $primary"
WIDTH = 86
"""Cells of a line in the dialog."""


def cells_section(table: Table | None, state: RunState) -> list[Content]:
    """What the cells of the row under the cursor mean; nothing for a table without explanations."""
    meanings = CELLS.get(table.id or "", {}) if table is not None else {}
    row = next((row for row in table.rows if row.key == table.key), None) if table is not None else None
    if table is None or row is None:
        return []
    metric = state.plan.metric_title if state.plan is not None else ""
    rows = f"{state.read.rows:,}" if state.read is not None else "all"
    lines = [
        Content.styled("Under the cursor", HEAD),
        *(_column_lines(row.key, state) if table.id == "columns" else _reason_lines(row.key, table, state)),
        *table.about_row(),
    ]
    for column, cell in zip(table.columns, row.cells, strict=True):
        is_score = bool(metric) and column.title.startswith(metric)
        meaning = meanings.get(SCORE if is_score else column.title, "")
        text = cell.plain.strip()
        if meaning and table.is_shown(column) and text not in ("", "—", IGNORED):
            lines.append(Content.assemble((column.title, MUTED), f" {text}", (": ", MUTED), meaning.format(rows=rows)))
    verdict = verdict_of(state) if table.id == "leaderboard" and row.key == ENSEMBLE else None
    found = (
        []
        if verdict is None
        else [Content("\n").join([Content.styled("Result", HEAD), *verdict_lines(verdict, WIDTH)])]
    )
    return [*found, Content("\n").join(lines)] if len(lines) > 1 else found


def _reason_lines(model: str, table: Table, state: RunState) -> list[Content]:
    """Why a model does not run, or has ended."""
    if table.id not in ("leaderboard", "models"):
        return []
    row = next((row for row in state.leaderboard if row.model == model), None)
    reason = row.reason.rstrip(".") if row is not None and row.reason else ""
    return [Content.assemble((row.title, "bold"), (": ", MUTED), f"{reason}.")] if row is not None and reason else []


def _column_lines(name: str, state: RunState) -> list[Content]:
    """Why a column is read as it is, and its warnings."""
    schema = state.schema
    column = next((each for each in schema.columns if each.name == name), None) if schema is not None else None
    if schema is None or column is None:
        return []
    use = " The models do not see it; space includes it." if column.role == "ignore" else ""
    why = Content.assemble((f"{column.name}, {column.kind}", "bold"), (": ", MUTED), f"{column.reason}{use}")
    return [why, *(warning_line(warning) for warning in schema.warnings if warning.column == name)]


def listed(title: str, entries: Sequence[tuple[str, str]]) -> Content:
    """Terms with their meaning, one a line."""
    width = max(len(term) for term, _ in entries) + 2
    lines = [Content.assemble((term.ljust(width), "bold"), meaning) for term, meaning in entries]
    return Content("\n").join([Content.styled(title, HEAD), *lines])


def help_sections(
    view: View, focused: str | None, state: RunState, phase: Phase, table: Table | None = None
) -> list[Content]:
    """The help of a screen in parts: the row under the cursor and the panel in focus come first, the keys last."""
    panels = sorted(SCREENS[view], key=lambda name: name != focused)
    parts = cells_section(table, state)
    for name in panels:
        title, text = PANELS[name]
        parts.append(Content.assemble((title, HEAD), "\n", text))
        if name == "checks" and state.schema is not None:
            parts.append(Content("\n").join([warning_line(warning) for warning in state.schema.warnings]))
    keys = [Content.styled("Keys", HEAD)]
    for action in actions_for(view):
        style = "bold $foreground" if phase in action.phases else MUTED
        keys.append(
            Content.assemble(
                (f"{action.shown_key:>6}  ", style), (action.help, "" if phase in action.phases else MUTED)
            )
        )
    keys.append(Content.styled(f"\n{MOVING_HELP}", MUTED))
    return [*parts, listed("Signs", SIGNS), listed("Words", WORDS), Content("\n").join(keys)]


def found_in(sections: Sequence[Content], search: str) -> Content:
    """The titles and lines that contain all words of a search; everything without one."""
    words = search.casefold().split()
    if not words:
        return Content("\n\n").join(sections)
    parts: list[Content] = []
    for section in sections:
        title, *lines = section.split("\n", allow_blank=True)
        hits = [line for line in lines if all(word in line.plain.casefold() for word in words)]
        if hits:
            parts.append(Content("\n").join([title, *hits]))
    return Content("\n\n").join(parts) if parts else Content.styled(f"Nothing contains “{search.strip()}”.", MUTED)


class Help(Reading):
    """The help of a screen; / searches it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", show=False),
        Binding("escape", "back", show=False),
    ]

    def __init__(self, sections: Sequence[Content]) -> None:
        super().__init__("Help", Content("\n\n").join(sections), at_end="the keys · / searches")
        self._sections = sections

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield Input(placeholder="search the help · enter keeps it · esc clears", id="typed", compact=True)
            with VerticalScroll(id="dialog", classes="reading"):
                yield Static(self._text, id="text")

    def action_search(self) -> None:
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_back(self) -> None:
        """End the search, or close the help."""
        if not self.has_class("-searching"):
            self.dismiss(None)
            return
        self.query_one(Input).value = ""
        self.remove_class("-searching")
        self.query_one(VerticalScroll).focus()

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self.query_one("#text", Static).update(found_in(self._sections, event.value))
        self.query_one(VerticalScroll).scroll_home(animate=False)

    @on(Input.Submitted)
    def _keep(self) -> None:
        self.query_one(VerticalScroll).focus()
