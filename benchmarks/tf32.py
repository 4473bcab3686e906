"""Compares networks trained with matrix products in float32 and in TF32, which a CPU emulates here.

    OMP_NUM_THREADS=1 python -m benchmarks.tf32 [MODEL …] [--rows 1000] [--epochs 20] [--repeats 6] [--out FILE]

A GPU rounds the factors of a product to 10 bits after the point and adds in float32; so does the emulation, in training only.
Each repeat is another generated table and seed, on which both ways are trained with the defaults. Reports the log loss on held-out
rows, and the mean difference with its standard error.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.fits import changed
from benchmarks.machine import machine, report
from benchmarks.stacked_fits import N_FOLDS, fits_of, generated, settings_of
from tabapp import metrics
from tabapp.models import registry
from tabapp.nn.layers import linear

MODELS = ("snn", "realmlp")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
HEADER = ("model", "repeats", "float32", "TF32", "difference", "standard error")


@dataclass(frozen=True)
class Loss:
    """Held-out loss of one fit."""

    model: str
    repeat: int
    tf32: bool
    loss: float


def rounded(x: Tensor) -> Tensor:
    """Round float32 to the 10 bits after the point that TF32 has."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


class TF32(TorchDispatchMode):
    """Rounds the factors of matrix products, also of those that compute gradients."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket.__name__ in PRODUCTS:
            factors = [rounded(x) if x.dtype == torch.float32 else x for x in args[-2:]]
            args = *args[:-2], *factors
        return func(*args, **(kwargs or {}))


def loss_of(name: str, repeat: int, n_rows: int, n_epochs: int, *, tf32: bool) -> float:
    """Train a model on most rows of a table and score it on the others."""
    plugin = registry.get(name)
    table = generated(2 * n_rows, 8, repeat)
    learned, held_out = table.take(slice(0, n_rows)), table.take(slice(n_rows, None))
    with TemporaryDirectory(prefix="tabapp-tf32-") as folder:
        settings = settings_of(plugin, learned, "cpu", {}, 1)
        fit = fits_of(plugin, learned, Path(folder), "cpu", repeat, settings, N_FOLDS)[0]
        params = changed(fit.params, {"max_epochs": n_epochs, "epochs": n_epochs, "n_epochs": n_epochs})
        with TF32() if tf32 else nullcontext():
            model = plugin.fit(fit.train, fit.valid, params, fit.context)
        assert held_out.target is not None
        return metrics.loss("log_loss", held_out.target, model.predict(replace(held_out, target=None)))


def summary(losses: Sequence[Loss]) -> list[list[str]]:
    """A row for each model."""
    rows: list[list[str]] = []
    for name in dict.fromkeys(each.model for each in losses):
        exact, coarse = ([x.loss for x in losses if x.model == name and x.tf32 is way] for way in (False, True))
        differences = [b - a for a, b in zip(exact, coarse, strict=True)]
        error = statistics.stdev(differences) / len(differences) ** 0.5
        means = statistics.fmean(exact), statistics.fmean(coarse), statistics.fmean(differences), error
        rows.append([name, str(len(exact)), *(f"{value:.5f}" for value in means)])
    return rows


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    # oneDNN's own operation has no factors that the emulation could round.
    linear.onednn_linear = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    losses: list[Loss] = []
    for name in chosen.models:
        for repeat in range(chosen.repeats):
            for tf32 in (False, True):
                losses.append(Loss(name, repeat, tf32, loss_of(name, repeat, chosen.rows, chosen.epochs, tf32=tf32)))
                print(asdict(losses[-1]), flush=True)
    results = [asdict(each) for each in losses]
    report(machine("torch"), HEADER, summary(losses), results, chosen.out, right=range(1, len(HEADER)))


if __name__ == "__main__":
    main(sys.argv[1:])
