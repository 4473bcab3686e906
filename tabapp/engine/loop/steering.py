"""Commands while models are fitted: stop, pause or favor a model, keep it out of the ensemble, change the budget.

Commands are idempotent: each sets a state and toggles nothing, so reading one twice has no further effect. Each can be undone by
another: `resume_model` undoes `stop_model` and `pause_model`, a share of 1 undoes `share_model`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from tabapp.engine.loop.board import Board
from tabapp.engine.loop.clock import Clock
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.competition import Competition
from tabapp.run.options.units import format_duration
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.commands import MAXIMUM_SHARE, MINIMUM_SHARE, AnyCommand
from tabapp.run.record.folder import CommandReader, RunFolder

Held = Literal["", "stopped", "paused"]
HELD: dict[Held, str] = {
    "": "resumed",
    "stopped": "stopped",
    "paused": "paused; its running fits continue to their end",
}


@dataclass(frozen=True)
class Wish:
    """What the user wants of a model: stopped, paused or neither, its share of the time, and whether it may join the ensemble."""

    held: Held = ""
    share: float = 1.0
    include: bool = True


def wish_after(wish: Wish, command: cmd.ModelCommand) -> Wish:
    """The wish after a command. A pause leaves a stopped model stopped."""
    match command:
        case cmd.StopModel():
            return replace(wish, held="stopped")
        case cmd.PauseModel():
            return replace(wish, held=wish.held or "paused")
        case cmd.ResumeModel():
            return replace(wish, held="")
        case cmd.ShareModel():
            return replace(wish, share=min(max(command.share, MINIMUM_SHARE), MAXIMUM_SHARE))
        case cmd.IncludeModel():
            return replace(wish, include=command.include)
        case _:
            return wish


class Steering:
    """Applies the commands on models and on the budget.

    Args:
        end_fits: asks the running fits of a model to end.
        plan_changed: keeps and shows a plan that a command has changed.
    """

    def __init__(
        self,
        folder: RunFolder,
        competition: Competition,
        board: Board,
        clock: Clock,
        *,
        end_fits: Callable[[str], None],
        plan_changed: Callable[[Plan], None],
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._folder, self._competition, self._board, self._clock = folder, competition, board, clock
        self._end_fits, self._plan_changed, self._emit = end_fits, plan_changed, emit

    def recall(self, models: Collection[str]) -> None:
        """Apply what was asked of these models before they could compete, in this session or an earlier one.

        Only the sum of the commands is applied: a stop that was taken back ends no fit.
        """
        asked: dict[str, Wish] = {}
        for command in CommandReader(self._folder.commands, resumed=False).read_new():
            # A changed budget is saved in the run's configuration.
            if isinstance(command, cmd.ModelCommand) and command.model in models:
                asked[command.model] = wish_after(asked.get(command.model, Wish()), command)
        for model, wish in asked.items():
            self._fulfill(model, wish)

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
        record = self._competition.models.get(command.model)
        if record is None:
            return None
        held: Held = "stopped" if record.stopped else "paused" if record.paused else ""
        now = Wish(held, record.share, include=record.name not in self._board.left_out)
        return self._fulfill(record.name, wish_after(now, command))

    def _fulfill(self, model: str, wish: Wish) -> str | None:
        """Give a model the state that the user wants; returns a sentence on what changed, or None if nothing did."""
        record = self._competition.models.get(model)
        if record is None:
            return None
        title, changes = record.title, list[str]()
        if (wish.held == "stopped", wish.held == "paused") != (record.stopped, record.paused):
            record.stopped, record.paused = wish.held == "stopped", wish.held == "paused"
            changes.append(f"{title} {HELD[wish.held]}")
            if record.stopped:
                self._end_fits(model)
        if wish.share != record.share:
            record.share = wish.share
            times = "its usual share" if wish.share == 1 else f"{wish.share:g} × its usual share"
            changes.append(f"{title} gets {times} of the time")
        if wish.include is (model in self._board.left_out):
            (self._board.left_out.discard if wish.include else self._board.left_out.add)(model)
            self._board.mark_stale()
            changes.append(f"{title} {'may join' if wish.include else 'is excluded from'} the ensemble")
        return "; ".join(changes) or None

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
