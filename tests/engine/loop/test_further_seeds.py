"""Further seeds of the models of the final ensemble: averaged fold by fold, within the time, and never fitted twice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tabapp.engine.fit.candidates import fit_name, read_further_seeds
from tabapp.engine.loop.clock import Clock
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.run.options.config import RunConfig
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.conducting import MODELS, Engine
from tests.tables import write_breast_cancer

FOLDS, SEEDS = 3, 3


@pytest.fixture
def planned(tmp_path: Path) -> tuple[RunFolder, Plan]:
    """A run of two models with two trials each and three seeds."""
    table = write_breast_cancer(tmp_path / "cancer.csv")
    config = RunConfig(
        data=str(table), target="diagnosis", models=MODELS, folds=FOLDS, trials=2, workers=2, seeds=SEEDS
    )
    folder = create_run(config, tmp_path / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema)
    assert plan.seeds == SEEDS
    write_rows(folder, config, reading, schema, plan)
    return folder, plan


def engine_of(planned: tuple[RunFolder, Plan], budget: float | None = None) -> Engine:
    folder, plan = planned
    return Engine(folder, msgspec.structs.replace(plan, budget=budget), Clock(budget, 0.0), 1)


def further(engine: Engine) -> list[str]:
    return [fit for fit in engine.executor.submitted if not fit.rpartition("-")[2].removeprefix("f").isdigit()]


def messages(engine: Engine) -> list[str]:
    return [event.message for event in engine.events_of(ev.Log)]


def test_the_members_of_the_ensemble_are_averaged_over_seeds(planned):
    engine = engine_of(planned)
    engine.conductor.run()
    board, folder = engine.conductor.board, engine.folder
    first = board.selected
    assert first is not None
    assert len(further(engine)) == len(first.members) * FOLDS * (SEEDS - 1)
    for candidate, _ in first.members:
        assert candidate.seeds == SEEDS
        for fold in range(FOLDS):
            names = [fit_name(candidate.model, candidate.trial, fold, seed) for seed in range(SEEDS)]
            parts = [np.load(folder.fits / name / "oof.npy") for name in names]
            mean = candidate.out_of_fold(folder, fold)
            np.testing.assert_allclose(mean, np.mean(parts, axis=0), atol=1e-6)
            assert np.abs(mean - parts[0]).max() > 0.01
        prediction, _ = engine.conductor.scorer.out_of_fold(candidate)
        rows = engine.conductor.scorer.folds == 0
        np.testing.assert_array_equal(prediction[rows], candidate.out_of_fold(folder, 0))
    last = board.select_now()
    assert last is not None
    assert {candidate.key for candidate, _ in last.members} <= {candidate.key for candidate, _ in first.members}
    assert all(member.seeds == SEEDS for member in last.event().members)
    assert set(last.fits) <= {path.name for path in folder.fits.iterdir()}
    # Independent noise averages out; greater is better.
    assert last.score.value > first.score.value
    started = [event for event in engine.events_of(ev.FitStarted) if event.seed]
    assert {event.seed for event in started} == {1, 2}
    assert len(started) == len([event for event in engine.events_of(ev.FitFinished) if event.seed])


def test_without_the_option_every_model_has_one_seed(planned):
    folder, plan = planned
    engine = Engine(folder, msgspec.structs.replace(plan, seeds=1), Clock(None, 0.0), 1)
    engine.conductor.run()
    assert not further(engine)
    assert not engine.conductor.board.only
    assert all(candidate.seeds == 1 for candidate in engine.conductor.competition.candidates.values())


def test_models_without_time_for_more_seeds_keep_what_they_have(planned):
    engine = engine_of(planned, 60.0)
    engine.executor.seconds = 1_000.0
    engine.conductor.run()
    assert not further(engine)
    assert engine.conductor.board.only
    said = [message for message in messages(engine) if "1 of 3 seeds" in message]
    assert said
    assert all(message.endswith("seeds: the time left is too short for more.") for message in said)


def test_a_failed_seed_ends_those_of_its_model_only(planned):
    engine = engine_of(planned)
    engine.executor.died = {"lightgbm-0000-f1s2", "lightgbm-0001-f1s2"}
    engine.conductor.run()
    seeds = {key: engine.conductor.competition.candidates[key].seeds for key in engine.conductor.board.only}
    assert any(model == "lightgbm" for model, _ in seeds)
    assert all(n == (2 if model == "lightgbm" else 3) for (model, _), n in seeds.items())
    assert any("2 of 3 seeds: a fit failed: its process was killed by SIGABRT." in each for each in messages(engine))


def test_complete_seeds_of_an_earlier_session_are_not_repeated(planned):
    earlier = engine_of(planned)
    earlier.executor.died = {"lightgbm-0000-f1s2", "lightgbm-0001-f1s2"}
    earlier.conductor.run()
    resumed = engine_of(planned)
    resumed.conductor.run()
    assert {fit for fit in further(resumed) if fit.startswith("lightgbm")}
    assert not set(further(resumed)) & {event.fit for event in earlier.events_of(ev.FitFinished)}
    for key in resumed.conductor.board.only:
        candidate = resumed.conductor.competition.candidates[key]
        assert candidate.seeds == SEEDS
        known = candidate.further
        read_further_seeds(resumed.folder, candidate, SEEDS)
        assert candidate.further == known
        with pytest.raises(ValueError, match="lacks a fit of its seed 4"):
            read_further_seeds(resumed.folder, candidate, SEEDS + 1)


def test_finish_ends_the_fits_of_further_seeds(planned):
    engine = engine_of(planned)
    submit = engine.executor.submit

    def finish_at_the_first(job):
        if job.seed:
            engine.folder.send(cmd.Finish())
        return submit(job)

    engine.executor.submit = finish_at_the_first
    engine.conductor.run()
    assert engine.conductor.ended_by == "finish"
    assert 0 < len(further(engine)) < FOLDS * (SEEDS - 1)
    assert any(message.endswith("1 of 3 seeds: the run was ended.") for message in messages(engine))
