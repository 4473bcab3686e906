"""Writes the rows of a run to disk: typed, with their target and folds. Every fit reads them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.data.columnar import table_files
from tabapp.data.columns import column_of
from tabapp.data.duplicates import groups_of_equal_rows
from tabapp.data.other_targets import encoded, learnable
from tabapp.data.reading.read import Reading
from tabapp.data.schema import Column, Schema
from tabapp.data.split import Folds, make_folds, make_holdout, second_folds
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.engine.fit.run_data import OTHER_TARGETS, ROW_NUMBERS, UNLABELED, UNLABELED_OTHERS
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.plan.scorable import Scored, split_rows
from tabapp.engine.plan.validation import holdout_fraction
from tabapp.ensemble.averaging import compared_rows
from tabapp.errors import DataError, option
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder

SAMPLE_ROWS = 20
MOST_UNLABELED = 500_000
"""Rows without a target that are kept, evenly spaced: pre-training sees no more in the time of a run."""
CHECKED = ("table.arrow", "schema.json", UNLABELED, UNLABELED_OTHERS, OTHER_TARGETS)
CHECKSUMS = "checksums.json"
"""SHA-256 of the files that a resumed run cannot do without; a damaged Arrow file may crash its parser."""


@dataclass(frozen=True)
class RowExtras:
    """Special columns of the usable rows as numbers, or None.

    Without a group column, rows that were copied by mistake form a group, so that a split never separates them.
    """

    groups: npt.NDArray[np.int64] | None
    time: npt.NDArray[np.float64] | None
    weight: npt.NDArray[np.float32] | None


def _extras(typed: pl.DataFrame, schema: Schema) -> RowExtras:
    group, time, weight = (schema.with_role(role) for role in ("group", "time", "weight"))
    return RowExtras(
        groups=None if group is None else _group_codes(column_of(typed, group.name)),
        time=None if time is None else column_of(typed, time.name).to_physical().cast(pl.Float64).to_numpy(),
        weight=None if weight is None else _weights(typed[weight.name]),
    )


def _group_codes(values: pl.Series) -> npt.NDArray[np.int64]:
    """(rows,) codes that are equal within a group; a row with a missing group is a group of its own."""
    codes = values.cast(pl.String).rank("dense").cast(pl.Float64).to_numpy().copy()
    ungrouped = np.isnan(codes)
    codes[ungrouped] = np.nanmax(codes, initial=0) + 1 + np.arange(ungrouped.sum())
    return codes.astype(np.int64)


def _weights(values: pl.Series) -> npt.NDArray[np.float32]:
    """(rows,) weights; 0 if missing.

    Raises:
        DataError: a weight is negative, or none is positive.
    """
    weights = values.alias("").cast(pl.Float32, strict=False).fill_null(0.0)
    if (weights < 0).any() or weights.sum() <= 0:
        raise DataError(
            f"The weight column {values.name!r} has negative weights, or none above 0. Choose another {option('weight')}."
        )
    return weights.to_numpy()


def write_rows(
    folder: RunFolder,
    config: RunConfig,
    reading: Reading,
    schema: Schema,
    plan: Plan,
    more: pl.DataFrame | None = None,
) -> Plan:
    """Write the usable rows, their target and their folds, and the rows without a target into the run folder.

    Args:
        more: the table `--unlabelled` as text.

    Returns:
        The plan, changed where its metric is undefined on the scored rows.

    Raises:
        DataError: see `split_rows`.
    """
    return write_splits(folder, config, write_table(folder, config, reading, schema, more), schema, plan)


def write_table(
    folder: RunFolder, config: RunConfig, reading: Reading, schema: Schema, more: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Write the usable rows and the rows without a target into the run folder, and return the usable rows typed."""
    text = usable_rows(reading, schema)
    typed = typed_frame(text, schema)
    unlabeled = unlabeled_rows(reading, schema, more)
    others = learnable(schema, config.other_targets)
    shutil.rmtree(folder.data, ignore_errors=True)
    with files.new_folder(folder.data) as temporary:
        typed.write_ipc(temporary / "table.arrow", compression="uncompressed")
        if text.height < reading.frame.height:
            usable = rows_with_target(reading.frame, schema)
            np.save(temporary / ROW_NUMBERS, np.flatnonzero(usable), allow_pickle=False)
        if len(unlabeled):
            unlabeled.write_ipc(temporary / UNLABELED, compression="uncompressed")
            known = unlabeled_others(reading, schema, others, more)
            if not all(known[name].is_null().all() for name in known.columns):
                known.write_ipc(temporary / UNLABELED_OTHERS, compression="uncompressed")
        if others:
            encoded(text, others).write_ipc(temporary / OTHER_TARGETS, compression="uncompressed")
        sample_rows(text, schema).write_ipc(temporary / "sample.arrow")
        files.write_json(temporary / "fingerprint.json", fingerprint(config, reading))
        files.write_bytes(temporary / "schema.json", msgspec.json.format(msgspec.json.encode(schema), indent=1))
        checked = [name for name in CHECKED if (temporary / name).is_file()]
        files.write_json(temporary / CHECKSUMS, {name: files.sha256(temporary / name) for name in checked})
    return typed


