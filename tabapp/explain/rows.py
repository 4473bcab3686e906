"""Explanations of single predictions in units of the output: the probability of a class, or the unit of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.schema import Schema
from tabapp.errors import UsageError, did_you_mean
from tabapp.explain.shapley import Effort, ShapleyValues, shapley_values

Float64 = npt.NDArray[np.float64]
Predict = Callable[[pl.DataFrame], Float64]
"""Predictions for typed rows: (rows, classes) probabilities or (rows,) in target units."""

SHAPLEY, EXACT = "Shapley values", "TreeSHAP"
MOST_COLUMNS = 2_000
PROBABILITY_TOLERANCE = 0.01
SPREAD_TOLERANCE = 0.02
"""Of a regression: the largest error that ends the sampling, as a share of the spread of the reference outputs."""


class NeighborLike(Protocol):
    """A training row: number in the training file, share in the prediction, target; see `tabapp.bundle.prediction.neighbors`."""

    @property
    def row(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def target(self) -> str | float: ...


FindNeighbors = Callable[[pl.DataFrame], Sequence[Sequence[NeighborLike]]]


@dataclass(frozen=True)
class Explained:
    """The explanation of one prediction.

    Attributes:
        row: number of the row, counted from 0.
        prediction: class label, or a number in target units.
        output: probability of the explained class, or the number.
        contributions: by column; they add up to the output minus the base.
        errors: half-width of the Monte-Carlo interval of each contribution; 0 if it is exact. All hold at once in 95 % of samples.
        evaluations: predictions that were computed.
        neighbors: the training rows on which the prediction rests.
        completeness: of integrated gradients, what the contributions missed of the output minus the base, as a share of it.
    """

    row: int
    prediction: str | float
    output: float
    contributions: dict[str, float]
    errors: dict[str, float]
    evaluations: int
    neighbors: tuple[NeighborLike, ...] = ()
    completeness: float | None = None

    @property
    def error(self) -> float:
        """The largest of the errors."""
        return max(self.errors.values(), default=0.0)


@dataclass(frozen=True)
class Explanations:
    """Explanations of rows by one output.

    Attributes:
        base: mean output of the reference rows.
        label: the class whose probability is explained; None for a regression.
        reference_rows: number of reference rows.
        rows: in the requested order.
        member: the model whose output is explained in place of that of the ensemble, with the `unit` of that output.
        method: how the contributions were computed.
    """

    base: float
    label: str | None
    reference_rows: int
    rows: tuple[Explained, ...]
    member: str | None = None
    unit: str | None = None
    method: str = SHAPLEY


class DecompositionLike(Protocol):
    """An output as base plus contributions by column; see `tabapp.bundle.prediction.predict.Decomposition`."""

    @property
    def base(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def columns(self) -> dict[str, Float64]: ...
    @property
    def method(self) -> str: ...
    @property
    def errors(self) -> Float64: ...


Labels = Callable[[Float64], npt.NDArray[np.intp]]
"""Class codes of (rows, classes) probabilities."""
Decompose = Callable[[pl.DataFrame], DecompositionLike | None]


class Explainer:
    """Explains rows by the output of one model or ensemble.

    Args:
        predict: called with typed rows.
        schema: the columns.
        reference: typed rows; contributions are differences from their mean output. A wide table uses fewer of them.
        neighbors: called with typed rows; None if no model predicts from training rows.
        decompose: called with typed rows; gives exact contributions to the output, or None if there are none.
        labels: called with probabilities; by default, the most probable class is predicted.

    Raises:
        UsageError: the table has too many columns.
    """

    def __init__(
        self,
        predict: Predict,
        schema: Schema,
        reference: pl.DataFrame,
        neighbors: FindNeighbors | None = None,
        decompose: Decompose | None = None,
        labels: Labels | None = None,
    ) -> None:
        self.columns = [column.name for column in schema.features]
        self._inputs = [column.name for column in schema.inputs]
        companions = {name: column.name for name, column in schema.companions.items()}
        self._units = [(name, companions[name]) if name in companions else (name,) for name in self._inputs]
        if len(self._inputs) > MOST_COLUMNS:
            raise UsageError(
                f"The bundle has {len(self._inputs):,} feature columns. "
                f"Predictions from at most {MOST_COLUMNS:,} columns can be explained."
            )
        self._predict = predict
        self._neighbors = neighbors
        self._decompose = decompose
        self._labels = labels
        self._schema = schema
        self.reference = _thinned(reference[self.columns], Effort().evaluations // (4 * len(self._inputs)))
        self._reference_values = predict(self.reference)

    def code_of(self, label: str | None, predicted: Float64) -> int:
        """The position of the class to explain, by default the most probable one of the first row; 0 for a regression.

        Raises:
            UsageError: there is no such class, or the task is a regression.
        """
        classes = self._schema.classes
        if label is None:
            return int(self._codes(predicted)[0]) if classes and len(predicted) else 0
        if not classes:
            raise UsageError("A regression has no classes. Explain it without a class.")
        if label not in classes:
            hint = did_you_mean(label, classes) or f"; use one of {', '.join(classes[:10])}."
            raise UsageError(f"There is no class {label!r}{hint}")
        return classes.index(label)

    def _codes(self, predicted: Float64) -> npt.NDArray[np.intp]:
        return predicted.argmax(axis=1) if self._labels is None else self._labels(predicted)

    def predictions(self, predicted: Float64) -> list[str | float]:
        """Class labels, or numbers in target units."""
        classes = self._schema.classes
        return [classes[code] for code in self._codes(predicted).tolist()] if classes else predicted.tolist()

    def outputs(self, typed: pl.DataFrame, label: str | None) -> Float64:
        """(rows,) the explained output of typed rows.

        Raises:
            UsageError: there is no such class.
        """
        predicted = self._predict(typed[self.columns])
        return _outputs(predicted, self.code_of(label, predicted))

    def explain(
        self,
        typed: pl.DataFrame,
        numbers: Sequence[int],
        *,
        label: str | None = None,
        effort: Effort | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Explanations:
        """Explain every row.

        Args:
            typed: typed rows.
            numbers: (rows,) their numbers in the file.
            label: the class whose probability is explained; by default the one predicted for the first row.
            effort: how exact the contributions are.
            progress: called with the share of rows that are done.

        Raises:
            UsageError: there is no such class.
        """
        classes = self._schema.classes
        typed = typed[self.columns]
        predicted = self._predict(typed)
        code = self.code_of(label, predicted)
        exact = self._decompose(typed) if self._decompose is not None and not classes else None
        if exact is not None:
            return decomposed_explanations(exact, self.predictions(predicted), numbers)

        def output(rows: pl.DataFrame) -> Float64:
            return _outputs(self._predict(rows), code)

        reference = _outputs(self._reference_values, code)
        effort = effort or Effort(
            tolerance=PROBABILITY_TOLERANCE if classes else SPREAD_TOLERANCE * float(reference.std())
        )
        neighbors = self._neighbors(typed) if self._neighbors is not None else [()] * typed.height
        found: list[Explained] = []
        predictions = self.predictions(predicted)
        for index, number in enumerate(numbers):
            row = typed[index : index + 1]
            values = shapley_values(
                output, row, self.reference, self._units, reference_outputs=reference, effort=effort
            )
            found.append(_explained(number, predictions[index], values, self._inputs, neighbors[index]))
            if progress is not None:
                progress((index + 1) / len(numbers))
        return Explanations(
            float(reference.mean()), classes[code] if classes else None, self.reference.height, tuple(found)
        )


def decomposed_explanations(
    found: DecompositionLike,
    predictions: Sequence[str | float],
    numbers: Sequence[int],
    label: str | None = None,
    member: str | None = None,
) -> Explanations:
    """Explanations of rows by the decomposition of the output of one model, or of the ensemble.

    Args:
        predictions: class labels or numbers of the ensemble.
        numbers: (rows,) their numbers in the file.
        label: the explained class; None for a regression.
        member: name of the model; None for the ensemble.
    """
    rows: list[Explained] = []
    for index, number in enumerate(numbers):
        contributions = {name: float(values[index]) for name, values in found.columns.items()}
        output = found.base + sum(contributions.values())
        missed = float(found.errors[index])
        sizes = {name: abs(value) for name, value in contributions.items()}
        total = sum(sizes.values())
        errors = {name: missed * size / total if total > 0 else 0.0 for name, size in sizes.items()}
        completeness = None if found.method == EXACT else missed / max(abs(output - found.base), 1e-12)
        rows.append(
            Explained(
                number, predictions[index], output, contributions, errors, evaluations=0, completeness=completeness
            )
        )
    unit = None if member is None else found.unit
    return Explanations(found.base, label, 0, tuple(rows), member, unit, found.method)


def explanations_json(
    found: Explanations, target: str, cells: Callable[[NeighborLike], dict[str, str | None] | None] | None = None
) -> dict[str, Any]:
    """The JSON of `tabapp explain --json`; `base` plus the sum of `contributions` is `output` in every row.

    Args:
        cells: gives the values of a training row.
    """
    of_member = {} if found.member is None else {"member": found.member, "unit": found.unit}
    return {
        "target": target,
        **of_member,
        "method": found.method,
        "class": found.label,
        "base": found.base,
        "reference_rows": found.reference_rows,
        "rows": [
            {
                "row": each.row,
                "prediction": each.prediction,
                "output": each.output,
                "contributions": each.contributions,
                "error": each.error,
                "errors": each.errors,
                **({} if each.completeness is None else {"completeness_error": each.completeness}),
                "neighbours": [
                    {
                        "row": neighbor.row,
                        "weight": neighbor.weight,
                        "target": neighbor.target,
                        **({} if cells is None else {"values": cells(neighbor)}),
                    }
                    for neighbor in each.neighbors
                ],
            }
            for each in found.rows
        ],
    }


def _outputs(predicted: Float64, code: int) -> Float64:
    return predicted[:, code] if predicted.ndim == 2 else predicted


def _thinned(reference: pl.DataFrame, most: int) -> pl.DataFrame:
    """Evenly spaced rows, at least 2 if there are as many."""
    n_rows = min(reference.height, max(2, most))
    return reference[np.linspace(0, reference.height - 1, n_rows).round().astype(int).tolist()]


def _explained(
    row: int,
    prediction: str | float,
    values: ShapleyValues,
    columns: Sequence[str],
    neighbors: Sequence[NeighborLike],
) -> Explained:
    return Explained(
        row=row,
        prediction=prediction,
        output=values.output,
        contributions=dict(zip(columns, values.values.tolist(), strict=True)),
        errors=dict(zip(columns, values.errors.tolist(), strict=True)),
        evaluations=values.evaluations,
        neighbors=tuple(neighbors),
    )
