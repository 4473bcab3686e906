"""NPT on concrete, boston and yacht, compared with Table 11 of Kossen et al. 2021: test RMSE over published splits.

python -m papers.npt.uci [--tables a,b] [--splits 5] [--size mini|small|base] [--device cpu|cuda] [--set key=value …]
                             [--full] [--data FOLDER] [--out FILE.json]

The test rows of each split are used only for the final prediction. Of the other rows, 15 % are used for early stopping, as in a
run. The tables and their splits (`splits/NAME.json.gz`: test rows of each split) are read from --data,
$TABAPP_DATA and ../shared/data. The paper's scores are from ten other folds with NPT-Small, which has a hundred times the weights
of Mini, and from the best of eight variants on each table. --full is for a GPU: NPT-Small on all twenty published splits.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tabapp_plugins.npt.plugin import NPT, sized

from benchmarks.machine import RESULTS, machine, report
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.split import early_stopping_rows
from tabapp.data.typed import encode_target, typed_frame
from tabapp.features.arrays import Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FitContext, Shape

PAPER = {"concrete": "5.21 ± 0.20", "boston": "2.92 ± 0.15", "yacht": "1.27 ± 0.15"}
TARGETS = {"concrete": "Strength", "boston": "MEDV", "yacht": "Resistance"}


def data_folder(given: Path | None) -> Path | None:
    """The first folder that holds published splits."""
    named = os.environ.get("TABAPP_DATA")
    folders = (
        [given] if given else [Path(named)] if named else [Path(__file__).resolve().parents[3] / "shared" / "data"]
    )
    return next((folder for folder in folders if (folder / "splits").is_dir()), None)


class Split:
    """A table, its features for a model, and the rows of one published split."""

    def __init__(self, folder: Path, name: str, number: int, plugin: Any) -> None:
        reading = read_table(folder / f"{name}.csv", ReadOptions())
        schema = infer_schema(reading.frame, target=TARGETS[name], task="regression")
        typed = typed_frame(reading.frame, schema)
        target = encode_target(typed, schema)
        splits = json.loads(gzip.decompress((folder / "splits" / f"{name}.json.gz").read_bytes()))
        test = np.zeros(len(target), dtype=bool)
        test[splits["test_rows"][number]] = True
        learned = np.flatnonzero(~test)
        stopping = early_stopping_rows(target, "regression", learned, seed=number)
        preparer = FeaturePreparer.fit(typed[learned], schema, plugin.features(), seed=number)
        table = preparer.transform(typed)
        self.spec = preparer.spec
        self.train = table.take(learned[~stopping])
        self.valid = table.take(learned[stopping])
        self.test = table.take(test)
        self.train, self.valid = (
            Table(part.numeric, part.categorical, target[rows])
            for part, rows in ((self.train, learned[~stopping]), (self.valid, learned[stopping]))
        )
        self.truth = target[test]


def measure(split: Split, plugin: Any, params: Any, device: str, n_threads: int, seed: int) -> dict[str, Any]:
    """Fit and score one split."""
    curve: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        context = FitContext(
            task="regression",
            n_classes=1,
            metric="rmse",
            features=split.spec,
            seed=seed,
            device=device,
            n_threads=n_threads,
            folder=Path(scratch),
            on_report=lambda step, value: curve.append((step, value)),
        )
        began = time.perf_counter()
        model = plugin.fit(split.train, split.valid, params, context)
        seconds = time.perf_counter() - began
    error = model.predict(split.test) - split.truth
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "valid_rmse": min(-abs(value) if value < 0 else value for _, value in curve) if curve else None,
        "seconds": round(seconds, 1),
        "summary": model.summary(),
        "curve": curve,
    }


def changes(pairs: list[str], params_type: Any) -> dict[str, Any]:
    """Parse `key=value` arguments as parameters."""
    known = {field.name: field.type for field in msgspec.structs.fields(params_type)}
    return {
        key: msgspec.convert(json.loads(value), known[key]) for key, _, value in (pair.partition("=") for pair in pairs)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="concrete,boston,yacht")
    parser.add_argument("--splits", default="5", help="how many, or numbers such as 3,7 or 3,")
    parser.add_argument("--size", choices=["mini", "small", "base"], default="mini")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes of the configuration")
    parser.add_argument("--model", default="npt", help="another model's defaults on the same splits")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "npt_uci.json")
    options = parser.parse_args()
    if options.full:
        options.splits, options.size = "20", "small"
    folder = data_folder(options.data)
    if folder is None:
        print("The tables and splits are not here; name their folder with --data or TABAPP_DATA.", file=sys.stderr)
        return 0
    plugin = NPT() if options.model == "npt" else registry.get(options.model)
    numbers = [int(n) for n in options.splits.split(",") if n]
    numbers = numbers if "," in options.splits else list(range(numbers[0]))
    rows: list[list[str]] = []
    results: list[dict[str, Any]] = []
    for name in options.tables.split(","):
        found: list[dict[str, Any]] = []
        for number in numbers:
            split = Split(folder, name, number, plugin)
            shape = Shape(len(split.train), split.train.numeric.shape[1], split.train.categorical.shape[1], 1)
            if options.model == "npt":
                params = sized(options.size, shape.n_features + 1, **changes(options.set, plugin.params_type))
            else:
                params = plugin.defaults("regression", shape, options.device)
            result = measure(split, plugin, params, options.device, options.threads, options.seed)
            found.append({"table": name, "split": number, "params": msgspec.to_builtins(params), **result})
            print(
                f"{name} split {number}: RMSE {result['rmse']:.3f}, early stopping {result['valid_rmse']:.3f}, "
                f"{result['seconds']} s, {result['summary']}",
                file=sys.stderr,
                flush=True,
            )
        scores = np.array([each["rmse"] for each in found])
        error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else float("nan")
        seconds = np.mean([each["seconds"] for each in found])
        rows.append([name, str(len(scores)), f"{scores.mean():.2f} ± {error:.2f}", PAPER[name], f"{seconds:.0f}"])
        results += found
    report(
        {**machine("torch"), "model": options.model, "size": options.size, "device": options.device},
        ["table", "splits", "test RMSE ± SE", "paper (Table 11)", "s per fit"],
        rows,
        results,
        options.out,
        right=(1, 4),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
