"""One column beside the target: its values in bins, split by the target, and how well it predicts the target alone."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.leaks import codes_of, rows_to_sample, score_alone
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import encode_target, rows_with_target, typed_column

MOST_BINS = 10
MOST_GROUPS = 4
OTHER = "other"
Groups = npt.NDArray[np.intp]


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """A range of numbers or one value, and its rows by group of the target."""

    label: str
    counts: tuple[int, ...]


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table, of the rows that have a target.

    Attributes:
        groups: classes of the target, the most frequent ones first and then the others together, or thirds of a number.
        rows, missing: all rows, and those without a value, by group.
        bins: equal ranges of numbers and dates, or the most frequent values.
        distinct: number of different values.
        association: how well the column alone predicts the target out of fold, from 0 (random guessing) to 1; None for a target.
        measure: the score behind it, in words.
    """

    groups: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    bins: tuple[Bin, ...] = ()
    distinct: int = 0
    association: float | None = None
    measure: str = ""


def inspect_column(frame: pl.DataFrame, schema: Schema, name: str) -> Inspection:
    """Inspect a column.

    Args:
        frame: the table from which the schema was inferred, as text.
        name: of a column of the schema; one that the frame lacks has no values.

    Raises:
        DataError: the frame has no target.
        KeyError: the schema has no such column.
    """
    column = schema.column(name)
    if name not in frame.columns:
        return Inspection()
    table = frame.filter(pl.Series(rows_with_target(frame, schema)))
    answer = encode_target(table, schema)
    group_of, groups = _groups(answer, schema)
    is_label = name == schema.target and schema.task != "regression"
    values = typed_column(column_of(table, name), column, as_label=is_label)
    missing = values.is_null().to_numpy()
    association, measure = (None, "") if name == schema.target else _association(values, answer, schema, table.width)
    return Inspection(
        groups=groups,
        rows=_counts(group_of, len(groups)),
        missing=_counts(group_of[missing], len(groups)),
        bins=_bins(values, column, group_of, len(groups)),
        distinct=values.drop_nulls().n_unique(),
        association=association,
        measure=measure,
    )


def associations(frame: pl.DataFrame, schema: Schema) -> dict[str, float]:
    """How well each column alone predicts the target, by name, as in `Inspection`, on a sample of the rows.

    Raises:
        DataError: the frame has no target.
    """
    table = frame.filter(pl.Series(rows_with_target(frame, schema)))
    table = _sample(table)
    answer = encode_target(table, schema)
    found: dict[str, float] = {}
    present = set(frame.columns)
    for column in schema.columns_of_file:
        if column.name != schema.target and column.name in present:
            values = typed_column(column_of(table, column.name), column)
            found[column.name] = _association(values, answer, schema, table.width)[0]
    return found


def _sample(table: pl.DataFrame) -> pl.DataFrame:
    n_rows = rows_to_sample(table.height, table.width)
    return table.gather_every(max(1, table.height // max(1, n_rows))).head(n_rows)


def _association(
    values: pl.Series, answer: npt.NDArray[np.int64] | npt.NDArray[np.float64], schema: Schema, width: int
) -> tuple[float, str]:
    n_rows = rows_to_sample(len(values), width)
    step = max(1, len(values) // max(1, n_rows))
    codes = codes_of(values.gather_every(step).head(n_rows))
    return score_alone(codes, pl.Series(answer[::step][:n_rows]), len(schema.classes))


def _groups(answer: npt.NDArray[np.int64] | npt.NDArray[np.float64], schema: Schema) -> tuple[Groups, tuple[str, ...]]:
    """(rows,) the group of each row, and the labels of the groups."""
    if schema.task == "regression":
        low, high = (float(edge) for edge in np.quantile(answer, [1 / 3, 2 / 3]))
        labels = (f"≤ {low:.4g}", f"to {high:.4g}", f"> {high:.4g}")
        return np.searchsorted([low, high], answer, side="left").astype(np.intp), labels
    counts = np.bincount(answer.astype(np.intp), minlength=len(schema.classes))
    order = np.argsort(-counts, kind="stable")
    n_own = len(order) if len(order) <= MOST_GROUPS else MOST_GROUPS - 1
    place = np.full(len(order), n_own, dtype=np.intp)
    place[order[:n_own]] = np.arange(n_own)
    labels = tuple(schema.classes[code] for code in order[:n_own]) + ((OTHER,) if n_own < len(order) else ())
    return place[answer.astype(np.intp)], labels


def _counts(groups: Groups, n_groups: int) -> tuple[int, ...]:
    return tuple(int(count) for count in np.bincount(groups, minlength=n_groups))


def _bins(values: pl.Series, column: Column, groups: Groups, n_groups: int) -> tuple[Bin, ...]:
    if values.dtype == pl.String:
        return _most_frequent(values, groups, n_groups)
    is_date = column.kind == "datetime"
    numbers = (values.to_physical() if is_date else values).cast(pl.Float64).to_numpy()
    known = ~np.isnan(numbers)
    distinct = np.unique(numbers[known])
    if not len(distinct):
        return ()
    if len(distinct) <= MOST_BINS:
        return tuple(
            Bin(label=_edge(value, is_date=is_date), counts=_counts(groups[numbers == value], n_groups))
            for value in distinct
        )
    edges = np.linspace(distinct[0], distinct[-1], MOST_BINS + 1)
    place = np.clip(np.searchsorted(edges, numbers[known], side="right") - 1, 0, MOST_BINS - 1)
    return tuple(
        Bin(
            label=f"{_edge(edges[index], is_date=is_date)} – {_edge(edges[index + 1], is_date=is_date)}",
            counts=_counts(groups[known][place == index], n_groups),
        )
        for index in range(MOST_BINS)
    )


def _most_frequent(values: pl.Series, groups: Groups, n_groups: int) -> tuple[Bin, ...]:
    counted = values.alias("value").drop_nulls().value_counts(sort=True).head(MOST_BINS)
    texts = values.fill_null("")
    return tuple(
        Bin(label=value, counts=_counts(groups[(texts == value).to_numpy()], n_groups))
        for value in counted["value"].to_list()
    )


def _edge(value: float, *, is_date: bool) -> str:
    if is_date:
        return datetime.fromtimestamp(value / 1e6, UTC).date().isoformat()
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
