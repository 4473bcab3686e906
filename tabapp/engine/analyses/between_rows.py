"""On which rows the predictions of a model rest, on a sample of its held-out rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.analyses.compare_runs import paired_difference
from tabapp.engine.analyses.finished_run import FinishedRun, damage_as_error
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.errors import UsageError
from tabapp.explain.attention import half_width
from tabapp.explain.between_rows.changes import corrupted_predictions, deletion_distances, predictions_from_few
from tabapp.explain.between_rows.folds import FoldRows, differences, distances, spread
from tabapp.explain.between_rows.maps import Measured, averaged_map, measure
from tabapp.explain.evaluation import sample_rows, with_rounded
from tabapp.models import registry
from tabapp.models.contract import Floats
from tabapp.run.analyses.between_rows import (
    BetweenRowsReady,
    Deletion,
    FewRows,
    HeadWeight,
    LinkedRow,
    NearWeight,
    RowLink,
    WeightMap,
)
from tabapp.run.analyses.parts import Gain
from tabapp.run.record.score_text import format_score

Array = npt.NDArray[Any]

MOST_ROWS = 300
"""Held-out rows, over all folds."""
TOGETHER = 10
"""Held-out rows that are predicted from the same permutation of the stored rows."""
FEW_ROWS, DELETED_ROWS = 30, 10
"""Held-out rows that are predicted from few stored rows, and for which rows are deleted one by one."""
DELETED_FROM, MOST_TRIES = 100, 300
"""Stored rows, at most, that are deleted one by one, and the predictions after which that ends."""
SHARES = (0.5, 0.2, 0.1, 0.05, 0.02)
"""Shares of the stored rows that are left."""
LEAST_TESTED = 6
"""Pairs from which Wilcoxon's test can be significant."""


def measure_rows(run: FinishedRun, model: str | None = None, seconds: float | None = None) -> BetweenRowsReady:
    """Which stored rows the predictions of a model for held-out rows rest on, and what corrupting or deleting them changes.

    Args:
        model: a model that predicts from rows; by default, the best one.
        seconds: time limit; deletions are left out first.

    Raises:
        UsageError: there is no such model, or it does not predict from rows.
    """
    candidate = _candidate(run, model)
    deadline = None if seconds is None else time.monotonic() + seconds
    folds = _folds(run, candidate)
    measured = measure(folds)
    run.report(0.1)
    plain = np.concatenate([fold.stored.predict(fold.table) for fold in folds])
    corruption = _corruption(run, folds, deadline)
    few = _from_few(run, folds, plain, deadline)
    deletion = _deletion(run, folds, spread(plain), deadline)
    is_complete = corruption["n_corrupted"] == len(plain) and few and deletion is not None
    return BetweenRowsReady(
        model=candidate.model,
        n_rows=len(plain),
        n_stored=float(np.average([len(fold.stored) for fold in folds], weights=[len(fold) for fold in folds])),
        metric_title=metrics.get(run.plan.metric).title,
        **corruption,
        near=with_rounded(_near(measured)),
        common=float(np.mean(measured.common)),
        common_chance=float(np.mean(measured.common_chance)),
        maps=tuple(
            WeightMap(title=title, cells=with_rounded(_floats(averaged_map(rows, measured.place))))
            for title, rows in measured.groups.items()
        ),
        heads=tuple(
            HeadWeight(title=title, heads=with_rounded(tuple(np.mean(rows, axis=0).tolist())))
            for title, rows in measured.by_head.items()
            if title
        ),
        few=few,
        n_few=min(FEW_ROWS, len(plain)) if few else 0,
        deletion=with_rounded(deletion),
        rows=with_rounded(_linked_rows(run, folds, measured, plain)),
        seconds=None if is_complete else seconds,
    )


def _floats(values: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))


def _candidate(run: FinishedRun, model: str | None) -> Candidate:
    names = [row.model for row in run.state.leaderboard if row.score is not None and row.model != "ensemble"]
    able = [name for name in names if registry.get(name).predicts_from_rows]
    if not able or (model is not None and model not in able):
        wanted = "a model that predicts from rows" if model is None else f"a model {model!r} that predicts from rows"
        known = [name for name in registry.names() if _predicts_from_rows(name)]
        others = ", ".join(able or known)
        advice = f"Choose --model {able[0]}." if able else f"Start a run with --models {others}."
        raise UsageError(f"The run {run.folder.run} has no score of {wanted}. {advice}")
    return run.best_of(model or able[0])


