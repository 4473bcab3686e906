"""Checks of a saved feature state: its parts agree with each other and with the schema of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.data.forms.numbers import NumberFormat, is_number_format
from tabapp.data.schema import Schema
from tabapp.features.arrays import MOST_DERIVED
from tabapp.features.columns import (
    DATE_PARTS,
    PERIODS,
    BooleanStep,
    CategoricalStep,
    DatetimeStep,
    NumericStep,
    Step,
    TextStep,
    source_of,
)
from tabapp.features.derived import Deviation
from tabapp.features.saved import demand
from tabapp.features.shift import check_shifts
from tabapp.features.state import PreparerState
from tabapp.features.text import N_HASHES
from tabapp.features.text_numbers import MOST_NUMBERS

Arrays = Mapping[str, npt.NDArray[Any]]

_STEPS_OF_KIND: dict[str, tuple[type[Step], ...]] = {
    "numeric": (NumericStep,),
    "datetime": (DatetimeStep,),
    "text": (TextStep,),
    "boolean": (BooleanStep, CategoricalStep),
    "categorical": (CategoricalStep, TextStep),
}
_MAX_EPOCH = 2**60
"""Microseconds from 1970 to the year 38,500."""


def expected_arrays(state: PreparerState) -> dict[str, tuple[str, int]]:
    """Type and number of dimensions of the arrays that belong to a state."""
    expected: dict[str, tuple[str, int]] = {}
    for i, step in enumerate(state.steps):
        if isinstance(step, TextStep) and step.dimensions:
            expected |= {f"text.{i}.idf": ("float32", 1), f"text.{i}.components": ("float32", 2)}
    expected |= {f"encoding.{i}.means": ("float64", 2) for i in range(len(state.encoded))}
    deviations = [i for i, each in enumerate(state.derived) if isinstance(each, Deviation)]
    expected |= {f"derived.{i}.means": ("float64", 1) for i in deviations}
    if state.kept_numeric and state.recipe.numeric == "quantile":
        expected |= {"quantile.quantiles": ("float64", 2), "quantile.means": ("float64", 1)}
    elif state.kept_numeric and state.recipe.numeric != "raw":
        expected |= {"scale.centers": ("float64", 1), "scale.factors": ("float64", 1)}
    return expected


def check_state(state: PreparerState, arrays: Arrays) -> None:
    """Check that the steps, indices and arrays of a state agree. Its `spec` is compared by its reader.

    Args:
        arrays: as `expected_arrays` lists them, finite.

    Raises:
        ValueError: they contradict each other.
    """
    columns = [(step.column, isinstance(step, TextStep)) for step in state.steps]
    demand(len(set(columns)) == len(columns), "two steps have the same column")
    for i, step in enumerate(state.steps):
        _check_step(step, arrays.get(f"text.{i}.idf"), arrays.get(f"text.{i}.components"))
    for i, column in enumerate(state.encoded):
        demand(0 <= column.step < len(state.steps), f"the index {column.step} in 'encoded' is out of range")
        step = state.steps[column.step]
        demand(isinstance(step, CategoricalStep), f"'encoded' refers to {step.column!r}, which is not categorical")
        assert isinstance(step, CategoricalStep)
        shape = arrays[f"encoding.{i}.means"].shape
        demand(shape == (step.cardinality, len(column.names)), f"the encoding of {step.column!r} has the shape {shape}")
    n_of_steps = sum(len(step.names()) for step in state.steps)
    _check_derived(state, arrays, n_of_steps)
    n_numbers = n_of_steps + sum(len(column.names) for column in state.encoded) + len(state.derived)
    _check_indices("kept_numeric", state.kept_numeric, n_numbers)
    _check_indices("indicators", state.indicators, n_numbers)
    _check_indices("kept_categorical", state.kept_categorical, len(state.steps))
    for i in state.kept_categorical:
        step = state.steps[i]
        demand(isinstance(step, CategoricalStep), f"'kept_categorical' has {step.column!r}, which is not categorical")
    check_shifts(state.shifts, len(state.kept_numeric))
    _check_scaling(arrays, len(state.kept_numeric))


def check_against_schema(steps: Sequence[Step], schema: Schema) -> None:
    """Check that each step has a feature column of the schema of its kind.

    Raises:
        ValueError: a column is missing or has another kind.
    """
    features = {column.name: column for column in schema.features}
    for step in steps:
        demand(step.column in features, f"the schema has no feature {step.column!r}")
        column = features[step.column]
        demand(
            isinstance(step, _STEPS_OF_KIND.get(column.kind, (CategoricalStep,))),
            f"{step.column!r} is {column.kind} in the schema",
        )
        demand(source_of(step) == (column.marks_of or column.name), f"{step.column!r} has the marks of another column")


def _check_derived(state: PreparerState, arrays: Arrays, n_numbers: int) -> None:
    demand(len(state.derived) <= MOST_DERIVED, f"'derived' has {len(state.derived):,} features")
    demand(state.recipe.derived or not state.derived, "'derived' has features that the recipe does not ask for")
    for i, each in enumerate(state.derived):
        places = (each.number,) if isinstance(each, Deviation) else (each.first, each.second)
        demand(all(0 <= place < n_numbers for place in places), "an index in 'derived' is out of range")
        if isinstance(each, Deviation):
            demand(0 <= each.step < len(state.steps), "an index in 'derived' is out of range")
            step = state.steps[each.step]
            demand(isinstance(step, CategoricalStep), f"'derived' has {step.column!r}, which is not categorical")
            assert isinstance(step, CategoricalStep)
            shape = arrays[f"derived.{i}.means"].shape
            demand(shape == (step.cardinality,), f"the means by {step.column!r} have the shape {shape}")


def _check_step(step: Step, idf: npt.NDArray[Any] | None, components: npt.NDArray[Any] | None) -> None:
    name = repr(step.column)
    if isinstance(step, TextStep):
        if idf is not None and components is not None:
            demand(idf.shape == (N_HASHES,), f"the weights of {name} have the shape {idf.shape}")
            shape = (step.dimensions, N_HASHES)
            demand(components.shape == shape, f"the dimensions of {name} have the shape {components.shape}")
        else:
            demand(step.dimensions == 0, f"{name} has no dimensions")
        demand(0 <= step.n_numbers <= MOST_NUMBERS, f"{name} has {step.n_numbers:,} numbers")
        demand(step.n_numbers or not step.last_number, f"{name} has a last number, but no first one")
        demand(
            is_number_format(NumberFormat(step.decimal, step.thousands)), f"the numbers of {name} have no known format"
        )
    elif isinstance(step, DatetimeStep):
        demand(_are_unique(step.parts, DATE_PARTS), f"{name} has unknown parts of a date")
        demand(_are_unique(step.cycles, PERIODS), f"{name} has unknown periods of a date")
        demand(abs(step.start) < _MAX_EPOCH, f"the first date of {name} is out of range")
    elif isinstance(step, BooleanStep):
        demand(step.true != step.false, f"both levels of {name} are the same")
    elif isinstance(step, CategoricalStep):
        demand(_are_unique(step.levels) and _are_unique(step.order), f"a level of {name} appears twice")
        demand(len(step.counts) == len(step.levels), f"{name} has {len(step.counts):,} counts of levels")
        demand(all(0 <= count < 2**53 for count in step.counts), f"a count of {name} is out of range")


def _are_unique(names: Sequence[str], allowed: Iterable[str] | None = None) -> bool:
    distinct = set(names)
    return len(distinct) == len(names) and (allowed is None or distinct <= set(allowed))


def _check_indices(name: str, indices: Sequence[int], end: int) -> None:
    outside = next((index for index in indices if not 0 <= index < end), None)
    demand(outside is None, f"the index {outside} in {name!r} is out of range")
    demand(len(set(indices)) == len(indices), f"an index in {name!r} appears twice")


def _check_scaling(arrays: Arrays, n_kept: int) -> None:
    if "quantile.quantiles" in arrays:
        quantiles, means = arrays["quantile.quantiles"], arrays["quantile.means"]
        fits = len(quantiles) > 0 and quantiles.shape[1] == n_kept and means.shape == (n_kept,)
        demand(fits, "the quantiles do not fit the number of columns")
        demand(not np.isinf(means).any(), "a mean is infinite")
        demand((np.diff(quantiles, axis=0) >= 0).all(), "the quantiles are not in ascending order")
    elif "scale.centers" in arrays:
        shapes = {arrays["scale.centers"].shape, arrays["scale.factors"].shape}
        demand(shapes == {(n_kept,)}, "the scales do not fit the number of columns")
