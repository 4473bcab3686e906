"""The error of forests with fewer and more trees.

python -m benchmarks.lab.forest_sizes [--tables a,b] [--draws 0,1] [--rows 6000] [--data FOLDER] [--out FILE.json]

Random forest and extra trees with their defaults are grown on five folds of each table. "fold" is the error of the left-out rows,
and "mean" that of test rows with the mean of the five models, each as a ratio to that of 200 trees: geometric means over tables and
draws, with standard errors over the tables.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.ensemble
from sklearn.model_selection import KFold
from tabapp_plugins._shared.boosting import matrix
from tabapp_plugins._shared.trees import ForestPlugin, classes_of

from benchmarks.fits import data_folder, load, prepared, random_division
from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.rivals import METRICS
from tabapp import metrics
from tabapp.models import registry

SIZES, REFERENCE = (25, 50, 100, 150, 200, 300), 200
TABLES = (
    "german_credit", "titanic", "telco_churn", "adult", "wine_quality_white", "students_dropout", "letter", "house_prices",
    "concrete", "california_housing", "bike_sharing_hour", "diamonds", "protein_casp",
)  # fmt: skip


def errors(name: str, model: str, draw: int, options: argparse.Namespace) -> dict[int, tuple[float, float]]:
    """By number of trees: the error of left-out rows, and that of test rows with the mean of the models of the folds."""
    source, plugin = load(options.data, name), registry.get(model)
    assert isinstance(plugin, ForestPlugin)
    data = prepared(source, random_division(source, options.rows, 4_000, draw), plugin, draw)
    rows = data.train.joined(data.valid)
    assert rows.target is not None
    assert data.test.target is not None
    X, y, test, metric = matrix(rows), rows.target, matrix(data.test), METRICS[source.task]
    params: Any = plugin.defaults(source.task, data.shape, "cpu")
    kind = "Regressor" if source.task == "regression" else "Classifier"
    shape = () if source.task == "regression" else (source.n_classes,)
    left_out = {size: np.zeros((len(X), *shape)) for size in SIZES}
    means = {size: np.zeros((len(test), *shape)) for size in SIZES}
    for fold, (train, valid) in enumerate(KFold(5, shuffle=True, random_state=draw).split(X)):
        forest = getattr(sklearn.ensemble, f"{plugin.estimator}{kind}")(
            max(SIZES), min_samples_leaf=params.min_samples_leaf, max_features=params.max_features, random_state=fold
        ).fit(X[train], y[train])
        for found, to, share in ((left_out, X[valid], 1.0), (means, test, 0.2)):
            outputs = [tree.predict_proba(to) if shape else tree.predict(to) for tree in forest.estimators_]
            columns = [list(classes_of(forest))] if shape else []
            for size in SIZES:
                at = valid if found is left_out else np.arange(len(test))
                full = np.zeros((len(at), *shape))
                full[(slice(None), *columns)] = np.mean(outputs[:size], axis=0)
                found[size][at] += share * full
    target = data.test.target

    def error(truth: Any, predicted: Any) -> float:
        if shape:
            predicted = predicted.clip(1e-3)
            predicted = predicted / predicted.sum(axis=1, keepdims=True)
        value = metrics.score(metric, truth, predicted)
        return 1 - value if metrics.get(metric).greater_is_better else value

    return {size: (error(y, left_out[size]), error(target, means[size])) for size in SIZES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", default="0,1")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--out", type=Path, default=RESULTS / "forest_sizes.json")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for model in ("extra_trees", "random_forest"):
        for name in options.tables.split(","):
            for draw in map(int, options.draws.split(",")):
                results[f"{model}|{name}|{draw}"] = errors(name, model, draw, options)
                print(model, name, draw, file=sys.stderr, flush=True)
    rows: list[list[str]] = []
    for model in ("extra_trees", "random_forest"):
        for size in SIZES:
            cells = [model, str(size)]
            for place in (0, 1):
                logs: dict[str, list[float]] = {}
                for key, found in results.items():
                    if key.startswith(f"{model}|"):
                        ratio = found[size][place] / found[REFERENCE][place]
                        logs.setdefault(key.split("|")[1], []).append(math.log(ratio))
                of_tables = [float(np.mean(each)) for each in logs.values()]
                spread = np.std(of_tables, ddof=1) / math.sqrt(len(of_tables)) if len(of_tables) > 1 else 0.0
                cells.append(f"{math.exp(np.mean(of_tables)):.4f} ± {spread:.4f}")
            rows.append(cells)
    report(machine("scikit-learn"), ["model", "trees", "fold", "mean"], rows, results, options.out, right=(1, 2, 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