def _predicts_from_rows(name: str) -> bool:
    plugin = registry.find(name).plugin
    return plugin is not None and plugin.predicts_from_rows


def _folds(run: FinishedRun, candidate: Candidate) -> list[FoldRows]:
    """A sample of the held-out rows of each fold, with the rows that its model has stored."""
    models, data = run.models, run.data
    numbers = sorted(candidate.results)
    total = sum(len(data.held_out(fold)) for fold in numbers)
    found: list[FoldRows] = []
    anchor: UsableRows | None = None
    for fold in numbers:
        with damage_as_error(run.folder):
            held_out, fitted = data.held_out(fold), models.rows_of_fit(candidate, fold)
            stored, features = models.model(candidate, fold).stored_rows(), models.features(candidate, fold).table
        most = max(1, round(MOST_ROWS * len(held_out) / total))
        asked = held_out.at(sample_rows(len(held_out), most, run.plan.seed + fold))
        if stored is None or fitted is None or not len(asked):
            continue
        table, known = asked.of(features), fitted.at(stored.source)
        if anchor is None:
            # A row far from the others orders them better than one in their middle.
            anchor = asked.at(np.array([int(distances(table, table).mean(axis=0).argmax())]))
        found.append(FoldRows(stored, known.of(features), table, anchor.of(features), asked.places, known.places))
    if not found:
        raise UsageError(
            f"No model of {candidate.model} in the run {run.folder.run} uses other rows: it predicts from each row itself."
        )
    return found


def _corruption(run: FinishedRun, folds: Sequence[FoldRows], deadline: float | None) -> dict[str, Any]:
    """Scores and predictions before and after all stored rows are corrupted."""
    before: list[Floats] = []
    after: list[Floats] = []
    rows: list[Array] = []
    seed = run.plan.seed
    for number, fold in enumerate(folds):
        run.report(0.1 + 0.2 * number / len(folds))
        if number and deadline is not None and time.monotonic() > deadline:
            break
        corrupted = corrupted_predictions(fold.stored, fold.table, seed + number, together=TOGETHER, deadline=deadline)
        after.append(corrupted)
        before.append(fold.stored.predict(fold.table.take(slice(0, len(corrupted)))))
        rows.append(fold.rows[: len(corrupted)])
    plain, corrupted = np.concatenate(before), np.concatenate(after)
    places = UsableRows(np.concatenate(rows), len(run.data.target))
    truth, weight = places.of(run.data.target), places.of(run.data.weight)
    first, second, low, high = paired_difference(
        run.plan.metric, truth, plain, corrupted, weight, seed=seed, n_resamples=200
    )
    sign = 1.0 if metrics.get(run.plan.metric).greater_is_better else -1.0
    low, high = sorted((sign * low, sign * high))
    size = spread(plain)
    changes = differences(plain, corrupted) / size if size > 0 else np.zeros(len(plain))
    mean, margin = float(changes.mean()), float(half_width(changes[:, None])[0])
    return {
        "n_corrupted": len(plain),
        "score": first,
        "corrupted": second,
        "gain": Gain(value=sign * (second - first), low=low, high=high),
        "change": (mean, max(0.0, mean - margin), mean + margin),
    }


def _near(measured: Measured) -> tuple[NearWeight, ...]:
    weights, chance = np.array(measured.on_nearest), np.array(measured.chance).mean(axis=0)
    mean, margin = weights.mean(axis=0), half_width(weights)
    low, high = np.maximum(0, mean - margin), np.minimum(1, mean + margin)
    points = zip(*(each.tolist() for each in (chance, mean, low, high)), strict=True)
    return tuple(NearWeight(chance=c, weight=w, low=a, high=b) for c, w, a, b in points)


def _spread_out(folds: Sequence[FoldRows], most: int) -> list[tuple[FoldRows, int, int]]:
    """Rows evenly spaced over all folds: fold, number in the fold, and number over all folds."""
    every = [(fold, number) for fold in folds for number in range(len(fold))]
    chosen = np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int).tolist()
    return [(*every[place], place) for place in chosen]


