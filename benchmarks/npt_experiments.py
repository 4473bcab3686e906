"""Use of other rows by NPT: the lookup, data corruption and data deletion experiments of Kossen et al. 2021.

python -m benchmarks.npt_experiments [--experiments lookup,corruption,deletion] [--tables boston] [--splits 1] [--steps N]
                                     [--rows 20] [--data FOLDER] [--out FILE.json]

lookup: rows whose target is hidden together with copies that show it (section 4.2), and the variants of Table 3; 1,000 steps on
new rows, scored on new rows: correlation, RMSE in standard deviations of the target, and the slope of the prediction against the
copy's target when that is changed.

corruption: test RMSE of a trained Mini before and after all other rows are scrambled (Algorithm 1), compared with Table 2.

deletion: rows are deleted from the context as long as a prediction hardly changes (Algorithm 2). Distances of a test row to the
kept rows, to as many random rows, and to the deleted rows; Wilcoxon's signed-rank test shows whether kept rows are nearer than
random rows.

Tables and splits are those of `benchmarks.npt_uci`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wilcoxon
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.network import NPTNetwork
from tabapp_plugins.npt.plugin import NPT, sized

from benchmarks.machine import RESULTS, machine, report
from benchmarks.npt_probes import LookupTask, corrupted_predictions, deletion, looked_up, train_lookup
from benchmarks.npt_uci import Split, data_folder
from tabapp.models.contract import FitContext

VARIANTS = {
    "original": LookupTask(),
    "random features": LookupTask(n_random=3),
    "add one": LookupTask(added=1.0),
    "random features + add one": LookupTask(n_random=3, added=1.0),
}
N_ROWS, N_SETS = 12, 8
PAPER_DROP = {"yacht": "-52 %", "boston": "-20 %", "concrete": "-7 %"}


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


def trained(split: Split, n_steps: int | None) -> NPTModel:
    """Train a Mini on a split."""
    n_attributes = split.train.numeric.shape[1] + split.train.categorical.shape[1] + 1
    params = sized("mini", n_attributes, **({"n_steps": n_steps} if n_steps else {}))
    with tempfile.TemporaryDirectory() as scratch:
        context = FitContext(
            task="regression",
            n_classes=1,
            metric="rmse",
            features=split.spec,
            seed=0,
            device="cpu",
            n_threads=1,
            folder=Path(scratch),
        )
        model = NPT().fit(split.train, split.valid, params, context)
    assert isinstance(model, NPTModel)
    return model


def corruption(model: NPTModel, split: Split, name: str, number: int) -> dict[str, Any]:
    """RMSE before and after."""
    plain, corrupted = (
        float(np.sqrt(np.mean((said - split.truth) ** 2)))
        for said in (model.predict(split.test), corrupted_predictions(model, split.test, seed=0))
    )
    drop = 100 * (plain - corrupted) / plain
    found = {"experiment": "corruption", "table": name, "split": number, "rmse": plain, "corrupted_rmse": corrupted}
    print({**found, "drop_percent": drop}, file=sys.stderr, flush=True)
    return {**found, "drop_percent": drop}


def deletions(model: NPTModel, split: Split, name: str, number: int, n_rows: int) -> dict[str, Any]:
    """Distances of test rows to kept, random and deleted rows."""
    rows = [deletion(model, split.test.take(slice(i, i + 1)), seed=i) for i in range(min(n_rows, len(split.test)))]
    kept, random, deleted = (
        np.array([getattr(row, f"{what}_distance") for row in rows]) for what in ("kept", "random", "deleted")
    )
    found = {
        "experiment": "deletion",
        "table": name,
        "split": number,
        "rows": len(rows),
        "kept_share": float(np.mean([len(row.kept) for row in rows]) / model.draws.shape[1]),
        "kept_distance": float(kept.mean()),
        "random_distance": float(random.mean()),
        "deleted_distance": float(np.nanmean(deleted)),
        "p_kept_below_random": float(wilcoxon(kept, random, alternative="less").pvalue),
    }
    print(found, file=sys.stderr, flush=True)
    return found


def cells(result: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if result["experiment"] == "lookup":
        said = f"r {result['r']:.4f}, RMSE {result['rmse']:.3f}, slope {result['slope']:.3f}"
        return ["lookup", result["task"], said, "r > 0.999"]
    where = f"{result['table']}, split {result['split']}"
    if result["experiment"] == "corruption":
        said = f"RMSE {result['rmse']:.2f} to {result['corrupted_rmse']:.2f} ({result['drop_percent']:.0f} %)"
        return ["corruption", where, said, PAPER_DROP[result["table"]]]
    said = f"{100 * result['kept_share']:.1f} % kept; distance {result['kept_distance']:.2f}, random "
    said += f"{result['random_distance']:.2f}, deleted {result['deleted_distance']:.2f}; p {result['p_kept_below_random']:.2g}"
    return ["deletion", where, said, "kept nearer, p 9e-130 (Protein)"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", default="lookup,corruption,deletion")
    parser.add_argument("--tables", default="boston")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--steps", type=int, help="training steps, instead of Mini's and the lookup task's 1,000")
    parser.add_argument("--rows", type=int, default=20, help="test rows of the deletion experiment")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "npt_experiments.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted: list[str] = options.experiments.split(",")
    results = lookup(options.steps or 1000) if "lookup" in wanted else []
    folder = data_folder(options.data)
    if folder is None:
        print("The tables and splits are not here; name their folder with --data or TABAPP_DATA.", file=sys.stderr)
    elif {"corruption", "deletion"} & set(wanted):
        for name in options.tables.split(","):
            for number in range(options.splits):
                split = Split(folder, name, number, NPT())
                model = trained(split, options.steps)
                if "corruption" in wanted:
                    results.append(corruption(model, split, name, number))
                if "deletion" in wanted:
                    results.append(deletions(model, split, name, number, options.rows))
    rows = [cells(result) for result in results]
    report(machine("torch"), ["experiment", "", "result", "paper"], rows, results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
