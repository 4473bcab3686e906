"""Writes the ensemble of a bundle as one SQL query, if its members are linear functions or small trees.

Thresholds are those that compare numbers in double precision exactly as tabapp compares them in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tabapp import files
from tabapp.bundle.export.code_text import comment, sql_name, sql_text
from tabapp.bundle.export.spellings import booleans_of_databases
from tabapp.bundle.files.records import IntervalScale
from tabapp.bundle.prediction.load import LoadedBundle, load_bundle
from tabapp.bundle.prediction.local import LocalPredictor
from tabapp.data.schema import Schema
from tabapp.ensemble.calibration import ClassScaling
from tabapp.errors import UsageError
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN
from tabapp.features.columns import BooleanStep, CategoricalStep, NumericStep
from tabapp.features.derived import Derived, Deviation
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.shift import Shift
from tabapp.models.formula import ConstantFormula, Formula, Head, LinearFormula, TreeFormula

MOST_NODES = 50_000
"""Nodes of all trees together: databases parse longer queries slowly or not at all."""
TABLE = "data"
_ALIAS = "t"


class NotConvertible(Exception):
    """A part has no counterpart in SQL; the message says which and why."""


@dataclass(frozen=True)
class Number:
    """A feature that is a number: a column, or arithmetic of columns that is NULL where the feature is missing."""

    expression: str


@dataclass(frozen=True)
class Levels:
    """A feature that is computed from the text of a column: a value for each level, for NULL, and for every other text."""

    column: str
    values: dict[str, float]
    missing: float
    unseen: float


Source = Number | Levels


def write_sql(bundle: Path, target: Path) -> None:
    """Write a query that predicts the rows of a table `data`. The models are loaded in this process, so the bundle must be trusted.

    Raises:
        UsageError: a member, a name or a text has no counterpart in SQL, or the file cannot be written.
        BundleError: the bundle is not valid.
    """
    loaded = load_bundle(bundle)
    try:
        query = query_of(loaded)
    except NotConvertible as error:
        raise UsageError(
            f"The ensemble cannot be written as SQL: {error}. Make a bundle of small models with `tabapp export RUN --refit "
            "--limit-ms MS` or `--distill linear`."
        ) from None
    try:
        files.write_bytes(target, query.encode())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path.") from None


def query_of(loaded: LoadedBundle) -> str:
    """The query.

    Raises:
        NotConvertible: a member has no counterpart.
        UsageError: SQL cannot contain a name or a text.
    """
    predictor = loaded.predictor
    assert isinstance(predictor, LocalPredictor)
    outputs: list[str] = []
    parts: list[tuple[float, list[str]]] = []
    n_nodes = 0
    for candidate in loaded.contents.ensemble.candidates:
        for fold in candidate.folds:
            preparer = predictor.preparers[fold.features]
            formula = predictor.models[fold.model].formula(preparer.spec)
            if formula is None:
                raise NotConvertible(f"{candidate.model} is neither trees nor a linear function")
            n_nodes += len(formula.feature) if isinstance(formula, TreeFormula) else 0
            if n_nodes > MOST_NODES:
                raise NotConvertible(f"its trees have more than {MOST_NODES:,} nodes")
            name = f"m{len(parts) + 1}"
            raw, values = _model(formula, _sources(preparer), name)
            outputs += [f"{expression} AS {name}_{number}" for number, expression in enumerate(raw, start=1)]
            parts.append((candidate.weight / len(candidate.folds), values))
    blended = [
        _sum([f"{_number(share)} * {values[output]}" for share, values in parts]) for output in range(len(parts[0][1]))
    ]
    return _query(loaded, outputs, blended)


def _query(loaded: LoadedBundle, outputs: Sequence[str], blended: Sequence[str]) -> str:
    schema, manifest = loaded.contents.schema, loaded.contents.manifest
    outer: list[str]
    if schema.classes:
        names = [f"p{code}" for code in range(len(blended))]
        calibration = loaded.contents.ensemble.calibration
        if isinstance(calibration, ClassScaling):
            numbers = zip(blended, calibration.powers, calibration.factors, strict=True)
            blended = [f"{_number(factor)} * power({value}, {_number(power)})" for value, power, factor in numbers]
        elif calibration is not None:
            blended = [f"power({value}, {_number(1 / calibration)})" for value in blended]
        shown = ",\n  ".join(f"{value} AS {name}" for value, name in zip(blended, names, strict=True))
        probabilities = names if calibration is None else [f"{name} / ({' + '.join(names)})" for name in names]
        cases = " ".join(
            f"WHEN {' AND '.join(f'{name} >= {other}' for other in names[code + 1 :])} THEN {sql_text(schema.classes[code])}"
            for code, name in enumerate(names[:-1])
        )
        threshold = loaded.contents.ensemble.threshold
        if threshold is not None:
            labels = [sql_text(label) for label in schema.classes]
            cases = f"WHEN {probabilities[1]} < {_number(threshold)} THEN {labels[0]}"
        outer = [f"CASE {cases} ELSE {sql_text(schema.classes[-1])} END AS prediction"]
        outer += [
            f"{probability} AS {sql_name(f'probability_{label}')}"
            for probability, label in zip(probabilities, schema.classes, strict=True)
        ]
    else:
        shown = f"{blended[0]} AS prediction"
        half = loaded.contents.ensemble.residual_quantile
        outer = ["prediction"]
        if half is not None:
            width = _half_width(half, loaded.contents.ensemble.interval_scale)
            outer += [f"prediction - {width} AS low", f"prediction + {width} AS high"]
    # The query passes no column of the table on: its own names cannot be confused with those of the table.
    inner = ",\n  ".join(outputs or ["0 AS m0"])
    listed = ",\n  ".join(outer)
    return (
        f"-- Predicts {comment(schema.target)} ({schema.task}) for each row of the table {TABLE}.\n"
        f"-- Made from run {comment(manifest.run)} by {comment(manifest.created_by)}.\n"
        "-- NULL is a missing cell. Numbers are numbers, and all other columns are texts as in the training file.\n"
        f"{_marks(schema)}"
        f"WITH outputs AS (\n  SELECT\n  {inner}\n  FROM {sql_name(TABLE)} {_ALIAS}\n), blended AS (\n  SELECT\n  {shown}\n"
        f"  FROM outputs\n)\nSELECT\n  {listed}\nFROM blended;\n"
    )


def _marks(schema: Schema) -> str:
    """Comments on the columns of marks."""
    return "".join(
        f"-- The column {comment(column.name)} has the marks beside the values of {comment(name)}; NULL is no mark.\n"
        for name, column in schema.companions.items()
    )


def _half_width(mean: float, scale: IntervalScale | None) -> str:
    """The half-width of the 90 % interval as an expression of `prediction`: `intervals.scale_at` times the mean half-width."""
    if scale is None:
        return _number(mean)
    widths = [mean * factor for factor in scale.factors]
    lines = [f"WHEN prediction <= {_number(scale.predictions[0])} THEN {_number(widths[0])}"]
    for (start, end), (low, high) in zip(pairwise(scale.predictions), pairwise(widths), strict=True):
        slope = (high - low) / (end - start)
        value = f"{_number(low)} + (prediction - {_number(start)}) * {_number(slope)}"
        lines.append(f"WHEN prediction <= {_number(end)} THEN {value}")
    return f"CASE {' '.join(lines)} ELSE {_number(widths[-1])} END"


def _sources(preparer: FeaturePreparer) -> tuple[list[Source | None], list[Levels]]:
    """The source of each numeric feature (None if it has no counterpart), and of each categorical one with its codes as values.

    Raises:
        NotConvertible: numbers are scaled.
    """
    state = preparer.state
    if state.recipe.numeric != "raw":
        raise NotConvertible(f"its features are scaled by {state.recipe.numeric}")
    every: list[Source | None] = []
    for step in state.steps:
        every += _of_step(step)
    for encoded, encoding in zip(state.encoded, preparer.encodings, strict=True):
        step = state.steps[encoded.step]
        assert isinstance(step, CategoricalStep)
        for means in encoding.means.T:
            codes = {level: float(means[code]) for code, level in enumerate(step.levels, start=FIRST_LEVEL)}
            every.append(Levels(step.column, codes, float(means[MISSING]), float(means[UNSEEN])))
    every += [_of_derived(each, every) for each in state.derived]
    categorical: list[Levels] = []
    for index in state.kept_categorical:
        step = state.steps[index]
        assert isinstance(step, CategoricalStep)
        codes = {level: float(code) for code, level in enumerate(step.levels, start=FIRST_LEVEL)}
        categorical.append(Levels(step.column, codes, MISSING, UNSEEN))
    numeric = [every[index] for index in state.kept_numeric]
    for shift in state.shifts:
        numeric[shift.index] = _shifted(numeric[shift.index], shift)
    return numeric, categorical


def _shifted(source: Source | None, shift: Shift) -> Source | None:
    if isinstance(source, Number):
        return Number(f"(({source.expression} - {_number(shift.center)}) * {_number(shift.factor)})")
    if isinstance(source, Levels):

        def moved(value: float) -> float:
            return float(shift.apply(np.array(value)))

        values = {level: moved(value) for level, value in source.values.items()}
        return Levels(source.column, values, moved(source.missing), moved(source.unseen))
    return None


def _of_derived(feature: Derived, numbers: Sequence[Source | None]) -> Source | None:
    """Arithmetic of two columns; None for other features."""
    if isinstance(feature, Deviation):
        return None
    first, second = numbers[feature.first], numbers[feature.second]
    if not (isinstance(first, Number) and isinstance(second, Number)):
        return None
    sign = {"sum": "+", "difference": "-", "product": "*", "ratio": "/"}[feature.operation]
    divisor = f"NULLIF({second.expression}, 0)" if sign == "/" else second.expression
    # The factor keeps integers from being divided without a rest.
    return Number(f"(1.0 * {first.expression} {sign} {divisor})")


def _of_step(step: Any) -> list[Source | None]:
    nan = float("nan")
    if isinstance(step, NumericStep):
        # SQLite compares a text with a number without reading the text.
        return [Number(f"({_column(step.column)} + 0.0)")]
    if isinstance(step, BooleanStep):
        values = {step.false: 0.0, step.true: 1.0}
        spelled = booleans_of_databases(tuple(values))
        values |= {text: values[level] for level, texts in spelled.items() for text in texts}
        return [Levels(step.column, values, nan, nan)]
    if isinstance(step, CategoricalStep):
        made: list[Source | None] = []
        if step.frequency:
            made.append(Levels(step.column, dict(zip(step.levels, map(float, step.counts), strict=True)), nan, 1.0))
        if step.order:
            made.append(Levels(step.column, {level: float(rank) for rank, level in enumerate(step.order)}, nan, nan))
        return made
    return [None] * len(step.names())


def _model(
    formula: Formula, sources: tuple[list[Source | None], list[Levels]], name: str
) -> tuple[list[str], list[str]]:
    """Expressions of the outputs of a model, and of its predictions, which refer to the outputs as `name_1`, `name_2`, …

    Raises:
        NotConvertible: a feature has no counterpart.
    """
    if isinstance(formula, ConstantFormula):
        return [], [_number(value) for value in formula.values]
    raw = _trees(formula, sources) if isinstance(formula, TreeFormula) else _linear(formula, sources)
    return raw, _predictions(formula.head, [f"{name}_{number}" for number in range(1, len(raw) + 1)])


def _predictions(head: Head, outputs: Sequence[str]) -> list[str]:
    if head.link in ("identity", "exponential"):
        output = f"EXP({outputs[0]})" if head.link == "exponential" else outputs[0]
        value = f"({_number(head.scale)} * {output} + {_number(head.shift)})"
        if head.limits is None:
            return [value]
        low, high = map(_number, head.limits)
        return [f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"]
    if head.link == "logistic":
        shares = [f"(1.0 / (1.0 + EXP({outputs[0]})))", f"(1.0 / (1.0 + EXP(-{outputs[0]})))"]
    elif head.link == "softmax":
        # Relative to the first output: differences of log-odds are far below the range of EXP.
        total = _sum([f"EXP({output} - {outputs[0]})" for output in outputs])
        shares = [f"(EXP({output} - {outputs[0]}) / {total})" for output in outputs]
    else:
        total = _sum(outputs)
        shares = [f"({output} / {total})" for output in outputs]
    placed = dict(zip(head.classes, shares, strict=True))
    return [placed.get(code, "0.0") for code in range(head.n_classes)]


def _trees(formula: TreeFormula, sources: tuple[list[Source | None], list[Levels]]) -> list[str]:
    terms: list[list[str]] = [[_number(base)] for base in formula.base]
    n_values = formula.value.shape[1]
    for root, group in zip(formula.roots.tolist(), formula.group.tolist(), strict=True):
        for value in range(n_values):
            terms[group + value].append(_tree(formula, sources, root, value))
    return [_sum(each) for each in terms]


def _tree(formula: TreeFormula, sources: tuple[list[Source | None], list[Levels]], node: int, value: int) -> str:
    left, right = formula.children[node].tolist()
    if left == node:
        return _number(float(formula.value[node, value]))
    numeric, categorical = sources
    feature = int(formula.feature[node])
    if feature >= len(numeric):
        codes = formula.left_codes[node]
        levels = categorical[feature - len(numeric)]
        condition = _in_levels(levels, lambda code: int(code) in codes)
    else:
        source, threshold = numeric[feature], formula.threshold[node]
        missing_left = bool(formula.missing_left[node])
        if source is None:
            raise NotConvertible("a feature made from a date, a text or a category has no counterpart in SQL")
        if isinstance(source, Number):
            compared = f"{source.expression} <= {_number(boundary(threshold))}"
            condition = f"({source.expression} IS NULL OR {compared})" if missing_left else compared
        else:
            condition = _in_levels(
                source, lambda number: missing_left if math.isnan(number) else np.float32(number) <= threshold
            )
    return (
        f"CASE WHEN {condition} THEN {_tree(formula, sources, left, value)} ELSE "
        f"{_tree(formula, sources, right, value)} END"
    )


def boundary(threshold: np.float32) -> float:
    """The largest double that, rounded to single precision, is at most a threshold."""
    if not np.isfinite(threshold):
        return math.copysign(1.7e308, float(threshold))
    above = np.nextafter(threshold, np.float32(np.inf))
    middle = (float(threshold) + float(above)) / 2
    # A number in the middle is rounded to the neighbor whose last bit is 0.
    return middle if float(np.float32(middle)) <= float(threshold) else math.nextafter(middle, -math.inf)


def _in_levels(levels: Levels, goes_left: Any) -> str:
    """The condition that the value of a feature goes left."""
    column = _column(levels.column)
    left = [level for level, value in levels.values.items() if goes_left(value)]
    right = [level for level, value in levels.values.items() if not goes_left(value)]
    missing_left = goes_left(levels.missing)
    if goes_left(levels.unseen):
        condition = f"{column} NOT IN ({', '.join(map(sql_text, right))})" if right else f"{column} IS NOT NULL"
    else:
        condition = f"{column} IN ({', '.join(map(sql_text, left))})" if left else "1 = 0"
    return f"({column} IS NULL OR {condition})" if missing_left else condition


def _linear(formula: LinearFormula, sources: tuple[list[Source | None], list[Levels]]) -> list[str]:
    numeric, categorical = sources
    made: list[str] = []
    for output in range(len(formula.intercept)):
        terms = [_number(formula.intercept[output])]
        shown = dict(zip(formula.indicators.tolist(), formula.indicator_weight[:, output].tolist(), strict=True))
        for index, source in enumerate(numeric):
            if source is None:
                raise NotConvertible("a feature made from a date, a text or a category has no counterpart in SQL")
            center, scale = float(formula.mean[index]), float(formula.std[index])
            weight = float(formula.weight[index, output])
            terms.append(_linear_term(source, center, scale, weight, formula.limit, shown.get(index, 0.0)))
        for number, levels in enumerate(categorical):
            weights = {
                int(code): float(weight[output])
                for (column, code), weight in zip(formula.levels.tolist(), formula.level_weight, strict=True)
                if column == number
            }
            by_level = {level: weights.get(int(code), 0.0) for level, code in levels.values.items()}
            terms.append(_case(levels.column, by_level, weights.get(MISSING, 0.0), weights.get(UNSEEN, 0.0)))
        made.append(_sum(terms))
    return made


def _linear_term(source: Source, center: float, scale: float, weight: float, limit: float, missing: float) -> str:
    """The contribution of a numeric feature.

    Args:
        missing: contribution of a missing cell.
    """

    def contribution(number: float) -> float:
        return missing if math.isnan(number) else weight * min(max((number - center) / scale, -limit), limit)

    if isinstance(source, Levels):
        values = {level: contribution(number) for level, number in source.values.items()}
        return _case(source.column, values, contribution(source.missing), contribution(source.unseen))
    column = source.expression
    return (
        f"CASE WHEN {column} IS NULL THEN {_number(missing)} WHEN {column} < {_number(center - limit * scale)} THEN "
        f"{_number(-limit * weight)} WHEN {column} > {_number(center + limit * scale)} THEN {_number(limit * weight)} ELSE "
        f"{_number(weight / scale)} * ({column} - {_number(center)}) END"
    )


def _case(column: str, values: dict[str, float], missing: float, unseen: float) -> str:
    cell = _column(column)
    cases = " ".join(
        f"WHEN {cell} = {sql_text(level)} THEN {_number(value)}" for level, value in values.items() if value != unseen
    )
    return f"CASE WHEN {cell} IS NULL THEN {_number(missing)} {cases} ELSE {_number(unseen)} END"


def _sum(terms: Sequence[str]) -> str:
    """A sum as a balanced tree of additions, because databases bound the depth of an expression."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_sum(terms[:middle])} + {_sum(terms[middle:])})"


def _number(value: float) -> str:
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def _column(name: str) -> str:
    """A column of the table."""
    return f"{_ALIAS}.{sql_name(name)}"
