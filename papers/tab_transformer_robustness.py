"""TabTransformer and an MLP on noisy and missing cells: Huang et al. 2020, section 3.2.

python -m papers.tab_transformer_robustness [--data FOLDER] [--tables adult,bank_marketing] [--models a,b] [--seeds 3]
    [--rows 4000] [--shares 0,0.1,…] [--epochs N] [--hidden-rate 0] [--seconds 60] [--device cpu] [--full] [--total-seconds N]
    [--processes 1] [--out FILE.json]

Networks are trained on clean rows. In test rows, a share of the cells of categorical columns is damaged, as in the paper: "noisy"
cells have the value of another row, "missing" cells are replaced, before attention, by the mean embedding of the column's levels.
"own" is tabapp's way for missing cells: an embedding of their own, trained on the missing cells of the training rows, if there
are any. A line has the AUC at each share divided by that of clean test rows, mean and standard deviation over seeds, which draw
rows, weights and damage.

The paper shows curves of three of its tables and no numbers: TabTransformer is more robust than the MLP as the share of damaged
cells grows. With --hidden-rate, training hides cells at random, which the paper does not do. --full is for a GPU: all rows, the
paper's sizes, 5 seeds.

Every fit is recorded in --out as soon as it ends. After --total-seconds, fits in flight are given up; the same command continues
with them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tabapp_plugins.tab_transformer import ColumnTokenizer
from torch import Tensor, nn

from benchmarks.fits import changed, data_folder, fitted, load, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report, write_results
from benchmarks.performance.resuming import Job, add_call_options, earlier_results, run_cells
from tabapp import metrics
from tabapp.explain.robustness import Damage, damaged
from tabapp.features.arrays import FIRST_LEVEL, MISSING
from tabapp.models import registry
from tabapp.models.contract import FittedModel
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.plugin import DeepModel

TABLES = ("adult", "bank_marketing")
MODELS = ("tab_transformer", "mlp")
N_TEST = 3_000
KINDS: dict[str, Damage] = {"noisy": "noisy", "missing": "missing", "missing, own": "missing"}
PAPER = {"tab_transformer": "more robust", "mlp": "less robust"}


def average_missing(model: FittedModel, cardinalities: tuple[int, ...]) -> None:
    """Replace the embedding of missing cells by the mean over the levels of each column.

    Raises:
        TypeError: the network has no embeddings that are known here.
    """
    assert isinstance(model, DeepModel)
    with torch.no_grad():
        for table in _embeddings(model.network, cardinalities):
            if len(table) > FIRST_LEVEL:
                table[MISSING] = table[FIRST_LEVEL:].mean(dim=0)


def _embeddings(network: nn.Module, cardinalities: tuple[int, ...]) -> list[Tensor]:
    """The embeddings of each categorical column by code, as views of the weights."""
    tokenizer, flat = getattr(network, "tokenizer", None), getattr(network, "input", None)
    if isinstance(tokenizer, ColumnTokenizer):
        return list(tokenizer.level.split(list(cardinalities)))
    if isinstance(flat, FlatInput):
        return [embedding.weight for embedding in flat.embeddings if isinstance(embedding, nn.Embedding)]
    raise TypeError(f"{type(network).__name__} has no embeddings of categorical columns")


def scores(name: str, model: str, seed: int, options: argparse.Namespace) -> Iterator[dict[str, list[float]]]:
    """Yields the AUC at each share, for each kind of damage."""
    source, plugin = load(options.data, name), registry.get(model)
    columns = [column.name for column in source.schema.features if column.kind in ("categorical", "boolean")]
    n_rows, n_test = (len(source), len(source) // 5) if options.full else (options.rows, N_TEST)
    division = random_division(source, n_rows, n_test, seed)
    data = prepared(source, division, plugin, seed)
    params = plugin.defaults(source.task, data.shape, "cuda:0" if options.full else "cpu")
    params = changed(params, {"max_epochs": options.epochs} if options.epochs else {})
    params = changed(params, {"hidden_rate": options.hidden_rate})
    trained = fitted(plugin, data, params, metric="roc_auc", seed=seed, seconds=options.seconds, device=options.device)
    frame, truth = source.frame[division.test.tolist()], source.target[division.test]
    found: dict[str, list[float]] = {}
    # The embeddings of missing cells are replaced once "missing, own" has been measured.
    for kind in sorted(KINDS, key=lambda kind: kind == "missing"):
        if kind == "missing":
            average_missing(trained, data.spec.cardinalities)
        tables = [data.preparer.transform(damaged(frame, columns, s, KINDS[kind], seed)) for s in options.shares]
        found[kind] = [metrics.score("roc_auc", truth, trained.predict(table)) for table in tables]
    yield found


def lines(name: str, models: Sequence[str], cells: dict[str, Any], options: argparse.Namespace) -> list[list[str]]:
    """The lines of one table; models without a finished seed are left out."""
    rows: list[list[str]] = []
    for kind in KINDS:
        for model in models:
            curves = [cells[key][kind] for seed in range(options.seeds) if (key := f"{name}/{model}/{seed}") in cells]
            if curves:
                clean = spread([curve[0] for curve in curves])
                relative = [spread([c[i] / c[0] for c in curves]) for i in range(1, len(options.shares))]
                title = registry.get(model).title
                rows.append([name, kind, title, str(len(curves)), clean, *relative, PAPER.get(model, "—")])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4_000, help="training and early-stopping rows")
    parser.add_argument(
        "--shares", type=lambda text: [float(part) for part in text.split(",")], default="0,0.1,0.2,0.3,0.5"
    )
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--hidden-rate", type=float, default=0.0, help="share of the cells that are hidden in training")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path)
    add_call_options(parser)
    options = parser.parse_args()
    if options.full:
        options.seeds, options.seconds = 5, 7200.0
    if not options.shares or options.shares[0]:
        parser.error("--shares has to begin with 0, the clean rows")
    options.out = options.out or RESULTS / f"tab_transformer_robustness{'_full' if options.full else ''}.json"
    names: list[str] = options.tables.split(",")
    models: list[str] = options.models.split(",")
    settings = {"rows": "all" if options.full else options.rows, "epochs": options.epochs, "shares": options.shares}
    settings |= {"hidden rate": options.hidden_rate, "seconds of one fit": options.seconds}
    cells: dict[str, Any] = earlier_results(options.out, settings).get("cells", {})
    jobs = [
        Job(f"{name}/{model}/{seed}", scores, (name, model, seed, options))
        for seed in range(options.seeds)
        for name in names
        for model in models
    ]
    facts = machine("torch") | {"device": options.device, "seconds of one fit": options.seconds}
    facts |= {"rows": settings["rows"], "settings": "paper" if options.full else "cpu"}
    shown = [f"relative at {share:.0%}" for share in options.shares[1:]]
    header = ["table", "cells", "model", "seeds", "AUC of clean rows", *shown, "paper"]
    right = range(3, 5 + len(shown))

    def content() -> tuple[list[list[str]], dict[str, Any]]:
        rows = [line for name in names for line in lines(name, models, cells, options)]
        return rows, {"settings": settings, "cells": dict(sorted(cells.items()))}

    run_cells(
        jobs,
        cells,
        lambda: write_results(options.out, facts, header, *content(), right),
        processes=options.processes,
        seconds=options.total_seconds,
        preload=["benchmarks.fits", "tabapp_plugins.tab_transformer"],
    )
    report(facts, header, *content(), options.out, right=right)
    return 0


if __name__ == "__main__":
    sys.exit(main())
