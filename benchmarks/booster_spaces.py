"""The search spaces of the boosters, compared with those of Gorishniy et al. 2021: random configurations on the same folds.

python -m benchmarks.booster_spaces [--data FOLDER] [--tables a,b] [--models a,b] [--rows 1500] [--draws 0]
                                    [--configurations 6] [--cache FILE.json] [--out FILE.json]

Draws and folds are those of `benchmarks.booster_portfolios`. Each space gives random configurations; "paper" is Gorishniy et al.
2021, Tables 6 and 7, and "tabapp" the space of the model. Test errors are divided by that of the defaults: "mean error" is over the
configurations, and "best" that of the configuration with the lowest error out of fold. "seconds" is processor time. Means over
tables and draws are geometric.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable

import numpy as np
import optuna
from tabapp_plugins._shared.search import zero_or
from tabapp_plugins.trees.catboost_model import CatBoostParams
from tabapp_plugins.trees.lightgbm_model import LightGBMParams
from tabapp_plugins.trees.xgboost_model import XGBoostParams

from benchmarks.booster_portfolios import Divided, Errors, draws_of, geometric_mean, parser_of_draws
from benchmarks.fits import load
from benchmarks.machine import RESULTS, machine, report
from tabapp import files
from tabapp.models import registry
from tabapp.models.contract import Params, Plugin, Shape, Task, Trial

TABLES = (
    "auto_mpg", "concrete", "energy_efficiency", "german_credit", "house_prices", "kin8nm", "mammography", "pima_diabetes",
    "power_plant", "students_dropout", "telco_churn", "titanic", "wine_quality_red",
)  # fmt: skip
MODELS = ("lightgbm", "catboost", "xgboost")
Space = Callable[[Trial, Task, Shape], Params]


def paper_lightgbm(trial: Trial, task: Task, shape: Shape) -> LightGBMParams:
    return LightGBMParams(
        learning_rate=trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        num_leaves=trial.suggest_int("num_leaves", 8, 256),
        min_data_in_leaf=trial.suggest_int("min_data_in_leaf", 2, max(3, min(100, shape.n_rows // 10))),
        min_sum_hessian_in_leaf=trial.suggest_float("min_sum_hessian_in_leaf", 1e-8, 1e2, log=True),
        bagging_fraction=trial.suggest_float("bagging_fraction", 0.5, 1.0),
        feature_fraction=trial.suggest_float("feature_fraction", 0.5, 1.0),
        min_gain_to_split=zero_or(trial, "min_gain_to_split", 1e-8, 1e2, log=True),
        lambda_l1=zero_or(trial, "lambda_l1", 1e-8, 1e2, log=True),
        lambda_l2=zero_or(trial, "lambda_l2", 1e-8, 1e2, log=True),
    )


def paper_catboost(trial: Trial, task: Task, shape: Shape) -> CatBoostParams:
    return CatBoostParams(
        depth=trial.suggest_int("depth", 3, 10),
        learning_rate=trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        bootstrap_type=trial.suggest_categorical("bootstrap_type", ["MVS", "Bayesian"]),
        bagging_temperature=trial.suggest_float("bagging_temperature", 0.0, 1.0),
        l2_leaf_reg=trial.suggest_float("l2_leaf_reg", 1.0, 10.0, log=True),
        leaf_estimation_iterations=trial.suggest_int("leaf_estimation_iterations", 1, 10),
    )


def paper_xgboost(trial: Trial, task: Task, shape: Shape) -> XGBoostParams:
    return XGBoostParams(
        max_depth=trial.suggest_int("max_depth", 3, 10),
        min_child_weight=trial.suggest_float("min_child_weight", 1e-8, 1e2, log=True),
        subsample=trial.suggest_float("subsample", 0.5, 1.0),
        learning_rate=trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        colsample_bylevel=trial.suggest_float("colsample_bylevel", 0.5, 1.0),
        colsample_bytree=trial.suggest_float("colsample_bytree", 0.5, 1.0),
        gamma=zero_or(trial, "gamma", 1e-8, 1e2, log=True),
        reg_lambda=zero_or(trial, "reg_lambda", 1e-8, 1e2, log=True),
        reg_alpha=zero_or(trial, "reg_alpha", 1e-8, 1e2, log=True),
    )


PAPER: dict[str, Space] = {"lightgbm": paper_lightgbm, "catboost": paper_catboost, "xgboost": paper_xgboost}
SPACES = ("paper", "tabapp")


def configurations(plugin: Plugin, task: Task, shape: Shape, n: int, seed: int) -> dict[str, Params]:
    """The defaults, and n random configurations of each space."""
    found = {"defaults": plugin.defaults(task, shape, "cpu")}
    for name in SPACES:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        for i in range(n):
            trial = study.ask()
            drawn = PAPER[plugin.name](trial, task, shape) if name == "paper" else None
            found[f"{name} {i}"] = drawn or plugin.search_space(trial, task, shape, "cpu")
    return found


def row_of(model: str, space: str, found: dict[str, Errors]) -> list[str]:
    """A row of the table: ratios to the defaults over the draws that have all configurations of the space."""
    means: list[float] = []
    best: list[float] = []
    seconds: list[float] = []
    draws = draws_of(model, found)
    n_most = max((sum(name.startswith(space) for name in draw) for draw in draws), default=0)
    for draw in draws:
        errors = [each for name, each in draw.items() if name.startswith(space)]
        if len(errors) == n_most:
            base = draw["defaults"]
            means.append(geometric_mean(error[1] / base[1] for error in errors))
            best.append(min(errors)[1] / base[1])
            seconds.append(geometric_mean(error[2] / base[2] for error in errors))
    spread = np.std(np.log(best), ddof=1) / math.sqrt(len(best)) if len(best) > 1 else math.nan
    shown = f"{geometric_mean(best):.3f} ± {spread:.3f}"
    better = str(sum(ratio < 1 for ratio in best))
    return [
        model,
        space,
        str(len(best)),
        f"{geometric_mean(means):.3f}",
        shown,
        better,
        f"{geometric_mean(seconds):.2f}",
    ]


def main() -> int:
    parser = parser_of_draws(__doc__, RESULTS / "booster_spaces.json")
    parser.set_defaults(tables=",".join(TABLES), models=",".join(MODELS), rows=1_500)
    parser.add_argument("--configurations", type=int, default=6)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found: dict[str, Errors] = {}
    if options.cache is not None and options.cache.is_file():
        found = {key: tuple(value) for key, value in json.loads(options.cache.read_text()).items()}
    for seed in map(int, options.draws.split(",")):
        for table in options.tables.split(","):
            source = load(options.data, table)
            draw = Divided(source, options.rows, seed)
            for model in options.models.split(","):
                plugin = registry.get(model)
                named = configurations(plugin, source.task, draw.shape(plugin), options.configurations, seed)
                for name, params in named.items():
                    key = f"{table}/{model}/{name}/{seed}"
                    if key in found:
                        continue
                    found[key] = draw.errors(plugin, params)
                    print(key, *(f"{value:.5g}" for value in found[key]), flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    header = ["model", "space", "draws", "mean error", "best", "best is better", "seconds"]
    rows = [row_of(model, space, found) for model in options.models.split(",") for space in SPACES]
    facts = machine("lightgbm", "xgboost", "catboost") | {
        "rows": options.rows, "draws": options.draws, "configurations": options.configurations,
    }  # fmt: skip
    report(facts, header, rows, found, options.out, range(2, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
