"""Importances of a model with attention by several methods, and whether attention agrees with those that measure the score."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.fitting_again import TimeLimit, TimeLimitReached, fit_again
from tabapp.engine.analyses.importances import MOST_ROWS
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.features import RunFeatures
from tabapp.engine.fit.numbering import UsableRows
from tabapp.errors import UsageError
from tabapp.explain.attention import AttentionShare, mean_attention
from tabapp.explain.fold_model import FoldModel, at_most
from tabapp.explain.permutation import ColumnImportance, permutation_importance
from tabapp.models import registry
from tabapp.run.analyses.faithfulness import FaithfulnessReady, FaithfulnessRow
from tabapp.run.record.folder import RunFolder
from tabapp.temporary import TemporaryFolder

Array = npt.NDArray[Any]

METHODS = ("attention", "permutation", "integrated gradients", "drop and refit")
MOST_REFITTED, MOST_FOLDS = 5, 2
"""Columns that are dropped, and folds on which the model is trained again without each."""
GRADIENT_ROWS, REFERENCE_ROWS = 40, 8
LEAST_RANKED = 3


def measure_faithfulness(run: FinishedRun, model: str | None = None, seconds: float | None = None) -> FaithfulnessReady:
    """Importances by attention, permutation, integrated gradients, and drop-and-refit of the most important columns.

    If the time ends before, fewer columns, or none, are dropped.

    Args:
        model: a model with attention; by default, the best one.
        seconds: time limit of training; None for none.

    Raises:
        UsageError: there is no such model.
    """
    names = [row.model for row in run.state.leaderboard if row.score is not None and row.model != "ensemble"]
    attentive = [name for name in names if registry.get(name).has_attention]
    if not attentive or (model is not None and model not in attentive):
        wanted = "a model with attention" if model is None else f"a model {model!r} with attention"
        raise UsageError(f"The run {run.folder.run} has no score of {wanted}. Train one, such as ft_transformer.")
    candidate = run.best_of(model or attentive[0])
    columns = [column.name for column in run.data.schema.inputs]
    folds = run.models.with_held_out(candidate)
    shares = mean_attention(folds, columns, seed=run.plan.seed, max_rows=MOST_ROWS) or {}
    permuted = permutation_importance(folds, run.plan.metric, columns, seed=run.plan.seed, max_rows=MOST_ROWS)
    importances = {each.column: each for each in permuted.columns}
    values: list[dict[str, float]] = [
        {name: each.share for name, each in shares.items()},
        {name: each.mean for name, each in importances.items()},
        _gradients(folds, columns, run.plan.seed, max(0, len(run.data.schema.classes) - 1)),
    ]
    # A model needs a column.
    n_dropped = MOST_REFITTED if len(columns) > 1 else 0
    top = sorted(columns, key=lambda name: -values[1].get(name, 0.0))[:n_dropped]
    limit = TimeLimit(seconds, min(MOST_FOLDS, len(candidate.results)) * (1 + len(top)) if top else 0)
    values.append(drop_and_refit(run, candidate, top, limit))
    correlations = tuple(tuple(_correlation(a, b) for b in values) for a in values)
    shown = sorted(columns, key=lambda name: -values[1].get(name, 0.0))
    return FaithfulnessReady(
        model=candidate.model,
        metric_title=metrics.get(run.plan.metric).title,
        methods=METHODS,
        rows=tuple(
            FaithfulnessRow(
                feature=name,
                values=tuple(each.get(name) for each in values),
                advice=advice(name, shares, importances, values[3]),
            )
            for name in shown
        ),
        correlations=correlations,
        partial=limit.partial(),
    )


def _gradients(folds: list[FoldModel], columns: list[str], seed: int, code: int) -> dict[str, float]:
    """Mean absolute integrated gradient of each column, as a share of the sum; empty if the model has none."""
    totals = dict.fromkeys(columns, 0.0)
    reference = {id(fold.model): fold.table for fold in at_most(folds, REFERENCE_ROWS * len(folds), seed + 1)}
    for fold in at_most(folds, GRADIENT_ROWS, seed):
        found = fold.model.contributions(fold.table, code, reference.get(id(fold.model)))
        if found is None:
            return {}
        for name in columns:
            summed = found.values[:, fold.features_of(name)].sum(axis=1)
            totals[name] += float(np.abs(summed).sum())
    whole = sum(totals.values())
    return {name: value / whole for name, value in totals.items()} if whole > 0 else {}


def drop_and_refit(run: FinishedRun, candidate: Candidate, columns: list[str], limit: TimeLimit) -> dict[str, float]:
    """How much the score worsens when the model is trained again without each column, on the first folds."""
    folds = sorted(candidate.results)[:MOST_FOLDS]
    held_out = UsableRows.joined([run.data.held_out(fold) for fold in folds])
    truth, weight = held_out.of(run.data.target), held_out.of(run.data.weight)
    sign = 1.0 if metrics.get(run.plan.metric).greater_is_better else -1.0

    def score(features: RunFeatures) -> float:
        parts = [
            fit_again(run, candidate, fold, run.data.training(fold), limit=limit, prepared=features)[0]
            for fold in folds
        ]
        return metrics.score(run.plan.metric, truth, np.concatenate(parts), weight)

    found: dict[str, float] = {}
    if not columns:
        return found
    with suppress(TimeLimitReached):
        whole = score(run.features)
        for dropped in columns:
            with TemporaryFolder("features") as place:
                features = RunFeatures(run.data.without_column(dropped), run.plan.seed, RunFolder(Path(place)))
                found[dropped] = sign * (whole - score(features))
    return found


def _correlation(a: dict[str, float], b: dict[str, float]) -> float | None:
    common = [name for name in a if name in b]
    if len(common) < LEAST_RANKED:
        return None
    frame = pl.DataFrame({"a": [a[name] for name in common], "b": [b[name] for name in common]})
    if frame["a"].n_unique() == 1 or frame["b"].n_unique() == 1:
        return None
    value = frame.select(pl.corr("a", "b", method="spearman")).item()
    return None if value is None or not np.isfinite(value) else float(value)


def advice(
    name: str,
    attention: Mapping[str, AttentionShare],
    permutation: Mapping[str, ColumnImportance],
    drops: Mapping[str, float],
) -> str:
    """What to believe of a column whose ranks differ by more than a third of the columns; empty if they agree.

    Ranks of columns that matter by neither method are chance, so they need no advice.
    """
    if name not in attention or name not in permutation or len(attention) < LEAST_RANKED:
        return ""

    def place(values: Mapping[str, float]) -> int:
        return sorted(values, key=lambda each: -values[each]).index(name)

    by_attention = place({each: found.share for each, found in attention.items()})
    by_permutation = place({each: found.mean for each, found in permutation.items() if each in attention})
    most = max(2, len(attention) // 3)
    if abs(by_attention - by_permutation) <= most:
        return ""
    ranks = f"attention ranks it {by_attention + 1}, permutation {by_permutation + 1}"
    matters = permutation[name].low > 0
    if by_attention < by_permutation:
        if matters:
            return f"{ranks}. Trust permutation: the score needs the column, but less than attention suggests."
        if attention[name].low <= 1 / len(attention):
            return ""
        reason = "the model attends to the column, but its score hardly needs it, or other columns replace it"
        return f"{ranks}. Trust permutation: {reason}."
    if not matters:
        return ""
    if abs(place({each: found.raw for each, found in attention.items()}) - by_permutation) <= most:
        whole = f"its features together have {100 * attention[name].raw:.0f} % of the attention"
        return f"{ranks}. Trust permutation: attention is counted for each feature of the column, and {whole}."
    dropped = drops.get(name)
    if dropped is not None and dropped <= 0:
        return f"{ranks}. The model uses the column, but is no worse when it is trained without it: other columns can replace it."
    return f"{ranks}. Trust permutation: the score needs the column, through layers that attention does not show."
