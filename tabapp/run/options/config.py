"""The options of a run, each declared once, and the configuration that they make."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from tabapp.column_names import ColumnNames
from tabapp.errors import UsageError, option
from tabapp.run.options.option import (
    Choice,
    Columns,
    Device,
    Directions,
    Hyperparameters,
    Names,
    Option,
    Settings,
    Target,
    Texts,
)
from tabapp.run.options.quantities import Duration, Share, Size, Whole
from tabapp.task import Task

Quality = Literal["fast", "balanced", "best"]
Patience = Literal["off", "auto"]
Executor = Literal["local", "ray"]

DEFAULT_BUDGET = 600.0


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of a run. None means that tabapp chooses.

    Attributes:
        data: path of the table.
        budget: seconds that the whole run may take; None with `trials` set means no time limit.
        other_targets: columns that other runs of the same table predict, in the run of one of several targets.
        start: start as soon as the plan is ready; a screen sets it to False and sends the command `start`.
    """

    data: str
    target: Annotated[
        str | tuple[str, ...] | None,
        Target(
            "Task",
            "Column to predict, or several: repeat the option, or separate names by commas.",
            "COL,…",
            completion="columns",
            shown_default="detected",
            profile="Column to predict.",
        ),
    ] = None
    task: Annotated[Literal["auto", Task], Choice("Task", "Type of task.", None, profile=True)] = "auto"
    metric: Annotated[
        str | None,
        Option(
            "Task",
            "roc_auc, log_loss, f1, rmse, mae, …, or the cost of errors: cost:fn=5,fp=1",
            "NAME",
            completion="metrics",
        ),
    ] = None
    positive: Annotated[
        str | None,
        Option("Task", "Positive class of a binary target.", "CLASS", profile=True, typed="a class of the target"),
    ] = None
    budget: Annotated[
        float | None,
        Duration(
            "Model search",
            "Time limit of the whole run, such as 90s, 10m or 2h.",
            "TIME",
            shown_default="10m",
            steps=(60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0),
        ),
    ] = None
    trials: Annotated[
        int | None, Whole("Model search", "Maximum trials per model; without --budget, there is no time limit.", "N")
    ] = None
    patience: Annotated[
        Patience,
        Choice("Model search", "auto ends fitting once more time is expected to add little to the score.", "MODE"),
    ] = "off"
    seeds: Annotated[
        int, Whole("Model search", "Seeds of each model of the final ensemble, averaged.", "N", most=100)
    ] = 1
    quality: Annotated[
        Quality,
        Choice("Model search", "Search effort: default parameters only, tuned, or tuned without shortcuts.", None),
    ] = "balanced"
    models: Annotated[
        tuple[str, ...],
        Names(
            "Model search",
            "Use only these models, such as catboost,npt:base; `tabapp models` lists them.",
            "A,B",
            completion="models",
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Names(
            "Model search",
            "Exclude these models.",
            "A,B",
            completion="models",
            typed="models such as catboost,npt:base",
        ),
    ] = ()
    fixed: Annotated[
        dict[str, str],
        Hyperparameters(
            "Model search",
            "Fix a hyperparameter in all trials of a model; `tabapp models NAME` lists them.",
            "MODEL.NAME=VALUE,…",
            keyword="set",
            label="Fixed values",
            form="MODEL.NAME=VALUE",
            example=("ft_transformer.n_layers", "2"),
        ),
    ] = {}
    seed: Annotated[int, Whole("Model search", "Random seed.", "N", least=0, most=2**31 - 1)] = 0
    validation: Annotated[Literal["auto", "holdout", "cv"], Choice("Validation", "Validation scheme.", None)] = "auto"
    folds: Annotated[
        int | None,
        Whole(
            "Validation",
            "Number of cross-validation folds.",
            "K",
            shown_default="8 below 3,000 rows, or 15,000 with a budget of 10m; else 5",
            least=2,
            most=50,
            steps=(3, 5, 8, 10),
            typed="a number of folds such as 7",
        ),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "Validation",
            "Column of groups; a split never separates the rows of a group.",
            "COL",
            completion="columns",
            profile="Column of groups.",
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "Validation",
            "Column with times; models are scored on the latest rows.",
            "COL",
            completion="columns",
            profile="Column with times.",
        ),
    ] = None
    weight: Annotated[
        str | None, Option("Validation", "Column of row weights.", "COL", completion="columns", profile=True)
    ] = None
    ignore: Annotated[
        tuple[str, ...],
        Columns(
            "Columns",
            "Columns to exclude from the features; may be repeated.",
            "COL,…",
            completion="columns",
            profile="Columns to exclude.",
        ),
    ] = ()
    kinds: Annotated[
        dict[str, str],
        Settings(
            "Columns",
            "Override the detected kind of a column; may be repeated.",
            "COL=KIND,…",
            profile=True,
            keyword="kind",
            form="COLUMN=KIND",
            example=("zip", "categorical"),
        ),
    ] = {}
    delimiter: Annotated[
        str | None,
        Option(
            "File format",
            "Column separator.",
            shown_default="detected",
            profile=True,
            typed="a character such as ; or |",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        Option(
            "File format",
            "Text encoding.",
            "NAME",
            shown_default="detected",
            profile=True,
            typed="a name such as utf-8 or latin-1",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        Option(
            "File format",
            "Decimal separator.",
            "CHAR",
            shown_default="detected",
            profile=True,
            typed="a character, . or ,",
        ),
    ] = None
    null: Annotated[
        tuple[str, ...],
        Texts(
            "File format",
            "Texts that are missing values, in all columns or one.",
            "TEXT|COL=TEXT,…",
            profile=True,
            typed="texts with commas between them, such as ?,-999,age=0",
        ),
    ] = ()
    keep_null: Annotated[
        tuple[str, ...],
        Texts(
            "File format",
            "Texts such as NA that are values and not missing, in all columns or one.",
            "TEXT|COL=TEXT,…",
            profile=True,
            typed="texts with commas between them, such as NA,unit=none",
        ),
    ] = ()
    max_memory: Annotated[
        int | None,
        Size(
            "File format",
            "Memory that reading a table may use, such as 8GiB.",
            "SIZE",
            shown_default="80 % of what is free",
            profile="Memory that reading a table may use, such as 8GiB [default: 80 % of what is free].",
            label="Read memory",
        ),
    ] = None
    test: Annotated[
        str | None,
        Option(
            "Validation",
            "Labeled file to score the final bundle on.",
            "FILE",
            completion="tables",
            profile="Test file to compare with DATA.",
        ),
    ] = None
    unlabelled: Annotated[
        str | None,
        Option(
            "Model search",
            "File of more rows without a target, for the models that learn from them.",
            "FILE",
            completion="tables",
            profile="File of more rows without a target.",
            other_flags=("--unlabeled",),
        ),
    ] = None
    hide_cells: Annotated[
        float,
        Share(
            "Model search",
            "Share of cells hidden from networks in training, for data with missing cells.",
            "SHARE",
            shown_default="0",
            most=0.9,
        ),
    ] = 0.0
    monotonic: Annotated[
        dict[str, str],
        Directions(
            "Model search",
            "Columns with which predictions may only rise (+) or fall (-), for the models that support it.",
            "COL=+|-,…",
            form="COLUMN=+ or COLUMN=-",
            example=("age", "+"),
        ),
    ] = {}
    device: Annotated[
        str,
        Device(
            "Resources",
            "Device to train on: auto, cpu, cuda (all GPUs) or cuda:N.",
            "NAME",
            steps=("auto", "cpu", "cuda"),
        ),
    ] = "auto"
    workers: Annotated[
        int | None,
        Whole("Resources", "Number of parallel fits on the cores, or auto.", "N", shown_default="auto", has_auto=True),
    ] = None
    memory_limit: Annotated[
        int | None, Size("Resources", "Memory limit of the run with all of its processes, such as 8GiB.", "SIZE")
    ] = None
    executor: Annotated[
        Executor, Choice("Resources", "Where fits run: local for this machine, ray for a cluster.", "NAME")
    ] = "local"
    address: Annotated[
        str | None,
        Option(
            "Resources",
            "Address of the Ray cluster.",
            "ADDRESS",
            shown_default="$RAY_ADDRESS, else a cluster on this machine",
        ),
    ] = None
    out: Annotated[
        str | None,
        Option(
            "Output", "Copy the bundle to this file.", "FILE", completion="files", typed="a path such as model.tabapp"
        ),
    ] = None
    name: Annotated[str | None, Option("Output", "Name of the run.", typed="a name such as first try")] = None
    other_targets: tuple[str, ...] = ()
    start: bool = True

    def of_columns(self, columns: Iterable[str]) -> dict[str, Any]:
        """What the user says of the columns of a table, as keywords of `infer_schema`; of several targets, the first.

        Raises:
            UsageError: as `with_exact_names`.
        """
        exact = with_exact_names(self, columns)
        names = ("task", "positive", "kinds", "ignore", "group", "time", "weight", "null", "keep_null")
        target = exact.target[0] if isinstance(exact.target, tuple) else exact.target
        return {"target": target, **{name: getattr(exact, name) for name in names}}

    @property
    def budget_seconds(self) -> float | None:
        """Seconds for the whole run; None when only the number of trials limits it."""
        if self.budget is None and self.trials is None:
            return DEFAULT_BUDGET
        return self.budget


def _declared() -> dict[str, Option]:
    found: dict[str, Option] = {}
    for field in msgspec.structs.fields(RunConfig):
        for declared in getattr(field.type, "__metadata__", ()):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            complete = replace(declared, field=field.name, type=field.type.__origin__, default=default)
            found[complete.name] = complete
    return found


OPTIONS = _declared()
"""The options of a run by their names, in the order of the help."""
NAMING = tuple(
    name
    for name, each in OPTIONS.items()
    if each.completion == "columns" or (isinstance(each, Settings) and not isinstance(each, Hyperparameters))
)
"""The options that name columns."""
DESCRIBING = tuple(name for name, each in OPTIONS.items() if each.profile)
"""The options that say how a table is read and what its columns are."""


def with_exact_names(config: RunConfig, columns: Iterable[str]) -> RunConfig:
    """The configuration with each column as the table spells it; see `tabapp.column_names`.

    A name that no column has stays as it is, for an error that quotes it.

    Raises:
        UsageError: an option does not have its form, or names too many targets.
    """
    names = ColumnNames(columns)
    exact = {each.field: each.resolve(getattr(config, each.field), names) for each in OPTIONS.values()}
    return msgspec.structs.replace(config, **exact)


def check_config(config: RunConfig) -> None:
    """Reject options that are out of range, and the address of a cluster that is not used.

    Raises:
        UsageError: names the option, its value and its range.
    """
    for each in OPTIONS.values():
        each.check(getattr(config, each.field))
    if config.address is not None and config.executor != "ray":
        raise UsageError(f"{option('address')} is the address of a Ray cluster. Add {option('executor', 'ray')}.")
    if config.patience == "auto" and config.budget_seconds is None:
        raise UsageError(f"{option('patience', 'auto')} ends a run before its time limit. Add {option('budget')}.")


def check_folds(config: RunConfig) -> None:
    """Reject a number of folds where the validation scheme has none.

    Raises:
        UsageError: names both options.
    """
    if config.folds is None:
        return
    if config.validation == "holdout":
        raise UsageError(
            f"{option('validation', 'holdout')} scores one part of the rows, which has no {option('folds')}. Remove one of them."
        )
    if config.time is not None:
        raise UsageError(
            f"{option('time')} scores the latest rows, which have no {option('folds')}. Remove one of them."
        )


def command_line(config: RunConfig) -> str:
    """The command that starts an equal run without a screen, for copying into a script."""
    words = ["tabapp", "--auto", config.data]
    for each in OPTIONS.values():
        value = getattr(config, each.field)
        if value != each.default:
            words += [word for text in each.texts(value) for word in (each.flag, text)]
    return shlex.join(words)


def quoted_command(text: str) -> str:
    """A command of a run from a file, quoted so that a shell that it is pasted into runs nothing but tabapp; empty if it is
    another command."""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    return shlex.join(words) if words[:1] == ["tabapp"] else ""
