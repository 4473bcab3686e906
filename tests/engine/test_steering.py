"""Commands of a user while models are fitted, obeyed by a whole conductor whose fits are played."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tabapp import files
from tabapp.engine.clock import Clock
from tabapp.engine.conductor import Conductor
from tabapp.engine.fit import RunData
from tabapp.engine.jobs import Done, Failed, FitJob, FitResult, Message
from tabapp.engine.plan import Plan, approximate_shape, make_plan
from tabapp.engine.prepare import infer, read_data
from tabapp.engine.rows import lay_down
from tabapp.engine.tuning import open_storage
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.config import RunConfig
from tabapp.run.folder import CommandReader, RunFolder, create_run
from tests.tables import write_breast_cancer

MODELS = ("lightgbm", "xgboost")


class PlayedFits:
    """An executor whose fits end when the test says so, or `polls_a_fit` looks after they began; they predict nearly the truth."""

    def __init__(self, folder: RunFolder, polls_a_fit: int | None = 1) -> None:
        self.folder, self.polls_a_fit = folder, polls_a_fit
        self.jobs: dict[str, FitJob] = {}
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self._age: dict[str, int] = {}

    def submit(self, job: FitJob) -> int:
        self.jobs[job.fit], self._age[job.fit] = job, 0
        self.submitted.append(job.fit)
        return 1

    def poll(self) -> list[Message]:
        messages: list[Message] = []
        for name, job in list(self.jobs.items()):
            self._age[name] += 1
            if name in self.cancelled:
                del self.jobs[name]
                messages.append(Failed(fit=name, reason="stopped", stopped=True))
            elif self.polls_a_fit is not None and self._age[name] > self.polls_a_fit:
                del self.jobs[name]
                messages.append(Done(fit=name, result=self._finish(job)))
        return messages

    def _finish(self, job: FitJob) -> FitResult:
        data = RunData(self.folder)
        truth = data.target[data.held_out(job.fold)]
        generator = np.random.default_rng([job.trial, job.fold, job.model == "xgboost"])
        noise = 0.3 if job.model == "lightgbm" else 0.4
        positive = np.clip(0.5 + 0.3 * (2 * truth - 1) + generator.normal(0, noise, len(truth)), 0.01, 0.99)
        prediction = np.column_stack([1 - positive, positive]).astype(np.float32)
        result = FitResult(
            fit=job.fit,
            model=job.model,
            trial=job.trial,
            fold=job.fold,
            score=float(np.mean((positive > 0.5) == truth)),
            seconds=0.01,
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

    def close(self) -> None:
        self.jobs.clear()


class Engine:
    """A conductor over a small table, step by step."""

    def __init__(
        self, folder: RunFolder, plan: Plan, clock: Clock, polls_a_fit: int | None, resumed: bool = False
    ) -> None:
        self.folder, self.clock = folder, clock
        self.events: list[ev.Event] = []
        self.executor = PlayedFits(folder, polls_a_fit)
        data = RunData(folder)
        self.conductor = Conductor(
            folder,
            plan,
            data,
            approximate_shape(data.schema, 2),
            storage=open_storage(folder.study),
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

    def told(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def row(self, model: str) -> ev.LeaderboardRow:
        return next(row for row in self.told(ev.LeaderboardChanged)[-1].rows if row.model == model)


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
        **more: Any,
    ) -> Engine:
        config = RunConfig(
            data=str(table),
            target="diagnosis",
            models=MODELS,
            folds=3,
            trials=trials,
            budget=budget,
            workers=workers,
            **more,
        )
        folder = create_run(config, tmp_path / "runs")
        reading = read_data(config)
        schema = infer(reading, config)
        plan = make_plan(config, schema)
        lay_down(folder, config, reading, schema, plan)
        return Engine(folder, plan, Clock(budget, 0.0), polls_a_fit)

    return make


def play(engine: Engine, script: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the conductor to its end; the script is called with the number of each turn of its loop."""
    turns = iter(range(100_000))

    def turn(seconds: float) -> None:
        number = next(turns)
        assert number < 2_000, "the run never ended"
        script(number)

    monkeypatch.setattr(time, "sleep", turn)
    engine.conductor.run()


