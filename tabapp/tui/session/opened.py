"""What an app shows next, after it exits."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.run.record.folder import RunFolder


@dataclass(frozen=True)
class Opened:
    """The run to show next, whether to start its engine, and whether that resumes it, so that its leaderboard is shown first.

    `replay` is the multiple of its speed at which the run is replayed; None shows it as it is.
    """

    folder: RunFolder
    start_engine: bool
    resumed: bool = False
    replay: float | None = None
