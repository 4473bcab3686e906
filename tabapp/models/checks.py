"""What every model must do, whatever it is: the contract as checks that anybody can run on a plugin, ours included.

A check is a function that returns when its promise is kept and raises `Broken` with a sentence when it is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from tabapp import metrics
from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.metrics import Task
from tabapp.models.check_subject import Broken, SitsOut, Subject, check_prediction, demand
from tabapp.models.check_tables import make_table, shape_of
from tabapp.models.contract import FitStopped, FittedModel, Params, Plugin, Shape

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
DATA_ONLY = (".json", ".safetensors", ".ubj", ".txt", ".cbm", ".npy", ".npz", ".csv", ".onnx")
"""Endings of files that hold data and cannot execute."""
EXPECTED_GAIN = 0.97
FEW_STEPS = {"max_epochs": 4, "n_trees": 40, "n_estimators": 40, "n_steps": 150}


def _saved_and_loaded(plugin: Plugin, model: FittedModel) -> FittedModel:
    with TemporaryDirectory(prefix="tabapp-check-") as name:
        folder = Path(name)
        model.save(folder)
        files = [path for path in folder.rglob("*") if path.is_file()]
        demand(bool(files), "save writes nothing")
        odd = [path.name for path in files if path.suffix not in DATA_ONLY]
        demand(not odd, f"save writes {', '.join(odd)}; only data may be saved ({', '.join(DATA_ONLY)})")
        pickled = [path.name for path in files if path.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05", b"\x80\x02")]
        demand(not pickled, f"{', '.join(pickled)} is a pickle, which can execute code")
        return plugin.load(folder)


def learns_and_saves(subject: Subject, task: Task) -> None:
    """Beats a constant prediction on new rows, reports finite scores, and predicts bit-equally after saving and loading."""
    table, spec, n_classes = subject.accepted(task)
    reports: list[float] = []
    model = subject.fit(task, table, spec, n_classes, on_report=lambda step, value: reports.append(value))
    new, _, _ = make_table(task, n_rows=300, seed=1)
    prediction = model.predict(Table(new.numeric, new.categorical))
    check_prediction(prediction, task, 300, n_classes)
    truth = new.target
    assert truth is not None
    flat = np.full(300, truth.mean()) if task == "regression" else np.full((300, n_classes), 1 / n_classes)
    name = "rmse" if task == "regression" else "log_loss"
    loss, constant = metrics.loss(name, truth, prediction), metrics.loss(name, truth, flat.astype(np.float32))
    demand(
        loss < EXPECTED_GAIN * constant,
        f"its {name} of {loss:.4g} on new rows does not beat a constant's {constant:.4g}",
    )
    demand(bool(reports), "fit never calls context.report, so nobody sees it learn and nothing can stop it")
    demand(all(math.isfinite(value) for value in reports), "some reported scores are not finite")
    loaded = _saved_and_loaded(subject.plugin, model)
    demand(np.array_equal(loaded.predict(new), prediction), "a loaded model does not predict bit-equally")
    demand(loaded.summary() == model.summary(), "a loaded model has another summary")
    msgspec.json.encode(model.summary())
    shares = model.attention(new)
    if shares is not None:
        demand(shares.shape == (300, len(spec.sources)), f"attention has the shape {shares.shape}")
        demand(bool(np.isfinite(shares).all()), "some attention is not finite")
        demand(bool(np.allclose(shares.sum(axis=1), 1, atol=1e-4)), "a row's attention does not sum to 1")


def is_deterministic(subject: Subject) -> None:
    """The same seed gives the same model."""
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task)
    small = _quick(subject)
    # Without a deadline, which comes at another step each time.
    first, second = (
        small.fit(task, table, spec, n_classes, seed=3, soft_deadline=None).predict(table) for _ in range(2)
    )
    demand(np.array_equal(first, second), "two fits with one seed predict differently")


def rows_are_independent(subject: Subject) -> None:
    """A row's prediction does not depend on the rows that are predicted with it."""
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task)
    model = _quick(subject).fit(task, table, spec, n_classes)
    together = model.predict(table.take(slice(0, 10)))
    alone = np.concatenate([model.predict(table.take(slice(i, i + 1))) for i in range(10)])
    demand(np.allclose(together, alone, rtol=1e-4, atol=1e-5), "predictions change with the rows beside them")
    check_prediction(model.predict(table.take(slice(0, 0))), task, 0, n_classes)