def usable_rows(reading: Reading, schema: Schema) -> pl.DataFrame:
    """The rows with a target, as text."""
    return reading.frame.filter(pl.Series(rows_with_target(reading.frame, schema)))


def unlabeled_rows(reading: Reading, schema: Schema, more: pl.DataFrame | None) -> pl.DataFrame:
    """The typed features of the rows without a target, then those of the table `--unlabelled`, whose target is not read."""
    names, features = ([column.name for column in columns] for columns in (schema.inputs, schema.features))
    parts = [_rows_without_target(reading, schema), *([] if more is None else [more])]
    return _most_kept(pl.concat([typed_frame(part[names], schema)[features] for part in parts]))


def unlabeled_others(
    reading: Reading, schema: Schema, others: Sequence[Column], more: pl.DataFrame | None
) -> pl.DataFrame:
    """Numbers and class codes of the other targets of `unlabeled_rows`, null in those of the table `--unlabelled`."""
    known = encoded(_rows_without_target(reading, schema), others)
    parts = [known] if more is None else [known, known.clear(more.height)]
    return _most_kept(pl.concat(parts))


def _rows_without_target(reading: Reading, schema: Schema) -> pl.DataFrame:
    return reading.frame.filter(pl.Series(~rows_with_target(reading.frame, schema)))


def _most_kept(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.gather_every(-(-rows.height // MOST_UNLABELED)) if rows.height > MOST_UNLABELED else rows


def write_splits(folder: RunFolder, config: RunConfig, typed: pl.DataFrame, schema: Schema, plan: Plan) -> Plan:
    """Write the target and the fold of each row, and return the plan for them. Equal arguments give equal folds."""
    target = encode_target(typed, schema)
    extras = _extras(typed, schema)
    if extras.groups is None:
        classes = None if plan.task == "regression" else typed[schema.target]
        extras = replace(extras, groups=groups_of_equal_rows(typed, classes))

    def split(n_folds: int) -> Folds:
        if n_folds > 1:
            copies = typed[[column.name for column in schema.features]].hash_rows().to_numpy()
            return make_folds(target, plan.task, n_folds, plan.seed, groups=extras.groups, copies=copies)
        fraction = holdout_fraction(len(target))
        return make_holdout(target, plan.task, fraction, plan.seed, groups=extras.groups, time=extras.time)

    splits = split_rows(plan, config, Scored(schema, target, extras.weight, extras.groups), split)
    arrays = {name: getattr(extras, name) for name in ("groups", "time", "weight")}
    content = io.BytesIO()
    present = {name: array for name, array in arrays.items() if array is not None}
    second = second_folds(splits.fold, target, plan.task, compared_rows(len(target)), plan.seed, groups=extras.groups)
    np.savez(content, target=target, fold=splits.fold, second_fold=second, **present)
    files.write_bytes(folder.path / "splits.npz", content.getvalue())
    return splits.plan


def fingerprint(config: RunConfig, reading: Reading) -> dict[str, str | int]:
    """Identifies the training table."""
    return {
        "file": Path(config.data).name,
        "rows": reading.frame.height,
        "columns": reading.frame.width,
        "bytes": reading.n_bytes,
        "sha256": files.sha256(Path(config.data)),
    }


def read_sample(folder: RunFolder) -> pl.DataFrame:
    """The sample rows of the bundle, as text."""
    return table_files.read(folder.data / "sample.arrow", "arrow")


def sample_rows(text: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """A few evenly spaced rows as text, without the target: the bundle is tested on them."""
    names = [column.name for column in schema.inputs]
    step = max(1, text.height // SAMPLE_ROWS)
    return text[names].gather_every(step).head(SAMPLE_ROWS)
