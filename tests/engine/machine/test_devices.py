"""A run with a GPU, which these tests pretend to have: where fits run, with which hyperparameters, and beside which others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tabapp.engine.fit.executors import LocalExecutor
from tabapp.engine.fit.servers import SERVERS
from tabapp.engine.fit.spares import Spares
from tabapp.engine.loop import conductor as conductor_module
from tabapp.engine.loop.clock import Clock
from tabapp.engine.machine import gpus
from tabapp.engine.machine.resources import ResourceMeter
from tabapp.engine.plan import device as device_module
from tabapp.engine.plan import make_plan as plan_module
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.errors import UsageError
from tabapp.models import registry
from tabapp.models.contract import Cost, Shape
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.conducting import Engine
from tests.tables import write_breast_cancer
from tests.waiting import wait_until

GPU = "cuda:0"
GB = 10**9


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_breast_cancer(tmp_path_factory.mktemp("devices") / "cancer.csv")


@pytest.fixture
def plan_with(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[RunFolder, Plan]]:
    def make(models: tuple[str, ...], device: str = GPU, trials: int = 1, **changes: object) -> tuple[RunFolder, Plan]:
        config = RunConfig(data=str(table), target="diagnosis", models=models, folds=3, trials=trials, device="cpu")
        folder = create_run(config, tmp_path / "runs")
        reading = read_data(config)
        schema = infer(reading, config)
        monkeypatch.setattr(device_module, "choose_device", lambda wanted: device)
        plan = msgspec.structs.replace(make_plan(config, schema), **changes)
        write_rows(folder, config, reading, schema, plan)
        return folder, plan

    return make


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the estimated memory of every model."""

    def choose(n_bytes: int) -> None:
        for name in ("mlp", "resnet", "lightgbm", "xgboost"):
            monkeypatch.setattr(type(registry.get(name)), "cost", lambda *_: Cost(1.0, n_bytes))

    return choose


def engine_on(folder: RunFolder, plan: Plan, polls_a_fit: int | None = 1) -> Engine:
    return Engine(folder, plan, Clock(None, 0), polls_a_fit)


def started_together(engine: Engine) -> dict[str, str]:
    """The device of each fit that starts before any has ended."""
    engine.executor.ready |= {"torch"}
    engine.conductor._loader.start()

    def all_have_joined() -> bool:
        engine.conductor._add_later_models()
        return engine.conductor._loader.is_done

    wait_until(all_have_joined)
    engine.conductor._start_fits()
    return {job.fit: job.device for job in engine.executor.jobs.values()}


def test_all_fits_of_deep_models_run_on_the_gpu_with_its_hyperparameters(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("mlp", "ft_transformer", "lightgbm"), trials=2, workers=4)
    engine = engine_on(folder, plan)
    jobs = {}
    submit = engine.executor.submit
    monkeypatch.setattr(engine.executor, "submit", lambda job: (jobs.__setitem__(job.fit, job), submit(job))[1])
    engine.conductor.run()
    assert {job.model for job in jobs.values() if job.device == GPU} == {"mlp", "ft_transformer"}
    assert {job.model for job in jobs.values() if job.device == "cpu"} == {"lightgbm"}
    assert len([job for job in jobs.values() if job.device == GPU]) >= 8
    plugin = registry.get("ft_transformer")
    shape = engine.conductor._shape
    on_gpu, on_cpu = (msgspec.to_builtins(plugin.defaults("binary", shape, device)) for device in (GPU, "cpu"))
    assert jobs["ft_transformer-0000-f0"].params == on_gpu != on_cpu


