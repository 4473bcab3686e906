"""xRFM with a search in each fold, and with the width and the penalty that the first two folds found.

python -m benchmarks.lab.reused_search [--tables a,b] [--rows 8000] [--data FOLDER] [--out FILE.json]

The last three of five folds are fitted both ways. "error" is the ratio of the errors of test rows with the mean of the five models,
"seconds" those of processor time for a fold of the last three, before and after. The mean is geometric, with a standard error over
the lines.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.fits import TimedContext, data_folder, load, prepared, random_division
from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.rivals import METRICS, error_of
from tabapp import metrics
from tabapp.data.split import early_stopping_rows
from tabapp.models import registry
from tabapp.models.contract import Params

TABLES = (
    "german_credit", "titanic", "telco_churn", "adult", "wine_quality_white", "students_dropout", "letter", "house_prices",
    "concrete", "california_housing", "bike_sharing_hour", "kin8nm", "protein_casp", "mammography",
)  # fmt: skip


def measured(name: str, which: str, options: argparse.Namespace) -> dict[str, Any]:
    """Errors of test rows and seconds of a fold, with searches in all folds and in two."""
    source, plugin = load(options.data, name), registry.get("xrfm")
    data = prepared(source, random_division(source, options.rows, 4_000, 5), plugin, 1)
    rows, metric = data.train.joined(data.valid), METRICS[source.task]
    given: tuple[Params, ...] = (
        plugin.defaults(source.task, data.shape, "cpu"),
        *plugin.portfolio(source.task, data.shape, "cpu"),
    )
    params = given[0] if which == "defaults" else given[-1]
    context = TimedContext(source.task, source.n_classes, metric, data.spec, 1, "cpu", 1, Path())
    test = replace(data.test, target=None)
    searched: list[Any] = []
    reused: list[Any] = []
    summaries: list[dict[str, Any]] = []
    seconds: dict[str, list[float]] = {"searched": [], "reused": []}
    for fold, (train, _) in enumerate(KFold(5, shuffle=True, random_state=0).split(np.arange(len(rows)))):
        table = rows.take(train)
        assert table.target is not None
        stopping = early_stopping_rows(table.target, source.task, np.arange(len(table)), 1)
        began = time.process_time()
        model = plugin.fit(table.take(~stopping), table.take(stopping), params, context)
        took = time.process_time() - began
        searched.append(model.predict(test))
        if fold < 2:
            summaries.append(model.summary())
            reused.append(searched[-1])
            continue
        began = time.process_time()
        again = plugin.refit(table, params, summaries, context)
        assert again is not None
        seconds["searched"].append(took)
        seconds["reused"].append(time.process_time() - began)
        reused.append(again.predict(test))

    def error(models: list[Any]) -> float:
        return error_of(metrics.score(metric, data.test.target, np.mean(models, axis=0)), metric)

    return {"searched": error(searched), "reused": error(reused), "seconds": seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--out", type=Path, default=RESULTS / "reused_search.json")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for name in options.tables.split(","):
        for which in ("defaults", "second"):
            results[f"{name}|{which}"] = measured(name, which, options)
            print(name, which, results[f"{name}|{which}"], file=sys.stderr, flush=True)
    logs = [math.log(each["reused"] / each["searched"]) for each in results.values()]
    rows = [
        [
            *key.split("|"),
            f"{each['reused'] / each['searched']:.4f}",
            *(f"{np.mean(each['seconds'][way]):.2f}" for way in ("searched", "reused")),
        ]
        for key, each in results.items()
    ]
    mean = f"{math.exp(np.mean(logs)):.4f} ± {np.std(logs, ddof=1) / math.sqrt(len(logs)):.4f}"
    rows.append(["mean", "", mean, "", ""])
    report(machine("scipy"), ["table", "configuration", "error", "seconds", "reused"], rows, results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
