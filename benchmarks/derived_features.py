"""The defaults of the boosters with features made from two columns, compared with those without, on many tables.

python -m benchmarks.derived_features [--data FOLDER] [--tables a,b] [--models a,b] [--sizes 2000,8000] [--draws 0]
                                      [--cache FILE.json] [--out FILE.json]

A draw takes at most so many rows of a table as training rows, in two folds, and half as many as test rows; sizes that add no rows
are left out. "together" is the mean of the predictions of all models. A ratio is the error with these features over the error
without. Means over tables and draws are geometric, with their standard error.

Errors are 1 - ROC AUC, log loss and RMSE.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.booster_portfolios import Divided, geometric_mean, parser_of_draws
from benchmarks.fits import Source, load
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import files
from tabapp.models import registry

TABLES = (
    "german_credit", "titanic", "telco_churn", "bank_marketing", "adult", "mammography", "pima_diabetes", "wine_quality_white",
    "students_dropout", "covertype", "house_prices", "kin8nm", "power_plant", "california_housing", "bike_sharing_hour", "diamonds",
    "concrete", "protein_casp", "energy_efficiency", "auto_mpg",
)  # fmt: skip
TOGETHER = "together"
N_FOLDS = 2
Ratios = tuple[float, float]
"""Out of fold, and on test rows."""


def ratios_of(draw: Divided, task: str, models: list[str], name: str, values: tuple[Any, Any]) -> dict[str, Ratios]:
    """Ratios of the errors with the second value of a hyperparameter to those with the first: of each model, and of the mean of
    all of them."""
    errors: dict[str, list[tuple[float, float]]] = {}
    sums: list[Any] = [(0.0, 0.0), (0.0, 0.0)]
    for model in models:
        plugin = registry.get(model)
        defaults = plugin.defaults(task, draw.shape(plugin), "cpu")  # pyright: ignore[reportArgumentType]
        for i, value in enumerate(values):
            found = draw.predictions(plugin, msgspec.structs.replace(defaults, **{name: value}))
            errors.setdefault(model, []).append(draw.errors_of(*found))
            sums[i] = tuple(total + each / len(models) for total, each in zip(sums[i], found, strict=True))
    errors[TOGETHER] = [draw.errors_of(*each) for each in sums]
    return {model: (after[0] / before[0], after[1] / before[1]) for model, (before, after) in errors.items()}


def sizes_of(source: Source, sizes: list[str]) -> list[str]:
    """The sizes of draws that differ, in increasing order."""
    ordered = sorted(sizes, key=int)
    more = [size for smaller, size in pairwise(ordered) if len(source) > 1.5 * int(smaller)]
    return [ordered[0], *more]


def mean_and_error(values: list[float]) -> str:
    """Geometric mean, with its standard error."""
    spread = np.std(np.log(values), ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{geometric_mean(values):.3f} ± {spread:.3f}"


def compare(
    description: str | None, out: Path, tables_of: tuple[str, ...], defaults: str, name: str, values: tuple[Any, Any]
) -> int:
    """Read the options, and compare the defaults with two values of a hyperparameter.

    Args:
        defaults: models, with commas.
    """
    parser = parser_of_draws(description, out)
    parser.set_defaults(tables=",".join(tables_of), models=defaults)
    parser.add_argument("--sizes", default="2000,8000", help="numbers of rows, with commas")
    options = parser.parse_args()
    tables, models = options.tables.split(","), options.models.split(",")
    seeds, sizes = options.draws.split(","), options.sizes.split(",")
    found: dict[str, dict[str, Ratios]] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    of_table = {table: sizes_of(load(options.data, table), sizes) for table in tables}
    for table in tables:
        source = load(options.data, table)
        for size in of_table[table]:
            for seed in seeds:
                key = f"{table}/{size}/{seed}"
                if key in found:
                    continue
                draw = Divided(source, int(size), int(seed), N_FOLDS)
                found[key] = ratios_of(draw, source.task, models, name, values)
                print(key, *(f"{model} {ratio[1]:.3f}" for model, ratio in found[key].items()), flush=True)
                if options.cache is not None:
                    files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    tasks = {table: load(options.data, table).task for table in tables}
    rows: list[list[str]] = []
    for table in tables:
        for size in of_table[table]:
            draws = [found[f"{table}/{size}/{seed}"] for seed in seeds]
            means = [geometric_mean(draw[model][1] for draw in draws) for model in (*models, TOGETHER)]
            rows.append([table, tasks[table], size, *(f"{mean:.3f}" for mean in means)])
    summary: list[list[str]] = []
    for task in dict.fromkeys(tasks.values()):
        for size in sizes:
            of_task = [table for table in tables if tasks[table] == task and size in of_table[table]]
            for model in (*models, TOGETHER):
                each = [found[f"{table}/{size}/{seed}"][model] for table in of_task for seed in seeds]
                out_of_fold, test = [ratio[0] for ratio in each], [ratio[1] for ratio in each]
                lower = sum(value < 1 for value in test)
                means = mean_and_error(out_of_fold), mean_and_error(test)
                summary.append([task, size, model, str(len(each)), *means, str(lower)])
    header = ["task", "rows", "model", "draws", "error out of fold", "error", "lower on"]
    by_task = ResultTable(name="tasks", columns=header, right=[1, 3, 4, 5, 6], rows=summary)
    facts = machine("lightgbm", "xgboost", "catboost") | {"draws": options.draws}
    columns = ["table", "task", "rows", *models, TOGETHER]
    report(facts, columns, rows, found, options.out, range(2, len(columns)), more=[by_task])
    return 0


def main() -> int:
    models, values = "lightgbm,xgboost,catboost", (False, True)
    return compare(__doc__, RESULTS / "derived_features.json", TABLES, models, "derived_features", values)


if __name__ == "__main__":
    sys.exit(main())
