"""Compares fits of a network that are trained as one stacked network with the same fits trained one after the other.

    OMP_NUM_THREADS=1 python -m benchmarks.performance.stacked_fits [MODEL …] [--tables 1000x10,4300x5,7000x8] [--epochs 2]
        [--repeats 5] [--folds 5] [--device cpu] [--out FILE]
    OMP_NUM_THREADS=1 python -m benchmarks.performance.stacked_fits mlp --trials 16 [--tables 10000x20] [--epochs N] [--repeats 5]
                                                        [--device cpu] [--out FILE]

The tables are generated, and both ways alternate. Without `--trials`, each table is split into folds as in a run, and all folds but
the first are trained with the defaults of the model for some epochs. With `--trials`, that many trials are trained on one fold,
with early stopping: their hyperparameters of training and rates of dropout are drawn from the search space, and the shape of the
network is that of the defaults. Reports seconds: on a CPU those of the processor, which depend less on what else runs; and for
trials the log losses on the early-stopping rows, whose differences have their cause in the random numbers of dropout and, on a GPU,
of the order of rows. That both ways give the same models without dropout is tested in `tests/nn/training/test_stacked.py`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import optuna
import torch

from benchmarks.fits import changed
from benchmarks.machine import machine, report
from tabapp import metrics
from tabapp.data.split import early_stopping_rows
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, FittedModel, GroupFit, Params, Plugin, Shape

MODELS: Mapping[str, Mapping[str, Any]] = {"mlp": {}, "mlp, width 96": {"widths": (96, 96)}, "snn": {}, "dcn_v2": {}}
"""Hyperparameters that differ from the defaults, by the name of a row."""
TABLES, TABLES_OF_TRIALS = "1000x10,4300x5,7000x8", "10000x20"
N_FOLDS, N_EPOCHS = 5, 2
HEADER = ("model", "rows", "columns", "fits", "one after the other, s", "stacked, s", "ratio")
LOSSES = ("epochs of all fits", "most epochs", "mean loss", "best loss", "largest difference of a loss")
"""Columns of trials: numbers of epochs of separate fits; losses of separate and stacked fits."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one way to train the fits.

    Attributes:
        n_epochs: of each fit; None for early stopping.
        epochs, losses: of each fit with early stopping.
    """

    model: str
    n_rows: int
    n_columns: int
    repeat: int
    stacked: bool
    n_fits: int
    n_epochs: int | None
    seconds: float
    epochs: list[int] = field(default_factory=list[int])
    losses: list[float] = field(default_factory=list[float])


def generated(n_rows: int, n_columns: int, seed: int) -> Table:
    """A binary target that depends on products and waves of normal columns, with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] ** 2 - 0.5 + x @ random.normal(0, 0.3, n_columns)
    chance = 1 / (1 + np.exp(-3 * signal))
    return Table(x, np.empty((n_rows, 0), np.int32), (random.random(n_rows) < chance).astype(np.int64))


def fits_of(
    plugin: Plugin, table: Table, folder: Path, device: str, seed: int, settings: Sequence[Params], n_folds: int
) -> list[GroupFit]:
    """The fits of all folds but the first with the same hyperparameters, or of the second fold with several.

    Args:
        settings: hyperparameters of each trial.
    """
    assert table.target is not None
    names = tuple(f"x{i}" for i in range(table.numeric.shape[1]))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    fold = np.random.default_rng(seed).permutation(len(table)) % n_folds
    found: list[GroupFit] = []
    for number in range(1, n_folds) if len(settings) == 1 else [1]:
        training = np.flatnonzero(fold != number)
        stopping = early_stopping_rows(table.target, "binary", training, seed)
        train, valid = table.take(training[~stopping]), table.take(training[stopping])
        for params in settings:
            place = folder / str(len(found))
            place.mkdir()
            context = FitContext("binary", 2, "log_loss", spec, seed + number, device, 1, place)
            found.append(GroupFit(train, valid, params, context))
    return found


def settings_of(plugin: Plugin, table: Table, device: str, changes: Mapping[str, Any], n_trials: int) -> list[Params]:
    """The defaults, and trials with their shape."""
    problem: Any = "binary", Shape(len(table), table.numeric.shape[1], 0, 2), device
    params = changed(plugin.defaults(*problem), dict(changes))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    settings = [params]
    for _ in range(1, n_trials):
        drawn = plugin.search_space(study.ask(), *problem)
        free = {name: getattr(drawn, name) for name in plugin.free_params - changes.keys()}
        settings.append(msgspec.structs.replace(params, **free))
    return settings


