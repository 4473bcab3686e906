"""Compute the arrays that a family of models needs from a typed frame, with a state fitted on training rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors.numpy import save as save_arrays

from tabapp.data.columns import column_of
from tabapp.data.reading.dialect import unique_names
from tabapp.data.schema import Column, Schema
from tabapp.errors import BundleError
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.checks import check_against_schema, check_state, expected_arrays
from tabapp.features.columns import (
    BooleanStep,
    CategoricalStep,
    DatetimeStep,
    Int32,
    NumericStep,
    Step,
    TextStep,
    source_of,
)
from tabapp.features.derived import Derived, Deviation, Numbers, name_and_columns, select
from tabapp.features.quantile import QuantileMap
from tabapp.features.saved import demand, read_arrays
from tabapp.features.scale import ScaleMap
from tabapp.features.shift import fit_shifts, shifted
from tabapp.features.state import STATE_FILE, EncodedColumn, PreparerState, decode_state
from tabapp.features.target_encoding import Target, TargetEncoding, classes_to_encode, cross_fitted, names_of
from tabapp.features.text import CountedTexts, TextMap
from tabapp.files import write_bytes, write_json

Float64 = npt.NDArray[np.float64]
Scaling = QuantileMap | ScaleMap

_ARRAYS = "features.safetensors"
_CHUNK_ROWS = 65_536
"""Rows whose numbers are scaled at the same time, which needs a few copies of them."""
_MANY_LEVELS = 50
_MAX_LEVELS_RAW = 10_000
_MAX_LEVELS_EMBEDDED = 500
"""Deep models have an embedding for each level, which they cannot learn from few rows."""


class FeaturePreparer:
    """Computes `Table`s from typed frames. Booleans are 0 and 1 with the "raw" recipe, else categories with two levels."""

    def __init__(
        self,
        state: PreparerState,
        texts: dict[str, TextMap],
        scaling: Scaling | None,
        encodings: Sequence[TargetEncoding] = (),
        means: Mapping[int, Float64] | None = None,
    ) -> None:
        self._state = state
        self._texts = texts
        self._scaling = scaling
        self._encodings = encodings
        self._means = means or {}

    @property
    def spec(self) -> FeatureSpec:
        """The columns of the tables."""
        return self._state.spec

    @property
    def state(self) -> PreparerState:
        """The fitted steps."""
        return self._state

    @property
    def scaling(self) -> Scaling | None:
        """How kept numbers are scaled; None for the recipe "raw"."""
        return self._scaling

    @property
    def encodings(self) -> Sequence[TargetEncoding]:
        """The target encodings of `state.encoded`."""
        return self._encodings

    @property
    def means(self) -> Mapping[int, Float64]:
        """The means by code of each `Deviation`, by its index in `state.derived`."""
        return self._means

    @property
    def recipe(self) -> FeatureRecipe:
        """The requested recipe."""
        return self._state.recipe

    @classmethod
    def fit(cls, frame: pl.DataFrame, schema: Schema, recipe: FeatureRecipe, seed: int) -> FeaturePreparer:
        """Fit on training rows without using the target.

        Args:
            frame: a typed frame (`typed_frame`) with training rows only. The target column is ignored.

        Raises:
            ValueError: the recipe needs the target; use `fit_transform`.
        """
        if recipe.target_encoding or recipe.derived:
            raise ValueError("A recipe with target encoding or derived features needs the target. Use fit_transform.")
        return cls._fit(frame, schema, recipe, seed, None, None)[0]

    @classmethod
    def fit_transform(
        cls,
        frame: pl.DataFrame,
        schema: Schema,
        recipe: FeatureRecipe,
        seed: int,
        target: Target,
        groups: npt.NDArray[np.generic] | None = None,
    ) -> tuple[FeaturePreparer, Table]:
        """Fit on training rows and compute their arrays.

        With target encoding the arrays differ from the result of `transform`, which is for other rows: the encoding of a
        training row is learned from the other folds, so it does not contain the target of the row.

        Args:
            frame: a typed frame with training rows only.
            target: (rows,) class codes or numbers.
            groups: (rows,) rows of a group are in the same fold; None for no groups.
        """
        preparer, numbers = cls._fit(frame, schema, recipe, seed, target, groups)
        return preparer, preparer._table(frame, numbers)

    @classmethod
    def _fit(
        cls,
        frame: pl.DataFrame,
        schema: Schema,
        recipe: FeatureRecipe,
        seed: int,
        target: Target | None,
        groups: npt.NDArray[np.generic] | None,
    ) -> tuple[FeaturePreparer, Float64]:
        steps: list[Step] = []
        texts: dict[str, TextMap] = {}
        for column in schema.features:
            values = column_of(frame, column.name)
            if column.kind != "text":
                steps.append(_fit_step(column, values, recipe))
            if column.kind == "text" or column.learns_texts:
                reduction = TextMap.fit(values, recipe.text_components, seed)
                if reduction is not None:
                    texts[column.name] = reduction
                steps.append(TextStep.fit(column.name, values, len(reduction.components) if reduction else 0))
        numbers = _numbers(steps, texts, frame, {})
        encoded: list[EncodedColumn] = []
        encodings: list[TargetEncoding] = []
        if recipe.target_encoding and target is not None:
            classes = classes_to_encode(target, schema.task)
            for i, step in enumerate(steps):
                if not isinstance(step, CategoricalStep) or column_of(frame, step.column).n_unique() <= _MANY_LEVELS:
                    continue
                codes = step.codes(column_of(frame, step.column))
                out_of_fold = cross_fitted(codes, step.cardinality, target, schema.task, classes, seed, groups)
                numbers = np.concatenate([numbers, out_of_fold], axis=1)
                encodings.append(TargetEncoding.fit(codes, step.cardinality, target, schema.task, classes))
                encoded.append(EncodedColumn(i, tuple(names_of(step.column, schema.task, classes, schema.classes))))
        derived: list[tuple[Derived, Float64 | None]] = []
        if recipe.derived and target is not None:
            parts = Numbers(numbers[:, : sum(len(step.names()) for step in steps)], _codes_of(steps, frame))
            derived = select(parts, steps, target, schema.task, seed)
            made = [parts.derived(feature, means)[:, None] for feature, means in derived]
            numbers = np.concatenate([numbers, *made], axis=1)
        missing = np.isnan(numbers)
        all_missing = missing.all(axis=0) if len(frame) else np.ones(numbers.shape[1], dtype=bool)
        constant = _constant(numbers)
        some_missing = missing.any(axis=0) & ~all_missing
        keeps_missing = recipe.numeric == "raw" or recipe.missing == "keep"
        indicators: list[int] = [] if keeps_missing else np.flatnonzero(some_missing).tolist()
        kept = np.flatnonzero(~all_missing & (~constant | (some_missing & keeps_missing)))
        is_scaled = recipe.numeric != "raw" and len(kept) > 0
        shifts = fit_shifts(numbers[:, kept]) if recipe.numeric in ("raw", "quantile") else ()
        scaling = _fit_scaling(shifted(numbers[:, kept], shifts), recipe, seed) if is_scaled else None
        categorical = [
            i for i, step in enumerate(steps)
            if isinstance(step, CategoricalStep) and len(np.unique(step.codes(column_of(frame, step.column)))) > 1
        ]  # fmt: skip
        state = PreparerState(
            recipe=recipe,
            steps=tuple(steps),
            encoded=tuple(encoded),
            derived=tuple(feature for feature, _ in derived),
            kept_numeric=tuple(kept.tolist()),
            shifts=shifts,
            indicators=tuple(_deduplicate(indicators, missing)),
            kept_categorical=tuple(categorical),
            spec=FeatureSpec(numeric=(), categorical=(), cardinalities=(), sources=()),
        )
        means = {i: each for i, (_, each) in enumerate(derived) if each is not None}
        return cls(msgspec.structs.replace(state, spec=_spec(state)), texts, scaling, encodings, means), numbers

    def transform(self, frame: pl.DataFrame, counted: dict[str, CountedTexts] | None = None) -> Table:
        """Compute the arrays of any rows. The result for a row does not depend on the other rows.

        Args:
            frame: a typed frame with at least the schema's feature columns.
            counted: receives the counted texts of this frame by column, and saves counting those that it has. Preparations of
                the same frame share it.

        Returns:
            A table without target and weights.
        """
        numbers = _numbers(self._state.steps, self._texts, frame, {} if counted is None else counted)
        blocks: list[Float64] = []
        for column, encoding in zip(self._state.encoded, self._encodings, strict=True):
            step = self._state.steps[column.step]
            assert isinstance(step, CategoricalStep)
            blocks.append(encoding.transform(step.codes(column_of(frame, step.column))))
        parts = Numbers(numbers, _codes_of(self._state.steps, frame))
        blocks += [parts.derived(feature, self._means.get(i))[:, None] for i, feature in enumerate(self._state.derived)]
        return self._table(frame, np.concatenate([numbers, *blocks], axis=1) if blocks else numbers)

    def _table(self, frame: pl.DataFrame, numbers: Float64) -> Table:
        state = self._state
        n_kept = len(state.kept_numeric)
        numeric = np.empty((len(frame), n_kept + len(state.indicators)), dtype=np.float32)
        for start in range(0, len(frame), _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            kept = shifted(numbers[rows, list(state.kept_numeric)], state.shifts)
            if isinstance(self._scaling, ScaleMap) and state.recipe.missing == "indicator":
                kept = np.where(np.isnan(kept), self._scaling.centers, kept)
            numeric[rows, :n_kept] = kept if self._scaling is None else self._scaling.transform(kept)
            numeric[rows, n_kept:] = np.isnan(numbers[rows, list(state.indicators)])
        codes = np.empty((len(frame), len(state.kept_categorical)), dtype=np.int32)
        for i, index in enumerate(state.kept_categorical):
            step = state.steps[index]
            assert isinstance(step, CategoricalStep)
            codes[:, i] = step.codes(column_of(frame, step.column))
        return Table(numeric=numeric, categorical=codes)

    def save(self, folder: Path) -> None:
        """Write the state to an existing folder as JSON and safetensors, formats that cannot execute code."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for i, step in enumerate(self._state.steps):
            if isinstance(step, TextStep) and step.column in self._texts:
                arrays[f"text.{i}.idf"] = self._texts[step.column].idf
                arrays[f"text.{i}.components"] = self._texts[step.column].components
        for i, encoding in enumerate(self._encodings):
            arrays[f"encoding.{i}.means"] = encoding.means
        arrays |= {f"derived.{i}.means": means for i, means in self._means.items()}
        if isinstance(self._scaling, QuantileMap):
            arrays["quantile.quantiles"] = self._scaling.quantiles
            arrays["quantile.means"] = self._scaling.means
        elif self._scaling is not None:
            arrays["scale.centers"] = self._scaling.centers
            arrays["scale.factors"] = self._scaling.factors
        state = msgspec.to_builtins(self._state)
        # Earlier versions read the files without what they do not know.
        if self.recipe.rows == "training":
            del state["recipe"]["rows"]
        if not self.recipe.derived:
            del state["recipe"]["derived"], state["derived"], state["spec"]["partners"]
        for step in state["steps"]:
            if step.get("marks_of", "") is None:
                del step["marks_of"]
            if step.get("n_numbers") == 0:
                del step["n_numbers"], step["last_number"], step["decimal"], step["thousands"]
        if not self._state.shifts:
            del state["shifts"]
        write_json(folder / STATE_FILE, state)
        write_bytes(
            folder / _ARRAYS, save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        )

    @classmethod
    def load(cls, folder: Path) -> FeaturePreparer:
        """Read the state that `save` wrote; tables are bit-identical to those before saving.

        Raises:
            BundleError: the files are missing, damaged, or of an unsupported version.
        """
        try:
            state = decode_state((folder / STATE_FILE).read_bytes())
            arrays = read_arrays(folder / _ARRAYS, expected_arrays(state), unchecked=("quantile.means",))
            check_state(state, arrays)
            demand(_agree(state.spec, _spec(state)), "its columns do not follow from its steps")
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise BundleError(f"{folder}: the feature state cannot be read ({error})") from None
        texts = {
            step.column: TextMap(arrays[f"text.{i}.idf"], arrays[f"text.{i}.components"])
            for i, step in enumerate(state.steps)
            if f"text.{i}.idf" in arrays
        }
        scaling = None
        if "quantile.quantiles" in arrays:
            scaling = QuantileMap(arrays["quantile.quantiles"], arrays["quantile.means"])
        elif "scale.centers" in arrays:
            smooth = state.recipe.numeric == "robust"
            scaling = ScaleMap(arrays["scale.centers"], arrays["scale.factors"], smooth)
        encodings = [TargetEncoding(arrays[f"encoding.{i}.means"]) for i in range(len(state.encoded))]
        means = {i: arrays[f"derived.{i}.means"] for i, each in enumerate(state.derived) if isinstance(each, Deviation)}
        return cls(state, texts, scaling, encodings, means)

    def check(self, schema: Schema) -> None:
        """Check that the schema has the columns that the features are computed from.

        Raises:
            ValueError: a column is missing or has another kind.
        """
        check_against_schema(self._state.steps, schema)


