"""Writes a Python script that trains the best model of a bundle again, with pandas and the model's own library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tabapp import files
from tabapp.bundle.export.code_text import comment
from tabapp.bundle.export.script_models import DATE_PARTS, MODELS, STRICT, catboost_class, has_plain_names
from tabapp.bundle.files.archive import open_archive
from tabapp.bundle.files.contents import decode_contents
from tabapp.bundle.files.records import Candidate, Manifest
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.forms.moments import order_of
from tabapp.data.schema import Column, Schema
from tabapp.errors import BundleError, UsageError, option
from tabapp.features.columns import NumericStep
from tabapp.features.derived import SIGNS, Arithmetic
from tabapp.features.state import STATE_FILE, PreparerState, decode_state
from tabapp.models import registry

_SCORING = {
    "roc_auc": "roc_auc", "log_loss": "neg_log_loss", "accuracy": "accuracy", "balanced_accuracy": "balanced_accuracy", "f1": "f1",
    "average_precision": "average_precision", "brier": "neg_brier_score", "rmse": "neg_root_mean_squared_error",
    "mae": "neg_mean_absolute_error", "r2": "r2", "mape": "neg_mean_absolute_percentage_error",
    "median_absolute_error": "neg_median_absolute_error",
}  # fmt: skip
"""scikit-learn's scorers by the names of tabapp's metrics."""

_TEMPLATE = '''\
"""Trains a model that tabapp chose, with {packages}, and without tabapp.

    python SCRIPT.py TRAINING.csv                    print the score of a 5-fold cross-validation
    python SCRIPT.py TRAINING.csv NEW.csv OUT.csv    train on all rows, and write predictions
"""
# Predicts {predicted} with {title}.
# Model and hyperparameters are those of the run {run}{score}.

import sys

import numpy as np
import pandas as pd
{imports}

TARGET = {target!r}
{classes}

def read(path):
    """Read a table as text, so that nothing is converted by accident."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    return table.rename(columns=lambda name: " ".join(name.split()))


def features(table):
    """Compute the features of a table."""
    made = {{}}
{features}
    return pd.DataFrame(made, index=table.index){renamed}


def number(texts):
    """Numbers; everything else is missing."""
    return pd.to_numeric(texts, errors="coerce")


def category(texts, levels):
    """One of the levels of the training table; everything else is missing."""
    return pd.Categorical(texts.str.strip(), categories=levels)


{target_code}


def {maker}():
    """The model with its hyperparameters."""
{model}
{centered}

def main():
    training = read(sys.argv[1])
    training = training[training[TARGET].str.strip() != ""]
    X, y = features(training), target(training)
    if len(sys.argv) == 2:
        scores = cross_val_score(model(), X, y, cv={folds}, scoring={scoring!r})
        print(f"{scoring}: {{scores.mean():.6g}}")
        return
    new = read(sys.argv[2])
    fitted = model().fit(X, y)
{output}
    predictions.to_csv(sys.argv[3], index=False)


if __name__ == "__main__":
    main()
'''

_RENAMED = '.set_axis([f"feature {number}" for number in range(len(made))], axis=1)'


_CENTERED = '''

def model():
    """The model for the target less a constant, because single precision would round the target."""
    return TransformedTargetRegressor(
        uncentered(), func=lambda y: y - {center!r}, inverse_func=lambda y: y.astype(float) + {center!r}
    )
