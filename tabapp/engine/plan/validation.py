"""Chooses how a run validates: the number of folds, or a holdout."""

from __future__ import annotations

from tabapp.data.schema import Schema
from tabapp.engine.machine.devices import CPU
from tabapp.errors import UsageError, option
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.stated import stated_libraries
from tabapp.run.options.config import RunConfig
from tabapp.task import Task

HOLDOUT_ROWS = 100_000
"""Above this many rows, `--validation auto` uses one holdout instead of folds: with 20,000 scored rows the 95 % interval of an AUC
of 0.9 is below ±0.005, less than the usual difference between models, and five folds cost five times as much."""
HOLDOUT_FRACTION = 0.2
LARGEST_HOLDOUT = 50_000
DEFAULT_FOLDS, FOLDS_OF_FEW_ROWS, FEW_ROWS = 5, 8, 3_000
"""Number of folds, and of those of a table with fewer rows than the third value. There, fits are short, and rows for training are
worth more: on five tables of 600 to 1,200 rows, the test error of boosters with eight folds was 0.989 ± 0.005 times that with five.
With 16 folds, that of the mean of four models was 1.002 ± 0.003 times that with eight, in twice the time (24 draws).
"""
SHORT_BUDGET, MOST_FEW_ROWS = 120.0, 15_000
"""A longer budget than the first value, in seconds, leaves time for eight folds of proportionally more rows, up to the second
(`benchmarks/results/folds.json`)."""
FOLDS_OF_SLOW_FITS, MODELS_IN_TIME, SLOW_FIT = 3, 3, 5.0
"""Number of folds if all workers together cannot complete as many boosters as the second value with the usual number, and a fit of
the quickest takes more seconds than the third: rather several models that learn from fewer rows than one or two."""


def choose_validation(config: RunConfig, schema: Schema, shape: Shape, workers: int) -> tuple[int, str, str]:
    """The validation scheme: (number of folds, description, reason).

    Raises:
        UsageError: the options contradict each other or the data.
    """
    if config.time is not None:
        if config.validation == "cv":
            raise UsageError(
                f"{option('time')} scores the latest rows, which {option('validation', 'cv')} does not support. Remove one of them."
            )
        return (
            1,
            "holdout of the latest 20 %",
            f"rows are ordered by {config.time}; no model is trained on rows later than those it is scored on",
        )
    holdout = config.validation == "holdout" or (
        config.validation == "auto" and config.folds is None and schema.rows > HOLDOUT_ROWS
    )
    if holdout:
        fraction = holdout_fraction(schema.rows)
        asked = "as requested" if config.validation == "holdout" else f"more than {HOLDOUT_ROWS:,} rows"
        return (
            1,
            f"{fraction:.0%} {_kind(schema.task)} holdout{_grouped(config)}",
            f"{asked}; at this size one holdout is precise enough",
        )
    folds = config.folds or (FOLDS_OF_FEW_ROWS if schema.rows < few_rows(config.budget_seconds) else DEFAULT_FOLDS)
    reason = f"{schema.rows:,} rows; each row is scored once"
    if config.folds or config.validation == "cv":
        reason = "as requested"
    elif _are_slow(folds, config, schema.task, shape, workers):
        reason = (
            f"{FOLDS_OF_SLOW_FITS} folds instead of {folds}, because fits are slow for this budget; --folds changes it"
        )
        folds = FOLDS_OF_SLOW_FITS
    return folds, describe_folds(folds, schema.task, config), reason


def describe_folds(folds: int, task: Task, config: RunConfig) -> str:
    """Cross-validation in words, such as "5-fold stratified cross-validation"."""
    return f"{folds}-fold {_kind(task)} cross-validation{_grouped(config)}"


def _kind(task: Task) -> str:
    return "binned" if task == "regression" else "stratified"


def _grouped(config: RunConfig) -> str:
    return f", grouped by {config.group}" if config.group else ""


def few_rows(budget: float | None) -> float:
    """Tables with fewer rows have eight folds.

    Args:
        budget: seconds of the run; None is no limit.
    """
    return min(MOST_FEW_ROWS, FEW_ROWS * max(1.0, (budget or 0.0) / SHORT_BUDGET))


def holdout_fraction(rows: int) -> float:
    """Share of the rows in a holdout: a fifth, at most 50,000 rows."""
    return min(HOLDOUT_FRACTION, LARGEST_HOLDOUT / rows)


def _are_slow(folds: int, config: RunConfig, task: Task, shape: Shape, workers: int) -> bool:
    """Whether the budget is too short for several models with that many folds."""
    each = _seconds_of_booster(config, task, shape)
    budget = config.budget_seconds
    return budget is not None and each > SLOW_FIT and MODELS_IN_TIME * folds * each > workers * budget


def _seconds_of_booster(config: RunConfig, task: Task, shape: Shape) -> float:
    """Expected seconds for one fold of the quickest of the selected boosters; 0 if none is selected or can be used."""
    names = [name for name in config.models or registry.names() if name not in config.exclude]
    plugins = [registry.find(name).plugin for name in names if stated_libraries(name) == "boosters"]
    return min(
        (
            plugin.cost(task, shape, plugin.defaults(task, shape, CPU), CPU).seconds
            for plugin in plugins
            if plugin is not None and registry.is_built_in(plugin) and task in plugin.tasks
        ),
        default=0.0,
    )
