"""A trained xRFM: a tree whose leaves are kernel machines, and the calibration of its probabilities."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.saved import demand, read_arrays
from tabapp.models.contract import FittedModel, Float32, Floats, Task

from .._shared.design import ARRAYS, Design
from .._shared.target import Target
from .kernel import Float64, Kernel, Norm, distances, solved
from .tuning import transformed

PREDICTION_ROWS = 2048
LARGEST_SLOPE = 1e3


@dataclass(frozen=True)
class Tree:
    """Splits the rows of large tables at the median of their first principal component in the learned metric, again and again.

    NOTE[DIFF] the paper splits along the main direction of the average gradient, and learns the metric of each leaf anew. Here
    the leaves share the metric, and so its main direction stands out in all rows.

    Attributes:
        direction: (splits, columns) float64.
        threshold: (splits,) float64; rows with at most this projection go to the left.
        children: (splits, 2) int64: the number of a split, which is larger than that of its parent, or -1 - the number of a leaf.
        start: (leaves + 1,) int64: where the stored rows of each leaf start.
    """

    direction: Float64
    threshold: Float64
    children: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    def leaves_of(self, rows: Float32) -> npt.NDArray[np.int64]:
        """(rows,) the leaf of each row."""
        found = np.full(len(rows), 0 if len(self.threshold) else -1)
        for split in range(len(self.threshold)):
            here = np.flatnonzero(found == split)
            right = rows[here].astype(np.float64) @ self.direction[split] > self.threshold[split]
            found[here] = self.children[split][right.astype(int)]
        return -1 - found

    @classmethod
    def fit(cls, rows: Float32, most: int) -> tuple[Tree, npt.NDArray[np.int64]]:
        """A tree with at most so many rows in each leaf, and the leaf of each row."""
        directions: list[Float64] = []
        thresholds: list[float] = []
        children: list[list[int]] = []
        leaf, n_leaves = np.zeros(len(rows), np.int64), 0
        waiting = [(np.arange(len(rows)), -1, 0)]
        while waiting:
            here, parent, side = waiting.pop(0)
            wide = rows[here].astype(np.float64)
            split = None if len(here) <= most else _split(wide)
            number = len(thresholds) if split is not None else -1 - n_leaves
            if parent >= 0:
                children[parent][side] = number
            if split is None:
                leaf[here] = n_leaves
                n_leaves += 1
                continue
            direction, threshold = split
            directions.append(direction)
            thresholds.append(threshold)
            children.append([0, 0])
            right = wide @ direction > threshold
            waiting += [(here[~right], number, 0), (here[right], number, 1)]
        tree = cls(
            np.array(directions).reshape(len(directions), rows.shape[1]),
            np.array(thresholds, np.float64),
            np.array(children, np.int64).reshape(-1, 2),
            np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=n_leaves))]).astype(np.int64),
        )
        return tree, leaf

    def check(self, n_columns: int, n_rows: int) -> None:
        """Check a loaded tree.

        Raises:
            ValueError: it does not lead each row to one of its leaves.
        """
        n_splits, n_leaves = len(self.threshold), len(self.start) - 1
        demand(self.direction.shape == (n_splits, n_columns), "the directions of its tree do not fit its columns")
        demand(self.children.shape == (n_splits, 2), "its tree has not two children for each split")
        later = (self.children > np.arange(n_splits)[:, None]) | (self.children < 0)
        demand(later.all(), "a split of its tree comes before its parent")
        expected = sorted([*range(1, n_splits), *range(-n_leaves, 0)])
        demand(sorted(self.children.reshape(-1).tolist() or [-1]) == expected, "its tree does not reach all leaves")
        demand(self.start[0] == 0 and self.start[-1] == n_rows, "its leaves do not have all stored rows")
        demand((np.diff(self.start) > 0).all(), "a leaf of its tree has no rows")


def _split(rows: Float64) -> tuple[Float64, float] | None:
    """The first principal component and the median of the rows along it; None if they do not differ there."""
    direction: Float64 = np.linalg.eigh(np.cov(rows.T).reshape(rows.shape[1], -1))[1][:, -1]
    along = rows @ direction
    threshold = float(np.median(along))
    return (direction, threshold) if (along > threshold).any() else None


class _Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: Target
    norm: Norm
    exponent: float
    width: float
    penalty: float
    slope: float
    widths: tuple[float, ...] = ()
    penalties: tuple[float, ...] = ()


class XRFMModel(FittedModel):
    """Stored training rows in the learned metric, with their coefficients.

    Attributes:
        transform: multiplies the columns of the design (`tuning.Tuned`).
        tree: splits the transformed rows.
        rows: (n_rows, columns) float32 transformed training rows, leaf by leaf.
        coefficients: (n_rows, outputs) float64.
        mean: (outputs,) float64 mean target.
        slope, bias: of the log-odds of the classes: slope times output plus (outputs,) bias. Unused in regression.
        widths, penalties: that the search found in each iteration, widths in units of the median distance of two rows. Models of
            other folds take them. Empty for a model that was saved without them.
    """

    thread_safe = True
    predicts_in_threads = True

    def __init__(
        self,
        design: Design,
        target: Target,
        transform: Float32,
        kernel: Kernel,
        penalty: float,
        tree: Tree,
        rows: Float32,
        coefficients: Float64,
        mean: Float64,
        slope: float,
        bias: Float64,
        widths: Sequence[float] = (),
        penalties: Sequence[float] = (),
    ) -> None:
        self.design, self.target, self.transform, self.kernel = design, target, transform, kernel
        self.penalty, self.tree, self.rows, self.coefficients = penalty, tree, rows, coefficients
        self.mean, self.slope, self.bias = mean, slope, bias
        self.widths, self.penalties = tuple(widths), tuple(penalties)

    @property
    def n_binary(self) -> int:
        """Number of columns of indicators and levels."""
        return self.design.n_columns - len(self.design.mean)

    def predict(self, table: Table) -> Floats:
        rows = transformed(self.design.matrix(table), self.transform)
        output = np.zeros((len(rows), len(self.mean)))
        leaf = self.tree.leaves_of(rows)
        for number in range(len(self.tree.start) - 1):
            stored = slice(self.tree.start[number], self.tree.start[number + 1])
            here = np.flatnonzero(leaf == number)
            for start in range(0, len(here), PREDICTION_ROWS):
                part = here[start : start + PREDICTION_ROWS]
                distance = distances(rows[part], self.rows[stored], self.kernel.norm, self.n_binary)
                output[part] = self.kernel.of(distance) @ self.coefficients[stored]
        output += self.mean
        if self.target.task == "regression":
            return self.target.prediction(output[:, 0])
        return self.target.prediction(probabilities(output, self.slope, self.bias))

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        arrays = {"transform": self.transform, "rows": self.rows, "coefficients": self.coefficients}
        arrays |= {"mean": self.mean, "bias": self.bias}
        arrays |= {name: getattr(self.tree, name) for name in Tree.__dataclass_fields__}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(
            {f"design_{name}": array for name, array in self.design.arrays().items()} | arrays,
            folder / "xrfm.safetensors",
        )
        target = {name: getattr(self.target, name) for name in ("task", "n_classes", "mean", "std")}
        kernel = {"norm": self.kernel.norm, "exponent": self.kernel.exponent, "width": self.kernel.width}
        saved = {"target": target, **kernel, "penalty": self.penalty, "slope": self.slope}
        saved |= {"widths": self.widths, "penalties": self.penalties}
        (folder / "model.json").write_text(json.dumps(saved))

    @classmethod
    def load(cls, folder: Path) -> XRFMModel:
        """Read what `save` wrote. Predictions are bit-identical."""
        stored = {"transform": ("float32", 2), "rows": ("float32", 2), "coefficients": ("float64", 2)}
        stored |= {"mean": ("float64", 1), "bias": ("float64", 1)}
        of_tree = {
            "direction": ("float64", 2),
            "threshold": ("float64", 1),
            "children": ("int64", 2),
            "start": ("int64", 1),
        }
        of_design = {f"design_{name}": value for name, value in ARRAYS.items()}
        arrays = read_arrays(folder / "xrfm.safetensors", of_design | stored | of_tree)
        design = Design(**{name: arrays[f"design_{name}"] for name in ARRAYS})
        tree = Tree(**{name: arrays[name] for name in of_tree})
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=_Saved)
        demand(saved.width > 0 and math.isfinite(saved.width), "the width of its kernel is not usable")
        demand(0 < saved.exponent <= 2, "the exponent of its kernel is not usable")
        kernel = Kernel(saved.norm, saved.exponent, saved.width)
        demand(len(tree.start) > 1, "it has no leaf")
        return cls(
            design, saved.target, arrays["transform"], kernel, saved.penalty, tree, arrays["rows"], arrays["coefficients"],
            arrays["mean"], saved.slope, arrays["bias"], saved.widths, saved.penalties,
        )  # fmt: skip

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        self.target.check(task, n_classes)
        self.design.check(features)
        n_columns = self.design.n_columns
        expected = (1 if self.kernel.norm == 1 else n_columns, n_columns)
        demand(self.transform.shape == expected, "its metric does not fit the columns of the table")
        demand(self.rows.shape[1] == n_columns, "its stored rows do not have the columns of the table")
        shapes = self.coefficients.shape, self.mean.shape, self.bias.shape
        demand(
            shapes == ((len(self.rows), n_classes), (n_classes,), (n_classes,)),
            "its outputs are not those of the target",
        )
        demand(0 <= self.slope <= LARGEST_SLOPE, "the slope of its probabilities is not usable")
        self.tree.check(n_columns, len(self.rows))

    def use_of_features(self) -> npt.NDArray[Any] | None:
        """The size of each feature in the learned metric: the root of the sum of squares of its columns of the design, levels with
        their mean square. None if the metric gives all columns the same weight."""
        sizes = np.square(self.transform.astype(np.float64))
        weights = sizes[0] if len(sizes) < sizes.shape[1] else sizes.sum(axis=1)
        if not len(weights) or np.ptp(weights) <= 1e-9 * weights.max():
            return None
        n_numeric = len(self.design.mean)
        places = np.concatenate([np.arange(n_numeric), self.design.indicators]).astype(np.intp)
        of_numbers = np.bincount(places, weights=weights[: len(places)], minlength=n_numeric)
        levels, column = weights[len(places) :], self.design.level_column
        counts = np.maximum(1, np.bincount(column)) if len(column) else np.empty(0)
        of_categories = np.bincount(column, weights=levels) / counts if len(column) else np.empty(0)
        return np.sqrt(np.concatenate([of_numbers, of_categories]))

    def summary(self) -> dict[str, Any]:
        return {
            "rows": len(self.rows),
            "leaves": len(self.tree.start) - 1,
            "width": round(self.kernel.width, 4),
            "penalty": self.penalty,
        } | ({"widths": list(self.widths), "penalties": list(self.penalties)} if self.widths else {})


def stored_rows(
    rows: Float32, target: Float64, weight: Float64, kernel: Kernel, penalty: float, most: int, n_binary: int
) -> tuple[Tree, Float32, Float64]:
    """The tree of transformed training rows, these rows leaf by leaf, and their coefficients.

    Args:
        target: (rows, outputs) with mean 0.
        weight: (rows,) above 0, with mean 1.
        most: rows in a leaf.
    """
    tree, leaf = Tree.fit(rows, most)
    order = np.argsort(leaf, kind="stable")
    coefficients = np.empty((len(rows), target.shape[1]))
    for start, end in zip(tree.start[:-1], tree.start[1:], strict=True):
        of_leaf = order[start:end]
        distance = distances(rows[of_leaf], rows[of_leaf], kernel.norm, n_binary)
        coefficients[start:end] = solved(kernel.of(distance), penalty / weight[of_leaf], target[of_leaf])
    return tree, rows[order], coefficients


def probabilities(output: Float64, slope: float, bias: Float64) -> Float64:
    """(rows, classes) of the outputs of a model for each class."""
    logits = slope * output + bias
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def calibrated(output: Float64, codes: npt.NDArray[np.int64], weight: Float64) -> tuple[float, Float64]:
    """Slope and bias of the log-odds with the lowest log loss on rows that their outputs were not fitted on (Platt 1999, for
    several classes). A small penalty keeps the bias of a class without rows finite."""
    from scipy.optimize import minimize

    shares, picked = weight / weight.sum(), (np.arange(len(codes)), codes)

    def loss(values: Float64) -> tuple[float, Float64]:
        found = probabilities(output, math.exp(values[0]), values[1:])
        gradient = found.copy()
        gradient[picked] -= 1
        gradient *= shares[:, None]
        by_slope = float((gradient * output).sum()) * math.exp(values[0])
        value = -float(shares @ np.log(found[picked] + 1e-12)) + 1e-3 * float((values[1:] ** 2).sum())
        return value, np.concatenate([[by_slope], gradient.sum(axis=0) + 2e-3 * values[1:]])

    bounds = [(0.0, math.log(LARGEST_SLOPE)), *[(None, None)] * output.shape[1]]
    found: Any = minimize(loss, np.r_[1.5, np.zeros(output.shape[1])], jac=True, method="L-BFGS-B", bounds=bounds)
    return math.exp(float(found.x[0])), np.asarray(found.x[1:], np.float64)
