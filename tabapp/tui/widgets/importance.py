"""Feature importance as bars."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp import charts
from tabapp.findings import ImportanceRow
from tabapp.run.record import events as ev
from tabapp.run.record.importance_notes import UNSTABLE, is_incomplete, largest, measured, notes, ranked
from tabapp.run.record.state import RunState, subject_of
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED, signed


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
        else "Preliminary importances follow when the first model has all of its folds."
    )
    title = subject_of(state, state.importances) if state.importances else ""
    if state.importances is not None and state.importances.preliminary:
        trial = state.importances.trial
        title = f"preliminary, of {title}" + (f" #{trial}" if trial is not None and "(" not in title else "")
    return ImportanceFacts(importances=state.importances, title=title, waiting=waiting)


class Importances(Panel[ImportanceFacts]):
    """The most important features of the best model by permutation, with their share of attention."""

    def on_facts(self, facts: ImportanceFacts) -> None:
        title = f"Importance · {facts.title}" if facts.title else "Importance"
        found = facts.importances
        measures = "" if found is None else "permutation · attention"
        set_titles(self, title, measured(found) if found is not None and is_incomplete(found) else measures)

    def draw(self, facts: ImportanceFacts, width: int, height: int) -> list[Content]:
        if facts.importances is None:
            return list(Content.styled(facts.waiting, MUTED).wrap(width))
        rows = ranked(facts.importances.rows)[:height]
        if not rows:
            reason = " ".join(notes(facts.importances)) or "There are no columns to rank."
            return list(Content.styled(reason, MUTED).wrap(width))
        longest = min(max(len(row.feature) for row in rows), width // 3)
        top = largest(rows)
        room = max(1, width - longest - 14)
        return [_line(row, longest, room, top) for row in rows]


def _line(row: ImportanceRow, longest: int, room: int, top: float) -> Content:
    attention = "   —" if row.attention is None else f"{row.attention:4.0%}"
    if row.unstable:
        drawn = (UNSTABLE.ljust(room)[:room], "$warning")
    else:
        drawn = (charts.rule(row.permutation / top if top > 0 else 0.0, room).ljust(room), "$primary")
    name = Content(row.feature).truncate(longest, ellipsis=True, pad=True)
    return Content.assemble(name, " ", drawn, f" {signed(row.permutation)}", (f" {attention}", MUTED))
