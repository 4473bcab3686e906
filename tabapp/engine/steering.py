"""What a user can change while models are fitted: stop, pause or favour a model, keep it out of the ensemble, give more time.

Every command says what shall be, not what to toggle, so that one that is read twice changes nothing more. Each can be undone by
another: `resume_model` undoes `stop_model` and `pause_model`, a share of 1 undoes `share_model`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tabapp.engine.board import Board
from tabapp.engine.clock import Clock
from tabapp.engine.scheduler import Scheduler
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.bounds import MAXIMUM_SHARE, MINIMUM_SHARE
from tabapp.run.commands import AnyCommand
from tabapp.run.config import format_duration
from tabapp.run.folder import CommandReader, RunFolder


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
            # More time is kept in the run's configuration.
            if isinstance(command, cmd.ModelCommand):
                self._change(command)

    def obey(self, command: AnyCommand) -> bool:
        """Apply a command and log the change as an event; returns whether anything changed."""
        if isinstance(command, cmd.Extend):
            return self._extend(command.seconds)
        change = self._change(command) if isinstance(command, cmd.ModelCommand) else None
        if change is not None:
            self._emit(ev.Log(level="info", message=change))
        return change is not None

    def _change(self, command: cmd.ModelCommand) -> str | None:
        """Apply a command on one model; returns the change as a sentence, None when nothing changed."""
        record = self._scheduler.models.get(command.model)
        if record is None:
            return None
        title = self._titles[record.name]
        match command:
            case cmd.StopModel() if not record.stopped:
                record.stopped, record.paused = True, False
                self._end_fits(record.name)
                return f"{title} was stopped"
            case cmd.PauseModel() if not record.paused and not record.stopped:
                record.paused = True
                return f"{title} is paused; fits of it that run go on to their end"
            case cmd.ResumeModel() if record.paused or record.stopped:
                record.stopped = record.paused = False
                return f"{title} goes on"
            case cmd.ShareModel():
                share = min(max(command.share, MINIMUM_SHARE), MAXIMUM_SHARE)
                if share == record.share:
                    return None
                record.share = share
                return (
                    f"{title} gets its due of the time"
                    if share == 1
                    else f"{title} gets {share:g} × its due of the time"
                )
            case cmd.IncludeModel(include=include):
                if include is (record.name not in self._board.left_out):
                    return None
                (self._board.left_out.discard if include else self._board.left_out.add)(record.name)
                self._board.mark_stale()
                return f"{title} {'may be in' if include else 'is kept out of'} the ensemble"
            case _:
                return None

    def _extend(self, seconds: float) -> bool:
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
