"""Trees of scikit-learn as arrays, so that forests are saved as data, and the base class of forest plugins."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.saved import array_names, demand, read_arrays_and_notes
from tabapp.models.contract import FitContext, FittedModel, Float32, Params, Shape, Task
from tabapp.models.formula import Formula, TreeFormula, codes_up_to

from .boosting import MANY_COLUMNS, BoostedModel, BoostingParams, BoostingPlugin, matrix
from .constant import ConstantModel
from .target import Target, some_rows, target_of
from .tree_arrays import ARRAYS, WIDE_ARRAYS, Trees

TREES_PER_STEP = 10


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
            # Training rows of one class give a constant model, and no forest.
            fits = len(self.classes) != 1 and n_outputs == max(1, len(self.classes) - 1)
            demand(fits, "the values of its leaves do not fit its classes")
            shares = trees.value
            fits = n_classes == 1 or (shares.min() >= 0 and shares.sum(axis=1).max() < 1.001)
            demand(fits, "the shares of the classes in a leaf are not shares")

    def output(self, X: Float32, n_classes: int) -> npt.NDArray[np.float64]:
        """(rows,) the standardized target, or (rows, n_classes) probabilities."""
        return self.from_total(self.trees.total(X, len(self.baseline) or 1), n_classes)

    def formula(self, features: FeatureSpec, target: Target) -> Formula:
        """The trees as a formula. A forest is the mean of its trees."""
        trees, n_trees = self.trees, len(self.trees)
        n_numeric = len(features.numeric)
        is_split = ~trees.is_leaf & (trees.feature >= n_numeric)
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
        at_leaves = self._shares(trees.value.astype(np.float64)) / (1 if self.baseline else n_trees)
        value = np.zeros((len(trees.feature), at_leaves.shape[1]))
        value[trees.is_leaf] = at_leaves
        return TreeFormula(
            feature=trees.feature.astype(np.int64),
            threshold=trees.threshold,
            missing_left=trees.missing_left,
            left_codes=left_codes,
            children=np.column_stack([trees.left, np.where(trees.is_leaf, trees.left, trees.left + 1)]),
            value=value,
            roots=trees.roots.astype(np.int64),
            group=np.arange(n_trees) % n_groups,
            base=np.array(self.baseline) if self.baseline else np.zeros(value.shape[1]),
            head=head,
        )

    def from_total(self, total: npt.NDArray[np.float64], n_classes: int) -> npt.NDArray[np.float64]:
        """Convert the sums over the trees."""
        values = total + np.array(self.baseline) if self.baseline else self._shares(total / len(self.trees))
        if not self.classes:
            return values[:, 0]
        if self.baseline:
            values = np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values
            values = np.exp(values - values.max(axis=1, keepdims=True))
        probabilities = np.zeros((len(values), n_classes))
        probabilities[:, list(self.classes)] = values / values.sum(axis=1, keepdims=True)
        return probabilities

    def _shares(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Shares of all classes from those that the leaves of a forest store: all but the first."""
        if self.baseline or not self.classes:
            return values
        if len(self.classes) == 1:
            return np.ones((len(values), 1))
        return np.hstack([np.clip(1.0 - values.sum(axis=1, keepdims=True), 0.0, None), values])


class TreesModel(BoostedModel):
    """Trees as arrays. The booster is a `Grown`."""

    file_name = "trees.safetensors"

    def output(self, table: Table) -> npt.NDArray[Any]:
        return self.booster.output(matrix(table), self.target.n_classes)

    def use_of_features(self) -> npt.NDArray[Any]:
        return self.booster.trees.splits()

    def formula(self, features: FeatureSpec) -> Formula:
        return self.booster.formula(features, self.target)

    def save_booster(self, path: Path) -> None:
        from safetensors.numpy import save_file

        grown: Grown = self.booster
        described = json.dumps({"classes": grown.classes, "baseline": grown.baseline})
        save_file(grown.trees.arrays(), path, metadata={"grown": described})

    @staticmethod
    def load_booster(path: Path) -> Any:
        is_wide = "children" in array_names(path)
        expected = WIDE_ARRAYS if is_wide else ARRAYS
        arrays, notes = read_arrays_and_notes(path, expected, unchecked=("threshold",))
        described = msgspec.json.decode(notes.get("grown", ""), type=_Described)
        is_forest = not described.baseline
        if is_wide and is_forest and len(described.classes) > 1:
            arrays["value"] = np.ascontiguousarray(arrays["value"][:, 1:])
        trees = Trees.from_wide(arrays) if is_wide else Trees.from_saved(arrays)
        return Grown(trees, described.classes, described.baseline)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        super().check(features, task, n_classes)
        self.booster.check(len(features.numeric) + len(features.categorical), n_classes)


