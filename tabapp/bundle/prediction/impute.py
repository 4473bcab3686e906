"""Fills the missing cells of a table with models that can impute, from a bundle or trained on the table itself."""

from __future__ import annotations

import math
import os
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

from tabapp import metrics
from tabapp.bundle.prediction.local import LocalPredictor, bundle_errors, name_of
from tabapp.bundle.prediction.uncertainty import uncertainty_column, uncertainty_of
from tabapp.data.columns import column_of
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.infer import infer_schema
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import typed_frame
from tabapp.errors import BundleError, DataError, UsageError
from tabapp.features.arrays import FIRST_LEVEL, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FitContext, FittedModel, Plugin, Shape, Uncertainty
from tabapp.models.devices import existing_gpu
from tabapp.models.prepared_fit import PreparedFit, Split
from tabapp.temporary import TemporaryFolder

FILLED_KINDS = ("numeric", "categorical", "boolean")
EARLY_STOPPING_SHARE = 0.15
LEAST_DIGITS, MOST_DIGITS = 6, 17


@dataclass(frozen=True)
class Imputer:
    """A model that imputes, with its feature preparation. `where` names it in error messages."""

    preparer: FeaturePreparer
    model: FittedModel
    where: str = "the model"


@dataclass(frozen=True)
class Imputed:
    """A table with its missing cells filled.

    Attributes:
        frame: every column as text, or numeric columns as numbers if requested; then uncertainties as numbers if requested.
        filled: number of filled cells by column.
        left: number of cells still missing, by column.
        notes: sentences for the user.
    """

    frame: pl.DataFrame
    filled: dict[str, int]
    left: dict[str, int]
    notes: tuple[str, ...] = ()


def imputers_of(predictor: LocalPredictor) -> list[Imputer]:
    """The fold models of the imputing model with the largest weight.

    Raises:
        UsageError: the ensemble has no such model.
    """
    candidates = predictor.ensemble.candidates
    names = {candidate.model: registry.find(candidate.model).plugin for candidate in candidates}
    able = [c for c in candidates if (found := names[c.model]) is not None and found.can_impute]
    if not able:
        raise UsageError(
            f"{predictor.where} has no model that imputes, only {', '.join(sorted(names))}. Omit --model to train one."
        )
    best = max(able, key=lambda candidate: candidate.weight)
    return [
        Imputer(
            predictor.preparers[fold.features],
            predictor.models[fold.model],
            f"{predictor.where}: {name_of(best)} in {fold.model}",
        )
        for fold in best.folds
    ]


def schema_without_target(frame: pl.DataFrame, kinds: dict[str, str]) -> Schema:
    """The schema of a table with all columns as features."""
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
    device: str = "cpu",
    on_report: Callable[[int, float], None] = lambda step, value: None,
) -> Imputer:
    """Train the first model that imputes on all rows of a table, without a target.

    Args:
        frame: every column as text.
        seconds: budget.
        device: where the model is trained and fills cells: "cpu", "cuda" or "cuda:N".

    Raises:
        UsageError: the device does not exist.
        DataError: no model that imputes is available, or none supports the table.
    """
    if device != "cpu":
        device = existing_gpu(device)
    typed = typed_frame(frame, schema)
    preparer, plugin = _prepared(typed, schema, seed)
    table, spec = preparer.transform(typed), preparer.spec
    shape = Shape(len(table), len(spec.numeric), len(spec.categorical), 1)
    if reason := plugin.supports("regression", shape):
        raise DataError(f"{plugin.title} cannot fill the missing cells of this table. {reason}")
    order = np.random.default_rng(seed).permutation(len(table))
    n_valid = max(1, round(EARLY_STOPPING_SHARE * len(table)))
    params = plugin.defaults("regression", shape, device)
    with TemporaryFolder("fit") as scratch:
        context = FitContext(
            task="regression",
            n_classes=1,
            metric=metrics.default_metric("regression"),
            features=spec,
            seed=seed,
            device=device,
            n_threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            folder=Path(scratch) / plugin.name,
            soft_deadline=time.monotonic() + seconds,
            on_report=on_report,
        )
        context.folder.mkdir()
        split = Split(table, np.arange(len(table)) < n_valid, order)
        return Imputer(preparer, PreparedFit(plugin, params, split, context).train().model)


