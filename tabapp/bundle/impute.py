"""Missing cells of a table, filled by models that can impute: from a bundle, or trained on the table itself."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.bundle.archive import open_archive
from tabapp.bundle.contents import decode_contents
from tabapp.data.infer import infer_schema
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import check_columns, typed_frame
from tabapp.data.values import is_missing, strip
from tabapp.errors import DataError, UsageError
from tabapp.features.arrays import FIRST_LEVEL, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FitContext, FittedModel, Plugin, Shape

FILLED_KINDS = ("numeric", "categorical", "boolean")
EARLY_STOPPING_SHARE = 0.15


@dataclass(frozen=True)
class Imputer:
    """A model that imputes, and what makes the arrays it takes."""

    preparer: FeaturePreparer
    model: FittedModel


@dataclass(frozen=True)
class Imputed:
    """A table with its missing cells filled.

    Attributes:
        frame: every column as text, or numbers where asked for.
        filled: how many cells were filled, by column.
        left: how many are still missing, by column.
        notes: what a user should be told.
    """

    frame: pl.DataFrame
    filled: dict[str, int]
    left: dict[str, int]
    notes: tuple[str, ...] = ()


def imputers_of_bundle(path: Path) -> tuple[Schema, list[Imputer]]:
    """The models of a bundle that impute: one per fold of the one with the most weight.

    Raises:
        BundleError: the bundle cannot be trusted.
        UsageError: it has no such model.
    """
    with open_archive(path) as archive, tempfile.TemporaryDirectory(prefix="tabapp-bundle-") as unpacked:
        folder = Path(unpacked)
        archive.extract(folder)
        contents = decode_contents(archive)
        able = [c for c in contents.ensemble.candidates if registry.get(c.model).can_impute]
        if not able:
            names = ", ".join(sorted({c.model for c in contents.ensemble.candidates}))
            raise UsageError(f"{path} holds no model that imputes, only {names}; leave --model out to train one.")
        best = max(able, key=lambda candidate: candidate.weight)
        plugin = registry.get(best.model)
        return contents.schema, [
            Imputer(FeaturePreparer.load(folder / fold.features), plugin.load(folder / fold.model))
            for fold in best.folds
        ]


def schema_without_target(frame: pl.DataFrame, kinds: dict[str, str]) -> Schema:
    """What the columns of a table are, all of them features."""
    schema = infer_schema(frame, kinds=kinds)
    columns = [
        msgspec.structs.replace(column, role="feature") if column.role == "target" else column
        for column in schema.columns
    ]
    return msgspec.structs.replace(schema, columns=tuple(columns))


def train_imputer(
    frame: pl.DataFrame,
    schema: Schema,
    *,
    seconds: float,
    seed: int,
    on_report: Callable[[int, float], None] = lambda step, value: None,
) -> Imputer:
    """Train the first model that imputes on all rows of a table, without a target.

    Args:
        frame: every column as text.
        seconds: budget.

    Raises:
        DataError: no model takes such a table, or there is none.
    """
    typed = typed_frame(frame, schema)
    preparer, plugin = _prepared(typed, schema, seed)
    table, spec = preparer.transform(typed), preparer.spec
    shape = Shape(len(table), len(spec.numeric), len(spec.categorical), 1)
    if reason := plugin.supports("regression", shape):
        raise DataError(f"{plugin.title} cannot impute it: {reason}")
    order = np.random.default_rng(seed).permutation(len(table))
    n_valid = max(1, round(EARLY_STOPPING_SHARE * len(table)))
    with tempfile.TemporaryDirectory(prefix="tabapp-fit-") as scratch:
        context = FitContext(
            task="regression",
            n_classes=1,
            metric="rmse",
            features=spec,
            seed=seed,
            device="cpu",
            n_threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            folder=Path(scratch),
            soft_deadline=time.monotonic() + seconds,
            on_report=on_report,
        )
        params = plugin.defaults("regression", shape, "cpu")
        model = plugin.fit(table.take(order[n_valid:]), table.take(order[:n_valid]), params, context)
    return Imputer(preparer, model)


def _prepared(typed: pl.DataFrame, schema: Schema, seed: int) -> tuple[FeaturePreparer, Plugin]:
    for name in registry.names():
        found = registry.find(name)
        if found.plugin is not None and found.reason is None and found.plugin.can_impute:
            return FeaturePreparer.fit(typed, schema, found.plugin.features(), seed), found.plugin
    raise DataError("no model that imputes is usable here; `tabapp models` says why")


def impute(
    frame: pl.DataFrame,
    schema: Schema,
    imputers: Sequence[Imputer],
    *,
    as_numbers: bool = False,
    fill_missing_columns: bool = False,
) -> Imputed:
    """Fill the missing cells of numeric, categorical and boolean columns; all other cells stay as they are.

    Several imputers say the mean of their numbers and the most frequent of their levels.

    Args:
        frame: the table as text, as `read_table` gives it.
        as_numbers: give numeric columns as Float64.
        fill_missing_columns: take absent and mistyped columns as missing; absent ones are not added.

    Raises:
        DataError: columns are absent or mistyped.
    """
    notes = check_columns(frame, schema, fill_missing_columns)
    used = [column.name for column in schema.columns if column.name in frame.columns]
    typed = typed_frame(frame.select(used), schema)
    tables = [(each, each.preparer.transform(typed)) for each in imputers]
    answers: list[tuple[FeaturePreparer, Table]] = []
    for each, table in tables:
        filled = each.model.impute(table)
        if filled is not None:
            answers.append((each.preparer, filled))
    columns: dict[str, pl.Series] = {}
    counts: dict[str, int] = {}
    left: dict[str, int] = {}
    for column in schema.columns:
        if column.name not in frame.columns:
            continue
        gone = _missing(frame[column.name], column)
        fillable = column.role == "feature" and column.kind in FILLED_KINDS
        said = _answers(column, schema, typed, answers, gone.to_numpy()) if fillable and gone.any() else None
        if said is not None:
            counts[column.name] = len(said)
            columns[column.name] = _with_cells(frame[column.name], gone, said, column)
        elif gone.any():
            left[column.name] = int(gone.sum())
        if as_numbers and column.role == "feature" and column.kind == "numeric":
            columns[column.name] = _as_numbers(typed[column.name], gone, said)
    return Imputed(frame.with_columns(**columns), counts, left, tuple(notes))


def _missing(texts: pl.Series, column: Column) -> pl.Series:
    return is_missing(strip(texts), column.levels, column.missing_spellings)


def _answers(
    column: Column,
    schema: Schema,
    typed: pl.DataFrame,
    answers: list[tuple[FeaturePreparer, Table]],
    gone: npt.NDArray[np.bool_],
) -> list[Any] | None:
    """What the models say of a column's missing cells: numbers, or levels; None where none of them knows the column."""
    said: list[list[Any]] = []
    for preparer, table in answers:
        spec = preparer.spec
        if column.name in spec.categorical:
            codes = table.categorical[gone, spec.categorical.index(column.name)]
            level_of = _levels(preparer, column, schema, typed[column.name])
            said.append([level_of.get(int(code)) for code in codes])
        elif column.name in spec.numeric:
            position = spec.numeric.index(column.name)
            said.append(_numbers(preparer, column, schema, typed, position, table.numeric[gone, position]))
    if not said:
        return None
    if column.kind == "numeric":
        return np.mean(np.array(said, dtype=np.float64), axis=0).tolist()
    votes = [Counter(vote for vote in each if vote is not None).most_common(1) for each in zip(*said, strict=True)]
    return None if not all(votes) else [vote[0][0] for vote in votes]


