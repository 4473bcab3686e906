"""Prepared features as an ONNX graph: numbers, categories and dates, scaled as the models take them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.bundle.export.onnx_dates import Dates
from tabapp.bundle.export.onnx_graph import Graph, NotConvertible
from tabapp.bundle.export.spellings import missing_texts, with_other_texts
from tabapp.data.schema import Schema
from tabapp.errors import option
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN, FeatureSpec
from tabapp.features.columns import BooleanStep, CategoricalStep, DatetimeStep, NumericStep
from tabapp.features.derived import Deviation
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.quantile import QuantileMap
from tabapp.features.scale import ScaleMap

LEAST_SHARE = 1e-7
"""Of the distribution function, as in `QuantileMap`."""
SMOOTH_BOUND, MOST_DEVIATION = 3.0, 1e3
"""Bounds of `ScaleMap`."""
Float64 = npt.NDArray[np.float64]

# Wichura: "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37, 1988, PPND16.
_CENTER = (
    (3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125, 45921.953931549871457,
     67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077, 21213.794301586595867, 39307.895800092710610,
     28729.085735721942674, 5226.4952788528545610),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504, 1.27045825245236838258,
     0.241780725177450611770, 0.0227238449892691845833, 0.000774545014278341407640),
    (1.0, 2.05319162663775882187, 1.67638483018383804940, 0.689767334985100004550, 0.148103976427480074590,
     0.0151986665636164571966, 0.000547593808499534494600, 1.05075007164441684324e-9),
)  # fmt: skip


class Features:
    """The arrays that a preparer computes, as outputs of a graph; see `FeatureTensors`.

    Raises:
        NotConvertible: a column has no counterpart.
    """

    def __init__(self, graph: Graph, preparer: FeaturePreparer, schema: Schema) -> None:
        self.spec: FeatureSpec = preparer.spec
        self._graph, self._schema, self._preparer = graph, schema, preparer
        self._dates: dict[str, Dates] = {}
        self._numbers: dict[int, str] = {}
        state = preparer.state
        self._shifted = {state.kept_numeric[shift.index] for shift in state.shifts}
        self._columns: list[tuple[str, int]] = [
            (str(i), place) for i, step in enumerate(state.steps) for place in range(len(step.names()))
        ]
        self._columns += [
            (f"encoding {i}", place) for i, each in enumerate(state.encoded) for place in range(len(each.names))
        ]
        self._columns += [(f"derived {i}", 0) for i in range(len(state.derived))]
        kept = [self._number(index) for index in state.kept_numeric]
        scaled = self._scaled(kept) if kept else None
        shown = [graph.cast(graph.add("IsNaN", self._number(index)), "float") for index in state.indicators]
        self.numeric = _joined(graph, [*([scaled] if scaled else []), *shown])
        self.codes = [self._codes(state.steps[index]) for index in state.kept_categorical]

    def _number(self, index: int) -> str:
        """A number before scaling, (rows, 1) float32 or double."""
        if index not in self._numbers:
            source, place = self._columns[index]
            state = self._preparer.state
            if source.startswith("derived"):
                self._numbers[index] = self._derived(int(source.split()[1]))
            elif source.startswith("encoding"):
                number = int(source.split()[1])
                step = state.steps[state.encoded[number].step]
                assert isinstance(step, CategoricalStep)
                means, is_shifted = self._preparer.encodings[number].means[:, place], index in self._shifted
                self._numbers[index] = self._encoded(step, means, in_double=is_shifted)
            else:
                self._numbers[index] = self._of_step(state.steps[int(source)], place)
        return self._numbers[index]

    def _of_step(self, step: Any, place: int) -> str:
        graph = self._graph
        if isinstance(step, NumericStep):
            return graph.number(step.column)
        if isinstance(step, BooleanStep):
            return self._looked_up(step.column, {step.false: 0.0, step.true: 1.0}, np.nan, np.nan)
        if isinstance(step, CategoricalStep):
            if step.frequency and place == 0:
                counts = dict(zip(step.levels, map(float, step.counts), strict=True))
                return self._looked_up(step.column, counts, np.nan, 1.0)
            ranks = {level: float(rank) for rank, level in enumerate(step.order)}
            return self._looked_up(step.column, ranks, np.nan, np.nan)
        if isinstance(step, DatetimeStep):
            if step.column not in self._dates:
                self._dates[step.column] = Dates(graph, step)
            return self._dates[step.column].number(place)
        column = self._schema.column(step.column)
        other = f"; {option('kind', {column.name: 'categorical'})} trains without its texts" * column.learns_texts
        raise NotConvertible(f"the {column.kind} column {step.column!r} has no operators in ONNX{other}")

    def _derived(self, number: int) -> str:
        graph, feature = self._graph, self._preparer.state.derived[number]
        if isinstance(feature, Deviation):
            step = self._preparer.state.steps[feature.step]
            assert isinstance(step, CategoricalStep)
            second, operation = self._encoded(step, self._preparer.means[number], in_double=True), "Sub"
            first = self._number(feature.number)
        else:
            first, second = self._number(feature.first), self._number(feature.second)
            operation = {"sum": "Add", "difference": "Sub", "product": "Mul", "ratio": "Div"}[feature.operation]
        value = graph.add(operation, graph.cast(first, "double"), graph.cast(second, "double"))
        missing = self._double(np.nan)
        return graph.add("Where", graph.add("IsInf", value), missing, value)

    def _scaled(self, kept: Sequence[str]) -> str:
        """(rows, kept) float32."""
        graph, scaling = self._graph, self._preparer.scaling
        kept = list(kept)
        for shift in self._preparer.state.shifts:
            centered = graph.add("Sub", graph.cast(kept[shift.index], "double"), self._double(shift.center))
            kept[shift.index] = graph.add("Mul", centered, self._double(shift.factor))
        if scaling is None:
            joined = _joined(graph, [graph.cast(each, "float") for each in kept])
            assert joined is not None
            return joined
        parts = [graph.cast(each, "double") for each in kept]
        if isinstance(scaling, QuantileMap):
            parts = [self._normal(part, scaling, column) for column, part in enumerate(parts)]
            joined = _joined(graph, parts)
        else:
            joined = self._standard(_joined(graph, parts) or "", scaling)
        assert joined is not None
        return graph.cast(joined, "float")

    def _standard(self, numbers: str, scaling: ScaleMap) -> str:
        graph = self._graph
        centers = graph.constant(scaling.centers[None, :], np.float64)
        if self._preparer.state.recipe.missing == "indicator":
            numbers = graph.add("Where", graph.add("IsNaN", numbers), centers, numbers)
        shifted = graph.add("Sub", numbers, centers)
        scaled = graph.add("Mul", shifted, graph.constant(scaling.factors[None, :], np.float64))
        scaled = graph.add("Clip", scaled, self._double(-MOST_DEVIATION), self._double(MOST_DEVIATION))
        if not scaling.smooth:
            return scaled
        share = graph.add("Div", scaled, self._double(SMOOTH_BOUND))
        length = graph.add("Sqrt", graph.add("Add", graph.add("Mul", share, share), self._double(1.0)))
        return graph.add("Div", scaled, length)

    def _normal(self, numbers: str, scaling: QuantileMap, column: int) -> str:
        """A column of doubles by its quantiles, as `QuantileMap.transform` does."""
        graph, quantiles = self._graph, scaling.quantiles[:, column]
        if np.isnan(scaling.means[column]):
            raise NotConvertible("its features keep missing numbers")
        missing = graph.add("IsNaN", numbers)
        x = graph.add("Where", missing, self._double(float(scaling.means[column])), numbers)
        row = graph.constant(quantiles[None, :], np.float64)
        most = len(quantiles) - 1
        # The number of quantiles up to x, and below x: their mean is the middle of a run of equal quantiles.
        n_up_to = self._count(graph.add("LessOrEqual", row, x))
        n_below = self._count(graph.add("Less", row, x))
        rising = self._between(x, self._index(n_up_to, -1, most - 1), quantiles, most)
        falling = self._between(x, self._index(n_below, -1, most - 1), quantiles, most)
        share = graph.add("Mul", graph.add("Add", rising, falling), self._double(0.5))
        low, high = self._double(LEAST_SHARE), self._double(1 - LEAST_SHARE)
        is_low = graph.add("Less", graph.add("Sub", x, low), self._double(float(quantiles[0])))
        is_high = graph.add("Greater", graph.add("Add", x, low), self._double(float(quantiles[-1])))
        share = graph.add("Clip", share, low, high)
        return self._ndtri(graph.add("Where", is_high, high, graph.add("Where", is_low, low, share)))

    def _count(self, which: str) -> str:
        """(rows, 1) int64: how many of each row hold."""
        axes = self._graph.constant([1], np.int64)
        return self._graph.add("ReduceSum", self._graph.cast(which, "int64"), axes, keepdims=1)

    def _index(self, count: str, shift: int, most: int) -> str:
        graph = self._graph
        shifted = graph.add("Add", count, graph.constant(shift, np.int64))
        return graph.add("Clip", shifted, graph.constant(0, np.int64), graph.constant(max(0, most), np.int64))

    def _between(self, x: str, index: str, quantiles: Float64, most: int) -> str:
        """Linear interpolation of the distribution function between two quantiles."""
        graph, values = self._graph, self._graph.constant(quantiles, np.float64)
        low = graph.add("Gather", values, index)
        high = graph.add("Gather", values, graph.add("Add", index, graph.constant(min(1, most), np.int64)))
        width = graph.add("Sub", high, low)
        is_step = graph.add("Equal", width, self._double(0.0))
        part = graph.add("Div", graph.add("Sub", x, low), graph.add("Where", is_step, self._double(1.0), width))
        part = graph.add("Clip", part, self._double(0.0), self._double(1.0))
        return graph.add("Div", graph.add("Add", graph.cast(index, "double"), part), self._double(float(max(1, most))))

    def _ndtri(self, share: str) -> str:
        """The quantile of the normal distribution for shares in [1e-7, 1 - 1e-7]."""
        graph = self._graph
        q = graph.add("Sub", share, self._double(0.5))
        r = graph.add("Sub", self._double(0.180625), graph.add("Mul", q, q))
        center = graph.add("Mul", q, graph.add("Div", *(self._polynomial(r, each) for each in _CENTER)))
        tail = graph.add("Min", share, graph.add("Sub", self._double(1.0), share))
        root = graph.add("Sqrt", graph.add("Neg", graph.add("Log", tail)))
        r = graph.add("Sub", root, self._double(1.6))
        outside = graph.add("Div", *(self._polynomial(r, each) for each in _TAIL))
        outside = graph.add("Mul", outside, graph.add("Sign", q))
        is_center = graph.add("LessOrEqual", graph.add("Abs", q), self._double(0.425))
        return graph.add("Where", is_center, center, outside)

    def _polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """By Horner's rule, from the constant to the highest power."""
        graph = self._graph
        return reduce(
            lambda value, each: graph.add("Add", graph.add("Mul", value, x), self._double(each)),
            coefficients[-2::-1],
            self._double(coefficients[-1]),
        )

    def _double(self, value: float) -> str:
        return self._graph.constant(value, np.float64)

    def _codes(self, step: Any) -> str:
        assert isinstance(step, CategoricalStep)
        codes = {level: float(code) for code, level in enumerate(step.levels, start=FIRST_LEVEL)}
        return self._looked_up(step.column, codes, MISSING, UNSEEN)

    def _encoded(self, step: CategoricalStep, means: npt.NDArray[Any], *, in_double: bool) -> str:
        values = {level: float(means[code]) for code, level in enumerate(step.levels, start=FIRST_LEVEL)}
        return self._looked_up(step.column, values, float(means[MISSING]), float(means[UNSEEN]), in_double=in_double)

    def _looked_up(
        self, name: str, values: dict[str, float], missing: float, unseen: float, *, in_double: bool = False
    ) -> str:
        """(rows, 1) the number of each level of a column, of missing cells and of all other texts."""
        column = self._schema.column(name)
        every = dict.fromkeys(missing_texts(column), missing) | with_other_texts(values, column)
        return self._graph.looked_up(name, every, unseen, in_double=in_double)


def _joined(graph: Graph, parts: Sequence[str]) -> str | None:
    """(rows, n) from columns of (rows, 1); None without any."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
