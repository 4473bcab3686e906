"""CatBoost (Prokhorenkova et al. 2018), tuned as in Gorishniy et al. 2021, supplement B.2."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import Cost, FitContext, FitStopped, Params, Shape, Task, Trial
from tabapp.models.formula import Formula

from .._shared.boosting import CPU, BoostedModel, BoostingPlugin, GradientBoostingParams, Watch, slowest_rate
from .._shared.catboost_gpu import Stamps, gpu_settings, grown_in_time
from .._shared.derived import derives, learned_from, switched
from .._shared.losses import default_loss, suggested_loss, with_other_loss
from .._shared.target import Target, target_of
from .._shared.tree_formulas import of_catboost

REPORTED: dict[str, dict[str, str]] = {
    "binary": {
        "roc_auc": "AUC",
        "log_loss": "Logloss",
        "accuracy": "Accuracy",
        "balanced_accuracy": "BalancedAccuracy",
        "f1": "F1",
        "average_precision": "PRAUC",
        "brier": "BrierScore",
    },
    "multiclass": {
        "roc_auc": "AUC:type=OneVsAll",
        "log_loss": "MultiClass",
        "accuracy": "Accuracy",
        "f1": "TotalF1:average=Macro",
    },
    "regression": {"r2": "R2"},
}
"""The run's metrics under CatBoost's names. Its callback receives no predictions, only requested metrics."""


ROWS_TO_DERIVE, MOST_ROWS_TO_DERIVE = 3_000, 20_000
"""With so many rows, the defaults for regression use features made from two columns (`benchmarks/results/derived_features.json`).
Fits take several times as long with them, for which more rows leave too little time."""


def with_weights(values: Mapping[str, Any], name: str) -> str:
    """The name under which a metric is reported: with row weights, CatBoost reports some metrics with and without them."""
    return name if name in values else f"{name}{';' if ':' in name else ':'}use_weights=true"


GPU_CELLS = 5_000_000
"""Rows times columns from which a fit takes a GPU, on which models wait for each other. With 2.5 million cells, a fit is 1.2
times as fast on an H100 as on eight cores, with 10 million 2.3 times, and with 25 million 3.8 times
(`benchmarks/results/boosters_on_gpu.json`)."""
MOST_LEVELS_ON_GPU = 255
"""Levels of a column that is one-hot encoded."""


class CatBoostParams(GradientBoostingParams, frozen=True, kw_only=True):
    """Named as in CatBoost's parameter reference; `bagging_temperature` applies only to the Bayesian bootstrap, and `subsample`
    only to the others.
    """

    depth: int = 6
    learning_rate: float = 0.08
    bootstrap_type: Literal["MVS", "Bayesian", "Bernoulli"] = "MVS"
    bagging_temperature: float = 1.0
    l2_leaf_reg: float = 3.0
    leaf_estimation_iterations: int = 1
    max_ctr_complexity: int = 1
    one_hot_max_size: int = 50
    border_count: int = 128
    grow_policy: Literal["SymmetricTree", "Depthwise"] = "SymmetricTree"
    subsample: float = 0.8
    colsample_bylevel: float = 1.0
    model_size_reg: float = 0.5


def pool(table: Table, target: Target | None = None) -> Any:
    """A table as CatBoost's `Pool`: float32 columns, then categories as bytes."""
    import catboost

    n_codes = int(table.categorical.max(initial=0)) + 1
    names = np.array([str(code).encode() for code in range(n_codes)], dtype=object)
    features = catboost.FeaturesData(
        num_feature_data=np.ascontiguousarray(table.numeric) if table.numeric.shape[1] else None,
        cat_feature_data=np.ascontiguousarray(names[table.categorical]) if table.categorical.shape[1] else None,
    )
    label = None if target is None else target.transform(target_of(table))
    return catboost.Pool(features, label, weight=None if target is None else table.weight)


def possible_on(device: str, task: Task, params: CatBoostParams) -> CatBoostParams:
    """The hyperparameters, with what a GPU has in place of what the library lacks there."""
    if device == CPU:
        return params
    bootstrap = "Bernoulli" if task == "multiclass" and params.bootstrap_type == "MVS" else params.bootstrap_type
    return msgspec.structs.replace(params, colsample_bylevel=1.0, bootstrap_type=bootstrap)


