"""NPT and the baselines of Kossen et al. 2021 on the paper's public tables: Tables 8 to 12, and ranks as in Table 1.

python -m papers.npt.tables [--data FOLDER] [--tables a,b] [--models a,b] [--splits 3] [--rows 2000] [--test-rows 2000]
    [--seconds 60] [--steps N] [--size mini|small|base] [--device cpu] [--full] [--keep FOLDER] [--out FILE.json]

Of the paper's ten tables, eight are public files here; Income and Kick are not. Higgs is a sample of 7,500 rows, Poker a part of
the original test file and Forest 68 % of the rows. The regression tables have published splits, which are not the paper's ten
folds; the other tables are divided at random. A part of the training rows stops training early. All models have default
hyperparameters, while the paper tunes them. Scores are mean and standard deviation over splits: accuracy, log loss and AUROC of
classes, RMSE and MSE of numbers. The rank of a model is by AUROC, accuracy or RMSE, as in Table 1.

The default size limits the training rows and trains NPT Mini. --full is for a GPU: all rows, ten splits, and the paper's size of
NPT for a table ("small" below 2,000 rows, otherwise "base"). Predictions are kept in --keep, so that an interrupted command
continues.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import numpy.typing as npt
from tabapp_plugins.npt.plugin import sized

from benchmarks.fits import (
    Division,
    Source,
    changed,
    fitted,
    kept,
    load,
    prepared,
    published_division,
    random_division,
    spread,
)
from benchmarks.machine import machine, report
from papers.npt.options import npt_parser, parsed, scale_of, tables_of
from tabapp import metrics
from tabapp.models import registry

QUICK_TABLES = ("breast_cancer_wdbc", "boston", "concrete", "yacht")
TABLES = (*QUICK_TABLES, "higgs_lightgbm", "poker_hand", "covertype", "protein_casp")
MODELS = (
    "random_forest",
    "hist_gradient_boosting",
    "xgboost",
    "catboost",
    "lightgbm",
    "mlp",
    "k_neighbors",
    "tabnet",
    "npt",
)
METRICS = {
    "binary": ("roc_auc", "accuracy", "log_loss"),
    "multiclass": ("accuracy", "log_loss"),
    "regression": ("rmse",),
}
"""The first one ranks the models."""
TITLES = {"roc_auc": "AUROC", "accuracy": "accuracy", "log_loss": "log loss", "rmse": "RMSE", "mse": "MSE"}
PUBLISHED: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("higgs_lightgbm", "accuracy"): (0.762, 0.765, 0.770, 0.766, 0.759, 0.783, None, 0.771, 0.807),
    ("poker_hand", "accuracy"): (0.715, 0.941, 0.959, 0.992, 0.928, 0.995, 0.504, 0.533, 0.993),
    ("covertype", "accuracy"): (0.948, 0.967, 0.971, 0.957, 0.850, 0.952, 0.907, 0.942, 0.967),
    ("breast_cancer_wdbc", "accuracy"): (0.942, 0.940, 0.949, 0.956, 0.953, 0.947, 0.953, 0.949, 0.947),
    ("higgs_lightgbm", "log_loss"): (0.489, 0.477, 0.471, 0.476, 0.486, 0.452, None, 0.469, 0.412),
    ("poker_hand", "log_loss"): (0.843, 0.379, 0.178, 0.065, 0.420, 0.028, 0.975, 0.973, 0.119),
    ("covertype", "log_loss"): (0.191, 0.109, 0.080, 0.120, 0.361, 0.131, 0.274, 0.151, 0.087),
    ("breast_cancer_wdbc", "log_loss"): (0.142, 0.185, 0.143, 0.124, 0.163, 0.545, 0.466, 0.233, 0.137),
    ("higgs_lightgbm", "roc_auc"): (0.847, 0.850, 0.854, 0.851, 0.843, 0.867, None, 0.857, 0.892),
    ("breast_cancer_wdbc", "roc_auc"): (0.989, 0.987, 0.989, 0.992, 0.992, 0.982, 0.980, 0.978, 0.997),
    ("protein_casp", "rmse"): (3.57, 3.61, 3.60, 3.51, 3.65, 3.62, 3.77, 3.59, 3.41),
    ("concrete", "rmse"): (5.48, 4.70, 4.68, 4.28, 4.64, 5.53, 8.51, 5.85, 5.21),
    ("boston", "rmse"): (3.78, 3.44, 3.39, 3.44, 3.86, 3.32, 4.27, 3.88, 2.92),
    ("yacht", "rmse"): (0.91, 0.85, 0.88, 1.05, 13.60, 0.91, 12.02, 3.41, 1.27),
    ("protein_casp", "mse"): (12.8, 13.0, 13.0, 12.3, 13.3, 13.1, 14.2, 12.9, 11.6),
    ("concrete", "mse"): (30.4, 22.4, 22.1, 18.6, 21.9, 31.0, 73.3, 34.4, 27.6),
    ("boston", "mse"): (15.4, 12.3, 12.3, 13.0, 15.6, 12.6, 19.6, 16.2, 8.77),
    ("yacht", "mse"): (0.986, 0.867, 0.939, 1.36, 190.0, 0.994, 149.0, 24.1, 1.80),
}
"""Tables 8 to 12, in the order of MODELS."""
PUBLISHED_RANKS = {
    "binary": (6.00, 5.00, 4.75, 2.75, 3.50, 5.75, 8.25, 6.50, 2.50),
    "multiclass": (6.50, 3.50, 2.50, 3.50, 7.50, 3.00, 8.50, 7.50, 2.50),
    "regression": (4.50, 4.00, 3.25, 3.00, 6.50, 5.00, 8.75, 6.75, 3.25),
}
"""Table 1, in the order of MODELS."""


def division_of(source: Source, name: str, number: int, options: argparse.Namespace) -> Division:
    """The rows of a split."""
    n_rows, n_test = (len(source), len(source)) if options.full else (options.rows, options.test_rows)
    if (published := published_division(source, options.data, name, number, n_rows)) is not None:
        return published
    # A tenth for scoring, as in the paper, or the given number of a large table.
    n_test = len(source) // 10 if len(source) < 10 * n_test else n_test
    return random_division(source, n_rows, n_test, number)


def predictions(name: str, model: str, number: int, options: argparse.Namespace) -> npt.NDArray[Any]:
    """The predictions of the test rows of a split."""
    source, plugin = load(options.data, name), registry.get(model)

    def compute() -> npt.NDArray[Any]:
        data = prepared(source, division_of(source, name, number, options), plugin, number)
        params = plugin.defaults(source.task, data.shape, "cuda:0" if options.full else "cpu")
        if model == "npt":
            size = ("small" if len(data.train) < 2_000 else "base") if options.full else options.size
            params = sized(size, data.shape.n_features + 1)
        if options.steps:
            params = changed(params, {"n_steps": options.steps, "max_epochs": options.steps})
        metric = METRICS[source.task][0]
        found = fitted(
            plugin, data, params, metric=metric, seed=number, seconds=options.seconds, device=options.device
        ).predict(data.test)
        print(f"{name} {model} split {number}", file=sys.stderr, flush=True)
        return found

    return kept(options.keep, f"{name}/{model}/{scale_of(options)}/{number}", compute)


def scores(name: str, model: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Each metric's values over the splits."""
    source = load(options.data, name)
    found: dict[str, list[float]] = {}
    for number in range(options.splits):
        prediction = predictions(name, model, number, options)
        truth = source.target[division_of(source, name, number, options).test]
        for metric in METRICS[source.task]:
            found.setdefault(metric, []).append(metrics.score(metric, truth, prediction))
    if "rmse" in found:
        found["mse"] = [value**2 for value in found["rmse"]]
    return found


