"""XGBoost (Chen & Guestrin 2016), tuned as in Gorishniy et al. 2021, supplement B.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import Cost, FitContext, Params, Shape, Task, Trial
from tabapp.models.formula import Formula, probe

from .._shared.boosting import (
    CLASSES_POWER,
    CPU,
    BoostedModel,
    BoostingPlugin,
    GradientBoostingParams,
    Watch,
    histogram_bytes,
    matrix,
    max_bins,
    slowest_rate,
    split_seconds,
)
from .._shared.derived import derives, learned_from, switched
from .._shared.losses import default_loss, suggested_loss, with_other_loss
from .._shared.target import Target, target_of
from .._shared.tree_formulas import of_xgboost

GPU_CELLS = 2_000_000
"""Rows times columns from which a GPU is expected to be faster than four cores. With 25 million cells, a tree of depth 8
takes 5.3 ms on an H100 and 34 ms on eight cores (`benchmarks/results/boosters_on_gpu.json`). With 2.3 million, a first
fold takes 7 s, and 19 s on two of eight busy cores (`benchmarks/results/devices_two_fits.json`)."""


class XGBoostParams(GradientBoostingParams, frozen=True, kw_only=True):
    """Named as in XGBoost's parameter reference."""

    max_depth: int = 6
    min_child_weight: float = 1.0
    subsample: float = 0.8
    learning_rate: float = 0.05
    colsample_bylevel: float = 1.0
    colsample_bytree: float = 0.8
    gamma: float = 0.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    colsample_bynode: float = 1.0
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    max_leaves: int = 0
    max_cat_to_onehot: int = 4


def feature_types(table: Table) -> list[str]:
    """XGBoost's types of the columns of `matrix(table)`: quantitative, then categorical."""
    return ["q"] * table.numeric.shape[1] + ["c"] * table.categorical.shape[1]


class XGBoostModel(BoostedModel):
    file_name = "model.ubj"

    def output(self, table: Table) -> npt.NDArray[Any]:
        return self.booster.predict(self._rows(table), output_margin=self.target.task == "regression")

    def shap_values(self, table: Table) -> npt.NDArray[Any]:
        return self.booster.predict(self._rows(table), pred_contribs=True)

    def use_of_features(self) -> npt.NDArray[Any]:
        gains = self.booster.get_score(importance_type="total_gain")
        # Features that no split uses are left out.
        return np.array([gains.get(f"f{feature}", 0.0) for feature in range(self.booster.num_features())])

    def _rows(self, table: Table) -> Any:
        import xgboost

        return xgboost.DMatrix(
            matrix(table), feature_types=feature_types(table), enable_categorical=True, nthread=self.n_threads
        )

    def formula(self, features: FeatureSpec) -> Formula:
        head = self.target.head()
        found = of_xgboost(self.booster, features, head, self.target.n_outputs)
        return found.with_base_of(features, self.booster.predict(self._rows(probe(features)), output_margin=True))

    def save_booster(self, path: Path) -> None:
        self.booster.save_model(path)

    @staticmethod
    def load_booster(path: Path) -> Any:
        import xgboost

        return on_cpu(xgboost.Booster(model_file=path), n_threads=1)


def device_of(booster: Any) -> str:
    """The device on which a booster is trained: the CPU if XGBoost finds no GPU."""
    return json.loads(booster.save_config())["learner"]["generic_param"]["device"]


def on_cpu(booster: Any, n_threads: int) -> Any:
    """Set where and in how many threads a booster predicts."""
    booster.set_param({"nthread": n_threads, "device": CPU})
    return booster


