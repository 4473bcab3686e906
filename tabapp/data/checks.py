"""What looks wrong with a table, each with what is done about it. Nothing here changes the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tabapp.data.kinds import Values
from tabapp.data.schema import Column, DataWarning
from tabapp.data.target import Goal
from tabapp.data.typed import typed_column

_FOLDS = 5
_HIGH_MISSING = 0.5
_IMBALANCE = 0.1
_LEAK_PURITY = 0.999
_LEAK_CORRELATION = 0.9999
_CELLS_FOR_DUPLICATES = 2_000_000
"""Above this many cells, looking for repeated rows takes longer than a first look at the data should."""


def duplicates_of_earlier(columns: Sequence[Column], values: Mapping[str, Values]) -> dict[str, str]:
    """Columns that repeat another cell by cell, as {later name: earlier name}."""
    seen: dict[tuple[object, ...], list[str]] = {}
    found: dict[str, str] = {}
    for column in columns:
        mine = values[column.name]
        if column.kind == "constant":
            continue
        key = (column.unique, column.missing, *mine.uniques.head(3).to_list(), *mine.counts.head(3).to_list())
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
        elif column.missing > _HIGH_MISSING * n_rows:
            message = f"{column.missing / n_rows:.0%} of its cells are missing."
            found.append(
                DataWarning(
                    check="missing", column=column.name, message=message, action="kept; missing is a value of its own"
                )
            )
    return found


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


def leak_warnings(
    columns: Sequence[Column], values: Mapping[str, Values], target: str, goal: Goal
) -> list[DataWarning]:
    """Features that alone tell the target: almost pure levels for classes, a straight line for numbers."""
    action = "kept; if it is known only after the fact, leave it out with --ignore"
    answer = values[target].texts
    found: list[DataWarning] = []
    for column in columns:
        if column.role != "feature":
            continue
        message = None
        if goal.task == "regression":
            if column.kind == "numeric":
                message = _straight_line(
                    values[column.name].texts, column, answer, next(c for c in columns if c.name == target)
                )
        elif 2 <= column.unique <= max(2, _level_limit(len(answer))):
            message = _pure_levels(values[column.name].texts, answer, goal)
        if message is not None:
            found.append(DataWarning(check="leak", column=column.name, message=message, action=action))
    return found


def _level_limit(n_rows: int) -> int:
    """How many levels a column may have for their purity to mean something."""
    return min(200, n_rows // 20)


def _pure_levels(texts: pl.Series, answer: pl.Series, goal: Goal) -> str | None:
    pairs = pl.DataFrame({"level": texts, "answer": answer}).drop_nulls("answer")
    table = pairs.group_by("level", "answer").len().group_by("level").agg(pl.col("len").max())
    purity = float(table["len"].sum()) / pairs.height
    baseline = max(goal.counts) / sum(goal.counts)
    if purity < _LEAK_PURITY or baseline > 0.98:
        return None
    return f"Its levels alone tell the target in {purity:.2%} of the rows."


def _straight_line(texts: pl.Series, column: Column, answer: pl.Series, target: Column) -> str | None:
    pairs = pl.DataFrame({"x": typed_column(texts, column), "y": typed_column(answer, target)}).drop_nulls()
    if pairs.height < 20:
        return None
    x, y = pairs["x"].to_numpy(), pairs["y"].to_numpy()
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(x, y)[0, 1])
    if not abs(correlation) >= _LEAK_CORRELATION:
        return None
    return f"It is the target up to scale and shift (correlation {correlation:.5f})."


def duplicate_rows(frame: pl.DataFrame) -> list[DataWarning]:
    """Rows that repeat another in every column; not looked for in very large tables."""
    if frame.height * frame.width > _CELLS_FOR_DUPLICATES:
        return []
    repeated = frame.height - frame.n_unique()
    if repeated == 0:
        return []
    message = f"{repeated:,} of {frame.height:,} rows repeat another row in every column."
    return [
        DataWarning(check="duplicate_rows", message=message, action="kept; copies in two folds make scores too good")
    ]
