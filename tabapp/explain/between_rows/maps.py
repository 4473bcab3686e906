"""On which rows do predictions rest? Weights of stored rows by their similarity to the predicted rows.

Kossen et al.: "Self-Attention Between Datapoints: Going Beyond Individual Input-Output Pairs in Deep Learning", NeurIPS
2021, section 4.4, Figures 4 and B.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tabapp.explain.between_rows.folds import Float64, FoldRows, distances

NEAREST = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the stored rows, nearest first, whose weight is summed."""
HEAD_NEAREST = 0.05
"""The share of which each head's weight is shown."""
N_GROUPS = 20
"""Groups of similar rows on each axis of a map, at most."""
FEW = 5
"""Rows with the largest weights that are compared with as many nearest ones."""
SHOWN, LINKS = 6, 3
"""Held-out rows that are shown one by one, and the rows shown for each."""


@dataclass(frozen=True)
class Link:
    """A stored row and a held-out row: its number among the usable rows, distance, rank by distance from 1, and weight."""

    row: int
    distance: float
    rank: int
    weight: float


@dataclass(frozen=True)
class Linked:
    """A held-out row with the stored rows that are nearest to it, and those with the largest weights."""

    row: int
    nearest: tuple[Link, ...]
    weighty: tuple[Link, ...]


@dataclass
class Measured:
    """What is measured for every held-out row, in the order of the folds.

    Attributes:
        on_nearest: (rows, len(NEAREST)) share of the weight on the nearest stored rows.
        chance: (rows, len(NEAREST)) the share of the stored rows, which is what equal weights give.
        common: (rows,) share of the `FEW` rows with the largest weights that are among as many nearest ones;
            `common_chance` is that share by chance.
        by_head: for each layer, its title and (rows, heads) weight on the nearest `HEAD_NEAREST`, divided by chance.
        groups: for each layer, its title and (rows, groups) weight of each group of stored rows, divided by that of equal
            weights. The first is the mean over layers, with an empty title.
        place: (rows,) distance of each held-out row to the anchor.
        linked: some of the rows one by one.
    """

    on_nearest: list[Float64] = field(default_factory=list[Float64])
    chance: list[Float64] = field(default_factory=list[Float64])
    common: list[float] = field(default_factory=list[float])
    common_chance: list[float] = field(default_factory=list[float])
    by_head: dict[str, list[Float64]] = field(default_factory=dict[str, list[Float64]])
    groups: dict[str, list[Float64]] = field(default_factory=dict[str, list[Float64]])
    place: list[float] = field(default_factory=list[float])
    linked: list[Linked] = field(default_factory=list[Linked])


def measure(folds: Sequence[FoldRows]) -> Measured:
    """Compare weights with distances, and collect the maps."""
    found = Measured()
    # As many groups in every fold, so that their maps can be averaged.
    n_groups = max(1, min(N_GROUPS, *(len(fold.stored) for fold in folds), sum(map(len, folds))))
    shown = set(np.linspace(0, sum(map(len, folds)) - 1, SHOWN).round().astype(int).tolist())
    for fold in folds:
        group, sizes = _groups(distances(fold.anchor, fold.known)[0], n_groups)
        for part in fold.parts():
            table = fold.table.take(part)
            layers = fold.stored.weights(table)
            apart = distances(table, fold.known)
            order = np.argsort(apart, axis=1, kind="stable")
            mean = np.array([each.heads.mean(axis=0) for each in layers], dtype=np.float64).mean(axis=0)
            _add_nearest(found, mean, order)
            n_near = max(1, round(HEAD_NEAREST * len(fold.stored)))
            maps = [("", mean[None])] + [(each.title, each.heads) for each in layers if len(layers) > 1]
            for title, heads in maps:
                grouped = heads.mean(axis=0, dtype=np.float64) @ group / (sizes / sizes.sum())
                found.groups.setdefault(title, []).extend(grouped)
            for each in layers:
                near = np.take_along_axis(each.heads, order[None, :, :n_near], axis=2).sum(axis=2, dtype=np.float64)
                found.by_head.setdefault(each.title, []).extend(near.T / (n_near / len(fold.stored)))
            rows = fold.rows[part]
            for i in range(len(table)):
                if len(found.place) + i in shown:
                    found.linked.append(_linked(int(rows[i]), fold, mean[i], apart[i], order[i]))
            found.place.extend(distances(table, fold.anchor)[:, 0].tolist())
    return found


def averaged_map(rows: Sequence[Float64], place: Sequence[float]) -> Float64:
    """(groups, groups) map: held-out rows in groups by their distance to the anchor, and stored rows by theirs."""
    values = np.array(rows)
    order = np.argsort(place, kind="stable")
    return np.array([values[part].mean(axis=0) for part in np.array_split(order, min(N_GROUPS, len(order)))])


def _groups(distance: Float64, n_groups: int) -> tuple[Float64, Float64]:
    """(n, groups) membership of each stored row in a group of equal size by its distance to the anchor, and the (groups,)
    sizes."""
    order = np.argsort(distance, kind="stable")
    member = np.zeros((len(distance), n_groups))
    for number, part in enumerate(np.array_split(order, n_groups)):
        member[part, number] = 1.0
    return member, member.sum(axis=0)


def _add_nearest(found: Measured, weight: Float64, order: npt.NDArray[np.intp]) -> None:
    n = weight.shape[1]
    ends = np.maximum(1, np.round(np.array(NEAREST) * n).astype(int))
    summed = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    found.on_nearest.extend(summed[:, ends - 1])
    found.chance.extend(np.tile(ends / n, (len(weight), 1)))
    few = min(FEW, n)
    weighty = np.argsort(-weight, axis=1, kind="stable")[:, :few]
    common = (weighty[:, :, None] == order[:, None, :few]).any(axis=2).mean(axis=1)
    found.common.extend(common.tolist())
    found.common_chance.extend([few / n] * len(weight))


def _linked(row: int, fold: FoldRows, weight: Float64, distance: Float64, order: npt.NDArray[np.intp]) -> Linked:
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(1, len(order) + 1)

    def link(place: int) -> Link:
        return Link(int(fold.known_rows[place]), float(distance[place]), int(rank[place]), float(weight[place]))

    weighty = np.argsort(-weight, kind="stable")
    return Linked(row, tuple(map(link, order[:LINKS].tolist())), tuple(map(link, weighty[:LINKS].tolist())))
