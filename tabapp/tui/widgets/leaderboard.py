"""The leaderboard: a row for each model, best first, including failed and skipped models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import written_like
from tabapp.run.record.state import RunState, is_partial
from tabapp.run.texts.differences import ALIKE, alike, mark_of
from tabapp.run.texts.provisional import provisional_scores, score_or_provisional
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row
from tabapp.tui.viewmodels.query import Value, parse
from tabapp.tui.viewmodels.texts import (
    MUTED,
    SEE_REASON,
    Snapshot,
    best_text,
    count,
    metric_with_arrow,
    model_name,
    score_margin,
    share_text,
    short_reason,
    status_content,
)
from tabapp.tui.widgets.model_table import FOLD_KEY, ModelTable, split_not_started
from tabapp.tui.widgets.running.fold_strips import FoldStrips

SORTS: tuple[tuple[str, Callable[[ev.LeaderboardRow], tuple[float, str]]], ...] = (
    ("rank", lambda row: (row.rank or float("inf"), "")),
    ("name", lambda row: (0.0, row.title.casefold())),
    ("fit time", lambda row: (-row.fit_seconds, "")),
    ("trials", lambda row: (-row.trials, "")),
)
TITLES = {"#": "rank", "Model": "name", "Fit": "fit time", "Status": "trials"}
WAITING = "Waiting for the first models…"
FIELDS = ("model", "family", "score", "fit", "trials", "status", "weight")
WITH_REASON = re.compile(r"(✗ failed|⊘ pruned|– skipped): ")
IMPROVEMENT_SECONDS = 60.0
WITHOUT_SCORE = {"ok": 0, "running": 0, "queued": 1, "failed": 2}
"""Order of models without a score; skipped ones come last."""


def columns_for(state: RunState) -> tuple[Column, ...]:
    """The columns, with the title of the metric above the scores. A long name is cut before a number is hidden."""
    plan = state.plan
    metric = metric_with_arrow(plan)
    folds = [Column("Folds", priority=2)] if plan is not None and plan.folds > 1 else []
    return (
        Column("#", "right", width=2),
        Column("Model", flexible=True, least=14),
        Column(metric, "right"),
        Column("± 95%", "right"),
        *folds,
        Column("Fit", "right", priority=3),
        Column("Status", flexible=True, least=20, shorten=_without_reason),
    )


def _without_reason(status: Content, width: int) -> Content:
    """A status with the key that shows the reason, where the reason has no room; others are cut."""
    found = WITH_REASON.match(status.plain)
    return status if found is None else status[: found.end(1)] + Content.styled(SEE_REASON, MUTED)


@dataclass(frozen=True)
class Notes:
    """What a row shows beside its own fields.

    Attributes:
        provisional: its score while it has none.
        strip: its folds.
        difference: from the ensemble.
        waits: its place in the queue, or why it does not continue.
        expected: seconds of one fold of a model without a fit.
    """

    provisional: float | None = None
    strip: str = ""
    difference: str = ""
    waits: str = ""
    expected: float | None = None


Moment = tuple[int | None, int, int, Notes]


class RowCache:
    """Caches drawn rows, since few of many rows change between two leaderboards."""

    def __init__(self) -> None:
        self._drawn: dict[str, tuple[ev.LeaderboardRow, Moment, Row]] = {}

    def draw(self, row: ev.LeaderboardRow, state: RunState, frame: int | None, notes: Notes) -> Row:
        """Draw a row, or reuse it if unchanged."""
        folds = state.plan.folds if state.plan else 0
        members = len(state.ensemble.members) if state.ensemble else 0
        moment = (frame if row.activity or row.status == "running" else None, members, folds, notes)
        drawn = self._drawn.get(row.model)
        if drawn is None or drawn[:2] != (row, moment):
            drawn = self._drawn[row.model] = (row, moment, Row(row.model, _cells(row, *moment)))
        return drawn[2]


def rows_matching(rows: Sequence[tuple[ev.LeaderboardRow, Row]], text: str, state: RunState) -> list[Row]:
    """The drawn rows that match a filter."""
    query = parse(text, fields_of(state))
    return [
        shown for row, shown in rows if query.fits(facts_of(row, state), " ".join(cell.plain for cell in shown.cells))
    ]


def fields_of(state: RunState) -> set[str]:
    """The fields available to filters: those of each row, the name of the metric, and the hyperparameters."""
    metric = {state.plan.metric} if state.plan else set[str]()
    return {*FIELDS, *metric, *(name for row in state.leaderboard for name in row.params)}


def facts_of(row: ev.LeaderboardRow, state: RunState) -> dict[str, Value]:
    """The fields of a row for filters; the status is a word."""
    facts: dict[str, Value] = {
        name: value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        for name, value in row.params.items()
    }
    facts |= {
        "model": f"{row.title} {row.model}",
        "family": row.family,
        "score": row.score,
        "fit": row.fit_seconds or None,
        "trials": row.trials,
        "status": row.status,
        "weight": row.in_ensemble,
    }
    return {**facts, state.plan.metric: row.score} if state.plan else facts


def _cells(row: ev.LeaderboardRow, frame: int | None, members: int, folds: int, notes: Notes) -> tuple[Content, ...]:
    quiet = MUTED if row.score is None or is_partial(row, folds) else ""
    best = row.rank == 1 and not quiet
    share = (f" {share_text(row.share)}", "$secondary") if row.share != 1 else ""
    fit = (
        format_duration(row.fit_seconds)
        if row.fit_seconds
        else f"~{format_duration(notes.expected)}"
        if notes.expected
        else "—"
    )
    return (
        Content.styled(str(row.rank) if row.rank else "–", MUTED),
        Content.assemble(("★ ", "$accent"), (model_name(row), "bold $accent"), share)
        if best
        else Content.assemble((model_name(row), quiet), share),
        Content.styled(score_or_provisional(row.score, notes.provisional), "bold $accent" if best else quiet),
        Content.styled(score_margin(row), MUTED),
        *([Content.styled(notes.strip, quiet or "$primary")] if folds > 1 else []),
        Content.styled(fit, MUTED),
        _status(row, frame, members, folds, notes),
    )


def _status(row: ev.LeaderboardRow, frame: int | None, members: int, folds: int, notes: Notes) -> Content:
    """The status, with the difference from the ensemble, what a waiting model waits for, or why a model has no score."""
    status = status_content(row, frame, members=members, folds=folds)
    if row.reason and status.plain.endswith(SEE_REASON):
        return Content.assemble(status[: -len(SEE_REASON)], (f": {short_reason(row.reason)}", MUTED))
    if notes.waits and not row.activity and row.status in ("queued", "ok"):
        waits = f" · {notes.waits}" if row.score is not None else f"· {notes.waits}"
        return Content.assemble(status if row.score is not None else "", (waits, MUTED))
    if notes.difference and row.model != ev.ENSEMBLE:
        return Content.assemble((notes.difference, "$accent" if ALIKE in notes.difference else MUTED), "  ", status)
    return Content.assemble(status, (f"  {notes.difference}", "$accent")) if notes.difference else status


def notes_of(state: RunState, strips: Mapping[str, str]) -> dict[str, Notes]:
    """What each row shows beside its own fields."""
    provisional = provisional_scores(state)
    single = alike(state)
    places = {each.model: (place, each) for place, each in enumerate(state.planned.waiting, 1)}
    is_over = state.is_over or state.stage != "fitting"
    notes: dict[str, Notes] = {}
    for row in state.leaderboard:
        place, waiting = places.get(row.model, (0, None))
        waiting = None if is_over or row.held else waiting
        difference = mark_of(state, row) if single is not None and row.model == single.model else ""
        if row.model == ev.ENSEMBLE and single is not None:
            difference = f"{ALIKE} {single.title}"
        notes[row.model] = Notes(
            provisional=provisional.get(row.model),
            strip=strips.get(row.model, ""),
            difference=difference,
            waits="" if waiting is None else waiting.note or f"place {place} in line",
            expected=None if waiting is None else waiting.seconds,
        )
    return notes


def in_line(state: RunState) -> dict[str, int]:
    """The place of each waiting model in the queue."""
    return {each.model: place for place, each in enumerate(state.planned.waiting)}


class Leaderboard(ModelTable):
    """Shows the leaderboard of a snapshot. The key k belongs to the screen, which stops a model with it."""

    ORDERS: ClassVar = tuple(dict(SORTS))

    def __init__(self) -> None:
        super().__init__(columns_for(RunState()), id="leaderboard", empty=WAITING)
        set_titles(self, "Leaderboard")
        self.sort = "rank"
        self.filter = ""
        self._cache = RowCache()
        self._strips = FoldStrips()
        self._is_placed = False
        """Whether the user has put the cursor elsewhere than on the first row, where it starts and stays."""

    def _move(self, index: int) -> None:
        super()._move(index)
        self._is_placed = self._index > 0

    def show(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Replace the rows. A cursor that the user has not moved stays on the first: the ensemble, if there is one."""
        super().show(rows, columns)
        if not self._is_placed and self._index > 0:
            self._move(0)

    def next_sort(self) -> str:
        """Sort by the next column and return its name."""
        names = [name for name, _ in SORTS]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        return self.sort

    def rows_of(self, snapshot: Snapshot) -> list[Row]:
        """The rows in the chosen order. A filter searches all models; without one, models not started are folded."""
        state = snapshot.state
        key, places = dict(SORTS)[self.sort], in_line(state)
        ordered = sorted(
            state.leaderboard,
            key=lambda row: (
                (*key(row), WITHOUT_SCORE.get(row.status, len(WITHOUT_SCORE)), places.get(row.model, len(places)))
                if row.score is None
                else (*key(row), 0, 0)
            ),
        )
        notes = notes_of(state, self._strips.of(state))

        def drawn(rows: Sequence[ev.LeaderboardRow]) -> list[Row]:
            return [self._cache.draw(row, state, snapshot.frame, notes[row.model]) for row in rows]

        if self.filter:
            return rows_matching(list(zip(ordered, drawn(ordered), strict=True)), self.filter, state)
        shown, folded = split_not_started(ordered)
        rows = drawn(shown)
        if folded:
            hint = Content.styled(f"not started · enter {'hides' if self.unfolded else 'shows'} them", MUTED)
            empty = [Content("")] * (len(columns_for(state)) - 3)
            rows.append(Row(FOLD_KEY, (Content.styled("–", MUTED), self.fold_line(len(folded)), *empty, hint)))
        if self.unfolded:
            rows += drawn(folded)
        return rows

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the rows of a snapshot."""
        state = snapshot.state
        self.show(self.rows_of(snapshot), columns_for(state))
        details = [f"sorted by {self.sort}"] if self.sort != "rank" else []
        details += [f"“{self.filter}”"] if self.filter else []
        scored = sum(row.score is not None and row.model != "ensemble" for row in state.leaderboard)
        facts = [count(scored, "model")] if scored else []
        if state.best is not None:
            facts.append(f"best {best_text(state)}")
        gain = recent_gain(snapshot)
        if gain is not None and state.best is not None:
            facts.append(f"{written_like(gain, state.best.score, '+')} in the last minute")
        problem = parse(self.filter, fields_of(state)).problem if self.filter else ""
        self.set_empty(f"No model matches “{self.filter}”." if self.filter else WAITING)
        set_titles(self, " · ".join(["Leaderboard", *details]), problem or " · ".join(facts))


def recent_gain(snapshot: Snapshot) -> float | None:
    """Change of the best score in the last minute; None if it is unchanged or the run has ended."""
    if snapshot.state.is_over or not snapshot.history:
        return None
    since = snapshot.now - IMPROVEMENT_SECONDS
    earlier = [score for time, score in snapshot.history if time <= since]
    gain = snapshot.history[-1][1] - earlier[-1] if earlier else 0.0
    return gain or None
