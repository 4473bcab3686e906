"""Configurations of boosters on tables with more than 10,000 rows for training: alone, and in ensembles of four boosters.

python -m benchmarks.lab.large_boosters CONFIGURATIONS.json [--data FOLDER] [--tables a,b] [--draws 0] [--rows 16000]
                                        [--cache FOLDER] [--out FILE.json]

CONFIGURATIONS.json names changes of the defaults for each model: {"lightgbm": {"name": {"num_leaves": 31}}}. Each is fitted once,
with early stopping and all rows afterwards, as in a run. An eighth of the table (at most 4,000 rows) scores the fits in place of
the other folds and selects ensembles, a fifth (at most 15,000) is the test. Ensembles have the defaults of XGBoost, CatBoost and
histogram gradient boosting and one or two configurations of LightGBM. Errors are 1 - ROC AUC, log loss and RMSE; seconds are
processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fits import Source, changed, data_folder, divided, fitted, load, prepared
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import metrics
from tabapp.ensemble.blending import blend
from tabapp.ensemble.greedy import cross_fitted
from tabapp.ensemble.scaling import calibrated
from tabapp.models import registry

TABLES = (
    "adult",
    "bank_marketing",
    "hotel_bookings",
    "california_housing",
    "diamonds",
    "bike_sharing_hour",
    "protein_casp",
)
METRICS = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}
OTHERS = ("xgboost", "catboost", "hist_gradient_boosting")
BASE = "defaults"
Fits = dict[str, dict[str, Any]]


def error_of(metric: str, truth: Any, predicted: Any) -> float:
    """Lower is better."""
    score = metrics.score(metric, truth, predicted)
    return 1.0 - score if metrics.get(metric).greater_is_better else score


def fit(source: Source, name: str, changes: dict[str, Any], draw: int, n_rows: int) -> dict[str, Any]:
    """Fit a configuration of a model; its predictions, errors and seconds."""
    plugin, metric = registry.get(name), METRICS[source.task]
    order = np.random.default_rng(1000 + draw).permutation(len(source))
    n_test, n_scored = min(15_000, len(source) // 5), min(4_000, len(source) // 8)
    test, scored = np.sort(order[:n_test]), np.sort(order[n_test : n_test + n_scored])
    division = divided(source, test, order[n_test + n_scored :][:n_rows], draw)
    shape = prepared(source, division, plugin, draw).shape
    # An L1 penalty is in units of the target.
    penalties = ("lambda_l1", "reg_alpha") if source.task == "regression" else ()
    kept = {key: value for key, value in changes.items() if key not in penalties}
    params = changed(plugin.defaults(source.task, shape, "cpu"), kept)
    began = time.process_time()
    data = prepared(source, division, plugin, draw, params)
    model = fitted(plugin, data, params, metric=metric, seed=draw, seconds=400.0)
    seconds = time.process_time() - began
    predicted = model.predict(data.preparer.transform(source.frame[scored.tolist()])), model.predict(data.test)
    truth = source.target[scored], source.target[test]
    errors = [error_of(metric, *pair) for pair in zip(truth, predicted, strict=True)]
    names = ("sel", "test", "ysel", "ytest", "esel", "err", "sec")
    return dict(zip(names, (*predicted, *truth, *errors, seconds), strict=True))


def ensembles(fits: Fits, metric: str) -> dict[str, float]:
    """Test errors of ensembles with one or two configurations of LightGBM."""
    others = [fits[f"{name}/{BASE}"] for name in OTHERS if f"{name}/{BASE}" in fits]
    found: dict[str, float] = {}
    own = [name for name in fits if name.startswith("lightgbm/")]
    for names in [*combinations(own, 1), *combinations(own, 2)]:
        members = [*(fits[name] for name in names), *others]
        chosen = cross_fitted([each["sel"].astype(float) for each in members], members[0]["ysel"], metric)
        mixed = blend([each["test"].astype(float) for each in members], chosen.weights)
        short = "+".join(name.removeprefix("lightgbm/") for name in names)
        found[short] = error_of(metric, members[0]["ytest"], calibrated(mixed, chosen.calibration))
    return found


def ratios(results: dict[str, dict[str, float]], base: str) -> list[list[str]]:
    """A row for each configuration: the number of draws, the mean ratio to the base with its standard error, the largest ratio."""
    rows: list[list[str]] = []
    for name in dict.fromkeys(name for each in results.values() for name in each):
        logs = np.log([each[name] / each[base] for each in results.values() if name in each and base in each])
        deviation = logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
        rows.append(
            [name, str(len(logs)), f"{np.exp(logs.mean()):.4f}", f"{deviation:.4f}", f"{np.exp(logs.max()):.3f}"]
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", type=Path)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", default="0")
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--cache", type=Path, default=Path("build/large_boosters"))
    parser.add_argument("--out", type=Path, default=RESULTS / "large_boosters.json")
    options = parser.parse_args()
    wanted: dict[str, dict[str, Any]] = json.loads(options.configurations.read_text())
    options.cache.mkdir(parents=True, exist_ok=True)
    alone: dict[str, dict[str, float]] = {}
    together: dict[str, dict[str, float]] = {}
    raw: dict[str, Any] = {}
    for draw in map(int, options.draws.split(",")):
        for table in options.tables.split(","):
            source, fits = load(options.data, table), Fits()
            for model, configurations in wanted.items():
                for name, changes in {BASE: {}, **configurations}.items():
                    file = options.cache / f"{table}-{draw}-{model}-{name}-{options.rows}.npz"
                    if not file.is_file():
                        np.savez(file, **fit(source, model, changes, draw, options.rows))
                    fits[f"{model}/{name}"] = dict(np.load(file))
            place = f"{table}|{draw}|{options.rows}"
            alone[place] = {name: float(each["err"]) for name, each in fits.items()}
            together[place] = ensembles(fits, METRICS[source.task])
            values = {name: [float(each[key]) for key in ("esel", "err", "sec")] for name, each in fits.items()}
            raw[place] = {"alone": values, "ensembles": together[place]}
            print(place, {name: round(error, 5) for name, error in together[place].items()}, flush=True)
    header = ["configuration", "draws", "error / defaults", "standard error", "largest"]
    more = ResultTable(name="ensembles", columns=header, right=[1, 2, 3, 4], rows=ratios(together, BASE))
    own = {
        place: {name: error for name, error in each.items() if name[:8] == "lightgbm"} for place, each in alone.items()
    }
    facts = machine("lightgbm", "xgboost", "catboost") | {"rows": options.rows, "draws": options.draws}
    report(facts, header, ratios(own, f"lightgbm/{BASE}"), raw, options.out, range(1, len(header)), more=[more])
    return 0


if __name__ == "__main__":
    sys.exit(main())
