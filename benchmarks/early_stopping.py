"""Early stopping of the boosters on small tables: patience, and how many folds find the number of trees that the others reuse.

python -m benchmarks.early_stopping [--data FOLDER] [--tables a,b] [--models a,b] [--rows 6000] [--draws 0]
                                    [--cache FILE.json] [--out FILE.json]

A draw takes at most --rows rows of a table, two thirds of them for training in eight folds. In each fold the defaults of a booster
grow with early-stopping rows and the largest patience, which gives the number of trees of every smaller one; then they grow on all
rows of the fold with the number of trees that a patience and a number of pilot folds give: "own" is the one that the fold itself
found, another number the mean of those of the first folds. The error of the mean of the folds on the other third of the rows is
compared with that of two pilots and a patience of 50.

Errors are 1 - ROC AUC, log loss and RMSE. A ratio is a geometric mean over tables and draws.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, cast
from unittest import mock

import msgspec
import numpy as np
from tabapp_plugins._shared.boosting import BoostedModel, BoostingParams, BoostingPlugin, Watch
from tabapp_plugins._shared.target import Target

from benchmarks.booster_portfolios import Divided, geometric_mean, parser_of_draws
from benchmarks.fits import Source, TimedContext, load
from benchmarks.machine import RESULTS, machine, report
from tabapp import files
from tabapp.features.arrays import Table
from tabapp.models import registry

N_FOLDS = 8
PATIENCE = (50, 100, 200, 300)
PILOTS = (0, 1, 2, 3, N_FOLDS)
"""Numbers of pilots; with 0, every fold finds its own number of trees."""
COMPARED = "50/2"
Errors = dict[str, tuple[float, float]]
"""Errors out of fold and on test rows by patience and pilots."""


def trees_after(history: list[float], patience: int) -> int:
    """The number of trees at which training with a patience keeps a model, from the criterion after each tree."""
    best, best_n = math.inf, 0
    for n_trees, value in enumerate(history, 1):
        if value < best:
            best, best_n = value, n_trees
        if n_trees - best_n >= patience:
            break
    return best_n


def numbers_of_trees(counts: list[int], n_pilots: int) -> list[int]:
    """The number of trees of each fold, from those that the folds found."""
    if not n_pilots:
        return counts
    return [max(1, round(sum(counts[:n_pilots]) / n_pilots))] * len(counts)


def cut(plugin: BoostingPlugin, booster: Any, target: Target, n_trees: int) -> BoostedModel:
    """The model with the first trees of a booster, which it loses if the library shortens it in place: longest first."""
    if plugin.name == "lightgbm":
        import lightgbm

        booster = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=n_trees))
    elif plugin.name == "xgboost":
        booster = booster[:n_trees]
    else:
        booster.shrink(n_trees)
    return plugin.model_type(booster, target, {}, 1)


def measured(source: Source, draw: Divided, plugin: BoostingPlugin, seed: int) -> Errors:
    """Errors of the defaults of a booster with every patience and number of pilots."""
    found: dict[int, list[int]] = {patience: [] for patience in PATIENCE}
    folds: list[tuple[Any, ...]] = []
    params = BoostingParams()
    for fold in range(draw.n_folds):
        data = draw.prepared(fold, plugin)
        context = TimedContext(
            task=source.task,
            n_classes=source.n_classes,
            metric=draw.metric,
            features=data.spec,
            seed=seed * 100 + fold,
            device="cpu",
            n_threads=1,
            folder=Path(),
        )
        defaults = cast(BoostingParams, plugin.defaults(source.task, data.shape, "cpu"))
        params = msgspec.structs.replace(defaults, patience=max(PATIENCE))
        target = Target.fit(data.train, context)
        history: list[float] = []
        stop = Watch.should_stop

        def recorded(
            watch: Watch, n_trees: int, value: float, history: list[float] = history, stop: Any = stop
        ) -> bool:
            history.append(value)
            return stop(watch, n_trees, value)

        with mock.patch.object(Watch, "should_stop", recorded):
            plugin.grow(data.train, data.valid, params.n_trees, target, params, context)
        for patience in PATIENCE:
            found[patience].append(trees_after(history, patience))
        folds.append((data, target, context))
    chosen = {f"{p}/{n or 'own'}": numbers_of_trees(found[p], n) for p in PATIENCE for n in PILOTS}
    tests: dict[str, list[Any]] = {name: [] for name in chosen}
    held_out: dict[str, list[Any]] = {name: [] for name in chosen}
    for fold, (data, target, context) in enumerate(folds):
        rows = data.train.joined(data.valid)
        counts = sorted({counts[fold] for counts in chosen.values()}, reverse=True)
        booster, _ = plugin.grow(rows, None, counts[0], target, params, context)
        scored: Table = data.preparer.transform(source.frame[draw.held_out(fold).tolist()])
        for n_trees in counts:
            model = cut(plugin, booster, target, n_trees)
            on_test, on_fold = model.predict(data.test), model.predict(scored)
            for name in (name for name, numbers in chosen.items() if numbers[fold] == n_trees):
                tests[name].append(on_test)
                held_out[name].append(on_fold)
    rows = np.concatenate([draw.held_out(fold) for fold in range(draw.n_folds)])
    return {
        name: (
            draw.error(source.target[rows], np.concatenate(held_out[name])),
            draw.error(source.target[draw.test], np.mean(tests[name], axis=0)),
        )
        for name in chosen
    }


def rows_of(model: str, found: dict[str, Errors]) -> list[list[str]]:
    """A row for each patience and number of pilots of a model: its errors as ratios to `COMPARED`."""
    draws = [errors for key, errors in found.items() if key.split("/")[1] == model and errors[COMPARED][1] > 0]
    rows: list[list[str]] = []
    for name in draws[0]:
        ratios = [[max(draw[name][i], 1e-9) / max(draw[COMPARED][i], 1e-9) for draw in draws] for i in (0, 1)]
        logs = np.log(ratios[1])
        spread = float(np.exp(np.mean(logs)) * np.std(logs) / math.sqrt(len(logs)))
        shown = [f"{geometric_mean(ratios[0]):.3f}", f"{geometric_mean(ratios[1]):.3f} ± {spread:.3f}"]
        better, worse = (int(np.sum(sign * logs > 1e-9)) for sign in (-1, 1))
        patience, pilots = name.split("/")
        rows.append([model, patience, pilots, str(len(draws)), *shown, str(better), str(worse)])
    return rows


def main() -> int:
    options = parser_of_draws(__doc__, RESULTS / "early_stopping.json").parse_args()
    found: dict[str, Errors] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    models = options.models.split(",")
    for seed in map(int, options.draws.split(",")):  # Complete draws first.
        for table in options.tables.split(","):
            source = load(options.data, table)
            draw = Divided(source, options.rows, seed, N_FOLDS)
            for model in models:
                key = f"{table}/{model}/{seed}"
                if key not in found:
                    found[key] = measured(source, draw, cast(BoostingPlugin, registry.get(model)), seed)
                    print(f"{key}: {found[key][COMPARED][1]:.5g}", flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    header = ["model", "patience", "pilots", "draws", "error out of fold", "error", "better on", "worse on"]
    rows = [row for model in models for row in rows_of(model, found)]
    facts = machine("lightgbm", "xgboost", "catboost") | {"rows": options.rows, "draws": options.draws}
    report(facts, header, rows, found, options.out, range(1, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
