"""Gradient boosting as tuned by Gorishniy et al. 2021, for `--models xgboost:paper` and `catboost:paper`."""

from __future__ import annotations

from tabapp.models.contract import Shape, Task, Trial
from tabapp.models.presets import Preset

from .._shared.search import zero_or
from .catboost_model import CatBoost, CatBoostParams
from .xgboost_model import XGBoost, XGBoostParams

MANY_ROWS = 100_000
"""The paper gives its datasets with more rows deeper trees: column (B) of Tables 6 and 7."""
LEAST_DEPTH, LEAST_DEPTH_WITH_MANY_ROWS, MOST_DEPTH = 3, 6, 10
PATIENCE, MOST_TREES = 50, 2_000


def _depth(trial: Trial, name: str, shape: Shape) -> int:
    least = LEAST_DEPTH_WITH_MANY_ROWS if shape.n_rows > MANY_ROWS else LEAST_DEPTH
    return trial.suggest_int(name, least, MOST_DEPTH)


class PublishedXGBoost(Preset, XGBoost):
    """XGBoost as in Gorishniy et al. 2021, supplement B.1: the library's defaults, tuned in the space of Table 6, with at most
    2,000 trees and a patience of 50.
    """

    name = "xgboost:paper"
    title = "XGBoost (paper)"
    requires = ("xgboost",)

    def defaults(self, task: Task, shape: Shape, device: str) -> XGBoostParams:
        """The library's defaults."""
        return XGBoostParams(
            n_trees=MOST_TREES,
            patience=PATIENCE,
            refit=False,
            max_depth=6,
            min_child_weight=1.0,
            subsample=1.0,
            learning_rate=0.3,
            colsample_bylevel=1.0,
            colsample_bytree=1.0,
            gamma=0.0,
            reg_lambda=1.0,
            reg_alpha=0.0,
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> XGBoostParams:
        """Table 6; the number of rows selects its column (A) or (B)."""
        return XGBoostParams(
            n_trees=MOST_TREES,
            patience=PATIENCE,
            refit=False,
            max_depth=_depth(trial, "max_depth", shape),
            min_child_weight=trial.suggest_float("min_child_weight", 1e-8, 1e5, log=True),
            subsample=trial.suggest_float("subsample", 0.5, 1.0),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1.0, log=True),
            colsample_bylevel=trial.suggest_float("colsample_bylevel", 0.5, 1.0),
            colsample_bytree=trial.suggest_float("colsample_bytree", 0.5, 1.0),
            gamma=zero_or(trial, "gamma", 1e-8, 1e2, log=True),
            reg_lambda=zero_or(trial, "reg_lambda", 1e-8, 1e2, log=True),
            reg_alpha=zero_or(trial, "reg_alpha", 1e-8, 1e2, log=True),
        )


class PublishedCatBoost(Preset, CatBoost):
    """CatBoost as in Gorishniy et al. 2021, supplement B.2: tuned in the space of Table 7, with at most 2,000 trees and a
    patience of 50.

    NOTE[DIFF]: the paper's detector of overfitting also has a p-value of 0.001, which the library ignores beside a patience.
    """

    name = "catboost:paper"
    title = "CatBoost (paper)"
    requires = ("catboost",)

    def defaults(self, task: Task, shape: Shape, device: str) -> CatBoostParams:
        """The library's defaults with the Bayesian bootstrap, whose temperature the paper tunes."""
        return CatBoostParams(
            n_trees=MOST_TREES,
            patience=PATIENCE,
            refit=False,
            depth=6,
            learning_rate=0.03,
            bootstrap_type="Bayesian",
            bagging_temperature=1.0,
            l2_leaf_reg=3.0,
            leaf_estimation_iterations=1 if task == "regression" else 10,
            one_hot_max_size=2,
            max_ctr_complexity=4,
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> CatBoostParams:
        """Table 7; the number of rows selects its column (A) or (B)."""
        return CatBoostParams(
            n_trees=MOST_TREES,
            patience=PATIENCE,
            refit=False,
            depth=_depth(trial, "depth", shape),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1.0, log=True),
            bootstrap_type="Bayesian",
            bagging_temperature=trial.suggest_float("bagging_temperature", 0.0, 1.0),
            l2_leaf_reg=trial.suggest_float("l2_leaf_reg", 1.0, 10.0, log=True),
            leaf_estimation_iterations=trial.suggest_int("leaf_estimation_iterations", 1, 10),
            one_hot_max_size=2,
            max_ctr_complexity=4,
        )
