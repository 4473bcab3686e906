"""AMFormer's streams, prompts, layers and top-k, beside the networks that it is built on: Tables 2, 3 and 5 and Figures 3 to 5 of
Cheng et al. 2024.

python -m papers.amformer_ablations [--data FOLDER] [--tables a,b] [--parts models,streams,prompts,layers,top_k] [--seeds 3]
    [--rows 3000] [--steps 1000] [--d-token 32] [--seconds 120] [--device cpu] [--full] [--line TITLE …] [--total-seconds N]
    [--processes 1] [--out FILE.json]

models   AMF-F and AMF-A beside XGBoost, DCN V2, DCAP, AutoInt and FT-Transformer with default hyperparameters (Table 2)
streams  sums, products or both, with and without prompts, in both backbones (Table 3). Sums without prompts are full
         self-attention, as in the backbones; products without prompts are hard attention among features (section 4.1)
prompts  number of prompts in the first layer; each layer has half of the previous one's (Table 5)
layers   number of layers (Figures 3a and 4)
top_k    number of features that a query combines (Figures 3b and 5)

Of the paper's four tables, Covertype (CO) is a public file here. "products" is a table of the paper's synthetic kind: 16 classes
of a sum of products of eight features (section 3), made from each seed. Of each table, --rows are for training and early
stopping; accuracy is of 2,000 other rows, or of a fifth of all rows with --full. A seed draws rows and weights; "p" is of the
one-sided Wilcoxon signed-rank test over seeds that a line is worse than the first line of its part, from five seeds on. Epochs are
as many as --steps steps need.

--full is for a GPU: all rows, the paper's sizes, 15 seeds. Every fit is recorded in --out as soon as it ends, and the same command
continues after --total-seconds. Training ends shortly before them with the best weights so far, and the page says after how many
epochs: those of all of Covertype would not fit into one call. --line limits a call to some lines.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.fits import Source, changed, data_folder, fitted, load, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report, write_results
from benchmarks.performance.resuming import Job, add_call_options, earlier_results, run_cells
from papers.arithmetic import Case, make_data
from papers.npt.ablations import p_value
from tabapp import metrics
from tabapp.data.infer import infer_schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.models import registry
from tabapp.nn.training.objective import target_of
from tabapp.nn.training.trainer import batch_size_for

PRODUCTS, N_CLASSES = "products", 16
TABLES = (PRODUCTS, "covertype")
N_TEST = 2_000
LAST_SECONDS = 20.0
"""Of a call, for the last epoch and the predictions of fits in flight."""
LEAST_SHARE = 0.5
"""Of the time of a call, that a fit had which ended with it; fits that started later are not recorded."""
AMF_F: dict[str, Any] = {}
AMF_A: dict[str, Any] = {"backbone": "autoint"}
STREAMS: dict[str, dict[str, Any]] = {
    "sums and products, prompts": {"prompts": "both"},
    "sums": {"prompts": "multiplicative", "streams": "additive"},
    "sums, prompts": {"prompts": "both", "streams": "additive"},
    "products": {"prompts": "none", "streams": "multiplicative"},
    "products, prompts": {"prompts": "both", "streams": "multiplicative"},
    "sums and products": {"prompts": "none"},
    "sums and products, prompts for products (tabapp)": {"prompts": "multiplicative"},
}
PAPER_STREAMS = {
    "ft_transformer": (
        "89.83, 0.5557",
        "89.05, 0.5717",
        "89.80, 0.5633",
        "50.05, 0.5624",
        "50.05, 0.5605",
        "89.58, 0.5585",
    ),
    "autoint": ("89.71, 0.5606", "88.48, 0.5864", "89.61, 0.5638", "89.53, 0.5748", "89.65, 0.5631", "89.55, 0.5639"),
}
"""Table 3: accuracy of Epsilon in percent, and MSE of Microsoft, in the order of STREAMS."""
PAPER_MODELS = {
    "AMF-F": 97.26,
    "AMF-A": 97.36,
    "xgboost": 96.72,
    "dcn_v2": 90.78,
    "dcap": 96.21,
    "autoint": 92.40,
    "ft_transformer": 96.60,
}
"""Table 2: accuracy of Covertype in percent, all rows."""
PAPER_PROMPTS = {32: 89.75, 64: 89.79, 128: 89.77, 256: 89.81, 512: 89.83, 1024: 89.76}
"""Table 5: accuracy of Epsilon, which has 2,000 features."""
PAPER_LAYERS = "best: 3 (EP, MI, HC), 6 (CO)"
PAPER_TOP_K = "best: 8 (EP, CO, MI), 6 (HC)"


def parts(n_features: int) -> dict[str, dict[str, tuple[str, dict[str, Any], str]]]:
    """For each part its lines: plugin, changes of its defaults, and the published figure. The first line is the reference."""
    models: dict[str, tuple[str, dict[str, Any], str]] = {
        "AMF-F": ("amformer", AMF_F, f"{PAPER_MODELS['AMF-F']} (CO)"),
        "AMF-A": ("amformer", AMF_A, f"{PAPER_MODELS['AMF-A']} (CO)"),
    }
    models |= {
        registry.get(name).title: (name, {}, f"{value} (CO)")
        for name, value in PAPER_MODELS.items()
        if "AMF" not in name
    }
    streams = {
        f"{'AMF-F' if backbone == 'ft_transformer' else 'AMF-A'}: {title}": (
            "amformer",
            {"backbone": backbone, **changes},
            f"{paper[i]} (EP, MI)" if i < len(paper) else "—",
        )
        for backbone, paper in PAPER_STREAMS.items()
        for i, (title, changes) in enumerate(STREAMS.items())
    }
    tokens = n_features + 1
    numbers = sorted(
        {tokens, *(max(1, round(tokens * share)) for share in (0.25, 0.5, 2.0))}, key=lambda n: (n != tokens, n)
    )
    prompts = {
        f"{n} prompts for {tokens} tokens": (
            "amformer",
            {"prompts": "both", "n_prompts": n},
            "saturates at 256 of 2,001 (EP)",
        )
        for n in numbers
    }
    layers = {f"layers: {n}": ("amformer", {"n_layers": n}, PAPER_LAYERS) for n in (3, 1, 2, 4, 6)}
    top_k = {f"top k: {k}": ("amformer", {"top_k": k}, PAPER_TOP_K) for k in (8, 2, 4, 6, 10)}
    return {"models": models, "streams": streams, "prompts": prompts, "layers": layers, "top_k": top_k}


@cache
def products(n_rows: int, seed: int) -> Source:
    """A table of the paper's synthetic kind."""
    case = Case("classes", "amformer", N_CLASSES, 1.0, seed, seed, n_rows, 0, 0, 0.0)
    data = make_data(case)
    x, y = np.concatenate([data.train, data.test]), np.concatenate([data.train_target, data.test_target])
    columns: dict[str, Any] = {f"x{i}": x[:, i].astype(str) for i in range(x.shape[1])}
    text = pl.DataFrame({**columns, "class": [f"c{label}" for label in y]})
    schema = infer_schema(text, target="class", task="multiclass")
    frame = typed_frame(text, schema)
    return Source(frame, schema, encode_target(frame, schema))


