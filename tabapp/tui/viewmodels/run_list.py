"""Runs in lists: the fields that filters search, the orders, and the words for a state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tabapp.run.lists.description import RunDescription
from tabapp.tui.viewmodels.query import Query, Value

FIELDS = ("run", "name", "tag", "note", "status", "data", "target", "metric", "best", "seconds", "models", "age")
STATUSES = {
    "running": ("●", "running", "$primary"),
    "ok": ("✓", "ok", "$success"),
    "interrupted": ("■", "interrupted", "$warning"),
    "failed": ("✗", "failed", "$error"),
    "stopped": ("■", "stopped", "$warning"),
    "unreadable": ("✗", "unreadable", "$error"),
}
"""Glyph, word and color of each status."""
SORTS: dict[str, Callable[[RunDescription], tuple[object, ...]]] = {
    "newest": lambda run: (-(run.started or 0.0),),
    "best": lambda run: (
        run.metric_title,
        run.best is None,
        (-1 if run.greater_is_better else 1) * (run.best or 0.0),
    ),
    "status": lambda run: (run.status,),
    "file": lambda run: (Path(run.data).name.casefold(), run.target),
}


def filter_fields(run: RunDescription) -> dict[str, Value]:
    """The fields of a run by the names that filters use; `age` is in seconds."""
    return {
        "run": run.run,
        "name": run.name,
        "tag": " ".join(f"#{tag}" for tag in run.labels.tags),
        "note": run.labels.note,
        "status": run.status,
        "data": Path(run.data).name,
        "target": run.target,
        "metric": run.metric_title,
        "best": run.best,
        "seconds": run.seconds,
        "models": run.models,
        "age": time.time() - run.started if run.started is not None else None,
    }


def fits(run: RunDescription, query: Query) -> bool:
    """Whether a run matches a filter."""
    fields = filter_fields(run)
    return query.fits(fields, " ".join(str(value) for value in fields.values()))


def in_order(runs: Iterable[RunDescription], sort: str) -> list[RunDescription]:
    """Runs in an order, with pinned ones first."""
    return sorted(runs, key=lambda run: (not run.labels.pinned, *SORTS[sort](run)))  # pyright: ignore[reportArgumentType]


def status_words(run: RunDescription) -> str:
    """The status of a run, with its progress while it runs."""
    word = STATUSES[run.status][1]
    return f"{word} {run.share:.0%}" if run.status == "running" and run.share is not None else word


def about_status(run: RunDescription) -> str:
    """What the status of a run means, and the key that continues it."""
    match run.status:
        case "running":
            return "It is running; enter shows it."
        case "ok":
            return "It is complete; enter shows its result, and + continues it with more time."
        case "interrupted" | "stopped" if run.best is None:
            return "It has not scored a model; r starts it, and n opens its plan."
        case "interrupted" | "stopped":
            return "It has stopped before its end; r resumes it from its last complete fit."
        case "failed":
            return "It has failed; enter shows why."
        case _:
            return run.reason


def when_text(started: float | None, now: float) -> str:
    """When a run started, in at most 12 characters: today 09:26, 24 Nov 17:02 or, in another year, 24 Nov 2025."""
    if started is None:
        return "—"
    then, today = time.localtime(started), time.localtime(now)
    if (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday):
        return time.strftime("today %H:%M", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == today.tm_year else "%d %b %Y", then)
