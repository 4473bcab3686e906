"""Whether scores hold on unseen rows of tables with equal rows: with folds that keep equal rows together, and with others.

python -m benchmarks.copies [--data FOLDER] [--tables a,b] [--models a,b] [--draws 0,1] [--rows 20000] [--out FILE.json]

A draw sets a third of at most --rows rows apart. A model learns from the others in five folds, once with all copies of a row in the
same fold ("together") and once without regard to them ("apart"). "difference" is what the score of the unseen rows is better than
the out-of-fold score, in standard errors of both; "error" is that of the unseen rows with the folds apart, over that with the folds
together. The last line has the means over models, tables and draws, with the share of differences within 1.96.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.booster_portfolios import METRICS
from benchmarks.fits import Division, Rows, Source, data_folder, fitted, load, prepared
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.data.split import early_stopping_rows, make_folds
from tabapp.explain.evaluation import Z95
from tabapp.models import registry

TABLES = (
    "hotel_bookings", "letter", "mammography", "protein_casp", "soybean", "titanic", "wine_quality_red",
    "wine_quality_white",
)  # fmt: skip
"""The tables of which at least 3 % of the rows repeat another."""
MODELS = ("lightgbm", "extra_trees")
N_FOLDS = 5
HEADER = ("model", "table", "draw", "copies", "difference, together", "difference, apart", "error")


def measure(source: Source, model: str, rows: Rows, test: Rows, groups: Any, seed: int) -> tuple[float, float]:
    """The difference between unseen and out-of-fold score in standard errors, and the error of the unseen rows.

    Args:
        rows, test: numbers of the rows to learn from, and of the unseen ones.
        groups: (all rows,) a number that rows of a group share, or None.
    """
    plugin, metric = registry.get(model), METRICS[source.task]
    fold = make_folds(source.target[rows], source.task, N_FOLDS, seed, None if groups is None else groups[rows])
    parts: list[Any] = []
    tests: list[Any] = []
    scored: list[Any] = []
    for number in range(N_FOLDS):
        learned, held_out = rows[fold != number], rows[fold == number]
        stopping = early_stopping_rows(source.target, source.task, learned, seed + number, groups)
        data = prepared(source, Division(learned[~stopping], learned[stopping], test), plugin, seed)
        params = plugin.defaults(source.task, data.shape, "cpu")
        fit = fitted(plugin, data, params, metric=metric, seed=seed + number, seconds=600.0, n_threads=2)
        parts.append(fit.predict(data.preparer.transform(source.frame[held_out.tolist()])))
        tests.append(fit.predict(data.test))
        scored.append(held_out)
    known = source.target[np.concatenate(scored)], np.concatenate(parts)
    unseen = source.target[test], np.mean(tests, axis=0)
    (low, high), (unseen_low, unseen_high) = (metrics.interval(metric, *each, seed=0) for each in (known, unseen))
    score = metrics.score(metric, *unseen)
    better = score - metrics.score(metric, *known)
    better = better if metrics.get(metric).greater_is_better else -better
    error = 1.0 - score if metric == "roc_auc" else score
    return better * 2 * Z95 / math.hypot(high - low, unseen_high - unseen_low), error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--draws", default="0,1")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "copies.json")
    options = parser.parse_args()
    found: list[tuple[str, str, int, float, float, float, float]] = []
    for table in options.tables.split(","):
        source = load(options.data, table)
        hashed = source.frame.hash_rows()
        groups, copies = hashed.rank("dense").cast(int).to_numpy(), 1 - hashed.n_unique() / len(hashed)
        for draw in map(int, options.draws.split(",")):
            order = np.random.default_rng(draw).permutation(len(source))[: options.rows]
            test, rows = np.sort(order[: len(order) // 3]), np.sort(order[len(order) // 3 :])
            for model in options.models.split(","):
                together, error = measure(source, model, rows, test, groups, draw)
                apart, error_apart = measure(source, model, rows, test, None, draw)
                found.append((model, table, draw, copies, together, apart, error_apart / error))
                print(*found[-1], flush=True)
    differences = np.array([each[4:6] for each in found])
    rows_of_table = [
        [model, table, str(draw), f"{copies:.1%}", f"{together:+.2f}", f"{apart:+.2f}", f"{ratio:.3f}"]
        for model, table, draw, copies, together, apart, ratio in sorted(found)
    ]
    means = [f"{column.mean():+.2f} ({np.mean(np.abs(column) <= Z95):.0%} within 1.96)" for column in differences.T]
    ratio = math.exp(float(np.mean(np.log([each[-1] for each in found]))))
    rows_of_table.append(["mean", "", "", "", *means, f"{ratio:.3f}"])
    report(machine("lightgbm", "scikit-learn"), HEADER, rows_of_table, found, options.out, right=range(2, len(HEADER)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
