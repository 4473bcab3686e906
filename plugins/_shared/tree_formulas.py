"""The boosting libraries' trees as formulas, from the JSON that the libraries write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import UNSEEN, FeatureSpec
from tabapp.models.formula import Head, TreeFormula

from .tree_arrays import lower_float32


class Nodes:
    """Collects the nodes of trees one after the other."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, float, bool, int, int, float]] = []
        self._left_codes: dict[int, frozenset[int]] = {}
        self._roots: list[int] = []
        self._groups: list[int] = []

    def start_tree(self, group: int) -> None:
        """Start a tree that adds to an output."""
        self._roots.append(len(self._rows))
        self._groups.append(group)

    def leaf(self, value: float) -> int:
        """Add a leaf; returns its number."""
        own = len(self._rows)
        self._rows.append((0, 0.0, False, own, own, value))
        return own

    def split(self) -> int:
        """Reserve a split, which `set_split` fills in after its children are added; returns its number."""
        self._rows.append((0, 0.0, False, 0, 0, 0.0))
        return len(self._rows) - 1

    def set_split(
        self,
        node: int,
        feature: int,
        left: int,
        right: int,
        *,
        threshold: float = 0.0,
        missing_left: bool = False,
        left_codes: frozenset[int] | None = None,
    ) -> None:
        """Fill in a split.

        Args:
            threshold: a float32; numbers up to it go left.
            left_codes: codes that go left, for a categorical feature.
        """
        self._rows[node] = feature, threshold, missing_left, left, right, 0.0
        if left_codes is not None:
            self._left_codes[node] = left_codes

    def formula(self, n_outputs: int, head: Head) -> TreeFormula:
        """The formula, with a base of 0."""
        columns = list(zip(*self._rows, strict=True))
        return TreeFormula(
            feature=np.array(columns[0], dtype=np.int64),
            threshold=np.array(columns[1], dtype=np.float32),
            missing_left=np.array(columns[2], dtype=bool),
            left_codes=self._left_codes,
            children=np.array([columns[3], columns[4]], dtype=np.int64).T,
            value=np.array(columns[5], dtype=np.float64)[:, None],
            roots=np.array(self._roots, dtype=np.int64),
            group=np.array(self._groups, dtype=np.int64),
            base=np.zeros(n_outputs),
            head=head,
        )


def all_codes(features: FeatureSpec, feature: int) -> range:
    """The codes of a categorical feature, numbered after the numeric ones, without the one for unseen levels."""
    return range(UNSEEN + 1, features.cardinalities[feature - len(features.numeric)])


def below(threshold: float) -> float:
    """The float32 that is the largest below another: x < t and x <= below(t) are equal for float32 numbers."""
    return float(np.nextafter(np.float32(threshold), np.float32(-np.inf)))


def up_to(threshold: float) -> float:
    """A threshold in float64 as one in float32 that compares equally with float32 numbers."""
    return float(lower_float32(np.array([threshold]))[0])


def of_xgboost(booster: Any, features: FeatureSpec, head: Head, n_outputs: int) -> TreeFormula:
    """The trees of an XGBoost booster: numbers below the threshold go left, listed categories go right, and missing values to the
    default side."""
    model = json.loads(bytes(booster.save_raw(raw_format="json")))["learner"]["gradient_booster"]["model"]
    nodes = Nodes()
    for tree, group in zip(model["trees"], model["tree_info"], strict=True):
        nodes.start_tree(group)
        sets = {
            node: frozenset(tree["categories"][start : start + size])
            for node, start, size in zip(
                tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
            )
        }

        def add(index: int, tree: dict[str, Any] = tree, sets: dict[int, frozenset[int]] = sets) -> int:
            if tree["left_children"][index] < 0:
                return nodes.leaf(float(np.float32(tree["split_conditions"][index])))
            node, feature = nodes.split(), tree["split_indices"][index]
            left, right = add(tree["left_children"][index]), add(tree["right_children"][index])
            missing_left = bool(tree["default_left"][index])
            codes = None
            if index in sets:
                codes = frozenset(all_codes(features, feature)) - sets[index]
                codes |= {UNSEEN} if missing_left else set()
            nodes.set_split(
                node,
                feature,
                left,
                right,
                threshold=below(tree["split_conditions"][index]),
                missing_left=missing_left,
                left_codes=codes,
            )
            return node

        add(0)
    return nodes.formula(n_outputs, head)


