"""Rows without a target in a run: kept, counted, given to the models that learn from them, and never a way for labels to leak."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp import files
from tabapp.engine.fit.features import RunFeatures, features_folder, recipe_id
from tabapp.engine.fit.fold_task import PRETRAINED, FoldTask
from tabapp.engine.fit.jobs import FitJob, FitResult
from tabapp.engine.fit.run_data import UNLABELED, RunData
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.loop.recovery import recover
from tabapp.engine.plan.make_plan import LEAST_UNLABELED, Plan, approximate_shape, make_plan
from tabapp.engine.plan.prepare import infer, n_rows, read_data, read_more
from tabapp.engine.plan.schema_events import schema_event
from tabapp.engine.plan.write_rows import write_rows
from tabapp.errors import DataError
from tabapp.features.arrays import FeatureRecipe
from tabapp.models import registry
from tabapp.nn.pretraining import MEASURED
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run

LABELED, WITHOUT, MORE = 40, 20, 400
SMALL = {
    "ft_transformer_pretrained": {"n_layers": 2, "d_token": 16, "pretraining_steps": 8, "max_epochs": 2},
    "tab_transformer_pretrained": {"n_layers": 1, "d_token": 16, "pretraining_steps": 8, "max_epochs": 2},
    "mlp": {"max_epochs": 2},
    "linear": {},
    "npt": {"n_steps": 6, "n_evaluations": 1, "d_embedding": 8, "n_layers": 2, "unlabeled": 1.0},
}


def write_tables(place: Path) -> tuple[Path, Path]:
    """A table in which every third row has no target, and a file of further rows with other columns, one of them a target."""
    generator = np.random.default_rng(0)

    def rows(n: int) -> dict[str, object]:
        x = generator.normal(size=n)
        return {"x": x, "z": x + 0.1 * generator.normal(size=n), "c": generator.choice(["a", "b", "d"], n)}

    table = rows(LABELED + WITHOUT)
    labels = np.where(table["x"] > 0, "yes", "no").astype(object)
    labels[2::3] = ""
    pl.DataFrame({**table, "y": labels}).write_csv(place / "table.csv")
    pl.DataFrame({"y": ["yes"] * MORE, **rows(MORE), "note": ["n"] * MORE}).write_csv(place / "more.csv")
    return place / "table.csv", place / "more.csv"


def make_run(place: Path, name: str, *, more: bool = True) -> tuple[RunFolder, Plan]:
    table, extra = write_tables(place)
    config = RunConfig(
        data=str(table), target="y", folds=2, trials=1, device="cpu", unlabelled=str(extra) if more else None
    )
    folder = create_run(config, place / name)
    reading = read_data(config)
    schema = infer(reading, config)
    found = read_more(config, schema)
    plan = make_plan(config, schema, n_more=n_rows(found))
    write_rows(folder, config, reading, schema, plan, found)
    files.write_bytes(folder.plan, msgspec.json.encode(plan))
    return folder, plan


def test_pretrained_models_start_where_measurements_show_a_gain(tmp_path, monkeypatch):
    table, extra = write_tables(tmp_path)
    config = RunConfig(data=str(table), target="y", device="cpu", unlabelled=str(extra))
    schema = infer(read_data(config), config)

    def started(config: RunConfig) -> set[str]:
        return {each.name for each in make_plan(config, schema, n_more=MORE).competing} & set(registry.variants())

    for name in registry.variants():
        monkeypatch.setattr(type(registry.get(name)), "gained_with", MEASURED if name.startswith("tab_") else ())
    assert started(config) == {"tab_transformer_pretrained"}
    names = tuple(registry.variants())
    assert started(msgspec.structs.replace(config, models=names)) == set(names)
    skipped = next(each for each in make_plan(config, schema, n_more=MORE).models if each.name == "tabnet_pretrained")
    assert skipped.reason is not None
    assert "--models tabnet_pretrained starts it" in skipped.reason


def fit(folder: RunFolder, plan: Plan, name: str, fold: int) -> FitResult:
    plugin = registry.get(name)
    shape = approximate_shape(RunData(folder).schema, plan.n_classes, plan.n_unlabeled)
    params = msgspec.structs.replace(plugin.defaults(plan.task, shape, "cpu"), **SMALL[name])
    job = FitJob(
        fit=f"{name}-0000-f{fold}",
        run=str(folder.path),
        model=name,
        trial=0,
        fold=fold,
        params=msgspec.to_builtins(params),
        recipe=plugin.features(),
        task=plan.task,
        n_classes=plan.n_classes,
        metric=plan.metric,
        run_seed=plan.seed,
        device="cpu",
        libraries="torch",
        n_threads=1,
        soft_deadline=None,
    )
    (result,) = run_fit(job)
    return result


def contents(*places: Path) -> dict[str, bytes]:
    return {
        f"{place.name}/{path.relative_to(place)}": path.read_bytes()
        for place in places
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def change_held_out_targets(folder: RunFolder, fold: int) -> None:
    """Swap the two classes of the rows that a fold scores."""
    path = folder.path / "splits.npz"
    arrays = dict(np.load(io.BytesIO(path.read_bytes()), allow_pickle=False))
    held_out = arrays["fold"] == fold
    arrays["target"] = np.where(held_out, 1 - arrays["target"], arrays["target"])
    np.savez(path, **arrays)


def test_rows_without_a_target_are_kept_and_counted(tmp_path):
    folder, plan = make_run(tmp_path, "runs")
    data = RunData(folder)
    assert (len(data.frame), len(data.target)) == (LABELED, LABELED)
    assert data.unlabeled is not None
    assert data.unlabeled.columns == ["x", "z", "c"]
    assert data.unlabeled.dtypes == [data.frame[name].dtype for name in ("x", "z", "c")]
    assert len(data.unlabeled) == plan.n_unlabeled == WITHOUT + MORE >= LEAST_UNLABELED
    assert set(registry.variants()) <= {model.name for model in plan.models}
    event = schema_event(data.schema, MORE)
    assert (event.rows, event.rows_without_target, event.rows_unlabelled) == (LABELED, WITHOUT, MORE)


def test_variants_are_planned_only_with_enough_rows_without_a_target(tmp_path):
    folder, plan = make_run(tmp_path, "runs", more=False)
    assert plan.n_unlabeled == WITHOUT < LEAST_UNLABELED
    assert [model.name for model in plan.models] == registry.names()
    assert not (set(registry.variants()) & set(registry.names()))
    # The names and the files of features are those of a version without this option.
    assert recipe_id(FeatureRecipe()) == "raw-indicator-False-8"
    fit(folder, plan, "npt", 0)
    state = files.read_json(features_folder(folder, registry.get("npt").features(), 0) / "state" / "features.json")
    assert "rows" not in state["recipe"]
    assert not {"derived", "partners"} & {*state, *state["recipe"], *state["spec"]}


@pytest.mark.parametrize("name", ["ft_transformer_pretrained", "npt"])
def test_fitted_files_do_not_depend_on_the_targets_of_scored_rows(tmp_path, name):
    first, plan = make_run(tmp_path, "first")
    second, _ = make_run(tmp_path, "second")
    change_held_out_targets(second, 0)
    assert (RunData(first).target != RunData(second).target).sum() == len(RunData(first).held_out(0))
    results = [fit(folder, plan, name, 0) for folder in (first, second)]
    made = [
        contents(folder.features, folder.path / PRETRAINED, folder.fits / f"{name}-0000-f0" / "model")
        for folder in (first, second)
    ]
    assert made[0] == made[1]
    assert len(made[0]) >= 4
    assert results[0].score != results[1].score


@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_rows_without_a_target_leave_other_models_unchanged_to_the_bit(tmp_path, name):
    made: list[dict[str, bytes]] = []
    for more in (True, False):
        folder, plan = make_run(tmp_path, f"runs-{more}", more=more)
        if not more:
            (folder.data / UNLABELED).unlink()
            plan = msgspec.structs.replace(plan, n_unlabeled=0)
        fit(folder, plan, name, 0)
        made.append(contents(folder.features, folder.fits / f"{name}-0000-f0" / "model"))
        made[-1]["oof"] = (folder.fits / f"{name}-0000-f0" / "oof.npy").read_bytes()
    assert made[0] == made[1]
    assert len(made[0]) >= 4


def test_pretraining_is_shared_by_folds(tmp_path):
    folder, plan = make_run(tmp_path, "runs")
    name = "tab_transformer_pretrained"
    first = fit(folder, plan, name, 0)
    made = contents(folder.features, folder.path / PRETRAINED)
    second = fit(folder, plan, name, 1)
    assert contents(folder.features, folder.path / PRETRAINED) == made
    assert first.pretrain_seconds > 0 == second.pretrain_seconds
    for result in (first, second):
        assert (result.summary["pretraining_steps"], result.summary["pretraining_rows"]) == (8, WITHOUT + MORE)
    assert features_folder(folder, first.recipe, 1) == features_folder(folder, first.recipe, 0)
    # A model that an analysis trains again, on fewer rows, shares it, too.
    data, scratch = RunData(folder), RunFolder(tmp_path / "scratch")
    few = data.training(0).at(slice(100))
    features = RunFeatures(data, plan.seed, scratch, folder).fitted(first.recipe, 0, few)
    params = files.read_json(folder.fits / first.fit / "params.json")
    task = FoldTask(goal=plan, model=name, params=params, features=features, device="cpu", n_threads=1)
    ready, seconds = task.prepare(tmp_path / "checkpoints")
    assert (ready.context.pretrained.parent, seconds) == (folder.path / PRETRAINED, 0.0)
    assert not scratch.path.exists()


def test_npt_learns_from_rows_without_a_target(tmp_path):
    predictions: list[np.ndarray] = []
    for more in (True, False):
        folder, plan = make_run(tmp_path, f"runs-{more}", more=more)
        if not more:
            (folder.data / UNLABELED).unlink()
        fit(folder, plan, "npt", 0)
        predictions.append(np.load(folder.fits / "npt-0000-f0" / "oof.npy"))
        rows = np.load(folder.fits / "npt-0000-f0" / "rows.npy")
        assert sorted(rows) == sorted(RunData(folder).training(0).places)
    assert not np.array_equal(*predictions)


def test_a_file_without_the_columns_of_the_table_is_rejected(tmp_path):
    table, extra = write_tables(tmp_path)
    config = RunConfig(data=str(table), target="y", unlabelled=str(extra))
    schema = infer(read_data(config), config)
    pl.read_csv(extra).drop("z", "c").write_csv(extra)
    with pytest.raises(DataError, match="--unlabelled lacks columns of the table: 'z', 'c'"):
        read_more(config, schema)


def test_a_damaged_file_of_unlabeled_rows_is_read_again(tmp_path):
    folder, plan = make_run(tmp_path, "runs")
    before = (folder.data / UNLABELED).read_bytes()
    (folder.data / UNLABELED).write_bytes(before[:-100])
    warnings: list[str] = []
    assert recover(folder, folder.config(), warnings.append)[0] == plan
    assert (folder.data / UNLABELED).read_bytes() == before
    assert len(warnings) == 1
