"""The test error of the mean of the fold models by the number of folds.

python -m benchmarks.folds [--tables a,b] [--models a,b] [--folds 5,8] [--draws 1] [--data FOLDER] [--out FILE.json]

The models have their default hyperparameters. Test rows are a fifth of a table, and the folds divide the others; more folds give
each model more rows. The error is the log loss or the RMSE of the mean of the models, one for each fold. "ratio" is the error over
that with the first number of folds, "time" the same of the seconds. The last lines are geometric means over tables and draws.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from benchmarks.budgets import mean_of
from benchmarks.fits import divided, fitted, load, prepared
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.models import registry
from tabapp.run.record.state import format_score

TABLES = ("kin8nm", "power_plant", "telco_churn", "students_dropout", "naval_propulsion")
"""Of 3,000 to 15,000 rows, and none of the tables that `benchmarks.budgets` judges."""
MODELS = ("lightgbm", "extra_trees", "mlp")
SECONDS = 20.0
"""Limit of a fit."""


@dataclass(frozen=True)
class Result:
    """The test error of the mean of the models of all folds, and the processor seconds of their fits."""

    table: str
    model: str
    draw: int
    n_folds: int
    error: float
    seconds: float


def measure(folder: Path, table: str, model: str, draw: int, n_folds: int) -> Result:
    """Train a model on every fold and score the mean of the predictions."""
    import torch

    torch.set_num_threads(1)
    source, plugin = load(folder, table), registry.get(model)
    metric = "rmse" if source.task == "regression" else "log_loss"
    order = np.random.default_rng(draw).permutation(len(source))
    test, learned = np.array_split(order, [len(order) // 5])
    kind: Any = KFold if source.task == "regression" else StratifiedKFold
    folds = kind(n_folds, shuffle=True, random_state=draw).split(learned, source.target[learned])
    predictions: list[Any] = []
    began = time.process_time()
    for number, (train, _) in enumerate(folds):
        division = divided(source, test, learned[train], number)
        data = prepared(source, division, plugin, draw)
        params = plugin.defaults(source.task, data.shape, "cpu")
        fit = fitted(plugin, data, params, metric=metric, seed=number, seconds=SECONDS)
        predictions.append(fit.predict(data.test))
    error = metrics.score(metric, source.target[np.sort(test)], np.mean(predictions, axis=0))
    return Result(table, model, draw, n_folds, error, time.process_time() - began)


def summary(results: list[Result], numbers: list[int]) -> list[list[str]]:
    """One line per table, draw and model, then one per model."""
    rows: list[list[str]] = []
    logarithms: dict[str, list[float]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)
    by_key = {(each.table, each.draw, each.model, each.n_folds): each for each in results}
    for table, draw, model in dict.fromkeys((each.table, each.draw, each.model) for each in results):
        first, *others = (by_key[table, draw, model, number] for number in numbers)
        for other in others:
            name = f"{model}, {other.n_folds} folds"
            logarithms[name].append(float(np.log(other.error / first.error)))
            times[name].append(float(np.log(other.seconds / first.seconds)))
            errors = format_score(first.error), format_score(other.error)
            ratios = f"{other.error / first.error:.3f}", f"{other.seconds / first.seconds:.2f}"
            rows.append([table, str(draw), name, *errors, *ratios])
    for name in logarithms:
        rows.append(["mean", "", name, "", "", mean_of(logarithms[name]), f"{np.exp(np.mean(times[name])):.2f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--folds", default="5,8")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "folds.json")
    options = parser.parse_args()
    numbers = [int(part) for part in options.folds.split(",")]
    asked = product(options.tables.split(","), options.models.split(","), range(options.draws), numbers)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(measure, *zip(*((options.data, *each) for each in asked), strict=True)))
    header = ["table", "draw", "model", f"error, {numbers[0]} folds", "error", "ratio", "time"]
    facts = machine("torch", "lightgbm", "scikit-learn") | {"threads": 1}
    report(facts, header, summary(results, numbers), [asdict(each) for each in results], options.out, (1, 3, 4, 5, 6))


if __name__ == "__main__":
    main()
