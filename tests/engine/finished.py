"""A finished run that is made in this process: real fits of one quick model, and the events of an engine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tabapp.engine.analyses.finished_run import save_prediction
from tabapp.engine.fit.candidates import Candidate, Scorer, pilots_of
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.loop.fit_orders import job_of
from tabapp.engine.machine.admission import Need
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import infer, read_data, reading_event
from tabapp.engine.plan.schema_events import schema_event
from tabapp.engine.plan.write_rows import write_rows
from tabapp.engine.schedule.work import Work
from tabapp.models import registry
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventLog, RunFolder, create_run

MODEL = "linear"


def write_table(path: Path, task: str, n_rows: int = 240, seed: int = 0) -> Path:
    """A table in which `strong` matters most, `twin` is nearly the same, and `noise` does not matter."""
    generator = np.random.default_rng(seed)
    strong, weak, noise = generator.normal(size=(3, n_rows))
    twin = strong + generator.normal(scale=0.1, size=n_rows)
    group = generator.choice(["east", "west"], n_rows)
    signal = 2 * strong + 0.5 * weak + generator.normal(scale=0.5, size=n_rows)
    target = [f"{x:.4f}" for x in signal] if task == "regression" else np.where(signal > 0, "yes", "no")
    cells = zip(strong, twin, weak, noise, group, target, strict=True)
    lines = [",".join([*(f"{x:.5f}" for x in row[:4]), row[4], str(row[5])]) for row in cells]
    path.write_text("\n".join(["strong,twin,weak,noise,group,outcome", *lines]) + "\n")
    return path


def make_finished_run(
    data: Path,
    runs_dir: Path,
    *,
    model: str = MODEL,
    params: dict[str, object] | None = None,
    folds: int = 3,
    seed: int = 0,
) -> RunFolder:
    """Fit one trial of a model on all folds, and write what an engine writes."""
    config = RunConfig(data=str(data), target="outcome", folds=folds, trials=1, models=(model,), seed=seed)
    folder = create_run(config, runs_dir)
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema)
    write_rows(folder, config, reading, schema, plan)
    (folder.path / "plan.json").write_bytes(_json(plan))
    candidate = fitted(folder, plan, model, params or {})
    run_data = RunData(folder)
    scorer = Scorer(folder, run_data, plan.metric, seed)
    prediction, covered = scorer.out_of_fold(candidate)
    score = scorer.score(candidate)
    save_prediction(folder, run_data.scored.at(covered), prediction[covered])
    row = ev.LeaderboardRow(
        rank=2, model=model, title=model.title(), family="classic", score=score.value, low=score.low, high=score.high,
        folds=plan.folds, trials=1, trial=0, status="ok", in_ensemble=1.0,
    )  # fmt: skip
    ensemble = ev.LeaderboardRow(
        rank=1, model="ensemble", title="Ensemble", family="ensemble", score=score.value, low=score.low, high=score.high,
        folds=plan.folds, status="ok", in_ensemble=1.0,
    )  # fmt: skip
    log = EventLog(folder.events)
    for event in (
        ev.RunStarted(run=folder.run, name=folder.run, data=str(data), pid=1, seed=seed, budget=None, version="0"),
        reading_event(reading, config),
        schema_event(schema),
        plan_event(plan, schema, config),
        ev.LeaderboardChanged(rows=(ensemble, row)),
        ev.EnsembleChanged(
            members=(ev.EnsembleMember(model=model, trial=0, weight=1.0),),
            score=score.value, low=score.low, high=score.high,
        ),
        ev.RunFinished(
            status="ok", run=folder.run, bundle=None, task=plan.task, target=plan.target, metric=plan.metric,
            greater_is_better=plan.metric != "rmse", best=None, test_score=None, seconds=1.0, leaderboard=(ensemble, row),
            importances=(), agreement={},
        ),
    ):  # fmt: skip
        log.append(event)
    log.close()
    return folder


def fitted(
    folder: RunFolder, plan: Plan, model: str, params: Mapping[str, object], seconds: float | None = None
) -> Candidate:
    """A trial of a model on all folds.

    Args:
        seconds: time after which a fit returns the best that it has.
    """
    plugin = registry.get(model)
    candidate = Candidate(model, 0, dict(params), plan.folds, pilots_of(plugin, plan.folds))
    for fold in range(plan.folds):
        end = None if seconds is None else time.monotonic() + seconds
        deadlines = None if end is None else (end, end)
        need = Need(model, "cpu", 0)
        job = job_of(Work(candidate, fold), plan, str(folder.path), plugin, "trees", deadlines, need)
        (candidate.results[fold],) = run_fit(job)
    return candidate


def _json(plan: object) -> bytes:
    import msgspec

    return msgspec.json.encode(plan)
