"""Runs started from Python: `fit` and `resume`. The engine is a process of its own, as for every other view."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tabapp.api.forks import check_process
from tabapp.api.frames import is_path, to_polars, write_frame
from tabapp.api.progress import Progress, check_progress, view_for
from tabapp.api.runs import Run, find
from tabapp.column_names import ColumnNames
from tabapp.errors import DataError, TabappError, UsageError, did_you_mean, error_for, spelled_in_python
from tabapp.headless.follow import View, watch
from tabapp.run.options.config import Executor, RunConfig
from tabapp.run.options.keywords import config_from_keywords, with_column_names
from tabapp.run.options.targets import resolve_targets
from tabapp.run.protocol.client import describe_death
from tabapp.run.record.folder import RunFolder, create_run, default_runs_dir
from tabapp.run.record.resuming import resumed_config, save_resumed

if TYPE_CHECKING:
    import polars as pl

TABLE_FILE = "data.arrow"
MORE_TABLES = ("test", "unlabelled")
"""Options that take a table or its path; a table is written to the file NAME.arrow of the run."""


def fit(
    data: Any,
    *,
    target: str | Sequence[str],
    task: str = "auto",
    metric: str | None = None,
    budget: str | float | timedelta | None = None,
    trials: int | None = None,
    quality: str = "balanced",
    models: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = "auto",
    runs_dir: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Train models on a table until the budget ends, and return the run.

    The run is the same as that of `tabapp --auto`: it has a folder, and `tabapp runs`, `attach` and `resume` know it. Every long
    option of `tabapp --auto` is a keyword here, with underscores. Ctrl+C finishes with the best models so far; pressed twice it
    stops at once.

    Args:
        data: path of a file, or a polars, pandas or pyarrow table. Column types are kept: categories stay categories.
        target: column to predict, or a list of several. Each has its own models and never sees the others.
        task: "auto", "binary", "multiclass" or "regression".
        metric: name of the metric that models are chosen by; None takes the default of the task.
        budget: time limit such as "90s", "10m" or "2h", seconds, or a timedelta. None means ten minutes, or no time limit where
            `trials` is given.
        trials: maximum trials per model. With it and without a budget, the same seed gives the same scores.
        quality: "fast", "balanced" or "best".
        models: only these models.
        exclude: all but these models.
        seed: seed of every random choice.
        progress: "auto" shows progress in a terminal and in a notebook; True also in a pipe; False shows nothing.
        runs_dir: folder that keeps runs; None takes the same as the command line.
        options: every other option of a run, by its keyword.

    Raises:
        UsageError: an option does not exist or cannot be used.
        DataError: the data cannot be used.
        BudgetError: the budget ended before the first model had a score.
        TabappError: no model could be trained, or the engine stopped.
    """
    check_progress(progress)
    given = {
        "target": target,
        "task": task,
        "metric": metric,
        "budget": budget,
        "trials": trials,
        "quality": quality,
        "models": models,
        "exclude": exclude,
        "seed": seed,
        **options,
    }
    folder = prepare_run(data, given, Path(runs_dir) if runs_dir is not None else default_runs_dir())
    try:
        return follow(folder, view_for(folder.argument, progress))
    except (UsageError, DataError):
        if not folder.has_started:
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


@spelled_in_python()
def prepare_run(data: Any, options: Mapping[str, Any], runs_dir: Path) -> RunFolder:
    """Make the folder of a run, with the tables in it that are not files yet.

    Raises:
        UsageError, DataError: an option or a table cannot be used.
    """
    check_process()
    given = dict(options)
    more = {name: table for name in MORE_TABLES if (table := given.pop(name, None)) is not None}
    frame = None if is_path(data) else to_polars(data)
    more_frames = {name: to_polars(table, name) for name, table in more.items() if not is_path(table)}
    if frame is not None:
        given = with_column_names(given)
    config = config_from_keywords(TABLE_FILE if frame is not None else _file(data), given)
    if frame is not None:
        _check_table(frame, config)
    paths = {name: _file(table) for name, table in more.items() if name not in more_frames}
    config = msgspec.structs.replace(config, **paths)
    if config.out is not None:
        config = msgspec.structs.replace(config, out=str(Path(config.out).absolute()))
    folder = create_run(config, runs_dir.absolute())
    try:
        if frame is not None:
            write_frame(frame, folder.path / TABLE_FILE)
            config = msgspec.structs.replace(config, data=str(folder.path / TABLE_FILE))
        for name, table in more_frames.items():
            write_frame(table, folder.path / f"{name}.arrow")
            config = msgspec.structs.replace(config, **{name: str(folder.path / f"{name}.arrow")})
        folder.save_config(config)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder


def _file(path: Any) -> str:
    """The absolute path of an existing file.

    Raises:
        DataError: there is none.
    """
    file = Path(path).absolute()
    if not file.is_file():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise DataError(f"There is no file {path}{did_you_mean(file.name, beside) or '; check the path.'}")
    return str(file)


def _check_table(frame: pl.DataFrame, config: RunConfig) -> None:
    """Reject what needs no engine to see.

    Raises:
        DataError: the table has no rows, or not the target column.
    """
    if frame.height == 0:
        raise DataError("The table has no rows.")
    for name in resolve_targets(config.target, ColumnNames(frame.columns)) if config.target is not None else ():
        if name not in frame.columns:
            raise DataError(f"There is no column {name!r}{did_you_mean(name, frame.columns) or '.'}")


@spelled_in_python()
def follow(folder: RunFolder, view: View) -> Run:
    """Start the engine of a prepared run, follow it to its end, and return the run.

    Raises:
        TabappError: the run ended without a bundle; the class is that of its exit code.
        KeyboardInterrupt: the user pressed Ctrl+C twice.
    """
    ended = watch(folder, view, start=True, signals=(signal.SIGINT,))
    finished = ended.state.finished
    if finished is None:
        if ended.interrupts > 1:
            raise KeyboardInterrupt
        raise TabappError(describe_death(ended.return_code or 0, folder))
    if finished.bundle is None:
        raise error_for(finished.exit_code, finished.message)
    return Run(folder)


def resume(
    run: Run | str | os.PathLike[str],
    *,
    budget: str | float | timedelta | None = None,
    trials: int | None = None,
    executor: Executor | None = None,
    address: str | None = None,
    progress: Progress = "auto",
    runs_dir: str | os.PathLike[str] | None = None,
) -> Run:
    """Continue a run that was stopped, or give a complete one more time or trials. Complete fits are kept.

    Args:
        run: a run, its id, a part of its id, its name, its path, or "last".
        budget: additional time.
        trials: a new maximum number of trials per model.
        executor: "local" for this machine or "ray" for a cluster; needed if the run used a cluster.
        address: of the Ray cluster; None means that of the variable RAY_ADDRESS, or else a cluster on this machine.
        progress: as for `fit`.
        runs_dir: folder that keeps runs.

    Raises:
        UsageError: there is no such run, another process works on it, or it is complete and is given nothing more.
        TabappError: as for `fit`.
    """
    check_progress(progress)
    folder = find(run, runs_dir)
    more = config_from_keywords("", {"budget": budget, "trials": trials, "executor": executor, "address": address})
    with spelled_in_python():
        config = resumed_config(
            folder, more.budget, more.trials, executor=executor, address=address, warn=_warn_of_files
        )
    save_resumed(folder, config)
    return follow(folder, view_for(folder.argument, progress))


def _warn_of_files(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