def clock(device: str) -> float:
    """Seconds of this process on the processor, or of the clock on a GPU."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def trained(plugin: Plugin, fits: Sequence[GroupFit], device: str, *, stacked: bool) -> tuple[float, list[FittedModel]]:
    """Seconds of training all fits, and their models."""
    start = clock(device)
    alone = (plugin.fit(fit.train, fit.valid, fit.params, fit.context) for fit in fits)
    models = plugin.fit_group(fits) if stacked else list(alone)
    return clock(device) - start, [model for model in models if model is not None]


def measured(name: str, table: Table, chosen: Any, repeat: int, *, stacked: bool) -> Timing:
    """Train the fits of a model in one way."""
    plugin = registry.get(name.partition(",")[0])
    changes = dict(MODELS[name])
    if chosen.epochs:
        changes["max_epochs"] = chosen.epochs
    settings = settings_of(plugin, table, chosen.device, changes, chosen.trials)
    with TemporaryDirectory(prefix="tabapp-stacked-") as folder:
        fits = fits_of(plugin, table, Path(folder), chosen.device, repeat + 1, settings, chosen.folds)
        seconds, models = trained(plugin, fits, chosen.device, stacked=stacked)
    n_rows, n_columns = table.numeric.shape
    timing = Timing(name, n_rows, n_columns, repeat, stacked, len(fits), chosen.epochs, seconds)
    if chosen.trials > 1:
        for fit, model in zip(fits, models, strict=True):
            assert fit.valid.target is not None
            timing.epochs.append(model.summary()["epochs"])
            timing.losses.append(metrics.loss("log_loss", fit.valid.target, model.predict(fit.valid)))
    return timing


def summary(timings: Sequence[Timing]) -> list[list[str]]:
    """A row for each model and table: medians over the repeats; of trials, losses of the first repeat."""
    rows: list[list[str]] = []
    for key in dict.fromkeys((t.model, t.n_rows, t.n_columns, t.n_fits) for t in timings):
        same = [t for t in timings if (t.model, t.n_rows, t.n_columns, t.n_fits) == key]
        alone, stacked = (statistics.median(t.seconds for t in same if t.stacked is way) for way in (False, True))
        row = [
            key[0],
            f"{key[1]:,}",
            str(key[2]),
            str(key[3]),
            f"{alone:.2f}",
            f"{stacked:.2f}",
            f"{stacked / alone:.2f}",
        ]
        first, second = (next(t for t in same if t.stacked is way) for way in (False, True))
        if first.losses:
            both = list(zip(first.losses, second.losses, strict=True))
            means, bests = (
                (statistics.mean(pair) for pair in zip(*both, strict=True)),
                map(min, zip(*both, strict=True)),
            )
            row += [f"{sum(first.epochs):,}", f"{max(first.epochs):,}"]
            row += [" / ".join(f"{value:.4f}" for value in values) for values in (means, bests)]
            row += [f"{max(abs(a - b) for a, b in both):.4f}"]
        rows.append(row)
    return rows


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=tuple(MODELS))
    parser.add_argument("--tables")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folds", type=int, default=N_FOLDS)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    of_trials = chosen.trials > 1
    if not of_trials:
        chosen.epochs = chosen.epochs or N_EPOCHS
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    timings: list[Timing] = []
    for size in (chosen.tables or (TABLES_OF_TRIALS if of_trials else TABLES)).split(","):
        n_rows, n_columns = map(int, size.split("x"))
        for name in chosen.models:
            # The first of each kind also loads libraries.
            few = argparse.Namespace(**{**vars(chosen), "epochs": N_EPOCHS, "trials": min(chosen.trials, 2)})
            for stacked in (False, True):
                measured(name, generated(n_rows, n_columns, 0), few, -1, stacked=stacked)
            for repeat in range(chosen.repeats):
                table = generated(n_rows, n_columns, repeat + 1)
                for stacked in (False, True) if repeat % 2 else (True, False):
                    timings.append(measured(name, table, chosen, repeat, stacked=stacked))
            print("\t".join(summary(timings)[-1]), flush=True)
    device = torch.cuda.get_device_name(chosen.device) if chosen.device.startswith("cuda") else chosen.device
    facts: dict[str, Any] = machine("torch") | {"device": device, "threads": 1}
    header = HEADER + (LOSSES if of_trials else ())
    report(facts, header, summary(timings), [asdict(t) for t in timings], chosen.out, right=range(1, len(header)))


if __name__ == "__main__":
    main(sys.argv[1:])
