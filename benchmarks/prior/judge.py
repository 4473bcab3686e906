"""Judge a prior-fitted network beside default models on public tables with at most 1,000 training rows.

python -m benchmarks.prior.judge [--network FILE.safetensors] [--draws 0,1,2] [--tables a,b] [--systems a,b] [--permutations 4]
                                 [--threads 1] [--data FOLDER] [--keep FOLDER] [--out FILE.json]

The tables are those of --data ($TABAPP_DATA, or `../shared/data`) and of scikit-learn, with a numeric target cut at its
median or a class target (see `judge_tables`). Each draw takes at most 1,000 rows for training and at most 2,000 for testing. The
score is ROC AUC, with the mean over one class against the others for several classes. The other systems are the default models of
scikit-learn, LightGBM and CatBoost. An ensemble is the mean of the probabilities, once of the four models and once with the
network. Ratios are geometric means over tables of the errors 1 - AUC; a ratio below 1 is in favor of the first. Standard errors
are those over tables. --keep is a folder of predictions, which are not computed again; the network's are kept under the hash of its
file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, ResultTable, machine, report
from benchmarks.prior.judge_tables import Draw, Floats, JudgeTable, draw_of, macro_auc, read_tables
from benchmarks.prior.state import SHIPPED

RIGHT = [1, 2, 3, 4, 5]
SMALLEST_ERROR = 1e-4
"""Errors are raised to this before a ratio: on separable tables they are 0."""


def _logistic(draw: Draw, seed: int, threads: int) -> Floats:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
                np.flatnonzero(~draw.categorical),
            ),
            ("codes", OneHotEncoder(handle_unknown="ignore"), np.flatnonzero(draw.categorical)),
        ]
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=1000))
    return model.fit(draw.train, draw.train_labels).predict_proba(draw.test)


def _random_forest(draw: Draw, seed: int, threads: int) -> Floats:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(random_state=seed, n_jobs=threads)
    return model.fit(draw.train, draw.train_labels).predict_proba(draw.test)


def _lightgbm(draw: Draw, seed: int, threads: int) -> Floats:
    import lightgbm

    model = lightgbm.LGBMClassifier(random_state=seed, n_jobs=threads, verbose=-1)
    model.fit(draw.train, draw.train_labels, categorical_feature=np.flatnonzero(draw.categorical).tolist())
    return np.asarray(model.predict_proba(draw.test))


def _catboost(draw: Draw, seed: int, threads: int) -> Floats:
    import catboost
    import pandas as pd

    codes = np.flatnonzero(draw.categorical).tolist()

    def frame(values: Floats) -> Any:
        table = pd.DataFrame(values).astype(dict.fromkeys(codes, object))
        for c in codes:
            table[c] = table[c].map(str)
        return table

    model = catboost.CatBoostClassifier(
        random_seed=seed, thread_count=threads, verbose=False, allow_writing_files=False, cat_features=codes
    )
    return np.asarray(model.fit(frame(draw.train), draw.train_labels).predict_proba(frame(draw.test)))


MODELS: dict[str, Callable[[Draw, int, int], Floats]] = {
    "logistic": _logistic,
    "random_forest": _random_forest,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}
NETWORK, WITHOUT, WITH = "network", "mean of the models", "mean of the models and the network"


def network_predictor(file: Path, permutations: int, threads: int) -> Callable[[Draw, int, int], Floats]:
    """Predictions of the network in a file of weights, averaged over permutations of columns and classes."""
    import torch
    from tabapp_plugins.prior_fitted.reading import Predictor

    torch.set_num_threads(threads)
    predictor = Predictor.load(file, permutations=permutations)
    return lambda draw, seed, _: predictor.predict(
        draw.train, draw.categorical, draw.train_labels, draw.test, n_classes=draw.n_classes, seed=seed
    )


def predictions(
    table: JudgeTable, draw: int, system: str, predict: Callable[[Draw, int, int], Floats], keep: Path, threads: int
) -> tuple[Floats, float]:
    """Probabilities of the test rows, and the seconds of training and prediction; from `keep` if they are there."""
    file = keep / f"{table.name}-{draw}-{system}.npz"
    if not file.is_file():
        rows = draw_of(table, draw)
        began = time.perf_counter()
        probabilities = predict(rows, draw, threads)
        seconds = time.perf_counter() - began
        keep.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, probabilities=probabilities.astype(np.float32), seconds=seconds)
        print(f"{table.name} {draw} {system} {seconds:.1f} s", file=sys.stderr, flush=True)
    with np.load(file) as kept:
        return kept["probabilities"].astype(np.float64), float(kept["seconds"])


def judge(
    tables: list[JudgeTable],
    draws: list[int],
    systems: dict[str, tuple[str, Callable[[Draw, int, int], Floats]]],
    keep: Path,
    threads: int,
) -> dict[str, dict[str, list[float]]]:
    """ROC AUC and seconds of each system and of the ensembles: table → system → values of the draws, under "auc" and "seconds".

    Args:
        systems: for each name, the name of its files in `keep`, and the function that predicts.
    """
    results: dict[str, dict[str, list[float]]] = {}
    for table in tables:
        scores: dict[str, list[float]] = {}
        for draw in draws:
            labels = draw_of(table, draw).test_labels
            found: dict[str, Floats] = {}
            for name, (stem, predict) in systems.items():
                found[name], seconds = predictions(table, draw, stem, predict, keep, threads)
                scores.setdefault(f"{name} seconds", []).append(seconds)
            models = [found[name] for name in MODELS if name in found]
            if len(models) == len(MODELS):
                found[WITHOUT] = np.mean(models, axis=0)
                if NETWORK in found:
                    found[WITH] = np.mean([*models, found[NETWORK]], axis=0)
            for name, probabilities in found.items():
                scores.setdefault(name, []).append(macro_auc(labels, probabilities))
        results[table.name] = scores
    return results


def summary(results: dict[str, dict[str, list[float]]], tables: list[str]) -> dict[str, dict[str, float]]:
    """For each system: mean AUC over tables, its standard error over draws, its seconds, and the comparison with the network.
    The ensemble with the network is compared with the one without.
    """
    systems = [name for name in results[tables[0]] if not name.endswith(" seconds")]
    found: dict[str, dict[str, float]] = {}
    for name in systems:
        scores = np.array([results[table][name] for table in tables])
        row = {"auc": float(scores.mean()), "auc_se_over_draws": _standard_error(scores.mean(axis=0))}
        if f"{name} seconds" in results[tables[0]]:
            row["seconds"] = float(np.mean([results[table][f"{name} seconds"] for table in tables]))
        other = WITHOUT if name == WITH else NETWORK if name != NETWORK and NETWORK in systems else None
        if other is not None and name != WITHOUT:
            first, second = (name, other) if name == WITH else (other, name)
            row |= comparison(results, tables, first, second)
        found[name] = row
    return found


def comparison(
    results: dict[str, dict[str, list[float]]], tables: list[str], first: str, second: str
) -> dict[str, float]:
    """Mean difference of the AUC of two systems, wins of the first, and the geometric mean of the ratios of their errors."""
    a, b = (np.array([np.mean(results[table][name]) for table in tables]) for name in (first, second))
    logs = np.log(np.maximum(1 - a, SMALLEST_ERROR) / np.maximum(1 - b, SMALLEST_ERROR))
    return {
        "difference": float((a - b).mean()),
        "difference_se": _standard_error(a - b),
        "wins": int((a > b).sum()),
        "tables": len(tables),
        "ratio": float(np.exp(logs.mean())),
        "ratio_se": _standard_error(logs),
    }


def _standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def lines_of(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """Cells of the printed table."""
    rows: list[list[str]] = []
    for name, row in sorted(found.items(), key=lambda item: -item[1]["auc"]):
        cells = [
            name,
            f"{row['auc']:.4f} ± {row['auc_se_over_draws']:.4f}",
            f"{row['seconds']:.2f}" if "seconds" in row else "",
        ]
        if "ratio" in row:
            cells += [f"{row['difference']:+.4f} ± {row['difference_se']:.4f}", f"{row['wins']} of {row['tables']}"]
            cells += [f"{row['ratio']:.3f} ± {row['ratio_se']:.3f}"]
        rows.append(cells + [""] * (6 - len(cells)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=Path, default=SHIPPED)
    parser.add_argument("--draws", default="0,1,2")
    parser.add_argument("--tables")
    parser.add_argument("--systems", default=",".join(MODELS))
    parser.add_argument("--permutations", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", beside)))
    parser.add_argument("--keep", type=Path, default=Path("build/prior_judge"))
    parser.add_argument("--out", type=Path, default=RESULTS / "prior_judge.json")
    options = parser.parse_args()
    if not (options.data / "datasets.json").is_file():
        print(
            f"{options.data / 'datasets.json'} is not there; name the folder of the tables with --data.",
            file=sys.stderr,
        )
        return 2
    tables = read_tables(options.data, options.tables.split(",") if options.tables else None)
    systems = {name: (name, MODELS[name]) for name in options.systems.split(",")}
    digest = hashlib.sha256(options.network.read_bytes()).hexdigest()[:12]
    predict = network_predictor(options.network, options.permutations, options.threads)
    systems[NETWORK] = (f"network-{digest}-{options.permutations}", predict)
    results = judge(tables, [int(draw) for draw in options.draws.split(",")], systems, options.keep, options.threads)
    groups = {
        "All tables": [table.name for table in tables],
        "class_targets": [table.name for table in tables if not table.from_numbers],
    }
    found = {title: summary(results, names) for title, names in groups.items() if names}
    header = ["System", "ROC AUC", "Seconds", "Network minus system", "Network wins", "Ratio of errors"]
    first, *more = (ResultTable(title, header, RIGHT, lines_of(part)) for title, part in found.items())
    facts = machine("catboost", "lightgbm", "scikit-learn", "torch") | {"threads": options.threads}
    report(facts, header, first.rows, {"summary": found, "tables": results}, options.out, RIGHT, more=more)
    return 0


if __name__ == "__main__":
    sys.exit(main())
