"""Columns that depend on each other: their groups, permuted together, and permutation within similar rows.

Strobl, Boulesteix, Kneib, Augustin, Zeileis: "Conditional variable importance for random forests", BMC Bioinformatics 9, 2008: a
column is permuted within the cells of a grid of the columns with which it is associated, so that the rows stay plausible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.schema import Column

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

N_BINS, MOST_LEVELS = 8, 12
STRONG = 0.8
"""Association from which columns form a group."""
RELATED = 0.2
"""Association from which a column is held fixed when another is permuted (Strobl et al.)."""
GRID = (4, 3, 2)
"""Bins of the most, the second and the third most associated column of the grid."""
MOST_ROWS = 2_000


def codes_of(column: Column, values: pl.Series, n_bins: int = N_BINS) -> Codes:
    """(rows,) small codes of a column: bins of equal frequency, or the frequent levels; missing cells have a code of their own."""
    missing = values.is_null().to_numpy()
    codes = np.zeros(len(values), dtype=np.int64)
    if column.kind in ("numeric", "datetime"):
        numbers = values.to_physical().cast(pl.Float64).to_numpy()
        if (~missing).any():
            edges = np.unique(np.quantile(numbers[~missing], np.linspace(0, 1, n_bins + 1)[1:-1]))
            codes[~missing] = np.searchsorted(edges, numbers[~missing], side="right")
    else:
        texts = values.cast(pl.String).fill_null("")
        frequent = texts.value_counts(sort=True)[values.name].head(MOST_LEVELS).to_list()
        known = {level: code for code, level in enumerate(frequent)}
        codes = np.array([known.get(text, MOST_LEVELS) for text in texts], dtype=np.int64)
    codes[missing] = codes.max(initial=0) + 1
    return codes


def association_matrix(columns: Sequence[Column], frame: pl.DataFrame) -> Float64:
    """(columns, columns) association of each pair in [0, 1].

    For two numbers, the larger of the absolute rank correlation and the root of the share of the ranks that bins of the other
    column explain, the smaller one of both directions: a tree of one split into bins. For other pairs, Cramér's V with Bergsma's
    correction of its bias (Journal of the Korean Statistical Society 42, 2013).
    """
    codes = [codes_of(column, column_of(frame, column.name)) for column in columns]
    ranks = [_ranks(column, column_of(frame, column.name)) for column in columns]
    n = len(columns)
    found = np.eye(n)
    for i in range(n):
        for j in range(i):
            left, right = ranks[i], ranks[j]
            if left is not None and right is not None:
                both = np.isfinite(left) & np.isfinite(right)
                value = 0.0
                if both.sum() > N_BINS:
                    a, b = left[both], right[both]
                    explained = min(_explained(codes[i][both], b), _explained(codes[j][both], a))
                    value = max(abs(_correlation(a, b)), np.sqrt(explained))
            else:
                value = _cramer(codes[i], codes[j])
            found[i, j] = found[j, i] = value
    return found


def _ranks(column: Column, values: pl.Series) -> Float64 | None:
    if column.kind not in ("numeric", "datetime"):
        return None
    return values.to_physical().rank("average").cast(pl.Float64).to_numpy()


def _correlation(a: Float64, b: Float64) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _explained(codes: Codes, values: Float64) -> float:
    """The share of the variance of values between bins, adjusted for the number of bins."""
    total = values.var()
    counts = np.bincount(codes)
    used = counts > 0
    n, k = len(values), int(used.sum())
    if total == 0 or n <= k or k < 2:
        return 0.0
    means = np.bincount(codes, weights=values)[used] / counts[used]
    within = total - float((counts[used] * (means - values.mean()) ** 2).sum()) / n
    return max(0.0, 1 - within / total * (n - 1) / (n - k))


def _cramer(a: Codes, b: Codes) -> float:
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    n, (r, c) = table.sum(), table.shape
    if r < 2 or c < 2 or n < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi2 = max(0.0, float(((table - expected) ** 2 / expected).sum()) / n - (r - 1) * (c - 1) / (n - 1))
    smaller = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(min(1.0, phi2 / smaller))) if smaller > 0 else 0.0


def groups_of(names: Sequence[str], association: Float64, least: float = STRONG) -> list[tuple[str, ...]]:
    """Groups of at least two columns by average linkage, in the order of the columns."""
    if len(names) < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage

    distance = 1 - association[np.triu_indices(len(names), 1)]
    clusters = fcluster(linkage(np.clip(distance, 0, None), "average"), 1 - least, "distance")
    found: dict[int, list[str]] = {}
    for name, cluster in zip(names, clusters.tolist(), strict=True):
        found.setdefault(cluster, []).append(name)
    return [tuple(group) for group in found.values() if len(group) > 1]


def strata_of(
    columns: Sequence[Column], association: Float64, frame: pl.DataFrame, chosen: Sequence[str]
) -> Mapping[str, Codes]:
    """By column, the (rows,) cell of the grid within which it is permuted; columns without an associated column are left out."""
    names = [column.name for column in columns]
    found: dict[str, Codes] = {}
    for name in chosen:
        place = names.index(name)
        order = [j for j in np.argsort(-association[place], kind="stable").tolist() if j != place]
        related = [j for j in order if association[place, j] >= RELATED][: len(GRID)]
        cells = np.zeros(frame.height, dtype=np.int64)
        for j, n_bins in zip(related, GRID, strict=False):
            codes = codes_of(columns[j], column_of(frame, names[j]), n_bins)
            cells = cells * (int(codes.max()) + 1) + codes
        if related:
            found[name] = cells
    return found


def permuted_within(cells: Codes, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """(rows,) an order that permutes rows within each cell only."""
    order = np.arange(len(cells))
    shuffled = generator.permutation(len(cells))
    # A stable sort by cell lists the rows of a cell in their own order, and in a random one.
    order[np.argsort(cells, kind="stable")] = shuffled[np.argsort(cells[shuffled], kind="stable")]
    return order
