"""Folds that are trained as one stacked network, in a run that pretends to have a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tabapp.engine import conductor as conductor_module
from tabapp.engine.candidates import pilot_folds
from tabapp.engine.clock import Clock
from tabapp.engine.fit_process import result_of
from tabapp.engine.jobs import Companion, Done, Failed, FitJob, Progress
from tabapp.engine.plan import Plan, make_plan
from tabapp.engine.prepare import infer, read_data
from tabapp.engine.rows import write_rows
from tabapp.models import registry
from tabapp.models.contract import STEP_ROWS, Cost
from tabapp.run import events as ev
from tabapp.run.config import RunConfig
from tabapp.run.folder import RunFolder, create_run
from tests.engine.conducting import Engine
from tests.tables import write_breast_cancer

GPU, GB = "cuda:0", 10**9
FOLDS = 5
Planned = Callable[..., tuple[RunFolder, Plan]]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_breast_cancer(tmp_path_factory.mktemp("groups") / "cancer.csv")


@pytest.fixture
def planned(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planned:
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 80 * GB)

    def make(*models: str, device: str = GPU, **changes: object) -> tuple[RunFolder, Plan]:
        config = RunConfig(data=str(table), target="diagnosis", models=models, folds=FOLDS, trials=1, device="cpu")
        folder = create_run(config, tmp_path / "runs")
        reading = read_data(config)
        schema = infer(reading, config)
        plan = msgspec.structs.replace(make_plan(config, schema), device=device, **changes)
        write_rows(folder, config, reading, schema, plan)
        return folder, plan

    return make


def recorded(folder: RunFolder, plan: Plan) -> tuple[Engine, list[FitJob]]:
    """An engine, and the jobs that it will have submitted."""
    engine = Engine(folder, plan, Clock(None, 0), 1)
    engine.executor.ready |= {"torch"}
    jobs: list[FitJob] = []
    submit = engine.executor.submit
    engine.executor.submit = lambda job: (jobs.append(job), submit(job))[1]  # type: ignore[method-assign]
    return engine, jobs


def folds_of(jobs: list[FitJob], model: str) -> list[tuple[int, ...]]:
    """The folds of each job of a model."""
    return [tuple(each.fold for each in job.each()) for job in jobs if job.model == model]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_gpu_trains_the_folds_after_the_first_together(workers: int, planned: Planned) -> None:
    engine, jobs = recorded(*planned("mlp", "snn", "resnet", workers=workers))
    engine.conductor.run()
    assert folds_of(jobs, "snn") == [(0,), (1, 2, 3, 4)]
    # The first two folds of an MLP find the number of epochs of the others.
    assert pilot_folds(FOLDS) == 2
    assert folds_of(jobs, "mlp") == [(0,), (1,), (2, 3, 4)]
    assert {len(folds) for folds in folds_of(jobs, "resnet")} == {1}
    for model in ("mlp", "snn", "resnet"):
        assert engine.row(model).folds == FOLDS
        for kind in (ev.FitStarted, ev.FitFinished):
            assert sorted(event.fold for event in engine.events_of(kind) if event.model == model) == list(range(FOLDS))
    assert {len({each.seed for each in job.each()}) for job in jobs} == {1, 3, 4}


def test_a_cpu_trains_each_fold_alone(planned: Planned) -> None:
    engine, jobs = recorded(*planned("snn", device="cpu", workers=2))
    engine.conductor.run()
    assert folds_of(jobs, "snn") == [(fold,) for fold in range(FOLDS)]


def test_a_group_takes_as_many_folds_as_the_gpu_has_memory_for(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(registry.get("snn")), "cost", lambda *_: Cost(1.0, 2 * GB))
    monkeypatch.setattr(conductor_module, "gpu_memory", lambda device: 8 * GB)
    engine, jobs = recorded(*planned("snn", workers=2))
    engine.conductor.run()
    assert folds_of(jobs, "snn") == [(0,), (1, 2, 3), (4,)]
    assert [job.n_bytes for job in jobs] == [2 * GB, 6 * GB, 2 * GB]


def test_folds_continue_with_the_rows_that_fit_in_memory_on_the_first(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, jobs = recorded(*planned("snn", workers=2))
    finish = engine.executor._finish
    halved = {STEP_ROWS: 16}
    monkeypatch.setattr(engine.executor, "_finish", lambda job: msgspec.structs.replace(finish(job), summary=halved))
    engine.conductor.run()
    assert folds_of(jobs, "snn") == [(fold,) for fold in range(FOLDS)]
    assert [job.most_step_rows for job in jobs] == [None, *[16] * (FOLDS - 1)]


def test_fits_that_a_failed_group_had_saved_are_not_repeated(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, jobs = recorded(*planned("snn", workers=1))
    poll = engine.executor.poll

    def killed_after_one_fold() -> list[Any]:
        for name, job in list(engine.executor.jobs.items()):
            if job.companions:
                engine.executor._finish(job.each()[1])
                del engine.executor.jobs[name]
                return [Failed(fit=name, reason="its process was killed by SIGKILL", died=True)]
        return poll()

    monkeypatch.setattr(engine.executor, "poll", killed_after_one_fold)
    engine.conductor.run()
    assert folds_of(jobs, "snn") == [(0,), (1, 2, 3, 4), (1,), (3,), (4,)]
    assert [event.fold for event in engine.events_of(ev.FitFailed)] == [1, 3, 4]
    assert sorted(event.fold for event in engine.events_of(ev.FitFinished)) == list(range(FOLDS))
    assert engine.row("snn").folds == FOLDS


def test_progress_belongs_to_the_fold_that_reports_it(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = recorded(*planned("snn", workers=1))
    poll = engine.executor.poll

    def reporting() -> list[Any]:
        jobs = [each for job in engine.executor.jobs.values() if job.companions for each in job.each()]
        return [Progress(fit=job.fit, step=1, value=0.9) for job in jobs] + poll()

    monkeypatch.setattr(engine.executor, "poll", reporting)
    engine.conductor.run()
    assert {(event.fit, event.fold) for event in engine.events_of(ev.FitProgress)} == {
        (f"snn-0000-f{fold}", fold) for fold in range(1, FOLDS)
    }


def test_the_fits_of_a_group_are_saved_as_separate_fits_are(planned: Planned) -> None:
    folder, plan = planned("snn", device="cpu")
    engine, jobs = recorded(folder, plan)
    engine.executor.polls_a_fit = None
    engine.conductor._add_models(["snn"])
    engine.conductor._start_fits()
    params = {**jobs[0].params, "max_epochs": 2, "dropout": 0.0}
    alone = msgspec.structs.replace(jobs[0], params=params)
    separate = [msgspec.structs.replace(alone, fit=f"alone-f{k}", fold=k, seed=k) for k in (1, 2)]
    group = msgspec.structs.replace(
        alone,
        fit="together-f1",
        fold=1,
        seed=1,
        companions=(Companion("together-f2", 2, 2),),
    )
    reports: list[tuple[str, int]] = []

    def report(fit: str, step: int, value: float) -> None:
        reports.append((fit, step))

    done = result_of(msgspec.json.decode(msgspec.json.encode(group), type=FitJob), report)
    assert isinstance(done, Done)
    assert set(reports) == {(f"together-f{fold}", step) for fold in (1, 2) for step in (1, 2)}
    for job, together in zip(separate, (done.result, *done.others), strict=True):
        expected = result_of(job, report)
        assert isinstance(expected, Done)
        assert (together.fold, together.n_rows, together.summary) == (
            job.fold,
            expected.result.n_rows,
            expected.result.summary,
        )
        assert set(together.checksums) == set(expected.result.checksums)
        place, other = (folder.fits / fit for fit in (together.fit, job.fit))
        assert (place / "params.json").read_bytes() == (other / "params.json").read_bytes()
        # Two epochs amplify the rounding errors of bfloat16, which are up to 2^-9, by less than an order of magnitude.
        np.testing.assert_allclose(np.load(place / "oof.npy"), np.load(other / "oof.npy"), atol=10 * 2**-9)
        assert not (folder.checkpoints / together.fit).exists()