'''
LEAST_COARSE_TARGET = 1e-4
"""The target is centered if the steps of single precision there are larger than this share of its standard deviation."""


def write_script(bundle: Path, target: Path) -> str:
    """Write a script for the member with the largest weight whose library can train it alone; returns the name of the member.

    Loads no model.

    Raises:
        UsageError: no member can be written, or the file cannot be written.
        BundleError: the bundle is not valid.
    """
    with open_archive(bundle) as archive:
        archive.verify()
        contents = decode_contents(archive)
        usable = [c for c in contents.ensemble.candidates if c.model in MODELS]
        if not usable:
            names = ", ".join(sorted({c.model for c in contents.ensemble.candidates}))
            raise UsageError(
                f"The members of the ensemble ({names}) cannot be written as a script. It can contain {', '.join(sorted(MODELS))}."
            )
        best = max(usable, key=lambda candidate: candidate.weight)
        counts: list[int] = []
        center = 0.0
        for fold in best.folds:
            path = f"{fold.model}/model.json"
            saved: Any = json.loads(archive.read(path)) if path in archive else {}
            facts = saved.get("facts", {})
            center = 0.0 if contents.schema.classes else _center(saved.get("target"))
            counts += [facts["trees"]] if isinstance(facts, dict) and isinstance(facts.get("trees"), int) else []
        path = f"{best.folds[0].features}/{STATE_FILE}"
        try:
            state = decode_state(archive.read(path))
        except ValueError as error:
            raise BundleError(f"{bundle}: {path} cannot be read ({error})") from None
    n_trees = round(sum(counts) / len(counts)) if counts else None
    threshold = contents.ensemble.threshold
    text = _script(contents.manifest, contents.schema, _checked(best, bundle), state, n_trees, threshold, center)
    try:
        files.write_text(target, text)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path.") from None
    return best.model


def _checked(candidate: Candidate, bundle: Path) -> Candidate:
    """A candidate with all hyperparameters of its model, of the right types.

    Raises:
        BundleError: they are not those of its model.
        UsageError: its plugin does not load.
    """
    plugin = registry.find(candidate.model).plugin or registry.get(candidate.model)
    try:
        params = msgspec.convert(candidate.params, plugin.params_type)
    except msgspec.ValidationError as error:
        raise BundleError(
            f"{bundle} was made with another version of the model {candidate.model!r} ({error})."
        ) from None
    return msgspec.structs.replace(candidate, params=msgspec.to_builtins(params))


def _script(
    manifest: Manifest,
    schema: Schema,
    best: Candidate,
    state: PreparerState,
    n_trees: int | None,
    threshold: float | None,
    center: float,
) -> str:
    imports, packages, code = MODELS[best.model](schema, best.params, n_trees)
    row = next((row for row in manifest.leaderboard if row.get("model") == best.model), {})
    value = row.get("score")
    score = f" ({comment(manifest.metric)} {value:.5g} out of fold)" if isinstance(value, float) else ""
    is_class = bool(schema.classes)
    if center:
        imports = [*imports, "from sklearn.compose import TransformedTargetRegressor"]
    scoring = _SCORING.get(manifest.metric, "accuracy" if is_class else "r2")
    if schema.task == "multiclass" and scoring in ("roc_auc", "f1", "average_precision"):
        scoring = {"roc_auc": "roc_auc_ovr", "f1": "f1_macro"}.get(scoring, "neg_log_loss")
    splitter = "StratifiedKFold" if is_class else "KFold"
    lines = [line for column in schema.features for line in _feature(column)] + _derived(state) + _shifts(state)
    return _TEMPLATE.format(
        target=schema.target,
        predicted=comment(schema.target),
        title=f"{best.model} (trial {best.trial})",
        run=comment(manifest.run),
        score=score,
        packages=", ".join(["pandas", "scikit-learn", *packages]),
        imports="\n".join(sorted({*imports, f"from sklearn.model_selection import {splitter}, cross_val_score"})),
        classes=f"CLASSES = {list(schema.classes)!r}\n" if is_class else "",
        features="\n".join(f"    {line}" for line in lines),
        renamed=_RENAMED if best.model in STRICT and not has_plain_names(schema) else "",
        target_code=_target(schema) + (catboost_class(schema, best.params) if best.model == "catboost" else ""),
        maker="uncentered" if center else "model",
        model="\n".join(f"    {line}" for line in code),
        centered=_CENTERED.format(center=center) if center else "",
        folds=f"{splitter}(5, shuffle=True, random_state={manifest.seed})",
        scoring=scoring,
        output=_output(schema, threshold),
    )


def _number(column: Column) -> str:
    """An expression of the numbers of a column.

    Raises:
        UsageError: they are written with more than a unit and separators.
    """
    if column.unit in CLOCKS or column.notation not in ("exact", "open"):
        raise UsageError(
            f"The numbers of the column {column.name!r} have marks, units or letters that a script does not read. Write them as "
            f"plain numbers in the training file, or leave the column out with {option('ignore', column.name)}."
        )
    cells = f"table[{column.name!r}]"
    if column.thousands:
        cells += f".str.replace({column.thousands!r}, '', regex=False)"
    if column.decimal != ".":
        cells += f".str.replace({column.decimal!r}, '.', regex=False)"
    if column.unit:
        cells += f".str.replace({column.unit!r}, '', regex=False)"
    return f"number({cells})"


def _feature(column: Column) -> list[str]:
    """Lines that compute the features of a column."""
    name, cells = repr(column.name), f"table[{column.name!r}]"
    if column.marks_of is not None:
        return [f"# The marks of the column {comment(column.marks_of)} are left out."]
    if column.kind == "numeric":
        return [f"made[{name}] = {_number(column)}"]
    if column.kind in ("categorical", "boolean"):
        return [f"made[{name}] = category({cells}, {list(column.levels)!r})"]
    if column.kind == "datetime":
        lines = [
            f"dates = {_moments(column)}",
            *_without_open_ends(column),
            f"made[{column.name + ' days'!r}] = (dates - pd.Timestamp('1970-01-01')).dt.days",
        ]
        return lines + [f"made[{f'{column.name} {part}'!r}] = dates.dt.{method}" for part, method in DATE_PARTS.items()]
    return [f"# The {column.kind} column {comment(column.name)} is left out."]


def _moments(column: Column) -> str:
    """An expression of the moments of a column, in UTC."""
    cells, form = f"table[{column.name!r}]", column.datetime_format or "iso"
    if form == "excel":
        return f"pd.to_datetime(number({cells}), unit='D', origin='1899-12-30', errors='coerce')"
    if form.startswith("epoch"):
        return f"pd.to_datetime(number({cells}), unit={form.removeprefix('epoch ')!r}, errors='coerce')"
    order = order_of(form)
    first = {"day first": ", dayfirst=True", "year first": ", yearfirst=True"}.get(order, "")
    return f"pd.to_datetime({cells}, format='mixed'{first}, utc=True, errors='coerce').dt.tz_localize(None)"


def _without_open_ends(column: Column) -> list[str]:
    """Lines that remove dates that stand for none, such as 9999-12-31."""
    if not column.open_ends:
        return []
    return [f"dates = dates.mask(dates.dt.strftime('%Y-%m-%d').isin({list(column.open_ends)!r}))"]


def _derived(state: PreparerState) -> list[str]:
    """Lines that compute the features made from two numeric columns, as the first fold of the model has them."""
    made = [(step, name) for step in state.steps for name in step.names()]
    numbers = {i: name for i, (step, name) in enumerate(made) if isinstance(step, NumericStep)}
    lines: list[str] = []
    for feature in state.derived:
        if isinstance(feature, Arithmetic) and feature.first in numbers and feature.second in numbers:
            first, second, sign = numbers[feature.first], numbers[feature.second], SIGNS[feature.operation]
            value = f"made[{first!r}] {'*' if sign == '×' else sign} made[{second!r}]"
            if feature.operation == "ratio":
                value = f"({value}).replace([np.inf, -np.inf], np.nan)"
            lines.append(f"made[{f'{first} {sign} {second}'!r}] = {value}")
    n_others = len(state.derived) - len(lines)
    return lines + ([f"# {n_others} features made from other columns are left out."] if n_others else [])


def _shifts(state: PreparerState) -> list[str]:
    """Lines that center the columns that single precision would round, as the first fold of the model has them."""
    names = [name if isinstance(step, NumericStep) else None for step in state.steps for name in step.names()]
    lines: list[str] = []
    for shift in state.shifts:
        number = state.kept_numeric[shift.index]
        name = names[number] if number < len(names) else None
        if name is not None:
            factor = "" if shift.factor == 1.0 else f" * {shift.factor!r}"
            lines.append(f"made[{name!r}] = (made[{name!r}] - {shift.center!r}){factor}")
    return lines


def _center(target: Any) -> float:
    """The number that is subtracted from the target of a model before single precision would round it; 0 for none.

    Args:
        target: as in `model.json`, unchecked.
    """
    mean, std = (target.get(name) if isinstance(target, dict) else None for name in ("mean", "std"))
    if not isinstance(mean, float) or not isinstance(std, float):
        return 0.0
    return mean if float(np.spacing(np.float32(abs(mean)))) > LEAST_COARSE_TARGET * std else 0.0


def _target(schema: Schema) -> str:
    if schema.classes:
        return (
            "def target(table):\n"
            '    """The code of each class."""\n'
            "    return table[TARGET].str.strip().map({label: code for code, label in enumerate(CLASSES)}).to_numpy()"
        )
    numbers = _number(schema.column(schema.target))
    return f'def target(table):\n    """The numbers to predict."""\n    return {numbers}.to_numpy()'


def _output(schema: Schema, threshold: float | None) -> str:
    if not schema.classes:
        return '    predictions = pd.DataFrame({"prediction": fitted.predict(features(new))})'
    codes = "probabilities.argmax(axis=1)"
    if threshold is not None:
        codes = f"(probabilities[:, 1] >= {threshold!r}).astype(int)"
    return (
        "    probabilities = fitted.predict_proba(features(new))\n"
        '    predictions = pd.DataFrame(probabilities, columns=[f"probability_{label}" for label in CLASSES])\n'
        '    predictions.insert(0, "prediction", np.array(CLASSES)['
        f"{codes}])"
    )
