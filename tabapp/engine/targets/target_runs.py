"""A run with several targets: an ordinary run for each of them, one after the other, and one bundle of all.

Each target has an engine process of its own, so that one that dies does not end the others, and memory and cores are never shared.
The log of the whole run repeats the events of each target between `target.started` and `target.finished`: views read one log.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tabapp import files
from tabapp.engine.finish.bundle_copy import copy_bundle
from tabapp.engine.loop.clock import Clock
from tabapp.engine.targets.target_plans import TargetPlan, with_all_targets
from tabapp.errors import BundleError, ExitCode, UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.options.targets import TargetRun, TargetRuns, folders_of_targets
from tabapp.run.protocol.client import describe_death, start_engine
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.confining import OUTSIDE
from tabapp.run.record.folder import UNREADABLE, CommandReader, EventReader, RunBusy, RunFolder
from tabapp.run.record.state import seconds_used

TICK_SECONDS = 0.05
EXPORT_SECONDS = 1.0
"""Time reserved for the bundle of all targets, on an idle machine."""
LEAST_SECONDS = 1.0
END_SECONDS = 10.0
"""Time that an engine has to end after its last event, or to notice that the process which started it is gone."""
_NOT_REPEATED = (ev.RunStarted, ev.RunFinished, ev.FitProgress, ev.Resources)
"""Events of an earlier session of a target that its views no longer need."""


def create_runs(folder: RunFolder, plans: Sequence[TargetPlan]) -> TargetRuns:
    """Create the folder of the run of each target, and then the record of all.

    Raises:
        OSError: the disk is full.
    """
    runs = folders_of_targets([each.target for each in plans])
    for plan, run in zip(plans, runs.targets, strict=True):
        own = RunFolder(folder.path / run.folder)
        own.fits.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
        own.save_config(plan.config)
    save_runs(folder, runs)
    return runs


def save_runs(folder: RunFolder, runs: TargetRuns) -> None:
    """Write the record of the runs of all targets, atomically."""
    files.write_bytes(folder.targets, msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")


def load_runs(folder: RunFolder) -> TargetRuns:
    """The record of the runs of all targets.

    Raises:
        UsageError: it cannot be read, or names folders outside of the run.
    """
    try:
        runs = msgspec.json.decode(files.read_regular(folder.targets), type=TargetRuns)
    except (OSError, *UNREADABLE) as error:
        raise UsageError(f"{folder.targets} cannot be read ({error}). Start a new run with `tabapp DATA`.") from None
    expected = folders_of_targets([run.target for run in runs.targets])
    if [run.folder for run in runs.targets] != [run.folder for run in expected.targets]:
        raise UsageError(f"{folder.targets} names other folders than those of its targets. Start a new run.")
    return runs


class TargetConductor:
    """Runs the targets one after the other, passes commands on to the current one, and repeats its events.

    Args:
        clock: the budget of the whole run. Targets that are left share what is left of it equally.
        again: the run was complete and has more time or trials now, so every target continues.
        interrupted: whether a signal ends the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        runs: TargetRuns,
        *,
        clock: Clock,
        commands: CommandReader,
        emit: Callable[[ev.Event], None],
        interrupted: Callable[[], bool],
        again: bool = False,
    ) -> None:
        self._folder, self._config, self._clock = folder, config, clock
        self._commands, self._emit, self._interrupted = commands, emit, interrupted
        self._runs = msgspec.structs.replace(runs, round=runs.round + 1) if again else runs
        self._names = tuple(run.target for run in runs.targets)
        self.ended_by = ""
        """What ended the run early: abort or interrupt; empty otherwise."""
        self._ending: list[subprocess.Popen[bytes]] = []
        """Engines that have written their last event. The next one need not wait until they have exited."""

    def run(self, elapsed: Callable[[], float]) -> ev.RunFinished:
        """Run all targets and write the bundle of all; returns the last event, which is not yet appended.

        Args:
            elapsed: seconds that the run has taken so far, including earlier sessions.
        """
        save_runs(self._folder, self._runs)
        try:
            return self._run(elapsed)
        finally:
            for engine in self._ending:
                _wait(engine)

    def _run(self, elapsed: Callable[[], float]) -> ev.RunFinished:
        results: list[ev.TargetResult] = []
        for index, run in enumerate(self._runs.targets):
            own = RunFolder(self._folder.path / run.folder)
            result = self._not_started(run) if self.ended_by else self._run_target(index, run, own)
            results.append(result)
            self._emit(ev.TargetFinished(index=index, result=result))
            if result.status == "ok":
                self._mark_done(index)
        return self._finish(results, elapsed)

    def _mark_done(self, index: int) -> None:
        targets = list(self._runs.targets)
        targets[index] = msgspec.structs.replace(targets[index], done=self._runs.round)
        self._runs = msgspec.structs.replace(self._runs, targets=tuple(targets))
        save_runs(self._folder, self._runs)

    def _run_target(self, index: int, run: TargetRun, own: RunFolder) -> ev.TargetResult:
        """Run a target, or continue it; one that is complete is only read."""
        self._clock.resume()
        self._emit(ev.TargetStarted(index=index, target=run.target, targets=self._names, folder=run.folder))
        reader = EventReader(own.events)
        history = reader.read_new()
        for event in history:
            if not isinstance(event, _NOT_REPEATED):
                self._repeat(event)
        finished = _last_result(history)
        if run.done < self._runs.round or finished is None:
            _wait_until_free(own)
            self._configure(index, own, seconds_used(history))
            finished, reason = self._follow(own, reader)
            if finished is None:
                return _failed(run, own, reason)
        return _result(run, own, finished)

    def _configure(self, index: int, own: RunFolder, used: float) -> None:
        """Give a target an equal part of the time that is left for it and the targets after it, and the current limits."""
        budget = None
        if self._clock.budget is not None:
            n_left = sum(run.done < self._runs.round for run in self._runs.targets[index:])
            share = (self._clock.left() - EXPORT_SECONDS * self._clock.slowdown) / max(1, n_left)
            budget = used + max(LEAST_SECONDS, share)
        changed: dict[str, Any] = {"budget": budget, "trials": self._config.trials, "start": True}
        # The user chose these for this session, perhaps on another machine than that of the last one.
        changed |= {name: getattr(self._config, name) for name in OUTSIDE} | {"out": None}
        own.save_config(msgspec.structs.replace(own.config(), **changed))

    def _follow(self, own: RunFolder, reader: EventReader) -> tuple[ev.RunFinished | None, str]:
        """Start the engine of a target and repeat its events until it ends; returns its last event, or why there is none."""
        engine = start_engine(own)
        finished: ev.RunFinished | None = None
        waiting: list[cmd.AnyCommand] = []
        started = was_interrupted = False
        try:
            while True:
                gone = engine.poll() is not None
                for event in reader.read_new():
                    match event:
                        case ev.RunStarted():
                            started = True
                        case ev.RunFinished():
                            finished = event
                        case _:
                            self._repeat(event)
                if gone or finished is not None:
                    break
                waiting += self._commands.read_new()
                if self._interrupted() and not was_interrupted:
                    was_interrupted = True
                    waiting.append(cmd.Interrupt())
                if started:
                    # An engine skips commands that are older than its own start.
                    for command in waiting:
                        self._pass_on(command, own)
                    waiting = []
                time.sleep(TICK_SECONDS)
            if finished is not None:
                self._ending.append(engine)
                return finished, ""
            return None, describe_death(_wait(engine), own)
        except BaseException:
            engine.kill()
            engine.wait()
            raise

    def _pass_on(self, command: cmd.AnyCommand, own: RunFolder) -> None:
        match command:
            case cmd.Interrupt():
                self.ended_by = self.ended_by or "interrupt"
            case cmd.Abort():
                self.ended_by = "abort"
            case cmd.Extend():
                moved = self._clock.extend(command.seconds)
                if self._clock.budget is not None:
                    self._config = msgspec.structs.replace(self._config, budget=self._clock.budget)
                    self._folder.save_config(self._config)
                n_left = max(1, sum(run.done < self._runs.round for run in self._runs.targets))
                command = cmd.Extend(seconds=moved / n_left)
            case _:
                pass
        own.send(command)

    def _repeat(self, event: ev.AnyEvent) -> None:
        """Append an event of a target to the log of the whole run."""
        match event:
            case ev.StageChanged(stage="starting" | "reading"):
                return
            case ev.StageChanged():
                if event.paused:
                    self._clock.pause()
                else:
                    self._clock.resume()
            case ev.PlanMade():
                event = with_all_targets(event, self._names, self._config)
            case _:
                pass
        self._emit(event)

    def _not_started(self, run: TargetRun) -> ev.TargetResult:
        """The result of a target after an interrupt: that of an earlier session, if there is one."""
        own = RunFolder(self._folder.path / run.folder)
        finished = _last_result(EventReader(own.events).read_new())
        if finished is not None and finished.bundle is not None:
            return _result(run, own, finished)
        return _failed(run, own, "The run was interrupted before this target.", status="interrupted", code=0)

    def _finish(self, results: list[ev.TargetResult], elapsed: Callable[[], float]) -> ev.RunFinished:
        """Write the bundle of the targets that have one, and make the last event."""
        bundle, unwritten = None, ""
        bundles = [Path(result.bundle) for result in results if result.bundle is not None]
        if bundles and self.ended_by != "abort":
            self._emit(ev.StageChanged(stage="exporting"))
            bundle, unwritten = self._write_bundle(bundles)
        interrupted = self.ended_by != "" or any(result.status == "interrupted" for result in results)
        code = next((result.exit_code for result in results if result.exit_code), 0)
        code = ExitCode.INTERRUPTED if interrupted else code or (ExitCode.NO_MODEL if unwritten else ExitCode.OK)
        first = msgspec.structs.asdict(results[0])
        changed: dict[str, Any] = {
            "status": "interrupted"
            if interrupted
            else "failed"
            if any(r.status == "failed" for r in results)
            else "ok",
            "run": self._folder.run,
            "bundle": None if bundle is None else str(bundle),
            "seconds": round(elapsed(), 3),
            "exit_code": int(code),
            "message": " ".join(filter(None, (_summary(results, bundle is not None), unwritten))),
            "targets": tuple(results),
        }
        return ev.RunFinished(**{**first, **changed})

    def _write_bundle(self, bundles: list[Path]) -> tuple[Path | None, str]:
        """The path of the bundle of all targets, or None, and a sentence if it could not be written or copied."""
        from tabapp.bundle.files.write_targets import write_targets

        try:
            write_targets(self._folder.bundle, bundles, run=self._folder.run, name=self._config.name or "")
        except BundleError as error:
            return None, str(error)
        return copy_bundle(self._folder, self._config, self._emit)