class XGBoost(BoostingPlugin):
    """Trains on a GPU from two million cells (rows times columns) on, with the bins of the CPU. Predictions are made on the CPU."""

    name = "xgboost"
    title = "XGBoost"
    paper = "Chen & Guestrin 2016, XGBoost: A Scalable Tree Boosting System"
    starts_first = True
    requires = ("xgboost",)
    params_type = XGBoostParams
    model_type = XGBoostModel
    gpu_cells = GPU_CELLS

    def defaults(self, task: Task, shape: Shape, device: str) -> XGBoostParams:
        """NOTE[DIFF]: the paper uses the library's defaults, whose learning rate of 0.3 overfits. These values were chosen
        by five-fold cross-validation on six public tables with 300 to 54,000 rows; depth increases with the number of rows.
        """
        loss = default_loss(task, shape)
        if shape.n_rows < 10_000:
            return XGBoostParams(loss=loss, max_depth=4, learning_rate=0.04, max_cat_to_onehot=20)
        return XGBoostParams(loss=loss, max_depth=6 if shape.n_rows < 25_000 else 8)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[XGBoostParams, ...]:
        """The defaults with features made from two columns; for small tables also shallow trees and penalized deep trees, on fewer
        columns and rows than the defaults. No configuration that was tried is better than the defaults on large tables
        (`booster_portfolios_large.json` in `benchmarks/results`: the better of two has 0.9995 ± 0.0008 times their error).
        """
        defaults = self.defaults(task, shape, device)
        tried = (*with_other_loss(defaults, task, shape), *switched(defaults, task, shape))
        if shape.n_rows >= 10_000:
            return tried
        return (
            *tried,
            msgspec.structs.replace(
                defaults, max_depth=3, learning_rate=0.05, colsample_bytree=0.5, subsample=0.7, reg_lambda=3.0
            ),
            msgspec.structs.replace(
                defaults, max_depth=8, learning_rate=0.05, colsample_bytree=0.6, subsample=0.7, reg_lambda=30.0
            ),
        )

    def reduced(self, params: Params) -> tuple[XGBoostParams, ...]:
        assert isinstance(params, XGBoostParams)
        return tuple(
            msgspec.structs.replace(
                params,
                n_trees=n_trees,
                max_depth=depth,
                learning_rate=learning_rate,
                grow_policy="depthwise",
                max_leaves=0,
            )
            for n_trees, depth, learning_rate in ((30, 4, 0.3), (80, 4, 0.2), (150, 5, 0.12))
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> XGBoostParams:
        """The space of XGBoost in TabArena (Erickson et al. 2025).

        NOTE[DIFF]: On 13 small tables, random configurations have 1.04 times the error of the defaults, those of Table 6 of
        Gorishniy et al. 2021 with narrower learning rates and child weights 1.18 times
        (`benchmarks/results/booster_spaces.json`; `xgboost:paper` has the exact table). Learning rates are not lower than
        `slowest_rate`, instead of 0.005, and an L1 penalty is for classes only: it is in units of the target, which is
        standardized here.
        """
        grow_policy = trial.suggest_categorical("grow_policy", ["depthwise", "lossguide"])
        return XGBoostParams(
            loss=suggested_loss(trial, task, shape),
            derived_features=derives(task, shape) and trial.suggest_categorical("derived_features", [False, True]),
            learning_rate=trial.suggest_float("learning_rate", slowest_rate(shape), 0.1, log=True),
            max_depth=trial.suggest_int("max_depth", 4, 10, log=True),
            min_child_weight=trial.suggest_float("min_child_weight", 1e-3, 5.0, log=True),
            subsample=trial.suggest_float("subsample", 0.6, 1.0),
            colsample_bytree=1.0,
            colsample_bylevel=trial.suggest_float("colsample_bylevel", 0.6, 1.0),
            colsample_bynode=trial.suggest_float("colsample_bynode", 0.6, 1.0),
            reg_alpha=0.0 if task == "regression" else trial.suggest_float("reg_alpha", 1e-4, 5.0),
            reg_lambda=trial.suggest_float("reg_lambda", 1e-4, 5.0),
            grow_policy=grow_policy,
            max_cat_to_onehot=trial.suggest_int("max_cat_to_onehot", 8, 100, log=True),
            max_leaves=trial.suggest_int("max_leaves", 8, 1024, log=True) if grow_policy == "lossguide" else 0,
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, XGBoostParams)
        shape = learned_from(shape, params)
        # Those of a tree's inner nodes are kept, too.
        nodes = min(2 ** (params.max_depth + 1) - 1, 0.3 * shape.n_rows)
        histograms = histogram_bytes(shape.n_numeric, nodes, n_bins=0.6 * shape.n_rows)
        trees = 400 * (shape.n_classes**CLASSES_POWER if task == "multiclass" else 1)
        cells = shape.n_rows * max(shape.n_features, 4)
        if device != CPU:
            # It gives 5.7 ms for a tree that takes 5.3 ms in `benchmarks/results/boosters_on_gpu.json`. The bins are computed on
            # the CPU. A cell takes a byte or two, and eight in early-stopping rows.
            n_outputs = shape.n_classes if task == "multiclass" else 1
            n_bytes = 300_000_000 + 4 * cells + 40 * shape.n_rows * n_outputs + histograms
            return Cost(2.0 + 1e-7 * cells + trees * (4e-4 * params.max_depth + 1e-10 * cells), n_bytes)
        # Searching a split takes about twice the time that LightGBM needs.
        per_tree = 2e-3 + 1e-8 * cells + 2 * split_seconds(shape, nodes)
        n_bytes = 14_000_000 + 10 * shape.n_rows * shape.n_features + histograms
        return Cost(seconds=0.5 + trees * per_tree, n_bytes=n_bytes)

    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        import xgboost
        from xgboost.callback import TrainingCallback

        rows = xgboost.QuantileDMatrix(
            matrix(train),
            target.transform(target_of(train)),
            weight=train.weight,
            feature_types=feature_types(train),
            enable_categorical=True,
            nthread=context.n_threads,
            max_bin=max_bins(len(context.features.sources)) + 1,
        )
        held_out = valid and xgboost.DMatrix(
            matrix(valid),
            target.transform(target_of(valid)),
            weight=valid.weight,
            feature_types=feature_types(valid),
            enable_categorical=True,
            nthread=context.n_threads,
        )
        watch = Watch(context, params.patience_on(len(train)))

        def valid_score(model: Any) -> float:
            assert valid is not None
            prediction = target.prediction(model.predict(held_out, output_margin=target.task == "regression"))
            return metrics.score(context.metric, target_of(valid), prediction, valid.weight)

        class Follow(TrainingCallback):
            def before_training(self, model: Any) -> Any:
                if context.device != CPU and device_of(model) == CPU:
                    raise RuntimeError(f"XGBoost does not find the device {context.device}")
                return model

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                if valid is None:
                    return context.seconds_left() <= 0
                watch.report(epoch + 1, lambda: valid_score(model))
                (history,) = evals_log["valid"].values()
                return watch.should_stop(epoch + 1, history[-1])

        booster = xgboost.train(
            self._settings(params, context, target),
            rows,
            n_trees,
            evals=[(held_out, "valid")] if held_out else [],
            callbacks=[Follow()],
            verbose_eval=False,
        )
        if valid is not None:
            booster = booster[: watch.best_n_trees]
        if context.device != CPU:
            # Out-of-fold predictions come from the code that predicts with the saved model. The copy also leaves the rows on the
            # GPU behind.
            booster = on_cpu(xgboost.Booster(model_file=booster.save_raw("ubj")), context.n_threads)
        return booster, watch.best_n_trees if valid is not None else booster.num_boosted_rounds()

    def _settings(self, params: XGBoostParams, context: FitContext, target: Target) -> dict[str, Any]:
        objective, metric = {
            "binary": ("binary:logistic", "logloss"),
            "multiclass": ("multi:softprob", "mlogloss"),
            "rmse": ("reg:squarederror", "rmse"),
            "poisson": ("count:poisson", "poisson-nloglik"),
            "mae": ("reg:absoluteerror", "mae"),
        }[target.minimizes(context)]
        settings: dict[str, Any] = {
            "booster": "gbtree",
            "tree_method": "hist",
            "max_bin": max_bins(len(context.features.sources)) + 1,
            "device": context.device,
            "objective": objective,
            "eval_metric": metric,
            "max_depth": params.max_depth,
            "min_child_weight": params.min_child_weight,
            "subsample": params.subsample,
            "learning_rate": params.learning_rate,
            "colsample_bylevel": params.colsample_bylevel,
            "colsample_bytree": params.colsample_bytree,
            "gamma": params.gamma,
            "reg_lambda": params.reg_lambda,
            "reg_alpha": params.reg_alpha,
            "colsample_bynode": params.colsample_bynode,
            "grow_policy": params.grow_policy,
            "max_leaves": params.max_leaves,
            "max_cat_to_onehot": params.max_cat_to_onehot,
            "nthread": context.n_threads,
            "seed": context.seed,
            "verbosity": 0,
        }
        if context.task == "multiclass":
            settings["num_class"] = context.n_classes
        if any(directions := context.features.directions(params.monotonic)):
            settings["monotone_constraints"] = tuple(directions)
        return settings