def trials_of(engine: Engine, model: str) -> set[str]:
    return {name.rsplit("-f", 1)[0] for name in engine.executor.submitted if name.startswith(model)}


def test_without_a_command_every_model_gets_its_trials(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with()
    play(engine, lambda number: None, monkeypatch)
    assert [len(trials_of(engine, model)) for model in MODELS] == [2, 2]
    assert all(engine.row(model).held == "" and engine.row(model).share == 1 for model in MODELS)


def test_stopping_a_model_ends_its_fit_and_its_trial(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(polls_a_fit=None)

    def script(number: int) -> None:
        if number == 3:
            assert len(engine.executor.jobs) == 2, "both models are at work"
            engine.folder.send(cmd.StopModel(model="xgboost"))
        if number == 8:
            engine.executor.polls_a_fit = 1

    play(engine, script, monkeypatch)
    assert engine.executor.cancelled == ["xgboost-0000-f0"]
    assert trials_of(engine, "xgboost") == {"xgboost-0000"}
    assert len(trials_of(engine, "lightgbm")) == 2
    pruned = engine.told(ev.TrialPruned)
    assert [(event.model, event.trial, event.reason) for event in pruned if event.model == "xgboost"] == [
        ("xgboost", 0, "stopped by you")
    ]
    row = engine.row("xgboost")
    assert (row.status, row.reason, row.held) == ("skipped", "stopped by you", "stopped")
    assert "XGBoost was stopped" in [event.message for event in engine.told(ev.Log)]


def test_only_models_without_a_fit_are_reported_as_not_started(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(polls_a_fit=None, workers=1)

    def script(number: int) -> None:
        if number == 3:
            engine.folder.send(cmd.Finish())

    play(engine, script, monkeypatch)
    (started,) = {name.rsplit("-", 2)[0] for name in engine.executor.submitted}
    rows = {row.model: row for row in engine.conductor.board.rows({}, over=True)}
    caught, waiting = rows.pop(started), rows.popitem()[1]
    assert (caught.status, caught.not_started) == ("skipped", False)
    assert caught.reason == "the run ended during its first fold"
    assert (waiting.status, waiting.not_started) == ("skipped", True)
    assert waiting.reason == "not started within the budget"


def test_a_stopped_model_keeps_its_score_and_can_go_on(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=3)
    asked: list[str] = []

    def script(number: int) -> None:
        if (
            not asked
            and engine.conductor.scheduler.models["lightgbm"].spent
            and "lightgbm-0000-f2" in engine.executor.submitted
        ):
            asked.append("stop")
            engine.folder.send(cmd.StopModel(model="lightgbm"))
            engine.folder.send(cmd.StopModel(model="lightgbm"))
        elif len(asked) == 1 and engine.told(ev.Log) and len(trials_of(engine, "xgboost")) == 3:
            asked.append("resume")
            assert trials_of(engine, "lightgbm") == {"lightgbm-0000"}
            engine.folder.send(cmd.ResumeModel(model="lightgbm"))

    play(engine, script, monkeypatch)
    assert asked == ["stop", "resume"]
    assert len(trials_of(engine, "lightgbm")) == 3
    assert [event.message for event in engine.told(ev.Log)] == ["LightGBM was stopped", "LightGBM goes on"]
    assert engine.row("lightgbm").held == ""
    assert engine.row("lightgbm").score is not None


def test_a_run_waits_for_a_paused_model_and_then_goes_on(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
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

    play(engine, script, monkeypatch)
    assert len(waited) >= 20
    record, board = engine.conductor.scheduler.models["lightgbm"], engine.conductor.board
    record.paused = True
    held = {over: [row.held for row in board.rows({}, over=over) if row.model == "lightgbm"] for over in (False, True)}
    assert held == {False: ["paused"], True: [""]}, "when nothing more will run, nothing is paused"
    assert len(trials_of(engine, "lightgbm")) == 2


def test_a_share_gives_more_trials_and_is_shown(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with()
    for share in (2.0, 99.0):
        engine.folder.send(cmd.ShareModel(model="xgboost", share=share))
    engine.folder.send(cmd.ShareModel(model="xgboost", share=2.0))
    play(engine, lambda number: None, monkeypatch)
    assert [len(trials_of(engine, model)) for model in MODELS] == [2, 4]
    assert engine.row("xgboost").share == 2.0
    said = [event.message for event in engine.told(ev.Log)]
    assert said == [f"XGBoost gets {share} × its due of the time" for share in (2, 8, 2)]


def test_a_model_is_kept_out_of_the_ensemble(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    engine.folder.send(cmd.IncludeModel(model="lightgbm", include=False))
    play(engine, lambda number: None, monkeypatch)
    board = engine.conductor.board
    selected = board.select_now()
    assert selected is not None
    assert {candidate.model for candidate, _ in selected.members} == {"xgboost"}
    assert engine.row("lightgbm").left_out
    board.left_out.add("xgboost")
    selected = board.select_now()
    assert selected is not None, "where the user leaves none, there is an ensemble all the same"


def test_the_end_is_moved_and_kept_for_a_resumed_run(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1, budget=600.0)
    engine.folder.send(cmd.Extend(seconds=300))
    play(engine, lambda number: None, monkeypatch)
    assert engine.clock.budget == 900.0
    assert engine.folder.config().budget == 900.0
    first, second = engine.told(ev.StageChanged)[:2]
    assert second.deadline - first.deadline == pytest.approx(300.0, abs=1.0)
    assert "The run has 5m more" in [event.message for event in engine.told(ev.Log)]


def test_commands_for_unknown_models_change_nothing(engine_with: Callable[..., Engine], monkeypatch: Any) -> None:
    engine = engine_with(trials=1)
    for kind in (cmd.StopModel, cmd.PauseModel, cmd.ResumeModel):
        engine.folder.send(kind(model="unheard of"))
    engine.folder.send(cmd.ShareModel(model="unheard of", share=2.0))
    engine.folder.send(cmd.IncludeModel(model="unheard of", include=False))
    engine.folder.send(cmd.Extend(seconds=60))
    play(engine, lambda number: None, monkeypatch)
    assert engine.told(ev.Log) == []
    assert engine.folder.config().budget is None


def test_a_rejected_command_changes_nothing_and_is_reported(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(trials=1, budget=600.0)
    engine.folder.commands.write_bytes(
        b'{"command": "dance"}\n'
        b'{"command": "stop_model"}\n'
        b'{"command": "share_model", "model": "xgboost", "share": true}\n'
        b'{"command": "extend", "seconds": "long"}\n'
    )
    play(engine, lambda number: None, monkeypatch)
    warnings = [event.message for event in engine.told(ev.Log) if event.level == "warning"]
    assert len(warnings) == 4
    assert "'dance'" in warnings[0]
    assert engine.clock.budget == 600.0
    assert [engine.row(model).held for model in MODELS] == ["", ""]


def test_a_resumed_run_remembers_what_was_asked_of_its_models(
    engine_with: Callable[..., Engine], monkeypatch: Any
) -> None:
    engine = engine_with(trials=1)
    engine.folder.send(cmd.StopModel(model="lightgbm"))
    engine.folder.send(cmd.ShareModel(model="lightgbm", share=4.0))
    engine.folder.send(cmd.IncludeModel(model="lightgbm", include=False))
    play(engine, lambda number: None, monkeypatch)
    again = Engine(engine.folder, engine.conductor._plan, Clock(None, 0.0), 1, resumed=True)
    record = again.conductor.scheduler.models["lightgbm"]
    assert (record.stopped, record.share) == (True, 4.0)
    assert again.conductor.board.left_out == {"lightgbm"}
    assert again.told(ev.Log) == []
