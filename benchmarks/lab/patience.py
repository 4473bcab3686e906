"""The time that `--patience auto` saves in kept runs, and the error that it gives up.

python -m benchmarks.lab.patience KEPT... [--shares 0.02,0.05,0.1,0.2,0.4] [--steps 3] [--data FOLDER] [--out FILE.json]

KEPT is the folder of --keep of a `benchmarks.product.rivals` run. Each run is followed through its log: the scores of its ensembles
go to `tabapp.engine.loop.patience`, which says at every second whether the score is settled. "error" is the error on the test rows
of the ensemble of the candidates that are complete by then, over that of all candidates; "saved" is the share of the time of
fitting that is left. The last lines are the means for each share of the interval (`Policy.settled_share`), and those of the share
that saves the most time with a mean error below 1.002 on the other tables (leave one table out).
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lab.kept import KeptRun, open_kept
from benchmarks.machine import RESULTS, machine, report
from tabapp.engine.loop.patience import Patience
from tabapp.policy import POLICY
from tabapp.run.record import events as ev

MOST_ERROR = 1.002
"""Mean ratio of errors that `--patience auto` may have as the default."""


def stop_second(kept: KeptRun, share: float, steps: int) -> float:
    """The second of the run at which fitting would end."""
    patience = Patience(kept.metric, replace(POLICY, settled_share=share, settled_steps=steps))
    end, planned = kept.fitting_end, ev.FitsPlanned()
    waiting = [event for event in kept.events if isinstance(event, ev.EnsembleChanged | ev.FitsPlanned)]
    for second in range(1, int(end)):
        while waiting and waiting[0].t - kept.started <= second:
            event = waiting.pop(0)
            if isinstance(event, ev.FitsPlanned):
                planned = event
            else:
                patience.record(event.t - kept.started, event)
        if patience.settled(float(second), end, planned) is not None:
            return float(second)
    return end


def outcome(kept: KeptRun, second: float) -> float:
    """Error of the ensemble of the candidates that are complete at a second."""
    keys = [key for key, at in kept.complete_at.items() if at <= second]
    return kept.ensemble([kept.out_of_fold(key) for key in keys], [kept.test(key) for key in keys])[1]


def chosen_share(others: dict[str, dict[float, tuple[float, float]]], shares: list[float]) -> float | None:
    """The share with the most time saved among those whose mean error is small enough on some tables."""
    usable = {
        share: float(np.mean([values[share][0] for values in others.values()]))
        for share in shares
        if np.exp(np.mean([np.log(values[share][1]) for values in others.values()])) < MOST_ERROR
    }
    return max(usable, key=lambda share: usable[share], default=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", nargs="+", type=Path)
    parser.add_argument("--shares", default="0.02,0.05,0.1,0.2,0.4")
    parser.add_argument("--steps", type=int, default=POLICY.settled_steps)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "patience.json")
    options = parser.parse_args()
    shares = [float(share) for share in options.shares.split(",")]
    found: dict[str, dict[float, tuple[float, float]]] = {}
    rows: list[list[str]] = []
    for kept in open_kept(options.kept, options.data):
        if not kept.complete_at:
            continue
        whole, cells = outcome(kept, kept.fitting_end), [kept.table, str(kept.draw)]
        values = found.setdefault(f"{kept.table}|{kept.draw}", {})
        for share in shares:
            second = stop_second(kept, share, options.steps)
            saved, error = 1 - second / kept.fitting_end, outcome(kept, second) / whole
            values[share] = saved, error
            cells += [f"{saved:.0%}", f"{error:.4f}"]
        rows.append(cells)
        print("  ".join(cells), file=sys.stderr, flush=True)
    means = ["mean", ""]
    for share in shares:
        logarithms = np.log([values[share][1] for values in found.values()])
        spread = float(np.std(logarithms, ddof=1)) / len(logarithms) ** 0.5 if len(logarithms) > 1 else float("nan")
        means += [
            f"{np.mean([v[share][0] for v in found.values()]):.0%}",
            f"{np.exp(logarithms.mean()):.4f} ± {spread:.4f}",
        ]
    rows.append(means)
    judged: list[tuple[float, float]] = []
    for name, values in found.items():
        table = name.partition("|")[0]
        share = chosen_share({key: v for key, v in found.items() if key.partition("|")[0] != table}, shares)
        judged.append((0.0, 1.0) if share is None else values[share])
    left_out = np.array(judged)
    rows.append(
        ["leave one table out", "", f"{left_out[:, 0].mean():.0%}", f"{np.exp(np.log(left_out[:, 1]).mean()):.4f}"]
    )
    rows[-1] += [""] * (2 * len(shares) - 2)
    header = ["table", "draw", *(cell for share in shares for cell in (f"saved, {share:g}", f"error, {share:g}"))]
    results = {name: {f"{share:g}": pair for share, pair in values.items()} for name, values in found.items()}
    report(
        {**machine(), "steps": options.steps}, header, rows, results, options.out, right=tuple(range(1, len(header)))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
