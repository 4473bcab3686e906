"""Checks the parts of a resumed run. A damaged part is set aside and made again, where the rest of the run folder suffices.

| part | made again from |
|---|---|
| table, schema | the source file, if its checksum is that of the fingerprint |
| plan | the configuration and the schema |
| splits | the stored table and the plan |
| sample, fingerprint | the source file, or else the stored table and the events |
| features, fits | the stored table, by fitting again |
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError

import msgspec
import numpy as np
import polars as pl

from tabapp import files, metrics
from tabapp.data.columnar import table_files
from tabapp.data.columnar.arrow_sizes import claimed_bytes
from tabapp.data.limits import memory_limit
from tabapp.data.reading.read import Reading
from tabapp.data.schema import Schema
from tabapp.data.schema_checks import schema_problem
from tabapp.data.typed import typed_frame
from tabapp.engine.fit.candidates import REMOVED, fit_name
from tabapp.engine.fit.jobs import FitResult, decode_result
from tabapp.engine.fit.run_data import UNLABELED, RunData
from tabapp.engine.plan.make_plan import Plan, make_plan, write_plan
from tabapp.engine.plan.prepare import infer, read_data, read_more
from tabapp.engine.plan.write_rows import (
    CHECKED,
    CHECKSUMS,
    fingerprint,
    sample_rows,
    usable_rows,
    write_splits,
    write_table,
)
from tabapp.errors import DataError, TabappError
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import UNREADABLE, RunFolder

Warn = Callable[[str], None]

DAMAGED = ".damaged"
MOST_WORKERS = 4096
BROKEN = (
    *UNREADABLE,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    EOFError,
    OverflowError,
    MemoryError,
    SyntaxError,
    TokenError,
    zlib.error,
    zipfile.BadZipFile,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    TabappError,
    NotImplementedError,
)
"""What reading a damaged JSON, NumPy, Arrow or feature file raises. NumPy parses the header of an array as Python source."""


def set_aside(folder: RunFolder, path: Path, damage: object, warn: Warn, remedy: str = "It is made again.") -> None:
    """Rename a damaged file or folder, so that it can be made again, and warn."""
    target, number = path.with_name(f"{path.name}{DAMAGED}"), 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}{DAMAGED}{number}")
    path.rename(target)
    reason = " ".join(str(damage).split())[:200].rstrip(".")
    warn(f"{path.relative_to(folder.path)} is damaged ({reason}) and is now {target.name}. {remedy}")


def recover(folder: RunFolder, config: RunConfig, warn: Warn) -> tuple[Plan, Schema]:
    """Check a run that an earlier session has planned, and repair it; returns its plan and schema.

    Raises:
        DataError: the stored table is damaged and its source has changed or is missing.
        TabappError: the plan cannot be made again.
    """
    source = _Source(folder, config)
    schema, table = _table(folder, config, source, warn)
    plan = _stored_plan(folder, schema, warn)
    if plan is None:
        unlabeled = folder.data / UNLABELED
        n_unlabeled = read_arrow(unlabeled).height if unlabeled.exists() else 0
        plan = make_plan(config, schema, n_more=n_unlabeled - schema.rows_without_target)
        # The folds belong to the plan, which depends on them.
        plan = write_plan(folder.plan, write_splits(folder, config, table, schema, plan))
    plan = _splits(folder, config, schema, table, plan, warn)
    _sample(folder, schema, table, source, warn)
    _fingerprint(folder, schema, table, source, warn)
    _fits_and_features(folder, RunData(folder), plan, warn)
    return plan, schema


class _Source:
    """The source file of a run, read at most once, and only if it has not changed since the run read it."""

    def __init__(self, folder: RunFolder, config: RunConfig) -> None:
        self._config = config
        self._reading: Reading | None = None
        self.path = Path(config.data)
        self.damage: BaseException | None = None
        """Why the fingerprint cannot be read."""
        known: object = None
        try:
            known = files.read_json(folder.data / "fingerprint.json")["sha256"]
        except BROKEN as error:
            self.damage = error
        try:
            self._unchanged = known == files.sha256(self.path)
        except OSError:
            self._unchanged = False

    def read(self) -> Reading | None:
        """The table as text; None if the file has changed or is missing."""
        if not self._unchanged:
            return None
        try:
            self._reading = self._reading or read_data(self._config)
        except TabappError:
            return None
        return self._reading

    def fingerprint(self, schema: Schema, table: pl.DataFrame) -> dict[str, str | int]:
        """A new fingerprint; without a checksum unless the source still has the stored rows."""
        try:
            reading = read_data(self._config)
            if typed_frame(usable_rows(reading, schema), schema).equals(table):
                return fingerprint(self._config, reading)
        except (TabappError, OSError):
            pass
        return {"file": self.path.name, "rows": table.height, "columns": table.width, "bytes": 0, "sha256": ""}


def _table(folder: RunFolder, config: RunConfig, source: _Source, warn: Warn) -> tuple[Schema, pl.DataFrame]:
    try:
        return _read_table(folder)
    except BROKEN as error:
        damage = error
    reading = source.read()
    if reading is None:
        raise DataError(
            f"The stored table in {folder.data} is damaged ({damage}), and its source {source.path} is missing or has "
            "changed. The run cannot be resumed; start a new one with `tabapp DATA`."
        )
    if folder.data.exists():
        set_aside(folder, folder.data, damage, warn, "It is read again from its source.")
    schema = infer(reading, config)
    write_table(folder, config, reading, schema, read_more(config, schema))
    return _read_table(folder)


def _read_table(folder: RunFolder) -> tuple[Schema, pl.DataFrame]:
    """The schema and the typed rows, after a check of their checksums, which runs of earlier versions do not have."""
    checksums = files.read_json(folder.data / CHECKSUMS) if (folder.data / CHECKSUMS).exists() else {}
    for name in CHECKED:
        if name in checksums and checksums[name] != files.sha256(folder.data / name):
            raise ValueError(f"{name} has another checksum")
    schema = msgspec.json.decode(files.read_regular(folder.data / "schema.json"), type=Schema)
    if problem := schema_problem(schema):
        raise ValueError(problem)
    table = read_arrow(folder.data / "table.arrow")
    missing = [column.name for column in (*schema.features, schema.column(schema.target)) if column.name not in table]
    if missing or not table.height:
        raise ValueError(f"the table has no rows or no column {missing[:1]}")
    if (folder.data / UNLABELED).exists():
        names = [column.name for column in schema.features]
        if read_arrow(folder.data / UNLABELED).columns != names:
            raise ValueError(f"{UNLABELED} has other columns than the schema")
    return schema, table


def read_arrow(path: Path) -> pl.DataFrame:
    """Read an Arrow file of the run folder, which must be a regular file."""
    files.open_to_read(path).close()
    memory_limit(path, None).require(claimed_bytes(path))
    return table_files.read(path, "arrow")


def _stored_plan(folder: RunFolder, schema: Schema, warn: Warn) -> Plan | None:
    """The plan of the run; None if it is missing or damaged, and then set aside."""
    try:
        plan = msgspec.json.decode(files.read_regular(folder.plan), type=Plan)
        _check_plan(plan, schema)
    except BROKEN as error:
        if folder.plan.exists():
            set_aside(folder, folder.plan, error, warn)
        return None
    return plan


def _check_plan(plan: Plan, schema: Schema) -> None:
    """Check a plan against the schema.

    Raises:
        ValueError: they contradict each other, or a number is out of range.
        UsageError: the metric is not known.
    """
    n_classes = 1 if schema.task == "regression" else len(schema.classes)
    if (plan.target, plan.task, plan.n_classes) != (schema.target, schema.task, n_classes):
        raise ValueError("the plan has another target than the schema")
    for name in ("folds", "workers", "n_threads", "memory_limit"):
        value = getattr(plan, name)
        if value < 1 or (value > MOST_WORKERS and name != "memory_limit"):
            raise ValueError(f"{name} is {value}")
    if plan.task not in metrics.get(plan.metric).tasks or not plan.competing:
        raise ValueError("the metric does not fit the task, or no model is left")


def _splits(folder: RunFolder, config: RunConfig, schema: Schema, table: pl.DataFrame, plan: Plan, warn: Warn) -> Plan:
    path = folder.path / "splits.npz"
    try:
        data = RunData(folder)
        arrays = (data.target, data.fold, data.second_fold, data.weight, data.groups, data.time)
        if any(array is not None and array.shape != (table.height,) for array in arrays):
            raise ValueError("an array has another length than the table")
        if data.fold.dtype.kind != "i" or data.n_folds != plan.folds or data.fold.min() < -1:
            raise ValueError("the folds are not those of the plan")
        second = data.second_fold
        is_own = ((second >= 0) & (second == data.fold)).any()
        if second.dtype.kind != "i" or second.max() >= data.n_folds or second.min() < -1 or is_own:
            raise ValueError("the second folds are not those of the plan")
        if not np.isin(np.arange(plan.folds), data.fold).all():
            raise ValueError("a fold has no rows")
        if plan.task != "regression" and not set(np.unique(data.target).tolist()) <= set(range(plan.n_classes)):
            raise ValueError("the target has an unknown class")
    except BROKEN as error:
        if path.exists():
            set_aside(folder, path, error, warn)
        return write_plan(folder.plan, write_splits(folder, config, table, schema, plan))
    return plan


def _sample(folder: RunFolder, schema: Schema, table: pl.DataFrame, source: _Source, warn: Warn) -> None:
    path = folder.data / "sample.arrow"
    names = [column.name for column in schema.inputs]
    try:
        sample = read_arrow(path)
        if sample.columns != names or not sample.height:
            raise ValueError("it has other columns than the table")
    except BROKEN as error:
        if path.exists():
            set_aside(folder, path, error, warn)
        reading = source.read()
        text = usable_rows(reading, schema) if reading else table.select(pl.col(name).cast(pl.String) for name in names)
        content = io.BytesIO()
        sample_rows(text, schema).write_ipc(content)
        files.write_bytes(path, content.getvalue())


def _fingerprint(folder: RunFolder, schema: Schema, table: pl.DataFrame, source: _Source, warn: Warn) -> None:
    if source.damage is None:
        return
    path = folder.data / "fingerprint.json"
    if path.exists():
        set_aside(folder, path, source.damage, warn)
    files.write_json(path, source.fingerprint(schema, table))


def _fits_and_features(folder: RunFolder, data: RunData, plan: Plan, warn: Warn) -> None:
    """Set aside damaged features, the fits that used them, and damaged fits; they run again."""
    # Imported here because only resumed runs need it.
    from tabapp.engine.fit.features import features_folder
    from tabapp.features.prepare import FeaturePreparer

    bad: set[Path] = set()
    for path in sorted(folder.features.glob("*-f*")):
        if DAMAGED in path.name:
            continue
        try:
            for name in ("numeric.npy", "categorical.npy"):
                files.open_to_read(path / name).close()
                array = np.load(path / name, mmap_mode="r", allow_pickle=False)
                if array.ndim != 2 or len(array) != len(data.target):
                    raise ValueError(f"{name} has the shape {array.shape}")
            FeaturePreparer.load(path / "state")
        except BROKEN as error:
            set_aside(folder, path, error, warn, "The fits that use it run again.")
            bad.add(path)
    for path in sorted(folder.fits.glob("*-f*")):
        if DAMAGED in path.name:
            continue
        try:
            result = _checked_fit(path, data, plan)
            if features_folder(folder, result.recipe, result.fold) in bad:
                raise ValueError("its features are damaged")
        except BROKEN as error:
            set_aside(folder, path, error, warn, "The fit runs again.")


def _checked_fit(path: Path, data: RunData, plan: Plan) -> FitResult:
    """The result of a fit.

    Raises:
        Exception: one of `BROKEN`; a file is damaged or does not belong to this run.
    """
    result = decode_result(files.read_regular(path / "metrics.json"))
    name = fit_name(result.model, result.trial, result.fold, result.seed)
    if path.name != name or not 0 <= result.fold < plan.folds:
        raise ValueError("metrics.json belongs to another fit")
    is_removed = (path / REMOVED).is_dir()
    for name, checksum in result.checksums.items():
        if is_removed and name.startswith("model/"):
            continue
        if not (path / name).resolve().is_relative_to(path.resolve()) or files.sha256(path / name) != checksum:
            raise ValueError(f"{name} has another checksum")
    prediction = np.load(io.BytesIO(files.read_regular(path / "oof.npy")), allow_pickle=False)
    rows = len(data.held_out(result.fold))
    shape = (rows,) if plan.task == "regression" else (rows, plan.n_classes)
    if prediction.shape != shape or prediction.dtype.kind != "f" or not np.isfinite(prediction).all():
        raise ValueError(f"oof.npy does not hold {rows} predictions")
    if not (is_removed or any((path / "model").iterdir())) or min(result.seconds, result.predict_seconds) < 0:
        raise ValueError("it has no model")
    if not np.isfinite([result.score or 0.0, result.seconds, result.predict_seconds]).all() or result.n_rows < 0:
        raise ValueError("metrics.json has a number that is not finite")
    return result