class CatBoostModel(BoostedModel):
    file_name = "model.cbm"

    def output(self, table: Table) -> npt.NDArray[Any]:
        kind = "RawFormulaVal" if self.target.task == "regression" else "Probability"
        return self.booster.predict(pool(table), prediction_type=kind, thread_count=self.n_threads)

    def shap_values(self, table: Table) -> npt.NDArray[Any]:
        return self.booster.get_feature_importance(pool(table), type="ShapValues", thread_count=self.n_threads)

    def use_of_features(self) -> npt.NDArray[Any]:
        return np.array(self.booster.get_feature_importance(type="PredictionValuesChange"))

    def formula(self, features: FeatureSpec) -> Formula | None:
        codes = np.arange(max(features.cardinalities, default=1))[:, None]
        every_code = Table(
            numeric=np.zeros((len(codes), len(features.numeric)), dtype=np.float32),
            categorical=np.ascontiguousarray(codes % np.array(features.cardinalities, dtype=np.int32), dtype=np.int32),
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            self.booster.save_model(str(path), format="json", pool=pool(every_code))
            model = json.loads(path.read_bytes())
        return of_catboost(model, features, self.target.head(), self.target.n_outputs)

    def save_booster(self, path: Path) -> None:
        self.booster.save_model(str(path), format="cbm")

    @staticmethod
    def load_booster(path: Path) -> Any:
        import catboost

        return catboost.CatBoost().load_model(str(path), format="cbm")


class CatBoost(BoostingPlugin):
    """Trains on a GPU from five million cells (rows times columns) on. Fits with `--monotonic`, with `colsample_bylevel` below 1,
    with more than 255 one-hot encoded levels, or of several classes with MVS stay on the CPU: the library lacks them on a GPU.
    Predictions are made on the CPU. Two fits on a GPU with the same seed may differ slightly, because sums are made in any order
    there.
    """

    name = "catboost"
    title = "CatBoost"
    paper = "Prokhorenkova et al. 2018, CatBoost: unbiased boosting with categorical features"
    starts_first = True
    requires = ("catboost",)
    params_type = CatBoostParams
    model_type = CatBoostModel
    gpu_cells = GPU_CELLS

    def device_for(self, task: Task, shape: Shape, device: str) -> str:
        return CPU if shape.n_monotonic else super().device_for(task, shape, device)

    def only_on_cpu(self, params: CatBoostParams, context: FitContext) -> str | None:
        if params.colsample_bylevel < 1:
            return "CatBoost samples columns on a CPU only"
        if params.one_hot_max_size > MOST_LEVELS_ON_GPU:
            return f"CatBoost one-hot encodes more than {MOST_LEVELS_ON_GPU} levels on a CPU only"
        if context.task == "multiclass" and params.bootstrap_type == "MVS":
            return "CatBoost has MVS for several classes on a CPU only"
        if any(context.features.directions(params.monotonic)):
            return "CatBoost has monotonic constraints on a CPU only"
        return None

    def defaults(self, task: Task, shape: Shape, device: str) -> CatBoostParams:
        """Chosen by scores on eleven public tables.

        NOTE[DIFF]: these differ from the library's. Columns of up to 50 levels are one-hot encoded instead of using ordered
        target statistics. On adult and bank_marketing this takes a third of the time, and on bank_marketing the ROC AUC is
        0.937 instead of 0.933. `max_ctr_complexity` is 1 because pairs of the remaining columns are slow. Minimal variance
        sampling and ten Newton steps are the library's defaults; with them, adult has a ROC AUC of 0.930, against 0.928
        with the Bayesian bootstrap and one step.
        """
        steps = 10 if task == "binary" else 1
        has_rows = ROWS_TO_DERIVE <= shape.n_rows <= MOST_ROWS_TO_DERIVE
        derived = task == "regression" and has_rows and derives(task, shape)
        depth, learning_rate = (4, 0.06) if shape.n_rows < 10_000 else (6, 0.08)
        params = CatBoostParams(
            loss=default_loss(task, shape),
            derived_features=derived,
            depth=depth,
            learning_rate=learning_rate,
            leaf_estimation_iterations=steps,
        )
        return possible_on(device, task, params)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[CatBoostParams, ...]:
        """For small tables, where fits are short: deeper trees, and splits that see fewer columns, with a low learning rate; and
        the defaults with features made from two columns.
        """
        defaults = self.defaults(task, shape, device)
        tried = with_other_loss(defaults, task, shape)
        tried += () if defaults.derived_features else switched(defaults, task, shape)
        if shape.n_rows >= 10_000:
            return tried
        deeper = CatBoostParams(
            loss=defaults.loss,
            derived_features=defaults.derived_features,
            depth=6,
            learning_rate=0.05,
            l2_leaf_reg=6.0,
        )
        fewer_columns = msgspec.structs.replace(defaults, learning_rate=0.04, colsample_bylevel=0.7)
        return (*tried, possible_on(device, task, deeper), possible_on(device, task, fewer_columns))

    def reduced(self, params: Params) -> tuple[CatBoostParams, ...]:
        """Symmetric trees predict much faster than others, so there may be more of them."""
        assert isinstance(params, CatBoostParams)
        return tuple(
            msgspec.structs.replace(
                params, n_trees=n_trees, depth=6, learning_rate=learning_rate, grow_policy="SymmetricTree"
            )
            for n_trees, learning_rate in ((60, 0.25), (150, 0.15), (400, 0.08))
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> CatBoostParams:
        """The space of CatBoost in TabArena (Erickson et al. 2025).

        NOTE[DIFF]: On 13 small tables, random configurations have 1.02 times the error of the defaults, those of Table 7 of
        Gorishniy et al. 2021 with narrower learning rates 1.04 times in 1.4 times the seconds
        (`benchmarks/results/booster_spaces.json`; `catboost:paper` has the exact table). Learning rates are not lower than
        `slowest_rate`, instead of 0.005. On large tables, statistics are of two columns at most instead of five, because more
        take too long.
        """
        combined = (2, 5) if shape.n_rows < 10_000 else (1, 2)
        return CatBoostParams(
            loss=suggested_loss(trial, task, shape),
            derived_features=derives(task, shape) and trial.suggest_categorical("derived_features", [False, True]),
            learning_rate=trial.suggest_float("learning_rate", slowest_rate(shape), 0.1, log=True),
            bootstrap_type="Bernoulli",
            subsample=trial.suggest_float("subsample", 0.7, 1.0),
            # Constraints are possible in symmetric trees only.
            grow_policy=trial.suggest_categorical(
                "grow_policy", ["SymmetricTree", "Depthwise"][: 1 if shape.n_monotonic else 2]
            ),
            depth=trial.suggest_int("depth", 4, 8),
            colsample_bylevel=1.0 if device != CPU else trial.suggest_float("colsample_bylevel", 0.85, 1.0),
            l2_leaf_reg=trial.suggest_float("l2_leaf_reg", 1e-4, 5.0, log=True),
            leaf_estimation_iterations=trial.suggest_int("leaf_estimation_iterations", 1, 20, log=True),
            one_hot_max_size=trial.suggest_int("one_hot_max_size", 8, 100, log=True),
            model_size_reg=trial.suggest_float("model_size_reg", 0.1, 1.5, log=True),
            # Combinations of categorical columns are much slower on a GPU.
            max_ctr_complexity=1 if device != CPU else trial.suggest_int("max_ctr_complexity", *combined),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """The best boosted trees with default hyperparameters in TabArena's comparison of 2026."""
        return 2.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, CatBoostParams)
        shape = learned_from(shape, params)
        if device != CPU:
            # NOTE: a first guess. Published runs on a V100 take 3e-10 s for a tree and cell; the kernels of a tree take
            # milliseconds to start. The bins are computed on the CPU. The memory is what the fit uses of its reserve.
            cells, outputs = shape.n_rows * shape.n_features, shape.n_classes if task == "multiclass" else 1
            seconds = 3.0 + 1e-7 * cells + 1200 * (4e-3 + 3e-10 * cells) * (0.5 * outputs if outputs > 2 else 1)
            return Cost(seconds, 500_000_000 + 4 * cells + 60 * shape.n_rows * outputs)
        per_tree = 5e-4 + 3e-8 * shape.n_rows * (0.5 * shape.n_numeric + 0.25 * shape.n_categorical)
        trees = 1200 * (0.5 * shape.n_classes if task == "multiclass" else 1)
        return Cost(seconds=0.5 + trees * per_tree, n_bytes=17_000_000 + 17 * shape.n_rows * shape.n_features)

    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        import catboost

        if context.device != CPU:
            return self._grow_on_gpu(train, valid, n_trees, target, params, context)
        watch = Watch(context, params.patience_on(len(train)))
        # With the Poisson deviance, other metrics would compare the target with logarithms.
        reported = None if target.loss == "poisson" else REPORTED[context.task].get(context.metric)
        stopped: FitStopped | None = None

        class Follow:
            def after_iteration(self, info: Any) -> bool:
                nonlocal stopped
                if valid is None:
                    return context.seconds_left() > 0
                values = info.metrics["validation"]
                # An exception in a callback does not propagate through CatBoost's C++, so it is raised after training.
                try:
                    if context.task == "regression" and context.metric == target.minimizes(context):
                        watch.report(info.iteration, lambda: next(iter(values.values()))[-1] * target.std)
                    elif reported:
                        name = with_weights(values, reported)
                        watch.report(info.iteration, lambda: values[name][-1])
                except FitStopped as error:
                    stopped = error
                    return False
                return not watch.should_stop(info.iteration, values[self.loss(values)][-1])

            @staticmethod
            def loss(values: dict[str, Any]) -> str:
                return next(name for name in values if name in ("Logloss", "MultiClass", "RMSE", "MAE", "Poisson"))

        settings = self._settings(params, context, target, n_trees, validated=valid is not None)
        if valid is not None and reported and reported != settings["loss_function"]:
            settings["custom_metric"] = [reported + (";" if ":" in reported else ":") + "hints=skip_train~true"]
        booster = catboost.CatBoost(settings)
        booster.fit(pool(train, target), eval_set=None if valid is None else pool(valid, target), callbacks=[Follow()])
        if stopped:
            raise stopped
        return booster, int(booster.tree_count_ or 0)

    def _grow_on_gpu(
        self,
        train: Table,
        valid: Table | None,
        n_trees: int,
        target: Target,
        params: CatBoostParams,
        context: FitContext,
    ) -> tuple[Any, int]:
        """`grow` without callbacks: the library stops early by its own detector, and progress is not reported."""
        import catboost

        settings = self._settings(params, context, target, n_trees, validated=valid is not None)
        patience = None if valid is None else params.patience_on(len(train))
        settings |= gpu_settings(settings["loss_function"], patience, context)
        rows, held_out = pool(train, target), None if valid is None else pool(valid, target)

        def grow(n: int, log: Stamps | None) -> Any:
            level = "Silent" if log is None else "Verbose"
            booster = catboost.CatBoost(settings | {"iterations": n, "logging_level": level})
            booster.fit(rows, eval_set=held_out, log_cout=log, log_cerr=log)
            return booster

        booster = grown_in_time(grow, n_trees, context)
        return booster, int(booster.tree_count_ or 0)

    def _settings(
        self, params: CatBoostParams, context: FitContext, target: Target, n_trees: int, *, validated: bool
    ) -> dict[str, Any]:
        """The library's parameters.

        NOTE[DIFF]: large tables are trained on a GPU if there is one; the paper evaluates CatBoost on the CPU for quality (B.2).
        The paper's `od_pval` of 0.001 is not used, because CatBoost has only one overfitting detector at a time and patience is
        the other. The paper's is 50 trees; here it depends on the number of rows (`BoostingParams.patience_on`).
        """
        losses = {"binary": "Logloss", "multiclass": "MultiClass", "rmse": "RMSE", "poisson": "Poisson", "mae": "MAE"}
        settings: dict[str, Any] = {
            "loss_function": losses[target.minimizes(context)],
            "iterations": n_trees,
            "depth": params.depth,
            "learning_rate": params.learning_rate,
            "bootstrap_type": params.bootstrap_type,
            "l2_leaf_reg": params.l2_leaf_reg,
            "leaf_estimation_iterations": params.leaf_estimation_iterations,
            "max_ctr_complexity": params.max_ctr_complexity,
            "one_hot_max_size": params.one_hot_max_size,
            "border_count": params.border_count,
            "grow_policy": params.grow_policy,
            "colsample_bylevel": params.colsample_bylevel,
            "model_size_reg": params.model_size_reg,
            # `CatBoost.shrink` supports only symmetric trees.
            "use_best_model": validated,
            "thread_count": context.n_threads,
            "random_seed": context.seed,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        if params.bootstrap_type == "Bayesian":
            settings["bagging_temperature"] = params.bagging_temperature
        else:
            settings["subsample"] = params.subsample
        if context.task == "multiclass":
            settings["classes_count"] = context.n_classes
        if any(directions := context.features.directions(params.monotonic)):
            settings["monotone_constraints"] = directions
        return settings