def _agree(spec: FeatureSpec, derived: FeatureSpec) -> bool:
    """Whether two specs describe the same columns. Older versions may have named them differently."""
    same = all(getattr(spec, each) == getattr(derived, each) for each in ("cardinalities", "sources", "partners"))
    names = (*spec.numeric, *spec.categorical)
    return same and len(spec.numeric) == len(derived.numeric) and len(set(names)) == len(names) == len(spec.sources)


def recipe_for(recipe: FeatureRecipe, schema: Schema) -> FeatureRecipe:
    """Remove the parts of a recipe that do not apply to a table, so that more models share their features."""
    many = any(column.kind == "categorical" and column.unique > _MANY_LEVELS for column in schema.features)
    n_numbers = sum(column.kind in ("numeric", "datetime", "boolean") for column in schema.features)
    pairs = n_numbers > 1 or (n_numbers and any(column.kind == "categorical" for column in schema.features))
    return msgspec.structs.replace(
        recipe, target_encoding=recipe.target_encoding and many, derived=recipe.derived and bool(pairs)
    )


def uses_sklearn(recipe: FeatureRecipe, schema: Schema) -> bool:
    """Whether fitting the features of a recipe on a table imports scikit-learn."""
    has_text = any(column.kind == "text" or column.learns_texts for column in schema.features)
    return has_text or recipe.numeric == "quantile" or recipe_for(recipe, schema).target_encoding