def _prepared(typed: pl.DataFrame, schema: Schema, seed: int) -> tuple[FeaturePreparer, Plugin]:
    for name in registry.names():
        found = registry.find(name)
        if found.plugin is not None and found.reason is None and found.plugin.can_impute:
            return FeaturePreparer.fit(typed, schema, found.plugin.features(), seed), found.plugin
    raise DataError("no model that imputes is available; `tabapp models` shows the reason")


def impute(
    frame: pl.DataFrame,
    schema: Schema,
    imputers: Sequence[Imputer],
    *,
    as_numbers: bool = False,
    fill_missing_columns: bool = False,
    strict: bool = False,
    decimal: str | None = None,
    with_uncertainty: bool = False,
) -> Imputed:
    """Fill the missing cells of numeric, categorical and boolean columns; all other cells stay as they are.

    Several imputers fill the mean of their numbers, or the most frequent of their levels.

    Args:
        frame: the table as text, as `read_table` gives it.
        as_numbers: give numeric columns as Float64.
        fill_missing_columns: treat absent and mistyped columns as missing; absent columns are not added.
        strict, decimal: as in `NewRows`.
        with_uncertainty: add a column for each filled one: the standard deviation of filled numbers, or the probability that a
            filled level is wrong; null for other cells.

    Raises:
        DataError: columns are absent or mistyped, or the table differs from training and `strict` is set.
        UsageError: uncertainties are requested, and the model does not know them.
    """
    rows = NewRows(schema, frame.columns, fill=fill_missing_columns, strict=strict, decimal=decimal)
    typed = rows.add(frame)
    # Filled cells are written in the formats of the file.
    notes, schema = rows.notes(), rows.schema
    tables = [(each, each.preparer.transform(typed)) for each in imputers]
    predictions: list[tuple[FeaturePreparer, Table]] = []
    for each, table in tables:
        with bundle_errors(f"{each.where} fails to impute"):
            filled = each.model.impute(table)
        if filled is not None and not np.isfinite(filled.numeric).all():
            raise BundleError(f"{each.where} predicts values that are not finite.")
        if filled is not None:
            predictions.append((each.preparer, filled))
    doubts = [uncertainty_of(each.model, table, each.where) for each, table in tables] if with_uncertainty else []
    columns: dict[str, pl.Series] = {}
    added: list[pl.Series] = []
    counts: dict[str, int] = {}
    left: dict[str, int] = {}
    for column in schema.columns:
        if column.name not in frame.columns:
            continue
        missing = _missing_cells(column_of(frame, column.name), column)
        fillable = column.role == "feature" and column.kind in FILLED_KINDS
        values = (
            _predicted_cells(column, schema, typed, predictions, missing.to_numpy())
            if fillable and missing.any()
            else None
        )
        if values is not None:
            counts[column.name] = len(values)
            columns[column.name] = _with_cells(column_of(frame, column.name), missing, values, column)
            if doubts:
                found = [
                    doubt
                    for each, given in zip(imputers, doubts, strict=True)
                    if (doubt := _doubt_of(column, each.preparer, schema, typed, given)) is not None
                ]
                added.append(uncertainty_column(column.name, frame.columns, found, missing))
        elif missing.any():
            left[column.name] = int(missing.sum())
        if as_numbers and column.role == "feature" and column.kind == "numeric":
            columns[column.name] = _as_numbers(column_of(typed, column.name), missing, values)
    return Imputed(frame.with_columns(**columns).with_columns(added), counts, left, tuple(notes))


def _doubt_of(
    column: Column, preparer: FeaturePreparer, schema: Schema, typed: pl.DataFrame, doubt: Uncertainty
) -> npt.NDArray[np.float64] | None:
    """(rows,) uncertainty of a column by one model, in the column's units; None if the model does not have the column."""
    spec = preparer.spec
    if column.name in spec.categorical:
        return doubt.categorical[:, spec.categorical.index(column.name)].astype(np.float64)
    if column.name not in spec.numeric:
        return None
    position = spec.numeric.index(column.name)
    low, high, at_low, at_high = _two_points(preparer, column, schema, typed, position)
    return doubt.numeric[:, position].astype(np.float64) * abs((high - low) / (at_high - at_low))


def _missing_cells(texts: pl.Series, column: Column) -> pl.Series:
    return missing_cells(strip(texts), column)


