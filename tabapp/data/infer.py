"""A frame of text to a schema: what each column is, what is predicted, and what looks wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tabapp.data.checks import (
    class_warnings,
    column_warnings,
    drift_warnings,
    duplicate_rows,
    duplicates_of_earlier,
    group_warnings,
    sentinel_warnings,
    time_warnings,
)
from tabapp.data.counts import Values, count_values
from tabapp.data.kinds import judge
from tabapp.data.leaks import leak_warnings, rows_to_look_at
from tabapp.data.read import ReadOptions
from tabapp.data.sample import Sample, read_sample
from tabapp.data.schema import KINDS, Column, DataWarning, Role, Schema
from tabapp.data.stored import StoredType
from tabapp.data.target import Goal, choose_target, decide_task
from tabapp.data.typed import encode_target, typed_column, typed_frame
from tabapp.data.values import DOUBTFUL_MISSING, MISSING
from tabapp.errors import DataError, UsageError, did_you_mean

MINIMUM_ROWS = 20


def infer_schema(
    frame: pl.DataFrame,
    *,
    target: str | None = None,
    task: str = "auto",
    positive: str | None = None,
    kinds: Mapping[str, str] = {},
    ignore: Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    null: Sequence[str] = (),
    stored: Mapping[str, StoredType] = {},
) -> Schema:
    """Judge every column of a table, choose target and task, and look for what is wrong.

    Args:
        frame: every column as String, as `read_table` gives it.
        target, task, positive: what to predict, as what, and the positive class; proposed where not given.
        kinds: kinds by column name that overrule ours.
        ignore: columns to leave out.
        group, time, weight: columns with a special role.
        null: further spellings of a missing cell.
        stored: column types that decide the kind of a column, as `Reading.stored` gives them.

    Raises:
        DataError: there is no usable target, too few rows, or nothing to learn from.
        UsageError: an option names what is not there.
    """
    _check_names(frame, kinds, ignore, {"--group": group, "--time": time, "--weight": weight})
    if frame.width < 2:
        raise DataError("the table has a single column, so there is nothing to predict it from; check the delimiter")
    if target is not None and target not in frame.columns:
        raise DataError(f"there is no column {target!r} to be the target{did_you_mean(target, frame.columns)}")
    if target is not None and target in {*ignore, group, time, weight}:
        raise UsageError(f"the target {target!r} cannot be ignored or have another role")

    def look(series: pl.Series) -> tuple[Values, Column]:
        column_type = stored.get(series.name)
        # A category is a value, even one that is spelled like a missing cell.
        is_category = column_type is not None and column_type.kind == "categorical"
        counted = count_values(series, null, keep=MISSING if is_category else ())
        return counted, _judge(counted, kinds.get(series.name), column_type)

    with ThreadPoolExecutor(pl.thread_pool_size()) as threads:
        looked_at = list(threads.map(look, frame))
    values = {counted.name: counted for counted, _ in looked_at}
    columns = [_with_given_role(column, ignore, group, time, weight) for _, column in looked_at]
    if target is None:
        target, target_reason = choose_target(columns, frame.height)
    else:
        target_reason = "Named by the user."
    columns, goal, warnings = _with_target(frame, columns, values, target, kinds, null, task, positive)
    columns = _leave_out_copies(columns, values, target, warnings)
    warnings += column_warnings(
        [column for column in columns if column.name not in {w.column for w in warnings}], frame.height
    )
    warnings += class_warnings(target, goal) if goal.classes else []
    _check_roles(columns)
    n_usable = values[target].n_present
    schema = Schema(
        columns=tuple(columns),
        target=target,
        target_reason=target_reason,
        task=goal.task,
        task_reason=goal.reason,
        classes=goal.classes,
        rows=n_usable,
        rows_without_target=frame.height - n_usable,
    )
    warnings += _what_the_rows_say(frame, schema, values[target])
    warnings += group_warnings(columns, frame.height)
    warnings += sentinel_warnings(columns, values)
    warnings += duplicate_rows(frame)
    return msgspec.structs.replace(schema, warnings=tuple(warnings))


def first_look(path: Path, read_options: ReadOptions, **options: Any) -> tuple[Sample, Schema] | None:
    """Read and judge a part of a large file, in less than the time it takes to read the whole.

    Args:
        options: as for `infer_schema`.

    Returns:
        None for a small file, and where the part alone cannot be used: the full pass says what is wrong.
    """
    sample = read_sample(path, read_options)
    try:
        return (
            None
            if sample is None
            else (sample, infer_schema(sample.reading.frame, stored=sample.reading.stored, **options))
        )
    except (DataError, UsageError):
        return None


def _what_the_rows_say(frame: pl.DataFrame, schema: Schema, target: Values) -> list[DataWarning]:
    """The checks that look at rows rather than at counts, on a sample of them."""
    rows = rows_to_look_at(frame.height, frame.width)
    usable = np.flatnonzero(target.texts.is_not_null().to_numpy())
    sample = frame[usable[:: max(1, len(usable) // rows)][:rows]]
    typed = typed_frame(sample, schema)
    features = {column.name: typed[column.name] for column in schema.features}
    answer = pl.Series(encode_target(typed, schema))
    found = leak_warnings(schema.columns, features, answer, schema.target, len(schema.classes))
    return found + time_warnings(schema.columns, features)


def compare_with_test(frame: pl.DataFrame, test: pl.DataFrame, schema: Schema) -> list[DataWarning]:
    """What a test file has otherwise than the training file; both as text. Columns that it lacks are left to the reader of it."""
    rows = rows_to_look_at(min(frame.height, test.height), frame.width) if test.height else 0
    if rows < MINIMUM_ROWS:
        return []
    present = set(test.columns)
    known = [column.name for column in schema.features if column.name in present]
    sides = [typed_frame(side.gather_every(max(1, side.height // rows)).head(rows), schema) for side in (frame, test)]
    training, other = ({name: side[name] for name in known} for side in sides)
    return drift_warnings(schema.columns, training, other)


def _check_names(
    frame: pl.DataFrame, kinds: Mapping[str, str], ignore: Sequence[str], roles: Mapping[str, str | None]
) -> None:
    named = [("--kind", name) for name in kinds] + [("--ignore", name) for name in ignore]
    named += [(option, name) for option, name in roles.items() if name is not None]
    for option, name in named:
        if name not in frame.columns:
            raise UsageError(f"{option}: there is no column {name!r}{did_you_mean(name, frame.columns)}")
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise UsageError(
                f"--kind {name}={kind}: there is no such kind{did_you_mean(kind, KINDS)} ({', '.join(KINDS)})"
            )


def _judge(values: Values, kind: str | None, stored: StoredType | None = None) -> Column:
    try:
        return judge(values, None if kind is None else KINDS[KINDS.index(kind)], stored)
    except ValueError as error:
        raise UsageError(f"--kind {values.name}={kind}: {error}") from None


def _with_given_role(
    column: Column, ignore: Sequence[str], group: str | None, time: str | None, weight: str | None
) -> Column:
    roles: dict[str | None, Role] = dict.fromkeys(ignore, "ignore")
    roles |= {group: "group", time: "time", weight: "weight"}
    role = roles.get(column.name)
    return column if role is None else msgspec.structs.replace(column, role=role, overridden=True)


def _with_target(
    frame: pl.DataFrame,
    columns: list[Column],
    values: dict[str, Values],
    target: str,
    kinds: Mapping[str, str],
    null: Sequence[str],
    task: str,
    positive: str | None,
) -> tuple[list[Column], Goal, list[DataWarning]]:
    """Give a column the target's role. Its doubtful missing spellings are labels, unless it is a number."""
    index = next(i for i, column in enumerate(columns) if column.name == target)
    column = columns[index]
    if column.kind != "numeric" and any(text.casefold() in DOUBTFUL_MISSING for text in column.missing_spellings):
        values[target] = count_values(frame[target], null, keep=DOUBTFUL_MISSING)
        column = _judge(values[target], kinds.get(target))
    if column.kind in ("identifier", "text") and target not in kinds:
        column = _as_target_number(values[target]) or column
    if column.kind == "numeric":
        values[target] = _without_odd_texts(values[target], column)
    n_usable = values[target].n_present
    if 0 < n_usable < MINIMUM_ROWS:
        without = frame.height - n_usable
        because = f" ({without:,} more have no target)" if without else ""
        raise DataError(f"only {n_usable} rows can be learned from{because}; at least {MINIMUM_ROWS} are needed")
    goal = decide_task(column, values[target], task, positive, kind_given=target in kinds)
    changes: dict[str, object] = {"role": "target"}
    if goal.classes:
        kind = column.kind if column.kind == "boolean" else "categorical"
        changes |= {"kind": kind, "levels": goal.classes, "level_counts": goal.counts}
    elif column.kind != "numeric":
        column = judge(values[target], "numeric")
        changes |= {"reason": "Predicted as a number, as asked."}
    columns[index] = msgspec.structs.replace(column, **changes)
    return columns, goal, []