def of_lightgbm(booster: Any, features: FeatureSpec, head: Head, n_outputs: int) -> TreeFormula:
    """The trees of a LightGBM booster: numbers up to the threshold, and listed categories, go left."""
    model = booster.dump_model()
    nodes = Nodes()

    def add(tree: dict[str, Any]) -> int:
        if "leaf_value" in tree:
            return nodes.leaf(float(tree["leaf_value"]))
        node, feature = nodes.split(), int(tree["split_feature"])
        left, right = add(tree["left_child"]), add(tree["right_child"])
        if tree["decision_type"] == "==":
            codes = frozenset(int(code) for code in str(tree["threshold"]).split("||"))
            nodes.set_split(node, feature, left, right, left_codes=codes)
        else:
            threshold = float(tree["threshold"])
            # Without missing values in training, NaN counts as 0.
            missing_left = bool(tree["default_left"]) if tree["missing_type"] == "NaN" else threshold >= 0.0
            nodes.set_split(node, feature, left, right, threshold=up_to(threshold), missing_left=missing_left)
        return node

    for number, tree in enumerate(model["tree_info"]):
        nodes.start_tree(number % n_outputs)
        add(tree["tree_structure"])
    return nodes.formula(n_outputs, head)


def of_catboost(model: dict[str, Any], features: FeatureSpec, head: Head, n_outputs: int) -> TreeFormula | None:
    """The trees of a CatBoost model; None if it uses statistics of categories.

    Args:
        model: its JSON, with the hashes of all codes.
    """
    n_numeric = len(features.numeric)
    nodes = Nodes()
    info = model["features_info"]
    codes = {each["hash"]: int(each["value"]) for each in info.get("cat_features_hash") or []}
    described = info.get("float_features", [])
    trees = model.get("trees") or [_nested(tree) for tree in model["oblivious_trees"]]
    if any(split["split_type"] not in ("FloatFeature", "OneHotFeature") for tree in trees for split in _splits(tree)):
        return None
    n_dimensions = len(_first_leaf(trees[0]))
    if n_dimensions < n_outputs:
        # A class without rows has no output.
        labels = model["model_info"]["class_params"]["class_to_label"]
        n_outputs, head = n_dimensions, replace(head, classes=tuple(int(label) for label in labels))
    nan_is_true = {each["feature_index"]: each["nan_value_treatment"] == "AsTrue" for each in described}

    def add(tree: dict[str, Any], output: int) -> int:
        if "split" not in tree:
            return nodes.leaf(float(np.ravel(tree["value"])[output]))
        node, split = nodes.split(), tree["split"]
        left, right = add(tree["left"], output), add(tree["right"], output)
        if split["split_type"] == "FloatFeature":
            index = split["float_feature_index"]
            # Greater numbers are true; here, numbers up to the border go left.
            border, missing_left = float(np.float32(split["border"])), not nan_is_true.get(index, False)
            nodes.set_split(node, index, left, right, threshold=border, missing_left=missing_left)
        else:
            index = split["cat_feature_index"]
            others = frozenset(range(features.cardinalities[index])) - {codes.get(split["value"] & 0xFFFFFFFF)}
            nodes.set_split(node, n_numeric + index, left, right, threshold=0.0, missing_left=False, left_codes=others)
        return node

    for tree in trees:
        for output in range(n_outputs):
            nodes.start_tree(output)
            add(tree, output)
    scale, bias = model["scale_and_bias"]
    formula = nodes.formula(n_outputs, head)
    formula.value[:] *= scale
    formula.base[:] = np.ravel(bias)
    return formula


def _nested(tree: dict[str, Any]) -> dict[str, Any]:
    """A symmetric tree in the form of the others; split i is bit i of the number of a leaf."""
    splits = tree.get("splits") or []
    leaves: list[dict[str, Any]] = [
        {"value": values} for values in np.split(np.array(tree["leaf_values"]), 1 << len(splits))
    ]
    for split in splits:
        leaves = [{"split": split, "left": a, "right": b} for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
    return leaves[0]


def _splits(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "split" in tree:
        yield tree["split"]
        yield from _splits(tree["left"])
        yield from _splits(tree["right"])


def _first_leaf(tree: dict[str, Any]) -> npt.NDArray[Any]:
    while "split" in tree:
        tree = tree["left"]
    return np.ravel(tree["value"])
