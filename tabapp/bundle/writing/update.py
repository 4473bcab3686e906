"""Old and new rows for a new run, and the comparison of two bundles on rows that neither has seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp import metrics
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.evaluate import evaluate
from tabapp.bundle.prediction.predict import Predictor
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Schema
from tabapp.data.stored import as_text
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.errors import DataError

HELD_OUT_SHARE, FEWEST_HELD_OUT, MOST_HELD_OUT = 0.2, 20, 20_000
"""Share and number of the new rows that are held out from the new run to compare the bundles."""
RESAMPLES = 500


@dataclass(frozen=True)
class UpdateRows:
    """Rows as text with the columns of the old table.

    Attributes:
        training: old rows, then the new ones that are not held out.
        held_out: new rows that neither bundle has seen.
        notes: sentences about the new rows, for the user.
    """

    training: pl.DataFrame
    held_out: pl.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Scores of two bundles on the same rows.

    Attributes:
        old, new: every metric, the run's metric first.
        difference: new minus old score of the run's metric, with its 95 % paired bootstrap interval.
        verdict: "better", "worse", or "no significant difference" of the new bundle.
    """

    rows: int
    old: tuple[MetricValue, ...]
    new: tuple[MetricValue, ...]
    difference: float
    low: float
    high: float
    verdict: str


def rows_for_update(
    old: pl.DataFrame, new: pl.DataFrame, schema: Schema, seed: int, *, strict: bool = False, decimal: str | None = None
) -> UpdateRows:
    """Combine old and new rows, and hold out some of the new ones: the latest if the table has a time column, else a random sample.

    Groups are held out whole. New rows that equal a row of the training part are not held out. Numbers of new rows with another
    decimal mark are written as in training.

    Args:
        strict, decimal: as in `NewRows`, for the new rows.

    Raises:
        DataError: a feature column or the target is missing, too few new rows have a target, or they differ and `strict` is set.
    """
    rows = NewRows(schema, new.columns, strict=strict, decimal=decimal, with_target=True)
    typed = rows.add(new)
    notes = tuple(rows.notes())
    changed = [mine.name for mine, its in zip(schema.columns, rows.schema.columns, strict=True) if mine != its]
    if changed:
        new = new.with_columns(as_text(typed[changed], "the new rows", schema.columns))
    labeled = new.filter(pl.Series(rows_with_target(new, schema)))
    absent = [name for name in old.columns if name not in labeled.columns]
    labeled = labeled.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in absent)[old.columns]
    count = min(MOST_HELD_OUT, round(HELD_OUT_SHARE * labeled.height))
    if count < FEWEST_HELD_OUT:
        needed = round(FEWEST_HELD_OUT / HELD_OUT_SHARE)
        raise DataError(
            f"{labeled.height:,} new rows have a target; at least {needed} are needed to compare the bundles"
        )
    chosen = _held_out(labeled, schema, count, seed)
    training = pl.concat([old, labeled.filter(~pl.Series(chosen))])
    held_out = labeled.filter(pl.Series(chosen)).join(training, on=old.columns, how="anti", nulls_equal=True)
    if held_out.height < FEWEST_HELD_OUT:
        raise DataError("nearly all new rows are copies of training rows, so no rows are left to compare the bundles")
    return UpdateRows(training, held_out, notes)


def _held_out(frame: pl.DataFrame, schema: Schema, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(rows,) which rows are held out."""
    generator = np.random.default_rng(seed)
    chosen = np.zeros(frame.height, dtype=bool)
    time, group = schema.with_role("time"), schema.with_role("group")
    if time is not None:
        moments = typed_frame(frame, schema)[time.name].to_physical().cast(pl.Float64).fill_null(-np.inf).to_numpy()
        chosen[np.argsort(moments, kind="stable")[-count:]] = True
    elif group is not None:
        labels = frame[group.name].fill_null("").to_numpy()
        for label in generator.permutation(np.unique(labels)):
            if chosen.sum() >= count:
                break
            chosen |= labels == label
    else:
        chosen[generator.choice(frame.height, count, replace=False)] = True
    return chosen


def compare_bundles(old: Predictor, new: Predictor, held_out: pl.DataFrame, metric: str, *, seed: int) -> Comparison:
    """Compare two bundles on labeled rows, of the classes that both know.

    Raises:
        DataError: no row can be scored by both.
    """
    schema = old.schema
    if schema.classes:
        known = set(old.schema.classes) & set(new.schema.classes)
        labels = typed_frame(held_out, schema)[schema.target]
        held_out = held_out.filter(labels.is_in(list(known)))
    scores = [evaluate(each, held_out, metric, seed=seed, fill_missing_columns=True) for each in (old, new)]
    predictions = [each.predict_frame(held_out, fill_missing_columns=True).values for each in (old, new)]
    truths = [encode_target(typed_frame(held_out, each.schema), each.schema) for each in (old, new)]
    generator = np.random.default_rng(seed)

    def difference(rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> float:
        before, after = (
            metrics.score(metric, truth[rows], values[rows]) for truth, values in zip(truths, predictions, strict=True)
        )
        return after - before

    n_rows = held_out.height
    drawn = [difference(generator.integers(0, n_rows, n_rows)) for _ in range(RESAMPLES)]
    low, high = (float(bound) for bound in np.nanquantile(drawn, [0.025, 0.975]))
    rises, falls = ("better", "worse") if metrics.get(metric).greater_is_better else ("worse", "better")
    return Comparison(
        rows=n_rows,
        old=scores[0].metrics,
        new=scores[1].metrics,
        difference=difference(np.arange(n_rows)),
        low=low,
        high=high,
        verdict=rises if low > 0 else falls if high < 0 else "no significant difference",
    )
