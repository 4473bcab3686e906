"""Binary trees as arrays: how they are saved, checked and walked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.saved import demand
from tabapp.models.contract import Float32

BLOCK = 2**16
"""Number of (row, tree) pairs evaluated at once: enough to hide Python's overhead, few enough for the cache."""
MAX_DEPTH = 65_536
ARRAYS = {
    "feature": ("uint8|uint16|int32", 1),
    "threshold": ("float32", 1),
    "missing_left": ("uint8", 1),
    "value": ("float32", 2),
    "roots": ("int32", 1),
}
"""Type and number of dimensions of the saved arrays."""
WIDE_ARRAYS = {
    "feature": ("int32", 1),
    "threshold": ("float32", 1),
    "missing_left": ("bool", 1),
    "children": ("int32", 2),
    "value": ("float32", 2),
    "roots": ("int32", 1),
    "depths": ("int32", 1),
}
"""The same in bundles up to format version 5, with an element for every node."""


_DROPPED_SHARE = 0.25


def lower_float32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The largest float32 not above each value, which preserves all comparisons with float32 numbers."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    above = rounded.astype(np.float64) > values
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    return rounded


@dataclass(frozen=True)
class Trees:
    """Binary trees as concatenated node arrays. The nodes of a tree are in breadth-first order, so that the children of its split
    number j are its nodes 2j + 1 and 2j + 2.

    Attributes:
        feature: (nodes,) int32 column of the split, 0 at a leaf.
        threshold: (nodes,) float32; values up to it go left. Infinite at a leaf.
        missing_left: (nodes,) bool, where NaN goes. True at a leaf.
        left: (nodes,) int64 left child, which the right one follows; the leaf itself at a leaf.
        value: (leaves, n_values) float32.
        roots: (trees,) int32.
    """

    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    left: npt.NDArray[np.int64]
    value: npt.NDArray[np.float32]
    roots: npt.NDArray[np.int32]

    @classmethod
    def tree(
        cls,
        feature: npt.NDArray[Any],
        threshold: npt.NDArray[Any],
        missing_left: npt.NDArray[Any],
        left: npt.NDArray[Any],
        right: npt.NDArray[Any],
        is_leaf: npt.NDArray[Any],
        value: npt.NDArray[Any],
    ) -> Trees:
        """Build one tree from scikit-learn's (nodes,) arrays and (nodes, n_values) values."""
        order = _breadth_first(np.column_stack([left, right]), is_leaf, np.zeros(1, np.int64))
        at_leaf = is_leaf[order]
        own = np.arange(len(order))
        return cls(
            feature=np.where(at_leaf, 0, feature[order]).astype(np.int32),
            threshold=lower_float32(np.where(at_leaf, np.inf, threshold[order]).astype(np.float64)),
            missing_left=missing_left[order].astype(bool) | at_leaf,
            left=np.where(at_leaf, own, 2 * np.cumsum(~at_leaf) - 1),
            value=value[order][at_leaf].astype(np.float32),
            roots=np.zeros(1, np.int32),
        )

    @classmethod
    def join(cls, trees: Sequence[Trees]) -> Trees:
        """Concatenate trees."""
        starts = np.cumsum([0, *(len(t.feature) for t in trees)])[:-1]
        return cls(
            feature=np.concatenate([t.feature for t in trees]),
            threshold=np.concatenate([t.threshold for t in trees]),
            missing_left=np.concatenate([t.missing_left for t in trees]),
            left=np.concatenate([t.left + s for t, s in zip(trees, starts, strict=True)]),
            value=np.concatenate([t.value for t in trees]),
            roots=np.concatenate([t.roots + s for t, s in zip(trees, starts, strict=True)]).astype(np.int32),
        )

    def first(self, n_trees: int) -> Trees:
        """Keep only the first trees."""
        n_nodes = int(self.roots[n_trees]) if n_trees < len(self) else len(self.feature)
        return Trees(
            feature=self.feature[:n_nodes],
            threshold=self.threshold[:n_nodes],
            missing_left=self.missing_left[:n_nodes],
            left=self.left[:n_nodes],
            value=self.value[: int(np.count_nonzero(self.is_leaf[:n_nodes]))],
            roots=self.roots[:n_trees],
        )

    @classmethod
    def from_saved(cls, arrays: dict[str, npt.NDArray[Any]]) -> Trees:
        """Trees of the arrays that `arrays` returned.

        Raises:
            ValueError: the arrays are no trees.
        """
        marks, roots = arrays["feature"], arrays["roots"]
        at_split = marks > 0
        n_nodes, n_splits = len(marks), int(np.count_nonzero(at_split))
        demand(int(marks.min(initial=0)) >= 0, "the index of a feature is negative")
        demand(len(arrays["threshold"]) == n_splits, "the number of splits is not clear")
        demand(len(arrays["missing_left"]) == -(-n_splits // 8), "the number of splits is not clear")
        demand(n_nodes and len(arrays["value"]) == n_nodes - n_splits, "the number of leaves is not clear")
        demand(not np.isnan(arrays["threshold"]).any(), "a threshold is not a number")
        _check_roots(roots, n_nodes)
        sizes = np.diff(roots, append=n_nodes)
        start = np.repeat(roots.astype(np.int64), sizes)
        before = np.cumsum(at_split) - at_split
        rank = before - before[start]
        own = np.arange(n_nodes)
        # A tree of s splits has 2s + 1 nodes, and each node but the first is a child of a split before it.
        splits_of_tree = np.add.reduceat(at_split.astype(np.int64), roots)
        demand((sizes == 2 * splits_of_tree + 1).all(), "a node has no parent or several")
        demand((2 * rank >= own - start).all(), "the children of a node do not follow it in its tree")
        _check_depth(roots.astype(np.int64), np.r_[0, np.cumsum(at_split)])
        threshold = np.full(n_nodes, np.inf, np.float32)
        threshold[at_split] = arrays["threshold"]
        missing_left = np.ones(n_nodes, dtype=bool)
        missing_left[at_split] = np.unpackbits(arrays["missing_left"], count=n_splits).astype(bool)
        return cls(
            feature=np.where(at_split, marks.astype(np.int32) - 1, 0).astype(np.int32),
            threshold=threshold,
            missing_left=missing_left,
            left=np.where(at_split, start + 2 * rank + 1, own),
            value=arrays["value"],
            roots=roots,
        )

    @classmethod
    def from_wide(cls, arrays: dict[str, npt.NDArray[Any]]) -> Trees:
        """Trees of `WIDE_ARRAYS`, in which both children of a leaf are the leaf itself.

        Raises:
            ValueError: the arrays are not trees in which both children of a node follow it.
        """
        n_nodes, roots, children = len(arrays["feature"]), arrays["roots"], arrays["children"]
        lengths = {len(arrays[name]) for name in ("threshold", "missing_left", "children", "value")}
        demand(n_nodes and lengths == {n_nodes} and children.shape[1] == 2, "the node arrays differ in length")
        demand(len(roots) and len(arrays["depths"]) == len(roots), "the number of trees is not clear")
        _check_roots(roots, n_nodes)
        demand(not np.isnan(arrays["threshold"]).any(), "a threshold is not a number")
        demand(int(arrays["feature"].min()) >= 0, "the index of a feature is negative")
        sizes = np.diff(roots, append=n_nodes)
        own = np.arange(n_nodes)
        is_leaf = (children == own[:, None]).all(axis=1)
        ends = np.repeat(roots + sizes, sizes)
        inner = children[~is_leaf]
        follow = (inner > own[~is_leaf, None]) & (inner < ends[~is_leaf, None])
        demand(follow.all(), "the children of a node do not follow it in its tree")
        parents = np.bincount(inner.ravel(), minlength=n_nodes)
        demand((parents == np.isin(own, roots, invert=True)).all(), "a node has no parent or several")
        order = _breadth_first(children, is_leaf, roots.astype(np.int64))
        # By tree; within a tree, the order is kept.
        order = order[np.argsort(np.repeat(np.arange(len(roots)), sizes)[order], kind="stable")]
        marks = np.where(is_leaf, 0, arrays["feature"] + 1)[order]
        at_split = ~is_leaf[order]
        return cls.from_saved(
            {
                "feature": marks,
                "threshold": arrays["threshold"][order][at_split],
                "missing_left": np.packbits(arrays["missing_left"][order][at_split]),
                "value": arrays["value"][order][~at_split],
                "roots": roots,
            }
        )

    def __len__(self) -> int:
        return len(self.roots)

    def splits(self) -> npt.NDArray[np.float64]:
        """(largest feature + 1,) the number of splits by each feature. One at depth d counts 2 to the power of -d, about
        the share of the rows that reach it."""
        found = np.zeros(int(self.feature.max(initial=0)) + 1)
        nodes, weight = self.roots.astype(np.int64), 1.0
        while len(nodes := nodes[~self.is_leaf[nodes]]):
            found += weight * np.bincount(self.feature[nodes], minlength=len(found))
            nodes, weight = np.concatenate([self.left[nodes], self.left[nodes] + 1]), weight / 2
        return found

    @cached_property
    def is_leaf(self) -> npt.NDArray[np.bool_]:
        """(nodes,)"""
        return self.left == np.arange(len(self.left))

    @cached_property
    def leaf_number(self) -> npt.NDArray[np.int64]:
        """(nodes,) the row of `value` of each leaf."""
        return np.cumsum(self.is_leaf) - 1

    def total(self, X: Float32, n_groups: int = 1) -> npt.NDArray[np.float64]:
        """(rows, n_groups · n_values): leaf values summed over trees; tree t belongs to group t modulo n_groups."""
        parts = [self._total(X[start : start + BLOCK], n_groups) for start in range(0, len(X), BLOCK)]
        return np.concatenate(parts) if parts else np.zeros((0, n_groups * self.value.shape[1]))

    def _total(self, X: Float32, n_groups: int) -> npt.NDArray[np.float64]:
        n_rows, n_columns = X.shape
        flat, some_missing = X.ravel(), bool(np.isnan(X).any())
        offsets = np.arange(n_rows) * n_columns
        total = np.zeros((n_rows, n_groups, self.value.shape[1]))
        step = max(1, BLOCK // max(n_rows, 1) // n_groups) * n_groups
        for first in range(0, len(self), step):
            roots = self.roots[first : first + step].astype(np.int64)
            reached = np.repeat(roots, n_rows)
            # The walks that have not reached a leaf: their node, the start of their row, and their place in `reached`.
            node, start, place = reached, np.tile(offsets, len(roots)), np.arange(len(reached))
            while len(node):
                value = flat.take(start + self.feature.take(node))
                right = value > self.threshold.take(node)
                if some_missing:
                    missing = np.flatnonzero(np.isnan(value))
                    right[missing] = ~self.missing_left.take(node.take(missing))
                node = self.left.take(node) + right
                at_leaf = self.is_leaf.take(node)
                n_at_leaf = np.count_nonzero(at_leaf)
                # Removing walks costs as much as a few levels of them; a walk stays at its leaf.
                if n_at_leaf > _DROPPED_SHARE * len(node):
                    reached[place] = node
                    walking = np.flatnonzero(~at_leaf)
                    node, start, place = node.take(walking), start.take(walking), place.take(walking)
            leaf = self.value[self.leaf_number.take(reached).reshape(len(roots), n_rows)].astype(np.float64)
            total += leaf.reshape(-1, n_groups, *leaf.shape[1:]).sum(axis=0).swapaxes(0, 1)
        return total.reshape(n_rows, -1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, for safetensors: the feature of each node plus 1 (0 is a leaf), and values of splits and leaves only."""
        at_split = ~self.is_leaf
        marks = np.where(at_split, self.feature + 1, 0)
        most = int(marks.max())
        dtype = np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.int32
        return {
            "feature": marks.astype(dtype),
            "threshold": np.ascontiguousarray(self.threshold[at_split]),
            "missing_left": np.packbits(self.missing_left[at_split]),
            "value": np.ascontiguousarray(self.value),
            "roots": np.ascontiguousarray(self.roots),
        }


def _breadth_first(
    children: npt.NDArray[Any], is_leaf: npt.NDArray[np.bool_], roots: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Nodes by their distance from the roots.

    Raises:
        ValueError: a path is longer than `MAX_DEPTH`.
    """
    levels = [roots]
    while len(splits := levels[-1][~is_leaf[levels[-1]]]):
        demand(len(levels) <= MAX_DEPTH, f"a tree is deeper than {MAX_DEPTH:,}")
        levels.append(children[splits].ravel().astype(np.int64))
    return np.concatenate(levels)


def _check_roots(roots: npt.NDArray[np.int32], n_nodes: int) -> None:
    in_order = len(roots) and roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n_nodes
    demand(in_order, "the roots are not in order")


def _check_depth(roots: npt.NDArray[np.int64], n_splits_before: npt.NDArray[np.int64]) -> None:
    """Raises: ValueError: a path is longer than `MAX_DEPTH`."""
    first, end = roots, roots + 1
    depth = 0
    while (first < end).any():
        demand(depth <= MAX_DEPTH, f"a tree is deeper than {MAX_DEPTH:,}")
        first, end = end, end + 2 * (n_splits_before[end] - n_splits_before[first])
        depth += 1
