"""Ensembles of finished runs whose metric is the log loss, selected with the probabilities of candidates as they are, and with
sharper ones where that lowers the log loss after calibration (`Policy.sharper`).

python -m benchmarks.sharper_selection RUN ... [--splits 6] [--out FILE.json]

The out-of-fold rows of a run are split into halves, several times. An ensemble is selected and calibrated on one half, and its log
loss measured on the other; the table shows means over the halves, and the lowest and the highest ratio. Seconds are those of one
selection.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.loop.board import best_of_all_models
from tabapp.ensemble import greedy
from tabapp.ensemble.scaling import calibrated
from tabapp.policy import POLICY
from tabapp.run.options.units import format_duration
from tabapp.run.record.folder import RunFolder

METRIC = "log_loss"
VARIANTS = {"as they are": replace(POLICY, sharper=()), "sharper": POLICY}


def losses_of(run: FinishedRun, n_splits: int) -> dict[str, list[list[float]]]:
    """Log loss on the other half and seconds of each selection, by variant."""
    scorer, complete = run.scorer, [c for c in run.candidates.values() if c.is_complete]
    chosen = best_of_all_models(sorted(complete, key=lambda c: (scorer.loss(c), c.key)), POLICY.ensemble_candidates)
    predictions = [scorer.out_of_fold(candidate)[0].astype(np.float64) for candidate in chosen]
    scored = scorer.out_of_fold(chosen[0])[1]
    predictions, target, folds = [each[scored] for each in predictions], scorer.target[scored], scorer.folds[scored]
    found: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for split in range(n_splits):
        first = np.random.default_rng(split).permutation(len(target)) % 2 == 0
        for fitted in (first, ~first):
            for name, policy in VARIANTS.items():
                started = time.perf_counter()
                result = greedy.cross_fitted(
                    [each[fitted] for each in predictions],
                    target[fitted],
                    folds[fitted],
                    METRIC,
                    seed=split,
                    policy=policy,
                )
                seconds = time.perf_counter() - started
                blended = greedy.blend([each[~fitted] for each in predictions], result.weights)
                loss = metrics.loss(METRIC, target[~fitted], calibrated(blended, result.calibration))
                found[name].append([loss, seconds])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS / "sharper_selection.json")
    options = parser.parse_args()
    rows: list[list[str]] = []
    results: list[dict[str, object]] = []
    for folder in options.runs:
        run = FinishedRun(RunFolder(folder))
        if run.plan.metric != METRIC:
            parser.error(f"the metric of {folder} is not {METRIC}")
        found = losses_of(run, options.splits)
        losses, seconds = (np.array([[pair[i] for pair in found[name]] for name in VARIANTS]) for i in (0, 1))
        ratios, means = losses[1] / losses[0], losses.mean(axis=1)
        table, budget = _table_of(folder), run.folder.config().budget
        cells = [*(f"{mean:.4f}" for mean in means), *(f"{of(ratios):.4f}" for of in (np.mean, np.min, np.max))]
        rows.append(
            [
                table,
                format_duration(budget) if budget else "—",
                f"{len(run.rows):,}",
                *cells,
                *(f"{mean:.1f}" for mean in seconds.mean(axis=1)),
            ]
        )
        results.append({"table": table, "budget": budget, "rows": len(run.rows), "losses": losses.tolist()})
    header = ["table", "budget", "rows", *VARIANTS, "ratio", "lowest", "highest", "seconds", "seconds, sharper"]
    report(machine(), header, rows, results, options.out, range(2, len(header)))
    return 0


def _table_of(folder: Path) -> str:
    """The name of the table of a run that another benchmark has kept, in the folder of its table, system and draw."""
    return folder.resolve().parents[1].name.partition("-tabapp-")[0]


if __name__ == "__main__":
    sys.exit(main())
