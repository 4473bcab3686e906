"""Events that keep the views current during fitting: leaderboard, evaluations and resources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from tabapp.engine.loop.board import Board, Selected
from tabapp.engine.loop.evaluations import Evaluations
from tabapp.engine.machine.resources import ResourceMeter
from tabapp.engine.schedule.work import Work
from tabapp.run.record import events as ev

BOARD_SECONDS = 0.5
RESOURCES_SECONDS = 2.0


class Display:
    """Emits what has changed, at most every `BOARD_SECONDS` and `RESOURCES_SECONDS`.

    Attributes:
        is_stale: whether the leaderboard has changed since it was emitted.
    """

    def __init__(
        self, board: Board, evaluations: Evaluations, *, gpus: Sequence[str], emit: Callable[[ev.Event], None]
    ) -> None:
        self._board, self._evaluations, self._emit = board, evaluations, emit
        self._meter = ResourceMeter(gpus)
        self._board_at = self._evaluated_at = self._resources_at = 0.0
        self.is_stale = True

    def update(self, works: Iterable[Work], *, force: bool = False) -> Selected | None:
        """Emit events for a run in which the fits of `works` are running; `force` emits a changed leaderboard at once.

        Returns:
            The ensemble, if it is new.
        """
        now = time.monotonic()
        selected = self._board.refresh()
        if selected is not None:
            self._emit(selected.event())
            self.is_stale = True
        if self.is_stale and (force or now - self._board_at >= BOARD_SECONDS):
            self.is_stale, self._board_at = False, now
            self._emit(ev.LeaderboardChanged(rows=self._board.rows(activity(works))))
        if now - self._evaluated_at >= BOARD_SECONDS:
            self._evaluated_at = now
            evaluation = self._evaluations.refresh()
            if evaluation is not None:
                self._emit(evaluation)
        if now - self._resources_at >= RESOURCES_SECONDS:
            self._resources_at = now
            self._emit(self._meter.measure())
        return selected


def activity(works: Iterable[Work]) -> dict[str, str]:
    """Describe the running fits of each model, such as 'trial 3 · fold 2/5'."""
    parts: dict[str, list[str]] = {}
    for work in works:
        for candidate, fold in work.fits:
            what = f"trial {candidate.trial}" if candidate.trial else "defaults"
            parts.setdefault(candidate.model, []).append(f"{what} · fold {fold + 1}/{candidate.n_folds}")
    return {model: ", ".join(sorted(what)) for model, what in parts.items()}
