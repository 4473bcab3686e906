"""Models that are trained again are those of the run, and the device of a run may be missing where it is analyzed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tabapp import files
from tabapp.engine.analyses.diagnosing import measure_robustness
from tabapp.engine.analyses.faithfulness import measure_faithfulness
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.fitting_again import TimeLimit, fit_again
from tabapp.engine.analyses.learning_curves import measure_row_curve
from tabapp.engine.finish.export import export_run
from tabapp.engine.fit.candidates import pilots_of
from tabapp.engine.plan import device as planning
from tabapp.engine.plan.make_plan import Plan
from tabapp.errors import UsageError
from tabapp.models import registry
from tabapp.run.protocol.exporting import ExportOptions
from tabapp.run.record.folder import RunFolder
from tests.engine.finished import make_finished_run, write_table
from tests.engine.finished_runs import make_run


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lightgbm", "mlp"])
def test_models_trained_again_on_the_rows_of_a_fold_are_those_of_the_run(tmp_path: Path, model: str) -> None:
    data = write_table(tmp_path / "all.csv", "binary", 150)
    run = FinishedRun(make_finished_run(data, tmp_path, model=model))
    candidate, limit = run.best_of(model), TimeLimit(None)
    assert pilots_of(registry.get(model), candidate.n_folds) == 2
    summaries = []
    for fold in range(3):
        # The last fold reuses the numbers of steps of the others.
        pilots = summaries if fold == 2 else []
        predicted, summary = fit_again(run, candidate, fold, run.data.training(fold), limit=limit, pilots=pilots)
        np.testing.assert_array_equal(predicted.astype(np.float32), candidate.out_of_fold(run.folder, fold))
        recorded = dict(candidate.results[fold].summary)
        # The fits of a run add how much each column is used.
        assert recorded.pop("used_columns", {"a": 1.0})
        assert summary == recorded
        summaries.append(summary)


def test_every_point_of_a_learning_curve_has_the_recipe_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model = write_table(tmp_path / "all.csv", "binary", 150), "lightgbm"
    run = FinishedRun(make_finished_run(data, tmp_path, model=model))
    plugin = type(registry.get(model))
    refit, given = plugin.refit, []

    def watched(self, train, params, summaries, context):
        given.append((len(train), [each["trees"] for each in summaries]))
        return refit(self, train, params, summaries, context)

    monkeypatch.setattr(plugin, "refit", watched)
    found = measure_row_curve(run, model)
    assert [n_rows for n_rows, _ in given] == [point.place for point in found.points[:-1]], "once for each share"
    assert all(len(trees) == 2 for _, trees in given)


def made_on_a_gpu(folder: RunFolder, model: str, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The plan of a run says that it had a GPU, which its model used, and this machine has none."""
    plan = msgspec.json.decode(folder.plan.read_bytes(), type=Plan)
    models = tuple(msgspec.structs.replace(each, device="cuda") for each in plan.models)
    assert model in {each.name for each in models}
    files.write_bytes(folder.plan, msgspec.json.encode(msgspec.structs.replace(plan, device="cuda:0", models=models)))

    def missing(name: str) -> str:
        raise UsageError(f"The device {name!r} does not exist.")

    monkeypatch.setattr(planning, "existing_gpu", missing)
    return folder


@pytest.mark.slow
def test_a_run_of_a_gpu_is_diagnosed_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = write_table(tmp_path / "all.csv", "binary", 210), "ft_transformer"
    folder = make_finished_run(data, tmp_path, model=model, params={"max_epochs": 1}, folds=2)
    run = FinishedRun(made_on_a_gpu(folder, model, monkeypatch))
    assert measure_robustness(run).n_rows == 210
    assert len(measure_row_curve(run).points) == 2
    assert len(measure_faithfulness(run).rows) == 5


@pytest.mark.slow
def test_a_run_of_a_gpu_is_exported_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_table(tmp_path / "all.csv", "binary", 120)
    folder = made_on_a_gpu(make_run(tmp_path / "runs", data, "outcome", ("mlp",), seconds=1), "mlp", monkeypatch)
    for name, options in (("refit", ExportOptions(refit=True)), ("distilled", ExportOptions(distill="mlp"))):
        export_run(folder, tmp_path / f"{name}.tabapp", options, lambda message: None)
        assert (tmp_path / f"{name}.tabapp").is_file()
