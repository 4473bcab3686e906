"""What a second level of models would add to kept runs.

python -m benchmarks.lab.second_level KEPT... [--data FOLDER] [--out FILE.json]

KEPT is the folder of --keep of a `benchmarks.product.rivals` run. Models of the second level get the out-of-fold predictions of the
best trial of each model. They are trained in the folds of the run, so that no row is predicted by a model that was trained on it,
and offered to the selection of the ensemble beside the candidates of the run:

- "boosting": LightGBM on the features and the out-of-fold predictions.
- "linear": a linear model on the out-of-fold predictions.
- "residual": LightGBM on both that begins with the prediction of the ensemble.

For each, the table shows the error on the test rows of the ensemble with it over that without it, and the same ratio of the
cross-fitted errors by which a run could decide. The last lines are geometric means with their standard error, the same where the
model is kept only if the cross-fitted error is lower, and how often that decides rightly.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeCV

from benchmarks.lab.kept import Array, KeptRun, Key, open_kept
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.ensemble.greedy import EnsembleResult, blend
from tabapp.features.arrays import Table
from tabapp.models import registry

LEAST_PROBABILITY = 1e-5
N_ROUNDS, PATIENCE, STOPPING_PARTS = 1000, 50, 8
BOOSTING = {"learning_rate": 0.03, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 1.0}
RESIDUAL = {"learning_rate": 0.02, "num_leaves": 7, "min_data_in_leaf": 40, "lambda_l2": 5.0}
SAMPLED = {
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "num_threads": 1,
    "verbose": -1,
    "seed": 0,
}
OBJECTIVES = {"binary": "binary", "multiclass": "multiclass", "regression": "regression"}


def scale_of(prediction: Array) -> Array:
    """(rows, columns) of a prediction on the scale on which models add up: values, or logarithms of ratios of probabilities."""
    if prediction.ndim == 1:
        return prediction[:, None].astype(np.float64)
    logarithms = np.log(np.clip(prediction.astype(np.float64), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    if prediction.shape[1] == 2:
        return logarithms[:, 1:] - logarithms[:, :1]
    return logarithms - logarithms.mean(axis=1, keepdims=True)


def prediction_of(scale: Array, task: str) -> Array:
    """The prediction of what a booster adds up."""
    if task == "regression":
        return scale
    both = np.stack([np.zeros_like(scale), scale], axis=1) if task == "binary" else scale
    powers = np.exp(both - both.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def columns_of(table: Table) -> Array:
    """(rows, columns) numbers and category codes of features."""
    return np.concatenate([np.asarray(table.numeric), np.asarray(table.categorical)], axis=1, dtype=np.float32)


class SecondLevel:
    """Second-level models of a kept run; each returns its out-of-fold predictions and those of the test rows.

    Args:
        keys: the candidates whose predictions are features.
        base: out-of-fold and test predictions of the ensemble without a second level.
    """

    def __init__(self, kept: KeptRun, keys: list[Key], base: tuple[Array, Array]) -> None:
        self._kept = kept
        self._first = np.concatenate([scale_of(kept.out_of_fold(key)) for key in keys], axis=1)
        self._first_test = np.concatenate([scale_of(kept.test(key)) for key in keys], axis=1)
        self._base = tuple(scale_of(each) for each in base)

    def linear(self) -> tuple[Array, Array]:
        """Ridge regression, or logistic regression with an L2 penalty."""
        kept, oof, tests = self._kept, [], []
        places: list[Array] = []
        for fold in range(kept.run.data.n_folds):
            train, held = kept.folds != fold, kept.folds == fold
            mean, spread = self._first[train].mean(axis=0), self._first[train].std(axis=0) + 1e-9
            first, test = (self._first - mean) / spread, (self._first_test - mean) / spread
            if kept.task == "regression":
                ridge = RidgeCV(np.logspace(-3, 4, 15)).fit(first[train], kept.target[train])
                predictions = ridge.predict(first[held]), ridge.predict(test)
            else:
                logistic = LogisticRegression(C=0.01, max_iter=300).fit(first[train], kept.target[train])
                predictions = logistic.predict_proba(first[held]), logistic.predict_proba(test)
            places.append(np.flatnonzero(held))
            oof.append(predictions[0])
            tests.append(predictions[1])
        return joined(places, oof), np.mean(tests, axis=0)

    def boosted(self, *, residual: bool) -> tuple[Array, Array]:
        """LightGBM with early stopping on an eighth of the training rows of each fold."""
        kept, recipe = self._kept, registry.get("lightgbm").features()
        n_classes = self._base[0].shape[1] if kept.task == "multiclass" else 1
        params: dict[str, Any] = {
            **SAMPLED,
            **(RESIDUAL if residual else BOOSTING),
            "objective": OBJECTIVES[kept.task],
            "num_class": n_classes,
        }
        oof: list[Array] = []
        tests: list[Array] = []
        places: list[Array] = []
        for fold in range(kept.run.data.n_folds):
            features = kept.run.features.saved(recipe, fold)
            rows = np.concatenate([columns_of(features.table), self._first], axis=1, dtype=np.float32)
            test = np.concatenate(
                [columns_of(kept.transformed(features.preparer)), self._first_test], axis=1, dtype=np.float32
            )
            own, own_test = (each.squeeze(1) if each.shape[1] == 1 else each for each in self._base)
            if not residual:
                own, own_test = np.zeros_like(own), np.zeros_like(own_test)
            places.append(np.flatnonzero(kept.folds == fold))
            train = np.random.default_rng(fold).permutation(np.flatnonzero(kept.folds != fold))
            n_stopping = len(train) // STOPPING_PARTS
            fitted, stopping = (
                lightgbm.Dataset(rows[part], kept.target[part], init_score=own[part] if residual else None)
                for part in (train[n_stopping:], train[:n_stopping])
            )
            model = lightgbm.train(
                params,
                fitted,
                N_ROUNDS,
                valid_sets=[stopping.set_reference(fitted)],
                callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
            )
            for found, part, start in ((oof, rows[places[-1]], own[places[-1]]), (tests, test, own_test)):
                found.append(prediction_of(start + np.asarray(model.predict(part, raw_score=True)), kept.task))
        return joined(places, oof), np.mean(tests, axis=0)


def joined(places: list[Array], parts: list[Array]) -> Array:
    """The held-out predictions of all folds in the order of the rows."""
    whole = np.concatenate(parts)
    return whole[np.argsort(np.concatenate(places))]


def best_of_models(kept: KeptRun) -> list[Key]:
    """The best trial of each model."""
    losses = {key: metrics.loss(kept.metric, kept.target, kept.out_of_fold(key)) for key in kept.keys}
    best: dict[str, Key] = {}
    for key in sorted(kept.keys, key=lambda key: losses[key]):
        best.setdefault(key[0], key)
    return sorted(best.values())


def compare(kept: KeptRun) -> dict[str, dict[str, float]]:
    """Ratios of the test errors and of the cross-fitted errors with and without each second-level model."""
    oof, tests = [kept.out_of_fold(key) for key in kept.keys], [kept.test(key) for key in kept.keys]
    without, error = kept.ensemble(oof, tests)
    base = without.blend, blend(tests, without.weights)
    level = SecondLevel(kept, best_of_models(kept), base)
    found: dict[str, dict[str, float]] = {}
    for name, (own_oof, own_test) in (
        ("boosting", level.boosted(residual=False)),
        ("linear", level.linear()),
        ("residual", level.boosted(residual=True)),
    ):
        with_it, new_error = kept.ensemble([*oof, own_oof], [*tests, own_test])
        found[name] = {
            "error": new_error / error,
            "cross_fitted": cross_fitted_error(kept, with_it) / cross_fitted_error(kept, without),
            "weight": float(with_it.weights[-1]),
            "alone": kept.error(own_test) / error,
        }
    return found


def cross_fitted_error(kept: KeptRun, found: EnsembleResult) -> float:
    """Difference of a cross-fitted score to a perfect one."""
    return 1 - found.score if metrics.get(kept.metric).greater_is_better else found.score


def mean_text(ratios: list[float]) -> str:
    """Geometric mean with its standard error."""
    logarithms = np.log(ratios)
    spread = float(np.std(logarithms, ddof=1)) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    return f"{float(np.exp(logarithms.mean())):.4f} ± {spread:.4f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "second_level.json")
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    rows: list[list[str]] = []
    names = ("boosting", "linear", "residual")
    for kept in open_kept(options.kept, options.data):
        if len(kept.keys) < 2:
            continue
        found = results[f"{kept.table}|{kept.draw}"] = compare(kept)
        cells = [f"{found[name][what]:.4f}" for name in names for what in ("error", "cross_fitted")]
        rows.append([kept.table, str(kept.draw), kept.metric, str(len(kept.target)), str(len(kept.keys)), *cells])
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    always, decided, right = (
        [title, "", "", "", ""] for title in ("always", "if the cross-fitted error is lower", "decided rightly")
    )
    for name in names:
        pairs = [(each[name]["error"], each[name]["cross_fitted"]) for each in results.values()]
        always += [mean_text([error for error, _ in pairs]), ""]
        decided += [mean_text([error if estimate < 1 else 1.0 for error, estimate in pairs]), ""]
        changed = [(error, estimate) for error, estimate in pairs if error != 1.0]
        right += [f"{sum((error < 1) == (estimate < 1) for error, estimate in changed)} of {len(changed)}", ""]
    rows += [always, decided, right]
    header = ["table", "draw", "metric", "rows", "candidates"]
    header += [cell for name in names for cell in (name, f"{name}, cross-fitted")]
    report(machine("lightgbm"), header, rows, results, options.out, right=tuple(range(3, len(header))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
