"""The other targets of a run with several: learned by models that can, and never seen of a row that is scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.plugin import NPT, sized

from tabapp.engine.draft import make_draft
from tabapp.engine.fit.features import features_folder
from tabapp.engine.fit.fold_task import described
from tabapp.engine.fit.jobs import FitJob
from tabapp.engine.fit.run_data import OTHER_TARGETS, UNLABELED_OTHERS, RunData
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.plan.make_plan import Plan, approximate_shape
from tabapp.engine.plan.prepare import read_data
from tabapp.engine.plan.write_rows import write_rows, write_table
from tabapp.features.arrays import OtherTarget, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.nn.training.params import OTHERS_SHARE
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.plugins.networks.test_npt import SPEC, made
from tests.plugins.tables import make_context

ROWS = 60
SMALL = {
    "mlp": {"widths": (8,), "max_epochs": 2, "others_share": OTHERS_SHARE},
    "resnet": {"n_layers": 1, "width": 8, "max_epochs": 2, "others_share": OTHERS_SHARE},
    "tabm": {"n_members": 2, "width": 8, "max_epochs": 2, "n_bins": 0, "others_share": OTHERS_SHARE},
    "ft_transformer": {"n_layers": 2, "d_token": 16, "max_epochs": 2, "others_share": OTHERS_SHARE},
    "npt": {"n_steps": 6, "n_evaluations": 1, "d_embedding": 8, "n_layers": 2, "other_targets": True},
}
MORE = (("npt", "sum"), ("tabm", "sign"), ("resnet", "sum"), ("ft_transformer", "size"))


def make_run(place: Path, target: str, *, lacks: str | None = None) -> tuple[RunFolder, Plan]:
    """The run of one of three targets: a number, two classes, and three classes with missing cells.

    Args:
        lacks: the target that every other row lacks.
    """
    generator = np.random.default_rng(0)
    x, z = generator.normal(size=(2, ROWS))
    three = np.where(x + z > 0.5, "high", np.where(x + z < -0.5, "low", "middle")).astype(object)
    three[:5] = ""
    columns = {"x": x, "z": z, "sum": x + z, "sign": np.where(x > 0, "yes", "no"), "size": three}
    if lacks is not None:
        columns[lacks] = np.where(np.arange(ROWS) % 2, columns[lacks].astype(str), "")
    place.mkdir()
    pl.DataFrame(columns).write_csv(place / "table.csv")
    config = RunConfig(data=str(place / "table.csv"), target="sum,sign,size", folds=2, trials=1, device="cpu")
    reading = read_data(config)
    found = {each.target: each for each in make_draft(config, reading, None, show=lambda event: None).targets}[target]
    folder = create_run(found.config, place / "runs")
    write_rows(folder, found.config, reading, found.schema, found.plan)
    return folder, found.plan


def fit(folder: RunFolder, plan: Plan, name: str) -> Path:
    plugin = registry.get(name)
    shape = approximate_shape(RunData(folder).schema, plan.n_classes)
    params = msgspec.structs.replace(plugin.defaults(plan.task, shape, "cpu"), **SMALL[name])
    job = FitJob(
        fit=f"{name}-0000-f0",
        run=str(folder.path),
        model=name,
        trial=0,
        fold=0,
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
    run_fit(job)
    return folder.fits / job.fit


def contents(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted((place / "model").rglob("*")) if p.is_file()}


def test_the_other_targets_are_stored_and_planned(tmp_path):
    folder, plan = make_run(tmp_path / "a", "sum")
    data = RunData(folder)
    assert data.others is not None
    assert dict(data.others.schema) == {"sign": pl.Int32, "size": pl.Int32}
    assert data.others["size"].null_count() == 5
    assert {column.name for column in data.schema.features} == {"x", "z"}
    assert plan.n_other_targets == 2
    shape = approximate_shape(data.schema, plan.n_classes, 0, plan.n_other_targets)
    for name in SMALL:
        plugin = registry.get(name)
        (joint,) = plugin.portfolio(plan.task, shape, "cpu")
        assert joint != plugin.defaults(plan.task, shape, "cpu")
        assert plugin.portfolio(plan.task, approximate_shape(data.schema, plan.n_classes), "cpu") == ()


@pytest.mark.parametrize(
    ("name", "target"),
    [("mlp", "size"), ("npt", "sign"), *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_a_fit_does_not_depend_on_other_targets_of_scored_rows(tmp_path, name, target):
    places: list[Path] = []
    predictions: list[np.ndarray] = []
    for case in ("first", "second", "third"):
        folder, plan = make_run(tmp_path / case, target)
        data = RunData(folder)
        assert data.others is not None
        rows = {"first": [], "second": data.held_out(0).places, "third": data.training(0).places}[case]
        others = data.others.clone()
        for column in others.columns:
            # The cells of these rows in another order, so that the classes stay the same.
            moved = others[column].to_numpy().copy()
            moved[rows] = np.roll(moved[rows], 7)
            dtype = others[column].dtype
            others = others.with_columns(pl.Series(column, moved).fill_nan(None).cast(dtype))
        others.write_ipc(folder.data / OTHER_TARGETS, compression="uncompressed")
        places.append(fit(folder, plan, name))
        predictions.append(np.load(places[-1] / "oof.npy"))
    first, second, third = map(contents, places)
    assert first == second
    assert first != third
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert np.abs(predictions[0] - predictions[2]).max() > 0


def test_rows_without_a_target_keep_their_other_targets(tmp_path):
    folder, _ = make_run(tmp_path / "a", "sum", lacks="sum")
    data = RunData(folder)
    assert data.others is not None
    assert data.unlabeled is not None
    assert data.unlabeled_others is not None
    assert data.unlabeled.height == data.unlabeled_others.height == data.others.height == ROWS // 2
    assert data.unlabeled_others.schema == data.others.schema
    # The first five rows have no size.
    assert data.unlabeled_others["size"].is_null().arg_true().to_list() == [0, 1, 2]
    # The more frequent class, "yes", comes first.
    no = (data.unlabeled["x"] <= 0).cast(pl.Int32)
    assert data.unlabeled_others["sign"].to_list() == no.to_list()
    assert [other.n_classes for other in described(data)] == [2, 3]
    other, _ = make_run(tmp_path / "b", "size", lacks="sum")
    known = RunData(other)
    assert known.unlabeled is not None
    assert known.unlabeled_others is not None
    assert known.unlabeled_others["sum"].is_null().to_list() == [True, False, True, False, True]


def test_the_other_targets_of_more_rows_are_not_read(tmp_path):
    folder, _ = make_run(tmp_path / "a", "sum", lacks="sum")
    config, schema = folder.config(), RunData(folder).schema
    reading = read_data(config)
    more = reading.frame.head(7)
    write_table(folder, config, reading, schema, more)
    data = RunData(folder)
    assert data.unlabeled is not None
    assert data.unlabeled_others is not None
    assert data.unlabeled.height == data.unlabeled_others.height == ROWS // 2 + 7
    assert data.unlabeled_others["sign"].is_null().to_list() == [False] * (ROWS // 2) + [True] * 7


@pytest.mark.parametrize(
    ("name", "target"),
    [("mlp", "sum"), ("npt", "sign"), *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_a_fit_learns_from_other_targets_of_rows_without_its_target(tmp_path, name, target):
    found: list[dict[str, bytes]] = []
    for case in ("first", "again", "changed"):
        folder, plan = make_run(tmp_path / case, target, lacks=target)
        others = RunData(folder).unlabeled_others
        assert others is not None
        if case == "changed":
            others = others.select(pl.all().reverse())
            others.write_ipc(folder.data / UNLABELED_OTHERS, compression="uncompressed")
        found.append(contents(fit(folder, plan, name)))
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize(
    "name", ["npt", "tabm", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mlp", "resnet", "ft_transformer"))]
)
def test_a_model_of_several_targets_loads_with_equal_predictions(tmp_path, name):
    folder, plan = make_run(tmp_path / "run", "size")
    place = fit(folder, plan, name)
    plugin, data = registry.get(name), RunData(folder)
    model = plugin.load(place / "model")
    preparer = FeaturePreparer.load(features_folder(folder, plugin.features(), 0) / "state")
    model.check(preparer.spec, plan.task, plan.n_classes)
    predicted = model.predict(preparer.transform(data.held_out(0).of(data.frame)))
    assert predicted.shape[1] == plan.n_classes == 3
    np.testing.assert_array_equal(predicted, np.load(place / "oof.npy"))


@pytest.mark.slow
def test_npt_predicts_the_other_targets(tmp_path):
    def both(n: int, seed: int) -> Table:
        table = made(n, seed)
        positive = (table.numeric[:, 2] > 0).astype(float)
        return replace(table, others=np.column_stack([100 - 3 * table.numeric[:, 0], positive]).astype(np.float64))

    context = make_context("regression", SPEC, 1, tmp_path)
    context.other_targets = (OtherTarget(name="d"), OtherTarget(name="e", n_classes=2))
    params = sized(
        "mini",
        6,
        d_embedding=8,
        n_layers=2,
        n_heads=2,
        n_steps=150,
        n_evaluations=3,
        other_targets=True,
        learning_rate=1e-2,
    )
    model = NPT().fit(both(240, 0), both(60, 1), params, context)
    assert isinstance(model, NPTModel)
    test = both(100, 2)
    number, classes = model.predict_others(test)
    assert test.others is not None
    # A constant prediction has a mean squared error of 9 and an accuracy of a half.
    assert np.mean((number - test.others[:, 0]) ** 2) < 3
    assert np.mean(classes.argmax(1) == test.others[:, 1]) > 0.8
