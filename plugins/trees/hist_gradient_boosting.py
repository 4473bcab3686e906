"""Histogram gradient boosting by scikit-learn, based on LightGBM (Ke et al. 2017)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tabapp import metrics
from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, FitContext, Params, Shape, Task, Trial
from tabapp.nn.training.stopping import criterion

from .._shared.boosting import (
    CLASSES_POWER,
    REPORT_EVERY,
    BoostingPlugin,
    GradientBoostingParams,
    Watch,
    histogram_bytes,
    matrix,
    max_bins,
    split_seconds,
)
from .._shared.derived import learned_from
from .._shared.losses import default_loss, suggested_loss, with_other_loss
from .._shared.target import Target, target_of
from .._shared.tree_arrays import Trees
from .._shared.trees import Grown, TreesModel, classes_of


class HistGradientBoostingParams(GradientBoostingParams, frozen=True, kw_only=True):
    """Named as in scikit-learn's reference."""

    n_trees: int = 1000
    learning_rate: float = 0.06
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    max_features: float = 1.0


class HistGradientBoosting(BoostingPlugin):
    """Category codes are treated as numbers."""

    name = "hist_gradient_boosting"
    title = "Histogram gradient boosting"
    family = "classic"
    paper = "Ke et al. 2017, LightGBM: A Highly Efficient Gradient Boosting Decision Tree; scikit-learn's own"
    requires = ("sklearn", "safetensors")
    predict_requires = ("safetensors",)
    params_type = HistGradientBoostingParams
    model_type = TreesModel

    def defaults(self, task: Task, shape: Shape, device: str) -> HistGradientBoostingParams:
        """NOTE[DIFF]: scikit-learn does not penalize leaves and uses all columns for each split. On eight tables of 600 to 2,000
        rows, small trees with a penalty on half of the columns have an out-of-fold error of 0.93 times that of its defaults.
        """
        min_samples_leaf = 20 if shape.n_rows > 1000 else 5
        loss = default_loss(task, shape)
        if shape.n_rows >= 10_000:
            return HistGradientBoostingParams(loss=loss, min_samples_leaf=min_samples_leaf)
        return HistGradientBoostingParams(
            loss=loss, max_leaf_nodes=16, min_samples_leaf=min_samples_leaf, l2_regularization=20.0, max_features=0.5
        )

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[HistGradientBoostingParams, ...]:
        """For small tables: larger trees, with a strong penalty and with a low learning rate."""
        tried = with_other_loss(self.defaults(task, shape, device), task, shape)
        if shape.n_rows >= 10_000:
            return tried
        return (
            *tried,
            HistGradientBoostingParams(
                learning_rate=0.1, max_leaf_nodes=63, min_samples_leaf=10, l2_regularization=50.0, max_features=0.8
            ),
            HistGradientBoostingParams(
                learning_rate=0.03, max_leaf_nodes=64, min_samples_leaf=5, l2_regularization=1.0, max_features=0.8
            ),
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> HistGradientBoostingParams:
        return HistGradientBoostingParams(
            loss=suggested_loss(trial, task, shape),
            learning_rate=trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
            max_leaf_nodes=trial.suggest_int("max_leaf_nodes", 7, 127, log=True),
            min_samples_leaf=trial.suggest_int("min_samples_leaf", 2, 100, log=True),
            l2_regularization=trial.suggest_float("l2_regularization", 1e-8, 1e2, log=True),
            max_features=trial.suggest_float("max_features", 0.3, 1.0),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, HistGradientBoostingParams)
        shape = learned_from(shape, params)
        # scikit-learn has the most bins for every column, and counts their rows.
        leaves = min(params.max_leaf_nodes, 0.6 * shape.n_rows / params.min_samples_leaf)
        per_tree = 4e-3 + 1e-8 * shape.n_rows * max(shape.n_features, 4) + split_seconds(shape, leaves)
        trees = 400 * (shape.n_classes**CLASSES_POWER if task == "multiclass" else 1)
        histograms = histogram_bytes(shape.n_features, leaves, bin_bytes=20)
        n_bytes = 20_000_000 + 15 * shape.n_rows * shape.n_features + histograms
        return Cost(seconds=0.5 + trees * per_tree, n_bytes=n_bytes)

    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        import sklearn.ensemble
        from threadpoolctl import threadpool_limits

        mean_absolute = criterion(context) == "mae"
        settings: dict[str, Any] = {
            "learning_rate": params.learning_rate,
            "max_leaf_nodes": params.max_leaf_nodes,
            "min_samples_leaf": params.min_samples_leaf,
            "l2_regularization": params.l2_regularization,
            "max_features": params.max_features,
            "max_bins": max_bins(len(context.features.sources)),
            "early_stopping": False,
            "warm_start": True,
            "random_state": context.seed,
        }
        if any(directions := context.features.directions(params.monotonic)):
            settings["monotonic_cst"] = directions
        if context.task == "regression":
            settings["loss"] = "absolute_error" if mean_absolute else target.loss
            booster: Any = sklearn.ensemble.HistGradientBoostingRegressor(**settings)
        else:
            booster = sklearn.ensemble.HistGradientBoostingClassifier(**settings)
        X, y = matrix(train), target.transform(target_of(train))
        X[:, np.isnan(X).all(axis=0)] = 0.0
        watch = Watch(context, params.patience_on(len(train)))
        grown: Grown | None = None
        seen = matrix(valid) if valid is not None else None
        total: Any = 0.0
        n_grown = 0
        stops, started = False, time.monotonic()
        while n_grown < n_trees and not stops:
            # scikit-learn bins the rows and predicts them with all earlier trees at each call, so each call doubles the trees.
            in_time = context.seconds_left() * n_grown / max(time.monotonic() - started, 1e-9)
            more = REPORT_EVERY + int(min(n_grown, in_time)) // REPORT_EVERY * REPORT_EVERY
            booster.set_params(max_iter=min(n_trees, n_grown + more))
            with threadpool_limits(context.n_threads):
                booster.fit(X, y, sample_weight=train.weight)
            baseline = tuple(float(value) for value in np.ravel(booster._baseline_prediction))
            for start in range(n_grown, booster.n_iter_, REPORT_EVERY):
                iterations = booster._predictors[start : min(start + REPORT_EVERY, booster.n_iter_)]
                new = Trees.join([from_predictor(tree) for trees in iterations for tree in trees])
                trees = new if grown is None else Trees.join([grown.trees, new])
                grown = Grown(trees, classes_of(booster), baseline)
                n_grown = start + len(iterations)
                if valid is None or seen is None:
                    continue
                total = total + new.total(seen, len(baseline))
                prediction = target.prediction(grown.from_total(total, target.n_classes))
                loss = metrics.loss(criterion(context), target_of(valid), prediction, valid.weight)
                if stops := watch.should_stop(n_grown, loss):
                    break
                watch.report(
                    n_grown, lambda p=prediction: metrics.score(context.metric, target_of(valid), p, valid.weight)
                )
            stops = stops or context.seconds_left() <= 0
        assert grown is not None
        if valid is None:
            return grown, n_grown
        best = watch.best_n_trees
        return Grown(grown.trees.first(best * len(grown.baseline)), grown.classes, grown.baseline), best


def from_predictor(predictor: Any) -> Trees:
    """Convert one of scikit-learn's boosted trees."""
    nodes = predictor.nodes
    return Trees.tree(
        feature=nodes["feature_idx"],
        threshold=nodes["num_threshold"],
        missing_left=nodes["missing_go_to_left"],
        left=nodes["left"],
        right=nodes["right"],
        is_leaf=nodes["is_leaf"].astype(bool),
        value=nodes["value"][:, None],
    )