def _from_few(
    run: FinishedRun, folds: Sequence[FoldRows], plain: Floats, deadline: float | None
) -> tuple[FewRows, ...]:
    """Predictions from few stored rows, by weight and at random; empty if the time did not suffice."""
    size = spread(plain)
    rows = _spread_out(folds, FEW_ROWS)
    by_weight: list[Array] = []
    at_random: list[Array] = []
    for fold, number, place in rows:
        run.report(0.3 + 0.3 * place / len(plain))
        if deadline is not None and time.monotonic() > deadline:
            return ()
        kept = predictions_from_few(fold, number, SHARES, run.plan.seed)
        by_weight.append(np.array(kept[0])[:, 0])
        at_random.append(np.array(kept[1])[:, 0])
    places = UsableRows(np.array([fold.rows[number] for fold, number, _ in rows]), len(run.data.target))
    truth, weight = places.of(run.data.target), places.of(run.data.weight)
    original = plain[[place for *_, place in rows]]
    found: list[FewRows] = []
    for number, share in enumerate(SHARES):
        first, second = (np.stack([each[number] for each in parts]) for parts in (by_weight, at_random))
        changes = [differences(each, original) / size if size > 0 else np.zeros(len(each)) for each in (first, second)]
        scores = [metrics.score(run.plan.metric, truth, each, weight) for each in (first, second)]
        found.append(
            FewRows(
                share=share,
                by_weight=float(changes[0].mean()),
                at_random=float(changes[1].mean()),
                p=_p_less(*changes),
                score_by_weight=scores[0],
                score_at_random=scores[1],
            )
        )
    return tuple(found)


def _deletion(run: FinishedRun, folds: Sequence[FoldRows], size: float, deadline: float | None) -> Deletion | None:
    """Algorithm 2 for as many rows as the time allows; None without any."""

    def scale(prediction: Floats) -> float:
        if prediction.ndim == 2:
            return 1.0
        return max(abs(float(prediction[0])), 0.05 * size) or 1.0

    shares: list[float] = []
    kept: list[tuple[float, float, float]] = []
    seed, total = run.plan.seed, sum(map(len, folds))
    smaller = {id(fold): fold.with_some(DELETED_FROM, seed) for fold in folds}
    for each, number, place in _spread_out(folds, DELETED_ROWS):
        fold = smaller[id(each)]
        run.report(0.6 + 0.4 * place / total)
        found = deletion_distances(fold, number, scale, seed + place, most_tries=MOST_TRIES, deadline=deadline)
        if found is None:
            break
        shares.append(found[0] / len(fold.stored))
        kept.append(found[1])
    if not kept:
        return None
    left, random, deleted = np.array(kept).T
    known = np.isfinite(deleted)
    return Deletion(
        n_rows=len(kept),
        n_stored=max(len(fold.stored) for fold in smaller.values()),
        share_left=float(np.mean(shares)),
        left=float(left.mean()),
        random=float(random.mean()),
        deleted=float(deleted[known].mean()) if known.any() else None,
        p_random=_p_less(left, random),
        p_deleted=_p_less(left[known], deleted[known]),
    )


def _p_less(one: Array, other: Array) -> float | None:
    """Wilcoxon's one-sided signed-rank test that the first values are smaller; None with too few different pairs."""
    from scipy.stats import wilcoxon

    if np.count_nonzero(one != other) < LEAST_TESTED:
        return None
    found: Any = wilcoxon(one, other, alternative="less")
    return float(found.pvalue)


def _linked_rows(
    run: FinishedRun, folds: Sequence[FoldRows], measured: Measured, plain: Floats
) -> tuple[LinkedRow, ...]:
    numbers, classes = run.data.numbers, run.data.schema.classes
    predicted = dict(zip(np.concatenate([fold.rows for fold in folds]).tolist(), plain, strict=True))

    def target(row: int) -> str:
        value = run.data.target[row]
        return classes[int(value)] if classes else format_score(float(value))

    def prediction(row: int) -> str:
        said = predicted[row]
        if not classes:
            return format_score(float(said))
        return f"{classes[int(np.argmax(said))]} ({float(np.max(said)):.0%})"

    def links(found: Sequence[Any]) -> tuple[RowLink, ...]:
        return tuple(
            RowLink(
                row=int(numbers[each.row]),
                target=target(each.row),
                distance=each.distance,
                rank=each.rank,
                weight=each.weight,
            )
            for each in found
        )

    return tuple(
        LinkedRow(
            row=int(numbers[each.row]),
            prediction=prediction(each.row),
            target=target(each.row),
            nearest=links(each.nearest),
            attended=links(each.weighty),
        )
        for each in measured.linked
    )
