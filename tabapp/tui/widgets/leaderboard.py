"""The leaderboard: a row for each model, best first, including failed and skipped models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState, is_partial
from tabapp.run.texts.provisional import provisional_scores, score_or_provisional
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row
from tabapp.tui.viewmodels.query import Value, parse
from tabapp.tui.viewmodels.texts import (
    MUTED,
    Snapshot,
    best_text,
    count,
    model_name,
    score_margin,
    share_text,
    short_seconds,
    status_content,
)
from tabapp.tui.widgets.model_table import FOLD_KEY, ModelTable, split_not_started

SORTS: tuple[tuple[str, Callable[[ev.LeaderboardRow], tuple[float, str]]], ...] = (
    ("rank", lambda row: (row.rank or float("inf"), "")),
    ("name", lambda row: (0.0, row.title.casefold())),
    ("fit time", lambda row: (-row.fit_seconds, "")),
    ("trials", lambda row: (-row.trials, "")),
)
TITLES = {"#": "rank", "Model": "name", "Fit": "fit time", "Status": "trials"}
WAITING = "Waiting for the first models…"
FIELDS = ("model", "family", "score", "fit", "trials", "status", "weight")
IMPROVEMENT_SECONDS = 60.0


def columns_for(state: RunState) -> tuple[Column, ...]:
    """The columns, with the title of the metric above the scores."""
    return (
        Column("#", "right", width=2),
        Column("Model"),
        Column(state.plan.metric_title if state.plan else "Score", "right"),
        Column("± 95%", "right", priority=2),
        Column("Fit", "right", priority=3),
        Column("Status", flexible=True, least=20),
    )


class RowCache:
    """Caches drawn rows, since few of many rows change between two leaderboards."""

    def __init__(self) -> None:
        self._drawn: dict[str, tuple[ev.LeaderboardRow, tuple[int | None, int, int, float | None], Row]] = {}

    def draw(self, row: ev.LeaderboardRow, state: RunState, frame: int | None, provisional: float | None = None) -> Row:
        """Draw a row, or reuse it if unchanged; `provisional` is shown while it has no score."""
        folds = state.plan.folds if state.plan else 0
        members = len(state.ensemble.members) if state.ensemble else 0
        moment = (frame if row.activity or row.status == "running" else None, members, folds, provisional)
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


def _cells(
    row: ev.LeaderboardRow, frame: int | None, members: int, folds: int, provisional: float | None
) -> tuple[Content, ...]:
    quiet = MUTED if row.score is None or is_partial(row, folds) else ""
    best = row.rank == 1 and not quiet
    share = (f" {share_text(row.share)}", "$secondary") if row.share != 1 else ""
    return (
        Content.styled(str(row.rank) if row.rank else "–", MUTED),
        Content.assemble(("★ ", "$accent"), (model_name(row), "bold $accent"), share)
        if best
        else Content.assemble((model_name(row), quiet), share),
        Content.styled(score_or_provisional(row.score, provisional), "bold $accent" if best else quiet),
        Content.styled(score_margin(row), MUTED),
        Content.styled(short_seconds(row.fit_seconds) if row.fit_seconds else "—", MUTED),
        status_content(row, frame, members=members, folds=folds),
    )


class Leaderboard(ModelTable):
    """Shows the leaderboard of a snapshot. The key k belongs to the screen, which stops a model with it."""

    def __init__(self) -> None:
        super().__init__(columns_for(RunState()), id="leaderboard", empty=WAITING)
        set_titles(self, "Leaderboard")
        self.sort = "rank"
        self.filter = ""
        self._cache = RowCache()

    def next_sort(self) -> str:
        """Sort by the next column and return its name."""
        names = [name for name, _ in SORTS]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        return self.sort

    def rows_of(self, snapshot: Snapshot) -> list[Row]:
        """The rows in the chosen order. A filter searches all models; without one, models not started are folded."""
        state = snapshot.state
        ordered = sorted(state.leaderboard, key=dict(SORTS)[self.sort])
        provisional = provisional_scores(state)

        def drawn(rows: Sequence[ev.LeaderboardRow]) -> list[Row]:
            return [self._cache.draw(row, state, snapshot.frame, provisional.get(row.model)) for row in rows]

        if self.filter:
            return rows_matching(list(zip(ordered, drawn(ordered), strict=True)), self.filter, state)
        shown, folded = split_not_started(ordered)
        rows = drawn(shown)
        if folded:
            hint = Content.styled("enter hides them" if self.unfolded else "enter shows them", MUTED)
            empty = Content("")
            rows.append(
                Row(FOLD_KEY, (Content.styled("–", MUTED), self.fold_line(len(folded)), empty, empty, empty, hint))
            )
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
        if gain is not None:
            facts.append(f"{gain:+.4f} last {IMPROVEMENT_SECONDS:.0f}s")
        problem = parse(self.filter, fields_of(state)).problem if self.filter else ""
        self.set_empty(f"No model matches “{self.filter}”." if self.filter else WAITING)
        set_titles(self, " · ".join(["Leaderboard", *details]), problem or " · ".join(facts))


def recent_gain(snapshot: Snapshot) -> float | None:
    """Change of the best score in the last minute; None if it is unchanged or the run has ended."""
    if snapshot.state.finished is not None or not snapshot.history:
        return None
    since = snapshot.now - IMPROVEMENT_SECONDS
    earlier = [score for time, score in snapshot.history if time <= since]
    gain = snapshot.history[-1][1] - earlier[-1] if earlier else 0.0
    return gain or None
