"""ONNX graphs of formulas and networks. Standard operators and those of `ai.onnx.ml` only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import FeatureSpec
from tabapp.models.formula import ConstantFormula, Formula, Head, LinearFormula, TreeFormula

OPSET, ML_OPSET = 17, 3
MOST_NODES = 1_000_000
"""Nodes of the trees of a model; more would make a file that is slow to load."""


class NotConvertible(Exception):
    """A part has no counterpart in ONNX; the message says which and why."""


class Graph:
    """Collects the nodes of a graph.

    Args:
        inputs: the name of the input of each column; tensors inside the graph have other names.
    """

    def __init__(self, inputs: Mapping[str, str] = MappingProxyType({})) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy_helper = helper, numpy_helper
        self._input_names = inputs
        self._inside = "inner/"
        while any(name.startswith(self._inside) for name in inputs.values()):
            self._inside += "/"
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._count = 0
        self._inputs: dict[str, str] = {}

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; returns the name of the output."""
        self._count += 1
        output = f"{self._inside}{operator}_{self._count}"
        self._nodes.append(self._helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def constant(self, value: npt.ArrayLike, dtype: Any = np.float32) -> str:
        """A constant tensor; returns its name."""
        self._count += 1
        name = f"{self._inside}constant_{self._count}"
        self._constants[name] = self._numpy_helper.from_array(np.asarray(value, dtype=dtype), name)
        return name

    def texts(self, values: Sequence[str]) -> str:
        """A constant tensor of strings; returns its name."""
        self._count += 1
        name = f"{self._inside}constant_{self._count}"
        encoded = [value.encode() for value in values]
        self._constants[name] = self._helper.make_tensor(name, _TYPES["string"], [len(encoded)], encoded)
        return name

    def number(self, column: str) -> str:
        """The input of a column of numbers, (rows, 1) double: near a quantile, single precision changes its normal value."""
        return self._input(column, "double")

    def moment(self, column: str) -> str:
        """The input of a column of dates, (rows, 1) microseconds since 1970; the least integer is a missing cell."""
        return self._input(column, "int64")

    def text(self, column: str) -> str:
        """The input of a column of text, (rows, 1); "" is a missing cell."""
        return self._input(column, "string")

    def _input(self, column: str, kind: str) -> str:
        name = self._input_names.get(column, column)
        self._inputs[name] = kind
        return name

    def cast(self, value: str, kind: str) -> str:
        """A tensor as "float", "double" or "int64"."""
        return self.add("Cast", value, to=_TYPES[kind])

    def include(self, content: bytes, inputs: Sequence[str]) -> str:
        """Add the nodes of another model; returns the name of its only output.

        Args:
            inputs: names of the tensors that become its inputs, in their order.
        """
        from onnx import ModelProto

        inner = ModelProto.FromString(content).graph
        self._count += 1
        names = dict(zip((each.name for each in inner.input), inputs, strict=True))

        def renamed(name: str) -> str:
            return names.get(name, f"{self._inside}model_{self._count}/{name}") if name else ""

        for node in inner.node:
            if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
                raise NotConvertible(f"its operator {node.op_type} contains a graph")
            node.input[:] = [renamed(name) for name in node.input]
            node.output[:] = [renamed(name) for name in node.output]
            node.name = ""
            self._nodes.append(node)
        for constant in inner.initializer:
            constant.name = renamed(constant.name)
            self._constants[constant.name] = constant
        return renamed(inner.output[0].name)

    def looked_up(self, column: str, values: dict[str, float], other: float, *, in_double: bool = False) -> str:
        """(rows, 1) the number of each text of a column, `other` for all others, as float or double."""
        numbers = np.array([*values.values(), other], dtype=np.float64)
        parts = [numbers]
        if in_double:
            # The operator has numbers of single precision only.
            rounded = numbers.astype(np.float32).astype(np.float64)
            parts = [rounded, numbers - rounded]
        found = [
            self.add(
                "LabelEncoder",
                self.text(column),
                domain="ai.onnx.ml",
                keys_strings=list(values),
                values_floats=part[:-1].tolist(),
                default_float=float(part[-1]),
            )
            for part in parts
        ]
        return self.add("Add", *(self.cast(each, "double") for each in found)) if in_double else found[0]

    def model(self, outputs: Sequence[tuple[str, str, str, Sequence[int | str]]], notes: dict[str, str]) -> Any:
        """The model.

        Args:
            outputs: inner name, name, type ("float", "double" or "string") and shape of each.
            notes: metadata.
        """
        helper = self._helper
        for inner, name, *_ in outputs:
            self._nodes.append(helper.make_node("Identity", [inner], [name]))
        graph = helper.make_graph(
            self._nodes,
            "tabapp",
            [helper.make_tensor_value_info(name, _TYPES[kind], ["rows", 1]) for name, kind in self._inputs.items()],
            [helper.make_tensor_value_info(name, _TYPES[kind], list(shape)) for _, name, kind, shape in outputs],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="tabapp", ir_version=8)
        helper.set_model_props(model, notes)
        return model


_TYPES = {"float": 1, "int64": 7, "string": 8, "double": 11}
"""Numbers of the types in `TensorProto`."""


class FeatureTensors(Protocol):
    """Names of the tensors of features in a graph.

    Attributes:
        spec: names of the features.
        numeric: name of the (rows, n) float32 numeric features; None without any.
        codes: names of the (rows, 1) codes of the categorical features.
    """

    spec: FeatureSpec
    numeric: str | None
    codes: list[str]


def network_prediction(graph: Graph, features: FeatureTensors, content: bytes) -> str:
    """The output of a network in ONNX, whose inputs are the (rows, n) numeric features and the (rows, n) int64 codes."""
    inputs: list[str] = []
    if features.numeric is not None:
        inputs.append(features.numeric)
    if features.codes:
        joined = features.codes[0] if len(features.codes) == 1 else graph.add("Concat", *features.codes, axis=1)
        inputs.append(graph.cast(joined, "int64"))
    return graph.include(content, inputs)


def prediction(graph: Graph, features: FeatureTensors, formula: Formula) -> str:
    """(rows, classes) float probabilities, or (rows, 1) double in target units.

    Raises:
        NotConvertible: the model is too large.
    """
    if isinstance(formula, ConstantFormula):
        return _constant(graph, features, formula)
    outputs = (
        _trees(graph, features, formula) if isinstance(formula, TreeFormula) else _linear(graph, features, formula)
    )
    return _finished(graph, outputs, formula.head)


def _constant(graph: Graph, features: FeatureTensors, formula: ConstantFormula) -> str:
    # Its shape follows the rows of any input.
    column = features.numeric or features.codes[0]
    rows = graph.add("Gather", graph.add("Shape", column), graph.constant([0], np.int64), axis=0)
    width = len(formula.values)
    shape = graph.add("Concat", rows, graph.constant([width], np.int64), axis=0)
    dtype = np.float64 if formula.n_classes == 1 else np.float32
    return graph.add("Expand", graph.constant([list(formula.values)], dtype), shape)


def _trees(graph: Graph, features: FeatureTensors, formula: TreeFormula) -> str:
    n_nodes = len(formula.feature)
    if n_nodes > MOST_NODES:
        raise NotConvertible(f"its trees have {n_nodes:,} nodes, more than {MOST_NODES:,}")
    matrix, feature, threshold = _with_sets(graph, features, formula)
    is_leaf = formula.is_leaf
    tree_of = np.searchsorted(formula.roots, np.arange(n_nodes), side="right") - 1
    own = np.arange(n_nodes) - formula.roots[tree_of]
    left = formula.children[:, 0] - formula.roots[tree_of]
    right = formula.children[:, 1] - formula.roots[tree_of]
    leaves = np.flatnonzero(is_leaf)
    n_values = formula.value.shape[1]
    targets = (formula.group[tree_of[leaves]][:, None] + np.arange(n_values)).ravel()
    modes = np.where(is_leaf, "LEAF", "BRANCH_LEQ")
    return graph.add(
        "TreeEnsembleRegressor",
        matrix,
        domain="ai.onnx.ml",
        n_targets=len(formula.base),
        aggregate_function="SUM",
        post_transform="NONE",
        base_values=[float(value) for value in formula.base],
        nodes_treeids=tree_of.tolist(),
        nodes_nodeids=own.tolist(),
        nodes_featureids=np.where(is_leaf, 0, feature).tolist(),
        nodes_modes=modes.tolist(),
        nodes_values=[float(value) for value in np.where(is_leaf, 0, threshold)],
        nodes_truenodeids=np.where(is_leaf, 0, left).tolist(),
        nodes_falsenodeids=np.where(is_leaf, 0, right).tolist(),
        nodes_missing_value_tracks_true=(formula.missing_left & ~is_leaf).astype(int).tolist(),
        target_treeids=np.repeat(tree_of[leaves], n_values).tolist(),
        target_nodeids=np.repeat(own[leaves], n_values).tolist(),
        target_ids=targets.tolist(),
        target_weights=[float(value) for value in formula.value[leaves].ravel()],
    )


def _with_sets(
    graph: Graph, features: FeatureTensors, formula: TreeFormula
) -> tuple[str, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The matrix of a tree model with a column for each set of codes that a split sends left (0 inside the set, 1 outside), and the
    features and thresholds of the nodes for it."""
    n_numeric = len(features.spec.numeric)
    feature, threshold = formula.feature.copy(), formula.threshold.copy()
    sets: dict[int, dict[frozenset[int], list[int]]] = {}
    for node, codes in formula.left_codes.items():
        sets.setdefault(int(formula.feature[node]), {}).setdefault(codes, []).append(node)
    blocks = [features.numeric] if features.numeric else []
    start = n_numeric
    for categorical, by_codes in sorted(sets.items()):
        number = categorical - n_numeric
        lookup = np.ones((features.spec.cardinalities[number], len(by_codes)), dtype=np.float32)
        for place, (codes, nodes) in enumerate(by_codes.items()):
            lookup[[code for code in codes if code < len(lookup)], place] = 0.0
            feature[nodes], threshold[nodes] = start + place, 0.5
        blocks.append(_row_of_table(graph, features.codes[number], lookup))
        start += len(by_codes)
    if not blocks:
        # A model without a split still needs a column.
        blocks = [features.codes[0]]
    return blocks[0] if len(blocks) == 1 else graph.add("Concat", *blocks, axis=1), feature, threshold


def _row_of_table(graph: Graph, codes: str, table: npt.NDArray[Any]) -> str:
    """(rows, width) the rows of a table that (rows, 1) codes select."""
    whole = graph.add("Cast", graph.add("Squeeze", codes, graph.constant([1], np.int64)), to=7)
    return graph.add("Gather", graph.constant(table), whole, axis=0)


def _linear(graph: Graph, features: FeatureTensors, formula: LinearFormula) -> str:
    outputs = graph.constant(formula.intercept[None, :])
    if features.numeric:
        missing = graph.add("IsNaN", features.numeric)
        shifted = graph.add("Sub", features.numeric, graph.constant(formula.mean[None, :]))
        scaled = graph.add("Div", shifted, graph.constant(formula.std[None, :]))
        clipped = graph.add("Clip", scaled, graph.constant(-formula.limit), graph.constant(formula.limit))
        standard = graph.add("Where", missing, graph.constant(0.0), clipped)
        outputs = graph.add("Add", graph.add("MatMul", standard, graph.constant(formula.weight)), outputs)
        if len(formula.indicators):
            shown = graph.add(
                "Gather", graph.add("Cast", missing, to=1), graph.constant(formula.indicators, np.int64), axis=1
            )
            outputs = graph.add("Add", outputs, graph.add("MatMul", shown, graph.constant(formula.indicator_weight)))
    for number, codes in enumerate(features.codes):
        table = np.zeros((features.spec.cardinalities[number], len(formula.intercept)))
        for (column, code), weight in zip(formula.levels.tolist(), formula.level_weight, strict=True):
            if column == number:
                table[code] += weight
        outputs = graph.add("Add", outputs, _row_of_table(graph, codes, table))
    return outputs


def _finished(graph: Graph, outputs: str, head: Head) -> str:
    if head.link in ("identity", "exponential"):
        outputs = graph.add("Exp", outputs) if head.link == "exponential" else outputs
        scale, shift = (graph.constant(each, np.float64) for each in (head.scale, head.shift))
        value = graph.add("Add", graph.add("Mul", graph.cast(outputs, "double"), scale), shift)
        limits = [graph.constant(limit, np.float64) for limit in head.limits or ()]
        return graph.add("Clip", value, *limits) if limits else value
    if head.link == "logistic":
        positive = graph.add("Sigmoid", outputs)
        outputs = graph.add("Concat", graph.add("Sub", graph.constant(1.0), positive), positive, axis=1)
    elif head.link == "softmax":
        outputs = graph.add("Softmax", outputs, axis=1)
    if head.classes == tuple(range(head.n_classes)):
        return outputs
    placed = np.zeros((len(head.classes), head.n_classes))
    placed[np.arange(len(head.classes)), list(head.classes)] = 1.0
    return graph.add("MatMul", outputs, graph.constant(placed))
