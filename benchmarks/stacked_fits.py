"""Compares folds of a network that are trained as one stacked network with the same folds trained one after the other.

    OMP_NUM_THREADS=1 python -m benchmarks.stacked_fits [MODEL …] [--tables 1000x10,4300x5,7000x8] [--epochs 2] [--repeats 5]
                                                        [--folds 5] [--device cpu] [--out FILE]

The tables are generated. Each is split into folds as in a run, and all folds but the first are trained with the defaults of
the model for some epochs in both ways, alternately. Reports seconds: on a CPU those of the processor, which depend less on what
else runs. That both ways give the same models is tested in `tests/nn/test_stacked.py`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.fits import changed
from benchmarks.machine import machine, report
from tabapp.data.split import early_stopping_rows
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, GroupFit, Plugin, Shape

MODELS: Mapping[str, Mapping[str, Any]] = {"mlp": {}, "mlp, width 96": {"widths": (96, 96)}, "snn": {}, "dcn_v2": {}}
"""Hyperparameters that differ from the defaults, by the name of a row."""
TABLES = "1000x10,4300x5,7000x8"
N_FOLDS = 5
HEADER = ("model", "rows", "columns", "folds", "one after the other, s", "stacked, s", "ratio")


@dataclass(frozen=True)
class Timing:
    """Seconds of one way to train the folds for some epochs."""

    model: str
    n_rows: int
    n_columns: int
    repeat: int
    stacked: bool
    n_folds: int
    n_epochs: int
    seconds: float


def generated(n_rows: int, n_columns: int, seed: int) -> Table:
    """A binary target that depends on products and waves of normal columns, with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] ** 2 - 0.5 + x @ random.normal(0, 0.3, n_columns)
    chance = 1 / (1 + np.exp(-3 * signal))
    return Table(x, np.empty((n_rows, 0), np.int32), (random.random(n_rows) < chance).astype(np.int64))


def fits_of(
    plugin: Plugin, table: Table, folder: Path, device: str, seed: int, changes: Mapping[str, Any], n_folds: int
) -> list[GroupFit]:
    """The fits of all folds but the first."""
    assert table.target is not None
    names = tuple(f"x{i}" for i in range(table.numeric.shape[1]))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    fold = np.random.default_rng(seed).permutation(len(table)) % n_folds
    params = changed(plugin.defaults("binary", Shape(len(table), len(names), 0, 2), device), dict(changes))
    found: list[GroupFit] = []
    for number in range(1, n_folds):
        training = np.flatnonzero(fold != number)
        stopping = early_stopping_rows(table.target, "binary", training, seed)
        context = FitContext("binary", 2, "log_loss", spec, seed + number, device, 1, folder)
        found.append(GroupFit(table.take(training[~stopping]), table.take(training[stopping]), params, context))
    return found


def clock(device: str) -> float:
    """Seconds of this process on the processor, or of the clock on a GPU."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def seconds_of(plugin: Plugin, fits: Sequence[GroupFit], device: str, *, stacked: bool) -> float:
    """Seconds of training all fits."""
    start = clock(device)
    if stacked:
        plugin.fit_group(fits)
    else:
        for fit in fits:
            plugin.fit(fit.train, fit.valid, fit.params, fit.context)
    return clock(device) - start


def summary(timings: Sequence[Timing]) -> list[list[str]]:
    """A row for each model and table: medians over the repeats."""
    rows: list[list[str]] = []
    for key in dict.fromkeys((t.model, t.n_rows, t.n_columns, t.n_folds) for t in timings):
        same = [t for t in timings if (t.model, t.n_rows, t.n_columns, t.n_folds) == key]
        alone, stacked = (statistics.median(t.seconds for t in same if t.stacked is way) for way in (False, True))
        sizes = [key[0], f"{key[1]:,}", str(key[2]), str(key[3])]
        rows.append([*sizes, f"{alone:.2f}", f"{stacked:.2f}", f"{stacked / alone:.2f}"])
    return rows


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=tuple(MODELS))
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folds", type=int, default=N_FOLDS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    timings: list[Timing] = []
    for size in chosen.tables.split(","):
        n_rows, n_columns = map(int, size.split("x"))
        for name in chosen.models:
            plugin = registry.get(name.partition(",")[0])
            changes = {**MODELS[name], "max_epochs": chosen.epochs}
            for repeat in range(-1, chosen.repeats):
                table = generated(n_rows, n_columns, repeat + 1)
                for stacked in (False, True) if repeat % 2 else (True, False):
                    with TemporaryDirectory(prefix="tabapp-stacked-") as folder:
                        fits = fits_of(plugin, table, Path(folder), chosen.device, repeat + 1, changes, chosen.folds)
                        seconds = seconds_of(plugin, fits, chosen.device, stacked=stacked)
                    if repeat >= 0:  # The first of each kind also loads libraries.
                        timings.append(
                            Timing(name, n_rows, n_columns, repeat, stacked, len(fits), chosen.epochs, seconds)
                        )
            print("\t".join(summary(timings)[-1]), flush=True)
    name = torch.cuda.get_device_name(chosen.device) if chosen.device.startswith("cuda") else chosen.device
    facts: dict[str, Any] = machine("torch") | {"device": name, "threads": 1}
    report(facts, HEADER, summary(timings), [asdict(t) for t in timings], chosen.out, right=range(1, len(HEADER)))


if __name__ == "__main__":
    main(sys.argv[1:])
