"""The learning curve over time: later rows scored by models that are trained on recent, and on old, rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.data.columns import column_of
from tabapp.data.split import make_holdout
from tabapp.engine.comparing import paired_difference
from tabapp.engine.finished import FinishedRun
from tabapp.engine.fitting_again import fit_again
from tabapp.errors import UsageError
from tabapp.run import analysis_events as events

Array = npt.NDArray[Any]

SHARES = (0.125, 0.25, 0.5, 1.0)
SCORED_SHARE = 0.2
"""Share of the rows that are scored, the latest ones, in a run whose validation is not by time."""
LEAST_TRAINING_ROWS, LEAST_SCORED_ROWS = 40, 20


def measure_time_curve(run: FinishedRun, model: str | None = None) -> events.TimeCurveReady:
    """The score on the latest rows of one model that is trained on the most recent, and on the oldest, share of the earlier rows.

    Args:
        model: by default, the best model of the leaderboard.

    Raises:
        UsageError: the table has no dates, the model has no score, or there are too few rows.
    """
    candidate = run.best_of(model or run.best_model)
    column, time = _times(run)
    scored = _scored(run, time)
    earlier = np.flatnonzero(time < time[scored].min())
    earlier = earlier[np.argsort(time[earlier], kind="stable")]
    shares = [share for share in SHARES if share * len(earlier) >= LEAST_TRAINING_ROWS]
    if len(shares) < 2 or len(scored) < LEAST_SCORED_ROWS:
        raise UsageError(
            f"The table has too few rows for a learning curve over time; it needs {2 * LEAST_TRAINING_ROWS} rows before the latest "
            f"{LEAST_SCORED_ROWS}."
        )
    fold, schema = min(candidate.results), run.data.schema

    def predicted(rows: Array) -> Array:
        return fit_again(run, candidate, fold, np.sort(rows), schema, scored)

    sizes = {share: round(share * len(earlier)) for share in shares}
    recent = {share: predicted(earlier[len(earlier) - size :]) for share, size in sizes.items()}
    oldest = {share: predicted(earlier[:size]) for share, size in sizes.items() if share < 1}
    half = shares[-2]
    return events.TimeCurveReady(
        model=candidate.model,
        column=column,
        since=_moment(run, column, scored, time),
        n_rows=len(scored),
        recent=tuple(_point(run, scored, sizes[share], found) for share, found in recent.items()),
        oldest=tuple(_point(run, scored, sizes[share], found) for share, found in oldest.items()),
        older_rows=_gain(run, scored, recent[half], recent[1.0]),
        recency=_gain(run, scored, oldest[half], recent[half]),
    )


def _times(run: FinishedRun) -> tuple[str, Array]:
    """The column of times, and the (rows,) time of each row, NaN if it is missing: that of `--time`, or the first date column.

    Raises:
        UsageError: there is none.
    """
    columns = run.data.schema.columns
    if run.data.time is not None:
        return next(column.name for column in columns if column.role == "time"), run.data.time.astype(np.float64)
    frame = run.data.frame
    for column in columns:
        if column.kind == "datetime" and column.name in frame.columns:
            values = column_of(frame, column.name)
            if values.n_unique() > 1:
                return column.name, values.to_physical().cast(pl.Float64).to_numpy()
    raise UsageError(
        f"The run {run.folder.run} has no dates. A learning curve over time needs a date column, or a run with --time."
    )


def _scored(run: FinishedRun, time: Array) -> Array:
    """Positions of the latest rows: those that validation by time holds out, or a share of the rows."""
    if run.data.time is not None and run.data.n_folds == 1:
        return run.data.held_out(0)
    held_out = make_holdout(run.data.target, run.plan.task, SCORED_SHARE, run.plan.seed, time=time)
    return np.flatnonzero((held_out == 0) & ~np.isnan(time))


def _moment(run: FinishedRun, column: str, scored: Array, time: Array) -> str:
    """The time of the earliest scored row as text."""
    first = int(scored[time[scored].argmin()])
    if column in run.data.frame.columns:
        return str(column_of(run.data.frame, column)[first])
    return f"{time[first]:g}"


def _point(run: FinishedRun, scored: Array, n_rows: int, predicted: Array) -> events.CurvePoint:
    metric, truth, weight = run.plan.metric, run.data.target[scored], _weights(run, scored)
    low, high = metrics.interval(metric, truth, predicted, weight, seed=run.plan.seed)
    return events.CurvePoint(place=n_rows, score=metrics.score(metric, truth, predicted, weight), low=low, high=high)


def _gain(run: FinishedRun, scored: Array, before: Array, after: Array) -> events.Gain:
    """How much better the score of one prediction is than that of another, with the interval of a paired bootstrap."""
    first, second, low, high = paired_difference(
        run.plan.metric,
        run.data.target[scored],
        before,
        after,
        _weights(run, scored),
        seed=run.plan.seed,
        n_resamples=200,
    )
    sign = 1.0 if metrics.get(run.plan.metric).greater_is_better else -1.0
    low, high = sorted((sign * low, sign * high))
    return events.Gain(value=sign * (second - first), low=low, high=high)


def _weights(run: FinishedRun, rows: Array) -> Array | None:
    return None if run.data.weight is None else run.data.weight[rows]
