"""Weak slices: rows that share a value of a column, with errors larger than chance explains.

Among a hundred slices, some look bad by chance. Therefore a slice needs a minimum number of rows, its difference from the rest is
shrunk towards 0 (empirical Bayes with a normal prior; the variance between slices is the moment estimate of DerSimonian and
Laird, Controlled Clinical Trials 7, 1986), and its interval is corrected for the number of slices (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.data.columns import column_of
from tabapp.data.schema import Column
from tabapp.findings import ErrorSlice
from tabapp.task import Task

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

LEAST_ROWS, LEAST_SHARE = 30, 0.01
N_RANGES, MOST_LEVELS, MOST_VALUES = 5, 20, 8
MOST_DIGITS = 15
MOST_SHOWN = 12
LEVEL = 0.95
LEAST_VARIANCE = 0.1
"""Lower bound of the variance within a slice, as a share of the variance over all rows: equal errors do not mean no uncertainty."""


def row_errors(task: Task, truth: Array, prediction: Array) -> tuple[str, Array]:
    """The name of the error measure and its value for each row: log loss, or the absolute error of a regression."""
    if task == "regression":
        return "absolute error", np.abs(truth.astype(np.float64) - prediction)
    return "log loss", metrics.log_loss_rows(truth, prediction)


def least_rows(n_rows: int) -> int:
    """The minimum number of rows of a slice."""
    return max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * n_rows)))


def slices_of(column: Column, values: pl.Series) -> list[tuple[str, Mask]]:
    """The slices of a column by name: quintiles (or each value of a column with few numbers), frequent levels, and missing."""
    missing = values.is_null().to_numpy()
    found: list[tuple[str, Mask]] = []
    if column.kind in ("numeric", "datetime"):
        numbers = values.to_physical().cast(pl.Float64).to_numpy()
        different = np.unique(numbers[~missing])
        if column.kind == "numeric" and len(different) <= MOST_VALUES:
            spelled = _spelled(different.tolist(), digits=6)
            equal = ((f"= {name}", numbers == value) for name, value in zip(spelled, different, strict=True))
            return [*equal, ("missing", missing)]
        edges = (
            np.unique(np.quantile(numbers[~missing], np.linspace(0, 1, N_RANGES + 1)[1:-1], method="nearest"))
            if (~missing).any()
            else []
        )
        places = [float(edge) for edge in edges]
        names = [_date(values, place) for place in places] if column.kind == "datetime" else _spelled(places, digits=4)
        for index in range(len(edges) + 1 if len(edges) else 0):
            above = np.ones(len(values), bool) if index == 0 else numbers > edges[index - 1]
            below = np.ones(len(values), bool) if index == len(edges) else numbers <= edges[index]
            low, high = names[index - 1] if index else "", names[index] if index < len(edges) else ""
            name = f"≤ {high}" if not low else f"> {low}" if not high else f"{low} … {high}"
            found.append((name, above & below & ~missing))
    elif column.kind in ("categorical", "boolean"):
        counts = values.drop_nulls().value_counts(sort=True).head(MOST_LEVELS)
        found = [(f"= {level}", (values == level).fill_null(False).to_numpy()) for level in counts[values.name]]
    return [*found, ("missing", missing)]


def _date(values: pl.Series, number: float) -> str:
    return str(pl.Series([int(number)]).cast(values.dtype)[0])[:10]


def _spelled(numbers: Sequence[float], digits: int) -> list[str]:
    """Different numbers with as few significant digits as make them differ, but at least the given ones."""
    for n_digits in range(digits, MOST_DIGITS):
        names = [f"{number:.{n_digits}g}" for number in numbers]
        if len(set(names)) == len(names):
            # More digits than usual are needed, so whole parts are not written with an exponent.
            return names if n_digits == digits else [_plain(number, n_digits) for number in numbers]
    return [repr(number) for number in numbers]


def _plain(number: float, n_digits: int) -> str:
    name = f"{number:.{n_digits}g}"
    return f"{number:.0f}" if "e+" in name and abs(number) < 10**MOST_DIGITS else name


def weak_slices(
    frame: pl.DataFrame, columns: Sequence[Column], errors: Array, wrong: Mask | None
) -> tuple[list[ErrorSlice], int]:
    """The slices with the largest errors, worst first, and the number of slices tested.

    Args:
        frame: the typed columns. errors: (rows,) from `row_errors`. wrong: (rows,) whether the predicted class is wrong, or None.
    """
    n_rows, least = len(errors), least_rows(len(errors))
    total, variance = float(errors.sum()), float(errors.var())
    squares = errors**2
    names: list[ErrorSlice] = []
    spread: list[float] = []
    for column in columns:
        if column.name not in frame.columns:
            continue
        for level, rows in slices_of(column, column_of(frame, column.name)):
            n = int(rows.sum())
            if n < least or n_rows - n < least:
                continue
            mean, rest = float(errors[rows].mean()), (total - float(errors[rows].sum())) / (n_rows - n)
            inside = max(float(squares[rows].mean()) - mean**2, LEAST_VARIANCE * variance)
            share = None if wrong is None else float(wrong[rows].mean())
            found = ErrorSlice(
                column=column.name, level=level, n=n, error=mean, share_wrong=share, difference=mean - rest,
                low=0.0, high=0.0, clear=False,
            )  # fmt: skip
            names.append(found)
            spread.append(inside / n + variance / (n_rows - n))
    if not names or variance <= 0:
        return [], len(names)
    differences = np.array([row.difference for row in names])
    shrinkage = _shrinkage(differences, np.array(spread))
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / len(names))
    shrunk: list[ErrorSlice] = []
    for row, d, s, v in zip(names, differences.tolist(), shrinkage.tolist(), spread, strict=True):
        low, high = d * s - z * (v * s) ** 0.5, d * s + z * (v * s) ** 0.5
        shrunk.append(msgspec.structs.replace(row, difference=d * s, low=low, high=high, clear=low > 0))
    worst = sorted(shrunk, key=lambda row: (not row.clear, -row.difference, row.column, row.level))
    return [row for row in worst if row.difference > 0][:MOST_SHOWN], len(names)


def _shrinkage(differences: Array, variances: Array) -> Array:
    """The factor on the difference of each slice: the variance between slices divided by the total variance."""
    weight = 1 / variances
    center = float((weight * differences).sum() / weight.sum())
    excess = float((weight * (differences - center) ** 2).sum()) - (len(differences) - 1)
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    between = max(0.0, excess / scale) if scale > 0 else 0.0
    return between / (between + variances)
