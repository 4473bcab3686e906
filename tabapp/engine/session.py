"""One session of the engine on a run: prepare or resume, wait for the start, run the fits, finish. Errors become events."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from tabapp import __version__, files
from tabapp.data.columns import renamed_as_in_training
from tabapp.data.schema import Schema
from tabapp.engine.draft import Draft, Inputs, changed_draft, make_draft
from tabapp.engine.fit.servers import start_all, stop_all
from tabapp.engine.machine.capacity import Machines, memory_limit_of
from tabapp.engine.machine.contention import Contention
from tabapp.engine.machine.devices import CPU, available_cores
from tabapp.engine.machine.gpus import further_gpus
from tabapp.engine.machine.slots import FITS_PER_GPU
from tabapp.engine.plan.device import device_of, usable_device
from tabapp.engine.plan.make_plan import Plan, shape_of, write_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import read_data, read_more, reading_event
from tabapp.errors import ExitCode, TabappError
from tabapp.run.disk import is_disk_full, print_traceback
from tabapp.run.options.config import RunConfig, with_exact_names
from tabapp.run.protocol.client import describe_full_disk
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import is_damaged
from tabapp.run.record.folder import CommandReader, EventLog, EventReader, LineReader, RunFolder, reject_links
from tabapp.run.record.state import seconds_used
from tabapp.run.texts.environment import environment

if TYPE_CHECKING:
    from tabapp.engine.fit.executors import Executor
    from tabapp.engine.remote.ray_cluster import Cluster

WAIT_SECONDS = 0.05


class Aborted(Exception):
    """The user aborted the run; there is no result."""


class NeverStarted(Exception):
    """The user left before starting the run."""


class Session:
    """Runs the engine on a run folder that this process has locked.

    Args:
        folder: the run folder.
        age: seconds since this process was started, which count towards the budget of a run that starts at once.
    """

    def __init__(self, folder: RunFolder, *, age: float = 0.0) -> None:
        self._folder = folder
        self._interrupted = False
        self._started = time.monotonic() - age
        self._history = history = EventReader(folder.events).read_new()
        self._used = seconds_used(history)
        self._resumed = any(isinstance(event, ev.RunStarted) for event in history)
        self._n_damaged = sum(map(is_damaged, LineReader(folder.events).read_new()))
        self._commands = CommandReader(folder.commands, resumed=self._resumed, reject=self._warn)
        self._parent = os.getppid()
        self._log = EventLog(folder.events)
        self._cluster: Cluster | None = None
        self._machines: Machines | None = None

    def interrupt(self) -> None:
        """End the run soon, with the best result so far. Safe in a signal handler."""
        self._interrupted = True

    def emit(self, event: ev.Event) -> None:
        """Append an event to the run."""
        self._log.append(event)

    def _warn(self, message: str) -> None:
        self.emit(ev.Log(level="warning", message=message))

    def run(self) -> int:
        """Run to the end; returns the exit code. The last event is always `run.finished`."""
        try:
            config = self._folder.config()
            reject_links(self._folder.path)
            files.sweep(self._folder.path)
            self.emit(
                ev.RunStarted(
                    run=self._folder.run,
                    name=config.name or self._folder.run,
                    data=config.data,
                    pid=os.getpid(),
                    seed=config.seed,
                    budget=config.budget_seconds,
                    version=__version__,
                    resumed=self._resumed,
                    environment=environment(),
                )
            )
            if self._n_damaged:
                self._warn(f"{self._n_damaged} damaged lines of events.jsonl are skipped.")
            finished = self._conduct(config)
        except NeverStarted:
            finished = self._failure("The run was not started.", 0, "interrupted")
        except Aborted:
            finished = self._failure("The run was aborted; nothing was exported.", ExitCode.INTERRUPTED, "interrupted")
        except TabappError as error:
            finished = self._failure(str(error), error.exit_code)
        except Exception as error:
            print_traceback()
            finished = self._failure(self._sentence_about(error), 1)
        self.emit(finished)
        self._log.close()
        return finished.exit_code

    def _sentence_about(self, error: Exception) -> str:
        if is_disk_full(error, self._folder.path):
            return describe_full_disk(self._folder)
        if isinstance(error, OSError):
            resume = f"`tabapp resume {self._folder.argument}`"
            return f"The run folder cannot be read or written: {error}. Fix that, then continue with {resume}."
        return f"The engine failed with {type(error).__name__}: {error}. See the traceback in {self._folder.log}."

    def _conduct(self, config: RunConfig) -> ev.RunFinished:
        self._connect(config)
        try:
            return self._conduct_on(config)
        finally:
            if self._cluster is not None:
                self._cluster.close()

    def _connect(self, config: RunConfig) -> None:
        """Connect to the cluster of a run that has one, and check that its nodes see the run folder.

        Raises:
            UsageError: there is no cluster, or it cannot run fits.
        """
        if config.executor != "ray":
            return
        from tabapp.engine.remote.ray_cluster import Cluster

        self._cluster = Cluster(config.address, available_cores())
        self._machines = self._cluster.machines()
        self._cluster.check_shared(self._folder.path)

    def _executor(self, plan: Plan) -> Executor:
        if self._cluster is None:
            from tabapp.engine.fit.executors import LocalExecutor

            return LocalExecutor(plan.memory_limit, plan.device, further_gpus=plan.further_gpus)
        from tabapp.engine.remote.ray_executor import RayExecutor

        return RayExecutor(self._cluster)

    def _conduct_on(self, config: RunConfig) -> ev.RunFinished:
        if self._folder.targets.exists():
            return self._conduct_targets(config)
        prepared = self._prepared(config)
        if prepared is None:
            return self._conduct_targets(self._folder.config())
        plan, schema, waited = prepared
        # Imported here: a screen that shows the columns need not wait for Optuna, nor the first fit for scikit-learn.
        from tabapp.engine.fit.run_data import RunData
        from tabapp.engine.loop.clock import Clock
        from tabapp.engine.loop.conductor import Conductor
        from tabapp.engine.loop.studies import known_trials, open_study

        shape = shape_of(plan, schema)
        # Starting and reading count towards the budget of a run that starts at once; time before a start by the user does not.
        used = self._used + (0.0 if waited else time.monotonic() - self._started)
        clock = Clock(plan.budget, used, Contention(since_start=True).slowdown())
        executor = self._executor(plan)
        try:
            data = RunData(self._folder)
            clock.reserve_ensemble(len(data.scored) * max(1, plan.n_classes))
            conductor = Conductor(
                self._folder,
                plan,
                data,
                shape,
                storage=open_study(self._folder, self._warn),
                known_trials=known_trials(self._folder, self._history),
                executor=executor,
                commands=self._commands,
                clock=clock,
                emit=self.emit,
                interrupted=lambda: self._interrupted,
            )
            conductor.run()
        finally:
            executor.close()
            # Killed fits leave their checkpoints behind.
            shutil.rmtree(self._folder.checkpoints, ignore_errors=True)
        if conductor.ended_by == "abort":
            raise Aborted
        interrupted = conductor.ended_by == "interrupt"
        from tabapp.engine.finish.run_end import Finish

        finish = Finish(self._folder, config, conductor.board.plan, data, conductor, clock, self.emit)
        return finish.run(interrupted=interrupted, elapsed=self._elapsed)

    def _conduct_targets(self, config: RunConfig) -> ev.RunFinished:
        """Run several targets, whose folders exist."""
        from tabapp.engine.loop.clock import Clock
        from tabapp.engine.targets.target_runs import TargetConductor, load_runs

        last = next((e for e in reversed(self._history) if isinstance(e, ev.RunFinished | ev.RunStarted)), None)
        conductor = TargetConductor(
            self._folder,
            config,
            load_runs(self._folder),
            clock=Clock(config.budget_seconds, self._elapsed(), Contention(since_start=True).slowdown()),
            commands=self._commands,
            emit=self.emit,
            interrupted=lambda: self._interrupted,
            again=isinstance(last, ev.RunFinished) and last.status == "ok",
        )
        finished = conductor.run(self._elapsed)
        if conductor.ended_by == "abort":
            raise Aborted
        return finished

    def _elapsed(self) -> float:
        return self._used + time.monotonic() - self._started

    def _prepared(self, config: RunConfig) -> tuple[Plan, Schema, bool] | None:
        """The plan, the schema, and whether the run waited for a user to start it. Writes the rows and folds to disk.

        With several targets, it creates the run of each and returns None.
        """
        plan_path = self._folder.plan
        if plan_path.exists() or any(self._folder.fits.glob("*-f*")):
            # Imported here: a new run shows its columns before it loads the libraries of features and models.
            from tabapp.engine.loop.recovery import recover

            plan, schema = recover(self._folder, config, self._warn)
            plan = msgspec.structs.replace(plan, budget=config.budget_seconds, trials=config.trials)
            plan = self._on_this_machine(plan, config)
            self.emit(plan_event(plan, schema, config))
            return plan, schema, False
        self.emit(ev.StageChanged(stage="reading"))
        reading = read_data(config)
        self.emit(reading_event(reading, config))
        more = read_more(config)
        exact = with_exact_names(config, reading.names)
        if exact != config:
            # Screens read it back, and compare its names with those of the columns.
            self._folder.save_config(config := exact)
        draft = make_draft(config, reading, more, show=self.emit, staged=config.start, machines=self._machines)
        waited = not config.start
        if waited:
            draft, inputs = self._wait_for_start(draft, Inputs(reading, more))
            reading, more = inputs.reading, inputs.more
            self._started = time.monotonic()
        if draft.targets:
            from tabapp.engine.targets.target_runs import create_runs

            create_runs(self._folder, draft.targets)
            stop_all()
            return None
        config, schema, plan = draft.config, draft.schema, draft.plan
        from tabapp.engine.plan.write_rows import write_rows

        if more is not None:
            more, _ = renamed_as_in_training(more, schema.columns)
        plan = write_rows(self._folder, config, reading, schema, plan, more)
        if plan != draft.plan:
            self.emit(plan_event(plan, schema, config))
        for note in plan.notes:
            self._warn(note)
        return write_plan(plan_path, plan), schema, waited

    def _on_this_machine(self, plan: Plan, config: RunConfig) -> Plan:
        """A plan that was perhaps made on another machine, for the memory, the cores and the GPU of this one.

        The threads of a fit stay, since they change the last bits of its result.
        """
        machines = self._machines
        device = usable_device(plan.device) if machines is None else device_of(config, machines)
        place = "the CPU" if device == CPU else device
        if device != plan.device:
            self._warn(f"The run used {plan.device}, which this machine does not have. Its models continue on {place}.")
        further = further_gpus(config.device, device) if machines is None else ()
        gpu_slots = FITS_PER_GPU if machines is None else max(1, machines.gpus)
        cores = available_cores() if machines is None else machines.cores
        workers = plan.workers if config.workers else max(1, cores // plan.n_threads)
        memory_limit = memory_limit_of(config, machines)
        return msgspec.structs.replace(
            plan,
            device=device,
            further_gpus=further,
            gpu_slots=gpu_slots,
            workers=workers,
            memory_limit=memory_limit,
        )

    def _wait_for_start(self, draft: Draft, inputs: Inputs) -> tuple[Draft, Inputs]:
        self.emit(ev.StageChanged(stage="ready"))
        start_all({model.name for model in draft.plan.competing})
        while True:
            if self._interrupted or os.getppid() != self._parent:
                # The view that could start the run is gone.
                raise NeverStarted
            for command in self._commands.read_new():
                match command:
                    case cmd.Start():
                        config = msgspec.structs.replace(draft.config, start=True)
                        self._folder.save_config(config)
                        return replace(draft, config=config), inputs
                    case cmd.ChangePlan():
                        draft, inputs = self._change_plan(command.options, draft, inputs)
                    case cmd.Abort() | cmd.Finish() | cmd.Interrupt():
                        raise NeverStarted
                    case _:
                        pass
            time.sleep(WAIT_SECONDS)

    def _change_plan(self, options: dict[str, Any], draft: Draft, inputs: Inputs) -> tuple[Draft, Inputs]:
        """The draft with options changed by a screen, or the old draft if they are not valid."""
        own = self._folder.config() if self._folder.is_own() else None
        try:
            new, inputs, events = changed_draft(options, draft, inputs, own, self._machines)
        except (TabappError, msgspec.ValidationError) as error:
            if own is not None and own != draft.config:
                # A screen writes the files that it names into the configuration.
                self._folder.save_config(draft.config)
            self.emit(ev.PlanRefused(message=str(error)))
            return draft, inputs
        self._folder.save_config(new.config)
        for event in events:
            self.emit(event)
        return new, inputs

    def _failure(self, message: str, exit_code: int, status: ev.FinishStatus = "failed") -> ev.RunFinished:
        return ev.RunFinished(
            status=status,
            run=self._folder.run,
            bundle=None,
            task=None,
            target=None,
            metric=None,
            greater_is_better=None,
            best=None,
            test_score=None,
            seconds=round(self._elapsed(), 3),
            leaderboard=(),
            importances=(),
            agreement={"attention_vs_permutation": None},
            exit_code=exit_code,
            message=message,
        )
