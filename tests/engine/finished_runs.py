"""Finished runs made in this process, which takes a fraction of the time of a real engine: fits, ensemble and bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tabapp import files
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.intervals import fit_intervals
from tabapp.bundle.writing.write import BundleContents, write_bundle
from tabapp.engine.finish.refit import sources_of
from tabapp.engine.fit.candidates import Scorer
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.selection import select_ensemble
from tabapp.engine.plan.make_plan import approximate_shape, make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import read_sample, write_rows
from tabapp.models import registry
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.finished import fitted


def make_run(
    runs: Path,
    table: Path,
    target: str,
    models: tuple[str, ...],
    folds: int | None = 2,
    *,
    seconds: float | None = None,
    **options: Any,
) -> RunFolder:
    """Fit the defaults of some models on all folds, select the ensemble, and write its bundle.

    Args:
        seconds: time after which a fit returns the best that it has.
        options: further fields of the configuration.
    """
    config = RunConfig(data=str(table), target=target, models=models, folds=folds, trials=1, **options)
    folder = create_run(config, runs)
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema)
    plan = write_rows(folder, config, reading, schema, plan)
    files.write_bytes(folder.plan, msgspec.json.encode(plan))
    data = RunData(folder)
    shape = approximate_shape(schema, plan.n_classes)
    candidates = [
        fitted(folder, plan, name, msgspec.to_builtins(registry.get(name).defaults(plan.task, shape, "cpu")), seconds)
        for name in models
    ]
    scorer = Scorer(folder, data, plan.metric, plan.seed)
    selected = select_ensemble(candidates, scorer, plan.metric, plan.seed)
    assert selected is not None
    files.write_bytes(folder.path / "ensemble.json", msgspec.json.encode(selected.event()))
    models = FoldModels.of_run(folder, data, plan)
    is_regression = plan.task == "regression"
    truth = scorer.target
    contents = BundleContents(
        run=folder.run,
        name="",
        schema=schema,
        metric=plan.metric,
        metrics=[
            MetricValue(name=plan.metric, score=selected.score.value, low=selected.score.low, high=selected.score.high)
        ],
        validation=plan.validation,
        leaderboard=[],
        seed=plan.seed,
        data=files.read_json(folder.data / "fingerprint.json"),
        created_at="2026-01-01T00:00:00+00:00",
        candidates=sources_of(models, selected.members, folder.path / "sources"),
        targets=data.target_by_number,
        sample=read_sample(folder),
        intervals=fit_intervals(truth, selected.prediction) if is_regression else None,
    )
    write_bundle(folder.bundle, contents)
    return folder
