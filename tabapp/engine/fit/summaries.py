"""What fitted models report about themselves, with names of columns and over folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from tabapp.features.arrays import FeatureSpec
from tabapp.models.contract import STEP_ROWS, FittedModel

USED = "used_columns"
"""The fact that `described` adds: the columns that the model uses most, with their shares."""
MOST_COLUMNS, MOST_LISTED, MOST_OF_LISTED, MOST_FACTS = 8, 5, 3, 20
HIDDEN = frozenset({STEP_ROWS})
"""Facts for the engine only."""


def described(model: FittedModel, spec: FeatureSpec) -> dict[str, Any]:
    """The summary of a model, with the columns that it uses most if it knows its use of the features without data."""
    summary = dict(model.summary())
    try:
        used = model.use_of_features()
    except Exception:
        # A model of others that does not know its features must not lose its fit.
        used = None
    if used is None:
        return summary
    shares: dict[str, float] = {}
    # Features after the last one that is used may be left out.
    for source, value in zip(spec.sources, np.asarray(used, dtype=np.float64).tolist(), strict=False):
        shares[source] = shares.get(source, 0.0) + value
    whole = sum(shares.values())
    if np.isfinite(whole) and whole > 0:
        largest = sorted(shares, key=lambda name: -shares[name])[:MOST_COLUMNS]
        summary[USED] = {name: round(shares[name] / whole, 4) for name in largest if shares[name] > 0}
    return summary


def merged(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One summary of the models of several folds: the mean of numbers, rounded; other values of the first fold that has them, or of
    each fold where they differ."""
    names = dict.fromkeys(name for each in summaries for name in each if name not in HIDDEN)
    found: dict[str, Any] = {}
    for name in list(names)[:MOST_FACTS]:
        values = [each[name] for each in summaries if each.get(name) is not None]
        if values and (value := _merged(values)) is not None:
            found[name] = value
    return found


def _merged(values: Sequence[Any]) -> Any:
    first = values[0]
    if all(_is_number(value) for value in values):
        return _rounded(fmean(values)) if len(set(values)) > 1 else _rounded(first)
    if all(isinstance(value, dict) for value in values):
        return _mean_of_columns(values)
    if isinstance(first, list):
        listed = [_mean_of_columns([each]) if isinstance(each, dict) else each for each in first[:MOST_LISTED]]
        return [dict(list(each.items())[:MOST_OF_LISTED]) if isinstance(each, dict) else each for each in listed]
    different = list(dict.fromkeys(map(str, values)))
    return first if len(different) == 1 else different[:MOST_LISTED]


def _mean_of_columns(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of each number over the mappings, 0 where it is missing; the largest first."""
    names = dict.fromkeys(name for each in values for name in each)
    numbers = {
        name: sum(each.get(name, 0.0) for each in values) / len(values)
        for name in names
        if all(_is_number(each.get(name, 0.0)) for each in values)
    }
    return {name: _rounded(numbers[name]) for name in sorted(numbers, key=lambda each: -numbers[each])[:MOST_COLUMNS]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(value: float) -> int | float:
    if isinstance(value, int):
        return value
    if not np.isfinite(value):
        return 0.0
    return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")
