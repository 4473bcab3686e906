"""Networks that hide cells in training, on test rows with missing cells, beside the same networks without.

python -m benchmarks.hidden_cells [--data FOLDER] [--tables a,b] [--models a,b] [--rates 0,0.3] [--shares 0,0.3] [--seeds 3]
                                  [--rows 1500] [--test-rows 2000] [--seconds 15] [--device cpu] [--keep FOLDER] [--out FILE.json]

A network is trained with each `hidden_rate` on rows whose cells are complete except for those that the table itself lacks. In
test rows, each cell is missing with the probability of --shares. Scores are ROC AUC, accuracy or R² by task. "gain" is the mean
difference to the network with the first rate on the same seed, with its standard deviation over seeds. --seconds are of
processor time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.fits import Source, changed, data_folder, fitted, kept, load, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report
from benchmarks.unlabeled_rows import METRICS
from tabapp import metrics
from tabapp.explain.robustness import damaged
from tabapp.models import registry

TABLES = ("adult", "bank_marketing", "california_housing", "diamonds")
MODELS = ("mlp", "resnet", "tabm", "ft_transformer")


def scores(source: Source, name: str, model: str, rate: float, seed: int, options: argparse.Namespace) -> list[float]:
    """The test score at each share of missing cells."""

    def compute() -> npt.NDArray[Any]:
        plugin = registry.get(model)
        division = random_division(source, options.rows, options.test_rows, seed)
        data = prepared(source, division, plugin, seed)
        params = changed(plugin.defaults(source.task, data.shape, options.device), {"hidden_rate": rate})
        metric = METRICS[source.task]
        network = fitted(plugin, data, params, metric=metric, seed=seed, seconds=options.seconds, device=options.device)
        frame, columns = source.frame[division.test.tolist()], [each.name for each in source.schema.features]
        tables = [data.preparer.transform(damaged(frame, columns, share, "missing", seed)) for share in options.shares]
        truth = source.target[division.test]
        found = np.array([metrics.score(metric, truth, network.predict(table)) for table in tables])
        print(f"{key}: {np.round(found, 4).tolist()}", file=sys.stderr, flush=True)
        return found

    shares = "-".join(f"{share:g}" for share in options.shares)
    key = f"{name}/{model}/{options.rows}-{options.seconds:g}/{rate:g}/{shares}/{seed}"
    return kept(options.keep, key, compute).tolist()


def numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    return [float(part) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rates", type=numbers, default=[0.0, 0.3], help="shares of the cells hidden in training")
    parser.add_argument("--shares", type=numbers, default=[0.0, 0.3], help="shares of the cells missing in test rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_500, help="training and early-stopping rows")
    parser.add_argument("--test-rows", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="limit of one fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=Path, default=Path("build/benchmarks/hidden_cells"))
    parser.add_argument("--out", type=Path, default=RESULTS / "hidden_cells.json")
    options = parser.parse_args()
    names, models = options.tables.split(","), options.models.split(",")
    # A seed of all tables and models comes before the next one, so that an interrupted run has whole seeds.
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.seeds):
        for name in names:
            for model in models:
                for rate in options.rates:
                    each = scores(load(options.data, name), name, model, rate, seed, options)
                    for share, score in zip(options.shares, each, strict=True):
                        found.setdefault(f"{name}/{model}/{share:g}", {}).setdefault(f"{rate:g}", []).append(score)
    rows: list[list[str]] = []
    for key, by_rate in found.items():
        name, model, share = key.split("/")
        first, *others = by_rate.values()
        gains = [spread([a - b for a, b in zip(other, first, strict=True)]) for other in others]
        rows.append([name, registry.get(model).title, f"{float(share):.0%}", spread(first), *gains])
    facts = machine("torch") | {"seeds": options.seeds, "rows": options.rows, "device": options.device}
    facts |= {"seconds of one fit": options.seconds}
    rates = [f"gain with hidden_rate {rate:g}" for rate in options.rates[1:]]
    header = ["table", "model", "missing cells", f"score with hidden_rate {options.rates[0]:g}", *rates]
    report(facts, header, rows, found, options.out, right=range(2, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
