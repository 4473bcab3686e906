"""A conductor with simulated fits, for tests that decide when a fit ends and how."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np

from tabapp import files
from tabapp.engine.fit.jobs import Done, Failed, FitJob, FitResult, Message
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.conductor import Conductor
from tabapp.engine.plan.make_plan import Plan, approximate_shape
from tabapp.engine.schedule.tuning import open_storage
from tabapp.models.stated import Libraries
from tabapp.run.record import events as ev
from tabapp.run.record.folder import CommandReader, RunFolder

MODELS = ("lightgbm", "xgboost")


class SimulatedFits:
    """An executor whose fits end when the test says so, or `polls_a_fit` polls after their start; their predictions are
    close to the target.
    """

    waits_for_memory = False

    def __init__(self, folder: RunFolder, polls_a_fit: int | None = 1) -> None:
        self.folder, self.polls_a_fit = folder, polls_a_fit
        self.jobs: dict[str, FitJob] = {}
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.ready: set[Libraries] = {"boosters"}
        self.out_of_memory: set[str] = set()
        """Fits that end with this failure when they are next polled."""
        self.died: set[str] = set()
        """Fits whose process is found dead when they are next polled."""
        self._age: dict[str, int] = {}
        self.seconds = 0.01
        """What fits report."""

    def prepare(self, libraries: Libraries) -> None:
        self.ready.add(libraries)

    def is_ready(self, libraries: Libraries) -> bool:
        return libraries in self.ready

    def submit(self, job: FitJob) -> int:
        self.jobs[job.fit], self._age[job.fit] = job, 0
        self.submitted.append(job.fit)
        return 1

    def poll(self) -> list[Message]:
        messages: list[Message] = []
        for name, job in list(self.jobs.items()):
            self._age[name] += 1
            if name in self.out_of_memory:
                self.out_of_memory.remove(name)
                del self.jobs[name]
                messages.append(Failed(fit=name, reason="out of memory", out_of_memory=True))
            elif name in self.died:
                self.died.remove(name)
                del self.jobs[name]
                messages.append(Failed(fit=name, reason="its process was killed by SIGABRT", died=True))
            elif name in self.cancelled:
                del self.jobs[name]
                messages.append(Failed(fit=name, reason="stopped", stopped=True))
            elif self.polls_a_fit is not None and self._age[name] > self.polls_a_fit:
                del self.jobs[name]
                first, *others = map(self._finish, job.each())
                messages.append(Done(fit=name, result=first, others=tuple(others)))
        return messages

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.03))

    def _finish(self, job: FitJob) -> FitResult:
        data = RunData(self.folder)
        truth = data.held_out(job.fold).of(data.target)
        seeds = [job.trial, job.fold, job.model == "xgboost", *([job.seed] if job.seed else [])]
        generator = np.random.default_rng(seeds)
        noise = 0.3 if job.model == "lightgbm" else 0.4
        positive = np.clip(0.5 + 0.3 * (2 * truth - 1) + generator.normal(0, noise, len(truth)), 0.01, 0.99)
        prediction = np.column_stack([1 - positive, positive]).astype(np.float32)
        result = FitResult(
            fit=job.fit,
            model=job.model,
            trial=job.trial,
            fold=job.fold,
            score=float(np.mean((positive > 0.5) == truth)) if len(np.unique(truth)) > 1 else None,
            seconds=self.seconds,
            seed=job.seed,
            predict_seconds=0.001,
            n_rows=len(truth),
            recipe=job.recipe,
            summary={},
        )
        with files.new_folder(self.folder.fits / job.fit) as temporary:
            np.save(temporary / "oof.npy", prediction, allow_pickle=False)
            (temporary / "model").mkdir()
            files.write_bytes(temporary / "model" / "weights", b"x" * 1000)
            files.write_bytes(temporary / "metrics.json", msgspec.json.encode(result))
        return result

    def cancel(self, fit: str) -> None:
        self.cancelled.append(fit)

    def kill(self, fit: str) -> None:
        self.cancelled.append(fit)

    def running(self) -> list[str]:
        return list(self.jobs)

    def overhead(self) -> int:
        return 0

    def close(self) -> None:
        self.jobs.clear()


class Engine:
    """A conductor over a small table, step by step."""

    def __init__(
        self, folder: RunFolder, plan: Plan, clock: Clock, polls_a_fit: int | None, resumed: bool = False
    ) -> None:
        self.folder, self.clock = folder, clock
        self.events: list[ev.Event] = []
        self.executor = SimulatedFits(folder, polls_a_fit)
        data = RunData(folder)
        self.conductor = Conductor(
            folder,
            plan,
            data,
            approximate_shape(data.schema, 2),
            storage=open_storage(folder.study),
            known_trials={},
            executor=self.executor,
            commands=CommandReader(
                folder.commands,
                resumed=resumed,
                reject=lambda message: self.events.append(ev.Log(level="warning", message=message)),
            ),
            clock=clock,
            emit=self.events.append,
            interrupted=lambda: False,
        )

    def events_of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def row(self, model: str) -> ev.LeaderboardRow:
        return next(row for row in self.events_of(ev.LeaderboardChanged)[-1].rows if row.model == model)
