"""Use of other rows by NPT: the lookup, data corruption and data deletion experiments of Kossen et al. 2021.

python -m papers.npt.experiments [--experiments lookup,corruption,deletion] [--tables boston] [--splits 1] [--steps N]
                                     [--rows 20] [--data FOLDER] [--out FILE.json]

lookup: rows whose target is hidden together with copies that show it (section 4.2), and the variants of Table 3; 1,000 steps on
new rows, scored on new rows: correlation, RMSE in standard deviations of the target, and the slope of the prediction against the
copy's target when that is changed.

corruption: the test score of a trained Mini before and after all other rows are scrambled (Algorithm 1), compared with Table 2:
RMSE, or accuracy of classes.

deletion: rows are deleted from the context as long as a prediction hardly changes (Algorithm 2). Distances of a test row to the
kept rows, to as many random rows, and to the deleted rows; Wilcoxon's signed-rank test shows whether kept rows are nearer than
random rows.

The tables with published splits use them; others are divided at random, with 2,000 rows to learn from and 200 to score.
`papers.npt.paper` repeats corruption and deletion with networks of the paper's size.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wilcoxon
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.network import NPTNetwork
from tabapp_plugins.npt.params import NPTParams
from tabapp_plugins.npt.plugin import NPT, sized

from benchmarks.fits import Prepared, data_folder, fitted, load, prepared, published_division, random_division
from benchmarks.machine import RESULTS, machine, report
from papers.npt.probes import LookupTask, looked_up, train_lookup
from tabapp import metrics
from tabapp.explain.between_rows.changes import corrupted_predictions, delete_rows, kept_distances
from tabapp.explain.between_rows.folds import distances
from tabapp.nn.training.objective import target_of

VARIANTS = {
    "original": LookupTask(),
    "random features": LookupTask(n_random=3),
    "add one": LookupTask(added=1.0),
    "random features + add one": LookupTask(n_random=3, added=1.0),
}
N_ROWS, N_SETS = 12, 8
PAPER_DROP = {
    "yacht": "-52 %",
    "protein_casp": "-21 %",
    "boston": "-20 %",
    "concrete": "-7 %",
    "poker_hand": "-1.1 points",
    "higgs_lightgbm": "-0.5 points",
    "covertype": "-0.1 points",
    "breast_cancer_wdbc": "0.0 points",
}
"""Table 2: change of the RMSE in percent, or of the accuracy in points."""
MOST_LEARNED, MOST_SCORED = 2_000, 200


def lookup(n_steps: int) -> list[dict[str, Any]]:
    """Train and evaluate a network for every variant."""
    results: list[dict[str, Any]] = []
    for name, task in VARIANTS.items():
        torch.manual_seed(0)
        network = NPTNetwork(task.attributes, d_embedding=16, n_layers=4, n_heads=4, dropout=0.0, normalize_keys=True)
        began = time.process_time()
        train_lookup(network, task, n_steps=n_steps, n_rows=N_ROWS, n_sets=N_SETS, learning_rate=8e-3, seed=0)
        seconds = time.process_time() - began
        generator = torch.Generator().manual_seed(1)
        drawn = [task.draw(N_ROWS, generator) for _ in range(100)]
        said = torch.cat([looked_up(network, each) for each in drawn])
        truth = torch.cat([each.truth for each in drawn])
        values = torch.linspace(-1.5, 1.5, 13)
        moved = torch.stack([looked_up(network, drawn[0].with_targets(v.expand(N_ROWS))) for v in values])
        slopes = ((values - values.mean())[:, None] * moved).sum(0) / (values - values.mean()).square().sum()
        results.append(
            {
                "experiment": "lookup",
                "task": name,
                "r": float(torch.corrcoef(torch.stack([said, truth]))[0, 1]),
                "rmse": float((said - truth).square().mean().sqrt()),
                "slope": float(slopes.mean()),
                "cpu_seconds": round(seconds, 1),
            }
        )
        print(results[-1], file=sys.stderr, flush=True)
    return results


def split_of(name: str, number: int, folder: Path, most: int | None = None) -> Prepared:
    """The features of one split of a table, with at most `most` rows to learn from."""
    source = load(folder, name)
    most = len(source) if most is None else most
    division = published_division(source, folder, name, number, most)
    return prepared(source, division or random_division(source, most, MOST_SCORED, number), NPT(), number)


def metric_of(data: Prepared) -> str:
    """The metric of Table 2."""
    return "rmse" if data.source.task == "regression" else "accuracy"


def trained(
    data: Prepared, params: NPTParams, device: str, *, seconds: float = math.inf, deadline: float | None = None
) -> NPTModel:
    """Train on a split, in the time that `benchmarks.fits.fitted` takes."""
    metric = metric_of(data)
    model = fitted(NPT(), data, params, metric=metric, seed=0, seconds=seconds, device=device, deadline=deadline)
    assert isinstance(model, NPTModel)
    return model


def corruption(model: NPTModel, data: Prepared, name: str, number: int) -> dict[str, Any]:
    """The score before and after, of at most `MOST_SCORED` test rows."""
    scored, metric, stored = data.test.take(slice(0, MOST_SCORED)), metric_of(data), model.stored_rows()
    assert stored is not None
    plain, corrupted = (
        metrics.score(metric, target_of(scored), prediction)
        for prediction in (model.predict(scored), corrupted_predictions(stored, scored, seed=0))
    )
    change = 100 * (plain - corrupted) / plain if metric == "rmse" else 100 * (corrupted - plain)
    found = {"experiment": "corruption", "table": name, "split": number, "metric": metric, "score": plain}
    found |= {"corrupted_score": corrupted, "change": change}
    print(found, file=sys.stderr, flush=True)
    return found


def deletions(
    model: NPTModel, data: Prepared, name: str, number: int, n_rows: int, seconds: float = math.inf
) -> dict[str, Any]:
    """Distances of test rows to kept, random and deleted rows, of as many rows as the time allows but at least one."""
    deadline = time.monotonic() + seconds
    stored, objective = model.stored_rows(), model.saved.objective
    assert stored is not None
    assert objective is not None
    known = data.train.joined(data.valid).take(stored.source)
    shares: list[float] = []
    rows: list[tuple[float, float, float]] = []
    for i in range(min(n_rows, len(data.test))):
        row = data.test.take(slice(i, i + 1))
        # The paper divides by the prediction, which may be negative or zero.
        scale = max(abs(float(model.predict(row)[0])), 0.05 * objective.std)
        left = delete_rows(stored, row, scale, seed=i)
        assert left is not None
        shares.append(len(left) / len(stored))
        rows.append(kept_distances(left, distances(row, known)[0], seed=i))
        if time.monotonic() > deadline:
            break
    kept, random, deleted = np.array(rows).T
    found = {
        "experiment": "deletion",
        "table": name,
        "split": number,
        "rows": len(rows),
        "kept_share": float(np.mean(shares)),
        "kept_distance": float(kept.mean()),
        "random_distance": float(random.mean()),
        "deleted_distance": float(np.nanmean(deleted)) if np.isfinite(deleted).any() else None,
        "p_kept_below_random": float(wilcoxon(kept, random, alternative="less").pvalue),
        "distances": {
            "kept": kept.tolist(),
            "random": random.tolist(),
            "deleted": [d if math.isfinite(d) else None for d in deleted.tolist()],
        },
    }
    print({key: value for key, value in found.items() if key != "distances"}, file=sys.stderr, flush=True)
    return found


def cells(result: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if result["experiment"] == "lookup":
        said = f"r {result['r']:.4f}, RMSE {result['rmse']:.3f}, slope {result['slope']:.3f}"
        return ["lookup", result["task"], said, "r > 0.999"]
    where = f"{result['table']}, split {result['split']}"
    if result["experiment"] == "corruption":
        unit = "%" if result["metric"] == "rmse" else "points"
        title = "RMSE" if result["metric"] == "rmse" else "accuracy"
        said = f"{title} {result['score']:.3f} to {result['corrupted_score']:.3f} ({result['change']:+.1f} {unit})"
        return ["corruption", where, said, PAPER_DROP.get(result["table"], "—")]
    said = f"{100 * result['kept_share']:.1f} % kept; distance {result['kept_distance']:.2f}, random "
    deleted = "—" if result["deleted_distance"] is None else f"{result['deleted_distance']:.2f}"
    said += f"{result['random_distance']:.2f}, deleted {deleted}; p {result['p_kept_below_random']:.2g}"
    return ["deletion", where, said, "kept nearer, p 9e-130 (Protein)"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", default="lookup,corruption,deletion")
    parser.add_argument("--tables", default="boston")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--steps", type=int, help="training steps, instead of Mini's and the lookup task's 1,000")
    parser.add_argument("--rows", type=int, default=20, help="test rows of the deletion experiment")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of one fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables and published splits")
    parser.add_argument("--out", type=Path, default=RESULTS / "npt_experiments.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted: list[str] = options.experiments.split(",")
    results = lookup(options.steps or 1000) if "lookup" in wanted else []
    if {"corruption", "deletion"} & set(wanted):
        for name in options.tables.split(","):
            for number in range(options.splits):
                data = split_of(name, number, options.data, MOST_LEARNED)
                changes = {"n_steps": options.steps} if options.steps else {}
                params = sized("mini", data.shape.n_features + 1, **changes)
                model = trained(data, params, options.device, seconds=options.seconds)
                if "corruption" in wanted:
                    results.append(corruption(model, data, name, number))
                if "deletion" in wanted and data.source.task == "regression":
                    results.append(deletions(model, data, name, number, options.rows))
    rows = [cells(result) for result in results]
    report(machine("torch"), ["experiment", "", "result", "paper"], rows, results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
