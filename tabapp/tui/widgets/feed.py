"""What happened, newest first."""

from __future__ import annotations

import time

from textual.content import Content

from tabapp.run.state import FeedLine
from tabapp.tui.texts import MUTED
from tabapp.tui.widgets.panel import Panel

STYLES = {
    "fit": MUTED,
    "trial": "$foreground",
    "ensemble": "$accent",
    "prune": MUTED,
    "warn": "$warning",
    "error": "$error",
    "info": "$primary",
}


class Feed(Panel[tuple[FeedLine, ...]]):
    """The last events that a person may want to know of. Fits of single folds are left out: their trial says it all."""

    def draw(self, facts: tuple[FeedLine, ...], width: int, height: int) -> list[Content]:
        told = [line for line in reversed(facts) if line.kind != "fit"][:height]
        return [
            Content.assemble(
                (time.strftime("%H:%M:%S", time.localtime(line.t)), MUTED),
                "  ",
                (f"{line.kind:<8}", STYLES.get(line.kind, "$foreground")),
                "  ",
                line.text,
            )
            for line in told
        ]