def _as_target_number(values: Values) -> Column | None:
    """A target that looked like an identifier is a number all the same when it reads as one."""
    try:
        column = judge(values, "numeric")
    except ValueError:
        return None
    return msgspec.structs.replace(column, overridden=False) if column.support == 1 else None


def _without_odd_texts(values: Values, column: Column) -> Values:
    """A numeric target's texts that are no finite number count as missing."""
    numbers = typed_column(values.texts, column)
    if numbers.null_count() == values.texts.null_count():
        return values
    return count_values(values.texts.set(numbers.is_null(), None))


def _leave_out_copies(
    columns: Sequence[Column], values: Mapping[str, Values], target: str, warnings: list[DataWarning]
) -> list[Column]:
    """Copies of the target leak it, copies of a feature add nothing: both are ignored, and said."""
    ordered = sorted((c for c in columns if c.role in ("feature", "target")), key=lambda c: c.name != target)
    copies = duplicates_of_earlier(ordered, values)
    result: list[Column] = []
    for column in columns:
        original = copies.get(column.name)
        if original is None or column.overridden:
            result.append(column)
            continue
        leak = original == target
        message = (
            f"It is a copy of the target {target!r}." if leak else f"It repeats the column {original!r} cell by cell."
        )
        check = "leak" if leak else "duplicate_column"
        warnings.append(DataWarning(check=check, column=column.name, message=message, action="left out"))
        result.append(msgspec.structs.replace(column, role="ignore", reason=f"{message} {column.reason}"))
    return result


def _check_roles(columns: Sequence[Column]) -> None:
    if not any(column.role == "feature" for column in columns):
        raise DataError(
            "no column is left to learn from: all are constant, identifiers or ignored; --kind can keep one"
        )
    for column in columns:
        if column.role == "weight" and column.kind not in ("numeric", "boolean"):
            raise DataError(f"the weight column {column.name!r} is {column.kind}, not numeric")
        if column.role == "weight" and (column.low is not None and column.low < 0):
            raise DataError(f"the weight column {column.name!r} has negative values")
        if column.role == "time" and column.kind not in ("numeric", "datetime", "identifier"):
            raise DataError(f"the time column {column.name!r} is {column.kind}; it must hold dates or numbers")
