"""Convert a frame of text to typed columns by the schema, in the same way for the training file and for later predictions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.forms.missing import missing_cells, strip, stripped_cell
from tabapp.data.forms.moments import read_moments
from tabapp.data.forms.numbers import parse_numbers
from tabapp.data.forms.truth import FALSE_SPELLINGS, TRUE_SPELLINGS
from tabapp.data.kinds.booleans import false_and_true
from tabapp.data.marks import marks_in
from tabapp.data.schema import Column, Schema
from tabapp.data.target import format_of
from tabapp.errors import DataError


def typed_column(texts: pl.Series, column: Column, *, as_label: bool = False) -> pl.Series:
    """Convert a column of text to the type of its kind: Float64 (finite or null), Datetime in µs, or stripped String.

    Missing cells are null.

    Args:
        as_label: the column is a classification target, whose values stay text.
    """
    # Without its name, which polars may take for a pattern.
    return _typed_values(texts.alias(""), column, as_label).alias(texts.name)


def _typed_values(texts: pl.Series, column: Column, as_label: bool) -> pl.Series:
    if column.kind == "numeric" and not as_label and (numbers := _plain_numbers(texts, column)) is not None:
        return numbers
    stripped = strip(texts)
    gone = missing_cells(stripped, column)
    if gone.any():
        stripped = stripped.set(gone, None)
    if column.kind == "boolean" and len(column.levels) == 2:
        return _normalize_booleans(stripped, column)
    if as_label:
        return stripped
    if column.kind == "numeric":
        numbers = parse_numbers(stripped, format_of(column))
        finite = numbers.is_finite()
        return numbers if finite.all() else numbers.set(~finite, None)
    if column.kind == "datetime" and column.datetime_format is not None:
        return read_moments(stripped, column.datetime_format, column.open_ends).moments
    return stripped


def _plain_numbers(texts: pl.Series, column: Column) -> pl.Series | None:
    """Fast path for a column whose cells are all empty or plain finite numbers; None if it does not apply."""
    if column.decimal != "." or column.unit in CLOCKS or column.notation == "share" or len(column.missing_spellings):
        return None
    numbers = texts.cast(pl.Float64, strict=False)
    n_known = len(texts) - texts.null_count()
    return numbers if np.count_nonzero(np.isfinite(numbers.to_numpy())) == n_known else None


def _normalize_booleans(texts: pl.Series, column: Column) -> pl.Series:
    """Convert other spellings of booleans (true, TRUE, 1) to those of training; other values are unchanged."""
    false, true = false_and_true(column.levels)
    spelled = dict.fromkeys(FALSE_SPELLINGS, false) | dict.fromkeys(TRUE_SPELLINGS, true)
    spelled |= {false.casefold(): false, true.casefold(): true}
    known = texts.str.to_lowercase().replace_strict(spelled, default=None, return_dtype=pl.String)
    return known.zip_with(known.is_not_null(), texts)


def typed_frame(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Convert all columns with a role other than "ignore", in the order of the schema, each followed by its companion.

    A column that the frame lacks becomes all null, except the target, which is omitted.

    Args:
        frame: every column as String, as `read_table` returns it.
    """
    columns: list[pl.Series] = []
    present = set(frame.columns)
    known = {column.name: column for column in schema.columns}
    for column in schema.columns:
        if column.role == "ignore":
            continue
        if column.marks_of is not None:
            source = column.marks_of if column.marks_of in present else None
            empty = pl.Series([None] * frame.height, dtype=pl.String)
            texts = empty if source is None else frame[source]
            columns.append(marks_in(texts, known[column.marks_of], column).alias(column.name))
        elif column.name in present:
            as_label = column.role == "target" and schema.task != "regression"
            columns.append(typed_column(frame[column.name], column, as_label=as_label))
        elif column.role != "target":
            empty = pl.Series(column.name, [None] * frame.height, dtype=pl.String)
            columns.append(typed_column(empty, column))
    return pl.DataFrame(columns)


def rows_with_target(frame: pl.DataFrame, schema: Schema) -> npt.NDArray[np.bool_]:
    """(rows,) which rows have a target: a class label or a finite number. Accepts a text frame or a typed frame.

    Raises:
        DataError: the frame has no target column.
    """
    return _typed_target(frame, schema).is_not_null().to_numpy()


def encode_target(typed: pl.DataFrame, schema: Schema) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Encode the target: (rows,) int64 codes into `schema.classes`, or float64 in target units. No row may lack a target.

    Raises:
        DataError: the target column is absent, a row has no target, or a label is unknown from training.
    """
    target = _typed_target(typed, schema)
    if target.null_count():
        raise DataError(
            f"{target.null_count():,} rows have no value in the target column {schema.target!r}. Remove these rows."
        )
    if schema.task == "regression":
        return target.to_numpy().astype(np.float64)
    codes = _label_codes(target, schema)
    unknown = target.filter(codes.is_null())
    if len(unknown):
        known = ", ".join(map(repr, schema.classes[:10]))
        raise DataError(
            f"the target column {schema.target!r} contains {unknown[0]!r}, which is not a class of the model ({known})"
        )
    return codes.to_numpy().astype(np.int64)


def _label_codes(labels: pl.Series, schema: Schema) -> pl.Series:
    """Codes of labels by spelling or, for numeric labels, by value (1 equals 1.0); null for unknown labels."""
    # Earlier versions did not compose letters.
    composed = [stripped_cell(label) for label in schema.classes]
    classes = composed if len(set(composed)) == len(composed) else list(schema.classes)
    codes = labels.replace_strict(classes, list(range(len(classes))), default=None, return_dtype=pl.Int64)
    column = schema.column(schema.target)
    numbers = parse_numbers(pl.Series(classes, dtype=pl.String), format_of(column))
    rest = codes.is_null() & labels.is_not_null()
    if numbers.null_count() or not rest.any():
        return codes
    by_value = {float(number): code for code, number in enumerate(numbers)}
    spelled = parse_numbers(labels.filter(rest), format_of(column)).to_list()
    found = pl.Series([by_value.get(number) for number in spelled], dtype=pl.Int64)
    return codes.scatter(rest.arg_true(), found)


def _typed_target(frame: pl.DataFrame, schema: Schema) -> pl.Series:
    if schema.target not in frame.columns:
        raise DataError(f"the file has no target column {schema.target!r}")
    target = column_of(frame, schema.target)
    if target.dtype != pl.String:
        return target
    return typed_column(target, schema.column(schema.target), as_label=schema.task != "regression")
