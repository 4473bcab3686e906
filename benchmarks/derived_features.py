"""LightGBM with features made from two columns, compared with the same configurations without, on many tables.

python -m benchmarks.derived_features [--data FOLDER] [--tables a,b] [--rows 2000] [--draws 0] [--cache FILE.json] [--out FILE.json]

Draws and folds are those of `benchmarks.booster_portfolios`. "portfolio" is the first configuration that a run tries after the
defaults, apart from those with these features. A ratio is the error with these features over the error without. Means over tables
and draws are geometric, with their standard error.
"""

from __future__ import annotations

import json
import math
import sys

import msgspec
import numpy as np

from benchmarks.booster_portfolios import Divided, Errors, geometric_mean, parser_of_draws
from benchmarks.fits import load
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import files
from tabapp.models import registry

TABLES = (
    "german_credit", "titanic", "telco_churn", "bank_marketing", "adult", "mammography", "pima_diabetes", "wine_quality_white",
    "students_dropout", "covertype", "house_prices", "kin8nm", "power_plant", "california_housing", "bike_sharing_hour", "diamonds",
    "concrete", "protein_casp", "energy_efficiency", "auto_mpg",
)  # fmt: skip
CONFIGURATIONS = ("defaults", "portfolio")


def ratios(found: dict[str, Errors], tables: list[str], configuration: str) -> list[tuple[float, float]]:
    """Ratios of the errors out of fold and on test rows, over the draws of some tables."""
    pairs = [
        (errors, found[f"{key}/derived"])
        for key, errors in found.items()
        if key.split("/")[0] in tables and key.split("/")[1:2] == [configuration] and f"{key}/derived" in found
    ]
    return [(derived[0] / plain[0], derived[1] / plain[1]) for plain, derived in pairs]


def mean_and_error(values: list[float]) -> str:
    spread = np.std(np.log(values), ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{geometric_mean(values):.3f} ± {spread:.3f}"


def main() -> int:
    parser = parser_of_draws(__doc__, RESULTS / "derived_features.json")
    parser.set_defaults(tables=",".join(TABLES), rows=2_000)
    options = parser.parse_args()
    plugin, tables = registry.get("lightgbm"), options.tables.split(",")
    found: dict[str, Errors] = {}
    if options.cache is not None and options.cache.is_file():
        found = {key: tuple(value) for key, value in json.loads(options.cache.read_text()).items()}
    tasks: dict[str, str] = {}
    for table in tables:
        source = load(options.data, table)
        tasks[table] = source.task
        for seed in map(int, options.draws.split(",")):
            draw = Divided(source, options.rows, seed)
            shape = draw.shape(plugin)
            plain = [
                each
                for each in plugin.portfolio(source.task, shape, "cpu")
                if not msgspec.to_builtins(each)["derived_features"]
            ]
            tried = plugin.defaults(source.task, shape, "cpu"), plain[0]
            for name, params in zip(CONFIGURATIONS, tried, strict=True):
                for ending, derived in (("", False), ("/derived", True)):
                    key = f"{table}/{name}/{seed}{ending}"
                    if key in found:
                        continue
                    found[key] = draw.errors(plugin, msgspec.structs.replace(params, derived_features=derived))
                    print(key, *(f"{value:.5g}" for value in found[key]), flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    rows: list[list[str]] = []
    for table in tables:
        means = [geometric_mean(ratio[1] for ratio in ratios(found, [table], name)) for name in CONFIGURATIONS]
        rows.append([table, tasks[table], *(f"{mean:.3f}" for mean in means)])
    summary: list[list[str]] = []
    for task in dict.fromkeys(tasks.values()):
        of_task = [table for table in tables if tasks[table] == task]
        for name in CONFIGURATIONS:
            each = ratios(found, of_task, name)
            out_of_fold, test = [ratio[0] for ratio in each], [ratio[1] for ratio in each]
            lower = sum(value < 1 for value in test)
            summary.append([task, name, str(len(each)), mean_and_error(out_of_fold), mean_and_error(test), str(lower)])
    header = ["task", "configuration", "draws", "error out of fold", "error", "lower on"]
    by_task = ResultTable(name="tasks", columns=header, right=[2, 3, 4, 5], rows=summary)
    facts = machine("lightgbm") | {"rows": options.rows, "draws": options.draws}
    columns = ["table", "task", *CONFIGURATIONS]
    report(facts, columns, rows, msgspec.to_builtins(found), options.out, (2, 3), more=[by_task])
    return 0


if __name__ == "__main__":
    sys.exit(main())
