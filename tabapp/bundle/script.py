"""Writes a Python script that trains the best model of a bundle again, with pandas and the model's own library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabapp import files
from tabapp.bundle.archive import open_archive
from tabapp.bundle.contents import decode_contents
from tabapp.bundle.format import Candidate, Manifest
from tabapp.data.schema import Column, Schema
from tabapp.errors import BundleError, UsageError
from tabapp.features.columns import NumericStep
from tabapp.features.derived import SIGNS, Arithmetic
from tabapp.features.state import STATE_FILE, PreparerState, decode_state
from tabapp.models.contract import MONOTONIC

_SCORING = {
    "roc_auc": "roc_auc", "log_loss": "neg_log_loss", "accuracy": "accuracy", "balanced_accuracy": "balanced_accuracy", "f1": "f1",
    "average_precision": "average_precision", "brier": "neg_brier_score", "rmse": "neg_root_mean_squared_error",
    "mae": "neg_mean_absolute_error", "r2": "r2", "mape": "neg_mean_absolute_percentage_error",
    "median_absolute_error": "neg_median_absolute_error",
}  # fmt: skip
"""scikit-learn's scorers by the names of tabapp's metrics."""
_DATE_PARTS = {
    "year": "year", "month": "month", "day": "day", "weekday": "day_of_week", "day of year": "day_of_year", "hour": "hour",
    "minute": "minute",
}  # fmt: skip

_TEMPLATE = '''\
"""Predicts {target} with {title}.

tabapp chose this model and its hyperparameters in the run {run}{score}.
This script needs {packages}, and not tabapp.

    python {file} TRAINING.csv                    print the score of a 5-fold cross-validation
    python {file} TRAINING.csv NEW.csv OUT.csv    train on all rows, and write predictions