def unseen_and_missing_levels(subject: Subject) -> None:
    """Levels that training never had, and missing ones, give proper predictions."""
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task)
    model = _quick(subject).fit(task, table, spec, n_classes)
    for code in (UNSEEN, MISSING):
        odd = Table(table.numeric, np.full_like(table.categorical, code))
        check_prediction(model.predict(odd), task, len(table), n_classes)
    for value in (-1e3, 1e3):
        odd = Table(np.full_like(table.numeric, value), table.categorical)
        check_prediction(model.predict(odd), task, len(table), n_classes)


def missing_numbers(subject: Subject) -> None:
    """NaN is taken where the recipe leaves it in: single cells, and whole columns."""
    recipe = subject.plugin.features()
    if recipe.numeric != "raw" and recipe.missing != "keep":
        raise SitsOut("its recipe fills missing numbers")
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task)
    table.numeric[::3] = np.nan
    table.numeric[:, 3] = np.nan
    model = _quick(subject).fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def one_kind_of_column(subject: Subject, n_numeric: int, cardinalities: tuple[int, ...]) -> None:
    """Tables with numbers only, with levels only, and with very many levels."""
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task, n_numeric=n_numeric, cardinalities=cardinalities)
    model = _quick(subject).fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def constant_columns_and_target(subject: Subject, task: Task) -> None:
    """Columns of one value, and a target of one value, which is then what is predicted."""
    table, spec, n_classes = subject.accepted(task)
    flat = Table(np.zeros_like(table.numeric), np.full_like(table.categorical, 2), table.target)
    small = _quick(subject)
    check_prediction(small.fit(task, flat, spec, n_classes).predict(flat), task, len(flat), n_classes)
    assert table.target is not None
    value = table.target[0]
    model = small.fit(task, Table(table.numeric, table.categorical, np.full_like(table.target, value)), spec, n_classes)
    prediction = model.predict(table)
    check_prediction(prediction, task, len(table), n_classes)
    kept = np.allclose(prediction, value, rtol=1e-4) if task == "regression" else (prediction.argmax(1) == value).all()
    demand(bool(kept), "a target of one value is not what is predicted")
    loaded = _saved_and_loaded(subject.plugin, model)
    demand(np.array_equal(loaded.predict(table), prediction), "a loaded model does not predict bit-equally")


def a_class_that_training_lacks(subject: Subject, missing_class: int) -> None:
    """A fold whose training rows lack a class has a column for it nevertheless."""
    table, spec, n_classes = subject.accepted("multiclass", n_classes=4)
    assert table.target is not None
    train, valid = table.take(table.target != missing_class), table.take(slice(0, 60))
    model = _quick(subject).fit("multiclass", train, spec, n_classes, valid=valid)
    prediction = model.predict(table)
    check_prediction(prediction, "multiclass", len(table), 4)
    demand(prediction[:, missing_class].mean() < 0.25, "a class that training lacks is predicted often")


def few_rows(subject: Subject, task: Task) -> None:
    """As few rows as it says that it takes."""
    table, spec, n_classes = subject.accepted(task, n_rows=20)
    model = _quick(subject).fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def an_undefined_metric(subject: Subject) -> None:
    """Early-stopping rows of one class, on which roc_auc is not defined."""
    table, spec, n_classes = subject.accepted("binary")
    one_class = table.take(table.target == 1).take(slice(0, 30))
    model = _quick(subject).fit("binary", table, spec, n_classes, valid=one_class, metric="roc_auc")
    check_prediction(model.predict(table), "binary", len(table), 2)


def any_metric(subject: Subject, metric: str) -> None:
    """Whatever metric the run has."""
    table, spec, n_classes = subject.accepted("binary")
    model = _quick(subject).fit("binary", table, spec, n_classes, metric=metric)
    check_prediction(model.predict(table), "binary", len(table), 2)


