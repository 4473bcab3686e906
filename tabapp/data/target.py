"""Which column is predicted, as what, and what its classes are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tabapp.data.counts import Values
from tabapp.data.schema import Column, Task
from tabapp.data.values import NumberFormat, parse_numbers
from tabapp.errors import DataError, UsageError, did_you_mean

_SURE_NAMES = (
    "target", "targets", "label", "labels", "class", "classlabel", "outcome", "response", "groundtruth", "dependent", "y",
)  # fmt: skip
"""Names that say "this is what to predict", normalised, best first."""

_USUAL_NAMES = frozenset(
    {
        "survived", "survival", "churn", "churned", "exited", "attrition", "income", "salary", "species", "diagnosis", "price",
        "saleprice", "fraud", "isfraud", "spam", "sentiment", "category", "canceled", "cancelled", "iscanceled", "defaulted",
        "converted", "clicked", "click", "approved", "loanstatus", "readmitted", "signal", "quality", "rating", "mpg",
        "charges", "demand", "sales", "revenue", "count", "cnt", "deposit",
        "subscribed", "stroke", "heartdisease", "disease", "mortality", "died", "death", "variety", "result",
        "won", "winner", "purchased", "bought", "satisfaction", "risk", "grade",
    }
)  # fmt: skip
_STRONG_USUAL = frozenset(
    {
        "survived", "churn", "churned", "exited", "attrition", "income", "species", "diagnosis", "price", "saleprice", "fraud",
        "isfraud", "spam", "canceled", "cancelled", "iscanceled", "defaulted", "readmitted", "signal", "mpg",
        "sentiment",
    }
)  # fmt: skip
"""Names that are the target wherever they stand; the other usual ones only strengthen a column at either end."""

_SUFFIXES = ("price", "value", "target", "label", "class")
_QUANTITY_NAMES = re.compile(
    r"(quality|score|rating|stars?|count|cnt|number|num|n_|amount|age|days|hours|years?|months?|rings|grade|points|qty|quantity"
    r"|price|value|sales|demand|visits|goals|level)", re.IGNORECASE,
)  # fmt: skip
_MAX_INTEGER_CLASSES = 20
_POSITIVE = frozenset(
    {
        "1", "1.0", "yes", "y", "true", "t", "on", "positive", "pos", "+", "malignant", "spam", "fraud", "fraudulent", "default",
        "churn", "churned", "died", "dead", "disease", "sick", "success", "bad", "poisonous", "anomaly", "attack", "abnormal",
        "event", "signal", "approved", "won", "win", "subscribed", "canceled", "cancelled",
    }
)  # fmt: skip
_ZERO_LIKE = frozenset({"0", "0.0", "-1", "-1.0"})


def choose_target(columns: Sequence[Column], n_rows: int) -> tuple[str, str]:
    """The column a person would most likely want predicted, and why.

    Raises:
        DataError: no column can be a target.
    """
    usable = [column for column in columns if _can_be_target(column, n_rows)]
    if not usable:
        raise DataError(
            "no column can be predicted: each is constant, an identifier, a date or free text; name one with --target"
        )
    plain = {column.name: _plain(column.name) for column in usable}
    last = columns[-1]
    for wanted in _SURE_NAMES:
        for column in usable:
            if plain[column.name] != wanted or (wanted == "y" and _is_coordinate(columns, column)):
                continue
            return column.name, f"Its name, {column.name!r}, says that it is what to predict."
    strong = [column for column in usable if plain[column.name] in _STRONG_USUAL]
    if len(strong) == 1 or (strong and strong[-1].name == last.name):
        return strong[-1].name, f"{strong[-1].name!r} is a usual name of a target."
    ends = [column for column in (last, columns[0]) if column in usable]
    for column in ends:
        if plain[column.name] in _USUAL_NAMES:
            where = "last" if column is last else "first"
            return column.name, f"{column.name!r} is a usual name of a target, and it is the {where} column."
    if strong:
        return strong[0].name, f"{strong[0].name!r} is a usual name of a target."
    named = [column for column in usable if plain[column.name].endswith(_SUFFIXES)]
    if len(named) == 1:
        return named[0].name, f"The name {named[0].name!r} is like that of a target."
    if last in usable:
        return last.name, "It is the last column, where targets usually stand."
    fallback = usable[-1]
    return (
        fallback.name,
        f"The last column, {last.name!r}, is no target ({last.kind}); this is the last one that can be.",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _is_coordinate(columns: Sequence[Column], column: Column) -> bool:
    return column is not columns[-1] and any(_plain(other.name) == "x" for other in columns)


def _can_be_target(column: Column, n_rows: int) -> bool:
    if column.role != "feature" or column.kind in ("identifier", "constant", "text", "datetime"):
        return False
    if column.missing > 0.5 * n_rows:
        return False
    return column.kind == "numeric" or 2 <= column.unique <= max(30, n_rows // 20)


@dataclass(frozen=True)
class Goal:
    """What is predicted: the task with its reason, and the classes in code order with their row counts."""

    task: Task
    reason: str
    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


def decide_task(column: Column, values: Values, task: str, positive: str | None, kind_given: bool) -> Goal:
    """Turn a target column into a task.

    Args:
        task: "auto", or what the user asked for.
        positive: the label of the positive class, if the user named one.
        kind_given: the user set the column's kind, which then decides.

    Raises:
        DataError: the column cannot be predicted as asked.
        UsageError: the task or the positive class does not exist.
    """
    if task not in ("auto", "binary", "multiclass", "regression"):
        names = ("auto", "binary", "multiclass", "regression")
        raise UsageError(
            f"there is no task {task!r}{did_you_mean(task, names)} (auto, binary, multiclass or regression)"
        )
    if column.kind == "datetime":
        raise DataError(
            f"the target {column.name!r} holds dates, which cannot be predicted; choose another with --target"
        )
    labels = _labels(column, values)
    n, n_labels = values.n_present, len(labels)
    if n_labels < 2:
        what = "is missing in every row" if n_labels == 0 else f"says {next(iter(labels))!r} in every row"
        raise DataError(f"the target {column.name!r} {what}: there is nothing to learn; choose another with --target")
    if task == "regression":
        if column.kind != "numeric" and not _all_numbers(values):
            raise DataError(
                f"the target {column.name!r} is text, which --task regression cannot predict; use multiclass"
            )
        return Goal("regression", "Asked for by the user.")
    if task == "binary" and n_labels != 2:
        raise DataError(f"the target {column.name!r} has {n_labels:,} distinct values, not two as --task binary needs")
    if task == "auto":
        found = _regression_reason(column, values, n_labels, kind_given)
        if found is not None:
            return Goal("regression", found)
    if n_labels > max(2, n // 2):
        raise DataError(
            f"the target {column.name!r} has {n_labels:,} classes in {n:,} rows, too many to learn; choose another with --target"
        )
    if n_labels == 2:
        ordered, why = _order_binary(labels, positive)
        reason = "It has two distinct values; " + why
        resolved: Task = "binary"
    else:
        ordered = _sorted_labels(labels)
        if positive is not None:
            raise UsageError(f"--positive is for two classes; the target {column.name!r} has {n_labels:,}")
        what = "whole numbers" if column.kind == "numeric" else "texts"
        reason = f"It has {n_labels:,} distinct {what}, each taken for a class."
        resolved = "multiclass"
    if task != "auto":
        reason = "Asked for by the user. " + reason
    return Goal(resolved, reason, tuple(ordered), tuple(labels[label] for label in ordered))


def _labels(column: Column, values: Values) -> Mapping[str, int]:
    """Class labels with their counts; of several spellings of one number (1, 1.0) the most frequent stands for all."""
    if column.kind == "boolean":
        return dict(zip(column.levels, column.level_counts, strict=True))
    counts = dict(zip(values.uniques.to_list(), values.counts.to_list(), strict=True))
    if column.kind != "numeric":
        return counts
    numbers = parse_numbers(values.uniques, format_of(column)).to_list()
    spelling: dict[float, str] = {}
    merged: dict[str, int] = {}
    for text, number in zip(counts, numbers, strict=True):
        if number is not None:
            label = spelling.setdefault(number, text)
            merged[label] = merged.get(label, 0) + counts[text]
    return merged


def format_of(column: Column) -> NumberFormat:
    """How a column writes its numbers."""
    return NumberFormat(column.decimal, column.thousands, column.unit)


def _all_numbers(values: Values) -> bool:
    return values.uniques.cast(pl.Float64, strict=False).is_not_null().all()


def _regression_reason(column: Column, values: Values, n_labels: int, kind_given: bool) -> str | None:
    if column.kind != "numeric" or (n_labels == 2 and not kind_given):
        return None
    if kind_given:
        return "The user said that it is numeric."
    numbers = parse_numbers(values.uniques, format_of(column)).drop_nulls()
    if not bool((numbers == numbers.round(0)).all()):
        return f"Its {n_labels:,} distinct values are numbers with decimals."
    few = n_labels <= _MAX_INTEGER_CLASSES and n_labels <= max(3.0, 0.05 * values.n_present)
    if not few:
        return f"It has {n_labels:,} distinct whole numbers, too many to be classes."
    if n_labels > 3 and _QUANTITY_NAMES.search(column.name):
        return f"Its {n_labels:,} whole numbers are an ordered quantity by the name; --task multiclass takes them for classes."
    return None


def _sorted_labels(labels: Mapping[str, int]) -> list[str]:
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)


def _order_binary(labels: Mapping[str, int], positive: str | None) -> tuple[list[str], str]:
    """The two labels with the positive one last, and why it is that one."""
    first, second = _sorted_labels(labels)
    if positive is not None:
        chosen = next((label for label in labels if label == positive.strip()), None)
        if chosen is None:
            known = f"{first!r} and {second!r}"
            raise UsageError(
                f"--positive {positive!r} is no class of the target{did_you_mean(positive, labels)} (they are {known})"
            )
        return [second if chosen == first else first, chosen], f"{chosen!r} is the positive class, as asked."
    plain = {label: label.strip("'\" .").casefold() for label in labels}
    spoken = [label for label in (first, second) if plain[label] in _POSITIVE]
    numbers = [label for label in (first, second) if re.fullmatch(r"[+-]?\d+(\.0)?", plain[label])]
    if len(numbers) == 2 and plain[first] not in _ZERO_LIKE:
        spoken = []
    greater = [label for label in (first, second) if label.startswith(">")]
    for found in (spoken, greater):
        if len(found) == 1:
            chosen = found[0]
            return [
                second if chosen == first else first,
                chosen,
            ], f"{chosen!r} is taken for the positive class by its name."
    if labels[first] == labels[second]:
        return [first, second], f"{second!r} is taken for the positive class (both are equally frequent)."
    chosen = first if labels[first] < labels[second] else second
    return [
        second if chosen == first else first,
        chosen,
    ], f"{chosen!r} is taken for the positive class, being the rarer."