def _fit_scaling(numbers: Float64, recipe: FeatureRecipe, seed: int) -> Scaling | None:
    match recipe.numeric:
        case "raw":
            return None
        case "quantile":
            return QuantileMap.fit(numbers, seed, keep_missing=recipe.missing == "keep")
        case "standard":
            return ScaleMap.fit_standard(numbers)
        case "robust":
            return ScaleMap.fit_robust(numbers)


def _fit_step(column: Column, values: pl.Series, recipe: FeatureRecipe) -> Step:
    if column.kind == "numeric":
        return NumericStep(column.name)
    if column.kind == "datetime":
        return DatetimeStep.fit(column.name, values, cyclic=recipe.numeric != "raw")
    if column.kind == "boolean" and recipe.numeric == "raw" and len(column.levels) == 2:
        return BooleanStep.fit(column.name, column.levels)
    embedded = recipe.numeric != "raw"
    max_levels = _MAX_LEVELS_EMBEDDED if embedded else _MAX_LEVELS_RAW
    return CategoricalStep.fit(
        column.name,
        values,
        max_levels,
        _MANY_LEVELS,
        frequency=not embedded,
        order=column.order,
        marks_of=column.marks_of,
    )


def _numbers(
    steps: Sequence[Step], texts: dict[str, TextMap], frame: pl.DataFrame, counted: dict[str, CountedTexts]
) -> Float64:
    """(rows, numbers of all steps) float64, NaN where missing."""
    if len(frame) <= _CHUNK_ROWS:
        return np.concatenate([np.empty((len(frame), 0)), *_blocks(steps, texts, frame, counted)], axis=1)
    # Joining the columns of a large table would hold them twice.
    widths = [block.shape[1] for block in _blocks(steps, texts, frame.head(1), {})]
    numbers = np.empty((len(frame), sum(widths)))
    end = 0
    for width, block in zip(widths, _blocks(steps, texts, frame, counted), strict=True):
        start, end = end, end + width
        numbers[:, start:end] = block
    return numbers


