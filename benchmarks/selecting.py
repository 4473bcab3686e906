"""Ensembles of finished runs whose metric is the ROC AUC, selected by that metric and by the log loss.

python -m benchmarks.selecting RUN ... [--out FILE.json]

A RUN is a run folder with cross-validation. For each of its folds, weights are selected on the out-of-fold predictions of the other
folds, and the blend is scored on the rows of the fold; the table shows the means over the folds. "best" is the candidate with the
highest ROC AUC on the other folds. The ratio is that of 1 - ROC AUC by log loss to that by ROC AUC.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.ensemble import greedy
from tabapp.run.record.folder import RunFolder

METRIC = "roc_auc"
CRITERIA = {"ROC AUC": None, "log loss": "log_loss"}
MOST_CANDIDATES = 30


def held_out_scores(run: FinishedRun) -> dict[str, float]:
    """The mean score of the folds by criterion, and that of the best candidate."""
    complete = [c for c in run.candidates.values() if len(c.results) == c.n_folds]
    chosen = sorted(complete, key=run.scorer.loss)[:MOST_CANDIDATES]
    predictions = [run.scorer.out_of_fold(candidate)[0] for candidate in chosen]
    target, folds = run.scorer.target, run.scorer.folds
    scores: dict[str, list[float]] = {name: [] for name in (*CRITERIA, "best")}
    for fold in np.unique(folds):
        scored, fitted = folds == fold, folds != fold
        known = [prediction[fitted] for prediction in predictions]
        for name, selected_by in CRITERIA.items():
            with mock.patch.dict(metrics.BUILT_IN, {METRIC: replace(metrics.get(METRIC), selected_by=selected_by)}):
                weights = greedy.select(known, target[fitted], METRIC)
            blended = greedy.blend([prediction[scored] for prediction in predictions], weights)
            scores[name].append(metrics.score(METRIC, target[scored], blended))
        best = int(np.argmax([metrics.score(METRIC, target[fitted], prediction) for prediction in known]))
        scores["best"].append(metrics.score(METRIC, target[scored], predictions[best][scored]))
    return {name: float(np.mean(values)) for name, values in scores.items()} | {"candidates": len(chosen)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=RESULTS / "selecting.json")
    options = parser.parse_args()
    rows: list[list[str]] = []
    results: list[dict[str, float | str]] = []
    for folder in options.runs:
        run = FinishedRun(RunFolder(folder))
        if run.plan.metric != METRIC or run.plan.folds < 2:
            parser.error(f"{folder} has no folds, or its metric is not {METRIC}")
        name = Path(run.state.data).name.partition(".")[0]
        found = held_out_scores(run)
        by_metric, by_log_loss = (found[name] for name in CRITERIA)
        ratio = (1 - by_log_loss) / (1 - by_metric)
        n_positives = int(np.sum(run.scorer.target == 1))
        cells = [f"{len(run.scorer.target):,}", f"{n_positives:,}", f"{found['candidates']:g}"]
        cells += [f"{found[name]:.4f}" for name in ("best", *CRITERIA)] + [f"{ratio:.3f}"]
        rows.append([name, *cells])
        results.append({"table": name, "rows": len(run.scorer.target), "positives": n_positives, **found})
    header = ["table", "rows", "positives", "candidates", "best", "by ROC AUC", "by log loss", "ratio"]
    report(machine(), header, rows, results, options.out, range(1, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
