"""LightGBM (Ke et al. 2017)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.models.contract import Cost, FitContext, Params, Shape, Task, Trial
from tabapp.models.formula import Formula

from .._shared.boosting import (
    CLASSES_POWER,
    MANY_COLUMNS,
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
from .._shared.tree_formulas import of_lightgbm

ROWS_TO_DERIVE = 2_000
"""From this number of rows, the defaults of small regressions use features made from two columns."""


class LightGBMParams(GradientBoostingParams, frozen=True, kw_only=True):
    """Named as in LightGBM's parameter reference."""

    learning_rate: float = 0.05
    num_leaves: int = 31
    min_data_in_leaf: int = 20
    min_sum_hessian_in_leaf: float = 1e-3
    bagging_fraction: float = 0.8
    feature_fraction: float = 0.8
    min_gain_to_split: float = 0.0
    lambda_l1: float = 0.0
    lambda_l2: float = 0.0
    extra_trees: bool = False
    max_cat_to_onehot: int = 4
    min_data_per_group: int = 100
    cat_smooth: float = 10.0
    cat_l2: float = 10.0


def on_fewer_columns(params: LightGBMParams) -> LightGBMParams:
    """Trees on half of the columns and almost all rows, which split categorical columns by levels with many rows only."""
    return msgspec.structs.replace(
        params,
        min_data_in_leaf=10,
        bagging_fraction=0.95,
        feature_fraction=0.5,
        lambda_l2=1.0,
        max_cat_to_onehot=16,
        min_data_per_group=50,
        cat_l2=1.0,
        cat_smooth=70.0,
    )


