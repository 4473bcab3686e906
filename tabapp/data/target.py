"""The choice of the target column, the task, and the order of its classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tabapp.data.counts import Values
from tabapp.data.forms.numbers import NumberFormat, parse_numbers
from tabapp.data.kinds.names import words_of
from tabapp.data.schema import Column
from tabapp.errors import DataError, UsageError, did_you_mean, given, option
from tabapp.task import Task

_SURE_NAMES = (
    "target", "targets", "label", "labels", "class", "classlabel", "outcome", "response", "groundtruth", "dependent", "y",
)  # fmt: skip
"""Names that mean "target", in lower case without separators, best first."""

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
"""Names that are the target at any position; the other usual ones count only for the first and the last column."""

_SUFFIXES = ("price", "value", "target")
_LAST_WORDS = frozenset({"label", "class"})
"""Unlike the suffixes, they are words of their own: `risk_class`, but not `workclass`."""
_TIMES_AND_PLACES = frozenset(
    {
        "year", "month", "day", "hour", "week", "quarter", "lat", "latitude", "lon", "lng", "long", "longitude", "url", "zip",
        "zipcode",
    }
)  # fmt: skip
"""Names of columns that say when, where or which a row is, which nobody wants to predict if there is anything else."""
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
    """Choose the column that a user most likely wants to predict, with the reason.

    Raises:
        DataError: no column can be a target.
    """
    usable = [column for column in columns if _can_be_target(column, n_rows)]
    if not usable:
        raise DataError(
            f"no column can be predicted: each is constant, an identifier, a date or free text; name one with {option('target')}"
        )
    plain = {column.name: _plain(column.name) for column in usable}
    usable = [column for column in usable if plain[column.name] not in _TIMES_AND_PLACES] or usable
    last = columns[-1]
    for wanted in _SURE_NAMES:
        for column in usable:
            if plain[column.name] != wanted or (wanted == "y" and _is_coordinate(columns, column)):
                continue
            return column.name, f"The name {column.name!r} means target."
    strong = [column for column in usable if plain[column.name] in _STRONG_USUAL]
    if len(strong) == 1 or (strong and strong[-1].name == last.name):
        return strong[-1].name, f"{strong[-1].name!r} is a common target name."
    ends = [column for column in (last, columns[0]) if column in usable]
    for column in ends:
        if plain[column.name] in _USUAL_NAMES:
            where = "last" if column is last else "first"
            return column.name, f"{column.name!r} is a common target name, and it is the {where} column."
    if strong:
        return strong[0].name, f"{strong[0].name!r} is a common target name."
    named = [c for c in usable if plain[c.name].endswith(_SUFFIXES) or _LAST_WORDS & set(words_of(c.name)[-1:])]
    if len(named) == 1:
        return named[0].name, f"{named[0].name!r} ends like a target name."
    if last in usable:
        return last.name, "It is the last column, the usual place of a target."
    fallback = usable[-1]
    what = "a time, a place or an address by the name" if _plain(last.name) in _TIMES_AND_PLACES else last.kind
    return fallback.name, f"It is the last column that can be a target; {last.name!r} after it is {what}."


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
    """The task with its reason, and the classes in code order with their row counts."""

    task: Task
    reason: str
    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


def decide_task(column: Column, values: Values, task: str, positive: str | None, kind_given: bool) -> Goal:
    """Choose the task for a target column.

    Args:
        task: "auto", or the task that the user set.
        positive: label of the positive class, if the user set one.
        kind_given: whether the user set the column's kind, which then decides.

    Raises:
        DataError: the column cannot be predicted as this task.
        UsageError: the positive class does not exist.
    """
    if column.kind == "datetime":
        raise DataError(
            f"the target {column.name!r} holds dates, which cannot be predicted; choose another with {option('target')}"
        )
    labels = _labels(column, values)
    n, n_labels = values.n_present, len(labels)
    if n_labels < 2:
        what = "is missing in every row" if n_labels == 0 else f"says {next(iter(labels))!r} in every row"
        raise DataError(
            f"the target {column.name!r} {what}: there is nothing to learn; choose another with {option('target')}"
        )
    if task == "regression":
        if column.kind != "numeric" and not _all_numbers(values):
            raise DataError(
                f"the target {column.name!r} is text, which {option('task', 'regression')} cannot predict; use multiclass"
            )
        return Goal("regression", "Set by --task.")
    if task == "binary" and n_labels != 2:
        raise DataError(
            f"the target {column.name!r} has {n_labels:,} distinct values, but {option('task', 'binary')} needs two; use multiclass"
        )
    if task == "auto":
        found = _regression_reason(column, values, n_labels, kind_given)
        if found is not None:
            return Goal("regression", found)
    if n_labels > max(2, n // 2):
        raise DataError(
            f"the target {column.name!r} has {n_labels:,} classes in {n:,} rows, too many to learn; choose another with "
            f"{option('target')}"
        )
    if n_labels == 2:
        ordered, why = _order_binary(labels, positive)
        reason = "Two distinct values; " + why
        resolved: Task = "binary"
    else:
        ordered = _sorted_labels(labels)
        if positive is not None:
            raise UsageError(f"{option('positive')} is for two classes; the target {column.name!r} has {n_labels:,}")
        what = "whole numbers" if column.kind == "numeric" else "texts"
        reason = f"{n_labels:,} distinct {what}, each a class."
        resolved = "multiclass"
    if task != "auto":
        reason = "Set by --task. " + reason
    return Goal(resolved, reason, tuple(ordered), tuple(labels[label] for label in ordered))


def _labels(column: Column, values: Values) -> Mapping[str, int]:
    """Class labels with their counts; the most frequent spelling of a number (1, 1.0) is its label."""
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
    """The format of a column's numbers."""
    return NumberFormat(column.decimal, column.thousands, column.unit, column.notation)


