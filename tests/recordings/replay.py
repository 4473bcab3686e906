"""A worker that plays a recorded run into a run folder and obeys commands, instead of an engine.

    python -m tests.recordings.replay RUN_FOLDER RECORDING [--speed 20]

As a process it holds the run's lock as an engine does, so that every view takes it for one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tabapp.run.options.config import RunConfig
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import CommandReader, RunFolder, create_run
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.state import RunState
from tests.recordings import events_of

POLL_SECONDS = 0.02


def config_of(events: Sequence[ev.Event]) -> RunConfig:
    """The configuration that a recording began with."""
    plan = next(event for event in events if isinstance(event, ev.PlanMade))
    read = next(event for event in events if isinstance(event, ev.DataRead))
    return RunConfig(data=read.file, budget=plan.budget, start=False)


def make_run(runs_dir: Path, name: str, data: str | None = None) -> RunFolder:
    """A run folder with nothing in it yet, for a recording to be played into; `data` is the path of its table, if there is one."""
    config = config_of(events_of(name))
    return create_run(msgspec.structs.replace(config, data=data) if data else config, runs_dir)


class ReplayWorker:
    """Plays events in their order; what a command asks for is answered with the events that an engine would answer with.

    Attributes:
        state: of the run, as played so far.
        halted: nothing is played until this is False again; commands are obeyed all the same.
    """

    def __init__(self, folder: RunFolder, events: Sequence[ev.AnyEvent]) -> None:
        self._folder = folder
        self._waiting = list(events)
        self._commands = CommandReader(folder.commands, resumed=False)
        self._stopped: set[str] = set()
        self._time = events[0].t
        self._rows: dict[str, dict[str, Any]] = {}
        self.halted = False
        self.state = RunState()

    # -- playing ----------------------------------------------------------------------------------------------------

    @property
    def next_event(self) -> ev.AnyEvent | None:
        """What is played next."""
        return self._waiting[0] if self._waiting else None

    @property
    def stands_still(self) -> bool:
        """Whether the run waits for its start, is paused, or was halted by its player."""
        return self.halted or self.state.paused or self._waits_for_start()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to play."""
        return not self._waiting

    def play(self, number: int = 1) -> None:
        """Play so many events; none while the run waits for its start, is paused, or is over."""
        for _ in range(number):
            if not self._waiting or self.stands_still:
                return
            self._next()

    def play_to(self, kind: type[ev.Event], number: int = 1) -> None:
        """Play until so many events of a kind were played, by themselves and past a start that nobody has asked for."""
        while number and self._waiting:
            number -= isinstance(self._waiting[0], kind)
            self._next()

    def play_all(self) -> None:
        """Play to the end."""
        while self._waiting:
            self._next()

    def write(self, event: ev.AnyEvent) -> None:
        """Append an event that is not recorded."""
        self._write(event)

    def _waits_for_start(self) -> bool:
        event = self.next_event
        return self.state.stage == "ready" and isinstance(event, ev.StageChanged) and event.stage == "fitting"

    def _next(self) -> None:
        event = self._waiting.pop(0)
        self._time = max(self._time, event.t)
        if getattr(event, "model", None) in self._stopped and isinstance(
            event, ev.FitStarted | ev.FitProgress | ev.FitFinished | ev.FitFailed | ev.TrialFinished | ev.TrialPruned
        ):
            return
        if isinstance(event, ev.LeaderboardChanged):
            event = msgspec.structs.replace(event, rows=self._steered(event.rows))
        if isinstance(event, ev.RunFinished) and self._folder.bundle.exists():
            event = msgspec.structs.replace(event, bundle=str(self._folder.bundle))
        self._write(event)

    def _steered(self, rows: tuple[ev.LeaderboardRow, ...]) -> tuple[ev.LeaderboardRow, ...]:
        return tuple(msgspec.structs.replace(row, **self._rows.get(row.model, {})) for row in rows)

    def _write(self, event: ev.AnyEvent) -> None:
        event = msgspec.structs.replace(event, seq=self.state.seq + 1, t=event.t or self._time)
        self.state = reduce(self.state, event)
        with self._folder.events.open("ab") as file:
            file.write(encode(event))

    # -- obeying ----------------------------------------------------------------------------------------------------

    def obey(self) -> list[AnyCommand]:
        """Read the commands that are new, answer each, and return them."""
        commands = self._commands.read_new()
        for command in commands:
            self._answer(command)
        return commands

    def steer(self, command: AnyCommand) -> None:
        """Answer a command that no view has sent."""
        self._answer(command)

    def _answer(self, command: AnyCommand) -> None:
        stage = self.state.stage
        match command:
            case cmd.ChangePlan() if stage == "ready":
                self._plan(command.options)
            case cmd.Start() if self._waits_for_start():
                self._next()
            case cmd.Pause() | cmd.Resume() if stage == "fitting":
                paused = isinstance(command, cmd.Pause)
                self._write(ev.StageChanged(stage="fitting", paused=paused, deadline=self.state.deadline))
            case cmd.StopModel() | cmd.PauseModel():
                self._stopped.add(command.model)
                held = "stopped" if isinstance(command, cmd.StopModel) else "paused"
                self._steer(command.model, {"held": held, "activity": ""})
            case cmd.ResumeModel():
                self._stopped.discard(command.model)
                self._steer(command.model, {"held": ""})
            case cmd.ShareModel():
                self._steer(command.model, {"share": command.share})
            case cmd.IncludeModel():
                self._steer(command.model, {"left_out": not command.include})
            case cmd.Extend() if self.state.deadline is not None:
                deadline = self.state.deadline + command.seconds
                self._write(ev.StageChanged(stage=stage, paused=self.state.paused, deadline=deadline))
            case cmd.Finish():
                self._skip_fits()
            case cmd.Abort():
                self._abort()
            case _:
                pass

    def _steer(self, model: str, changes: dict[str, Any]) -> None:
        self._rows.setdefault(model, {}).update(changes)
        self._write(ev.LeaderboardChanged(rows=self._steered(self.state.leaderboard)))

    def _plan(self, options: dict[str, Any]) -> None:
        plan, schema = self.state.plan, self.state.schema
        assert plan is not None
        assert schema is not None
        names = [column.name for column in schema.columns]
        target = options.get("target", plan.target)
        if target not in names:
            self._write(ev.PlanRefused(message=f"There is no column {target!r} in {self.state.data}."))
            return
        fields = {name: options[name] for name in ("target", "metric", "budget", "quality", "seed") if name in options}
        config = self._folder.config()
        changed = msgspec.convert({**msgspec.to_builtins(config), **options}, RunConfig)
        self._folder.save_config(changed)
        columns = tuple(
            msgspec.structs.replace(column, role=role_of(column, target, config.ignore, changed.ignore))
            for column in schema.columns
        )
        self._write(msgspec.structs.replace(schema, seq=0, t=0.0, columns=columns))
        self._write(msgspec.structs.replace(plan, seq=0, t=0.0, **fields))

    def _skip_fits(self) -> None:
        self._write(ev.StageChanged(stage="fitting", deadline=self.state.deadline))
        kept = (ev.EnsembleChanged, ev.ImportancesReady, ev.SlicesReady, ev.EffectsReady, ev.RunFinished)
        last = {type(event): event for event in self._waiting if isinstance(event, kept)}
        self._waiting = [last[kind] for kind in kept if kind in last]
        self.play_all()

    def _abort(self) -> None:
        self._waiting = []
        fields: dict[str, Any] = dict.fromkeys(
            ("bundle", "task", "target", "metric", "greater_is_better", "best", "test_score")
        )
        message = "The run was discarded"
        self._write(
            ev.RunFinished(
                status="interrupted", run=self._folder.run, seconds=0.0, leaderboard=(), importances=(), agreement={},
                exit_code=130, message=message, **fields,
            )
        )  # fmt: skip


def role_of(column: ev.ColumnView, target: str, before: Sequence[str], ignored: Sequence[str]) -> str:
    """What a column is for once another target, or other columns to leave out than before, were asked for."""
    if column.name == target:
        return "target"
    if column.name in ignored:
        return "ignore"
    return "feature" if column.role == "target" or column.name in before else column.role


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("recording")
    parser.add_argument("--speed", type=float, default=20.0, help="how much faster than it was")
    parser.add_argument("--until", metavar="EVENT", help="stand still after the first event of this kind")
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    events = events_of(arguments.recording)
    with folder.lock():
        worker = ReplayWorker(folder, events)
        due = time.monotonic()
        while not worker.is_over:
            worker.obey()
            next_event = worker.next_event
            if next_event is None or worker.stands_still:
                due = time.monotonic()
            elif time.monotonic() >= due:
                worker.play()
                if arguments.until == next_event.__struct_config__.tag:
                    arguments.until = ""
                    worker.halted = True
                elif worker.next_event is not None:
                    due += max(0.0, worker.next_event.t - next_event.t) / arguments.speed
            time.sleep(POLL_SECONDS if time.monotonic() < due or worker.stands_still else 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
