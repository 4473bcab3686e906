"""From a frame of text to a schema: what each column is, what to predict, and what looks wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tabapp.data.checks.registry import Comparison, Evidence, most_important_first, run_checks, run_comparisons
from tabapp.data.columns import column_of
from tabapp.data.counts import Values, count_values
from tabapp.data.duplicates import repeated_columns
from tabapp.data.forms.missing import show
from tabapp.data.forms.null_words import Declarations
from tabapp.data.kinds.kinds import judge, needs_search
from tabapp.data.leaks import rows_to_sample
from tabapp.data.marks import with_companions
from tabapp.data.plain import left_out_warnings, unused_columns
from tabapp.data.reading.read import ReadOptions
from tabapp.data.reading.sample import Sample, read_sample
from tabapp.data.schema import KINDS, Column, DataWarning, Role, Schema
from tabapp.data.small import SMALL
from tabapp.data.stored import StoredType
from tabapp.data.target import Goal, choose_target, decide_task
from tabapp.data.typed import encode_target, typed_column, typed_frame
from tabapp.errors import DataError, UsageError, did_you_mean, option

MINIMUM_ROWS = 20
MAX_SEARCHED = 500
"""Columns of a short table that are searched for units, dates and times of day; only very wide tables have more."""
_MOST_NAMED = 8
_MOST_WITH_TEXTS = 20
"""Categories whose texts are features, too: each makes about 15 features."""


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
    keep_null: Sequence[str] = (),
    stored: Mapping[str, StoredType] = {},
    left_out: Mapping[str, str] = {},
    labels: Mapping[str, str] = {},
) -> Schema:
    """Judge every column of a table, choose target and task, and run the checks.

    Args:
        frame: every column as String, as `read_table` returns it.
        target, task, positive: the target column, the task and the positive class; chosen here if not given.
        kinds: kinds by column name that overrule the judged ones.
        ignore: columns to leave out.
        group, time, weight: columns with a special role.
        null: further spellings of a missing cell, each for all columns or, as COLUMN=TEXT, for one.
        keep_null: texts that are values although they are spelled like a missing cell, in the same form.
        stored: types of columns in a typed file, as `Reading.stored` returns them, which decide their kinds.
        left_out: columns of the file that the frame lacks, as `Reading.left_out` returns them.
        labels: units, types or titles of columns, as `Reading.labels` returns them.

    Raises:
        DataError: the table has no usable target, too few rows, or no feature.
        UsageError: an option names a column, a kind, a task or a class that does not exist.
    """
    _check_left_out(left_out, {"target": target, "group": group, "time": time, "weight": weight}, kinds)
    held_and_asked = [name for name in ignore if name in left_out]
    ignore = [name for name in ignore if name not in left_out]
    _check_names(frame, kinds, ignore, {"group": group, "time": time, "weight": weight})
    _check_table(frame, target, {*ignore, group, time, weight})
    declared = Declarations(null, keep_null, frame.columns)
    judged = _judge_all(frame, declared, kinds, stored)
    values = {counted.name: counted for counted, _ in judged}
    roles: dict[str | None, Role] = {**dict.fromkeys(ignore, "ignore"), group: "group", time: "time", weight: "weight"}
    columns = [_with_given_role(column, roles) for _, column in judged]
    if target is None:
        target, target_reason = choose_target(columns, frame.height)
    else:
        target_reason = "Set by --target."
    is_unsure = bool(values[target].missing_spellings or values[target].kept)
    counted = _count(frame[target], declared, stored, is_target=True) if is_unsure else values[target]
    columns, goal = _with_target(columns, values, counted, kinds, stored, task, positive)
    columns = [_with_label(column, labels.get(column.name)) for column in _with_texts(columns)]
    copies = _copies(columns, values, target)
    columns = [_ignore_copy(column, copies.get(column.name), target) for column in columns]
    _check_roles(columns)
    columns = with_companions(columns, values)
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
    warnings = [*_unused(declared, judged, values[target]), *run_checks(_evidence(frame, schema, values, goal, copies))]
    warnings += left_out_warnings({name: held for name, held in left_out.items() if name not in held_and_asked})
    unused = unused_columns(left_out, held_and_asked)
    columns = (*schema.columns, *unused)
    return msgspec.structs.replace(schema, columns=columns, warnings=most_important_first(warnings))


def _check_table(frame: pl.DataFrame, target: str | None, others: Collection[str | None]) -> None:
    """Check that there are columns and rows to learn from, and the target.

    Args:
        others: columns that the target cannot be.
    """
    if frame.width < 2:
        raise DataError(
            f"the table has a single column, so there is nothing to predict it from; check {option('delimiter')}"
        )
    if target is not None and target not in frame.columns:
        raise DataError(f"there is no column {target!r} to predict{_suggestion(target, frame.columns)}")
    if target is not None and target in others:
        raise UsageError(f"the target {target!r} cannot be ignored or have another role")
    if frame.height < MINIMUM_ROWS:
        raise DataError(f"the table has only {frame.height} rows; training needs at least {MINIMUM_ROWS}")


def first_look(
    path: Path, read_options: ReadOptions, options: Callable[[Sequence[str]], Mapping[str, Any]]
) -> tuple[Sample, Schema] | None:
    """Read and judge a sample of a large file, which is faster than reading all of it.

    Args:
        options: of `infer_schema`, for the columns of the sample.

    Returns:
        None for a small file, and for a sample that cannot be used; reading the whole file then reports the error.
    """
    sample = read_sample(path, read_options)
    try:
        if sample is None:
            return None
        reading = sample.reading
        return sample, infer_schema(
            reading.frame,
            stored=reading.stored,
            left_out=reading.left_out,
            labels=reading.labels,
            **options(reading.names),
        )
    except (DataError, UsageError):
        return None


def _evidence(
    frame: pl.DataFrame, schema: Schema, values: Mapping[str, Values], goal: Goal, copies: Mapping[str, str]
) -> Evidence:
    """What the checks receive, with typed values of a sample of the rows that have a target."""
    n_rows = rows_to_sample(frame.height, frame.width)
    usable = np.flatnonzero(values[schema.target].texts.is_not_null().to_numpy())
    sample = frame[usable[:: max(1, len(usable) // n_rows)][:n_rows]]
    typed = typed_frame(sample, schema)
    return Evidence(
        columns=schema.columns,
        n_rows=frame.height,
        target=schema.target,
        goal=goal,
        frame=frame,
        values=values,
        copies=copies,
        features={column.name: column_of(typed, column.name) for column in schema.features},
        answer=pl.Series(encode_target(typed, schema)),
    )


def compare_with_test(frame: pl.DataFrame, test: pl.DataFrame, schema: Schema) -> list[DataWarning]:
    """Compare a test file with the training file, both as text; columns that the test file lacks are left out."""
    n_rows = rows_to_sample(min(frame.height, test.height), frame.width) if test.height else 0
    if n_rows < MINIMUM_ROWS:
        return []
    present = set(test.columns)
    common = [column.name for column in schema.features if (column.marks_of or column.name) in present]
    sides = [
        typed_frame(side.gather_every(max(1, side.height // n_rows)).head(n_rows), schema) for side in (frame, test)
    ]
    training, other = ({name: column_of(side, name) for name in common} for side in sides)
    return run_comparisons(Comparison(columns=schema.columns, training=training, test=other))


def _suggestion(name: str, columns: Sequence[str]) -> str:
    """The end of a sentence: the column with the nearest name, or the first columns when no name is near."""
    if nearest := did_you_mean(name, columns):
        return nearest
    shown = ", ".join(repr(column[:40]) for column in columns[:_MOST_NAMED])
    more = f" and {len(columns) - _MOST_NAMED:,} more" if len(columns) > _MOST_NAMED else ""
    return f"; the columns are {shown}{more}"


def _check_left_out(left_out: Mapping[str, str], roles: Mapping[str, str | None], kinds: Mapping[str, str]) -> None:
    for keyword, name in [*roles.items(), *(("kind", name) for name in kinds)]:
        if name is not None and name in left_out:
            raise UsageError(
                f"{option(keyword)}: the column {name!r} holds {left_out[name]}, not one value in each row. Choose another "
                "column, or save a field of it as a column of its own."
            )


def _check_names(
    frame: pl.DataFrame, kinds: Mapping[str, str], ignore: Sequence[str], roles: Mapping[str, str | None]
) -> None:
    named = [("kind", name) for name in kinds] + [("ignore", name) for name in ignore]
    named += [(role, name) for role, name in roles.items() if name is not None]
    present = set(frame.columns)
    for keyword, name in named:
        if name not in present:
            raise UsageError(f"{option(keyword)}: there is no column {name!r}{_suggestion(name, frame.columns)}")
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise UsageError(
                f"{option('kind', {name: kind})}: there is no such kind{did_you_mean(kind, KINDS)} ({', '.join(KINDS)})"
            )


def _judge_all(
    frame: pl.DataFrame, declared: Declarations, kinds: Mapping[str, str], stored: Mapping[str, StoredType]
) -> list[tuple[Values, Column]]:
    """The values and the verdict of every column.

    Only the first `MAX_SEARCHED` columns of a wide table that need it are searched for units, dates and times of day, because a
    search takes a hundred times as long as any other verdict.
    """

    def count(series: pl.Series) -> Values:
        return _count(series, declared, stored)

    def judge_one(values: Values, search: bool) -> Column:
        return _judge(values, kinds.get(values.name), stored.get(values.name), search=search)

    if frame.height <= SMALL:
        # Short columns are judged in Python, where threads only wait for each other.
        counted = list(map(count, frame))
        unsearched: set[int] = set()
        if frame.width > MAX_SEARCHED:
            unsearched.update([index for index, values in enumerate(counted) if needs_search(values)][MAX_SEARCHED:])
        return [(values, judge_one(values, index not in unsearched)) for index, values in enumerate(counted)]
    with ThreadPoolExecutor(pl.thread_pool_size()) as threads:
        counted = list(threads.map(count, frame))
        return list(zip(counted, threads.map(lambda values: judge_one(values, True), counted), strict=True))


def _count(
    series: pl.Series, declared: Declarations, stored: Mapping[str, StoredType], *, is_target: bool = False
) -> Values:
    """The values of a column. A category is a value, even one that is spelled like a missing cell."""
    column_type = stored.get(series.name)
    is_category = column_type is not None and column_type.kind == "categorical"
    return count_values(series, declared.of(series.name), is_target=is_target, is_category=is_category)


def _judge(values: Values, kind: str | None, stored: StoredType | None = None, *, search: bool = True) -> Column:
    try:
        column = judge(values, None if kind is None else KINDS[KINDS.index(kind)], stored, search=search)
    except ValueError as error:
        raise UsageError(f"{option('kind', {values.name: kind})}: {error}") from None
    return msgspec.structs.replace(column, reason=f"{column.reason}{_null_words(values)}")


def _null_words(values: Values) -> str:
    """What is said of texts that are spelled like missing cells; empty without any."""
    words = [f"{show(text)} is a value, because {reason}." for text, reason in values.kept.items() if reason]
    texts = zip(values.missing_spellings, values.missing_counts, strict=True)
    listed = sorted(texts, key=lambda each: -each[1])
    if listed:
        words.append(
            f"Read as missing: {', '.join(f'{count:,} {show(text)}' for text, count in listed[:_MOST_NAMED])}."
        )
    return "".join(f" {word}" for word in words)


def _unused(declared: Declarations, judged: Sequence[tuple[Values, Column]], target: Values) -> list[DataWarning]:
    """Warnings of texts that the user declares and that no cell has."""
    values = {**{counted.name: counted for counted, _ in judged}, target.name: target}
    null = {name: each.missing_spellings for name, each in values.items()}
    kept = {name: tuple(each.kept) for name, each in values.items()}
    return [
        DataWarning(
            check="unused_option",
            message=f"No cell is read differently because of {option(name, text)}.",
            action="ignored; check the spelling of the text and of the column",
        )
        for name, text in declared.unused(null, kept)
    ]


def _with_texts(columns: Sequence[Column]) -> list[Column]:
    """The columns with the texts of at most `_MOST_WITH_TEXTS` features, those with the most levels, which their reasons name."""
    candidates = (column for column in columns if column.learns_texts and column.role == "feature")
    found = sorted(candidates, key=lambda column: -column.unique)
    kept = {column.name for column in found[:_MOST_WITH_TEXTS]}
    return [
        msgspec.structs.replace(column, reason=f"{column.reason} Its texts are features, too.")
        if column.name in kept
        else msgspec.structs.replace(column, learns_texts=False)
        for column in columns
    ]


def _with_given_role(column: Column, roles: Mapping[str | None, Role]) -> Column:
    role = roles.get(column.name)
    return column if role is None else msgspec.structs.replace(column, role=role, overridden=True)


def _with_label(column: Column, label: str | None) -> Column:
    if label is None:
        return column
    return msgspec.structs.replace(column, label=label, reason=f"{column.reason} Below its name: {label!r}.")


def _with_target(
    columns: list[Column],
    values: dict[str, Values],
    counted: Values,
    kinds: Mapping[str, str],
    stored: Mapping[str, StoredType],
    task: str,
    positive: str | None,
) -> tuple[list[Column], Goal]:
    """Give a column the role of the target.

    Args:
        counted: its values, of which texts such as "none" are classes more often than they are levels of a feature.
    """
    target = counted.name
    index = next(i for i, column in enumerate(columns) if column.name == target)
    column = columns[index]
    if counted.kept != values[target].kept:
        values[target] = counted
        column = _judge(counted, kinds.get(target), stored.get(target))
    if column.kind in ("identifier", "text") and target not in kinds:
        column = _as_target_number(values[target]) or column
    if column.kind == "numeric":
        values[target] = _texts_to_missing(values[target], column)
    n_usable = values[target].n_present
    if 0 < n_usable < MINIMUM_ROWS:
        without = values[target].n_missing
        because = f" ({without:,} more have no target)" if without else ""
        raise DataError(f"only {n_usable} rows have a target{because}; training needs at least {MINIMUM_ROWS}")
    goal = decide_task(column, values[target], task, positive, kind_given=target in kinds)
    changes: dict[str, object] = {"role": "target"}
    if goal.classes:
        kind = column.kind if column.kind == "boolean" else "categorical"
        changes |= {"kind": kind, "levels": goal.classes, "level_counts": goal.counts}
    elif column.kind != "numeric":
        column = judge(values[target], "numeric")
        changes |= {"reason": "Numbers, because --task is regression."}
    columns[index] = msgspec.structs.replace(column, **changes)
    return columns, goal


def _as_target_number(values: Values) -> Column | None:
    """The column as numeric if every value of a target that was judged an identifier or text is a number, else None."""
    try:
        column = judge(values, "numeric")
    except ValueError:
        return None
    return msgspec.structs.replace(column, overridden=False) if column.support == 1 else None


def _texts_to_missing(values: Values, column: Column) -> Values:
    """Set texts of a numeric target that are not finite numbers to missing."""
    numbers = typed_column(values.texts, column)
    if numbers.null_count() == values.texts.null_count():
        return values
    return count_values(values.texts.set(numbers.is_null(), None).alias(values.name))


def _copies(columns: Sequence[Column], values: Mapping[str, Values], target: str) -> dict[str, str]:
    """Columns that repeat the target or an earlier feature, as {name: original}; those whose role the user set are left alone."""
    ordered = sorted((c for c in columns if c.role in ("feature", "target")), key=lambda c: c.name != target)
    overridden = {column.name for column in columns if column.overridden}
    return {name: original for name, original in repeated_columns(ordered, values).items() if name not in overridden}


def _ignore_copy(column: Column, original: str | None, target: str) -> Column:
    """The column without its role as a feature if it is a copy: one of the target leaks it, one of a feature adds nothing."""
    if original is None:
        return column
    what = "the target" if original == target else "the column"
    reason = f"Copy of {what} {original!r}. {column.reason}"
    return msgspec.structs.replace(column, role="ignore", reason=reason)


def _check_roles(columns: Sequence[Column]) -> None:
    if not any(column.role == "feature" for column in columns):
        raise DataError(
            f"the table has no feature: every column is constant, an identifier or ignored; keep one with {option('kind')}"
        )
    for column in columns:
        if column.role == "weight" and column.kind not in ("numeric", "boolean"):
            raise DataError(
                f"the weight column {column.name!r} is {column.kind}, not numeric; choose another {option('weight')}"
            )
        if column.role == "weight" and (column.low is not None and column.low < 0):
            raise DataError(f"the weight column {column.name!r} has negative values; weights must be 0 or more")
        if column.role == "time" and column.kind not in ("numeric", "datetime", "identifier"):
            raise DataError(f"the time column {column.name!r} is {column.kind}; it must hold dates or numbers")
