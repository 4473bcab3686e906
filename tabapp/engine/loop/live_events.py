"""Events that keep the views current during fitting: leaderboard, evaluations, what comes next, importances and resources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tabapp.engine.loop.board import Board
from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.evaluations import Evaluations
from tabapp.engine.loop.patience import Patience
from tabapp.engine.loop.preliminary import PreliminaryImportances
from tabapp.engine.loop.selection import Selected
from tabapp.engine.loop.time_share import Allowance
from tabapp.engine.machine.resources import ResourceMeter
from tabapp.engine.schedule.work import Work
from tabapp.run.record import events as ev

BOARD_SECONDS = 0.5
RESOURCES_SECONDS = 2.0
PREVIEW_SECONDS, PREVIEW_SHARE = 1.0, 0.002
"""Least time between two looks at what comes next, and their share of the elapsed time."""


class Display:
    """Emits what has changed, at most every `BOARD_SECONDS` and `RESOURCES_SECONDS`.

    Args:
        preview: returns the next fits.

    Attributes:
        is_stale: whether the leaderboard has changed since it was emitted.
        is_idle: whether a worker has nothing to do.
        is_loading: whether the engine imports libraries in the background.
        is_over: whether fitting ends because more time is expected to add little.
    """

    def __init__(
        self,
        board: Board,
        evaluations: Evaluations,
        clock: Clock,
        *,
        gpus: Sequence[str],
        preview: Callable[[], ev.FitsPlanned],
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._board, self._evaluations, self._clock = board, evaluations, clock
        self._preview, self._emit = preview, emit
        self._meter = ResourceMeter(gpus)
        self._importances = PreliminaryImportances(evaluations.folder, evaluations.data, board)
        self._preview_allowance = Allowance(PREVIEW_SHARE, PREVIEW_SECONDS)
        self._planned, self._works = ev.FitsPlanned(), frozenset[str]()
        self._board_at = self._evaluated_at = self._resources_at = self._previewed_at = 0.0
        self._patience, self._is_settled = Patience(board.plan.metric), False
        self.is_stale, self.is_idle, self.is_loading, self.is_over = True, False, False, False

    def update(self, works: Sequence[Work], *, force: bool = False) -> Selected | None:
        """Emit events for a run in which the fits of `works` are running; `force` emits a changed leaderboard at once.

        Returns:
            The ensemble, if it is new.
        """
        now = time.monotonic()
        if not force and now - self._previewed_at >= PREVIEW_SECONDS:
            self._show_next(works, now)
        selected = self._board.refresh()
        if selected is not None:
            self._emit(changed := selected.event())
            self._patience.record(self._clock.elapsed(), changed)
            if selected.compared is not None:
                self._emit(selected.compared)
            self.is_stale = True
        if self.is_stale and (force or now - self._board_at >= BOARD_SECONDS):
            self.is_stale, self._board_at = False, now
            self._emit(ev.LeaderboardChanged(rows=self._board.rows(activity(works))))
        if now - self._evaluated_at >= BOARD_SECONDS:
            self._evaluated_at = now
            self._look_ahead()
            evaluation = self._evaluations.refresh()
            if evaluation is not None:
                self._emit(evaluation)
            importances = self._importances.refresh(idle=self.is_idle, loading=self.is_loading)
            if importances is not None:
                self._emit(importances)
        if now - self._resources_at >= RESOURCES_SECONDS:
            self._resources_at = now
            self._emit(self._meter.measure())
        return selected

    def close(self) -> None:
        """End what is computed beside the fits."""
        self._importances.close()

    def _look_ahead(self) -> None:
        """Say once that more time is expected to add little, and end fitting if the plan asks for it."""
        if self._is_settled:
            return
        elapsed = self._clock.elapsed()
        settled = self._patience.settled(elapsed, elapsed + self._clock.fitting_left(), self._planned)
        if settled is not None:
            self._is_settled, self.is_over = True, self._board.plan.patience == "auto"
            self._emit(msgspec.structs.replace(settled, ends=self.is_over))

    def _show_next(self, works: Sequence[Work], now: float) -> None:
        """Emit the next fits if they have changed since fits began or ended."""
        fits = frozenset(candidate.fit_name(fold) for work in works for candidate, fold in work.fits)
        if fits == self._works or not self._preview_allowance.is_left:
            return
        began = time.thread_time()
        self._works, self._previewed_at, planned = fits, now, self._preview()
        self._preview_allowance.spend(time.thread_time() - began)
        if planned != self._planned:
            self._planned = planned
            self._emit(planned)


def activity(works: Iterable[Work]) -> dict[str, str]:
    """Describe the running fits of each model, such as 'trial 3 · fold 2/5'."""
    parts: dict[str, list[str]] = {}
    for work in works:
        for candidate, fold in work.fits:
            what = f"trial {candidate.trial}" if candidate.trial else "defaults"
            parts.setdefault(candidate.model, []).append(f"{what} · fold {fold + 1}/{candidate.n_folds}")
    return {model: ", ".join(sorted(what)) for model, what in parts.items()}
