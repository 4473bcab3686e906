"""Hyperparameters that the boosters try before they are tuned, on many tables: each alone, and the best of the first of them.

python -m benchmarks.booster_portfolios [--data FOLDER] [--tables a,b] [--models a,b] [--rows 6000] [--draws 0]
                                        [--folds 5] [--candidates FILE.json] [--cache FILE.json] [--out FILE.json]

A draw takes at most --rows rows of a table, and two thirds of them for training. A configuration is fitted on --folds folds, each
with early-stopping rows as in a run; its error out of fold and that of the mean of its folds on the other third are compared with
the defaults. The second table is what a run gets that stops after the first n configurations: of these, the one with the lowest
error out of fold, judged on the other third. --candidates names more configurations, as changes of the defaults:
{"lightgbm": {"name": {"num_leaves": 7}}}. Results are added to --cache as they come, and are not computed again.

Errors are 1 - ROC AUC, log loss and RMSE. A ratio is a geometric mean over tables and draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.fits import Prepared, Rows, Source, changed, data_folder, divided, fitted, load, prepared
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import files, metrics
from tabapp.models import registry
from tabapp.models.contract import Params, Plugin, Shape
from tabapp.task import Task

TABLES = (
    "auto_imports", "auto_mpg", "boston", "breast_cancer_wdbc", "concrete", "ecoli", "energy_efficiency", "german_credit",
    "house_prices", "kin8nm", "mammography", "pima_diabetes", "power_plant", "soybean", "students_dropout", "telco_churn",
    "titanic", "wine_quality_red", "wine_quality_white", "yacht",
)  # fmt: skip
MODELS = ("lightgbm", "xgboost", "catboost")
METRICS = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}
N_FOLDS = 5
Errors = tuple[float, float, float]
"""Out of fold, on test rows, and processor seconds."""


class Divided:
    """A draw of a table: its training rows in folds, and test rows.

    Args:
        n_rows: training rows at most; half as many test rows.

    Attributes:
        test: numbers of the test rows.
        task: the task of the table.
    """

    def __init__(self, source: Source, n_rows: int, seed: int, n_folds: int = N_FOLDS) -> None:
        order = np.random.default_rng(seed).permutation(len(source))[: n_rows + n_rows // 2]
        n_test = len(order) // 3
        self._source, self.test, self._rows, self._seed = source, np.sort(order[:n_test]), order[n_test:], seed
        self.n_folds, self.metric = n_folds, METRICS[source.task]
        self.task: Task = source.task
        # Sorted by the target and dealt in turn, which stratifies; the random order breaks ties.
        dealt = np.argsort(source.target[self._rows], kind="stable")
        self._fold = np.empty(len(dealt), np.int64)
        self._fold[dealt] = np.arange(len(dealt)) % n_folds

    def shape(self, plugin: Plugin) -> Shape:
        """The size of the training rows of a fold."""
        return self.prepared(0, plugin).shape

    def errors(self, plugin: Plugin, params: Params) -> Errors:
        """Fit a configuration on all folds."""
        began = time.process_time()
        out_of_fold, test = self.predictions(plugin, params)
        seconds = time.process_time() - began
        return (*self.errors_of(out_of_fold, test), seconds)

    def predictions(self, plugin: Plugin, params: Params) -> tuple[Any, Any]:
        """Predictions of the training rows out of fold, fold by fold, and of the test rows, as the mean of the folds."""
        parts: list[Any] = []
        tests: list[Any] = []
        for fold in range(self.n_folds):
            data = self.prepared(fold, plugin, params)
            model = fitted(plugin, data, params, metric=self.metric, seed=self._seed + fold, seconds=600.0)
            held_out = self._source.frame[self.held_out(fold).tolist()]
            parts.append(model.predict(data.preparer.transform(held_out)))
            tests.append(model.predict(data.test))
        return np.concatenate(parts), np.mean(tests, axis=0)

    def errors_of(self, out_of_fold: Any, test: Any) -> tuple[float, float]:
        """The errors of what `predictions` returned."""
        truth, rows = self._source.target, np.concatenate([self.held_out(fold) for fold in range(self.n_folds)])
        return self.error(truth[rows], out_of_fold), self.error(truth[self.test], test)

    def truth(self, rows: Rows) -> Any:
        """The encoded target of some rows of the table."""
        return self._source.target[rows]

    def held_out(self, fold: int) -> Rows:
        """Numbers of the rows of a fold."""
        return np.sort(self._rows[self._fold == fold])

    def prepared(self, fold: int, plugin: Plugin, params: Params | None = None) -> Prepared:
        """The features of the rows that the model of a fold learns from, and of the test rows."""
        division = divided(self._source, self.test, self._rows[self._fold != fold], self._seed + fold)
        return prepared(self._source, division, plugin, self._seed, params)

    def error(self, truth: Any, predicted: Any) -> float:
        """Lower is better."""
        score = metrics.score(self.metric, truth, predicted)
        return 1.0 - score if self.metric == "roc_auc" else score


def configurations(plugin: Plugin, source: Source, shape: Shape, more: dict[str, Any]) -> dict[str, Params]:
    """The defaults, the configurations that a run tries next, and further ones, by name."""
    defaults = plugin.defaults(source.task, shape, "cpu")
    found = {"defaults": defaults}
    found |= {f"{i}": params for i, params in enumerate(plugin.portfolio(source.task, shape, "cpu"), 1)}
    return found | {name: changed(defaults, changes) for name, changes in more.items()}


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def rows_of(model: str, found: dict[str, Errors]) -> list[list[str]]:
    """A row for each configuration of a model: errors and seconds as ratios to the defaults."""
    draws = draws_of(model, found)
    names = list(dict.fromkeys(name for draw in draws for name in draw))
    rows: list[list[str]] = []
    for name in names:
        pairs = [(draw[name], draw["defaults"]) for draw in draws if name in draw]
        ratios = [[each[i] / base[i] for each, base in pairs] for i in range(3)]
        better = sum(ratio < 1.0 for ratio in ratios[1])
        shown = [f"{geometric_mean(column):.3f}" for column in ratios]
        rows.append([model, name, str(len(pairs)), *shown, str(better), f"{max(ratios[1]):.2f}"])
    return rows


def draws_of(model: str, found: dict[str, Errors]) -> list[dict[str, Errors]]:
    """The errors of a model's configurations in each draw that has the defaults."""
    draws: dict[str, dict[str, Errors]] = {}
    for key, errors in found.items():
        table, each, name, seed = key.split("/")
        if each == model:
            draws.setdefault(f"{table}/{seed}", {})[name] = errors
    return [draw for draw in draws.values() if "defaults" in draw]