def a_deadline_in_the_past(subject: Subject, task: Task) -> None:
    """A fit whose time is over still returns a model, soon."""
    table, spec, n_classes = subject.accepted(task, n_rows=2000)
    started = time.monotonic()
    model = subject.fit(task, table, spec, n_classes, soft_deadline=started - 1)
    seconds = time.monotonic() - started
    demand(seconds < 15, f"a fit whose deadline was over took {seconds:.0f} s")
    check_prediction(model.predict(table), task, len(table), n_classes)


def lets_itself_be_stopped(subject: Subject) -> None:
    """`FitStopped`, raised by `report`, passes through `fit`."""
    task = _any_task(subject)
    table, spec, n_classes = subject.accepted(task)

    def stop(step: int, value: float) -> None:
        raise FitStopped

    try:
        subject.fit(task, table, spec, n_classes, on_report=stop)
    except FitStopped:
        return
    raise Broken("fit catches FitStopped, or never reports, so nothing can stop it")


def weights_count(subject: Subject) -> None:
    """Rows of little weight have little say."""
    table, spec, n_classes = subject.accepted("regression", n_numeric=1, cardinalities=(3,))
    heavy = np.random.default_rng(0).random(len(table)) < 0.5
    target = np.where(heavy, 10.0, -10.0)
    numeric, categorical = np.zeros_like(table.numeric), np.full_like(table.categorical, 2)
    weighted = Table(numeric, categorical, target, np.where(heavy, 1.0, 1e-3).astype(np.float32))
    mean = [
        float(subject.fit("regression", rows, spec, n_classes).predict(rows).mean())
        for rows in (weighted, Table(numeric, categorical, target))
    ]
    demand(mean[0] > mean[1] + 2, "row weights change nothing")