def probabilities(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The probability of the second of two classes from log-odds (rows,), or of each class from (rows, classes)."""
    if raw.ndim == 1:
        return np.exp(-np.logaddexp(0.0, -raw))
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


TREES_TOGETHER = 128
"""LightGBM predicts row by row with all trees, which reads a large model from memory for each row. This many stay in the cache of
the processor: 5,000 rows of letter (3,562 trees of 63 leaves) take 1.0 s of processor time instead of 3.1 s."""


class LightGBMModel(BoostedModel):
    """A booster. Each prediction by LightGBM writes its range of trees into the booster, so that calls with different ranges must
    not run at the same time. The first of several threads uses the booster, and the others copies of its parts.
    """

    file_name = "model.txt"
    thread_safe = True

    def __init__(self, booster: Any, target: Target, facts: dict[str, Any], n_threads: int) -> None:
        super().__init__(booster, target, facts, n_threads)
        self._in_use = threading.Lock()
        self._copying = threading.Lock()
        self._copies: list[Any] = []

    def output(self, table: Table) -> npt.NDArray[Any]:
        rows = matrix(table)
        # Copies take memory and the time of loading the model, so only threads that meet make them.
        if not self._copies and self._in_use.acquire(blocking=False):
            try:
                total = self._total(rows, [(self.booster, start) for start in self._starts()])
            finally:
                self._in_use.release()
        else:
            total = self._total(rows, [(part, 0) for part in self._parts()])
        return total if self.target.task == "regression" else probabilities(total)

    def _together(self) -> int:
        return max(1, TREES_TOGETHER // max(1, self.booster.num_model_per_iteration()))

    def _starts(self) -> range:
        # Also for few rows, so that the prediction of a row does not depend on their number.
        return range(0, max(1, self.booster.current_iteration()), self._together())

    def _total(self, rows: npt.NDArray[Any], parts: Sequence[tuple[Any, int]]) -> npt.NDArray[Any]:
        """The sum over the trees of boosters from their start on."""
        total: Any = 0.0
        for booster, start in parts:
            total = total + booster.predict(
                rows,
                start_iteration=start,
                num_iteration=self._together(),
                raw_score=True,
                num_threads=self.n_threads,
            )
        return total

    def _parts(self) -> list[Any]:
        """A booster for each part of the trees, whose predictions always use all of its trees."""
        with self._copying:
            if not self._copies:
                import lightgbm

                texts = [
                    self.booster.model_to_string(start_iteration=start, num_iteration=self._together())
                    for start in self._starts()
                ]
                self._copies = [lightgbm.Booster(model_str=text) for text in texts]
            return self._copies

    def shap_values(self, table: Table) -> npt.NDArray[Any]:
        with self._in_use:
            return self.booster.predict(matrix(table), pred_contrib=True, num_threads=self.n_threads)

    def use_of_features(self) -> npt.NDArray[Any]:
        return self.booster.feature_importance("gain")

    def formula(self, features: FeatureSpec) -> Formula:
        return of_lightgbm(self.booster, features, self.target.head(), self.target.n_outputs)

    def save_booster(self, path: Path) -> None:
        self.booster.save_model(str(path))

    @staticmethod
    def load_booster(path: Path) -> Any:
        import lightgbm

        return lightgbm.Booster(model_file=str(path))


class LightGBM(BoostingPlugin):
    """Always trains on the CPU: the packages of LightGBM on PyPI are built without CUDA."""

    name = "lightgbm"
    title = "LightGBM"
    paper = "Ke et al. 2017, LightGBM: A Highly Efficient Gradient Boosting Decision Tree"
    starts_first = True
    requires = ("lightgbm",)
    params_type = LightGBMParams
    model_type = LightGBMModel

    def features(self) -> FeatureRecipe:
        # Its native splits on columns of many levels overfit more than other boosters', so encoding helps it most.
        return FeatureRecipe(numeric="raw", target_encoding=True)

    def defaults(self, task: Task, shape: Shape, device: str) -> LightGBMParams:
        """Chosen by scores on public tables; the library uses a learning rate of 0.1 and 31 leaves for all sizes, and splits
        columns of more than 4 levels into groups of levels, which overfits small tables.

        Features made from two columns hardly help with several classes and many rows, where fits take long, and in regressions with
        few rows (`benchmarks/results/derived_features.json`: 1.11 times the error on four tables of less than 1,500
        rows, 0.95 times on six with 2,000).

        Large tables with two classes have trees on half of the columns: 0.975 ± 0.004 times the error of those on 80 % in nine
        draws of three tables (`benchmarks/results/large_boosters.json`). Regressions gain nothing (0.999 ± 0.003).
        """
        loss = default_loss(task, shape)
        if shape.n_rows < 10_000:
            derived = derives(task, shape) and (task != "regression" or shape.n_rows >= ROWS_TO_DERIVE)
            return LightGBMParams(
                loss=loss,
                derived_features=derived,
                num_leaves=16,
                learning_rate=0.04,
                min_data_in_leaf=int(np.clip(shape.n_rows // 50, 5, 20)),
                max_cat_to_onehot=20,
                cat_l2=0.5,
            )
        large = LightGBMParams(loss=loss, derived_features=derives(task, shape) and task == "regression", num_leaves=63)
        return on_fewer_columns(large) if task == "binary" else large

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[LightGBMParams, ...]:
        """For small tables: small trees with random thresholds (Geurts et al. 2006), larger trees with a penalty, smaller trees on
        fewer columns, and larger trees with random thresholds. For large ones, trees on more columns than the defaults, or on
        fewer, and smaller trees: with the first, an ensemble of four boosters has 0.997 ± 0.001 times the error of one with the
        defaults alone (`large_boosters.json` in `benchmarks/results`: three draws of seven tables). The defaults and the small
        trees are tried with and without features made from two columns.

        The small trees are close to the LightGBM of AutoGluon's portfolio of August 2026. It was chosen
        on one draw of 13 tables; on 28 other draws, their error is lower than that of the defaults on 20, and the better of both
        out of fold has 0.981 times the error of the defaults (`benchmarks/results/booster_portfolios.json`).

        NOTE[DIFF]: an L1 penalty is in units of the target, which is standardized here, so that it is for classes only. The
        learning rate is twice AutoGluon's: half as many trees have 0.998 times the error on two draws of 18 tables of at most
        1,500 rows.
        """
        defaults = self.defaults(task, shape, device)
        if shape.n_rows < 10_000:
            smooth = msgspec.structs.replace(
                defaults,
                derived_features=derives(task, shape),
                num_leaves=7,
                learning_rate=0.048,
                extra_trees=True,
                min_data_in_leaf=1,
                bagging_fraction=0.96,
                feature_fraction=1.0,
                lambda_l1=0.0 if task == "regression" else 0.35,
                lambda_l2=2.0,
                max_cat_to_onehot=15,
                min_data_per_group=60,
                cat_l2=0.02,
                cat_smooth=0.001,
            )
            return (
                *with_other_loss(smooth, task, shape),
                smooth,
                *switched(defaults, task, shape),
                *switched(smooth, task, shape),
                msgspec.structs.replace(
                    defaults, num_leaves=31, min_data_in_leaf=5, feature_fraction=0.6, lambda_l2=5.0
                ),
                msgspec.structs.replace(
                    defaults,
                    num_leaves=8,
                    learning_rate=0.03,
                    feature_fraction=0.5,
                    bagging_fraction=0.7,
                    lambda_l2=3.0,
                ),
                msgspec.structs.replace(defaults, num_leaves=31, min_data_in_leaf=3, extra_trees=True),
            )
        large = LightGBMParams(loss=defaults.loss, derived_features=defaults.derived_features, num_leaves=63)
        return (
            *with_other_loss(defaults, task, shape),
            *switched(defaults, task, shape),
            large if task == "binary" else on_fewer_columns(large),
            msgspec.structs.replace(
                defaults, num_leaves=31, learning_rate=0.03, feature_fraction=0.5, bagging_fraction=0.6
            ),
        )

    def reduced(self, params: Params) -> tuple[LightGBMParams, ...]:
        assert isinstance(params, LightGBMParams)
        return tuple(
            msgspec.structs.replace(
                params, n_trees=n_trees, num_leaves=min(n_leaves, params.num_leaves), learning_rate=learning_rate
            )
            for n_trees, n_leaves, learning_rate in ((30, 15, 0.3), (80, 15, 0.15), (150, 31, 0.1))
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> LightGBMParams:
        """The space of LightGBM in TabArena (Erickson et al. 2025).

        NOTE[DIFF]: learning rates are not lower than `slowest_rate`, instead of 0.005, and an L1 penalty is for classes only (see
        `portfolio`). On 13 tables, random configurations have 1.08 times the error of the defaults, those of
        Table 6 of Gorishniy et al. 2021 (XGBoost), narrowed and with LightGBM's names, 1.33 times
        (`benchmarks/results/booster_spaces.json`).
        """
        return LightGBMParams(
            loss=suggested_loss(trial, task, shape),
            derived_features=derives(task, shape) and trial.suggest_categorical("derived_features", [False, True]),
            learning_rate=trial.suggest_float("learning_rate", slowest_rate(shape), 0.1, log=True),
            num_leaves=trial.suggest_int("num_leaves", 2, 200, log=True),
            min_data_in_leaf=trial.suggest_int("min_data_in_leaf", 1, 64, log=True),
            bagging_fraction=trial.suggest_float("bagging_fraction", 0.7, 1.0),
            feature_fraction=trial.suggest_float("feature_fraction", 0.4, 1.0),
            extra_trees=trial.suggest_categorical("extra_trees", [False, True]),
            lambda_l1=0.0 if task == "regression" else trial.suggest_float("lambda_l1", 1e-4, 1.0),
            lambda_l2=trial.suggest_float("lambda_l2", 1e-4, 2.0),
            max_cat_to_onehot=trial.suggest_int("max_cat_to_onehot", 8, 100, log=True),
            min_data_per_group=trial.suggest_int("min_data_per_group", 2, 100, log=True),
            cat_smooth=trial.suggest_float("cat_smooth", 1e-3, 1e2, log=True),
            cat_l2=trial.suggest_float("cat_l2", 5e-3, 2.0, log=True),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """The best boosted trees in TabArena's comparison of 2026, tuned and ensembled."""
        return 2.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, LightGBMParams)
        shape = learned_from(shape, params)
        # 60 % of the rows are learned from, and a bin has at least three of them. Some leaves are never split.
        leaves = min(params.num_leaves, 0.6 * shape.n_rows / max(params.min_data_in_leaf, 1))
        per_tree = 1e-3 + 6e-9 * shape.n_rows * max(shape.n_features, 4) + split_seconds(shape, leaves)
        trees = 400 * (shape.n_classes**CLASSES_POWER if task == "multiclass" else 1)
        histograms = histogram_bytes(shape.n_numeric, 0.7 * leaves, n_bins=0.2 * shape.n_rows)
        n_bytes = 9_500_000 + 10 * shape.n_rows * shape.n_features + histograms
        return Cost(seconds=0.3 + trees * per_tree, n_bytes=n_bytes)

    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        import lightgbm

        settings = self._settings(params, context, target)
        n_numeric = train.numeric.shape[1]
        categorical = list(range(n_numeric, n_numeric + train.categorical.shape[1]))
        rows = lightgbm.Dataset(
            matrix(train),
            target.transform(target_of(train)),
            weight=train.weight,
            categorical_feature=categorical,
            params=settings,
        )
        if valid is None:

            def keep_deadline(env: Any) -> None:
                if context.seconds_left() <= 0:
                    raise lightgbm.callback.EarlyStopException(env.iteration, [])

            booster = lightgbm.train(settings, rows, n_trees, callbacks=[keep_deadline])
            return booster, booster.current_iteration()

        watch = Watch(context, params.patience_on(len(train)))
        truth = target_of(valid)
        n_seen = 0

        def report(output: npt.NDArray[Any], _: Any) -> list[Any]:
            nonlocal n_seen
            n_seen += 1
            # The library passes predictions, not their logarithms.
            output = np.log(output) if target.loss == "poisson" else output
            watch.report(n_seen, lambda: metrics.score(context.metric, truth, target.prediction(output), valid.weight))
            return []

        def stop_early(env: Any) -> None:
            if watch.should_stop(env.iteration + 1, env.evaluation_result_list[0][2]):
                raise lightgbm.callback.EarlyStopException(watch.best_n_trees - 1, [])

        booster = lightgbm.train(
            settings,
            rows,
            n_trees,
            valid_sets=[rows.create_valid(matrix(valid), target.transform(truth), weight=valid.weight)],
            feval=report,
            callbacks=[stop_early],
        )
        cut = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=watch.best_n_trees))
        return cut, watch.best_n_trees

    def _settings(self, params: LightGBMParams, context: FitContext, target: Target) -> dict[str, Any]:
        objective, metric = {
            "binary": ("binary", "binary_logloss"),
            "multiclass": ("multiclass", "multi_logloss"),
            "rmse": ("regression", "rmse"),
            "poisson": ("poisson", "poisson"),
            "mae": ("regression_l1", "l1"),
        }[target.minimizes(context)]
        n_columns = len(context.features.sources)
        settings: dict[str, Any] = {
            "objective": objective,
            "metric": metric,
            "learning_rate": params.learning_rate,
            "num_leaves": params.num_leaves,
            "min_data_in_leaf": params.min_data_in_leaf,
            "min_sum_hessian_in_leaf": params.min_sum_hessian_in_leaf,
            "bagging_fraction": params.bagging_fraction,
            "bagging_freq": 1,
            "feature_fraction": params.feature_fraction,
            "min_gain_to_split": params.min_gain_to_split,
            "lambda_l1": params.lambda_l1,
            "lambda_l2": params.lambda_l2,
            "extra_trees": params.extra_trees,
            "max_cat_to_onehot": params.max_cat_to_onehot,
            "min_data_per_group": params.min_data_per_group,
            "cat_smooth": params.cat_smooth,
            "cat_l2": params.cat_l2,
            "num_threads": context.n_threads,
            "seed": context.seed,
            "deterministic": True,
            "max_bin": max_bins(n_columns),
            # The library measures which is faster, with results that differ from run to run. On 2,000 rows of 8,000 columns,
            # building histograms by column takes 135 instead of 207 s of processor time.
            "force_col_wise": n_columns >= MANY_COLUMNS,
            "force_row_wise": n_columns < MANY_COLUMNS,
            "verbosity": -1,
        }
        if context.task == "multiclass":
            settings["num_class"] = context.n_classes
        if any(directions := context.features.directions(params.monotonic)):
            # The default method "basic": "advanced" breaks constraints where splits of categories follow.
            settings["monotone_constraints"] = directions
        return settings
