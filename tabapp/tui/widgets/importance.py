"""Feature importance as bars."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp import charts
from tabapp.findings import ImportanceRow
from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.importance_notes import UNSTABLE, is_incomplete, largest, measured, notes, ranked
from tabapp.run.record.state import RunState, subject_of
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED, made_at, signed


@dataclass(frozen=True)
class ImportanceFacts:
    """Importances of a run, or when they will be available."""

    importances: ev.ImportancesReady | None
    title: str
    waiting: str
    is_stale: bool = False
    """They are preliminary, or of a model that has a better trial by now."""


def importance_facts(state: RunState) -> ImportanceFacts:
    """The importances of a state."""
    found = state.importances
    if found is None:
        return ImportanceFacts(None, "", _waiting(state))
    title = subject_of(state, found)
    if found.preliminary:
        title += f" #{found.trial}" if found.trial is not None and "(" not in title else ""
    is_stale = found.preliminary or bool(earlier_subject(found, state.leaderboard))
    return ImportanceFacts(found, title, "", is_stale)


def _waiting(state: RunState) -> str:
    """Why there are no importances."""
    if phase_of(state) == "after" or state.is_stopped:
        return "No importances: the run ended before them."
    if any(not trial.pruned for trial in state.trials):
        return "Importances follow, at the latest after the last fit."
    return "Preliminary importances follow when the first model has all of its folds."


class Importances(Panel[ImportanceFacts]):
    """The most important features of the best model by permutation, with their share of attention."""

    def on_facts(self, facts: ImportanceFacts) -> None:
        found = facts.importances
        if found is None:
            set_titles(self, "Importance", "")
            return
        if found.preliminary:
            set_titles(self, "Importance · preliminary", f"of {facts.title} · {found.n_rows:,} rows", is_stale=True)
            return
        part = f"{measured(found)} · " if is_incomplete(found) else ""
        set_titles(
            self,
            f"Importance · {facts.title}",
            f"{part}{found.n_rows:,} rows · {made_at(found)}",
            is_stale=facts.is_stale,
        )

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
