"""Learning curves of finished runs: the score with fewer training rows, and that of later rows with recent and with old rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.data.columns import column_of
from tabapp.data.split import make_holdout
from tabapp.engine.analyses.compare_runs import paired_difference
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.fitting_again import TimeLimit, TimeLimitReached, fit_again
from tabapp.engine.fit.candidates import Candidate, pilots_of
from tabapp.engine.fit.numbering import UsableRows
from tabapp.errors import BudgetError, UsageError
from tabapp.findings import CurvePoint
from tabapp.models import registry
from tabapp.run.analyses.learning_curve import RowCurveReady
from tabapp.run.analyses.parts import Gain
from tabapp.run.analyses.time_curve import TimeCurveReady
from tabapp.run.options.units import format_duration

Array = npt.NDArray[Any]

SHARES = (0.125, 0.25, 0.5, 1.0)
MOST_FOLDS = 3
SCORED_SHARE = 0.2
"""Share of the rows that are scored, the latest ones, in a run whose validation is not by time."""
LEAST_TRAINING_ROWS, LEAST_SCORED_ROWS = 40, 20


def measure_row_curve(run: FinishedRun, model: str | None = None, seconds: float | None = None) -> RowCurveReady:
    """The score of one model, trained on an eighth, a quarter, half and all of the training rows of up to three folds.

    If the time ends before, the curve covers the complete folds, or the complete shares of the first fold.

    Args:
        model: by default, the best model of the leaderboard.
        seconds: time limit; None for none.

    Raises:
        UsageError: the model has no score, or the table is too small.
        BudgetError: the time ended before the first model was trained.
    """
    candidate = run.best_of(model or run.best_model)
    folds = sorted(candidate.results)[:MOST_FOLDS]
    smallest = min(len(run.data.training(fold)) for fold in folds)
    shares = [share for share in SHARES if share * smallest >= LEAST_TRAINING_ROWS]
    if len(shares) < 2:
        raise UsageError(f"The table has too few rows for a learning curve; it needs {2 * LEAST_TRAINING_ROWS}.")
    limit = TimeLimit(seconds, len(folds) * (len(shares) - 1))
    n_pilots = pilots_of(registry.get(candidate.model), candidate.n_folds)
    known: dict[int, dict[float, Array]] = {}
    summaries: dict[float, list[dict[str, Any]]] = {share: [] for share in shares}
    with suppress(TimeLimitReached):
        for fold in folds:
            known[fold] = {}
            for share in shares[:-1]:
                # A fold that reused the numbers of steps of others in the run does so here.
                pilots = summaries[share] if fold >= n_pilots else []
                known[fold][share], summary = _fit_on_share(run, candidate, fold, share, pilots, limit)
                summaries[share] += [summary] if fold < n_pilots else []
    complete = [fold for fold in folds if len(known.get(fold, ())) == len(shares) - 1] or folds[:1]
    shares = [share for share in shares[:-1] if share in known[complete[0]]]
    if not shares:
        raise _too_slow(candidate, limit)
    for fold in complete:
        known[fold][1.0] = candidate.out_of_fold(run.folder, fold)
    held_out = UsableRows.joined([run.data.held_out(fold) for fold in complete])
    predicted = {share: np.concatenate([known[fold][share] for fold in complete]) for share in (*shares, 1.0)}
    mean_rows = float(np.mean([len(run.data.training(fold)) for fold in complete]))
    gain = _gain(run, held_out, predicted[shares[-1]], predicted[1.0])
    return RowCurveReady(
        model=candidate.model,
        points=tuple(_point(run, held_out, round(share * mean_rows), each) for share, each in predicted.items()),
        gain=gain.value,
        low=gain.low,
        high=gain.high,
        partial=limit.partial(),
    )


def _fit_on_share(
    run: FinishedRun,
    candidate: Candidate,
    fold: int,
    share: float,
    pilots: Sequence[Mapping[str, Any]],
    limit: TimeLimit,
) -> tuple[Array, dict[str, Any]]:
    """`fit_again` with a share of the training rows of a fold."""
    training = run.data.training(fold)
    # Nested shares: a smaller share is part of a larger one.
    order = np.random.default_rng([run.plan.seed, fold]).permutation(len(training))
    rows = training.at(np.sort(order[: round(share * len(training))]))
    return fit_again(run, candidate, fold, rows, limit=limit, pilots=pilots)


def measure_time_curve(run: FinishedRun, model: str | None = None, seconds: float | None = None) -> TimeCurveReady:
    """The score on the latest rows of one model that is trained on the most recent, and on the oldest, share of the earlier rows.

    Models are trained on the smallest shares first. If the time ends before, the curve covers those that are trained.

    Args:
        model: by default, the best model of the leaderboard.
        seconds: time limit; None for none.

    Raises:
        UsageError: the table has no dates, the model has no score, or there are too few rows.
        BudgetError: the time ended before three models were trained, which both questions need.
    """
    candidate = run.best_of(model or run.best_model)
    column, time = _times(run)
    scored = _scored(run, time)
    earlier = UsableRows.where(time < scored.of(time).min())
    earlier = earlier.at(np.argsort(earlier.of(time), kind="stable"))
    shares = [share for share in SHARES if share * len(earlier) >= LEAST_TRAINING_ROWS]
    if len(shares) < 2 or len(scored) < LEAST_SCORED_ROWS:
        raise UsageError(
            f"The table has too few rows for a learning curve over time; it needs {2 * LEAST_TRAINING_ROWS} rows before the latest "
            f"{LEAST_SCORED_ROWS}."
        )
    fold, limit = min(candidate.results), TimeLimit(seconds, 2 * len(shares) - 1)

    def predicted(chosen: slice) -> Array:
        rows = earlier.at(chosen)
        in_order = rows.at(np.argsort(rows.places))
        return fit_again(run, candidate, fold, in_order, scored, limit=limit)[0]

    recent: dict[int, Array] = {}
    oldest: dict[int, Array] = {}
    with suppress(TimeLimitReached):
        for share in shares:
            size = round(share * len(earlier))
            recent[size] = predicted(slice(len(earlier) - size, None))
            if share < 1:
                oldest[size] = predicted(slice(size))
    if len(recent) < 2:
        raise _too_slow(candidate, limit)
    (*_, fewer, more), both = recent, max(oldest)
    return TimeCurveReady(
        model=candidate.model,
        column=column,
        since=_moment(run, column, scored, time),
        n_rows=len(scored),
        recent=tuple(_point(run, scored, size, found) for size, found in recent.items()),
        oldest=tuple(_point(run, scored, size, found) for size, found in oldest.items()),
        older_rows=_gain(run, scored, recent[fewer], recent[more]),
        recency=_gain(run, scored, oldest[both], recent[both]),
        partial=limit.partial(),
    )


def _too_slow(candidate: Candidate, limit: TimeLimit) -> BudgetError:
    return BudgetError(
        f"{limit.trained} of {limit.planned} models were trained within {format_duration(limit.seconds or 0.0)}, too few for a "
        f"learning curve of {candidate.model}. Choose a longer --budget or another --model."
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


def _scored(run: FinishedRun, time: Array) -> UsableRows:
    """The latest rows: those that validation by time holds out, or a share of the rows."""
    if run.data.time is not None and run.data.n_folds == 1:
        return run.data.held_out(0)
    held_out = make_holdout(run.data.target, run.plan.task, SCORED_SHARE, run.plan.seed, time=time)
    return UsableRows.where((held_out == 0) & ~np.isnan(time))


def _moment(run: FinishedRun, column: str, scored: UsableRows, time: Array) -> str:
    """The time of the earliest scored row as text."""
    first = int(scored.places[scored.of(time).argmin()])
    if column in run.data.frame.columns:
        return str(column_of(run.data.frame, column)[first])
    return f"{time[first]:g}"


def _point(run: FinishedRun, scored: UsableRows, n_rows: int, predicted: Array) -> CurvePoint:
    metric, truth, weight = run.plan.metric, scored.of(run.data.target), scored.of(run.data.weight)
    low, high = metrics.interval(metric, truth, predicted, weight, seed=run.plan.seed)
    return CurvePoint(place=n_rows, score=metrics.score(metric, truth, predicted, weight), low=low, high=high)


def _gain(run: FinishedRun, scored: UsableRows, before: Array, after: Array) -> Gain:
    """How much better the score of one prediction is than that of another, with the interval of a paired bootstrap."""
    first, second, low, high = paired_difference(
        run.plan.metric,
        scored.of(run.data.target),
        before,
        after,
        scored.of(run.data.weight),
        seed=run.plan.seed,
        n_resamples=200,
    )
    sign = 1.0 if metrics.get(run.plan.metric).greater_is_better else -1.0
    low, high = sorted((sign * low, sign * high))
    return Gain(value=sign * (second - first), low=low, high=high)