def _all_numbers(values: Values) -> bool:
    return values.uniques.cast(pl.Float64, strict=False).is_not_null().all()


def _regression_reason(column: Column, values: Values, n_labels: int, kind_given: bool) -> str | None:
    if column.kind != "numeric" or (n_labels == 2 and not kind_given):
        return None
    if kind_given:
        return "Set to numeric by --kind."
    numbers = parse_numbers(values.uniques, format_of(column)).drop_nulls()
    if not bool((numbers == numbers.round(0)).all()):
        return f"{n_labels:,} distinct numbers with decimals."
    few = n_labels <= _MAX_INTEGER_CLASSES and n_labels <= max(3.0, 0.05 * values.n_present)
    if not few:
        return f"{n_labels:,} distinct whole numbers, too many to be classes."
    if n_labels > 3 and _QUANTITY_NAMES.search(column.name):
        return f"{n_labels:,} distinct whole numbers, a quantity by the name; --task multiclass makes them classes."
    return None


def _sorted_labels(labels: Mapping[str, int]) -> list[str]:
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)


def _order_binary(labels: Mapping[str, int], positive: str | None) -> tuple[list[str], str]:
    """The two labels with the positive one last, and the reason for it."""
    first, second = _sorted_labels(labels)
    if positive is not None:
        chosen = next((label for label in labels if label == positive.strip()), None)
        if chosen is None:
            known = f"{first!r} and {second!r}"
            raise UsageError(
                f"{given('positive', positive)} is not a class of the target{did_you_mean(positive, labels)} (they are {known})"
            )
        return [second if chosen == first else first, chosen], f"{chosen!r} is the positive class, set by --positive."
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
            ], f"{chosen!r} is the positive class by its name."
    if labels[first] == labels[second]:
        return [first, second], f"{second!r} is the positive class; both are equally frequent."
    chosen = first if labels[first] < labels[second] else second
    return [
        second if chosen == first else first,
        chosen,
    ], f"{chosen!r} is the positive class because it is rarer."