"""

import sys

import numpy as np
import pandas as pd
{imports}

TARGET = {target!r}
{classes}

def read(path):
    """Read a table as text, so that nothing is converted by accident."""
    return pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)


def features(table):
    """Compute the features of a table."""
    made = {{}}
{features}
    return pd.DataFrame(made, index=table.index)


def number(texts):
    """Numbers; everything else is missing."""
    return pd.to_numeric(texts, errors="coerce")


def category(texts, levels):
    """One of the levels of the training table; everything else is missing."""
    return pd.Categorical(texts.str.strip(), categories=levels)


{target_code}


def model():
    """The model with its hyperparameters."""
{model}


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


_CATBOOST = '''


class Booster(CatBoost{kind}):
    """CatBoost with categories as text, "" for missing cells."""

    def as_text(self, X):
        return X.assign(**{{name: X[name].astype(object).where(X[name].notna(), "") for name in TEXTS}})

    def fit(self, X, y):
        return super().fit(self.as_text(X), y, cat_features=TEXTS)

    def {predict}(self, X):
        return super().{predict}(self.as_text(X))'''
_CATBOOST_POISSON = _CATBOOST.replace(
    "        return super().fit(self.as_text(X), y,",
    "        self.scale = np.mean(y)  # With this loss, CatBoost starts from 1.\n"
    "        return super().fit(self.as_text(X), y / self.scale,",
).replace("(self.as_text(X))", "(self.as_text(X)) * self.scale")


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
        usable = [c for c in contents.ensemble.candidates if c.model in _MODELS]
        if not usable:
            names = ", ".join(sorted({c.model for c in contents.ensemble.candidates}))
            raise UsageError(
                f"The members of the ensemble ({names}) cannot be written as a script. It can contain {', '.join(sorted(_MODELS))}."
            )
        best = max(usable, key=lambda candidate: candidate.weight)
        counts: list[int] = []
        for fold in best.folds:
            path = f"{fold.model}/model.json"
            facts: Any = json.loads(archive.read(path)).get("facts", {}) if path in archive else {}
            counts += [facts["trees"]] if isinstance(facts, dict) and isinstance(facts.get("trees"), int) else []
        path = f"{best.folds[0].features}/{STATE_FILE}"
        try:
            state = decode_state(archive.read(path))
        except ValueError as error:
            raise BundleError(f"{bundle}: {path} cannot be read ({error})") from None
    n_trees = round(sum(counts) / len(counts)) if counts else None
    threshold = contents.ensemble.threshold
    text = _script(contents.manifest, contents.schema, best, state, n_trees, threshold, target.name)
    try:
        files.write_text(target, text)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path.") from None
    return best.model


def _script(
    manifest: Manifest,
    schema: Schema,
    best: Candidate,
    state: PreparerState,
    n_trees: int | None,
    threshold: float | None,
    file: str,
) -> str:
    imports, packages, code = _MODELS[best.model](schema, best.params, n_trees)
    row = next((row for row in manifest.leaderboard if row.get("model") == best.model), {})
    value = row.get("score")
    score = f" ({manifest.metric} {value:.5g} out of fold)" if isinstance(value, float) else ""
    is_class = bool(schema.classes)
    scoring = _SCORING.get(manifest.metric, "accuracy" if is_class else "r2")
    if schema.task == "multiclass" and scoring in ("roc_auc", "f1", "average_precision"):
        scoring = {"roc_auc": "roc_auc_ovr", "f1": "f1_macro"}.get(scoring, "neg_log_loss")
    splitter = "StratifiedKFold" if is_class else "KFold"
    lines = [line for column in schema.features for line in _feature(column)] + _derived(state)
    return _TEMPLATE.format(
        target=schema.target,
        title=f"{best.model} (trial {best.trial})",
        run=manifest.run,
        score=score,
        packages=", ".join(["pandas", "scikit-learn", *packages]),
        file=file,
        imports="\n".join(sorted([*imports, f"from sklearn.model_selection import {splitter}, cross_val_score"])),
        classes=f"CLASSES = {list(schema.classes)!r}\n" if is_class else "",
        features="\n".join(f"    {line}" for line in lines),
        target_code=_target(schema) + (_catboost_class(schema, best.params) if best.model == "catboost" else ""),
        model="\n".join(f"    {line}" for line in code),
        folds=f"{splitter}(5, shuffle=True, random_state={manifest.seed})",
        scoring=scoring,
        output=_output(schema, threshold),
    )


def _feature(column: Column) -> list[str]:
    """Lines that compute the features of a column."""
    name, cells = repr(column.name), f"table[{column.name!r}]"
    if column.kind == "numeric":
        if column.thousands:
            cells += f".str.replace({column.thousands!r}, '', regex=False)"
        if column.decimal != ".":
            cells += f".str.replace({column.decimal!r}, '.', regex=False)"
        if column.unit:
            cells += f".str.replace({column.unit!r}, '', regex=False)"
        return [f"made[{name}] = number({cells})"]
    if column.kind in ("categorical", "boolean"):
        return [f"made[{name}] = category({cells}, {list(column.levels)!r})"]
    if column.kind == "datetime":
        dates = f"pd.to_datetime({cells}, format={column.datetime_format!r}, errors='coerce')"
        lines = [f"dates = {dates}", f"made[{column.name + ' days'!r}] = (dates - pd.Timestamp('1970-01-01')).dt.days"]
        return lines + [
            f"made[{f'{column.name} {part}'!r}] = dates.dt.{method}" for part, method in _DATE_PARTS.items()
        ]
    return [f"# The {column.kind} column {name} is left out."]


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


def _target(schema: Schema) -> str:
    if schema.classes:
        return (
            "def target(table):\n"
            '    """The code of each class."""\n'
            "    return table[TARGET].str.strip().map({label: code for code, label in enumerate(CLASSES)}).to_numpy()"
        )
    (line,) = _feature(schema.column(schema.target))
    return f'def target(table):\n    """The numbers to predict."""\n    return {line.partition(" = ")[2]}.to_numpy()'


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


_Model = tuple[list[str], list[str], list[str]]
"""Import lines, packages, and the lines of the function that makes the model."""


def _call(name: str, arguments: dict[str, Any]) -> list[str]:
    return [f"return {name}(", *(f"    {key}={value!r}," for key, value in arguments.items()), ")"]


def _kind(schema: Schema) -> str:
    return "Classifier" if schema.classes else "Regressor"


def _is_poisson(params: dict[str, Any]) -> bool:
    return params.get("loss") == "poisson"


def _lightgbm(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
    arguments = {
        "n_estimators": n_trees or params["n_trees"],
        "learning_rate": params["learning_rate"],
        "num_leaves": params["num_leaves"],
        "min_child_samples": params["min_data_in_leaf"],
        "min_child_weight": params["min_sum_hessian_in_leaf"],
        "subsample": params["bagging_fraction"],
        "subsample_freq": 1,
        "colsample_bytree": params["feature_fraction"],
        "min_split_gain": params["min_gain_to_split"],
        "reg_alpha": params["lambda_l1"],
        "reg_lambda": params["lambda_l2"],
        "random_state": 0,
        "verbosity": -1,
    }
    if _is_poisson(params):
        arguments["objective"] = "poisson"
    if monotonic := params.get(MONOTONIC):
        arguments["monotone_constraints"] = [monotonic.get(name, 0) for name in _names(schema)]
    return ["import lightgbm"], ["lightgbm"], _call(f"lightgbm.LGBM{_kind(schema)}", arguments)


def _xgboost(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
    same = (
        "max_depth", "min_child_weight", "subsample", "learning_rate", "colsample_bylevel", "colsample_bytree", "gamma",
        "reg_lambda", "reg_alpha",
    )  # fmt: skip
    arguments = {"n_estimators": n_trees or params["n_trees"]} | {name: params[name] for name in same}
    arguments |= {"tree_method": "hist", "enable_categorical": True, "random_state": 0}
    if _is_poisson(params):
        arguments["objective"] = "count:poisson"
    if monotonic := params.get(MONOTONIC):
        arguments["monotone_constraints"] = monotonic
    return ["import xgboost"], ["xgboost"], _call(f"xgboost.XGB{_kind(schema)}", arguments)


def _catboost(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
    same = (
        "depth", "learning_rate", "bootstrap_type", "l2_leaf_reg", "leaf_estimation_iterations", "max_ctr_complexity",
        "one_hot_max_size", "border_count",
    )  # fmt: skip
    arguments = {"iterations": n_trees or params["n_trees"]} | {name: params[name] for name in same}
    if params["bootstrap_type"] == "Bayesian":
        arguments["bagging_temperature"] = params["bagging_temperature"]
    arguments |= {"random_seed": 0, "verbose": False, "allow_writing_files": False}
    if _is_poisson(params):
        arguments["loss_function"] = "Poisson"
    if monotonic := params.get(MONOTONIC):
        arguments["monotone_constraints"] = monotonic
    return [f"from catboost import CatBoost{_kind(schema)}"], ["catboost"], _call("Booster", arguments)


def _catboost_class(schema: Schema, params: dict[str, Any]) -> str:
    predict = "predict_proba" if schema.classes else "predict"
    template = _CATBOOST_POISSON if _is_poisson(params) else _CATBOOST
    return f"\n\n\nTEXTS = {_texts(schema)!r}" + template.format(kind=_kind(schema), predict=predict)


def _names(schema: Schema) -> list[str]:
    """The columns of the script's features, without those made from two columns, in order."""
    names: list[str] = []
    for column in schema.features:
        if column.kind in ("numeric", "categorical", "boolean"):
            names.append(column.name)
        elif column.kind == "datetime":
            names += [f"{column.name} {part}" for part in ("days", *_DATE_PARTS)]
    return names


