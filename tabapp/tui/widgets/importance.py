"""Feature importance as bars."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp import charts
from tabapp.run import events as ev
from tabapp.run.state import RunState, title_of
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED, signed
from tabapp.tui.widgets.panel import Panel, set_titles


@dataclass(frozen=True)
class ImportanceFacts:
    """Importances of a run, or when they will be available."""

    importances: ev.ImportancesReady | None
    title: str
    waiting: str


def importance_facts(state: RunState) -> ImportanceFacts:
    """The importances of a state."""
    waiting = (
        "No importances: the run ended before them."
        if phase_of(state) == "after"
        else "Computed once the fits are done."
    )
    title = title_of(state, state.importances.model) if state.importances else ""
    return ImportanceFacts(importances=state.importances, title=title, waiting=waiting)


class Importances(Panel[ImportanceFacts]):
    """The most important features of the best model by permutation, with their share of attention."""

    def on_facts(self, facts: ImportanceFacts) -> None:
        title = f"Importance · {facts.title}" if facts.title else "Importance"
        set_titles(self, title, "permutation · attention" if facts.importances else "")

    def draw(self, facts: ImportanceFacts, width: int, height: int) -> list[Content]:
        if facts.importances is None:
            return [Content.styled(facts.waiting, MUTED)]
        rows = sorted(facts.importances.rows, key=lambda row: -row.permutation)[:height]
        if not rows:
            return [Content.styled("There are no columns to rank.", MUTED)]
        longest = min(max(len(row.feature) for row in rows), width // 3)
        top = max(row.permutation for row in rows)
        room = max(1, width - longest - 14)
        return [_line(row, longest, room, top) for row in rows]


def _line(row: ev.ImportanceRow, longest: int, room: int, top: float) -> Content:
    attention = "   —" if row.attention is None else f"{row.attention:4.0%}"
    drawn = charts.rule(row.permutation / top if top > 0 else 0.0, room).ljust(room)
    name = Content(row.feature).truncate(longest, ellipsis=True, pad=True)
    return Content.assemble(name, " ", (drawn, "$primary"), f" {signed(row.permutation)}", (f" {attention}", MUTED))
