"""A chain of targets: the predictions of one target as a feature of the model of another.

python -m benchmarks.target_chain [--data FOLDER] [--tables NAME:TARGET:TARGET,…] [--model catboost] [--splits 5] [--rows 1000]
                                  [--labeled 1000,100] [--folds 5] [--seconds 10] [--out FILE.json]

Each target of a table is predicted from the features alone and from the features and the predictions of the other target. For
training rows, these are out-of-fold predictions; for test rows, the mean of the models of the folds. No true value of the other
target is ever a feature. --labeled is the number of training rows that have the target; the other target is known in all of
them, which is where a chain could help most. Scores are RMSE on test rows, divided by the standard deviation of the target
there. --seconds are of processor time.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.fits import Division, Rows, Source, data_folder, divided, fitted, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report
from benchmarks.npt_targets import read, relative_rmse
from tabapp.data.schema import Column
from tabapp.models import registry

TABLES = (
    "naval_propulsion:kMc:kMt",
    "bike_sharing_hour:casual:registered",
    "california_housing:median_house_value:median_income",
    "diamonds:price:carat",
    "wine_quality_red:quality:alcohol",
    "auto_mpg:mpg:weight",
)
CHAINED = "predicted other target"


@dataclass(frozen=True)
class Learner:
    """A model and how it is trained."""

    model: str
    seconds: float
    n_folds: int

    def predict(self, source: Source, division: Division, seed: int) -> npt.NDArray[Any]:
        """Predictions of the test rows of a division."""
        plugin = registry.get(self.model)
        data = prepared(source, division, plugin, seed)
        params = plugin.defaults(source.task, data.shape, "cpu")
        return fitted(plugin, data, params, metric="rmse", seed=seed, seconds=self.seconds).predict(data.test)

    def chained(self, source: Source, learned: Rows, division: Division, seed: int) -> npt.NDArray[Any]:
        """Predictions of all rows of a table: out-of-fold for the learned rows, the mean over folds for the test rows."""
        fold = np.random.default_rng(seed).permutation(len(learned)) % self.n_folds
        values = np.full(len(source), np.nan)
        values[division.test] = 0.0
        for i in range(self.n_folds):
            both = np.concatenate([learned[fold == i], division.test])
            found = self.predict(source, divided(source, both, learned[fold != i], seed), seed)
            # `divided` sorts the rows to predict.
            at = np.sort(both)
            is_test = np.isin(at, division.test)
            values[at[~is_test]] = found[~is_test]
            values[at[is_test]] += found[is_test] / self.n_folds
        return values


def with_column(source: Source, values: npt.NDArray[Any]) -> Source:
    """The source with a further numeric feature."""
    column = Column(name=CHAINED, kind="numeric", reason="Out-of-fold predictions of another target.")
    schema = msgspec.structs.replace(source.schema, columns=(*source.schema.columns, column))
    return replace(source, frame=source.frame.with_columns(pl.Series(CHAINED, values)), schema=schema)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--model", default="catboost")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000, help="training and early-stopping rows")
    parser.add_argument("--test-rows", type=int, default=2_000)
    parser.add_argument("--labeled", default="1000,100", help="training rows that have the target")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of one fit")
    parser.add_argument("--out", type=Path, default=RESULTS / "target_chain.json")
    options = parser.parse_args()
    learner = Learner(options.model, options.seconds, options.folds)
    results: dict[str, dict[str, list[float]]] = {}
    rows: list[list[str]] = []
    for text in options.tables.split(","):
        data = read(options.data, text)
        for number, target in enumerate(data.names):
            source, other = data.sources[number], data.sources[1 - number]
            for seed in range(options.splits):
                division = random_division(source, options.rows, options.test_rows, seed)
                learned = np.sort(np.concatenate([division.train, division.valid]))
                longer = with_column(source, learner.chained(other, learned, division, seed))
                for n in dict.fromkeys(min(int(part), len(learned)) for part in options.labeled.split(",")):
                    labeled = np.random.default_rng(seed).permutation(learned)[:n]
                    part = divided(source, division.test, labeled, seed)
                    found = results.setdefault(f"{data.table}/{target}/{n}", {"alone": [], "chain": []})
                    for way, table in (("alone", source), ("chain", longer)):
                        predicted = learner.predict(table, part, seed)
                        found[way].append(relative_rmse(source.target[part.test], predicted))
            print(f"{data.table} {target}", file=sys.stderr, flush=True)
    for key, found in results.items():
        name, target, n = key.split("/")
        gains = [a - b for a, b in zip(found["alone"], found["chain"], strict=True)]
        wins = sum(gain > 0 for gain in gains)
        cells = [spread(found["alone"]), spread(found["chain"]), spread(gains, 4), f"{wins} of {len(gains)}"]
        rows.append([name, target, f"{int(n):,}", *cells])
    facts = machine(options.model) | {"splits": options.splits, "rows": options.rows, "folds": options.folds}
    header = ["table", "target", "labeled", "features only", "with the other's prediction", "gain", "chain is better"]
    report(facts, header, rows, results, options.out, right=range(2, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
