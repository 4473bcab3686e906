"""What a user can change while models are fitted: stop, pause or favour a model, keep it out of the ensemble, give more time.

Every command says what shall be, not what to toggle, so that one that is read twice changes nothing more. Each can be undone by
another: `resume_model` undoes `stop_model` and `pause_model`, a share of 1 undoes `share_model`, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import msgspec

from tabapp.engine.board import Board
from tabapp.engine.clock import Clock
from tabapp.engine.scheduler import Scheduler
from tabapp.run import events as ev
from tabapp.run.config import format_duration
from tabapp.run.folder import CommandReader, RunFolder

LEAST_SHARE, LARGEST_SHARE = 1 / 8, 8.0
LASTING = ("stop_model", "pause_model", "resume_model", "share_model", "ensemble")
"""Commands that a resumed run still heeds. More time is kept in the run's configuration."""


class Steering:
    """Obeys the commands on models and on the clock.

    Args:
        titles: of the competing models, by name.
        end_fits: asks the running fits of a model to end.
    """

    def __init__(
        self,
        folder: RunFolder,
        scheduler: Scheduler,
        board: Board,
        clock: Clock,
        *,
        titles: Mapping[str, str],
        end_fits: Callable[[str], None],
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._folder, self._scheduler, self._board, self._clock = folder, scheduler, board, clock
        self._titles, self._end_fits, self._emit = titles, end_fits, emit

    def recall(self) -> None:
        """Take up what was asked of the models in earlier sessions of the run."""
        for command in CommandReader(self._folder.commands, resumed=False).read_new():
            if command.get("command") in LASTING:
                self._change(command)

    def obey(self, command: dict[str, Any]) -> bool:
        """Do what a command asks, and say so as an event; returns whether there is something new to show."""
        if command.get("command") == "extend":
            return self._extend(command.get("seconds"))
        told = self._change(command)
        if told is not None:
            self._emit(ev.Log(level="info", message=told))
        return told is not None

    def _change(self, command: dict[str, Any]) -> str | None:
        """What was changed, as a sentence; None where nothing was."""
        name = command.get("model")
        record = self._scheduler.models.get(name) if isinstance(name, str) else None
        if record is None:
            return None
        title = self._titles[record.name]
        match command.get("command"):
            case "stop_model" if not record.stopped:
                record.stopped, record.paused = True, False
                self._end_fits(record.name)
                return f"{title} was stopped"
            case "pause_model" if not record.paused and not record.stopped:
                record.paused = True
                return f"{title} is paused; fits of it that run go on to their end"
            case "resume_model" if record.paused or record.stopped:
                record.stopped = record.paused = False
                return f"{title} goes on"
            case "share_model" if _is_number(wanted := command.get("share")):
                share = min(max(float(wanted), LEAST_SHARE), LARGEST_SHARE)
                if share == record.share:
                    return None
                record.share = share
                return (
                    f"{title} gets its due of the time"
                    if share == 1
                    else f"{title} gets {share:g} × its due of the time"
                )
            case "ensemble" if isinstance(include := command.get("include"), bool):
                if include is (record.name not in self._board.left_out):
                    return None
                (self._board.left_out.discard if include else self._board.left_out.add)(record.name)
                self._board.mark_stale()
                return f"{title} {'may be in' if include else 'is kept out of'} the ensemble"
            case _:
                return None

    def _extend(self, seconds: object) -> bool:
        if not _is_number(seconds):
            return False
        moved = self._clock.extend(seconds)
        if not moved:
            return False
        self._folder.save_config(msgspec.structs.replace(self._folder.config(), budget=self._clock.budget))
        span = format_duration(abs(moved))
        self._emit(ev.Log(level="info", message=f"The run has {span} {'more' if moved > 0 else 'less'}"))
        paused = self._clock.paused
        deadline = None if paused else self._clock.wall_deadline()
        self._emit(ev.StageChanged(stage="fitting", paused=paused, deadline=deadline))
        return True


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
