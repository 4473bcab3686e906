"""The main loop of a run: starts fits, handles their messages and the user's commands, and emits events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from optuna.storages import RDBStorage

from tabapp.engine.fit.candidates import Candidate, Scorer, saved_results
from tabapp.engine.fit.executors import Executor
from tabapp.engine.fit.jobs import Done, Failed, FitResult, Message, Progress, Started
from tabapp.engine.fit.library_loading import libraries_of
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.servers import FEW_CORES
from tabapp.engine.loop.board import STOPPED, Board
from tabapp.engine.loop.clock import Clock, export_seconds
from tabapp.engine.loop.evaluations import Evaluations
from tabapp.engine.loop.fit_orders import Orders, names_of
from tabapp.engine.loop.further_seeds import SEEDS_SHARE, FurtherSeeds
from tabapp.engine.loop.live_events import Display
from tabapp.engine.loop.model_loading import load_models, planned_record
from tabapp.engine.loop.steering import Steering
from tabapp.engine.loop.trials import Emit, Trials
from tabapp.engine.loop.unused_models import UnusedModels
from tabapp.engine.machine.admission import Admission
from tabapp.engine.machine.devices import CPU, device_class, gpu_memory
from tabapp.engine.machine.gpus import gpu_memories
from tabapp.engine.machine.slots import Slots
from tabapp.engine.plan.make_plan import Plan, with_pending_models, write_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.schedule.moment import Setup
from tabapp.engine.schedule.placement import Placement
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.tuning import KnownTrial
from tabapp.engine.schedule.work import Work
from tabapp.features.prepare import uses_sklearn
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.models.stated import Libraries
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.folder import CommandReader, RunFolder
from tabapp.run.record.undefined import defined

TICK_SECONDS, MOST_TICK_SECONDS = 0.03, 0.1
"""Time between two looks at what has changed: the second, or until a fit sends a message, while all workers are busy."""
ASK_AGAIN_SECONDS = 0.25
"""Pause until the scheduler is asked again if it had no fit for a free worker, and nothing but the time has changed."""
LONG_FIT_SECONDS = 3.0
"""After this time in a first fit, the other models load beside it: on 16,000 rows of 26 classes, first fits take 17 s."""
MOST_LOST = 10
"""Fits of a candidate that are repeated after their nodes were lost."""


class Conductor:
    """Runs the fits of a plan until the budget, the maximum of trials or the user ends it."""

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
        known_trials: Mapping[str, Mapping[int, KnownTrial]],
    ) -> None:
        self._folder, self._plan, self._data, self._shape = folder, plan, data, shape
        self._executor, self._commands, self._clock, self._emit = executor, commands, clock, emit
        self._interrupted = interrupted
        self._plugins: dict[str, Plugin] = {}
        self._libraries: dict[str, Libraries] = {}
        self.scorer = Scorer(folder, data, plan.metric, plan.seed)
        # Several machines have GPUs for all fits at once.
        pooled = executor.waits_for_memory
        self._trials = Trials(
            folder,
            plan,
            shape,
            data.n_folds,
            storage=storage,
            scorer=self.scorer,
            known=known_trials,
            emit=emit,
            stacks=not pooled,
        )
        self.competition = self._trials.competition()
        self.board = Board(plan, self.competition, self.scorer)
        self._unused_models = UnusedModels(folder, self.board)
        self._slots = Slots(plan.workers, plan.n_threads, plan.gpus, plan.gpu_slots)
        self.scheduler = Scheduler(
            Setup(
                competition=self.competition,
                workers=self._slots.of,
                tune=plan.quality != "fast",
                race=plan.quality != "best",
                gain=self.board.gain,
                weights=self.board.weights,
                clearly_behind=self.scorer.clearly_behind,
                is_timed=clock.budget is not None,
            )
        )
        self.evaluations = Evaluations(folder, data, self.board)
        preview = partial(self.scheduler.preview, lambda: self._orders.busy(), clock.fitting_left, self._fit_limit)
        self._display = Display(self.board, self.evaluations, clock, gpus=plan.gpus, preview=preview, emit=emit)
        self._steering = Steering(
            folder,
            self.competition,
            self.board,
            clock,
            end_fits=self._end_fits_of,
            plan_changed=self._change_plan,
            emit=emit,
        )
        gpu_bytes = {} if pooled else gpu_memories(plan.gpus, gpu_memory)
        self._admission = Admission(plan.memory_limit, gpu_bytes, is_pooled=pooled)
        self._placement = Placement(
            plan,
            shape,
            self.scheduler,
            self._plugins,
            self._admission,
            self._slots,
            overhead=executor.overhead,
            refuse=self._refuse,
            stacks=not pooled,
        )
        self._orders = Orders(
            folder, plan, executor, self._placement, self._slots, self._plugins, self._libraries_of, emit
        )
        self._running = self._orders.running
        self._ask_again_at, self._asked_selections = 0.0, 0
        self.ended_by: str = ""
        """The command that ended fitting early: finish, abort or interrupt (also for a signal); empty otherwise."""
        at_once, self._loader = load_models(plan, shape, folder, executor, self._libraries_of)
        self._add_models(at_once)
        self.competition.n_expected = len(plan.competing)

    def _add_models(self, names: Sequence[str]) -> None:
        """Let models compete, with the trials of an earlier session and what the user has asked of them."""
        for name in names:
            plugin = self._plugins[name] = registry.get(name)
            self.competition.add_model(planned_record(plugin, self._plan, self._shape))
            self._executor.prepare(self._libraries_of(plugin))
            self._trials.add_model(plugin, self.competition, self.board)
        self._steering.recall(names)
        self._display.is_stale = True
        self._ask_again_at = 0.0

    def _add_later_models(self) -> None:
        """Let the models compete that were loaded in the background, once their fits can start."""
        ready = self._loader.take_ready()
        self._display.is_loading = not self._loader.is_done
        if not ready:
            return
        if any(model.pending and model.name in ready for model in self._plan.models):
            self._change_plan(with_pending_models(self._plan, self._shape))
        competing = {model.name for model in self._plan.competing}
        self._add_models([name for name in ready if name in competing])
        if self._loader.is_done:
            self.competition.n_expected = len(self.competition.models)

    def _libraries_of(self, plugin: Plugin) -> Libraries:
        if plugin.name not in self._libraries:
            use_sklearn = uses_sklearn(plugin.features(), self._data.schema)
            self._libraries[plugin.name] = libraries_of(plugin, features_use_sklearn=use_sklearn)
        return self._libraries[plugin.name]

    def _change_plan(self, plan: Plan) -> None:
        """Keep a changed plan, and show it."""
        self._plan = self.board.plan = write_plan(self._folder.plan, plan)
        self._emit(plan_event(plan, self._data.schema, self._folder.config()))

    def run(self) -> None:
        """Run fits until none is left to start; no fit is running when it returns."""
        self._emit(ev.StageChanged(stage="fitting", deadline=self._clock.wall_deadline()))
        self._clock.reserve_seeds(SEEDS_SHARE if self._plan.seeds > 1 else 0.0)
        if self._plan.device != CPU and self._plan.workers * self._plan.n_threads > FEW_CORES:
            # The GPU has nothing to do until networks are loaded.
            self._loader.start()
        try:
            while True:
                is_over = self._handle_commands()
                for message in self._executor.poll():
                    self._handle(message)
                self._add_later_models()
                self._show()
                if is_over or self._display.is_over or self._is_late():
                    break
                if not self._clock.paused and not self._start_fits() and self._has_nothing_to_do():
                    break
                is_full = self._placement.is_full(self._orders.needs())
                self._executor.wait(MOST_TICK_SECONDS if is_full else TICK_SECONDS)
            self._end_running_fits()
            self._show(force=True)
            self._fit_further_seeds()
            if self.ended_by or self._display.is_over:
                self._clock.end_fitting()
            self._executor.close()
        finally:
            self._loader.cancel()
            self._display.close()

    def _has_nothing_to_do(self) -> bool:
        if self._running or not self._loader.is_done or not self._is_ready():
            return False
        return not self.scheduler.waits_for_user(self._clock.fitting_left())

    def _is_ready(self) -> bool:
        """Whether a fit of any model that competes starts without delay."""
        return all(self._executor.is_ready(self._libraries_of(plugin)) for plugin in self._plugins.values())

    def _start_fits(self) -> bool:
        """Give every free slot a fit; returns whether any was started."""
        if not self._is_ready() or self._placement.is_full(self._orders.needs()):
            return False
        if time.monotonic() < self._ask_again_at and self._asked_selections == self.board.n_selections:
            return False
        started = False
        while not self._placement.is_full(needs := self._orders.needs()):
            work = self._placement.next_work(self._orders.busy(), needs, self._clock.fitting_left(), self._fit_limit)
            if work is None:
                # Cores are free for what loads in the background, or a GPU waits for it.
                self._loader.start()
                self._display.is_idle = True
                self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
                self._asked_selections = self.board.n_selections
                return started
            self._start(work)
            started = True
        self._display.is_idle = False
        return started

    def _fit_limit(self, device: str) -> float:
        """Seconds that one fit on a class of devices may take; infinite without a time limit."""
        return math.inf if self._clock.budget is None else self.scheduler.cap_share(device) * self._clock.budget

    def _refuse(self, work: Work, reason: str) -> None:
        """End a candidate whose fits cannot fit in memory."""
        candidate = work.candidate
        self.competition.models[candidate.model].failures += 1
        self._trials.fail(candidate, reason)
        self._emit(ev.FitFailed(**names_of(candidate, work.fold), reason=reason))
        self._display.is_stale = True

    def _start(self, work: Work) -> None:
        candidate = work.candidate
        deadlines = None
        if self._clock.fitting_end is not None:
            cap = self._fit_limit(device_class(work.device)) * max(1.0, self.competition.models[candidate.model].share)
            # The fit still has to predict and save between its deadline and the end of fitting.
            now, left = time.monotonic(), 0.9 * self._clock.fitting_left()
            each = self.scheduler.seconds_for(candidate, self._orders.busy(), left, cap)
            deadlines = now + min(left, len(work.fits) * each), now + left
        seconds = round(len(work.fits) * self.scheduler.expected_seconds(candidate), 2)
        self._orders.submit(work, deadlines, seconds)
        self._display.is_stale = True

    def _handle(self, message: Message) -> None:
        part = self._orders.part_of(message.fit)
        if part is None:
            return
        running, candidate, fold = part
        seconds = time.monotonic() - running.seconds_started
        if isinstance(message, Done | Failed) or seconds > LONG_FIT_SECONDS:
            # Not before the first fit has ended, unless it is long: on two cores, loading would delay the first score.
            self._loader.start()
        if isinstance(message, Done | Failed):
            self._ask_again_at = 0.0
            del self._running[message.fit]
            self.competition.models[candidate.model].spent += seconds
            self._display.is_stale = True
        common = names_of(candidate, fold)
        match message:
            case Started():
                # Time that a fit waits for a node is not that of its model.
                running.seconds_started = time.monotonic()
                common |= {"folds": candidate.n_folds, "device": running.work.device}
                self._emit(ev.FitStarted(**common, pid=message.pid, node=message.node))
            case Progress():
                if running.pruned:
                    return
                self._emit(ev.FitProgress(**common, step=message.step, value=message.value))
                is_behind = fold == 0 and self._trials.should_prune(candidate, message.step, message.value)
                # Without it, the others of a group would take as long.
                if is_behind and not running.work.others:
                    running.pruned = True
                    self._executor.cancel(message.fit)
                    reason = f"worse than the median of earlier trials at step {message.step}"
                    self._trials.prune(candidate, reason, defined(message.value))
                    self._display.is_stale = True
            case Done():
                if running.pruned:
                    return
                results = message.result, *message.others
                self._admission.record(running.need, sum(result.n_bytes for result in results))
                overhead = seconds - sum(result.used_seconds for result in results)
                self.scheduler.record_times(overhead, message.result.slowdown, device_class(running.need.device))
                self._keep(results)
                for each in running.work.candidates:
                    self._after_fold(each)
                    self._settle(each)
            case Failed():
                if running.work.others and not running.pruned:
                    # It may have saved some of its fits before it failed.
                    for each, its in running.work.fits:
                        self._keep(saved_results(self._folder, each, [its]))
                if not message.stopped:
                    self._after_failure(running.work, message)
                for each in running.work.candidates:
                    self._settle(each)

    def _keep(self, results: Sequence[FitResult]) -> None:
        """Count complete fits."""
        for result in results:
            candidate = self.competition.candidates[result.model, result.trial]
            candidate.results[result.fold] = result
            names = names_of(candidate, result.fold)
            self._emit(ev.FitFinished(**names, score=result.score, seconds=round(result.seconds, 3)))

    def _after_fold(self, candidate: Candidate) -> None:
        if candidate.is_complete:
            self._trials.complete(candidate)
            self.board.mark_stale()
            return
        behind = self.scheduler.is_behind(candidate)
        if behind:
            self._trials.prune(candidate, behind, defined(self.scorer.value(candidate)))
            for name, running in self._running.items():
                if running.work.candidate is candidate:
                    running.pruned = True
                    self._executor.cancel(name)

    def _after_failure(self, work: Work, failure: Failed) -> None:
        """Retry a fit once if its process was killed or had too little memory beside others, since the cause may be gone; an
        exception of the model would come again. The fits of a group are repeated one by one."""
        for candidate, fold in work.fits:
            if fold not in candidate.results:
                names = names_of(candidate, fold)
                self._emit(ev.FitFailed(**names, reason=failure.reason, detail=failure.detail))
        if failure.out_of_memory:
            self._admission.record_out_of_memory(self._placement.need(work))
        if work.others:
            for candidate in work.candidates:
                candidate.fits_alone = True
                self._after_fold(candidate)
            return
        candidate = work.candidate
        lacked_memory = failure.out_of_memory and bool(self._running)
        if failure.lost and candidate.n_lost < MOST_LOST:
            candidate.n_lost += 1
            return
        if (failure.died or lacked_memory) and not candidate.retried:
            candidate.retried = True
            if failure.died and not self._plugins[candidate.model].uses_device:
                # An error of the GPU ends CatBoost's process. A CPU grows trees with the same hyperparameters.
                candidate.device = CPU
            return
        self.competition.models[candidate.model].failures += 1
        for name, running in self._running.items():
            if running.work.candidate is candidate:
                self._executor.cancel(name)
        if candidate.status == "active":
            self._trials.fail(candidate, failure.reason)

    def _handle_commands(self) -> bool:
        """Do what the user asks for; returns whether that ends the run."""
        if self._interrupted():
            self.ended_by = self.ended_by or "interrupt"
        for command in self._commands.read_new():
            self._ask_again_at = 0.0
            match command:
                case cmd.Pause():
                    self._clock.pause()
                    self._emit(ev.StageChanged(stage="fitting", paused=True, deadline=None))
                case cmd.Resume() if self._clock.paused:
                    self._clock.resume()
                    self._emit(ev.StageChanged(stage="fitting", deadline=self._clock.wall_deadline()))
                case cmd.Finish():
                    self.ended_by = "finish"
                case cmd.Interrupt():
                    self.ended_by = "interrupt"
                case cmd.Abort():
                    self.ended_by = "abort"
                case _:
                    self._display.is_stale = self._steering.apply(command) or self._display.is_stale
        return self.ended_by != ""

    def _end_fits_of(self, name: str) -> None:
        for fit, running in self._running.items():
            if running.work.candidate.model == name:
                self._executor.cancel(fit)
        for candidate in self.competition.of_model(name):
            self._settle(candidate)

    def _settle(self, candidate: Candidate) -> None:
        """End the open trial of a stopped model once its last fit has ended."""
        is_running = any(each is candidate for running in self._running.values() for each in running.work.candidates)
        if self.competition.models[candidate.model].stopped and candidate.status == "active" and not is_running:
            score = defined(self.scorer.value(candidate)) if candidate.results else None
            self._trials.prune(candidate, STOPPED, score)

    def _end_running_fits(self) -> None:
        """Wait briefly for fits that have reached their soft deadline, then kill the rest."""
        began = time.monotonic()
        saving, first = (0.0, 0.0) if self.ended_by or self._display.is_over else self._clock.grace_seconds()
        while self._running and time.monotonic() - began < (saving if self.competition.has_score else first):
            for message in self._executor.poll():
                self._handle(message)
            time.sleep(TICK_SECONDS)
        self._running.clear()

    def _is_late(self) -> bool:
        """Whether fitting must end. Without a score, it also gets the time that was kept for further seeds."""
        return self._clock.fitting_left() <= 0 and (self.competition.has_score or not self._clock.release_seeds())

    def _fit_further_seeds(self) -> None:
        """Fit further seeds of the models of the final ensemble, which may then only have these models."""
        self._clock.release_seeds()
        selected = self.board.select_now() if self._plan.seeds > 1 and not self.ended_by else None
        if selected is not None:
            FurtherSeeds(self._folder, self._orders, self._clock, self._handle_commands).fit(selected.members)
            self.board.only = {candidate.key for candidate, _ in selected.members}

    def _show(self, *, force: bool = False) -> None:
        new = self._display.update([running.work for running in self._running.values()], force=force)
        if new is not None:
            self._clock.reserve_export(export_seconds(self._folder.fits, new.members))
        self._unused_models.remove(at_once=force)
