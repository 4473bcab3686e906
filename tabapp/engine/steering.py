"""Commands while models are fitted: stop, pause or favor a model, keep it out of the ensemble, change the budget.

Commands are idempotent: each sets a state and toggles nothing, so reading one twice has no further effect. Each can be undone by
another: `resume_model` undoes `stop_model` and `pause_model`, a share of 1 undoes `share_model`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from tabapp.engine.board import Board
from tabapp.engine.clock import Clock
from tabapp.engine.plan import Plan
from tabapp.engine.scheduler import Scheduler
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.bounds import MAXIMUM_SHARE, MINIMUM_SHARE
from tabapp.run.commands import AnyCommand
from tabapp.run.config import format_duration
from tabapp.run.folder import CommandReader, RunFolder


class Steering:
    """Applies the commands on models and on the budget.

    Args:
        titles: titles of the competing models by name.
        end_fits: asks the running fits of a model to end.
        plan_changed: keeps and shows a plan that a command has changed.
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
        plan_changed: Callable[[Plan], None],
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._folder, self._scheduler, self._board, self._clock = folder, scheduler, board, clock
        self._titles, self._end_fits, self._plan_changed, self._emit = titles, end_fits, plan_changed, emit

    def recall(self, models: Collection[str]) -> None:
        """Repeat what was asked of these models before they could compete, in this session or an earlier one."""
        for command in CommandReader(self._folder.commands, resumed=False).read_new():
            # A changed budget is saved in the run's configuration.
            if isinstance(command, cmd.ModelCommand) and command.model in models:
                self._change(command)

    def apply(self, command: AnyCommand) -> bool:
        """Apply a command and log it; returns whether the leaderboard may have changed."""
        if isinstance(command, cmd.Extend):
            return self._extend(command.seconds)
        message = self._change(command) if isinstance(command, cmd.ModelCommand) else None
        if message is not None:
            self._emit(ev.Log(level="info", message=message))
        return message is not None

    def _change(self, command: cmd.ModelCommand) -> str | None:
        """Apply a command on a model; returns a sentence on what changed, or None if nothing did."""
        record = self._scheduler.models.get(command.model)
        if record is None:
            return None
        title = self._titles[record.name]
        match command:
            case cmd.StopModel() if not record.stopped:
                record.stopped, record.paused = True, False
                self._end_fits(record.name)
                return f"{title} stopped"
            case cmd.PauseModel() if not record.paused and not record.stopped:
                record.paused = True
                return f"{title} paused; its running fits continue to their end"
            case cmd.ResumeModel() if record.paused or record.stopped:
                record.stopped = record.paused = False
                return f"{title} resumed"
            case cmd.ShareModel():
                share = min(max(command.share, MINIMUM_SHARE), MAXIMUM_SHARE)
                if share == record.share:
                    return None
                record.share = share
                return (
                    f"{title} gets its usual share of the time"
                    if share == 1
                    else f"{title} gets {share:g} × its usual share of the time"
                )
            case cmd.IncludeModel(include=include):
                if include is (record.name not in self._board.left_out):
                    return None
                (self._board.left_out.discard if include else self._board.left_out.add)(record.name)
                self._board.mark_stale()
                return f"{title} {'may join' if include else 'is excluded from'} the ensemble"
            case _:
                return None

    def _extend(self, seconds: float) -> bool:
        moved = self._clock.extend(seconds)
        if not moved:
            return False
        budget = self._clock.budget
        self._folder.save_config(msgspec.structs.replace(self._folder.config(), budget=budget))
        self._plan_changed(msgspec.structs.replace(self._board.plan, budget=budget))
        span = format_duration(abs(moved))
        self._emit(ev.Log(level="info", message=f"Budget {'extended' if moved > 0 else 'shortened'} by {span}"))
        paused = self._clock.paused
        deadline = None if paused else self._clock.wall_deadline()
        self._emit(ev.StageChanged(stage="fitting", paused=paused, deadline=deadline))
        return True