def _predicted_cells(
    column: Column,
    schema: Schema,
    typed: pl.DataFrame,
    predictions: list[tuple[FeaturePreparer, Table]],
    missing: npt.NDArray[np.bool_],
) -> list[Any] | None:
    """The models' predictions of a column's missing cells, as numbers or levels; None if no model has the column."""
    values: list[list[Any]] = []
    for preparer, table in predictions:
        spec = preparer.spec
        if column.name in spec.categorical:
            codes = table.categorical[missing, spec.categorical.index(column.name)]
            level_of = _levels(preparer, column, schema, column_of(typed, column.name))
            values.append([level_of.get(int(code)) for code in codes])
        elif column.name in spec.numeric:
            position = spec.numeric.index(column.name)
            values.append(_numbers(preparer, column, schema, typed, position, table.numeric[missing, position]))
    if not values:
        return None
    if column.kind == "numeric":
        return np.mean(np.array(values, dtype=np.float64), axis=0).tolist()
    votes = [Counter(vote for vote in each if vote is not None).most_common(1) for each in zip(*values, strict=True)]
    return None if not all(votes) else [vote[0][0] for vote in votes]


def _levels(preparer: FeaturePreparer, column: Column, schema: Schema, present: pl.Series) -> dict[int, str]:
    """The level of each code, found by encoding every level."""
    levels = pl.Series(column.name, [*column.levels, *present.drop_nulls().unique().sort()], dtype=pl.String)
    probe = typed_frame(pl.DataFrame({column.name: levels}), schema)
    codes = preparer.transform(probe).categorical[:, preparer.spec.categorical.index(column.name)]
    level_of: dict[int, str] = {}
    for code, level in zip(codes.tolist(), probe[column.name].to_list(), strict=True):
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
    """Numbers in the column's units; whole ones if all known ones are. A feature is a linear function of its column, found by
    transforming two points."""
    low, high, at_low, at_high = _two_points(preparer, column, schema, typed, position)
    values = low + (scaled.astype(np.float64) - at_low) / (at_high - at_low) * (high - low)
    whole = column_of(typed, column.name).drop_nulls()
    if len(whole) and bool((whole == whole.round()).all()):
        values = np.round(values)
    return values.tolist()


def _two_points(
    preparer: FeaturePreparer, column: Column, schema: Schema, typed: pl.DataFrame, position: int
) -> tuple[float, float, np.float64, np.float64]:
    """Two numbers of the column, and the feature of each."""
    low = column.low if column.low is not None else float(column_of(typed, column.name).min())  # pyright: ignore[reportArgumentType]
    high = column.high if column.high is not None else float(column_of(typed, column.name).max())  # pyright: ignore[reportArgumentType]
    if not high > low:
        high = low + 1.0
    points = pl.Series(column.name, [low, high], dtype=pl.Float64)
    probe = typed_frame(pl.DataFrame({column.name: [None, None]}, schema={column.name: pl.String}), schema)
    at_low, at_high = preparer.transform(probe.with_columns(points)).numeric[:, position].astype(np.float64)
    return low, high, at_low, at_high


def _with_cells(texts: pl.Series, missing: pl.Series, values: list[Any], column: Column) -> pl.Series:
    if column.kind == "numeric":
        digits = _digits(column)
        values = [_spelled(value, digits).replace(".", column.decimal) for value in values]
    return texts.scatter(missing.arg_true(), pl.Series(values, dtype=pl.String))


def _digits(column: Column) -> int:
    """Significant digits of imputed numbers: six of the range of the column, which are thirteen for 1e10 ± 600."""
    if column.low is None or column.high is None or not column.high > column.low:
        return LEAST_DIGITS
    ratio = max(abs(column.low), abs(column.high)) / (column.high - column.low)
    return min(MOST_DIGITS, LEAST_DIGITS + max(0, math.floor(math.log10(ratio))))


def _spelled(value: float, digits: int) -> str:
    return str(int(value)) if value == round(value) and abs(value) < 1e15 else f"{value:.{digits}g}"


def _as_numbers(numbers: pl.Series, missing: pl.Series, values: list[Any] | None) -> pl.Series:
    return numbers if values is None else numbers.scatter(missing.arg_true(), pl.Series(values, dtype=pl.Float64))