def test_boosters_on_the_gpu_leave_the_cores_to_others(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    monkeypatch.setattr(type(registry.get("xgboost")), "gpu_cells", 1)
    folder, plan = plan_with(("xgboost", "catboost", "lightgbm"), workers=2)
    started = started_together(engine_on(folder, plan, None))
    assert started == {"lightgbm-0000-f0": "cpu", "xgboost-0000-f0": GPU}


def test_boosters_run_on_the_cores_beside_networks_with_the_hyperparameters_of_a_cpu(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    monkeypatch.setattr(type(registry.get("catboost")), "gpu_cells", 1)
    folder, plan = plan_with(("catboost", "mlp"), workers=4)
    engine = engine_on(folder, plan, None)
    assert started_together(engine) == {"catboost-0000-f0": "cpu", "mlp-0000-f0": GPU}
    assert engine.conductor.competition.models["catboost"].device == "cpu"
    plugin, shape = registry.get("catboost"), engine.conductor._shape
    drawn = engine.conductor._trials.new("catboost")
    assert drawn.device == "cpu"
    expected = [msgspec.to_builtins(params) for params in plugin.portfolio("binary", shape, "cpu")]
    assert drawn.params in expected


def test_a_booster_begun_on_a_gpu_starts_again_when_the_run_continues_without_it(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    monkeypatch.setattr(type(registry.get("catboost")), "gpu_cells", 1)
    folder, plan = plan_with(("catboost",), workers=1)
    (device,) = started_together(engine_on(folder, plan, None)).values()
    assert device == GPU
    engine = engine_on(folder, msgspec.structs.replace(plan, device="cpu"))
    engine.conductor.run()
    assert engine.row("catboost").folds == 3
    assert ("catboost", 0) not in engine.conductor.competition.candidates
    assert engine.conductor.competition.candidates["catboost", 1].device == "cpu"


@pytest.mark.parametrize(("model", "retried_on"), [("catboost", "cpu"), ("mlp", GPU)])
def test_trees_whose_process_died_on_the_gpu_are_grown_on_the_cpu(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch, model: str, retried_on: str
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    monkeypatch.setattr(type(registry.get("catboost")), "gpu_cells", 1)
    folder, plan = plan_with((model,), workers=1)
    engine = engine_on(folder, plan, 3)
    fit = f"{model}-0000-f0"
    assert started_together(engine) == {fit: GPU}
    engine.executor.died.add(fit)
    engine.conductor.run()
    assert engine.executor.submitted.count(fit) == 2
    assert engine.row(model).folds == 3
    assert engine.conductor.competition.candidates[model, 0].device == retried_on


def test_a_plugin_that_cannot_say_its_device_is_skipped(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise KeyError("gpu")

    monkeypatch.setattr(type(registry.get("xgboost")), "device_for", broken)
    monkeypatch.setattr(device_module, "choose_device", lambda wanted: GPU)
    config = RunConfig(data=str(table), target="diagnosis", models=("lightgbm", "xgboost"))
    reading = read_data(config)
    plan = make_plan(config, infer(reading, config))
    assert {model.name: model.reason for model in plan.models} == {
        "lightgbm": None,
        "xgboost": "its plugin raised KeyError: 'gpu'",
    }


def test_a_gpu_takes_one_fit_and_boosters_use_the_cores(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("mlp", "resnet", "lightgbm", "xgboost"), workers=6)
    devices = list(started_together(engine_on(folder, plan, None)).values())
    assert devices.count(GPU) == 1
    assert devices.count("cpu") == 2


def test_a_worker_is_kept_for_the_gpu(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("lightgbm", "xgboost", "mlp"), workers=2)
    assert sorted(started_together(engine_on(folder, plan, None)).values()) == ["cpu", GPU]


def test_fits_wait_for_memory_and_all_of_them_end(
    plan_with: Callable[..., tuple[RunFolder, Plan]], estimates: Callable[[int], None]
) -> None:
    estimates(2 * GB)
    folder, plan = plan_with(("lightgbm", "xgboost"), device="cpu", workers=4, memory_limit=3 * GB)
    engine = engine_on(folder, plan, None)
    assert len(started_together(engine)) == 1
    engine.executor.polls_a_fit = 0
    engine.conductor.run()
    assert engine.row("lightgbm").folds == engine.row("xgboost").folds == 3
    assert not engine.events_of(ev.FitFailed)


def test_a_model_that_needs_more_than_the_limit_is_skipped_with_the_reason(
    plan_with: Callable[..., tuple[RunFolder, Plan]], estimates: Callable[[int], None]
) -> None:
    folder, plan = plan_with(("lightgbm", "xgboost"), device="cpu", workers=2, memory_limit=3 * GB)
    engine = engine_on(folder, plan)
    estimates(5 * GB)
    engine.conductor.run()
    failures = engine.events_of(ev.FitFailed)
    assert {failure.model for failure in failures} == {"lightgbm", "xgboost"}
    assert all("(--memory-limit)" in failure.reason for failure in failures)
    assert not engine.executor.submitted


def test_a_fit_that_ran_out_of_memory_beside_others_is_repeated_alone(
    plan_with: Callable[..., tuple[RunFolder, Plan]], estimates: Callable[[int], None]
) -> None:
    estimates(GB)
    folder, plan = plan_with(("lightgbm", "xgboost"), device="cpu", workers=2, memory_limit=3 * GB)
    engine = engine_on(folder, plan, 3)
    started_together(engine)
    engine.executor.out_of_memory.add("lightgbm-0000-f0")
    engine.conductor.run()
    assert engine.row("lightgbm").folds == 3
    assert engine.executor.submitted.count("lightgbm-0000-f0") == 2
    assert [failure.reason for failure in engine.events_of(ev.FitFailed)] == ["out of memory"]


def test_trials_of_a_gpu_end_when_the_run_continues_without_it(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("mlp",), workers=1)
    started_together(engine_on(folder, plan, None))
    engine = engine_on(folder, msgspec.structs.replace(plan, device="cpu"))
    engine.executor.ready |= {"torch"}
    engine.conductor.run()
    begun = {(event.trial, event.fold) for event in engine.events_of(ev.FitStarted)}
    assert begun == {(1, 0), (1, 1), (1, 2)}
    assert ("mlp", 0) not in engine.conductor.competition.candidates
    defaults = registry.get("mlp").defaults("binary", engine.conductor._shape, "cpu")
    assert engine.conductor.competition.candidates["mlp", 1].params == msgspec.to_builtins(defaults)


def test_the_plan_skips_a_model_that_cannot_fit_in_memory(table: Path, estimates: Callable[[int], None]) -> None:
    estimates(5 * GB)
    config = RunConfig(data=str(table), target="diagnosis", models=("lightgbm", "linear"), memory_limit=3 * 2**30)
    reading = read_data(config)
    plan = make_plan(config, infer(reading, config))
    skipped = {model.name: model.reason for model in plan.models}
    assert skipped["linear"] is None
    assert skipped["lightgbm"] == "It needs about 4.7 GiB of memory; 3.0 GiB are allowed (--memory-limit)."


Outcomes = dict[tuple[str, int], tuple[str, dict[str, object], float | None]]


def outcomes(folder: RunFolder, plan: Plan) -> Outcomes:
    """How each trial of a run that ends by itself has ended, its hyperparameters and its score."""
    engine = engine_on(folder, plan)
    engine.executor.ready |= {"torch"}
    engine.conductor.run()
    ended = (*engine.events_of(ev.TrialFinished), *engine.events_of(ev.TrialPruned))
    return {(event.model, event.trial): (type(event).__name__, event.params, event.score) for event in ended}


@pytest.mark.slow
@pytest.mark.parametrize(("n_gpus", "workers"), [(1, 4), (3, 1), (4, 6)])
def test_results_of_bounded_trials_do_not_depend_on_the_number_of_gpus(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch, n_gpus: int, workers: int
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)

    def run(n_gpus: int, workers: int) -> Outcomes:
        further = tuple(f"cuda:{i}" for i in range(1, n_gpus))
        return outcomes(*plan_with(("mlp", "snn", "lightgbm"), trials=3, workers=workers, further_gpus=further))

    alone = run(1, 1)
    assert len(alone) == 9
    assert run(n_gpus, workers) == alone


def test_fits_are_spread_over_all_gpus_and_their_events_name_the_device(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("mlp", "resnet", "snn", "lightgbm"), workers=4, further_gpus=("cuda:1",))
    engine = engine_on(folder, plan, None)
    devices = started_together(engine)
    assert sorted(devices.values()) == ["cpu", "cuda:0", "cuda:1"]
    assert {event.fit: event.device for event in engine.events_of(ev.FitStarted)} == devices


def test_trials_continue_on_fewer_gpus(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("mlp", "resnet"), workers=2, further_gpus=("cuda:1", "cuda:2"))
    assert "cuda:1" in started_together(engine_on(folder, plan, None)).values()
    engine = engine_on(folder, msgspec.structs.replace(plan, further_gpus=()))
    engine.executor.ready |= {"torch"}
    engine.conductor.run()
    finished = {(event.model, event.trial, event.fold) for event in engine.events_of(ev.FitFinished)}
    assert finished == {(model, 0, fold) for model in ("mlp", "resnet") for fold in range(3)}
    assert {event.device for event in engine.events_of(ev.FitStarted)} == {GPU}


def test_cuda_is_all_visible_gpus_and_a_number_is_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "n_gpus", lambda: 3)
    assert gpus.further_gpus("cuda", GPU) == gpus.further_gpus("auto", GPU) == ("cuda:1", "cuda:2")
    assert gpus.further_gpus("cuda:2", "cuda:2") == ()
    assert gpus.further_gpus("auto", "cpu") == ()
    asked: list[str] = []
    memories = gpus.gpu_memories((GPU, "cuda:1"), lambda gpu: asked.append(gpu) or (None if gpu == GPU else GB))
    assert memories == {GPU: None, "cuda:1": GB}
    assert sorted(asked) == [GPU, "cuda:1"]


@pytest.mark.parametrize(
    ("planned", "n_gpus", "expected"),
    [("cuda:0", 4, "cuda:0"), ("cuda:2", 1, "cuda:0"), ("cuda:0", 0, "cpu"), ("cpu", 2, "cpu")],
)
def test_a_plan_continues_on_another_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, planned: str, n_gpus: int, expected: str
) -> None:
    def existing(name: str) -> str:
        number = int(name.partition(":")[2] or 0)
        if number >= n_gpus:
            raise UsageError("no")
        return f"cuda:{number}"

    monkeypatch.setattr(device_module, "existing_gpu", existing)
    assert device_module.usable_device(planned) == expected


def test_the_use_of_several_gpus_is_their_mean_and_the_sum_of_their_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --id=5,7 ] && printf "40, 1000, 2000\\n80, 3000, 4000\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    meter = ResourceMeter((GPU, "cuda:1"))
    wait_until(lambda: meter.measure().gpu_percent is not None)
    use = meter.measure()
    assert meter._query is not None
    meter._query.communicate()
    assert (use.gpu_percent, use.gpu_memory, use.gpu_memory_total) == (60.0, 4000 * 2**20, 6000 * 2**20)


def test_networks_for_which_a_table_is_too_small_stay_on_the_cpu_and_the_plan_says_so(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "choose_device", lambda wanted: GPU)
    monkeypatch.setattr(plan_module, "further_gpus", lambda wanted, device: ("cuda:1",))
    monkeypatch.setattr(type(registry.get("snn")), "device_for", lambda *_: "cpu")
    config = RunConfig(data=str(table), target="diagnosis", models=("lightgbm", "mlp", "grownet", "snn"))
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema)
    assert {model.name: model.device for model in plan.models} == {
        "lightgbm": "cpu", "mlp": "cuda", "grownet": "cpu", "snn": "cpu"
    }  # fmt: skip
    event = plan_event(plan, schema, config)
    reasons = (
        "only networks train on the GPU, since a long fit of another model would keep them from it",
        "GrowNet and SNN train on the CPU, which is faster than the GPU for a table of this size",
    )
    assert (event.device, event.n_gpus, event.device_reason) == (GPU, 2, "; ".join(reasons))
    staged = make_plan(config, schema, staged=True)
    assert any(model.pending for model in staged.models)
    assert plan_module.with_pending_models(staged, plan_module.shape_of(staged, schema)).models == plan.models


@pytest.mark.parametrize(("n_rows", "on_cpu"), [(200, True), (100_000, False)])
def test_a_network_stays_on_the_cpu_where_its_fits_are_too_short_to_gain(n_rows: int, on_cpu: bool) -> None:
    plugin, shape = registry.get("mlp"), Shape(n_rows, 5, 2, 2)
    assert plugin.device_for("binary", shape, GPU) == ("cpu" if on_cpu else GPU)
    params = plugin.defaults("binary", shape, "cpu")
    seconds = [plugin.cost("binary", shape, params, device).seconds for device in ("cpu", GPU)]
    assert (seconds[0] < seconds[1]) == on_cpu


def test_a_network_on_the_cpu_leaves_the_gpu_to_others(
    plan_with: Callable[..., tuple[RunFolder, Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)
    folder, plan = plan_with(("grownet", "mlp", "lightgbm"), workers=4)
    engine = engine_on(folder, plan, None)
    started = started_together(engine)
    assert started["grownet-0000-f0"] == started["lightgbm-0000-f0"] == "cpu"
    assert started["mlp-0000-f0"] == GPU
    defaults = registry.get("grownet").defaults("binary", engine.conductor._shape, "cpu")
    assert engine.executor.jobs["grownet-0000-f0"].params == msgspec.to_builtins(defaults)


def test_each_gpu_has_a_spare_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    spares = Spares()
    monkeypatch.setattr(spares, "keep", kept.append)
    monkeypatch.setattr(SERVERS["torch"], "start", lambda: None)
    LocalExecutor(GB, GPU, spares, ("cuda:1",)).prepare("torch")
    LocalExecutor(GB, "cpu", spares).prepare("torch")
    assert kept == [GPU, "cuda:1"]
