"""Trees of scikit-learn as arrays, so that forests are saved as data, and the base class of forest plugins."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.saved import demand, read_arrays_and_notes
from tabapp.models.contract import FitContext, Float32, Shape, Task
from tabapp.models.formula import Formula, TreeFormula, codes_up_to

from .boosting import BoostedModel, BoostingParams, BoostingPlugin, Target, matrix, target_of

BLOCK = 2**16
"""Number of (row, tree) pairs evaluated at once: enough to hide Python's overhead, few enough for the cache."""
TREES_PER_STEP = 10
MAX_DEPTH = 65_536
ARRAYS = {
    "feature": ("int32", 1),
    "threshold": ("float32", 1),
    "missing_left": ("bool", 1),
    "children": ("int32", 2),
    "value": ("float32", 2),
    "roots": ("int32", 1),
    "depths": ("int32", 1),
}
"""Type and number of dimensions of the arrays of `Trees`, as saved."""


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
    """Binary trees as concatenated node arrays. Both children of a leaf are the leaf itself.

    Attributes:
        feature: (nodes,) int32 column of the split.
        threshold: (nodes,) float32; values up to it go left.
        missing_left: (nodes,) bool, where NaN goes.
        children: (nodes, 2) int32 left and right.
        value: (nodes, n_values) float32, zero except at the leaves, so that files compress well.
        roots, depths: (trees,) int32.
    """

    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    children: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
    roots: npt.NDArray[np.int32]
    depths: npt.NDArray[np.int32]

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
        own = np.arange(len(feature))
        children = np.column_stack([np.where(is_leaf, own, left), np.where(is_leaf, own, right)]).astype(np.int32)
        depth, level = 0, children[0]
        while len(level := level[~is_leaf[level]]):
            depth, level = depth + 1, children[level].ravel()
        depth += not is_leaf[0]
        return cls(
            feature=np.where(is_leaf, 0, feature).astype(np.int32),
            threshold=lower_float32(np.where(is_leaf, 0.0, threshold).astype(np.float64)),
            missing_left=missing_left.astype(bool),
            children=children,
            value=np.where(is_leaf[:, None], value, 0).astype(np.float32),
            roots=np.zeros(1, np.int32),
            depths=np.full(1, depth, np.int32),
        )

    @classmethod
    def join(cls, trees: Sequence[Trees]) -> Trees:
        """Concatenate trees."""
        starts = np.cumsum([0, *(len(t.feature) for t in trees)])[:-1]
        return cls(
            feature=np.concatenate([t.feature for t in trees]),
            threshold=np.concatenate([t.threshold for t in trees]),
            missing_left=np.concatenate([t.missing_left for t in trees]),
            children=np.concatenate([t.children + s for t, s in zip(trees, starts, strict=True)]).astype(np.int32),
            value=np.concatenate([t.value for t in trees]),
            roots=np.concatenate([t.roots + s for t, s in zip(trees, starts, strict=True)]).astype(np.int32),
            depths=np.concatenate([t.depths for t in trees]),
        )

    def first(self, n_trees: int) -> Trees:
        """Keep only the first trees."""
        n_nodes = int(self.roots[n_trees]) if n_trees < len(self) else len(self.feature)
        return Trees(
            feature=self.feature[:n_nodes],
            threshold=self.threshold[:n_nodes],
            missing_left=self.missing_left[:n_nodes],
            children=self.children[:n_nodes],
            value=self.value[:n_nodes],
            roots=self.roots[:n_trees],
            depths=self.depths[:n_trees],
        )

    @classmethod
    def checked(cls, arrays: dict[str, npt.NDArray[Any]]) -> Trees:
        """Trees of saved arrays. The saved depths are replaced by computed ones.

        Raises:
            ValueError: the arrays are not trees in which both children of a node follow it.
        """
        n_nodes, roots, children = len(arrays["feature"]), arrays["roots"], arrays["children"]
        lengths = {len(arrays[name]) for name in ("threshold", "missing_left", "children", "value")}
        demand(n_nodes and lengths == {n_nodes} and children.shape[1] == 2, "the node arrays differ in length")
        demand(len(roots) and len(arrays["depths"]) == len(roots), "the number of trees is not clear")
        demand(roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n_nodes, "the roots are not in order")
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
        depths = _depths(roots, children, is_leaf, np.repeat(np.arange(len(roots)), sizes))
        checked: dict[str, Any] = arrays | {"depths": depths}
        return cls(**checked)

    def __len__(self) -> int:
        return len(self.roots)

    def total(self, X: Float32, n_groups: int = 1) -> npt.NDArray[np.float64]:
        """(rows, n_groups · n_values): leaf values summed over trees; tree t belongs to group t modulo n_groups."""
        parts = [self._total(X[start : start + BLOCK], n_groups) for start in range(0, len(X), BLOCK)]
        return np.concatenate(parts) if parts else np.zeros((0, n_groups * self.value.shape[1]))

    def _total(self, X: Float32, n_groups: int) -> npt.NDArray[np.float64]:
        n_rows, n_columns = X.shape
        flat, missing = X.ravel(), np.isnan(X).ravel()
        some_missing = bool(missing.any())
        offsets = np.arange(n_rows) * n_columns
        children = self.children.ravel()
        is_leaf = self.children[:, 0] == np.arange(len(self.children))
        total = np.zeros((n_rows, n_groups, self.value.shape[1]))
        step = max(1, BLOCK // max(n_rows, 1) // n_groups) * n_groups
        for first in range(0, len(self), step):
            roots = self.roots[first : first + step]
            reached = np.repeat(roots, n_rows)
            # The walks that have not reached a leaf: their node, the start of their row, and their place in `reached`.
            node, start, place = reached, np.tile(offsets, len(roots)), np.arange(len(reached))
            while len(node):
                cell = start + self.feature.take(node)
                right = flat.take(cell) > self.threshold.take(node)
                if some_missing:
                    right |= missing.take(cell) & ~self.missing_left.take(node)
                node = children.take(2 * node + right)
                at_leaf = is_leaf.take(node)
                n_at_leaf = np.count_nonzero(at_leaf)
                # Removing walks costs as much as a few levels of them; a walk stays at its leaf.
                if n_at_leaf > _DROPPED_SHARE * len(node):
                    reached[place] = node
                    walking = np.flatnonzero(~at_leaf)
                    node, start, place = node.take(walking), start.take(walking), place.take(walking)
            leaf = self.value[reached.reshape(len(roots), n_rows)].astype(np.float64)
            total += leaf.reshape(-1, n_groups, *leaf.shape[1:]).sum(axis=0).swapaxes(0, 1)
        return total.reshape(n_rows, -1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, for safetensors."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in self.__dataclass_fields__}


def _depths(
    roots: npt.NDArray[np.int32],
    children: npt.NDArray[np.int32],
    is_leaf: npt.NDArray[np.bool_],
    tree_of: npt.NDArray[np.int64],
) -> npt.NDArray[np.int32]:
    """(trees,) number of splits on the longest path.

    Raises:
        ValueError: a path is longer than `MAX_DEPTH`.
    """
    depths = np.zeros(len(roots), np.int32)
    level = roots[~is_leaf[roots]]
    depth = 0
    while len(level):
        depth += 1
        demand(depth <= MAX_DEPTH, f"a tree is deeper than {MAX_DEPTH:,}")
        depths[tree_of[level]] = depth
        below = children[level].ravel()
        level = below[~is_leaf[below]]
    return depths


class _Described(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    classes: tuple[int, ...]
    baseline: tuple[float, ...]


@dataclass(frozen=True)
class Grown:
    """Trees and the conversion of their leaf sums to predictions.

    Attributes:
        classes: sorted class codes of the training rows; empty for regression.
        baseline: initial values of boosted trees, one per group; empty for a forest, whose trees are averaged.
    """

    trees: Trees
    classes: tuple[int, ...]
    baseline: tuple[float, ...] = ()

    def check(self, n_features: int, n_classes: int) -> None:
        """Check the trees against a table with so many features and a target with so many classes (1 for regression).

        Raises:
            ValueError: they do not fit.
        """
        trees, n_outputs = self.trees, self.trees.value.shape[1]
        demand(int(trees.feature.max()) < n_features, f"a split uses a feature beyond the {n_features} of the table")
        known = sorted(set(self.classes)) == list(self.classes) and all(0 <= code < n_classes for code in self.classes)
        demand(known and bool(self.classes) == (n_classes > 1), "its classes are not those of the target")
        if self.baseline:
            groups = max(1, len(self.classes) if len(self.classes) > 2 else 1)
            fits = len(self.baseline) == groups and n_outputs == 1 and len(trees) % groups == 0
            demand(fits and all(map(math.isfinite, self.baseline)), "its initial values do not fit its classes")
        else:
            demand(n_outputs == max(1, len(self.classes)), "the values of its leaves do not fit its classes")
            demand(n_classes == 1 or trees.value.min() >= 0, "a leaf has a negative share of a class")

    def output(self, X: Float32, n_classes: int) -> npt.NDArray[np.float64]:
        """(rows,) the standardized target, or (rows, n_classes) probabilities."""
        return self.from_total(self.trees.total(X, len(self.baseline) or 1), n_classes)

    def formula(self, features: FeatureSpec, target: Target) -> Formula:
        """The trees as a formula. A forest is the mean of its trees."""
        trees, n_trees = self.trees, len(self.trees)
        own = np.arange(len(trees.feature))
        n_numeric = len(features.numeric)
        is_split = (trees.children[:, 0] != own) & (trees.feature >= n_numeric)
        left_codes = {
            node: codes_up_to(
                float(trees.threshold[node]),
                features.cardinalities[int(trees.feature[node]) - n_numeric],
                unseen_left=bool(trees.missing_left[node]),
            )
            for node in np.flatnonzero(is_split).tolist()
        }
        head = target.head()
        if self.classes:
            link = "shares" if not self.baseline else "logistic" if len(self.baseline) == 1 else "softmax"
            head = replace(head, link=link, classes=self.classes)
        n_groups = len(self.baseline) or 1
        return TreeFormula(
            feature=trees.feature.astype(np.int64),
            threshold=trees.threshold,
            missing_left=trees.missing_left,
            left_codes=left_codes,
            children=trees.children.astype(np.int64),
            value=trees.value.astype(np.float64) / (1 if self.baseline else n_trees),
            roots=trees.roots.astype(np.int64),
            group=np.arange(n_trees) % n_groups,
            base=np.array(self.baseline) if self.baseline else np.zeros(trees.value.shape[1]),
            head=head,
        )

    def from_total(self, total: npt.NDArray[np.float64], n_classes: int) -> npt.NDArray[np.float64]:
        """Convert the sums over the trees."""
        values = total + np.array(self.baseline) if self.baseline else total / len(self.trees)
        if not self.classes:
            return values[:, 0]
        if self.baseline:
            values = np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values
            values = np.exp(values - values.max(axis=1, keepdims=True))
        probabilities = np.zeros((len(values), n_classes))
        probabilities[:, list(self.classes)] = values / values.sum(axis=1, keepdims=True)
        return probabilities


class TreesModel(BoostedModel):
    """Trees as arrays. The booster is a `Grown`."""

    file_name = "trees.safetensors"

    def output(self, table: Table) -> npt.NDArray[Any]:
        return self.booster.output(matrix(table), self.target.n_classes)

    def formula(self, features: FeatureSpec) -> Formula:
        return self.booster.formula(features, self.target)

    def save_booster(self, path: Path) -> None:
        from safetensors.numpy import save_file

        grown: Grown = self.booster
        described = json.dumps({"classes": grown.classes, "baseline": grown.baseline})
        save_file(grown.trees.arrays(), path, metadata={"grown": described})

    @staticmethod
    def load_booster(path: Path) -> Any:
        arrays, notes = read_arrays_and_notes(path, ARRAYS, unchecked=("threshold",))
        described = msgspec.json.decode(notes.get("grown", ""), type=_Described)
        return Grown(Trees.checked(arrays), described.classes, described.baseline)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        super().check(features, task, n_classes)
        self.booster.check(len(features.numeric) + len(features.categorical), n_classes)


def forest_bytes(shape: Shape, n_nodes: float, *, share: float) -> int:
    """Estimate the memory of a forest.

    Args:
        n_nodes: nodes of trees that separate all rows.
        share: nodes that trees have of those, on average: those of classes that are easy to separate have few.
    """
    return int(18_000_000 + 8 * shape.n_rows * shape.n_features + share * n_nodes * (80 + 12 * shape.n_classes))


class ForestParams(BoostingParams, frozen=True, kw_only=True):
    """Named as in scikit-learn.

    Attributes:
        min_samples_leaf: minimum number of rows in a leaf.
        max_features: share of the columns considered at each split.
        max_rows: maximum number of rows per tree.
    """

    n_trees: int = 200
    min_samples_leaf: int = 2
    max_features: float = 0.5
    max_rows: int = 200_000


class ForestPlugin(BoostingPlugin):
    """Base class of random forest and extra trees. Trees are trained a few at a time until the deadline. scikit-learn
    handles missing numbers and unseen levels: each split learns a side for them.
    """

    family = "classic"
    requires = ("sklearn", "safetensors")
    predict_requires = ("safetensors",)
    params_type = ForestParams
    model_type = TreesModel
    estimator: str
    """Name of the estimator's class in sklearn.ensemble, without the suffix Classifier or Regressor."""
    bootstrap: bool

    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        import sklearn.ensemble

        ending = "Regressor" if context.task == "regression" else "Classifier"
        X, y = matrix(train), target.transform(target_of(train))
        forest = getattr(sklearn.ensemble, self.estimator + ending)(
            warm_start=True,
            bootstrap=self.bootstrap,
            max_samples=params.max_rows if self.bootstrap and len(train) > params.max_rows else None,
            min_samples_leaf=params.min_samples_leaf,
            max_features=params.max_features,
            n_jobs=context.n_threads,
            random_state=context.seed,
        )
        trees: list[Trees] = []
        seen = None if valid is None else matrix(valid)
        total: Any = 0.0
        while len(trees) < n_trees:
            forest.set_params(n_estimators=min(len(trees) + TREES_PER_STEP, n_trees))
            forest.fit(X, y, sample_weight=train.weight)
            new = [from_sklearn(estimator.tree_) for estimator in forest.estimators_[len(trees) :]]
            trees += new
            if context.seconds_left() <= 0:
                break
            if valid is not None and seen is not None:
                total = total + Trees.join(new).total(seen)
                output = Grown(Trees.join(trees), classes_of(forest)).from_total(total, target.n_classes)
                score = metrics.score(context.metric, target_of(valid), target.prediction(output), valid.weight)
                context.report(len(trees), score)
        return Grown(Trees.join(trees), classes_of(forest)), len(trees)


def classes_of(estimator: Any) -> tuple[int, ...]:
    """The class codes that an estimator was fitted with, in the order of its columns; empty for a regressor."""
    return tuple(int(code) for code in getattr(estimator, "classes_", ()))


def from_sklearn(tree: Any) -> Trees:
    """Convert one of scikit-learn's decision trees."""
    state = tree.__getstate__()["nodes"]
    return Trees.tree(
        feature=tree.feature,
        threshold=tree.threshold,
        missing_left=state["missing_go_to_left"],
        left=tree.children_left,
        right=tree.children_right,
        is_leaf=tree.children_left < 0,
        value=tree.value[:, 0, :],
    )
