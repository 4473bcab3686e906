"""Runs with GPUs in simulated time: what starts when, on which device, with the costs and merits of the real models."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.engine.machine.admission import Admission, Need
from tabapp.engine.machine.devices import CPU, GPU, device_class
from tabapp.engine.machine.slots import Slots
from tabapp.engine.plan.make_plan import Plan, fit_device, planned_models, with_pending_models
from tabapp.engine.schedule.competition import Competition, record_of
from tabapp.engine.schedule.placement import Placement
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.work import Fold, Work
from tabapp.features.arrays import FeatureRecipe
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.models.stated import stated_libraries
from tabapp.run.options.config import RunConfig
from tabapp.task import Task
from tests.engine.schedule.test_timed import moment_of
from tests.engine.simulation import FOLDS, MODELS, ROWS, Library, Simulation

BUDGET = 120.0
LOADED = 4.0
"""Seconds after which the plugins of networks are loaded."""
TABLE, LARGE = Shape(50_000, 20, 5, 2), Shape(100_000, 44, 10, 7)
NAMES = tuple(name for name in MODELS if name != "node")
GB = 10**9


@dataclass
class Started:
    """A fit of a simulated run."""

    at: float
    until: float
    work: Work

    @property
    def model(self) -> str:
        return self.work.candidate.model


@dataclass
class Run:
    """A run in simulated time with the real placement and scheduler. A fit takes the estimated seconds of its model.

    Attributes:
        gpus: their names; none for a run on the CPU.
        cores: of the machine, two for each fit on them.
    """

    gpus: Sequence[str] = (GPU + ":0",)
    cores: int = 8
    shape: Shape = TABLE
    task: Task = "binary"
    folds: int = FOLDS
    gpu_bytes: int | None = 80 * GB
    seconds: float = BUDGET
    names: Sequence[str] = NAMES
    starts: list[Started] = field(default_factory=list[Started])
    idle: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def __post_init__(self) -> None:
        device = self.gpus[0] if self.gpus else CPU
        config = RunConfig(data="", models=tuple(self.names))
        models = planned_models(config, self.task, self.shape, device, 200 * GB, {}, staged=True)
        self.plan = Plan(
            target="y", task=self.task, n_classes=2, metric="rmse", validation="cv", validation_reason="", folds=self.folds,
            budget=self.seconds, trials=None, quality="balanced", device=device, workers=self.cores // 2, n_threads=2,
            memory_limit=200 * GB, seed=0, models=models, further_gpus=tuple(self.gpus[1:]),
        )  # fmt: skip
        self.plugins: dict[str, Plugin] = {}
        self.simulation = Simulation(Library(MODELS, 0))
        self.slots = Slots(self.plan.workers, self.plan.n_threads, self.plan.gpus, self.plan.gpu_slots)
        self.competition = self.simulation.competition = Competition(
            "rmse", self.folds, trials=None, new_trial=self._new_trial, loss=self.simulation.loss
        )
        self.scheduler = Scheduler(self.simulation.setup(self.slots.of))
        self.placement = Placement(
            self.plan,
            self.shape,
            self.scheduler,
            self.plugins,
            Admission(self.plan.memory_limit, dict.fromkeys(self.gpus, self.gpu_bytes)),
            self.slots,
            overhead=lambda: 0,
            refuse=self._refuse,
            stacks=False,
        )
        self._add([name for name in self.names if stated_libraries(name) != "torch"])
        self.competition.n_expected = len(self.names)
        self._simulate()

    def device_of(self, name: str) -> str:
        return fit_device(self.plugins[name], self.plan, self.shape)

    def cost(self, name: str) -> Any:
        plugin, device = self.plugins[name], self.device_of(name)
        return plugin.cost(self.task, self.shape, plugin.defaults(self.task, self.shape, device), device)

    def _add(self, names: Sequence[str]) -> None:
        for name in names:
            plugin = self.plugins[name] = registry.get(name)
            self.competition.add_model(record_of(plugin, self.task, self.shape, self.device_of(name), {}))

    def _new_trial(self, name: str) -> Candidate:
        device = self.device_of(name)
        params = msgspec.to_builtins(self.plugins[name].defaults(self.task, self.shape, device))
        return Candidate(name, len(self.competition.of_model(name)), params, self.folds, device=device)

    def _refuse(self, work: Work, reason: str) -> None:
        work.candidate.status = "failed"
        self.competition.models[work.candidate.model].failures += 1

    def _limit(self, device: str) -> float:
        return self.scheduler.cap_share(device) * self.seconds

    def _simulate(self) -> None:
        now, running = 0.0, list[tuple[float, int, Started, Need]]()
        loads = [LOADED]
        while True:
            busy: set[Fold] = {(*s.work.candidate.key, s.work.fold) for *_, s, _ in running}
            while not self.placement.is_full(needs := [need for *_, need in running]):
                work = self.placement.next_work(busy, needs, self.seconds - now, self._limit)
                if work is None:
                    break
                limit = self._limit(device_class(work.device))
                took = min(self.cost(work.candidate.model).seconds, limit, self.seconds - now)
                started = Started(now, now + took, work)
                self.starts.append(started)
                heapq.heappush(running, (started.until, len(self.starts), started, self.placement.need(work)))
                busy.add((*work.candidate.key, work.fold))
            devices = [need.device for *_, need in running]
            self.idle += [(now, gpu) for gpu in self.slots.free_gpus(devices)]
            if loads and (not running or running[0][0] > loads[0]):
                now = loads.pop()
                self.plan = with_pending_models(self.plan, self.shape)
                self._add([name for name in self.names if stated_libraries(name) == "torch"])
                continue
            if not running or now >= self.seconds:
                return
            now, _, started, _ = heapq.heappop(running)
            self._finish(started, now)

    def _finish(self, started: Started, now: float) -> None:
        candidate, fold = started.work.candidate, started.work.fold
        library = self.simulation.library
        candidate.results[fold] = FitResult(
            fit=candidate.fit_name(fold),
            model=candidate.model,
            trial=candidate.trial,
            fold=fold,
            score=library.loss(library.prediction(*candidate.key), library.fold.nonzero()[0]),
            seconds=now - started.at,
            predict_seconds=0.0,
            n_rows=ROWS // FOLDS,
            recipe=FeatureRecipe(),
            summary={},
        )
        self.competition.models[candidate.model].spent += now - started.at
        if candidate.is_complete:
            candidate.status = "complete"
            self.simulation.select(now)
        elif candidate.status == "active" and self.scheduler.is_behind(candidate):
            candidate.status = "pruned"

    def on_gpus(self) -> list[Started]:
        return [started for started in self.starts if started.work.gpu is not None]

    def at_once(self, device: str, at: float) -> int:
        """Fits on a class of devices at a time."""
        return sum(s.at <= at < s.until and device_class(s.work.device) == device for s in self.starts)

    def busy_share(self, since: float, until: float) -> float:
        """Share of the time of all slots of GPUs in which a fit runs."""
        busy = sum(max(0.0, min(s.until, until) - max(s.at, since)) for s in self.on_gpus())
        return busy / ((until - since) * self.slots.on_gpus)


@pytest.fixture(scope="module")
def run() -> Run:
    return Run()


def test_networks_start_as_soon_as_they_are_loaded_although_boosters_hold_all_workers(run: Run) -> None:
    assert run.on_gpus()[0].at == LOADED
    assert run.at_once(CPU, LOADED) == run.slots.of(CPU)
    # Not all boosters have a fold yet.
    waiting = {s.model for s in run.starts if s.model not in ("realmlp", "mlp") and s.at > LOADED}
    assert waiting & {"catboost", "lightgbm", "xgboost", "random_forest"}


def test_networks_with_a_high_merit_for_their_time_on_the_gpu_come_first(run: Run) -> None:
    first_folds = [s.model for s in run.on_gpus() if s.work.fold == 0 and s.work.candidate.trial == 0]
    records = run.competition.models
    networks = [r for r in records.values() if run.device_of(r.name) != CPU and (r.is_core or r.merit > 1)]
    by_cost = [r.name for r in sorted(networks, key=lambda record: record.cost) if r.name != "mlp"]
    # A short network precedes them: its measured time corrects the priors of the others.
    assert first_folds[:3] == ["mlp", *by_cost[:2]] == ["mlp", "realmlp", "tabm"]
    worthy = [name for name in first_folds if records[name].is_core or records[name].merit > 1]
    assert first_folds[: len(worthy)] == worthy


def test_slots_of_the_gpu_are_idle_only_before_networks_are_loaded_and_at_the_end(run: Run) -> None:
    assert run.busy_share(LOADED, 0.9 * BUDGET) > 0.98
    moment = moment_of(run.scheduler)
    expected = min(moment.expected(name) for name in run.plugins if run.device_of(name) != CPU)
    late = [at for at, _ in run.idle if at > LOADED]
    # Then, not even the folds of the shortest model would end in time.
    rounds = -(-FOLDS // run.slots.on_gpus)
    assert all(BUDGET - at < 1.1 * rounds * expected for at in late), late


def test_boosters_use_the_other_cores_all_the_time(run: Run) -> None:
    times = [LOADED + i for i in range(int(0.9 * BUDGET - LOADED))]
    counts = Counter(run.at_once(CPU, at) for at in times)
    assert counts[run.slots.of(CPU)] > 0.95 * len(times)
    assert max(counts) <= run.plan.workers
    assert all(run.at_once(GPU, at) <= run.slots.on_gpus for at in times)


def test_a_gpu_completes_networks_and_more_trials_of_them_than_the_cores_do(run: Run) -> None:
    def complete(run: Run) -> Counter[bool]:
        networks = [c for c in run.competition.candidates.values() if run.plugins[c.model].uses_device]
        return Counter(bool(c.trial) for c in networks if c.is_complete)

    with_gpu, without = complete(run), complete(Run(gpus=()))
    assert with_gpu[False] >= without[False] + 2
    assert sum(with_gpu.values()) > sum(without.values())


def test_boosters_leave_the_gpu_of_a_large_table_to_networks() -> None:
    run = Run(shape=LARGE, task="multiclass", names=("xgboost", "catboost", "mlp", "tabm"), seconds=600.0)
    assert run.on_gpus()[0].at == LOADED
    assert {started.model for started in run.on_gpus()} == {"mlp", "tabm"}
    assert {started.model for started in run.starts if started.at == 0.0} <= {"xgboost", "catboost"}
    assert run.starts[0].at == 0.0


def test_networks_of_high_merit_have_the_gpu_first_where_the_time_is_short() -> None:
    """The rows and columns of covertype, with a holdout."""
    run = Run(shape=Shape(377_050, 10, 2, 7), task="multiclass", folds=1)
    first, second, *others = run.on_gpus()
    assert (first.model, first.at) == ("realmlp", LOADED)
    assert (second.model, second.at) == ("tabm", first.until)
    assert second.until < 0.6 * BUDGET
    assert "mlp" in {started.model for started in others}
    assert run.busy_share(LOADED, 0.9 * BUDGET) > 0.95


def test_boosters_use_the_gpu_of_a_large_table_without_networks() -> None:
    run = Run(shape=LARGE, task="multiclass", names=("lightgbm", "xgboost", "catboost", "linear"))
    assert {started.model for started in run.on_gpus()} == {"xgboost", "catboost"}
    assert run.on_gpus()[0].at == 0.0


def test_a_short_network_comes_first_where_there_is_one() -> None:
    run = Run(shape=Shape(16_000, 10, 4, 2), seconds=60.0)
    networks = [
        r for r in run.competition.models.values() if run.device_of(r.name) != CPU and (r.is_core or r.merit > 1)
    ]
    first, second = run.on_gpus()[:2]
    assert first.model == min(networks, key=lambda record: record.prior_seconds).name
    assert first.at == LOADED
    assert second.at == first.until < 8.0
    others = [record for record in networks if record.name != first.model]
    assert second.model == min(others, key=lambda record: record.cost).name


def test_without_work_for_the_gpu_all_cores_run_boosters() -> None:
    run = Run(names=("lightgbm", "xgboost", "catboost", "linear"))
    assert run.at_once(CPU, 30.0) == run.plan.workers
    assert not run.on_gpus()


def test_a_network_that_no_gpu_has_memory_for_is_refused_and_others_run() -> None:
    run = Run(gpu_bytes=2 * GB)
    assert run.competition.candidates["tabm", 0].status == "failed"
    assert run.at_once(GPU, 60.0) >= 1


def test_several_gpus_share_the_fits_and_complete_more() -> None:
    gpus = tuple(f"{GPU}:{i}" for i in range(4))
    one, four = Run(cores=32), Run(gpus=gpus, cores=32)
    used = Counter(started.work.device for started in four.on_gpus())
    assert set(used) == set(gpus)
    assert max(used.values()) <= 2 * min(used.values())
    for at in range(5, 100):
        taken = Counter(s.work.device for s in four.on_gpus() if s.at <= at < s.until)
        assert max(taken.values()) <= four.slots.per_gpu
    n_complete = [
        sum(c.is_complete and c.device != CPU for c in run.competition.candidates.values()) for run in (one, four)
    ]
    assert n_complete[1] > 2 * n_complete[0]


def test_a_large_fit_goes_to_the_gpu_that_has_memory_for_it() -> None:
    run = Run(gpus=(f"{GPU}:0", f"{GPU}:1"), cores=16)
    admission = Admission(200 * GB, {f"{GPU}:0": GB, f"{GPU}:1": 80 * GB})
    placement = Placement(
        run.plan,
        run.shape,
        run.scheduler,
        run.plugins,
        admission,
        run.slots,
        overhead=lambda: 0,
        refuse=lambda work, reason: pytest.fail(reason),
        stacks=False,
    )
    large = Work(run._new_trial("tabm"), 0)
    placed, decision = placement._admitted(large, [])
    assert (placed.device, decision.when) == (f"{GPU}:1", "now")
    waiting = [Need("x", f"{GPU}:1", 79 * GB)]
    assert placement._admitted(large, waiting)[1].when == "later"
