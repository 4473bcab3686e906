"""Recent events, newest first."""

from __future__ import annotations

import time

from tabapp.run.record.state import FeedLine
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel
from tabapp.tui.viewmodels.texts import MUTED

STYLES = {
    "fit": MUTED,
    "trial": "$foreground",
    "ensemble": "$accent",
    "prune": MUTED,
    "warn": "$warning",
    "error": "$error",
    "info": "$primary",
}


def newest(feed: tuple[FeedLine, ...], number: int) -> list[FeedLine]:
    """The last lines, newest first, without single fits and without unchanged ensembles."""
    lines: list[FeedLine] = []
    ensemble: tuple[int | None, str] = (None, "")
    for line in feed:
        if line.kind != "fit" and not (line.kind == "ensemble" and (line.target, line.text) == ensemble):
            lines.append(line)
        if line.kind == "ensemble":
            ensemble = line.target, line.text
    return lines[::-1][:number]


class Feed(Panel[tuple[FeedLine, ...]]):
    """The last events. Fits of single folds are omitted, since their trial has an event."""

    def draw(self, facts: tuple[FeedLine, ...], width: int, height: int) -> list[Content]:
        lines = newest(facts, height)
        return [
            Content.assemble(
                (time.strftime("%H:%M:%S", time.localtime(line.t)), MUTED),
                "  ",
                (f"{line.kind:<8}", STYLES.get(line.kind, "$foreground")),
                "  ",
                line.text,
            )
            for line in lines
        ]
