"""Default models with more dimensions of each text column, compared with eight.

python -m benchmarks.lab.text_dimensions --data FOLDER [--tables a,b] [--models a,b] [--draws 0,1] [--rows N] [--cache FILE.json]
                                         [--out FILE.json]

Each draw takes a fifth of a table as test rows. "together" is the mean of the predictions of all models. A ratio is the error over
the error with eight dimensions. Errors are log loss and RMSE.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from benchmarks.fits import Source, data_folder, fitted, load, prepared, random_division
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import files
from tabapp.features import text
from tabapp.metrics.scoring import loss
from tabapp.models import registry

VARIANTS = ("8", "16", "32")
TOGETHER = "together"
MODELS = "lightgbm,catboost,extra_trees,mlp"


def _with_dimensions(fit: Callable[..., Any], n: int, texts: pl.Series, n_components: int, seed: int) -> Any:
    return fit(texts, n, seed)


def errors_of(source: Source, models: list[str], rows: int, seed: int) -> dict[str, dict[str, float]]:
    """Test errors by variant and model."""
    division = random_division(source, rows, len(source) // 5, seed)
    metric = "rmse" if source.task == "regression" else "log_loss"
    target = source.target[division.test]
    found: dict[str, dict[str, float]] = {}
    for variant in VARIANTS:
        predictions: dict[str, np.ndarray] = {}
        fit_map = partial(_with_dimensions, text.TextMap.fit, int(variant))
        with patch.object(text.TextMap, "fit", fit_map):
            for model in models:
                plugin = registry.get(model)
                data = prepared(source, division, plugin, seed)
                params = plugin.defaults(source.task, data.shape, "cpu")
                fit = fitted(plugin, data, params, metric=metric, seed=seed, seconds=60)
                predictions[model] = fit.predict(data.test)
        predictions[TOGETHER] = np.mean(list(predictions.values()), axis=0)
        found[variant] = {model: loss(metric, target, each) for model, each in predictions.items()}
    return found


def mean_and_error(values: list[float]) -> str:
    """Geometric mean, with its standard error."""
    logs = np.log(values)
    spread = np.std(logs, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{math.exp(logs.mean()):.3f} ± {spread:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--tables")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--draws", default="0,1")
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "text_dimensions.json")
    options = parser.parse_args()
    known = [each["name"] for each in json.loads((options.data / "datasets.json").read_text())]
    tables = options.tables.split(",") if options.tables else known
    models, draws = options.models.split(","), options.draws.split(",")
    found: dict[str, dict[str, dict[str, float]]] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    for table in tables:
        for draw in draws:
            if (key := f"{table}/{draw}") not in found:
                found[key] = errors_of(load(options.data, table), models, options.rows, int(draw))
                ratios = {v: found[key][v][TOGETHER] / found[key]["8"][TOGETHER] for v in VARIANTS[1:]}
                print(key, *(f"{variant} {ratio:.3f}" for variant, ratio in ratios.items()), flush=True)
                if options.cache is not None:
                    files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    shown = (*models, TOGETHER)

    def ratios_of(table: str, variant: str, model: str) -> float:
        each = [found[f"{table}/{draw}"] for draw in draws]
        return math.exp(np.mean([math.log(one[variant][model] / one["8"][model]) for one in each]))

    rows = [[table, *(f"{ratios_of(table, v, TOGETHER):.3f}" for v in VARIANTS[1:])] for table in tables]
    summary = [
        [model, *(mean_and_error([ratios_of(table, v, model) for table in tables]) for v in VARIANTS[1:])]
        for model in shown
    ]
    by_model = ResultTable(name="models", columns=["model", *VARIANTS[1:]], right=[1, 2, 3], rows=summary)
    facts = machine("lightgbm", "catboost") | {"draws": options.draws, "rows": options.rows}
    report(facts, ["table", *VARIANTS[1:]], rows, found, options.out, [1, 2, 3], more=[by_model])
    return 0


if __name__ == "__main__":
    sys.exit(main())
