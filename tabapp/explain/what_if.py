"""What if: the output of one row over the values of a column, and the nearest changes of few columns that reach another output.

Counterfactuals follow Wachter, Mittelstadt, Russell: "Counterfactual Explanations without Opening the Black Box", Harvard JOLT
31, 2018, with plausible values only and few changed columns (Mothilal, Sharma, Tan: "Explaining Machine Learning Classifiers
through Diverse Counterfactual Explanations", FAT* 2020, section 3), found by a beam search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import typed_column
from tabapp.errors import UsageError, did_you_mean

Float64 = npt.NDArray[np.float64]
Predict = Callable[[pl.DataFrame], Float64]

N_PLACES = 25
MOST_LEVELS = 12
QUANTILES = tuple(percent / 100 for percent in range(5, 100, 10))
INNER = (0.02, 0.98)

MOST_CHANGES = 3
BEAM = 10
PER_COLUMN = 2
"""Values of a column that the beam keeps, so that one column does not fill it."""
MOST_ROWS = 4_000
BISECTIONS = 6


@dataclass(frozen=True)
class Curve:
    """The output of one row at values of a column: numbers in `places`, or levels and dates in `labels`."""

    column: str
    places: tuple[float, ...]
    labels: tuple[str, ...]
    outputs: tuple[float, ...]


@dataclass(frozen=True)
class Goal:
    """What a counterfactual reaches: a class by its code, or a number that the output is at least or at most.

    `threshold` is the least probability of class 1 that is labeled 1; None for the most probable class.
    """

    code: int | None = None
    number: float = 0.0
    above: bool = True
    threshold: float | None = None

    def score(self, predicted: Float64) -> Float64:
        """(rows,) how near predictions are to the goal; at least 0 where they reach it."""
        if self.code is None:
            return predicted - self.number if self.above else self.number - predicted
        if self.threshold is not None:
            beyond = predicted[:, 1] - self.threshold
            return beyond if self.code == 1 else np.where(beyond < 0, -beyond, -np.maximum(beyond, 1e-12))
        others = np.delete(predicted, self.code, axis=1).max(axis=1)
        return predicted[:, self.code] - others


@dataclass(frozen=True)
class Counterfactual:
    """A change that reaches the goal: the new values by column, as text, and the prediction with them.

    `distance` is the sum over columns: 1 for a level, and for a number the change as a share of the column's inner range.
    """

    values: dict[str, str]
    predicted: tuple[float, ...]
    distance: float


@dataclass(frozen=True)
class _Change:
    values: dict[str, Any]
    score: float
    distance: float


def quantiles_of(column: Column, shares: Sequence[float]) -> list[float]:
    """Quantiles of a numeric column, interpolated in the histogram of its training values; empty without one."""
    if column.low is None or column.high is None or not sum(column.histogram):
        return []
    cumulative = np.concatenate([[0.0], np.cumsum(column.histogram) / sum(column.histogram)])
    edges = np.linspace(column.low, column.high, len(column.histogram) + 1)
    return [float(np.interp(share, cumulative, edges)) for share in shares]


def plausible_values(column: Column, reference: pl.Series) -> list[Any]:
    """Values that training rows have: levels, quantiles of numbers, and the values of the reference rows.

    Args:
        reference: typed values of the reference rows.
    """
    known = reference.drop_nulls().unique().sort().to_list()
    if column.kind in ("categorical", "boolean"):
        return list(dict.fromkeys([*column.levels[:MOST_LEVELS], *known]))
    if column.kind == "numeric":
        numbers = [_rounded(value, known) for value in quantiles_of(column, QUANTILES)]
        return sorted({*numbers, *known})
    return known


def with_columns(frame: pl.DataFrame, names: Iterable[str], schema: Schema) -> pl.DataFrame:
    """A table as text with the features of these names, which are missing in every row where the table lacks them."""
    features = {column.name for column in schema.inputs}
    absent = [name for name in names if name in features and name not in frame.columns]
    return frame.with_columns(pl.Series(name, [None] * frame.height, dtype=pl.String) for name in absent)


def changed_rows(
    frame: pl.DataFrame, rows: range, settings: Mapping[str, str | None], schema: Schema
) -> tuple[pl.DataFrame, list[str]]:
    """A table with other values in some rows, and notes for the user.

    Args:
        frame: the table as text, with the columns that change.
        settings: new cells by column, as a file spells them; nothing is a missing value.

    Raises:
        UsageError: a column is not a feature, or a value is not of its kind.
    """
    features = {column.name: column for column in schema.inputs}
    notes: list[str] = []
    for name, value in settings.items():
        if name not in features:
            hint = did_you_mean(name, features) or ". `tabapp inspect` lists the columns."
            raise UsageError(f"The bundle has no feature {name!r}{hint}")
        column = features[name]
        typed = typed_column(pl.Series(name, [value or None], dtype=pl.String), column)[0]
        if value and typed is None and column.kind in ("numeric", "datetime"):
            kind = "a number" if column.kind == "numeric" else "a date as in the training data"
            raise UsageError(f"{value!r} is not {kind}, which {name!r} needs. Choose another value.")
        if column.kind in ("categorical", "boolean") and typed is not None and typed not in column.levels:
            notes.append(f"{value!r} is not among the values of {name!r} in the training data")
        frame = frame.with_columns(column_of(frame, name).scatter(list(rows), value or None).alias(name))
    return frame, notes


def curve(
    predict: Predict,
    row: pl.DataFrame,
    column: Column,
    reference: pl.Series,
    code: int,
    companions: Mapping[str, Column] = {},
) -> Curve | None:
    """The output of a row as one column changes; None for a column without values to try.

    Args:
        predict: called with typed rows.
        row: one typed row.
        reference: typed values of the reference rows in this column.
        code: position of the class whose probability is shown; not used in a regression.
        companions: `Schema.companions`; a changed cell has no mark.
    """
    own = column_of(row, column.name)
    labels: tuple[str, ...] = ()
    if column.kind == "numeric":
        known = [float(value) for value in reference.drop_nulls().to_list()]
        inner = quantiles_of(column, INNER) or ([min(known), max(known)] if known else [])
        if len(inner) < 2 or not inner[1] > inner[0]:
            return None
        places = {_rounded(value, known) for value in np.linspace(inner[0], inner[1], N_PLACES).tolist()}
        values: list[Any] = sorted(places | {value for value in own.to_list() if value is not None})
    else:
        values = plausible_values(column, reference)
        present = [value for value in own.to_list() if value is not None and value not in values]
        values = sorted([*values, *present]) if column.kind == "datetime" else [*present, *values]
        labels = tuple(_text(value, column) for value in values)
    if len(values) < 2:
        return None
    rows = _with_values(row, [{column.name: value} for value in values], companions)
    outputs = _outputs(predict(rows), code)
    numbers = () if labels else tuple(float(value) for value in values)
    return Curve(column.name, numbers, labels, tuple(outputs.tolist()))


def counterfactuals(
    predict: Predict,
    schema: Schema,
    row: pl.DataFrame,
    reference: pl.DataFrame,
    goal: Goal,
    *,
    fixed: Collection[str] = (),
    n_results: int = 3,
) -> list[Counterfactual]:
    """The nearest changes that reach a goal: fewest columns first, then the smallest distance. Empty if none is found.

    Args:
        predict: called with typed rows.
        row: one typed row.
        reference: typed rows, for plausible values.
        fixed: names of columns that keep their values.
    """
    free = [column for column in schema.inputs if column.name not in fixed]
    options = {
        column.name: [
            value
            for value in plausible_values(column, column_of(reference, column.name))
            if value != row[column.name][0]
        ]
        for column in free
    }
    beam = [_Change({}, float(goal.score(predict(row))[0]), 0.0)]
    if beam[0].score >= 0:
        return []
    for _ in range(MOST_CHANGES):
        candidates = _unique(
            {**change.values, column.name: value}
            for change in beam
            for column in free
            if column.name not in change.values
            for value in options[column.name]
        )[:MOST_ROWS]
        if not candidates:
            break
        scores = goal.score(predict(_with_values(row, candidates, schema.companions)))
        tried = [
            _Change(values, float(score), _distance(schema, row, values))
            for values, score in zip(candidates, scores, strict=True)
        ]
        reached = sorted((each for each in tried if each.score >= 0), key=lambda each: each.distance)
        if reached:
            best = _first_by_columns(reached, n_results)
            return [_finished(predict, schema, row, _nearer(predict, schema, row, goal, each)) for each in best]
        beam = _best(sorted(tried, key=lambda each: -each.score))
    return []


def _first_by_columns(changes: Sequence[_Change], n_results: int) -> list[_Change]:
    """The first change of each set of columns."""
    found: dict[frozenset[str], _Change] = {}
    for change in changes:
        found.setdefault(frozenset(change.values), change)
    return list(found.values())[:n_results]


def _best(changes: Sequence[_Change]) -> list[_Change]:
    kept: list[_Change] = []
    times: dict[frozenset[str], int] = {}
    for change in changes:
        columns = frozenset(change.values)
        if times.get(columns, 0) < PER_COLUMN:
            times[columns] = times.get(columns, 0) + 1
            kept.append(change)
        if len(kept) == BEAM:
            break
    return kept


def _nearer(predict: Predict, schema: Schema, row: pl.DataFrame, goal: Goal, change: _Change) -> _Change:
    """Move each changed number back toward the row as far as the goal allows, by bisection."""
    for name, value in change.values.items():
        start = row[name][0]
        if schema.column(name).kind != "numeric" or start is None:
            continue
        whole = float(start).is_integer() and float(value).is_integer()
        near, far = float(start), float(value)
        for _ in range(BISECTIONS):
            middle = round((near + far) / 2) if whole else float(f"{(near + far) / 2:.4g}")
            if middle in (near, far):
                break
            values = {**change.values, name: float(middle)}
            score = float(goal.score(predict(_with_values(row, [values], schema.companions)))[0])
            if score >= 0:
                far = float(middle)
                change = _Change(values, score, _distance(schema, row, values))
            else:
                near = float(middle)
    return change


def _finished(predict: Predict, schema: Schema, row: pl.DataFrame, change: _Change) -> Counterfactual:
    predicted = np.atleast_1d(predict(_with_values(row, [change.values], schema.companions))[0])
    texts = {name: _text(value, schema.column(name)) for name, value in change.values.items()}
    return Counterfactual(texts, tuple(predicted.tolist()), change.distance)


def _distance(schema: Schema, row: pl.DataFrame, values: dict[str, Any]) -> float:
    total = 0.0
    for name, value in values.items():
        column, start = schema.column(name), row[name][0]
        inner = quantiles_of(column, (QUANTILES[0], QUANTILES[-1]))
        spread = inner[1] - inner[0] if inner else 0.0
        total += abs(value - start) / spread if column.kind == "numeric" and start is not None and spread > 0 else 1.0
    return total


def _unique(candidates: Any) -> list[dict[str, Any]]:
    return list({tuple(sorted(values.items(), key=lambda item: item[0])): values for values in candidates}.values())


def _with_values(
    row: pl.DataFrame, changes: Sequence[dict[str, Any]], companions: Mapping[str, Column]
) -> pl.DataFrame:
    """The row once for each change, with the changed values, which have no marks."""
    n_rows = len(changes)
    if companions:
        changes = [
            {**values, **{companions[name].name: None for name in values if name in companions}} for values in changes
        ]
    columns: list[pl.Series] = []
    for cells in row.get_columns():
        repeated = cells.gather([0] * n_rows)
        if any(cells.name in values for values in changes):
            old = cells[0]
            repeated = pl.Series(cells.name, [values.get(cells.name, old) for values in changes], dtype=cells.dtype)
        columns.append(repeated)
    return pl.DataFrame(columns)


def _outputs(predicted: Float64, code: int) -> Float64:
    return predicted[:, code] if predicted.ndim == 2 else predicted


def _rounded(value: float, known: Sequence[float]) -> float:
    """A number with few digits; whole where all known values are."""
    if known and all(float(each).is_integer() for each in known):
        return float(round(value))
    return float(f"{value:.4g}")


def _text(value: Any, column: Column) -> str:
    """A value as a file of this schema spells it."""
    if column.kind == "numeric":
        text = str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"
        return text.replace(".", column.decimal) + ("%" if column.notation == "share" else "")
    if column.kind == "datetime":
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
