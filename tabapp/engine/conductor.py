"""The loop of a run: starts fits, listens to them and to the user, keeps the clock, and tells everything as events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optuna.storages import RDBStorage
from optuna.trial import TrialState

from tabapp.engine.board import Board
from tabapp.engine.candidates import Candidate, Scorer, read_results
from tabapp.engine.executors import Executor
from tabapp.engine.fit import RunData
from tabapp.engine.jobs import Done, Failed, FitJob, Message, Progress
from tabapp.engine.plan import Plan
from tabapp.engine.resources import ResourceMeter
from tabapp.engine.scheduler import CAP_SHARE, HOLDOUT_CAP_SHARE, ModelRecord, Scheduler, Work
from tabapp.engine.tuning import Tuner, seed_of
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.run import events as ev
from tabapp.run.folder import CommandReader, RunFolder

TICK_SECONDS = 0.03
BOARD_SECONDS = 0.5
RESOURCES_SECONDS = 1.0
SHORTEST_RESERVE, RESERVE_SHARE, LONGEST_RESERVE = 2.5, 0.06, 60.0
GPU_FITS = 1
CORE = "core"
"""The tag of the models that start before all others."""

Emit = Callable[[ev.Event], None]


class Clock:
    """The run's hard deadline, with a reserve for ensembling, importances and export. It stands still while the run is paused.

    Args:
        budget: seconds of the whole run, or None for no clock.
        used: seconds that are gone already.
    """

    def __init__(self, budget: float | None, used: float) -> None:
        self.budget = budget
        now = time.monotonic()
        self.end = None if budget is None else now + max(0.0, budget - used)
        reserve = 0.0 if budget is None else min(max(SHORTEST_RESERVE, RESERVE_SHARE * budget), LONGEST_RESERVE)
        self.fitting_end = None if self.end is None else self.end - min(reserve, 0.5 * (budget or 0.0))
        self._paused_at: float | None = None

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    def pause(self) -> None:
        """Stop the clock."""
        self._paused_at = self._paused_at or time.monotonic()

    def go_on(self) -> None:
        """Let the clock run again; what was paused is added to the deadlines."""
        if self._paused_at is None:
            return
        stood = time.monotonic() - self._paused_at
        self._paused_at = None
        if self.end is not None and self.fitting_end is not None:
            self.end += stood
            self.fitting_end += stood

    def fitting_left(self) -> float:
        """Seconds until fitting must be over; infinite without a clock."""
        return float("inf") if self.fitting_end is None else self.fitting_end - self._now()

    def left(self) -> float:
        """Seconds until the run must be over; infinite without a clock."""
        return float("inf") if self.end is None else self.end - self._now()

    def _now(self) -> float:
        return time.monotonic() if self._paused_at is None else self._paused_at

    def wall_deadline(self) -> float | None:
        """The end as seconds since the epoch, for showing."""
        return None if self.end is None else time.time() + self.left()


@dataclass
class Running:
    """A fit at work."""

    work: Work
    seconds_started: float
    device: str
    pruned: bool = False


class Conductor:
    """Runs the fits of a plan until the clock, the trial bound or the user says enough."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Plan,
        data: RunData,
        shape: Shape,
        *,
        storage: RDBStorage,
        executor: Executor,
        commands: CommandReader,
        clock: Clock,
        emit: Emit,
        interrupted: Callable[[], bool],
    ) -> None:
        self._folder, self._plan, self._data, self._shape = folder, plan, data, shape
        self._executor, self._commands, self._clock, self._emit = executor, commands, clock, emit
        self._interrupted = interrupted
        self._n_folds = data.n_folds
        self._plugins: dict[str, Plugin] = {model.name: registry.get(model.name) for model in plan.competing}
        self._tuners = {
            name: Tuner(
                storage, plugin, task=plan.task, shape=shape, device=plan.device, metric=plan.metric, seed=plan.seed
            )
            for name, plugin in self._plugins.items()
        }
        self.scorer = Scorer(folder, data, plan.metric, plan.seed)
        self.scheduler = Scheduler(
            [
                ModelRecord(name, self._prior_seconds(name), CORE in plugin.tags)
                for name, plugin in self._plugins.items()
            ],
            metric=plan.metric,
            workers=plan.workers,
            trials=1 if plan.quality == "fast" else plan.trials,
            tune=plan.quality != "fast",
            race=plan.quality != "best",
            new_trial=self._new_trial,
            loss=self.scorer.loss,
            clearly_behind=self.scorer.clearly_behind,
        )
        self.board = Board(plan, self.scheduler, self.scorer)
        self._running: dict[str, Running] = {}
        self._meter = ResourceMeter(gpu=plan.device.startswith("cuda"))
        self._board_at = self._resources_at = 0.0
        self._dirty = True
        self.ended_by: str = ""
        """The command that ended the fitting early: finish, abort, or interrupt for a signal too."""
        self._recover()

    def _prior_seconds(self, name: str) -> float:
        plugin = self._plugins[name]
        params = plugin.defaults(self._plan.task, self._shape, self._plan.device)
        return plugin.cost(self._plan.task, self._shape, params, self._plan.device).seconds

    def _recover(self) -> None:
        """Take up what an earlier session left: complete fits count, trials in flight go on with the folds they miss."""
        for name, tuner in self._tuners.items():
            for number, params, state, cause in tuner.known():
                candidate = self.scheduler.add(Candidate(name, number, params, self._n_folds))
                read_results(self._folder, candidate)
                self.scheduler.models[name].spent += candidate.seconds
                if candidate.is_complete:
                    self._complete(candidate, told=state.is_finished())
                elif state == TrialState.PRUNED:
                    candidate.status = "pruned" if candidate.results else "failed"
                    candidate.cause = cause
                    self.scheduler.models[name].failures += candidate.status == "failed"

    def run(self) -> None:
        """Fit until nothing more is to be done, then leave no fit running."""
        self._emit(ev.StageChanged(stage="fitting", deadline=self._clock.wall_deadline()))
        while True:
            self._obey_commands()
            for message in self._executor.poll():
                self._handle(message)
            self._show()
            if self.ended_by or self._clock.fitting_left() <= 0:
                break
            if not self._clock.paused and not self._start_fits() and not self._running:
                break
            time.sleep(TICK_SECONDS)
        self._end_running_fits()
        self._show(force=True)

    def _start_fits(self) -> bool:
        started = False
        while len(self._running) < self._plan.workers:
            busy = {(*running.work.candidate.key, running.work.fold) for running in self._running.values()}
            work = self.scheduler.next_work(busy, self._clock.fitting_left())
            if work is None:
                return started
            self._start(work)
            started = True
        return started

    def _device_for(self, model: str) -> str:
        if not self._plan.device.startswith("cuda") or self._plugins[model].family != "deep":
            return "cpu"
        on_gpu = sum(running.device == self._plan.device for running in self._running.values())
        return self._plan.device if on_gpu < GPU_FITS else "cpu"

    def _start(self, work: Work) -> None:
        candidate, fold = work.candidate, work.fold
        device = self._device_for(candidate.model)
        soft_deadline = None
        if self._clock.fitting_end is not None and self._clock.budget is not None:
            cap = (CAP_SHARE if self._n_folds > 1 else HOLDOUT_CAP_SHARE) * self._clock.budget
            soft_deadline = min(self._clock.fitting_end, time.monotonic() + cap)
        job = FitJob(
            fit=candidate.fit_name(fold),
            run=str(self._folder.path),
            model=candidate.model,
            trial=candidate.trial,
            fold=fold,
            params=candidate.params,
            recipe=self._plugins[candidate.model].features(),
            task=self._plan.task,
            n_classes=self._plan.n_classes,
            metric=self._plan.metric,
            seed=seed_of(self._plan.seed, candidate.model, fold),
            device=device,
            n_threads=self._plan.n_threads,
            soft_deadline=soft_deadline,
        )
        pid = self._executor.submit(job)
        self._running[job.fit] = Running(work, time.monotonic(), device)
        self._dirty = True
        self._emit(
            ev.FitStarted(
                fit=job.fit,
                model=candidate.model,
                trial=candidate.trial,
                fold=fold,
                folds=candidate.n_folds,
                pid=pid,
            )
        )

    def _handle(self, message: Message) -> None:
        running = self._running.get(message.fit)
        if running is None:
            return
        candidate, fold = running.work.candidate, running.work.fold
        common: dict[str, Any] = {"fit": message.fit, "model": candidate.model, "trial": candidate.trial, "fold": fold}
        match message:
            case Progress():
                if running.pruned:
                    return
                self._emit(ev.FitProgress(**common, step=message.step, value=message.value))
                if fold == 0 and self._tuners[candidate.model].should_prune(
                    candidate.trial, message.step, message.value
                ):
                    running.pruned = True
                    self._executor.cancel(message.fit)
                    reason = f"step {message.step} is behind the median of earlier trials"
                    self._prune(candidate, reason, message.value)
            case Done():
                del self._running[message.fit]
                self._spend(candidate.model, running)
                self._dirty = True
                if running.pruned:
                    return
                result = message.result
                candidate.results[fold] = result
                self._emit(ev.FitFinished(**common, score=result.score, seconds=round(result.seconds, 3)))
                self._after_fold(candidate)
            case Failed():
                del self._running[message.fit]
                self._spend(candidate.model, running)
                self._dirty = True
                if not message.stopped:
                    self._emit(ev.FitFailed(**common, reason=message.reason, detail=message.detail))
                    self._after_failure(candidate, message)

    def _spend(self, model: str, running: Running) -> None:
        self.scheduler.models[model].spent += time.monotonic() - running.seconds_started

    def _after_fold(self, candidate: Candidate) -> None:
        if candidate.is_complete:
            self._complete(candidate, told=False)
            return
        behind = self.scheduler.is_behind(candidate)
        if behind:
            self._prune(candidate, behind, self.scorer.score(candidate).value)

    def _complete(self, candidate: Candidate, *, told: bool) -> None:
        candidate.status = "complete"
        self.board.mark_stale()
        if told:
            return
        score = self.scorer.score(candidate).value
        self._tuners[candidate.model].tell(candidate.trial, score)
        self._emit(
            ev.TrialFinished(
                model=candidate.model,
                trial=candidate.trial,
                score=score,
                seconds=round(candidate.seconds, 3),
                params=candidate.params,
            )
        )

    def _prune(self, candidate: Candidate, reason: str, score: float | None) -> None:
        candidate.status, candidate.cause = "pruned", reason
        self._tuners[candidate.model].tell_pruned(candidate.trial, reason, score)
        self._dirty = True
        self._emit(
            ev.TrialPruned(
                model=candidate.model, trial=candidate.trial, reason=reason, score=score, params=candidate.params
            )
        )

    def _after_failure(self, candidate: Candidate, failure: Failed) -> None:
        """A process that died from outside is tried once more, as the cause may be gone; a model's own error would come again."""
        if failure.died and not candidate.retried:
            candidate.retried = True
            return
        self.scheduler.models[candidate.model].failures += 1
        for name, running in self._running.items():
            if running.work.candidate is candidate:
                self._executor.cancel(name)
        if candidate.status == "active":
            candidate.status, candidate.cause = "failed", failure.reason
            self._tuners[candidate.model].tell_pruned(candidate.trial, failure.reason)

    def _obey_commands(self) -> None:
        if self._interrupted():
            self.ended_by = self.ended_by or "interrupt"
        for command in self._commands.read_new():
            match command.get("command"):
                case "pause":
                    self._clock.pause()
                    self._emit(ev.StageChanged(stage="fitting", paused=True, deadline=None))
                case "resume" if self._clock.paused:
                    self._clock.go_on()
                    self._emit(ev.StageChanged(stage="fitting", deadline=self._clock.wall_deadline()))
                case "stop_model" if command.get("model") in self.scheduler.models:
                    self._stop_model(str(command["model"]))
                case "finish" | "interrupt" | "abort":
                    self.ended_by = str(command["command"])
                case _:
                    pass

    def _stop_model(self, name: str) -> None:
        self.scheduler.models[name].stopped = True
        for fit, running in self._running.items():
            if running.work.candidate.model == name:
                self._executor.cancel(fit)
        for candidate in self.scheduler.of_model(name):
            if candidate.status == "active":
                candidate.status, candidate.cause = "pruned", "stopped by the user"
                self._tuners[name].tell_pruned(candidate.trial, "stopped by the user")
        self._dirty = True
        self._emit(ev.Log(level="info", message=f"{self._plugins[name].title} was stopped"))

    def _end_running_fits(self) -> None:
        """Fits that have passed their soft deadline are about to return: give them a moment, then kill what is left."""
        patience = 0.0 if self.ended_by else min(1.5, 0.25 * max(0.0, self._clock.left()))
        until = time.monotonic() + patience
        while self._running and time.monotonic() < until:
            for message in self._executor.poll():
                self._handle(message)
            time.sleep(TICK_SECONDS)
        self._running.clear()
        self._executor.close()

    def _activity(self) -> dict[str, str]:
        parts: dict[str, list[str]] = {}
        for running in self._running.values():
            candidate, fold = running.work.candidate, running.work.fold
            what = f"trial {candidate.trial}" if candidate.trial else "defaults"
            parts.setdefault(candidate.model, []).append(f"{what} · fold {fold + 1}/{candidate.n_folds}")
        return {model: ", ".join(sorted(what)) for model, what in parts.items()}

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        selected = self.board.refresh()
        if selected is not None:
            self._emit(selected.event())
            self._dirty = True
        if self._dirty and (force or now - self._board_at >= BOARD_SECONDS):
            self._dirty, self._board_at = False, now
            self._emit(ev.LeaderboardChanged(rows=self.board.rows(self._activity())))
        if now - self._resources_at >= RESOURCES_SECONDS:
            self._resources_at = now
            self._emit(self._meter.measure())

    def _new_trial(self, model: str) -> Candidate:
        number, params = self._tuners[model].ask()
        return Candidate(model, number, params, self._n_folds)