def _blocks(
    steps: Sequence[Step], texts: dict[str, TextMap], frame: pl.DataFrame, counted: dict[str, CountedTexts]
) -> Iterator[Float64]:
    for step in steps:
        yield step.numbers(column_of(frame, step.column))
        if isinstance(step, TextStep) and step.column in texts:
            if step.column not in counted:
                counted[step.column] = CountedTexts.of(column_of(frame, step.column))
            yield texts[step.column].transform(counted[step.column]).astype(np.float64)


def _codes_of(steps: Sequence[Step], frame: pl.DataFrame) -> Callable[[int], Int32]:
    """A function from the index of a `CategoricalStep` to its codes in a frame, which are computed once."""

    @cache
    def codes(index: int) -> Int32:
        step = steps[index]
        assert isinstance(step, CategoricalStep)
        return step.codes(column_of(frame, step.column))

    return codes


def _constant(numbers: Float64) -> npt.NDArray[np.bool_]:
    """(columns,) whether all non-missing cells of a column are equal."""
    low = np.fmin.reduce(numbers, axis=0, initial=np.inf)
    high = np.fmax.reduce(numbers, axis=0, initial=-np.inf)
    return low >= high


def _deduplicate(indicators: list[int], missing: npt.NDArray[np.bool_]) -> list[int]:
    """Keep one indicator of those that are equal in all training rows, such as those computed from one column."""
    seen: set[bytes] = set()
    kept: list[int] = []
    for index in indicators:
        pattern = np.packbits(missing[:, index]).tobytes()
        if pattern not in seen:
            seen.add(pattern)
            kept.append(index)
    return kept


def _spec(state: PreparerState) -> FeatureSpec:
    made = [(name, source_of(step)) for step in state.steps for name in step.names()]
    made += [(name, source_of(state.steps[column.step])) for column in state.encoded for name in column.names]
    partners: dict[int, str] = {}
    for feature in state.derived:
        name, column, partners[len(made)] = name_and_columns(feature, made, state.steps)
        made.append((name, column))
    numeric = [made[i] for i in state.kept_numeric]
    numeric += [(f"{made[i][0]} missing", made[i][1]) for i in state.indicators]
    categorical = [state.steps[i] for i in state.kept_categorical]
    names, _ = unique_names([name for name, _ in numeric] + [step.column for step in categorical])
    return FeatureSpec(
        numeric=names[: len(numeric)],
        categorical=names[len(numeric) :],
        cardinalities=tuple(step.cardinality for step in categorical if isinstance(step, CategoricalStep)),
        sources=(*(column for _, column in numeric), *(source_of(step) for step in categorical)),
        partners=tuple((place, partners[i]) for place, i in enumerate(state.kept_numeric) if i in partners),
    )