def ranks(
    results: dict[str, dict[str, dict[str, list[float]]]], tasks: dict[str, str]
) -> dict[str, dict[str, list[int]]]:
    """The ranks of each model on the tables of each task."""
    found: dict[str, dict[str, list[int]]] = {}
    for name, by_model in results.items():
        metric = METRICS[tasks[name]][0]
        sign = 1 if metric == "rmse" else -1
        order = sorted(by_model, key=lambda model: sign * statistics.fmean(by_model[model][metric]))
        for model in by_model:
            found.setdefault(tasks[name], {}).setdefault(model, []).append(order.index(model) + 1)
    return found


def of_paper(values: tuple[float | None, ...] | None, model: str) -> str:
    """The published value of a model, or a dash."""
    value = values[MODELS.index(model)] if values and model in MODELS else None
    return f"{value:g}" if value is not None else "—"


def main() -> int:
    parser = npt_parser(__doc__, "npt_tables", seconds=60.0)
    parser.add_argument("--models", default=",".join(MODELS))
    options = parsed(parser)
    names = tables_of(options, QUICK_TABLES, TABLES)
    models: list[str] = options.models.split(",")
    tasks = {name: load(options.data, name).task for name in names}
    results = {name: {model: scores(name, model, options) for model in models} for name in names}
    rows: list[list[str]] = []
    for name, by_model in results.items():
        for metric in next(iter(by_model.values())):
            for model, found in by_model.items():
                paper = of_paper(PUBLISHED.get((name, metric)), model)
                rows.append([name, TITLES[metric], registry.get(model).title, spread(found[metric]), paper])
    for task, by_model in ranks(results, tasks).items():
        for model, found in by_model.items():
            mean = f"{statistics.fmean(found):.1f}"
            rows.append(
                [f"all {task}", "mean rank", registry.get(model).title, mean, of_paper(PUBLISHED_RANKS[task], model)]
            )
    facts = machine("torch", "catboost", "xgboost", "lightgbm", "scikit-learn")
    facts |= {"splits": options.splits, "NPT": "paper" if options.full else options.size, "device": options.device}
    facts |= {"rows": "all" if options.full else options.rows, "seconds of one fit": options.seconds}
    report(facts, ["table", "metric", "model", "score", "paper"], rows, results, options.out, right=(3, 4))
    return 0


if __name__ == "__main__":
    sys.exit(main())
