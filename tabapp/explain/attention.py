"""Attention as feature importance, and attention between columns by layer and head.

Gorishniy, Rubachev, Khrulkov, Babenko: "Revisiting Deep Learning Models for Tabular Data", NeurIPS 2021, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from tabapp.explain.fold_model import FoldModel, at_most

Float64 = npt.NDArray[np.float64]

CLS, PROMPTS, TARGET, OTHER = "[CLS]", "[prompts]", "[target]", "other"
_TOKENS = {-1: CLS, -2: PROMPTS, -3: TARGET}
"""Names of the positions that are no features; see `AttentionMap`."""
MOST_COLUMNS = 12
"""Columns of a map; the others are merged."""


@dataclass(frozen=True)
class AttentionShare:
    """The share of attention of a column.

    Attributes:
        share: attention per feature of the column, as a share of the sum over all columns, averaged over folds.
        low, high: 95 % interval of its mean over folds (Student's t); equal to `share` with one fold.
        raw: sum over the features of the column, before the division by their number.
    """

    share: float
    low: float
    high: float
    raw: float


def mean_attention(
    models: Sequence[FoldModel], columns: Sequence[str], *, seed: int, max_rows: int = 2_000
) -> dict[str, AttentionShare] | None:
    """Share of attention that each data column receives, averaged over held-out rows; the shares sum to 1.

    A model's attention is already the mean over its heads and layers (`FittedModel.attention`). The attention of the features of a
    column is summed and divided by what chance would give them, their share of all features: a text or a date has many features,
    which equal attention to all would sum to a large share.

    NOTE[DIFF] the paper averages over training rows; here each fold model uses its held-out rows, like permutation importance, so
    that the two can be compared. The paper's columns have one feature each, for which the division changes nothing.

    Returns:
        A share for each of `columns`, 0 for a column without features; None if a model has no attention.
    """
    by_fold: list[Float64] = []
    raw: list[Float64] = []
    rows: list[int] = []
    for fold in at_most(models, max_rows, seed):
        attention = fold.model.attention(fold.table)
        if attention is None:
            return None
        by_feature = np.asarray(attention, dtype=np.float64).mean(axis=0)
        features = [fold.features_of(column) for column in columns]
        sums = np.array([by_feature[each].sum() for each in features])
        per_feature = sums / np.array([max(1, len(each)) for each in features])
        if per_feature.sum() <= 0:
            continue
        by_fold.append(per_feature / per_feature.sum())
        raw.append(sums / sums.sum())
        rows.append(len(fold.table))
    if not by_fold:
        return None
    shares = np.average(by_fold, axis=0, weights=rows)
    margin = half_width(np.array(by_fold))
    sums = np.average(raw, axis=0, weights=rows)
    return {
        column: AttentionShare(float(s), float(max(0.0, s - m)), float(s + m), float(r))
        for column, s, m, r in zip(columns, shares, margin, sums, strict=True)
    }


def half_width(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Half-width of the 95 % interval of a mean over the first axis (Student's t); 0 with one value."""
    n = len(values)
    if n < 2:
        return np.zeros(values.shape[1:])
    return float(stdtrit(n - 1, 0.975)) * values.std(axis=0, ddof=1) / np.sqrt(n)


@dataclass(frozen=True)
class ColumnMap:
    """Attention of a layer between columns, averaged over held-out rows and folds.

    Attributes:
        kind: "attention", "mask" or "selection".
        chance: (keys,) the share that equal attention to all features gives each key.
        heads: (heads, queries, keys) shares, which sum to 1 over the keys.
        spread: (queries, keys) half-widths of the 95 % intervals over folds of the mean over heads.
    """

    title: str
    kind: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    chance: Float64
    heads: Float64
    spread: Float64


def column_maps(
    models: Sequence[FoldModel], columns: Sequence[str], *, seed: int, max_rows: int = 500
) -> tuple[list[ColumnMap], int]:
    """The attention maps of all layers that the fold models have in common, and the number of rows; no maps without attention.

    Keys that belong to one column are summed, queries are averaged. Columns beyond the `MOST_COLUMNS` with the most attention
    relative to chance are merged into "other".
    """
    folds = at_most(models, max_rows, seed)
    per_fold: list[dict[str, ColumnMap]] = []
    for fold in folds:
        found: dict[str, ColumnMap] = {}
        for each in fold.model.attention_maps(fold.table):
            names, askers = (
                [_TOKENS[place] if place < 0 else fold.spec.sources[place] for place in places]
                for places in (each.keys, each.queries)
            )
            keys, queries = _ordered(names, columns), _ordered(askers, columns)
            gather = np.array([[name == key for key in keys] for name in names], dtype=np.float64)
            average = np.array([[name == query for name in askers] for query in queries], dtype=np.float64)
            average /= average.sum(axis=1, keepdims=True)
            heads = average @ np.asarray(each.weights, dtype=np.float64) @ gather
            chance = gather.sum(axis=0) / len(names)
            spread = np.zeros(heads.shape[1:])
            found[each.title] = ColumnMap(each.title, each.kind, queries, keys, chance, heads, spread)
        if not found:
            return [], 0
        per_fold.append(found)
    n_rows = sum(len(fold.table) for fold in folds)
    titles = [title for title in per_fold[0] if all(title in found for found in per_fold)] if per_fold else []
    maps: list[ColumnMap] = []
    for title in titles:
        parts = [found[title] for found in per_fold]
        first = parts[0]
        if any((p.keys, p.queries, p.heads.shape) != (first.keys, first.queries, first.heads.shape) for p in parts):
            continue
        heads = np.array([part.heads for part in parts])
        maps.append(_merged(replace(first, heads=heads.mean(axis=0), spread=half_width(heads.mean(axis=1)))))
    return maps, n_rows


def _ordered(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    present = set(names)
    return tuple(name for name in (*_TOKENS.values(), *columns) if name in present)


def _merged(found: ColumnMap) -> ColumnMap:
    """The map with the columns of little attention merged."""
    tokens = set(_TOKENS.values())
    columns = [place for place, key in enumerate(found.keys) if key not in tokens]
    if len(columns) <= MOST_COLUMNS:
        return found
    received = found.heads.mean(axis=(0, 1)) / found.chance
    kept = set(sorted(columns, key=lambda place: -received[place])[:MOST_COLUMNS])
    kept |= set(range(len(found.keys))) - set(columns)
    order = sorted(kept)
    rest = [place for place in range(len(found.keys)) if place not in kept]
    names = {found.keys[place] for place in order} | tokens
    rows = [place for place, query in enumerate(found.queries) if query in names]
    heads, spread = found.heads[:, rows], found.spread[rows]
    return replace(
        found,
        queries=tuple(found.queries[place] for place in rows),
        keys=(*(found.keys[place] for place in order), OTHER),
        chance=np.r_[found.chance[order], found.chance[rest].sum()],
        heads=np.concatenate([heads[:, :, order], heads[:, :, rest].sum(axis=2, keepdims=True)], axis=2),
        spread=np.concatenate([spread[:, order], np.sqrt((spread[:, rest] ** 2).sum(axis=1, keepdims=True))], axis=1),
    )