def _texts(schema: Schema) -> list[str]:
    """The columns whose cells are categories."""
    return [column.name for column in schema.features if column.kind in ("categorical", "boolean")]


def _prepared(schema: Schema, estimator: list[str]) -> list[str]:
    """Lines of a model whose categories become codes."""
    texts = _texts(schema)
    estimator[0] = estimator[0].replace("return ", "estimator = ")
    return [
        *estimator,
        "codes = OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=np.nan, encoded_missing_value=np.nan)",
        f"prepare = ColumnTransformer([('codes', codes, {texts!r})], remainder='passthrough')",
        "return make_pipeline(prepare, estimator)",
    ]


_PREPARED = [
    "from sklearn.compose import ColumnTransformer",
    "from sklearn.pipeline import make_pipeline",
    "from sklearn.preprocessing import OrdinalEncoder",
]


def _forest(name: str) -> Callable[[Schema, dict[str, Any], int | None], _Model]:
    def made(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
        arguments = {
            "n_estimators": n_trees or params["n_trees"],
            "min_samples_leaf": params["min_samples_leaf"],
            "max_features": params["max_features"],
            "random_state": 0,
            "n_jobs": -1,
        }
        class_name = f"{name}{_kind(schema)}"
        imports = [*_PREPARED, f"from sklearn.ensemble import {class_name}"]
        return imports, [], _prepared(schema, _call(class_name, arguments))

    return made


def _hist(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
    same = ("learning_rate", "max_leaf_nodes", "min_samples_leaf", "l2_regularization", "max_features")
    arguments = {"max_iter": n_trees or params["n_trees"]} | {name: params[name] for name in same}
    class_name = f"HistGradientBoosting{_kind(schema)}"
    imports = [*_PREPARED, f"from sklearn.ensemble import {class_name}"]
    arguments |= {"early_stopping": False, "random_state": 0}
    if _is_poisson(params):
        arguments["loss"] = "poisson"
    if monotonic := params.get(MONOTONIC):
        texts = _texts(schema)
        ordered = [*texts, *(name for name in _names(schema) if name not in texts)]
        arguments["monotonic_cst"] = [monotonic.get(name, 0) for name in ordered]
    return imports, [], _prepared(schema, _call(class_name, arguments))


def _linear(schema: Schema, params: dict[str, Any], n_trees: int | None) -> _Model:
    texts = _texts(schema)
    strength = params["penalty"] * schema.rows
    if schema.classes:
        name, estimator = "LogisticRegression", f"LogisticRegression(C={1 / strength!r}, max_iter=200)"
    else:
        name, estimator = "Ridge", f"Ridge(alpha={strength!r})"
    lines = [
        "numbers = make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True))",
        "levels = OneHotEncoder(handle_unknown='ignore', max_categories=300)",
        f"prepare = ColumnTransformer([('levels', levels, {texts!r})], remainder=numbers)",
        f"return make_pipeline(prepare, {estimator})",
    ]
    imports = [
        "from sklearn.compose import ColumnTransformer",
        "from sklearn.impute import SimpleImputer",
        f"from sklearn.linear_model import {name}",
        "from sklearn.pipeline import make_pipeline",
        "from sklearn.preprocessing import OneHotEncoder, StandardScaler",
    ]
    return imports, [], lines


_MODELS: dict[str, Callable[[Schema, dict[str, Any], int | None], _Model]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "random_forest": _forest("RandomForest"),
    "extra_trees": _forest("ExtraTrees"),
    "hist_gradient_boosting": _hist,
    "linear": _linear,
}
