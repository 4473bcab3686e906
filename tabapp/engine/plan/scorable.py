"""The folds of a run, and what a plan does where its metric is undefined on the rows that they score.

ROC AUC needs rows of two classes, average precision rows of the positive class, and R² values that differ. A table with three
positive rows has them in at most three of eight folds, and the latest rows of a table may all be of one class. A plan then has
fewer folds, scores all folds together, or takes a metric that is defined on any rows, and says so. A metric or a number of folds
that the user has chosen stays, or is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tabapp import metrics
from tabapp.data.schema import Schema
from tabapp.data.split import Folds, Target
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.plan.validation import describe_folds
from tabapp.errors import DataError, option
from tabapp.run.options.config import RunConfig

LEAST_FOLDS = 3
"""Fewer folds would leave too few rows for training; a class in fewer rows is then absent from some of the folds."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Splits:
    """The plan of a run for its rows, and (rows,) the fold that scores each row, -1 for rows used only for training."""

    plan: Plan
    fold: Folds


@dataclass(frozen=True)
class Scored:
    """What scores depend on beside the predictions.

    Attributes:
        target: (rows,) class codes or numbers.
        weight: (rows,) or None.
        groups: (rows,) groups that are in one fold, or None.
    """

    schema: Schema
    target: Target
    weight: Array | None
    groups: Array | None

    def is_defined(self, metric: str, rows: Array) -> bool:
        """Whether a metric is defined on some rows, given as a mask, for predictions that are good and differ."""
        truth, weight = self.target[rows], None if self.weight is None else self.weight[rows]
        if not len(truth):
            return False
        rising, n_classes = np.linspace(1.0, 1.1, len(truth)), len(self.schema.classes)
        if n_classes:
            odds = np.eye(n_classes)[truth.astype(np.int64)] + rising[:, np.newaxis]
            prediction = odds / odds.sum(axis=1, keepdims=True)
        else:
            prediction = truth * rising
        try:
            return not math.isnan(metrics.score(metric, truth, prediction, weight))
        except Exception:
            # A third-party metric may raise anything; a fit reports it.
            return True

    def undefined_folds(self, metric: str, fold: Folds) -> list[int]:
        """The folds on which a metric is undefined."""
        return [number for number in range(int(fold.max()) + 1) if not self.is_defined(metric, fold == number)]

    def why(self, parts: Sequence[Array]) -> str:
        """What the rows of each of some parts have in common, such as "all 'ok'"; empty if that is not known."""
        if self.weight is not None and not any(self.weight[rows].sum() > 0 for rows in parts):
            return "without a weight above 0"
        values = [np.unique(self.target[rows]) for rows in parts]
        if any(len(found) != 1 for found in values):
            return ""
        known = {found.item() for found in values}
        if len(known) > 1:
            return "each of one class" if self.schema.classes else "each of one value"
        (value,) = known
        return f"all {self.schema.classes[int(value)] if self.schema.classes else f'{value:g}'!r}"

    def rarest(self) -> tuple[str, int]:
        """The class in the fewest rows, or in the fewest groups, and their number; ("", number of rows) without classes."""
        if not self.schema.classes:
            return "", len(self.target)
        units = np.arange(len(self.target)) if self.groups is None else self.groups
        counts = [len(np.unique(units[self.target == code])) for code in range(len(self.schema.classes))]
        code = int(np.argmin(counts))
        return self.schema.classes[code], counts[code]


def split_rows(plan: Plan, config: RunConfig, scored: Scored, split: Callable[[int], Folds]) -> Splits:
    """Split the rows, and change the plan where its metric is undefined on the scored ones.

    Args:
        split: makes the folds of a number of them.

    Raises:
        DataError: the metric that the user has chosen is undefined on all scored rows, or every metric is.
    """
    fold = split(plan.folds)
    n_folds = int(fold.max()) + 1
    if n_folds < plan.folds:
        # There are fewer groups or rows than folds.
        plan = replace(plan, folds=n_folds, validation=describe_folds(n_folds, plan.task, config))
    if not scored.is_defined(plan.metric, fold >= 0):
        return Splits(_with_other_metric(plan, config, scored, fold >= 0), fold)
    undefined = scored.undefined_folds(plan.metric, fold)
    if not undefined:
        return Splits(plan, fold)
    fewer = _fewer(plan, config, scored, split) if config.folds is None else None
    return fewer or _pooled(plan, scored, fold, undefined)


def _noted(plan: Plan, note: str, **changes: Any) -> Plan:
    return replace(plan, notes=tuple(dict.fromkeys((*plan.notes, note))), **changes)


def _with_other_metric(plan: Plan, config: RunConfig, scored: Scored, rows: Array) -> Plan:
    """The plan with the loss that models stop early by, which is defined on rows of any class or value."""
    metric, why = metrics.get(plan.metric), scored.why([rows])
    other = metrics.get(metric.early_stopping)
    if not scored.is_defined(other.name, rows):
        raise DataError(
            f"No row that is scored has a weight above 0 ({plan.validation}). Choose another {option('weight')}."
        )
    problem = f"{metric.title} is undefined on the scored rows{f', which are {why}' if why else ''} ({plan.validation})"
    way_out = f"leave out {option('time')}" if config.time is not None else f"choose another {option('validation')}"
    if config.metric is not None:
        raise DataError(f"{problem}. Choose another {option('metric')}, such as {other.name}, or {way_out}.")
    note = f"{problem}. The metric of this run is {other.title} instead; --metric chooses another one."
    return _noted(plan, note, metric=other.name)


def _fewer(plan: Plan, config: RunConfig, scored: Scored, split: Callable[[int], Folds]) -> Splits | None:
    """The largest number of folds on all of which the metric is defined; None if there is none."""
    label, count = scored.rarest()
    title = metrics.get(plan.metric).title
    for n_folds in range(min(plan.folds - 1, count), LEAST_FOLDS - 1, -1):
        fold = split(n_folds)
        if int(fold.max()) + 1 == n_folds and not scored.undefined_folds(plan.metric, fold):
            where = (
                f"only {count} {'rows' if config.group is None else 'groups'} have the class {label!r}, and "
                if label
                else ""
            )
            reason = (
                f"{n_folds} folds instead of {plan.folds}: {where}{title} is undefined on some of {plan.folds} folds"
            )
            validation = describe_folds(n_folds, plan.task, config)
            note = f"{reason}. --folds {plan.folds} keeps them, and scores all folds together."
            return Splits(_noted(plan, note, folds=n_folds, validation=validation, validation_reason=reason), fold)
    return None


def _pooled(plan: Plan, scored: Scored, fold: Folds, undefined: list[int]) -> Splits:
    """The same folds, those with a score first, since models are compared after their first fold."""
    why = scored.why([fold == number for number in undefined])
    note = (
        f"{metrics.get(plan.metric).title} is undefined on {len(undefined)} of {plan.folds} folds"
        f"{f', whose rows are {why}' if why else ''}. The score of a model is that of all folds together."
    )
    order = sorted(range(plan.folds), key=lambda number: (number in undefined, number))
    return Splits(_noted(plan, note), np.argsort(order)[fold].astype(np.int16))
