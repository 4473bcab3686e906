"""Attention as feature importance, and attention between columns by layer and head.

Gorishniy, Rubachev, Khrulkov, Babenko: "Revisiting Deep Learning Models for Tabular Data", NeurIPS 2021, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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
        A share for each of `columns` that the attention sees, 0 for a column without features; None if a model has no attention.
    """
    found = _by_fold(at_most(models, max_rows, seed), lambda fold: fold.model.attention(fold.table))
    return None if found is None else _shares(*found, columns)


def attention_streams(
    models: Sequence[FoldModel], columns: Sequence[str], *, seed: int, max_rows: int = 2_000
) -> dict[str, dict[str, AttentionShare]]:
    """As `mean_attention`, for each kind of attention of a model with several; empty for others."""
    folds = at_most(models, max_rows, seed)
    by_fold = [fold.model.attention_streams(fold.table) for fold in folds]
    streams: dict[str, dict[str, AttentionShare]] = {}
    for name in by_fold[0] if by_fold else ():
        kept = iter(by_fold)
        found = _by_fold(folds, lambda fold, kept=kept, name=name: next(kept).get(name))
        if found is not None:
            streams[name] = _shares(*found, columns)
    return streams


def _by_fold(
    folds: Sequence[FoldModel], attention_of: Callable[[FoldModel], npt.NDArray[np.float32] | None]
) -> tuple[list[FoldModel], list[Float64]] | None:
    """The folds with attention, and the mean over rows of the attention of each feature; None if a fold has none."""
    kept: list[FoldModel] = []
    means: list[Float64] = []
    for fold in folds:
        attention = attention_of(fold)
        if attention is None:
            return None
        mean = np.asarray(attention, dtype=np.float64).mean(axis=0)
        if np.nansum(mean) > 0:
            kept.append(fold)
            means.append(mean)
    return (kept, means) if kept else None


def _shares(folds: Sequence[FoldModel], means: Sequence[Float64], columns: Sequence[str]) -> dict[str, AttentionShare]:
    """The shares of the columns, from the attention of each feature by fold."""
    per_feature, raw = np.empty((2, len(folds), len(columns)))
    for place, (fold, mean) in enumerate(zip(folds, means, strict=True)):
        for column, name in enumerate(columns):
            weights = mean[fold.features_of(name)]
            seen = weights[np.isfinite(weights)]
            is_outside = len(weights) > 0 and not len(seen)
            raw[place, column] = np.nan if is_outside else seen.sum()
            per_feature[place, column] = raw[place, column] / max(1, len(seen))
    # A column may have features in some folds only.
    outside = np.asarray(np.isnan(raw).all(axis=0), dtype=np.bool_)
    raw, per_feature = np.nan_to_num(raw), np.nan_to_num(per_feature)
    raw /= raw.sum(axis=1, keepdims=True)
    per_feature /= per_feature.sum(axis=1, keepdims=True)
    rows = [len(fold.table) for fold in folds]
    shares, sums = np.average(per_feature, axis=0, weights=rows), np.average(raw, axis=0, weights=rows)
    margin = half_width(per_feature)
    return {
        name: AttentionShare(
            float(shares[i]), float(max(0.0, shares[i] - margin[i])), float(shares[i] + margin[i]), float(sums[i])
        )
        for i, name in enumerate(columns)
        if not outside[i]
    }


@dataclass(frozen=True)
class ColumnCombination:
    """Columns that models combine.

    Attributes:
        columns: the most frequent one first.
        frequency: how often each is among them, mean over the columns, rows, heads, and the combinations that are counted.
        n_found: number of such combinations in the models of all folds.
        n_folds: number of folds with one.
    """

    columns: tuple[str, ...]
    frequency: float
    n_found: int
    n_folds: int


def column_combinations(models: Sequence[FoldModel], *, seed: int, max_rows: int = 500) -> list[ColumnCombination]:
    """The sets of columns that the fold models combine, those of most folds first; empty for models without combinations."""
    found: dict[frozenset[str], list[tuple[int, float, tuple[str, ...]]]] = {}
    for place, fold in enumerate(at_most(models, max_rows, seed)):
        for each in fold.model.combinations(fold.table):
            columns = tuple(dict.fromkeys(fold.spec.sources[feature] for feature in each.features))
            found.setdefault(frozenset(columns), []).append((place, float(np.mean(each.frequencies)), columns))
    combined = [
        ColumnCombination(
            columns=each[0][2],
            frequency=float(np.mean([frequency for _, frequency, _ in each])),
            n_found=len(each),
            n_folds=len({place for place, _, _ in each}),
        )
        for each in found.values()
    ]
    return sorted(combined, key=lambda each: (-each.n_folds, -each.n_found, -each.frequency, each.columns))


def half_width(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Half-width of the 95 % interval of a mean over the first axis (Student's t); 0 with one value."""
    n = len(values)
    if n < 2:
        return np.zeros(values.shape[1:])
    # The conductor imports this module; it should not wait for scipy.
    from scipy.special import stdtrit

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
