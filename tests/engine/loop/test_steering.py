"""Commands of a user during a run, applied by a conductor with simulated fits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.steering import Steering
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.run.options.config import RunConfig
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.conducting import MODELS, Engine
from tests.tables import write_breast_cancer


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_breast_cancer(tmp_path_factory.mktemp("steering") / "cancer.csv")


@pytest.fixture
def engine_with(table: Path, tmp_path: Path) -> Callable[..., Engine]:
    def make(
        *,
        trials: int | None = 2,
        budget: float | None = None,
        polls_a_fit: int | None = 1,
        workers: int = 2,
        models: tuple[str, ...] = MODELS,
        staged: bool = False,
        **more: Any,
    ) -> Engine:
        config = RunConfig(
            data=str(table),
            target="diagnosis",
            models=models,
            folds=3,
            trials=trials,
            budget=budget,
            workers=workers,
            **more,
        )
        folder = create_run(config, tmp_path / "runs")
        reading = read_data(config)
        schema = infer(reading, config)
        plan = make_plan(config, schema, staged=staged)
        write_rows(folder, config, reading, schema, plan)
        return Engine(folder, plan, Clock(budget, 0.0), polls_a_fit)

    return make


def drive(engine: Engine, script: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the conductor to its end; the script is called with the number of each iteration of its loop."""
    iterations = iter(range(100_000))

    def next_iteration(seconds: float) -> None:
        number = next(iterations)
        assert number < 2_000, "the run never ended"
        script(number)

    monkeypatch.setattr(time, "sleep", next_iteration)
    engine.conductor.run()


def trials_of(engine: Engine, model: str) -> set[str]:
    return {name.rsplit("-f", 1)[0] for name in engine.executor.submitted if name.startswith(model)}