def parameters_and_costs(subject: Subject, task: Task, n_rows: int) -> None:
    """Drawn parameters are of the declared type, go through JSON, refuse unknown names, and have a cost."""
    import optuna

    plugin, shape = subject.plugin, Shape(n_rows, 4, 2, {"regression": 1, "binary": 2, "multiclass": 3}[task])
    if task not in plugin.tasks:
        raise SitsOut(f"it does not do {task} tasks")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [plugin.search_space(study.ask(), task, shape, "cpu") for _ in range(20)]
    for params in (plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu"), *drawn):
        demand(isinstance(params, plugin.params_type), f"parameters are {type(params).__name__}, not params_type")
        again = msgspec.json.decode(msgspec.json.encode(params), type=plugin.params_type)
        demand(again == params, "parameters change on their way through JSON")
        cost = plugin.cost(task, shape, params, "cpu")
        demand(cost.seconds > 0 and cost.n_bytes > 0, "its cost is not positive")
    demand(plugin.supports(task, shape) is not None or plugin.merit(task, shape) > 0, "its merit is not positive")
    try:
        msgspec.convert({"no_such_parameter": 1}, plugin.params_type)
    except msgspec.ValidationError as error:
        demand("no_such_parameter" in str(error), "an unknown parameter is not refused by name")
    else:
        raise Broken("an unknown parameter is not refused")


def memory_stays_within_the_estimate(subject: Subject) -> None:
    """A fit on 10,000 rows takes no more memory than `cost` said, beside what Python and the libraries have taken before."""
    from tabapp.models.check_memory import fit_in_a_process

    task = _any_task(subject)
    columns: dict[str, Any] = {"n_rows": 10_000, "n_numeric": 20, "cardinalities": (10, 5)}
    table, spec, n_classes = make_table(task, **columns)
    shape = shape_of(table, spec, n_classes)
    if reason := subject.plugin.supports(task, shape):
        raise SitsOut(reason)
    params = subject.plugin.defaults(task, shape, "cpu")
    estimate = subject.plugin.cost(task, shape, params, "cpu").n_bytes
    used = fit_in_a_process(subject.plugin.name, task, columns, seconds=min(subject.fit_seconds, 5.0))
    sentence = f"a fit on 10,000 rows took {used / 1e6:,.0f} MB where cost said {estimate / 1e6:,.0f} MB"
    demand(used <= 1.5 * estimate, sentence)


def describes_itself(subject: Subject) -> None:
    """Name, title, paper and tasks are there, and a table without features is declined in a sentence."""
    plugin = subject.plugin
    demand(plugin.name.isidentifier(), f"its name {plugin.name!r} is no identifier")
    demand(bool(plugin.title) and bool(plugin.paper), "it has no title or no paper")
    demand(plugin.family in ("gbdt", "deep", "classic"), f"its family is {plugin.family!r}")
    demand(bool(plugin.tasks) and set(plugin.tasks) <= set(TASKS), f"its tasks are {plugin.tasks!r}")
    reason = plugin.supports(plugin.tasks[0], Shape(1000, 0, 0, 2))
    demand(bool(reason), "it does not decline a table without features")
    demand(str(reason).endswith("."), f"its reason for sitting out is no sentence: {reason!r}")


def _any_task(subject: Subject) -> Task:
    return "binary" if "binary" in subject.plugin.tasks else subject.plugin.tasks[0]


def _quick(subject: Subject) -> Subject:
    """The same plugin with few steps, where its parameters bound them by a usual name: for what is not about learning."""

    def few_steps(params: Params) -> Params:
        params = subject.smaller(params)
        fewer = {name: min(most, getattr(params, name)) for name, most in FEW_STEPS.items() if hasattr(params, name)}
        return msgspec.structs.replace(params, **fewer)

    return Subject(subject.plugin, min(subject.fit_seconds, 5.0), few_steps)


CHECKS: tuple[tuple[str, Callable[[Subject], None]], ...] = (
    ("describes itself", describes_itself),
    *((f"learns, saves and loads: {t}", lambda s, t=t: learns_and_saves(s, t)) for t in TASKS),
    ("same seed, same model", is_deterministic),
    ("rows are independent", rows_are_independent),
    ("unseen and missing levels, extreme numbers", unseen_and_missing_levels),
    ("missing numbers", missing_numbers),
    ("numeric columns only", lambda s: one_kind_of_column(s, 3, ())),
    ("categorical columns only", lambda s: one_kind_of_column(s, 0, (6, 4))),
    ("many levels", lambda s: one_kind_of_column(s, 1, (300,))),
    *((f"constant columns, constant target: {t}", lambda s, t=t: constant_columns_and_target(s, t)) for t in TASKS),
    *((f"training lacks class {c} of 4", lambda s, c=c: a_class_that_training_lacks(s, c)) for c in (0, 1, 3)),
    *((f"few rows: {t}", lambda s, t=t: few_rows(s, t)) for t in TASKS),
    ("a metric that is not defined", an_undefined_metric),
    *(
        (f"metric {m}", lambda s, m=m: any_metric(s, m))
        for m in ("accuracy", "f1", "average_precision", "brier", "balanced_accuracy", "log_loss")
    ),
    *((f"a deadline in the past: {t}", lambda s, t=t: a_deadline_in_the_past(s, t)) for t in TASKS),
    ("can be stopped", lets_itself_be_stopped),
    ("row weights count", weights_count),
    *(
        (f"parameters and costs: {t}, {n:,} rows", lambda s, t=t, n=n: parameters_and_costs(s, t, n))
        for t in TASKS
        for n in (300, 200_000)
    ),
    ("memory within the estimate", memory_stays_within_the_estimate),
)


@dataclass(frozen=True)
class Result:
    """How a check ended: "ok", "skipped" with the plugin's reason for sitting out, or "broken" with a sentence."""

    check: str
    status: str
    sentence: str
    seconds: float


def run_checks(subject: Subject) -> Iterator[Result]:
    """Run all checks, one after the other; whatever a plugin raises is its result, never an exception here."""
    for name, check in CHECKS:
        started = time.monotonic()
        try:
            check(subject)
            status, sentence = "ok", ""
        except SitsOut as reason:
            status, sentence = "skipped", str(reason)
        except Broken as broken:
            status, sentence = "broken", str(broken)
        except Exception as error:
            status, sentence = "broken", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        yield Result(name, status, sentence, time.monotonic() - started)