def forest_bytes(shape: Shape, n_nodes: float, *, share: float) -> int:
    """Estimate the memory of a forest.

    Args:
        n_nodes: nodes of trees that separate all rows.
        share: nodes that trees have of those, on average, if a tenth of the rows has the wrong class and the model learns from
            60 % of the rows; those of classes that are easier to separate have fewer.
    """
    # 64 bytes of scikit-learn's node, its values, and our arrays twice while trees are joined.
    per_node = 160 + 12 * shape.n_classes
    return int(18_000_000 + 8 * shape.n_rows * shape.n_features + share * n_nodes * per_node)


class ForestParams(BoostingParams, frozen=True, kw_only=True):
    """Named as in scikit-learn.

    Attributes:
        min_samples_leaf: minimum number of rows in a leaf.
        max_features: share of the columns considered at each split.
        max_rows: maximum number of rows per tree.
    """

    n_trees: int = 100
    min_samples_leaf: int = 2
    max_features: float = 0.5
    max_rows: int = 200_000


def share_of_columns(shape: Shape, share: float) -> float:
    """Default of `max_features`: the given share, or the square root of the number of columns if there are many (Breiman 2001)."""
    return share if shape.n_features < MANY_COLUMNS else shape.n_features**-0.5


class ForestPlugin(BoostingPlugin):
    """Base class of random forest and extra trees. Trees are trained a few at a time until the deadline. scikit-learn
    handles missing numbers and unseen levels: each split learns a side for them.

    No number of trees is to be found, because more of them are not worse: a forest is grown once, on all rows.
    """

    family = "classic"
    predict_requires = ("safetensors",)
    params_type = ForestParams
    model_type = TreesModel
    least_share = 0.1
    """Few trees are enough to be of use: with those that it grows on covertype in 39 s, the log loss of extra trees is 0.144, that
    of the best booster 0.243."""
    estimator: str
    """Name of the estimator's class in sklearn.ensemble, without the suffix Classifier or Regressor."""
    bootstrap: bool

    def later_share(self, shape: Shape) -> float:
        """Only the score of a few trees is left out: 0.87 of the seconds (`benchmarks/results/later_folds.json`)."""
        return 0.9

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Report the score of a few trees, and then grow the forest, on the early-stopping rows too."""
        assert isinstance(params, ForestParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        target = Target.fit(train, context)
        some = some_rows(train, context.seed)
        few, n_few = self.grow(some, None, min(TREES_PER_STEP, params.n_trees), target, params, context)
        scored = TreesModel(few, target, {}, context.n_threads)
        context.report(n_few, metrics.score(context.metric, target_of(valid), scored.predict(valid), valid.weight))
        rows = train.joined(valid) if params.refit else train
        grown, n_trees = self.grow(rows, None, params.n_trees, target, params, context)
        return TreesModel(grown, target, {"trees": n_trees, "refit": params.refit}, context.n_threads)

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
        began, affordable = time.monotonic(), float(context.n_threads)
        while len(trees) < n_trees and affordable >= 1:
            n_more = min(TREES_PER_STEP, int(affordable), n_trees - len(trees))
            forest.set_params(n_estimators=len(trees) + n_more)
            forest.fit(X, y, sample_weight=train.weight)
            trees += [from_sklearn(estimator.tree_) for estimator in forest.estimators_[len(trees) :]]
            # On a large table a tree takes seconds, and a step must not end long after the deadline.
            each = (time.monotonic() - began) / len(trees)
            affordable = min(context.seconds_left() / max(each, 1e-9), n_trees)
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
        # The share of the first class follows from the others.
        value=tree.value[:, 0, 1:] if tree.value.shape[2] > 1 else tree.value[:, 0, :],
    )
