"""Partial dependence of the prediction on one feature, on held-out rows.

Friedman: "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29, 2001, section 8.2; its spread over
rows follows Goldstein, Kapelner, Bleich, Pitkin: "Peeking Inside the Black Box", JCGS 24, 2015.

NOTE[DIFF] each fold model predicts its held-out rows, and values pass through the whole feature preparation, so that a missing
indicator or a part of a date changes with its column.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.schema import Column
from tabapp.features.prepare import FeaturePreparer
from tabapp.findings import Effect, EffectCurve
from tabapp.models.contract import FittedModel

Array = npt.NDArray[Any]

N_PLACES = 12
MOST_LEVELS = 8
MOST_CLASSES = 3
INNER = (0.02, 0.98)
"""Quantiles that bound the grid of a numeric feature: beyond them there are too few rows."""
SPREAD = (0.1, 0.9)


@dataclass(frozen=True)
class HeldOut:
    """A fold model with its feature preparation, and held-out rows as typed columns."""

    model: FittedModel
    preparer: FeaturePreparer
    frame: pl.DataFrame


def grid_of(column: Column, values: pl.Series) -> tuple[pl.Series, tuple[str, ...], tuple[int, ...]]:
    """The grid of a feature: its values, their labels (none for numbers), and the number of rows at each.

    The grid of a text column is empty.
    """
    present = values.drop_nulls()
    if column.kind in ("categorical", "boolean"):
        counts = present.value_counts(sort=True).head(MOST_LEVELS)
        levels = counts[values.name]
        if column.order:
            rank = {level: place for place, level in enumerate(column.order)}
            order = sorted(range(len(levels)), key=lambda index: rank.get(levels[index], len(rank)))
            counts, levels = counts[order], levels[order]
        return levels, tuple(str(level) for level in levels), tuple(counts["count"].to_list())
    if column.kind not in ("numeric", "datetime") or not len(present):
        return values.head(0), (), ()
    numbers = present.to_physical().cast(pl.Float64).to_numpy()
    places = np.unique(numbers)
    if len(places) > N_PLACES:
        places = np.unique(np.quantile(numbers, np.linspace(*INNER, N_PLACES), method="nearest"))
    counts = np.bincount(np.searchsorted((places[1:] + places[:-1]) / 2, numbers), minlength=len(places))
    if values.dtype.is_temporal():
        dates = pl.Series(values.name, places.astype(np.int64)).cast(values.dtype)
        return dates, tuple(str(date)[:10] for date in dates), tuple(map(int, counts))
    return pl.Series(values.name, places), (), tuple(map(int, counts))


def effect_of(
    folds: Sequence[HeldOut], column: Column, values: pl.Series, classes: Sequence[str] = ()
) -> Effect | None:
    """The effect of one feature; None if its grid has fewer than two points.

    Args:
        values: (rows,) the whole column, from which the grid and the counts are computed.
        classes: empty for a regression.
    """
    grid, labels, counts = grid_of(column, values)
    if len(grid) < 2:
        return None
    parts: list[Array] = []
    for fold in folds:
        n_rows = fold.frame.height
        frames = [
            fold.frame.with_columns(pl.lit(grid[place]).cast(values.dtype).alias(column.name))
            for place in range(len(grid))
        ]
        predicted = np.asarray(fold.model.predict(fold.preparer.transform(pl.concat(frames))), dtype=np.float64)
        parts.append(predicted.reshape(len(grid), n_rows, -1))
    predictions = np.concatenate(parts, axis=1)
    places = () if labels else tuple(float(place) for place in grid)
    local = accumulated_effects(folds, column.name, places, values.dtype) if places else None
    curves = tuple(_curve(predictions, code, local, classes[code] if classes else "") for code in _classes(predictions))
    return Effect(feature=column.name, places=places, labels=labels, counts=counts, curves=curves)


def _classes(predictions: Array) -> list[int]:
    """The outputs to show: the positive class of two, the classes that vary most of several, or the output of a regression."""
    if predictions.shape[2] <= 2:
        return [predictions.shape[2] - 1]
    variation = np.ptp(predictions.mean(axis=1), axis=0)
    return sorted(np.argsort(-variation, kind="stable")[:MOST_CLASSES].tolist())


def _curve(predictions: Array, code: int, local: Array | None, label: str) -> EffectCurve:
    chosen = predictions[:, :, code]
    low, high = np.quantile(chosen, SPREAD, axis=1)
    found = (chosen.mean(axis=1), low, high, () if local is None else local[:, code])
    values, low, high, ale = (tuple(map(float, line)) for line in found)
    return EffectCurve(label=label, values=values, low=low, high=high, ale=ale)


def accumulated_effects(
    fold_frames: Sequence[HeldOut], column: str, places: Sequence[float], dtype: pl.DataType
) -> Array | None:
    """Accumulated local effects at the places of a numeric column, (places, outputs), centered at the mean prediction (Apley, Zhu:
    "Visualizing the effects of predictor variables in black box supervised learning models", JRSS B 82, 2020).

    Between two places, the mean change of the prediction of the rows there is added: unlike partial dependence, only values near
    those of a row are used. None if no row lies between the places.

    NOTE[DIFF] the curve is centered by its mean over the rows, linear between two places, as the paper defines it. Its
    estimator gives all rows of an interval the middle of the interval, which is far off where most rows have one value, such as 0.
    """
    edges = np.asarray(places, dtype=np.float64)
    sums: Array | None = None
    counts = np.zeros(len(edges) - 1)
    means: list[Array] = []
    rows: list[Array] = []
    for fold in fold_frames:
        values = fold.frame[column].to_physical().cast(pl.Float64)
        # Rows beyond the places would be moved far.
        present = fold.frame.filter(values.is_between(edges[0], edges[-1]))
        if not present.height:
            continue
        numbers = present[column].to_physical().cast(pl.Float64).to_numpy()
        interval = np.clip(np.searchsorted(edges, numbers, side="left") - 1, 0, len(edges) - 2)
        ends = [pl.Series(column, edges[interval + step]).cast(dtype) for step in (0, 1)]
        frames = [present.with_columns(end) for end in ends]
        predicted = np.asarray(
            fold.model.predict(fold.preparer.transform(pl.concat([*frames, present]))), dtype=np.float64
        ).reshape(3, present.height, -1)
        change = predicted[1] - predicted[0]
        if sums is None:
            sums = np.zeros((len(edges) - 1, change.shape[1]))
        np.add.at(sums, interval, change)
        counts += np.bincount(interval, minlength=len(counts))
        means.append(predicted[2])
        rows.append(numbers)
    if sums is None or not counts.any():
        return None
    steps = sums / np.maximum(counts, 1)[:, None]
    curve = np.vstack([np.zeros(steps.shape[1]), np.cumsum(steps, axis=0)])
    center = np.array([np.interp(np.concatenate(rows), edges, output).mean() for output in curve.T])
    return curve - center + np.concatenate(means).mean(axis=0)


def effects(
    folds: Sequence[HeldOut],
    columns: Sequence[Column],
    frame: pl.DataFrame,
    classes: Sequence[str] = (),
    *,
    deadline: float | None = None,
) -> list[Effect]:
    """The effects of the given columns, in their order.

    Args:
        frame: the whole table, typed.
        classes: empty for a regression.
        deadline: `time.monotonic()` after which no further column starts.
    """
    found: list[Effect] = []
    for column in columns:
        if deadline is not None and time.monotonic() > deadline:
            break
        effect = effect_of(folds, column, column_of(frame, column.name), classes)
        if effect is not None:
            found.append(effect)
    return found
