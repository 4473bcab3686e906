"""What a model adds to an ensemble of others, on small tables that no comparison with other systems uses.

python -m benchmarks.added_model [--data FOLDER] [--model xrfm] [--beside a,b] [--tables a,b] [--draws 0,1] [--rows 6000]
                                 [--out FILE.json]

A draw takes at most --rows rows of a table, and sets a third of them apart. The defaults of every model are fitted on five folds of
the others, and an ensemble is selected from the models --beside, with and without the model; both predict the rows set apart as the
mean of the folds. "alone" is the error of the model over that of the best of the others, "ensemble" that of the ensemble with the
model over that without it, and "weight" its weight. Errors are 1 - ROC AUC, log loss and RMSE. The last line has the geometric mean
of the ratios, with the standard error over the tables, and the mean weight.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.booster_portfolios import Divided
from benchmarks.fits import data_folder, load
from benchmarks.machine import RESULTS, machine, report
from tabapp.ensemble.greedy import blend, cross_fitted
from tabapp.models import registry

TABLES = (
    "auto_imports", "auto_mpg", "boston", "breast_cancer_wdbc", "ecoli", "energy_efficiency", "horse_colic",
    "motorcycle_claims", "naval_propulsion", "penguins", "soybean", "wine_quality_red", "yacht",
)  # fmt: skip
BESIDE = ("lightgbm", "xgboost", "catboost", "extra_trees", "linear", "k_neighbors", "mlp", "tabm")
HEADER = ("table", "draw", "alone", "ensemble", "weight", "seconds")


def measure(draw: Divided, model: str, beside: list[str]) -> tuple[float, float, float, float]:
    """The ratios of errors, the weight of the model in the ensemble, and the seconds of its five fits."""
    out_of_fold, tests, errors, seconds = [], [], [], 0.0
    rows = np.concatenate([draw.held_out(fold) for fold in range(draw.n_folds)])
    fold = np.repeat(np.arange(draw.n_folds), [len(draw.held_out(number)) for number in range(draw.n_folds)])
    for name in (*beside, model):
        plugin, began = registry.get(name), time.perf_counter()
        found, test = draw.predictions(plugin, plugin.defaults(draw.task, draw.shape(plugin), "cpu"))
        seconds = time.perf_counter() - began
        out_of_fold.append(found)
        tests.append(test)
        errors.append(draw.errors_of(found, test)[1])
    names = [*beside, model]
    of_ensemble = []
    for n in (len(beside), len(names)):
        weights = cross_fitted(out_of_fold[:n], draw.truth(rows), fold, draw.metric).weights
        of_ensemble.append(draw.error(draw.truth(draw.test), blend(tests[:n], weights)))
    return errors[-1] / min(errors[:-1]), of_ensemble[1] / of_ensemble[0], float(weights[-1]), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--model", default="xrfm")
    parser.add_argument("--beside", default=",".join(BESIDE))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", default="0,1")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "added_model.json")
    options = parser.parse_args()
    found: list[tuple[str, int, float, float, float, float]] = []
    for table in options.tables.split(","):
        for seed in map(int, options.draws.split(",")):
            draw = Divided(load(options.data, table), options.rows, seed)
            found.append((table, seed, *measure(draw, options.model, options.beside.split(","))))
            print(*found[-1], flush=True)
    rows = [
        [table, str(seed), f"{alone:.3f}", f"{ratio:.3f}", f"{weight:.2f}", f"{seconds:.1f}"]
        for table, seed, alone, ratio, weight, seconds in found
    ]
    tables, errors = [each[0] for each in found], np.log([each[2:4] for each in found])
    of_tables = np.array([errors[[name == table for name in tables]].mean(axis=0) for table in dict.fromkeys(tables)])
    spread = of_tables.std(axis=0, ddof=1) / math.sqrt(len(of_tables)) if len(of_tables) > 1 else np.zeros(2)
    means = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(np.exp(of_tables.mean(axis=0)), spread, strict=True)]
    rows.append(["mean", "", *means, f"{np.mean([each[4] for each in found]):.2f}", ""])
    report(machine("scikit-learn", "torch"), HEADER, rows, found, options.out, right=range(1, len(HEADER)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
