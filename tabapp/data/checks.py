"""What looks wrong with a table, each with what is done about it. Nothing here changes the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import Values
from tabapp.data.leaks import codes_of, score_alone
from tabapp.data.names import looks_like_id, says_entity
from tabapp.data.schema import Column, DataWarning
from tabapp.data.target import Goal, format_of
from tabapp.data.values import parse_numbers

_FOLDS = 5
_HIGH_MISSING = 0.5
_IMBALANCE = 0.1
COPIES_STAY_TOGETHER = 0.5
"""Equal rows are kept in one fold while at least this share of the rows differ."""
_LOW_SENTINELS = frozenset(-float(x) for x in (1, 9, 99, 999, 9999, 99999, 999999, 88, 888, 8888, 77, 777, 7777))
_HIGH_SENTINELS = frozenset(float(x) for x in (99, 999, 9999, 99999, 999999, 9999999, 888, 8888, 777, 7777))
_STANDS_APART = 0.2
"""A zero is apart when the next number is at least this share of the median of the others."""
_IN_ORDER = 0.98
_DRIFT = 0.4
"""Of a feature that alone tells two files apart, on the scale of `score_alone`: roc_auc 0.7."""
_MANY_DIFFERENT = 0.5
_ROWS_IN_KEY = 20


def duplicates_of_earlier(columns: Sequence[Column], values: Mapping[str, Values]) -> dict[str, str]:
    """Columns that repeat another cell by cell, as {later name: earlier name}."""
    seen: dict[tuple[object, ...], list[str]] = {}
    found: dict[str, str] = {}
    for column in columns:
        mine = values[column.name]
        if column.kind == "constant":
            continue
        few = mine.texts.gather_every(max(1, mine.n_rows // _ROWS_IN_KEY)).head(_ROWS_IN_KEY)
        key = (column.unique, column.missing, *few.to_list())
        for earlier in seen.setdefault(key, []):
            if mine.texts.equals(values[earlier].texts):
                found[column.name] = earlier
                break
        else:
            seen[key].append(column.name)
    return found


def column_warnings(columns: Sequence[Column], n_rows: int) -> list[DataWarning]:
    """Constants, identifiers and columns that are mostly empty."""
    found: list[DataWarning] = []
    for column in columns:
        if column.role not in ("feature", "ignore") or column.overridden:
            continue
        if column.kind == "constant":
            found.append(DataWarning(check="constant", column=column.name, message=column.reason, action="left out"))
        elif column.kind == "identifier":
            action = f"left out; --kind {column.name}=categorical keeps it"
            found.append(DataWarning(check="identifier", column=column.name, message=column.reason, action=action))
        elif _nearly_names_rows(column, n_rows):
            present = n_rows - column.missing
            message = f"{column.unique:,} of its {present:,} values are different, so it nearly names the rows."
            action = f"kept as {column.kind}; --ignore {column.name} leaves it out"
            found.append(DataWarning(check="identifier", column=column.name, message=message, action=action))
        elif column.missing > _HIGH_MISSING * n_rows:
            message = f"{column.missing / n_rows:.0%} of its cells are missing."
            found.append(
                DataWarning(
                    check="missing", column=column.name, message=message, action="kept; missing is a value of its own"
                )
            )
    return found


def _nearly_names_rows(column: Column, n_rows: int) -> bool:
    """Categories that are mostly different, and texts that are all different and no longer than a name.

    Few values are no evidence: a column that is mostly missing says little about rows.
    """
    present = n_rows - column.missing
    if column.role != "feature" or present < 50:
        return False
    if column.kind == "text":
        return column.unique == present and (looks_like_id(column.name) or column.name.casefold().endswith("name"))
    return column.kind == "categorical" and column.unique > _MANY_DIFFERENT * present and present > 0.5 * n_rows


def class_warnings(target: str, goal: Goal) -> list[DataWarning]:
    """Classes too rare for every fold to hold one, and a positive class that is hard to find."""
    found: list[DataWarning] = []
    total = sum(goal.counts)
    rare = [(label, count) for label, count in zip(goal.classes, goal.counts, strict=True) if count < _FOLDS]
    if rare:
        shown = ", ".join(f"{label!r} ({count})" for label, count in rare[:5]) + (" …" if len(rare) > 5 else "")
        message = f"{len(rare)} of {len(goal.classes)} classes have fewer than {_FOLDS} rows: {shown}."
        action = "kept; some folds have none of them to learn or to score"
        found.append(DataWarning(check="rare_class", column=target, message=message, action=action))
    if goal.task == "binary" and min(goal.counts) < _IMBALANCE * total:
        rarer = goal.classes[int(np.argmin(goal.counts))]
        message = f"Only {min(goal.counts) / total:.1%} of the rows are {rarer!r}."
        action = "folds keep the shares; accuracy says little, roc_auc or average_precision say more"
        found.append(DataWarning(check="imbalance", column=target, message=message, action=action))
    return found


def duplicate_rows(frame: pl.DataFrame) -> list[DataWarning]:
    """Rows that repeat another in every column."""
    repeated = frame.height - frame.hash_rows().n_unique()
    if repeated == 0:
        return []
    message = f"{repeated:,} of {frame.height:,} rows repeat another row in every column."
    few_different = frame.height - repeated < COPIES_STAY_TOGETHER * frame.height
    action = (
        "kept, and free to fall into any fold: most rows have a copy, so that copies are no slip"
        if few_different
        else "kept; copies of a row are never on both sides of a split"
    )
    return [DataWarning(check="duplicate_rows", message=message, action=action)]


def copies(frame: pl.DataFrame) -> npt.NDArray[np.int64] | None:
    """(rows,) a number that equal rows share, or None where no row has a copy or most have.

    Where fewer than half of the rows differ, as in a table of three yes-or-no answers, equal rows are people who answer alike,
    and keeping them apart would score on answers that nobody else gave.
    """
    hashed = frame.hash_rows()
    distinct = hashed.n_unique()
    if distinct == frame.height or distinct < COPIES_STAY_TOGETHER * frame.height:
        return None
    return hashed.rank("dense").cast(pl.Int64).to_numpy()


def sentinel_warnings(columns: Sequence[Column], values: Mapping[str, Values]) -> list[DataWarning]:
    """Numbers that stand apart from all others and are of the kind that people write for "not known"."""
    found: list[DataWarning] = []
    for column in columns:
        if column.role != "feature" or column.kind != "numeric" or column.unique < 5:
            continue
        if column.low != 0 and column.low not in _LOW_SENTINELS and column.high not in _HIGH_SENTINELS:
            continue
        sentinel = _sentinel(*_counted_numbers(column, values[column.name]))
        if sentinel is not None:
            number, share, neighbour = sentinel
            message = f"{share:.1%} of its numbers are {number:g}, far from all others (the next is {neighbour:g}): not known?"
            action = f"kept as a number; --null {number:g} makes it missing, in every column"
            found.append(DataWarning(check="sentinel", column=column.name, message=message, action=action))
    return found


def _counted_numbers(column: Column, values: Values) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.integer]]:
    """The distinct numbers of a numeric column in order, and how often each occurs."""
    if values.plain is not None:
        numbers = values.texts.cast(pl.Float64).drop_nulls().to_numpy()
        return np.unique(numbers, return_counts=True)
    parsed = parse_numbers(values.uniques, format_of(column))
    table = pl.DataFrame({"number": parsed, "count": values.counts}).drop_nulls()
    table = table.group_by("number").sum().sort("number")
    return table["number"].to_numpy(), table["count"].to_numpy()


def _sentinel(numbers: npt.NDArray[np.float64], counts: npt.NDArray[np.integer]) -> tuple[float, float, float] | None:
    """The sentinel among sorted distinct numbers, its share of the cells, and its neighbour."""
    total = counts.sum()
    low, second, high, before = (float(numbers[i]) for i in (0, 1, -1, -2))
    if _often(counts[0], total):
        if low in _LOW_SENTINELS and second >= 0:
            return low, counts[0] / total, second
        positive = numbers[1:]
        middle = float(np.median(np.repeat(positive, np.minimum(counts[1:], 1000))))
        if low == 0 and len(numbers) > 20 and second > _STANDS_APART * middle and counts[0] <= 0.5 * total:
            return low, counts[0] / total, second
    if high in _HIGH_SENTINELS and _often(counts[-1], total) and high - before > 2 * (before - low):
        return high, counts[-1] / total, before
    return None


def _often(count: int, total: int) -> bool:
    return count >= 2 and count >= 1e-4 * total


def group_warnings(columns: Sequence[Column], n_rows: int) -> list[DataWarning]:
    """Entities that own several rows: a random fold would know half of each before it is asked for the other half."""
    if any(column.role == "group" for column in columns):
        return []
    found: list[DataWarning] = []
    for column in columns:
        present = n_rows - column.missing
        if column.role != "feature" or column.kind not in ("categorical", "numeric", "identifier"):
            continue
        if says_entity(column.name) and 20 <= column.unique <= present / 1.5 and column.unique >= 0.001 * n_rows:
            message = f"Each of its {column.unique:,} values has {present / column.unique:.1f} rows on average."
            action = f"kept; if new rows are of new ones, give --group {column.name}"
            found.append(DataWarning(check="group", column=column.name, message=message, action=action))
    return found


def time_warnings(columns: Sequence[Column], typed: Mapping[str, pl.Series]) -> list[DataWarning]:
    """Dates that the rows stand in the order of: such a table is often asked about later rows only.

    Args:
        typed: typed values by name of evenly spaced rows, in the order of the file.
    """
    if any(column.role == "time" for column in columns):
        return []
    found: list[DataWarning] = []
    for column in columns:
        if column.role != "feature" or column.kind != "datetime" or column.unique < 20:
            continue
        moments = typed[column.name].drop_nulls().dt.epoch("us").to_numpy()
        steps = np.diff(moments)
        if len(steps) < 10 or (steps != 0).sum() < 10:
            continue
        rising = float((steps >= 0).mean())
        if max(rising, float((steps <= 0).mean())) >= _IN_ORDER:
            message = f"The rows are in its order, from {column.low_text} to {column.high_text}."
            action = f"kept; if later rows are to be predicted, --time {column.name} scores the latest rows"
            found.append(DataWarning(check="time", column=column.name, message=message, action=action))
    return found


def drift_warnings(
    columns: Sequence[Column], training: Mapping[str, pl.Series], other: Mapping[str, pl.Series]
) -> list[DataWarning]:
    """Features whose values tell a second file's rows from the training rows.

    Args:
        training, other: typed values by name, of about as many rows each.
    """
    found: list[DataWarning] = []
    for column in columns:
        if column.role != "feature" or column.name not in training or column.name not in other:
            continue
        both = pl.concat([training[column.name], other[column.name]])
        second = pl.Series([0] * len(training[column.name]) + [1] * len(other[column.name]))
        score, _ = score_alone(codes_of(both), second, 2)
        if score < _DRIFT:
            continue
        message = f"It tells the rows of the test file from those of the training file (roc_auc {(score + 1) / 2:.2f})."
        unseen = ""
        if both.dtype == pl.String:
            new = other[column.name].drop_nulls()
            share = float((~new.is_in(training[column.name].drop_nulls().unique().to_list())).mean() or 0)  # pyright: ignore[reportArgumentType]
            unseen = f" {share:.0%} of its values there are new." if share >= 0.05 else ""
        action = f"kept; scores on the test file may be lower, and --ignore {column.name} leaves it out"
        found.append(DataWarning(check="drift", column=column.name, message=message + unseen, action=action))
    return found
