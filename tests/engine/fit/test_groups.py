"""Folds that are trained as one stacked network, in a run that pretends to have a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tabapp.engine.fit.candidates import pilots_of
from tabapp.engine.fit.fit_process import result_of
from tabapp.engine.fit.jobs import Companion, Done, Failed, FitJob, Progress
from tabapp.engine.loop import conductor as conductor_module
from tabapp.engine.loop.clock import Clock
from tabapp.engine.plan import device as device_module
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.models import registry
from tabapp.models.contract import STEP_ROWS, Cost
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, create_run
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
        monkeypatch.setattr(device_module, "choose_device", lambda wanted: device)
        plan = msgspec.structs.replace(make_plan(config, schema), **changes)
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
    assert pilots_of(registry.get("mlp"), FOLDS) == 2
    assert folds_of(jobs, "mlp") == [(0,), (1,), (2, 3, 4)]
    assert {len(folds) for folds in folds_of(jobs, "resnet")} == {1}
    for model in ("mlp", "snn", "resnet"):
        assert engine.row(model).folds == FOLDS
        for kind in (ev.FitStarted, ev.FitFinished):
            assert sorted(event.fold for event in engine.events_of(kind) if event.model == model) == list(range(FOLDS))
    assert {len({each.fold for each in job.each()}) for job in jobs} == {1, 3, 4}


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


def trials_of(jobs: list[FitJob], model: str) -> list[tuple[int, ...]]:
    """The trials of each job with first folds of a model."""
    return [tuple(each.trial for each in job.each()) for job in jobs if job.model == model and job.fold == 0]


@pytest.mark.slow
@pytest.mark.parametrize("n_trials", [4, 20])
def test_a_gpu_trains_the_first_folds_of_several_trials_together(n_trials: int, planned: Planned) -> None:
    seen: list[dict[tuple[str, int], Any]] = []
    for workers in (1, 3):
        engine, jobs = recorded(*planned("snn", "resnet", workers=workers, trials=n_trials))
        engine.conductor.run()
        batches = [(0,), (1, 2, 3)] if n_trials == 4 else [(0,), tuple(range(1, 9)), tuple(range(9, 17)), (17, 18, 19)]
        assert trials_of(jobs, "snn") == batches
        assert trials_of(jobs, "resnet") == [(trial,) for trial in range(n_trials)]
        candidates = engine.conductor.competition.candidates
        free = registry.get("snn").free_params
        for trials in batches:
            params = [candidates["snn", trial].params for trial in trials]
            assert len({repr({k: v for k, v in each.items() if k not in free}) for each in params}) == 1
            assert len({each["learning_rate"] for each in params}) == len(trials)
        # Each is judged by its own first fold.
        ended = {candidates["snn", trial].status for trial in range(1, n_trials)}
        assert ended == ({"complete", "pruned"} if n_trials == 20 else {"pruned"})
        for (model, trial), candidate in candidates.items():
            n_fits = sum(event.model == model and event.trial == trial for event in engine.events_of(ev.FitFinished))
            assert n_fits == len(candidate.results) == (1 if candidate.status == "pruned" else FOLDS)
        seen.append({key: (candidate.params, candidate.status) for key, candidate in candidates.items()})
    assert seen[0] == seen[1]


def test_a_cpu_trains_one_trial_after_the_other(planned: Planned) -> None:
    engine, jobs = recorded(*planned("snn", device="cpu", workers=2, trials=5))
    engine.conductor.run()
    assert trials_of(jobs, "snn") == [(trial,) for trial in range(5)]


def test_trials_of_a_failed_group_are_repeated_one_by_one(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, jobs = recorded(*planned("snn", workers=1, trials=4))
    poll = engine.executor.poll

    def killed() -> list[Any]:
        for name, job in list(engine.executor.jobs.items()):
            if job.fold == 0 and job.companions:
                engine.executor._finish(job.each()[1])
                del engine.executor.jobs[name]
                return [Failed(fit=name, reason="its process was killed by SIGKILL", died=True)]
        return poll()

    monkeypatch.setattr(engine.executor, "poll", killed)
    engine.conductor.run()
    assert trials_of(jobs, "snn") == [(0,), (1, 2, 3), (1,), (3,)]
    assert [event.trial for event in engine.events_of(ev.FitFailed)] == [1, 3]
    first = [event.trial for event in engine.events_of(ev.FitFinished) if event.fold == 0]
    assert sorted(first) == [0, 1, 2, 3]


def test_trials_that_were_open_in_an_earlier_session_train_together(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan = planned("snn", workers=1, trials=4)
    engine, _ = recorded(folder, plan)

    class Killed(Exception):
        """Ends the engine as a kill would."""

    submit = engine.executor.submit

    def killed(job: FitJob) -> int:
        if job.fold == 0 and job.companions:
            raise Killed
        return submit(job)

    monkeypatch.setattr(engine.executor, "submit", killed)
    with pytest.raises(Killed):
        engine.conductor.run()
    resumed = Engine(folder, plan, Clock(None, 0), 1, resumed=True)
    resumed.executor.ready |= {"torch"}
    jobs: list[FitJob] = []
    submit_again = resumed.executor.submit
    monkeypatch.setattr(resumed.executor, "submit", lambda job: (jobs.append(job), submit_again(job))[1])
    resumed.conductor.run()
    assert trials_of(jobs, "snn") == [(1, 2, 3)]
    assert len(resumed.conductor.competition.candidates) == 4


def test_a_trial_of_a_group_is_not_ended_by_its_curve(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = recorded(*planned("snn", workers=1, trials=3))
    asked: list[int] = []
    monkeypatch.setattr(
        engine.conductor._trials, "should_prune", lambda candidate, step, value: (asked.append(step), True)[1]
    )
    poll = engine.executor.poll

    def reporting() -> list[Any]:
        jobs = [each for job in engine.executor.jobs.values() if job.companions for each in job.each()]
        return [Progress(fit=job.fit, step=5, value=0.1) for job in jobs if job.fold == 0] + poll()

    monkeypatch.setattr(engine.executor, "poll", reporting)
    engine.conductor.run()
    assert asked
    assert not engine.executor.cancelled
    assert {event.trial for event in engine.events_of(ev.FitFinished) if event.fold == 0} == {0, 1, 2}


def test_trials_of_a_group_share_their_table(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, plan = planned("snn", device="cpu")
    engine, jobs = recorded(folder, plan)
    engine.executor.polls_a_fit = None
    engine.conductor._add_models(["snn"])
    engine.conductor._start_fits()
    settings = [
        {**jobs[0].params, "max_epochs": 2, "dropout": 0.0, "widths": (16,), "learning_rate": rate}
        for rate in (1e-3, 1e-2)
    ]
    separate = [msgspec.structs.replace(jobs[0], fit=f"alone-{i}", params=each) for i, each in enumerate(settings)]
    companion = Companion("together-1", 1, 0, settings[1])
    group = msgspec.structs.replace(jobs[0], fit="together-0", params=settings[0], companions=(companion,))
    plugin: Any = type(registry.get("snn"))
    fit_group = plugin.fit_group
    seen: list[Any] = []
    monkeypatch.setattr(plugin, "fit_group", lambda self, fits: (seen.extend(fits), fit_group(self, fits))[1])
    done = result_of(msgspec.json.decode(msgspec.json.encode(group), type=FitJob), lambda *_: None)
    assert isinstance(done, Done)
    assert seen[0].train is seen[1].train
    assert seen[0].valid is seen[1].valid
    results = done.result, *done.others
    assert [(result.trial, result.fold) for result in results] == [(0, 0), (1, 0)]
    for job, together in zip(separate, results, strict=True):
        expected = result_of(job, lambda *_: None)
        assert isinstance(expected, Done)
        assert together.summary == expected.result.summary
        place, other = (folder.fits / fit for fit in (together.fit, job.fit))
        assert (place / "params.json").read_bytes() == (other / "params.json").read_bytes()
        # Two epochs amplify rounding errors by less than four orders of magnitude.
        np.testing.assert_allclose(np.load(place / "oof.npy"), np.load(other / "oof.npy"), atol=1e4 * 2**-24)


def test_the_fits_of_a_group_are_saved_as_separate_fits_are(planned: Planned) -> None:
    folder, plan = planned("snn", device="cpu")
    engine, jobs = recorded(folder, plan)
    engine.executor.polls_a_fit = None
    engine.conductor._add_models(["snn"])
    engine.conductor._start_fits()
    params = {**jobs[0].params, "max_epochs": 2, "dropout": 0.0}
    alone = msgspec.structs.replace(jobs[0], params=params)
    separate = [msgspec.structs.replace(alone, fit=f"alone-f{k}", fold=k) for k in (1, 2)]
    group = msgspec.structs.replace(
        alone,
        fit="together-f1",
        fold=1,
        companions=(Companion("together-f2", 0, 2, params),),
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