def source_of(name: str, seed: int, options: argparse.Namespace) -> Source:
    """A table; the made one is of a size that leaves the test rows."""
    if name == PRODUCTS:
        return products(200_000 if options.full else options.rows + N_TEST, seed)
    return load(options.data, name)


def accuracy(
    name: str, line: tuple[str, dict[str, Any], str], seed: int, options: argparse.Namespace, deadline: float
) -> Iterator[dict[str, Any]]:
    """Yields the test accuracy of one line for one seed, with its epochs and whether they ended with the time.

    Args:
        deadline: `time.monotonic()` value at which training ends.
    """
    model, changes, _ = line
    source, plugin = source_of(name, seed, options), registry.get(model)
    n_rows, n_test = (len(source), len(source) // 5) if options.full else (options.rows, N_TEST)
    data = prepared(source, random_division(source, n_rows, n_test, seed), plugin, seed)
    params = plugin.defaults(source.task, data.shape, "cuda:0" if options.full else "cpu")
    if not options.full and plugin.family == "deep":
        n_steps = -(-len(data.train) // batch_size_for(len(data.train)))
        size = {"d_token": options.d_token, "n_layers": 3, "max_epochs": max(1, options.steps // n_steps)}
        params = changed(
            params,
            size if model in ("amformer", "ft_transformer", "autoint") else {"max_epochs": size["max_epochs"]},
        )
    began = time.monotonic()
    found = fitted(
        plugin,
        data,
        changed(params, changes),
        metric="accuracy",
        seed=seed,
        seconds=options.seconds,
        device=options.device,
        deadline=deadline if math.isfinite(deadline) else None,
    )
    ended = time.monotonic()
    is_cut = ended >= deadline
    if is_cut and ended - began < LEAST_SHARE * options.total_seconds:
        return
    yield {
        "accuracy": metrics.score("accuracy", target_of(data.test), found.predict(data.test)),
        "epochs": found.summary().get("epochs"),
        "cut": is_cut,
        "train_rows": len(data.train),
        "seconds": round(ended - began, 1),
    }


def lines(name: str, part: str, cells: dict[str, Any], options: argparse.Namespace) -> list[list[str]]:
    """The lines of one part; those without a finished seed are left out."""
    known = parts(len(source_of(name, 0, options).schema.features))[part]
    found = {
        title: {seed: cells[key] for seed in range(options.seeds) if (key := key_of(name, part, title, seed)) in cells}
        for title in known
    }
    found = {title: by_seed for title, by_seed in found.items() if by_seed}
    rows: list[list[str]] = []
    for title, by_seed in found.items():
        first = next(iter(found.values()))
        both = sorted(by_seed.keys() & first.keys())
        values, reference = ([each[seed]["accuracy"] for seed in both] for each in (by_seed, first))
        p = p_value(values, reference, lower_is_better=False)
        epochs = [cell["epochs"] for cell in by_seed.values() if cell["epochs"] is not None]
        trained = f"{sum(epochs) / len(epochs):.0f}" if epochs else "—"
        trained += ", cut" if any(cell["cut"] for cell in by_seed.values()) else ""
        size = f"{next(iter(by_seed.values()))['train_rows']:,} rows"
        row = [name, part, title, size, str(len(by_seed)), trained]
        row += [spread([cell["accuracy"] for cell in by_seed.values()])]
        rows.append([*row, "—" if p is None else f"{p:.3f}", known[title][2]])
    return rows


def key_of(name: str, part: str, title: str, seed: int) -> str:
    """The key of a result."""
    return f"{name}/{part}/{title}/{seed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--parts", default="models,streams,prompts,layers,top_k")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--d-token", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--line", action="append", default=[], help="title of a line; all of them by default")
    parser.add_argument("--out", type=Path)
    add_call_options(parser)
    options = parser.parse_args()
    if options.full:
        options.seeds, options.seconds = 15, 7200.0
    options.out = options.out or RESULTS / f"amformer_ablations{'_full' if options.full else ''}.json"
    sizes = (
        {"rows": "all"} if options.full else {"rows": options.rows, "steps": options.steps, "d_token": options.d_token}
    )
    settings = sizes | {"seconds of one fit": options.seconds}
    cells: dict[str, Any] = earlier_results(options.out, settings).get("cells", {})
    names, wanted = options.tables.split(","), options.parts.split(",")
    deadline = time.monotonic() + options.total_seconds - LAST_SECONDS
    known = {name: parts(len(source_of(name, 0, options).schema.features)) for name in names}
    jobs = [
        Job(key_of(name, part, title, seed), accuracy, (name, line, seed, options, deadline))
        for seed in range(options.seeds)
        for name in names
        for part in wanted
        for title, line in known[name][part].items()
        if not options.line or title in options.line
    ]
    facts = machine("torch", *(["xgboost"] if "models" in wanted else [])) | {"device": options.device, **sizes}
    header = ["table", "part", "line", "size", "seeds", "epochs", "accuracy", "p, worse than first", "paper"]
    right = (4, 5, 6, 7)

    def content() -> tuple[list[list[str]], dict[str, Any]]:
        rows = [line for name in names for part in wanted for line in lines(name, part, cells, options)]
        return rows, {"settings": settings, "cells": dict(sorted(cells.items()))}

    run_cells(
        jobs,
        cells,
        lambda: write_results(options.out, facts, header, *content(), right),
        processes=options.processes,
        seconds=options.total_seconds,
        preload=["papers.arithmetic", "benchmarks.fits", "tabapp_plugins.amformer"],
    )
    report(facts, header, *content(), options.out, right=right)
    return 0


if __name__ == "__main__":
    sys.exit(main())
