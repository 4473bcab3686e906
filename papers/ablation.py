"""FT-Transformer with and without feature biases, and AutoInt (Gorishniy et al. 2021, section 4.2, Table 3).

python -m papers.ablation [--seeds 3] [--settings paper|cpu] [--minutes M] [--data FOLDER] [--cache FILE.json] [--out FILE.json]

Trains AutoInt, FT-Transformer without the biases of its feature tokenizer, and FT-Transformer on the split of
`papers.deep_models` and shares its cache of fits. The paper reports 0.479, 0.472 and 0.464 on California housing, tuned.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, machine, report
from papers.deep_models import FILE, trained

VARIANTS: dict[str, tuple[str, dict[str, Any], float]] = {
    "AutoInt": ("autoint", {}, 0.479),
    "FT-Transformer without biases": ("ft_transformer", {"token_bias": False}, 0.472),
    "FT-Transformer": ("ft_transformer", {}, 0.464),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--settings", choices=["paper", "cpu"], default="paper")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("build/benchmarks/deep_models.json"),
        help="file of completed fits, which are reused",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation.json")
    options = parser.parse_args()
    seconds = options.minutes * 60 if options.minutes else None
    scores: dict[str, list[float]] = {title: [] for title in VARIANTS}
    for seed in range(options.seeds):
        for title, (name, changed, _) in VARIANTS.items():
            file = options.data / FILE
            result = trained(name, seed, options.settings, "cpu", seconds, file, options.cache, changed)
            scores[title].append(result["rmse"])
    rows = [
        [
            title,
            f"{statistics.fmean(values):.4f}",
            f"± {statistics.stdev(values):.4f}" if len(values) > 1 else "",
            f"{VARIANTS[title][2]:.3f}",
        ]
        for title, values in scores.items()
    ]
    header = ["model", "RMSE", "spread", "paper, tuned"]
    report(machine("torch") | {"settings": options.settings}, header, rows, scores, options.out, (1, 3))


if __name__ == "__main__":
    main()
