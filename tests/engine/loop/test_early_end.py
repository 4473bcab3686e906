"""Runs whose time is over before their last ensemble is evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tabapp.bundle.writing.write import BundleContents
from tabapp.engine.finish import run_end as finish
from tabapp.engine.finish.run_end import Finish
from tabapp.engine.fit.jobs import Done, Message
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.clock import LONGEST_RESERVE, Clock
from tabapp.engine.loop.evaluations import Evaluations
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.report.make import make_report
from tabapp.run.options.config import RunConfig
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.folder import create_run
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
from tabapp.run.texts.progress import progress_of
from tests.engine.conducting import MODELS, Engine
from tests.tables import write_breast_cancer


def started(tmp_path: Path, budget: float | None = None) -> tuple[Engine, RunConfig]:
    """A run of two models with three folds that is planned."""
    table = write_breast_cancer(tmp_path / "cancer.csv")
    config = RunConfig(data=str(table), target="diagnosis", models=MODELS, folds=3, trials=2, workers=2)
    folder = create_run(config, tmp_path / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema)
    write_rows(folder, config, reading, schema, plan)
    engine = Engine(folder, plan, Clock(budget, 0.0), 1)
    engine.events.append(plan_event(plan, schema, config))
    return engine, config


@pytest.fixture
def fails() -> bool:
    """Whether evaluations fail once fitting is over."""
    return False


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> Engine:
    """A run of two models whose interim ensemble was evaluated, with another last ensemble, and no time left."""
    engine, config = started(tmp_path)
    engine.conductor.run()
    board, evaluations = engine.conductor.board, engine.conductor.evaluations
    while board.selected is None:
        board.refresh()
    engine.events += [board.selected.event(), evaluations._evaluate("ensemble")]  # pyright: ignore[reportPrivateUsage]
    if fails:
        monkeypatch.setattr(Evaluations, "_evaluate", failing)
    end(engine, config, monkeypatch)
    return engine


def end(
    engine: Engine,
    config: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock | None = None,
    compute_importances: Callable[..., None] = lambda *arguments: None,
) -> list[BundleContents]:
    """Finish a run with a clock, or one whose time is over; returns what its bundle would be made of."""
    # Models that are not real make no bundle and have no importances.
    written: list[BundleContents] = []
    monkeypatch.setattr(Finish, "_averaged", lambda self, selected: selected)
    monkeypatch.setattr(finish, "compute_importances", compute_importances)
    monkeypatch.setattr(Finish, "_remaining_attention", lambda self, importances, interrupted: ())
    monkeypatch.setattr(finish, "write_bundle", lambda path, contents: written.append(contents))
    monkeypatch.setattr(finish, "copy_bundle", lambda folder, config, emit: (folder.bundle, ""))
    if clock is None:
        clock = Clock(60.0, 60.0)
        assert clock.end is not None
        assert clock.end <= time.monotonic()
    plan = engine.conductor.board.plan
    last = Finish(engine.folder, config, plan, RunData(engine.folder), engine.conductor, clock, engine.events.append)
    engine.events.append(last.run(interrupted=False, elapsed=lambda: 60.0))
    return written


def failing(self: Evaluations, model: str) -> ev.EvaluationReady:
    raise ValueError("not enough memory")


def state_of(engine: Engine, n_events: int | None = None) -> RunState:
    """The state after all events, or after the first ones."""
    events = engine.events[:n_events]
    return replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, start=1)])  # type: ignore[misc]


def test_the_last_ensemble_is_evaluated_although_no_time_is_left(ended: Engine) -> None:
    *interim, last = (event for event in ended.events_of(ev.EvaluationReady) if event.model == "ensemble")
    assert interim
    assert all(found.identity != last.identity for found in interim)
    state = state_of(ended)
    assert state.ensemble is not None
    row = next(row for row in state.leaderboard if row.model == "ensemble")
    assert state.evaluations["ensemble"].identity == state.ensemble.identity == row.identity == last.identity
    assert state.finished is not None
    assert state.finished.leaderboard == state.leaderboard
    scores = {row.model: row.identity for row in state.leaderboard}
    assert all(found.identity == scores[name] for name, found in state.evaluations.items())


@pytest.mark.parametrize("fails", [True])
def test_without_an_evaluation_of_the_last_ensemble_none_has_its_name(ended: Engine) -> None:
    state = state_of(ended)
    assert "ensemble" not in state.evaluations
    assert any("No evaluation of the ensemble" in log.message for log in ended.events_of(ev.Log))
    report = msgspec.json.encode(make_report(state)).decode()
    assert "ended before its predictions were evaluated" in report
    assert "Confusion matrix" not in report


def test_scores_on_one_of_three_folds_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, config = started(tmp_path)
    finished = engine.conductor._handle  # pyright: ignore[reportPrivateUsage]

    def handle(message: Message) -> None:
        finished(message)
        if isinstance(message, Done):
            engine.conductor.ended_by = "finish"

    monkeypatch.setattr(engine.conductor, "_handle", handle)
    engine.conductor.run()
    (contents,) = end(engine, config, monkeypatch)
    last = engine.events_of(ev.RunFinished)[-1]
    assert (last.folds, last.planned_folds) == (1, 3)
    ensemble, *others = last.leaderboard
    assert (ensemble.model, ensemble.folds, ensemble.reason) == ("ensemble", 1, "1 of 3 folds")
    assert any(row.reason == "1 of 3 folds" for row in others)
    assert contents.validation == "only 1 of 3 folds of 3-fold stratified cross-validation"
    assert "1 of 3 folds" in make_report(state_of(engine)).summary


def test_importances_of_another_than_the_best_model_say_so() -> None:
    losses = {"prior_fitted": 0.1, "linear": 0.2}
    best = {name: SimpleNamespace(key=(name, 0), model=name, results={0: None}) for name in losses}
    competition = SimpleNamespace(models=best, best_of=best.get, loss_of=lambda candidate: losses[candidate.model])
    said: list[ev.Log] = []
    last = object.__new__(Finish)
    last._conductor = SimpleNamespace(competition=competition)  # type: ignore[assignment]
    last._emit = said.append  # type: ignore[assignment]
    for name in losses:
        last._say_whose(SimpleNamespace(model=name, trial=0))  # type: ignore[arg-type]
    (log,) = said
    text = "Importances are of Linear model: the time is too short for Prior-fitted network, the best single model."
    assert (log.level, log.message) == ("info", text)


@pytest.mark.parametrize(("budget", "reserve"), [(600.0, 36.0), (None, LONGEST_RESERVE)])
@pytest.mark.parametrize("paused", [False, True])
def test_a_run_that_is_finished_early_explains_within_its_reserve_and_shows_that_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float | None, reserve: float, paused: bool
) -> None:
    engine, config = started(tmp_path, budget)
    handle = engine.conductor._handle  # pyright: ignore[reportPrivateUsage]

    def finish_at_the_first_fold(message: Message) -> None:
        handle(message)
        if isinstance(message, Done):
            for command in [*([cmd.Pause()] if paused else []), cmd.Finish()]:
                engine.folder.send(command)

    monkeypatch.setattr(engine.conductor, "_handle", finish_at_the_first_fold)
    engine.conductor.run()
    allowed: list[float] = []

    def compute(models: object, competition: object, deadline: float | None, attention: object) -> None:
        assert deadline is not None
        allowed.append(deadline - time.monotonic())

    n_before = len(engine.events)
    end(engine, config, monkeypatch, engine.clock, compute)
    assert 0 < allowed[0] <= reserve
    places = [n for n, event in enumerate(engine.events) if n >= n_before and isinstance(event, ev.StageChanged)]
    assert len(places) == 3
    for place in places:
        progress = progress_of(state_of(engine, place + 1), time.time())
        assert progress is not None
        assert progress.left is not None
        assert 0 < progress.left <= reserve