def _levels(preparer: FeaturePreparer, column: Column, schema: Schema, present: pl.Series) -> dict[int, str]:
    """The level that each code stands for, found by asking what code each level gets."""
    levels = pl.Series(column.name, [*column.levels, *present.drop_nulls().unique().sort()], dtype=pl.String)
    asked = typed_frame(pl.DataFrame({column.name: levels}), schema)
    codes = preparer.transform(asked).categorical[:, preparer.spec.categorical.index(column.name)]
    level_of: dict[int, str] = {}
    for code, level in zip(codes.tolist(), asked[column.name].to_list(), strict=True):
        if code >= FIRST_LEVEL:
            level_of.setdefault(code, level)
    return level_of


def _numbers(
    preparer: FeaturePreparer,
    column: Column,
    schema: Schema,
    typed: pl.DataFrame,
    position: int,
    scaled: npt.NDArray[np.float32],
) -> list[float]:
    """Numbers in the column's units. Features are a line of it, which is found by asking for two points."""
    low = column.low if column.low is not None else float(typed[column.name].min())  # pyright: ignore[reportArgumentType]
    high = column.high if column.high is not None else float(typed[column.name].max())  # pyright: ignore[reportArgumentType]
    if not high > low:
        high = low + 1.0
    points = pl.Series(column.name, [low, high], dtype=pl.Float64)
    asked = typed_frame(pl.DataFrame({column.name: [None, None]}, schema={column.name: pl.String}), schema)
    at_low, at_high = preparer.transform(asked.with_columns(points)).numeric[:, position].astype(np.float64)
    values = low + (scaled.astype(np.float64) - at_low) / (at_high - at_low) * (high - low)
    whole = typed[column.name].drop_nulls()
    if len(whole) and bool((whole == whole.round()).all()):
        values = np.round(values)
    return values.tolist()


def _with_cells(texts: pl.Series, gone: pl.Series, said: list[Any], column: Column) -> pl.Series:
    if column.kind == "numeric":
        said = [_spelled(value).replace(".", column.decimal) for value in said]
    return texts.scatter(gone.arg_true(), pl.Series(said, dtype=pl.String))


def _spelled(value: float) -> str:
    return str(int(value)) if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"


def _as_numbers(numbers: pl.Series, gone: pl.Series, said: list[Any] | None) -> pl.Series:
    return numbers if said is None else numbers.scatter(gone.arg_true(), pl.Series(said, dtype=pl.Float64))
