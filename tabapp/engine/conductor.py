"""The loop of a run: starts fits, listens to them and to the user, keeps the clock, and tells everything as events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optuna.storages import RDBStorage
from optuna.trial import TrialState

from tabapp.engine.board import STOPPED, Board
from tabapp.engine.candidates import Candidate, Scorer, read_results
from tabapp.engine.clock import Clock
from tabapp.engine.evaluations import Evaluations
from tabapp.engine.executors import Executor
from tabapp.engine.fit import RunData
from tabapp.engine.jobs import Done, Failed, FitJob, Message, Progress
from tabapp.engine.plan import Plan
from tabapp.engine.resources import ResourceMeter
from tabapp.engine.scheduler import ModelRecord, Scheduler, Work
from tabapp.engine.steering import Steering
from tabapp.engine.tuning import Tuner, seed_of
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.folder import CommandReader, RunFolder

TICK_SECONDS = 0.03
BOARD_SECONDS = 0.5
RESOURCES_SECONDS = 1.0
GPU_FITS = 1

Emit = Callable[[ev.Event], None]


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
                ModelRecord(name, self._prior_seconds(name), plugin.starts_first, plugin.merit(plan.task, shape))
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
        self.evaluations = Evaluations(folder, data, self.board)
        self._steering = Steering(
            folder,
            self.scheduler,
            self.board,
            clock,
            titles={name: plugin.title for name, plugin in self._plugins.items()},
            end_fits=self._end_fits_of,
            emit=emit,
        )
        self._running: dict[str, Running] = {}
        self._meter = ResourceMeter(gpu=plan.device.startswith("cuda"))
        self._board_at = self._resources_at = 0.0
        self._dirty = True
        self.ended_by: str = ""
        """The command that ended the fitting early: finish, abort, or interrupt for a signal too."""
        self._recover()
        self._steering.recall()

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
            idle = not self._clock.paused and not self._start_fits() and not self._running
            if idle and not self.scheduler.holds_back(self._clock.fitting_left()):
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
            cap = self.scheduler.cap_share(self._n_folds) * self._clock.budget
            cap *= max(1.0, self.scheduler.models[candidate.model].share)
            # What a fit has learned by its deadline still has to be predicted with before fitting is over.
            soft_deadline = time.monotonic() + min(cap, 0.9 * self._clock.fitting_left())
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
                self._settle(candidate)
            case Failed():
                del self._running[message.fit]
                self._spend(candidate.model, running)
                self._dirty = True
                if not message.stopped:
                    self._emit(ev.FitFailed(**common, reason=message.reason, detail=message.detail))
                    self._after_failure(candidate, message)
                self._settle(candidate)

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
        ranked = self._tuners[candidate.model].rank_parameters()
        if ranked is not None:
            n_trials, shares = ranked
            rows = tuple(
                ev.ParameterImportance(name=name, importance=round(share, 4)) for name, share in shares.items()
            )
            self._emit(ev.ParametersRanked(model=candidate.model, n_trials=n_trials, rows=rows))

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
            match command:
                case cmd.Pause():
                    self._clock.pause()
                    self._emit(ev.StageChanged(stage="fitting", paused=True, deadline=None))
                case cmd.Resume() if self._clock.paused:
                    self._clock.go_on()
                    self._emit(ev.StageChanged(stage="fitting", deadline=self._clock.wall_deadline()))
                case cmd.Finish():
                    self.ended_by = "finish"
                case cmd.Interrupt():
                    self.ended_by = "interrupt"
                case cmd.Abort():
                    self.ended_by = "abort"
                case _:
                    self._dirty = self._steering.obey(command) or self._dirty

    def _end_fits_of(self, name: str) -> None:
        for fit, running in self._running.items():
            if running.work.candidate.model == name:
                self._executor.cancel(fit)
        for candidate in self.scheduler.of_model(name):
            self._settle(candidate)

    def _settle(self, candidate: Candidate) -> None:
        """End the open trial of a model that the user has stopped, once its last fit has ended."""
        at_work = any(running.work.candidate is candidate for running in self._running.values())
        if self.scheduler.models[candidate.model].stopped and candidate.status == "active" and not at_work:
            self._prune(candidate, STOPPED, self.scorer.score(candidate).value if candidate.results else None)

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
        pictures = self.evaluations.refresh()
        if pictures is not None:
            self._emit(pictures)
        if now - self._resources_at >= RESOURCES_SECONDS:
            self._resources_at = now
            self._emit(self._meter.measure())

    def _new_trial(self, model: str) -> Candidate:
        number, params = self._tuners[model].ask()
        return Candidate(model, number, params, self._n_folds)
