"""The models that a generated script can contain, as lines of Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tabapp.data.schema import Schema
from tabapp.models.contract import MONOTONIC

DATE_PARTS = {
    "year": "year", "month": "month", "day": "day", "weekday": "day_of_week", "day of year": "day_of_year", "hour": "hour",
    "minute": "minute",
}  # fmt: skip
"""Parts of a date by the accessors of pandas."""
STRICT = frozenset({"lightgbm", "xgboost"})
"""Models whose libraries refuse some characters in names, and names that differ in whitespace only."""
_REFUSED = re.compile(r'[\[\]{}<>:",]')

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


Model = tuple[list[str], list[str], list[str]]
"""Import lines, packages, and the lines of the function that makes the model."""


def _call(name: str, arguments: dict[str, Any]) -> list[str]:
    return [f"return {name}(", *(f"    {key}={value!r}," for key, value in arguments.items()), ")"]


def _kind(schema: Schema) -> str:
    return "Classifier" if schema.classes else "Regressor"


def _is_poisson(params: dict[str, Any]) -> bool:
    return params.get("loss") == "poisson"


def _lightgbm(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
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


def _xgboost(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
    same = (
        "max_depth", "min_child_weight", "subsample", "learning_rate", "colsample_bylevel", "colsample_bytree", "gamma",
        "reg_lambda", "reg_alpha",
    )  # fmt: skip
    arguments = {"n_estimators": n_trees or params["n_trees"]} | {name: params[name] for name in same}
    arguments |= {"tree_method": "hist", "enable_categorical": True, "random_state": 0}
    if _is_poisson(params):
        arguments["objective"] = "count:poisson"
    if monotonic := params.get(MONOTONIC):
        names = _names(schema)
        arguments["monotone_constraints"] = (
            monotonic
            if has_plain_names(schema)
            else {f"feature {names.index(name)}": sign for name, sign in monotonic.items() if name in names}
        )
    return ["import xgboost"], ["xgboost"], _call(f"xgboost.XGB{_kind(schema)}", arguments)


def _catboost(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
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


def catboost_class(schema: Schema, params: dict[str, Any]) -> str:
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
            names += [f"{column.name} {part}" for part in ("days", *DATE_PARTS)]
    return names


def has_plain_names(schema: Schema) -> bool:
    """Whether every library takes the names of the features."""
    names = _names(schema)
    return not any(map(_REFUSED.search, names)) and len({"_".join(name.split()) for name in names}) == len(names)


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


def _forest(name: str) -> Callable[[Schema, dict[str, Any], int | None], Model]:
    def made(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
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


def _hist(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
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


def _linear(schema: Schema, params: dict[str, Any], n_trees: int | None) -> Model:
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


MODELS: dict[str, Callable[[Schema, dict[str, Any], int | None], Model]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "random_forest": _forest("RandomForest"),
    "extra_trees": _forest("ExtraTrees"),
    "hist_gradient_boosting": _hist,
    "linear": _linear,
}
