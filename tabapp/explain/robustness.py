"""How the score falls when cells are missing or noisy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.findings import CurvePoint

Array = npt.NDArray[Any]

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
RESAMPLES = 100
Damage = Literal["missing", "noisy"]


def damaged(frame: pl.DataFrame, columns: Sequence[str], share: float, kind: Damage, seed: int) -> pl.DataFrame:
    """A table in which each cell of some columns is damaged with the same probability.

    A missing cell is null. A noisy cell has the value of the same column in a random row.
    """
    generator = np.random.default_rng([seed, round(1000 * share), kind == "noisy"])
    changed: list[pl.Series] = []
    for name in columns:
        cells = frame[name]
        hit = generator.random(frame.height) < share
        other = generator.integers(0, max(1, frame.height), frame.height)
        if kind == "missing":
            places = pl.Series([None if h else i for i, h in enumerate(hit.tolist())], dtype=pl.UInt32)
        else:
            places = pl.Series(np.where(hit, other, np.arange(frame.height)), dtype=pl.UInt32)
        changed.append(cells.gather(places))
    return frame.with_columns(changed)


def robustness_curve(
    predict: Callable[[Callable[[pl.DataFrame], pl.DataFrame]], Array],
    metric: str,
    truth: Array,
    columns: Sequence[str],
    kind: Damage,
    weight: Array | None = None,
    *,
    seed: int,
    deadline: float | None = None,
    shares: Sequence[float] = SHARES,
) -> list[CurvePoint]:
    """The score at each share of damaged cells. Cells of the target, groups and weights stay.

    Args:
        predict: predicts the held-out rows after a change of their table.
        truth, weight: of these rows.
        deadline: `time.monotonic()` after which no further share starts.
    """
    found: list[CurvePoint] = []
    for share in shares:
        if deadline is not None and time.monotonic() > deadline:
            break

        def change(frame: pl.DataFrame, share: float = share) -> pl.DataFrame:
            return damaged(frame, columns, share, kind, seed) if share else frame

        predicted = predict(change)
        low, high = metrics.interval(metric, truth, predicted, weight, seed=seed, n_resamples=RESAMPLES)
        score = metrics.score(metric, truth, predicted, weight)
        found.append(CurvePoint(place=share, score=score, low=low, high=high))
    return found