def _summary(results: Sequence[ev.TargetResult], has_bundle: bool) -> str:
    """A sentence on the targets without a complete result; empty if all have one."""
    parts = [f"{result.target}: {result.message}" for result in results if result.status != "ok"]
    if not parts:
        return ""
    lacking = sum(result.bundle is None for result in results)
    if has_bundle and lacking:
        parts.append(f"The bundle predicts the other {len(results) - lacking} of {len(results)} targets.")
    return " ".join(parts)


def _last_result(history: Sequence[ev.AnyEvent]) -> ev.RunFinished | None:
    """The last event of the last session of a run; None if that session did not end."""
    finished: ev.RunFinished | None = None
    for event in history:
        if isinstance(event, ev.RunStarted):
            finished = None
        elif isinstance(event, ev.RunFinished):
            finished = event
    return finished


def _result(run: TargetRun, own: RunFolder, finished: ev.RunFinished) -> ev.TargetResult:
    fields: dict[str, Any] = {name: getattr(finished, name) for name in ev.TargetResult.__struct_fields__}
    # The paths in events of a run folder that was moved are old.
    bundle = str(own.bundle) if finished.bundle is not None and own.bundle.is_file() else None
    fields |= {"target": run.target, "bundle": bundle}
    return ev.TargetResult(**fields)


def _failed(
    run: TargetRun, own: RunFolder, message: str, *, status: ev.FinishStatus = "failed", code: int = ExitCode.NO_MODEL
) -> ev.TargetResult:
    return ev.TargetResult(
        status=status,
        run=own.run,
        bundle=None,
        task=None,
        target=run.target,
        metric=None,
        greater_is_better=None,
        best=None,
        test_score=None,
        seconds=0.0,
        leaderboard=(),
        importances=(),
        agreement={"attention_vs_permutation": None},
        exit_code=int(code),
        message=message,
    )


def _wait(engine: subprocess.Popen[bytes]) -> int:
    """The exit code of an engine that has ended or has written its last event."""
    try:
        return engine.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        engine.kill()
        return engine.wait()


def _wait_until_free(own: RunFolder) -> None:
    """Wait for the engine of a killed session, which ends when it notices that its parent is gone.

    Raises:
        RunBusy: another process still works on the target.
    """
    deadline = time.monotonic() + END_SECONDS
    while own.is_running():
        if time.monotonic() > deadline:
            raise RunBusy(f"Another process works on the run {own.path}. Wait until it ends.")
        time.sleep(TICK_SECONDS)
