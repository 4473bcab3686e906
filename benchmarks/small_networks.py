"""Defaults of networks for tables with few rows, compared with the defaults for others.

python -m benchmarks.small_networks [--data FOLDER] [--tables a,b] [--models realmlp,tabm] [--draws 0,1,2] [--rows 1500]
                                    [--cache FILE.json] [--out FILE.json]

A draw sets a fifth of a table's rows apart (at most 3,000) and learns from at most --rows of the others. "before" are the
defaults that the model has for more rows, "few rows" those that it has for so many. Errors are 1 - ROC AUC, log loss and RMSE
on the rows set apart; seconds are those of one core. Ratios are geometric means over tables and draws. The defaults were chosen
on the first group of tables, the others had no part in it.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabapp_plugins.realmlp.network import FEW_ROWS

from benchmarks.booster_portfolios import geometric_mean, parser_of_draws
from benchmarks.fits import Source, fitted, load, prepared, random_division
from benchmarks.machine import RESULTS, machine, report
from benchmarks.rivals import METRICS
from tabapp import files, metrics
from tabapp.models import registry
from tabapp.models.contract import Plugin

CHOSEN_ON = ("energy_efficiency", "boston", "auto_mpg", "wine_quality_red", "yacht", "auto_imports")
OTHERS = ("concrete", "german_credit", "titanic", "pima_diabetes", "breast_cancer_wdbc", "horse_colic")
MOST_TEST_ROWS = 3_000
MOST_SECONDS = 120.0
LEAST_ERROR = 1e-3
"""Smaller errors count as this one: on a table without errors, ratios mean nothing."""
BEFORE, FEW = "before", "few rows"


def measured(source: Source, plugin: Plugin, rows: int, seed: int) -> dict[str, list[float]]:
    """The error and the seconds of both defaults on one draw."""
    n_test = min(len(source) // 5, MOST_TEST_ROWS)
    data = prepared(source, random_division(source, rows, n_test, seed), plugin, seed)
    name = METRICS[source.task]
    metric = metrics.get(name)
    found: dict[str, list[float]] = {}
    for kind, shape in ((BEFORE, replace(data.shape, n_rows=FEW_ROWS)), (FEW, data.shape)):
        params = plugin.defaults(source.task, shape, "cpu")
        began = time.process_time()
        model = fitted(plugin, data, params, metric=name, seed=seed, seconds=MOST_SECONDS)
        seconds = time.process_time() - began
        score = metrics.score(name, data.test.target, model.predict(data.test))
        found[kind] = [1 - score if metric.greater_is_better else score, seconds]
    return found


def row_of(model: str, group: str, draws: list[dict[str, list[float]]]) -> list[str]:
    """The ratios of a model over the draws of a group of tables."""
    errors = [max(draw[FEW][0], LEAST_ERROR) / max(draw[BEFORE][0], LEAST_ERROR) for draw in draws]
    logs = np.log(errors)
    spread = math.exp(float(np.mean(logs))) * float(np.std(logs)) / math.sqrt(len(logs))
    better, worse = (int(np.sum(sign * logs > 1e-9)) for sign in (-1, 1))
    seconds = geometric_mean([draw[FEW][1] / draw[BEFORE][1] for draw in draws])
    return [
        model,
        group,
        str(len(errors)),
        f"{geometric_mean(errors):.3f} ± {spread:.3f}",
        str(better),
        str(worse),
        f"{seconds:.2f}",
    ]


def main() -> int:
    parser = parser_of_draws(__doc__, RESULTS / "small_networks.json")
    parser.set_defaults(tables=",".join((*CHOSEN_ON, *OTHERS)), models="realmlp,tabm", rows=1_500, draws="0,1,2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[float]]] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    tables, models = options.tables.split(","), options.models.split(",")
    for seed in map(int, options.draws.split(",")):  # Complete draws first.
        for table in tables:
            source = load(Path(options.data), table)
            for model in models:
                key = f"{table}/{model}/{seed}"
                if key not in found:
                    found[key] = measured(source, registry.get(model), options.rows, seed)
                    print(f"{key}: {found[key]}", flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    header = ["model", "tables", "draws", "error", "better on", "worse on", "seconds"]
    rows: list[list[str]] = []
    for model in models:
        for group, names in (("chosen on", CHOSEN_ON), ("others", OTHERS)):
            draws = [each for key, each in found.items() if key.split("/")[1] == model and key.split("/")[0] in names]
            if draws:
                rows.append(row_of(model, group, draws))
    facts: dict[str, Any] = machine("torch") | {"rows": options.rows, "draws": options.draws}
    report(facts, header, rows, found, options.out, range(2, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
