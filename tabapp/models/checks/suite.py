"""The plugin contract as executable checks, which `tabapp models --check NAME` runs.

A check is a function that returns if the plugin keeps its promise, raises `Broken` if it does not, and `Skipped` if the check does
not apply.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from tabapp import metrics
from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.models.checks.declarations import (
    attention_as_declared,
    imputation_as_declared,
    neighbors_are_rows_of_the_fit,
    stored_rows_as_declared,
    training_rows_as_declared,
    use_of_features_is_valid,
)
from tabapp.models.checks.subject import Broken, Skipped, Subject, check_prediction, demand, saved_and_loaded
from tabapp.models.checks.tables import make_table, shape_of
from tabapp.models.checks.threads import predicts_in_threads
from tabapp.models.contract import FitStopped, Shape
from tabapp.task import TASKS, Task

LARGE_OFFSET = 1.7e9
"""Added to a target whose standard deviation is about 50. There, single precision has steps of 128."""
EXPECTED_GAIN = 0.97
"""A model's loss must be below this share of a constant prediction's loss."""
FLAGS = (
    "starts_first", "plans_steps", "is_uncertain", "uses_device", "warms_up", "has_attention", "has_attention_maps",
    "tolerates_half", "can_impute", "contains_training_rows", "trains_nothing",
)  # fmt: skip


def learns_and_saves(subject: Subject, task: Task) -> None:
    """Beat a constant prediction on new rows, report finite scores, and predict bit-identically after saving and loading."""
    trained = subject.trained(task)
    model, n_classes, reports = trained.model, trained.n_classes, trained.reports
    new, _, _ = make_table(task, n_rows=300, seed=1)
    prediction = model.predict(Table(new.numeric, new.categorical))
    check_prediction(prediction, task, 300, n_classes)
    truth = new.target
    assert truth is not None
    flat = np.full(300, truth.mean()) if task == "regression" else np.full((300, n_classes), 1 / n_classes)
    name = metrics.get(metrics.default_metric(task)).early_stopping
    loss, constant = metrics.loss(name, truth, prediction), metrics.loss(name, truth, flat.astype(np.float32))
    # A pre-trained network is as good as the weights that are installed.
    demand(
        bool(subject.plugin.weights) or loss < EXPECTED_GAIN * constant,
        f"its {name} of {loss:.4g} on new rows does not beat a constant's {constant:.4g}",
    )
    # A fit that only keeps rows has no steps.
    demand(
        bool(reports) or subject.plugin.trains_nothing,
        "fit never calls context.report, so there is no learning curve and the fit cannot be pruned",
    )
    demand(all(math.isfinite(value) for value in reports), "some reported scores are not finite")
    loaded = saved_and_loaded(subject.plugin, model)
    demand(np.array_equal(loaded.predict(new), prediction), "predictions change after saving and loading")
    demand(loaded.summary() == model.summary(), "the summary changes after saving and loading")
    msgspec.json.encode(model.summary())


def is_deterministic(subject: Subject) -> None:
    """Give the same model for the same seed."""
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task)
    small = subject.quick()
    # No deadline: it would end the two fits at different steps.
    first, second = (
        small.fit(task, table, spec, n_classes, seed=3, soft_deadline=None).predict(table) for _ in range(2)
    )
    demand(np.array_equal(first, second), "two fits with the same seed predict differently")


def rows_are_independent(subject: Subject) -> None:
    """Predict each row independently of the other rows in the table."""
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task)
    model = subject.quick().fit(task, table, spec, n_classes)
    together = model.predict(table.take(slice(0, 10)))
    alone = np.concatenate([model.predict(table.take(slice(i, i + 1))) for i in range(10)])
    demand(np.allclose(together, alone, rtol=1e-4, atol=1e-5), "the prediction of a row depends on the other rows")
    check_prediction(model.predict(table.take(slice(0, 0))), task, 0, n_classes)


def unseen_and_missing_levels(subject: Subject) -> None:
    """Give valid predictions for unseen levels, missing levels and extreme numbers."""
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task)
    model = subject.quick().fit(task, table, spec, n_classes)
    for code in (UNSEEN, MISSING):
        odd = Table(table.numeric, np.full_like(table.categorical, code))
        check_prediction(model.predict(odd), task, len(table), n_classes)
    for value in (-1e3, 1e3):
        odd = Table(np.full_like(table.numeric, value), table.categorical)
        check_prediction(model.predict(odd), task, len(table), n_classes)


def missing_numbers(subject: Subject) -> None:
    """Accept NaN in single cells and whole columns, if the recipe keeps NaN."""
    recipe = subject.plugin.features()
    if recipe.numeric != "raw" and recipe.missing != "keep":
        raise Skipped("its recipe fills missing numbers")
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task)
    table.numeric[::3] = np.nan
    table.numeric[:, 3] = np.nan
    model = subject.quick().fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def one_kind_of_column(subject: Subject, n_numeric: int, cardinalities: tuple[int, ...]) -> None:
    """Accept tables with only one type of column."""
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task, n_numeric=n_numeric, cardinalities=cardinalities)
    model = subject.quick().fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def constant_columns_and_target(subject: Subject, task: Task) -> None:
    """Accept constant columns, and predict a constant target."""
    table, spec, n_classes = subject.accepted(task)
    flat = Table(np.zeros_like(table.numeric), np.full_like(table.categorical, 2), table.target)
    small = subject.quick()
    check_prediction(small.fit(task, flat, spec, n_classes).predict(flat), task, len(flat), n_classes)
    assert table.target is not None
    value = table.target[0]
    model = small.fit(task, Table(table.numeric, table.categorical, np.full_like(table.target, value)), spec, n_classes)
    prediction = model.predict(table)
    check_prediction(prediction, task, len(table), n_classes)
    kept = np.allclose(prediction, value, rtol=1e-4) if task == "regression" else (prediction.argmax(1) == value).all()
    demand(bool(kept), "predictions differ from a constant target")
    loaded = saved_and_loaded(subject.plugin, model)
    demand(np.array_equal(loaded.predict(table), prediction), "predictions change after saving and loading")


def large_offsets(subject: Subject) -> None:
    """Predict a target with a large offset, such as Unix seconds, as well as the same target without it."""
    table, spec, n_classes = subject.accepted("regression")
    target = table.target
    assert target is not None
    near = subject.trained("regression").model.predict(table)
    moved = replace(table, target=target + LARGE_OFFSET)
    far = subject.fit("regression", moved, spec, n_classes).predict(moved) - LARGE_OFFSET
    error, expected = (metrics.loss(metrics.RMSE, target, prediction) for prediction in (far, near))
    # Networks amplify the smallest differences between two fits.
    demand(
        error < 2 * expected + 0.05 * float(target.std()) and 2 * len(np.unique(far)) > len(np.unique(near)),
        f"its RMSE is {error:.3g} instead of {expected:.3g} if {LARGE_OFFSET:.3g} is added to the target",
    )


def class_without_training_rows(subject: Subject, missing_class: int) -> None:
    """Return a column for every class, including one that has no training rows."""
    table, spec, n_classes = subject.accepted("multiclass", n_classes=4)
    assert table.target is not None
    train, valid = table.take(table.target != missing_class), table.take(slice(0, 60))
    model = subject.quick().fit("multiclass", train, spec, n_classes, valid=valid)
    prediction = model.predict(table)
    check_prediction(prediction, "multiclass", len(table), 4)
    # Pre-trained networks keep the early-stopping rows, which have the class, and are as good as the weights that are installed.
    demand(
        bool(subject.plugin.weights) or prediction[:, missing_class].mean() < 0.25,
        "a class without training rows gets a mean probability of 0.25 or more",
    )


def few_rows(subject: Subject, task: Task) -> None:
    """Train on 20 rows, or on the fewest rows that `supports` accepts."""
    table, spec, n_classes = subject.accepted(task, n_rows=20)
    model = subject.quick().fit(task, table, spec, n_classes)
    check_prediction(model.predict(table), task, len(table), n_classes)


def undefined_metric(subject: Subject) -> None:
    """Accept early-stopping rows of a single class, for which the default metric is undefined."""
    table, spec, n_classes = subject.accepted("binary")
    one_class = table.take(table.target == 1).take(slice(0, 30))
    model = subject.quick().fit(
        "binary", table, spec, n_classes, valid=one_class, metric=metrics.default_metric("binary")
    )
    check_prediction(model.predict(table), "binary", len(table), 2)


def any_metric(subject: Subject, metric: str) -> None:
    """Accept the metric."""
    table, spec, n_classes = subject.accepted("binary")
    model = subject.quick().fit("binary", table, spec, n_classes, metric=metric)
    check_prediction(model.predict(table), "binary", len(table), 2)


def past_deadline(subject: Subject, task: Task) -> None:
    """Return a valid model within 15 s if the deadline has already passed."""
    table, spec, n_classes = subject.accepted(task, n_rows=2000)
    started = time.monotonic()
    model = subject.fit(task, table, spec, n_classes, soft_deadline=started - 1)
    seconds = time.monotonic() - started
    demand(seconds < 15, f"a fit took {seconds:.0f} s after its deadline")
    check_prediction(model.predict(table), task, len(table), n_classes)


def can_be_stopped(subject: Subject) -> None:
    """Let `FitStopped`, which `context.report` raises, pass through `fit`."""
    if subject.plugin.trains_nothing:
        raise Skipped("it trains nothing")
    task = subject.any_task()
    table, spec, n_classes = subject.accepted(task)

    def stop(step: int, value: float) -> None:
        raise FitStopped

    try:
        subject.fit(task, table, spec, n_classes, on_report=stop)
    except FitStopped:
        return
    raise Broken("fit catches FitStopped or never calls context.report, so it cannot be stopped")


def uses_row_weights(subject: Subject) -> None:
    """Give rows with small weights little influence."""
    table, spec, n_classes = subject.accepted("regression", n_numeric=1, cardinalities=(3,))
    heavy = np.random.default_rng(0).random(len(table)) < 0.5
    target = np.where(heavy, 10.0, -10.0)
    numeric, categorical = np.zeros_like(table.numeric), np.full_like(table.categorical, 2)
    weighted = Table(numeric, categorical, target, np.where(heavy, 1.0, 1e-3).astype(np.float32))
    mean = [
        float(subject.fit("regression", rows, spec, n_classes).predict(rows).mean())
        for rows in (weighted, Table(numeric, categorical, target))
    ]
    demand(mean[0] > mean[1] + 2, "row weights have no effect")


def parameters_and_costs(subject: Subject, task: Task, n_rows: int) -> None:
    """Return hyperparameters of the declared type that survive JSON, reject unknown names, and have a positive cost; and run on
    the CPU or the device of the run."""
    import optuna

    plugin, shape = subject.plugin, Shape(n_rows, 4, 2, {"regression": 1, "binary": 2, "multiclass": 3}[task])
    if task not in plugin.tasks:
        raise Skipped(f"it does not support {task} tasks")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [plugin.search_space(study.ask(), task, shape, "cpu") for _ in range(20)]
    for params in (plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu"), *drawn):
        demand(isinstance(params, plugin.params_type), f"hyperparameters are {type(params).__name__}, not params_type")
        again = msgspec.json.decode(msgspec.json.encode(params), type=plugin.params_type)
        demand(again == params, "hyperparameters change when written to and read from JSON")
        cost = plugin.cost(task, shape, params, "cpu")
        demand(cost.seconds > 0 and cost.n_bytes > 0, "cost returns a value that is not positive")
    demand(
        plugin.device_for(task, shape, "cuda:0") in ("cpu", "cuda:0"),
        'device_for returns neither "cpu" nor the device of the run',
    )
    demand(
        plugin.supports(task, shape) is not None or plugin.merit(task, shape) > 0,
        "merit returns a value that is not positive",
    )
    demand(0 < plugin.later_share(shape) < math.inf, "later_share returns a value that is not positive and finite")
    try:
        msgspec.convert({"no_such_parameter": 1}, plugin.params_type)
    except msgspec.ValidationError as error:
        demand("no_such_parameter" in str(error), "the error for an unknown hyperparameter does not contain its name")
    else:
        raise Broken("an unknown hyperparameter is not rejected")


def memory_stays_within_the_estimate(subject: Subject) -> None:
    """Use no more memory for a fit on 10,000 rows than 1.5 times the estimate of `cost`."""
    from tabapp.models.checks.memory import peak_memory_of_fit

    task = subject.any_task()
    columns: dict[str, Any] = {"n_rows": 10_000, "n_numeric": 20, "cardinalities": (10, 5)}
    table, spec, n_classes = make_table(task, **columns)
    shape = shape_of(table, spec, n_classes)
    if reason := subject.plugin.supports(task, shape):
        raise Skipped(reason)
    params = subject.plugin.defaults(task, shape, "cpu")
    estimate = subject.plugin.cost(task, shape, params, "cpu").n_bytes
    used = peak_memory_of_fit(subject.plugin.name, task, columns, seconds=min(subject.fit_seconds, 5.0))
    sentence = f"a fit on 10,000 rows used {used / 1e6:,.0f} MB; cost estimates {estimate / 1e6:,.0f} MB"
    demand(used <= 1.5 * estimate, sentence)


def describes_itself(subject: Subject) -> None:
    """Have a valid name, title, paper, family, tasks and flags, and reject a table without features in a sentence."""
    plugin = subject.plugin
    demand(plugin.name.isidentifier(), f"its name {plugin.name!r} is not an identifier")
    demand(bool(plugin.title) and bool(plugin.paper), "it has no title or no paper")
    demand(plugin.family in ("gbdt", "deep", "classic"), f"its family is {plugin.family!r}")
    demand(bool(plugin.tasks) and set(plugin.tasks) <= set(TASKS), f"its tasks are {plugin.tasks!r}")
    for flag in FLAGS:
        value: object = getattr(plugin, flag)
        demand(isinstance(value, bool), f"{flag} is {value!r}, not True or False")
    reason = plugin.supports(plugin.tasks[0], Shape(1000, 0, 0, 2))
    demand(bool(reason), "supports accepts a table without features")
    demand(str(reason).endswith("."), f"the reason that supports returns is not a sentence: {reason!r}")


CHECKS: tuple[tuple[str, Callable[[Subject], None]], ...] = (
    ("describes itself", describes_itself),
    *((f"learns, saves and loads: {t}", lambda s, t=t: learns_and_saves(s, t)) for t in TASKS),
    ("same seed, same model", is_deterministic),
    ("independent rows", rows_are_independent),
    ("predictions in threads", predicts_in_threads),
    ("unseen and missing levels, extreme numbers", unseen_and_missing_levels),
    ("missing numbers", missing_numbers),
    ("numeric columns only", lambda s: one_kind_of_column(s, 3, ())),
    ("categorical columns only", lambda s: one_kind_of_column(s, 0, (6, 4))),
    ("many levels", lambda s: one_kind_of_column(s, 1, (300,))),
    *((f"constant columns, constant target: {t}", lambda s, t=t: constant_columns_and_target(s, t)) for t in TASKS),
    *((f"no training rows of class {c} of 4", lambda s, c=c: class_without_training_rows(s, c)) for c in (0, 1, 3)),
    *((f"few rows: {t}", lambda s, t=t: few_rows(s, t)) for t in TASKS),
    ("undefined metric", undefined_metric),
    *(
        (f"metric {m}", lambda s, m=m: any_metric(s, m))
        for m in metrics.BUILT_IN
        if m != metrics.default_metric("binary") and "binary" in metrics.get(m).tasks
    ),
    *((f"deadline in the past: {t}", lambda s, t=t: past_deadline(s, t)) for t in TASKS),
    ("large offset of the target", large_offsets),
    ("can be stopped", can_be_stopped),
    ("row weights", uses_row_weights),
    *(
        (f"hyperparameters and cost: {t}, {n:,} rows", lambda s, t=t, n=n: parameters_and_costs(s, t, n))
        for t in TASKS
        for n in (300, 200_000)
    ),
    *((f"attention: {t}", lambda s, t=t: attention_as_declared(s, t)) for t in TASKS),
    ("use of features", use_of_features_is_valid),
    ("imputation", imputation_as_declared),
    ("training rows in saved models", training_rows_as_declared),
    ("neighbors", neighbors_are_rows_of_the_fit),
    ("stored rows", stored_rows_as_declared),
    ("memory within the estimate", memory_stays_within_the_estimate),
)


@dataclass(frozen=True)
class Result:
    """The outcome of one check.

    Attributes:
        check: its name.
        status: "ok", "skipped" or "broken".
        sentence: the reason if skipped or broken, else empty.
        seconds: duration.
    """

    check: str
    status: str
    sentence: str
    seconds: float


def run_checks(subject: Subject) -> Iterator[Result]:
    """Run all checks in order. An exception in the plugin makes that check broken."""
    for name, check in CHECKS:
        started = time.monotonic()
        try:
            check(subject)
            status, sentence = "ok", ""
        except Skipped as reason:
            status, sentence = "skipped", str(reason)
        except Broken as broken:
            status, sentence = "broken", str(broken)
        except Exception as error:
            status, sentence = "broken", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        yield Result(name, status, sentence, time.monotonic() - started)
