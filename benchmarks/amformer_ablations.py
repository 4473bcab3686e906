"""AMFormer's streams, prompts, layers and top-k, beside the networks that it is built on: Tables 2, 3 and 5 and Figures 3 to 5 of
Cheng et al. 2024.

python -m benchmarks.amformer_ablations [--data FOLDER] [--tables a,b] [--parts models,streams,prompts,layers,top_k] [--seeds 3]
    [--rows 3000] [--steps 1000] [--d-token 32] [--seconds 120] [--device cpu] [--full] [--keep FOLDER] [--out FILE.json]

models   AMF-F and AMF-A beside XGBoost, DCN V2, DCAP, AutoInt and FT-Transformer with default hyperparameters (Table 2)
streams  sums, products or both, with and without prompts, in both backbones (Table 3). Sums without prompts are full
         self-attention, as in the backbones; products without prompts are hard attention among features (section 4.1)
prompts  number of prompts in the first layer; each layer has half of the previous one's (Table 5)
layers   number of layers (Figures 3a and 4)
top_k    number of features that a query combines (Figures 3b and 5)

Of the paper's four tables, Covertype (CO) is a public file here. "products" is a table of the paper's synthetic kind: 16 classes
of a sum of products of eight features (section 3), made from each seed. Of each table, --rows are for training and early
stopping; accuracy is of 2,000 other rows, or of a fifth of all rows with --full. A seed draws rows and weights; "p" is of the
one-sided Wilcoxon signed-rank test over seeds that a line is worse than the first line of its part, from five seeds on. --full is
for a GPU: all rows, the paper's sizes, 15 seeds. Epochs are as many as --steps steps need.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.arithmetic import Case, make_data
from benchmarks.fits import Source, changed, data_folder, fitted, kept, load, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report
from benchmarks.npt_ablations import p_value
from tabapp import metrics
from tabapp.data.infer import infer_schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.models import registry
from tabapp.nn.objective import target_of
from tabapp.nn.trainer import batch_size_for

PRODUCTS, N_CLASSES = "products", 16
TABLES = (PRODUCTS, "covertype")
N_TEST = 2_000
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


def accuracy(name: str, line: tuple[str, dict[str, Any], str], seed: int, options: argparse.Namespace) -> float:
    """The test accuracy of one line for one seed."""
    model, changes, _ = line
    source, plugin = source_of(name, seed, options), registry.get(model)

    def compute() -> npt.NDArray[Any]:
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
        found = fitted(
            plugin,
            data,
            changed(params, changes),
            metric="accuracy",
            seed=seed,
            seconds=options.seconds,
            device=options.device,
        )
        value = metrics.score("accuracy", target_of(data.test), found.predict(data.test))
        print(f"{name} {model} {changes} seed {seed}: {value:.4f}", file=sys.stderr, flush=True)
        return np.array(value)

    shown = "-".join(f"{key}={value}" for key, value in changes.items()) or "default"
    size = "full" if options.full else f"{options.rows}-{options.steps}-{options.d_token}-{options.seconds:g}"
    return float(kept(options.keep, f"{name}/{model}/{shown}/{size}/{seed}", compute))


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
    parser.add_argument("--keep", type=Path, default=Path("build/benchmarks/amformer_ablations"))
    parser.add_argument("--out", type=Path, default=RESULTS / "amformer_ablations.json")
    options = parser.parse_args()
    if options.full:
        options.seeds, options.seconds = 15, 7200.0
    results: dict[str, dict[str, dict[str, list[float]]]] = {}
    rows: list[list[str]] = []
    for name in options.tables.split(","):
        known = parts(len(source_of(name, 0, options).schema.features))
        for part in options.parts.split(","):
            found = {
                title: [accuracy(name, line, seed, options) for seed in range(options.seeds)]
                for title, line in known[part].items()
            }
            results.setdefault(name, {})[part] = found
            first = next(iter(found.values()))
            for title, values in found.items():
                p = p_value(values, first, lower_is_better=False)
                rows.append(
                    [name, part, title, spread(values), "—" if p is None else f"{p:.3f}", known[part][title][2]]
                )
    facts = machine("torch", "xgboost") | {"seeds": options.seeds, "device": options.device}
    if options.full:
        facts |= {"rows": "all", "settings": "paper"}
    else:
        facts |= {"rows": options.rows, "steps": options.steps, "d_token": options.d_token}
    header = ["table", "part", "line", "accuracy", "p, worse than first", "paper"]
    report(facts, header, rows, results, options.out, right=(3, 4))
    return 0


if __name__ == "__main__":
    sys.exit(main())