def best_of_first(model: str, found: dict[str, Errors]) -> list[list[str]]:
    """A row for each number of configurations: the ratio to the defaults of the one with the lowest error out of fold."""
    draws = draws_of(model, found)
    names = list(dict.fromkeys(name for draw in draws for name in draw))
    rows: list[list[str]] = []
    for n in range(1, len(names) + 1):
        ratios: list[float] = []
        for draw in draws:
            tried = [draw[name] for name in names[:n] if name in draw]
            ratios.append(min(tried)[1] / draw["defaults"][1])
        rows.append([model, str(n), names[n - 1], f"{geometric_mean(ratios):.3f}"])
    return rows


def parser_of_draws(description: str | None, out: Path) -> argparse.ArgumentParser:
    """The options of a benchmark that fits boosters on draws of many tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--draws", default="0", help="seeds, with commas")
    parser.add_argument("--cache", type=Path, help="file that keeps results as they come")
    parser.add_argument("--out", type=Path, default=out)
    return parser


def main() -> int:
    parser = parser_of_draws(__doc__, RESULTS / "booster_portfolios.json")
    parser.add_argument("--folds", type=int, default=N_FOLDS)
    parser.add_argument("--candidates", type=Path)
    options = parser.parse_args()
    more: dict[str, dict[str, Any]] = json.loads(options.candidates.read_text()) if options.candidates else {}
    found: dict[str, Errors] = {}
    if options.cache is not None and options.cache.is_file():
        found = {key: tuple(value) for key, value in json.loads(options.cache.read_text()).items()}
    models = options.models.split(",")
    for seed in map(int, options.draws.split(",")):  # Complete draws first.
        for table in options.tables.split(","):
            draw = Divided(load(options.data, table), options.rows, seed, options.folds)
            for model in models:
                plugin = registry.get(model)
                named = configurations(plugin, load(options.data, table), draw.shape(plugin), more.get(model, {}))
                for name, params in named.items():
                    key = f"{table}/{model}/{name}/{seed}"
                    if key in found:
                        continue
                    found[key] = draw.errors(plugin, params)
                    shown = "  ".join(f"{value:.5g}" for value in found[key])
                    print(f"{key}: {shown}", flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    header = ["model", "configuration", "draws", "error out of fold", "error", "seconds", "better on", "largest ratio"]
    rows = [row for model in models for row in rows_of(model, found)]
    first = ResultTable(
        name="first",
        columns=["model", "tried", "the last of them", "error"],
        right=[1, 3],
        rows=[row for model in models for row in best_of_first(model, found)],
    )
    facts = machine("lightgbm", "xgboost", "catboost") | {"rows": options.rows, "draws": options.draws}
    report(facts, header, rows, msgspec.to_builtins(found), options.out, range(2, len(header)), more=[first])
    return 0


if __name__ == "__main__":
    sys.exit(main())