def test_the_scheduler_is_not_asked_again_before_something_changes(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(workers=2, models=("lightgbm",), trials=1, polls_a_fit=None)
    conductor, asked = engine.conductor, list[int]()
    next_work = conductor.scheduler.next_work

    def counted(*arguments: Any) -> Any:
        asked.append(1)
        return next_work(*arguments)

    monkeypatch.setattr(conductor.scheduler, "next_work", counted)
    conductor.competition.models["lightgbm"].paused = True
    for _ in range(20):
        assert not conductor._start_fits()
    assert len(asked) == 1
    engine.folder.send(cmd.ResumeModel(model="lightgbm"))
    conductor._handle_commands()
    assert conductor._start_fits()


def test_without_a_command_every_model_gets_its_trials(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with()
    drive(engine, lambda number: None, monkeypatch)
    assert [len(trials_of(engine, model)) for model in MODELS] == [2, 2]
    assert all(engine.row(model).held == "" and engine.row(model).share == 1 for model in MODELS)


def test_models_that_load_slowly_join_a_run_that_has_begun(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(trials=1, workers=1, models=("lightgbm", "mlp"), staged=True)
    before: list[ev.LeaderboardRow] = []

    def script(number: int) -> None:
        if number == 0:
            # The other models load once the first fit has ended.
            before.append(engine.row("mlp"))
            engine.folder.send(cmd.ShareModel(model="mlp", share=2.0))
        threading.Event().wait(0.01)

    drive(engine, script, monkeypatch)
    assert (before[0].status, before[0].title, before[0].score) == ("queued", "MLP", None)
    assert engine.executor.submitted[0] == "lightgbm-0000-f0"
    assert {name.rsplit("-", 2)[0] for name in engine.executor.submitted} == {"lightgbm", "mlp"}
    (plan,) = engine.events_of(ev.PlanMade)
    assert [(model.name, model.title, model.family) for model in plan.models] == [
        ("lightgbm", "LightGBM", "gbdt"),
        ("mlp", "MLP", "deep"),
    ]
    assert engine.row("mlp").score is not None
    assert engine.row("mlp").share == 2, "the command was sent before the plugin was loaded"
    kept = msgspec.json.decode(engine.folder.plan.read_bytes(), type=Plan)
    assert not any(model.pending for model in kept.models)


def test_boosters_do_not_wait_for_scikit_learn(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1, workers=1, models=("linear", "lightgbm", "xgboost"))
    prepared: list[str] = []
    monkeypatch.setattr(engine.executor, "prepare", prepared.append)

    def script(number: int) -> None:
        if engine.executor.submitted and "trees" in prepared:
            engine.executor.ready.add("trees")

    drive(engine, script, monkeypatch)
    models = [name.rsplit("-", 2)[0] for name in engine.executor.submitted]
    assert set(models[: models.index("linear")]) <= {"lightgbm", "xgboost"}
    assert set(prepared) == {"trees"}, "torch is not needed"
    assert all(engine.row(model).score is not None for model in ("linear", *MODELS))


def test_nothing_starts_before_its_libraries_are_loaded(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    engine.executor.ready.clear()

    def script(number: int) -> None:
        if number == 3:
            assert engine.executor.submitted == []
            engine.executor.ready.add("boosters")

    drive(engine, script, monkeypatch)
    assert all(engine.row(model).score is not None for model in MODELS)


def test_stopping_a_model_ends_its_fit_and_its_trial(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(polls_a_fit=None)

    def script(number: int) -> None:
        if number == 3:
            assert len(engine.executor.jobs) == 2, "both models are running"
            engine.folder.send(cmd.StopModel(model="xgboost"))
        if number == 8:
            engine.executor.polls_a_fit = 1

    drive(engine, script, monkeypatch)
    assert engine.executor.cancelled == ["xgboost-0000-f0"]
    assert trials_of(engine, "xgboost") == {"xgboost-0000"}
    assert len(trials_of(engine, "lightgbm")) == 2
    pruned = engine.events_of(ev.TrialPruned)
    assert [(event.model, event.trial, event.reason) for event in pruned if event.model == "xgboost"] == [
        ("xgboost", 0, "stopped by you")
    ]
    row = engine.row("xgboost")
    assert (row.status, row.reason, row.held) == ("skipped", "stopped by you", "stopped")
    assert "XGBoost stopped" in [event.message for event in engine.events_of(ev.Log)]


def test_only_models_without_a_fit_are_reported_as_not_started(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(polls_a_fit=None, workers=1)

    def script(number: int) -> None:
        if number == 3:
            engine.folder.send(cmd.Finish())

    drive(engine, script, monkeypatch)
    (started,) = {name.rsplit("-", 2)[0] for name in engine.executor.submitted}
    rows = {row.model: row for row in engine.conductor.board.rows({}, over=True)}
    caught, waiting = rows.pop(started), rows.popitem()[1]
    assert (caught.status, caught.not_started) == ("skipped", False)
    assert caught.reason == "the run ended during its first fold"
    assert (waiting.status, waiting.not_started) == ("skipped", True)
    assert waiting.reason == "not started within the budget"


def test_a_stopped_model_keeps_its_score_and_can_be_resumed(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(trials=3)
    asked: list[str] = []

    def script(number: int) -> None:
        if (
            not asked
            and engine.conductor.competition.models["lightgbm"].spent
            and "lightgbm-0000-f2" in engine.executor.submitted
        ):
            asked.append("stop")
            engine.folder.send(cmd.StopModel(model="lightgbm"))
            engine.folder.send(cmd.StopModel(model="lightgbm"))
        elif len(asked) == 1 and engine.events_of(ev.Log) and len(trials_of(engine, "xgboost")) == 3:
            asked.append("resume")
            assert trials_of(engine, "lightgbm") == {"lightgbm-0000"}
            engine.folder.send(cmd.ResumeModel(model="lightgbm"))

    drive(engine, script, monkeypatch)
    assert asked == ["stop", "resume"]
    assert len(trials_of(engine, "lightgbm")) == 3
    assert [event.message for event in engine.events_of(ev.Log)] == ["LightGBM stopped", "LightGBM resumed"]
    assert engine.row("lightgbm").held == ""
    assert engine.row("lightgbm").score is not None


def test_a_run_waits_for_a_paused_model_to_be_resumed(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with()
    engine.folder.send(cmd.PauseModel(model="lightgbm"))
    waited: list[int] = []

    def script(number: int) -> None:
        if len(trials_of(engine, "xgboost")) == 2 and not engine.executor.jobs:
            waited.append(number)
            if len(waited) == 20:
                assert engine.executor.submitted
                assert not trials_of(engine, "lightgbm")
                engine.folder.send(cmd.ResumeModel(model="lightgbm"))

    drive(engine, script, monkeypatch)
    assert len(waited) >= 20
    record, board = engine.conductor.competition.models["lightgbm"], engine.conductor.board
    record.paused = True
    held = {over: [row.held for row in board.rows({}, over=over) if row.model == "lightgbm"] for over in (False, True)}
    assert held == {False: ["paused"], True: [""]}, "when nothing more will run, nothing is paused"
    assert len(trials_of(engine, "lightgbm")) == 2


def test_a_larger_share_gives_more_trials(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with()
    for share in (2.0, 99.0):
        engine.folder.send(cmd.ShareModel(model="xgboost", share=share))
    engine.folder.send(cmd.ShareModel(model="xgboost", share=2.0))
    drive(engine, lambda number: None, monkeypatch)
    assert [len(trials_of(engine, model)) for model in MODELS] == [2, 4]
    assert engine.row("xgboost").share == 2.0
    said = [event.message for event in engine.events_of(ev.Log)]
    assert said == [f"XGBoost gets {share} × its usual share of the time" for share in (2, 8, 2)]


def test_a_model_can_be_excluded_from_the_ensemble(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    engine.folder.send(cmd.IncludeModel(model="lightgbm", include=False))
    drive(engine, lambda number: None, monkeypatch)
    board = engine.conductor.board
    selected = board.select_now()
    assert selected is not None
    assert {candidate.model for candidate, _ in selected.members} == {"xgboost"}
    assert engine.row("lightgbm").left_out
    board.left_out.add("xgboost")
    selected = board.select_now()
    assert selected is not None, "an ensemble needs a model, even if the user excludes all"


def test_an_extended_budget_is_saved_and_shown(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1, budget=600.0)
    engine.folder.send(cmd.Extend(seconds=300))
    drive(engine, lambda number: None, monkeypatch)
    assert engine.clock.budget == 900.0
    assert engine.folder.config().budget == 900.0
    assert [plan.budget for plan in engine.events_of(ev.PlanMade)] == [900.0]
    assert engine.conductor.board.plan.budget == 900.0
    first, second = engine.events_of(ev.StageChanged)[:2]
    assert second.deadline - first.deadline == pytest.approx(300.0, abs=1.0)
    assert "Budget extended by 5m" in [event.message for event in engine.events_of(ev.Log)]


def test_commands_for_unknown_models_have_no_effect(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    for kind in (cmd.StopModel, cmd.PauseModel, cmd.ResumeModel):
        engine.folder.send(kind(model="unheard of"))
    engine.folder.send(cmd.ShareModel(model="unheard of", share=2.0))
    engine.folder.send(cmd.IncludeModel(model="unheard of", include=False))
    engine.folder.send(cmd.Extend(seconds=60))
    drive(engine, lambda number: None, monkeypatch)
    assert engine.events_of(ev.Log) == []
    assert engine.folder.config().budget is None


def test_a_rejected_command_is_reported_and_has_no_effect(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1, budget=600.0)
    engine.folder.commands.write_bytes(
        b'{"command": "dance"}\n'
        b'{"command": "stop_model"}\n'
        b'{"command": "share_model", "model": "xgboost", "share": true}\n'
        b'{"command": "extend", "seconds": "long"}\n'
    )
    drive(engine, lambda number: None, monkeypatch)
    warnings = [event.message for event in engine.events_of(ev.Log) if event.level == "warning"]
    assert len(warnings) == 4
    assert "'dance'" in warnings[0]
    assert engine.clock.budget == 600.0
    assert [engine.row(model).held for model in MODELS] == ["", ""]


def test_a_resumed_run_repeats_the_commands_on_its_models(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    engine.folder.send(cmd.StopModel(model="lightgbm"))
    engine.folder.send(cmd.ShareModel(model="lightgbm", share=4.0))
    engine.folder.send(cmd.IncludeModel(model="lightgbm", include=False))
    drive(engine, lambda number: None, monkeypatch)
    again = Engine(engine.folder, engine.conductor._plan, Clock(None, 0.0), 1, resumed=True)
    record = again.conductor.competition.models["lightgbm"]
    assert (record.stopped, record.share) == (True, 4.0)
    assert again.conductor.board.left_out == {"lightgbm"}
    assert again.events_of(ev.Log) == []


def test_a_resumed_run_does_not_repeat_a_stop_that_was_taken_back(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(trials=1, workers=1, models=("lightgbm",))

    def script(number: int) -> None:
        if "lightgbm-0000-f1" in engine.executor.submitted:
            engine.folder.send(cmd.Finish())

    drive(engine, script, monkeypatch)
    assert "lightgbm-0000-f2" not in engine.executor.submitted, "the trial is open"
    for command in (cmd.StopModel(model="lightgbm"), cmd.ResumeModel(model="lightgbm")):
        engine.folder.send(command)
    again = Engine(engine.folder, engine.conductor._plan, Clock(None, 0.0), 1, resumed=True)
    drive(again, lambda number: None, monkeypatch)
    assert again.events_of(ev.TrialPruned) == []
    assert again.executor.cancelled == []
    assert [trial.trial for trial in again.events_of(ev.TrialFinished)] == [0]
    assert "lightgbm-0000-f0" not in again.executor.submitted


ASKED = (
    cmd.StopModel(model="m"),
    cmd.PauseModel(model="m"),
    cmd.ResumeModel(model="m"),
    cmd.ShareModel(model="m", share=2.0),
    cmd.ShareModel(model="m", share=1.0),
    cmd.IncludeModel(model="m", include=False),
    cmd.IncludeModel(model="m", include=True),
)


class Steered:
    """A model with the parts of an engine that steering changes."""

    def __init__(self, folder: RunFolder) -> None:
        self.record = ModelRecord("m", 1.0, False, 1.0, title="M")
        self.board = SimpleNamespace(left_out=set[str](), mark_stale=lambda: None)
        self.ended: list[str] = []
        competition = SimpleNamespace(models={"m": self.record})
        nothing: Any = lambda *_: None  # noqa: E731
        self.steering = Steering(
            folder, cast(Any, competition), cast(Any, self.board), Clock(None, 0.0),
            end_fits=self.ended.append, plan_changed=nothing, emit=nothing,
        )  # fmt: skip

    @property
    def state(self) -> tuple[object, ...]:
        return self.record.stopped, self.record.paused, self.record.share, self.board.left_out


@pytest.mark.parametrize("last", ASKED, ids=repr)
def test_commands_leave_the_same_state_in_a_resumed_run(tmp_path: Path, last: cmd.ModelCommand) -> None:
    for number, commands in enumerate(product((None, *ASKED), (None, *ASKED), (last,))):
        folder = RunFolder(tmp_path / str(number))
        folder.path.mkdir()
        live, resumed = Steered(folder), Steered(folder)
        for command in filter(None, commands):
            folder.send(command)
            live.steering.apply(command)
        resumed.steering.recall({"m"})
        assert resumed.state == live.state, commands
        assert resumed.ended == (["m"] if resumed.record.stopped else []), commands
