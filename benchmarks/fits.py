"""Tables, divisions and fits that the scripts of the papers' tables share.

A folder of tables has a `datasets.json` with file, target and task of each table, and published test rows in `splits/NAME.json.gz`.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.schema import Schema
from tabapp.data.split import early_stopping_rows
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models.contract import FitContext, FittedModel, Params, Plugin, Shape
from tabapp.task import Task

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """The typed rows of a table that have a target, without leaking columns, and their encoded target."""

    frame: pl.DataFrame
    schema: Schema
    target: npt.NDArray[Any]

    @property
    def task(self) -> Task:
        """The task of the target."""
        return self.schema.task

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 for regression."""
        return max(1, len(self.schema.classes))

    def __len__(self) -> int:
        return len(self.target)


@cache
def load(folder: Path, name: str) -> Source:
    """Read a table of a folder.

    Raises:
        SystemExit: the folder has no tables.
    """
    if not (folder / "datasets.json").is_file():
        raise SystemExit(f"{folder} has no tables. Name their folder with --data or TABAPP_DATA.")
    known = {each["name"]: each for each in json.loads((folder / "datasets.json").read_text())}[name]
    reading = read_table(folder / known["file"], ReadOptions(delimiter=known["separator"]))
    schema = infer_schema(
        reading.frame, target=known["target"], task=known["task"], ignore=tuple(known["leak_or_id_columns"])
    )
    frame = typed_frame(reading.frame.filter(rows_with_target(reading.frame, schema)), schema)
    return Source(frame, schema, encode_target(frame, schema))


@dataclass(frozen=True)
class Division:
    """Row numbers of the training, early-stopping and test rows."""

    train: Rows
    valid: Rows
    test: Rows


def divided(source: Source, test: Rows, learned: Rows, seed: int) -> Division:
    """Early-stopping rows are drawn from the learned rows as in a run."""
    learned = np.sort(learned)
    stopping = early_stopping_rows(source.target, source.task, learned, seed)
    return Division(learned[~stopping], learned[stopping], np.sort(test))


def random_division(source: Source, n_rows: int, n_test: int, seed: int) -> Division:
    """At most `n_rows` rows to learn from and `n_test` to score, drawn at random; never more than a third for scoring."""
    order = np.random.default_rng(seed).permutation(len(source))
    n_test = min(n_test, len(order) // 3)
    return divided(source, order[:n_test], order[n_test:][:n_rows], seed)


def published_division(source: Source, folder: Path, name: str, number: int, n_rows: int) -> Division | None:
    """A published split, with at most `n_rows` of its training rows; None if the folder has none for the table."""
    file = folder / "splits" / f"{name}.json.gz"
    if not file.is_file():
        return None
    tests = json.loads(gzip.decompress(file.read_bytes()))["test_rows"]
    test = np.array(tests[number % len(tests)], np.int64)
    learned = np.random.default_rng(number).permutation(np.setdiff1d(np.arange(len(source)), test))
    return divided(source, test, learned[:n_rows], number)


@dataclass(frozen=True)
class Prepared:
    """The features of a division for one model, fitted on its training rows."""

    source: Source
    spec: FeatureSpec
    preparer: FeaturePreparer
    train: Table
    valid: Table
    test: Table

    @property
    def shape(self) -> Shape:
        """The size of the training rows."""
        return Shape(
            len(self.train),
            len(self.spec.numeric),
            len(self.spec.categorical),
            self.source.n_classes,
            target_ratio=self.source.schema.target_ratio,
        )


def prepared(source: Source, division: Division, plugin: Plugin, seed: int, params: Params | None = None) -> Prepared:
    """Fit and compute the features that a model takes, with certain hyperparameters if some are given."""
    target = source.target[division.train]
    frame, schema, recipe = source.frame, source.schema, plugin.features()
    recipe = recipe if params is None else plugin.features_for(params)
    preparer, train = FeaturePreparer.fit_transform(frame[division.train.tolist()], schema, recipe, seed, target)
    valid, test = (
        replace(preparer.transform(frame[rows.tolist()]), target=source.target[rows])
        for rows in (division.valid, division.test)
    )
    return Prepared(source, preparer.spec, preparer, replace(train, target=target), valid, test)


def changed(params: Params, changes: dict[str, Any]) -> Params:
    """The parameters with those changes whose names they have."""
    names = {field.name for field in msgspec.structs.fields(type(params))}
    return msgspec.structs.replace(params, **{key: value for key, value in changes.items() if key in names})


@dataclass
class TimedContext(FitContext):
    """A fit whose time is limited in processor time, so that results depend less on what else the machine does."""

    seconds: float = math.inf
    began: float = field(default_factory=time.process_time)

    def seconds_left(self) -> float:
        """Seconds of processor time until the limit, or of the clock until the soft deadline, whichever is less."""
        return min(self.seconds - (time.process_time() - self.began), super().seconds_left())

    def start(self) -> None:
        """Count the time from now on."""
        self.began = time.process_time()


def fitted(
    plugin: Plugin,
    data: Prepared,
    params: Params,
    *,
    metric: str,
    seed: int,
    seconds: float,
    device: str = "cpu",
    n_threads: int = 1,
    unlabeled: Table | None = None,
    deadline: float | None = None,
) -> FittedModel:
    """Train a model, with rows without a target if there are any. Models other than networks use the CPU.

    Args:
        seconds: limit in processor time.
        deadline: `time.monotonic()` value at which training ends.
    """
    with TemporaryDirectory() as folder:
        context = TimedContext(
            task=data.source.task,
            n_classes=data.source.n_classes,
            metric=metric,
            features=data.spec,
            seed=seed,
            device=device if plugin.family == "deep" else "cpu",
            n_threads=n_threads,
            folder=Path(folder),
            seconds=seconds,
            soft_deadline=deadline,
        )
        if unlabeled is not None:
            context.unlabeled = unlabeled
        return plugin.fit(data.train, data.valid, params, context)


def kept(folder: Path | None, key: str, compute: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The array of a completed fit if the folder has it; otherwise compute it, and keep it if there is a folder."""
    if folder is None:
        return compute()
    file = folder / f"{key.replace('/', '-')}.npy"
    if file.is_file():
        return np.load(file)
    found = compute()
    folder.mkdir(parents=True, exist_ok=True)
    np.save(file, found)
    return found


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard deviation; the number alone if there is one value, and a dash without any."""
    if not values:
        return "—"
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"


def data_folder() -> Path:
    """The default of `--data`."""
    return Path(os.environ.get("TABAPP_DATA", "../shared/data"))
