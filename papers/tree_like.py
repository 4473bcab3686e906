"""Networks and trees on targets between network-like and tree-like (Gorishniy et al. 2021, section 4.1 and supplement E.1).

python -m papers.tree_like [--rows 8000] [--features 20] [--alphas 0,0.25,0.5,0.75,1] [--minutes 1.5] [--seeds 1]
                               [--settings cpu|paper] [--device cpu] [--full] [--out FILE.json]

x ~ N(0, I); only the first half of the features is informative. f_network is a random MLP of three layers of 256
(weights Kaiming-normal, biases uniform), f_trees the mean of 30 random trees of depth up to 10 whose features,
thresholds and leaves are random. Both are standardized on the training rows; the target is alpha · f_trees + (1 -
alpha) · f_network, standardized again. FT-Transformer, ResNet and CatBoost learn it. The paper has 500,000 rows and
100 features, and finds ResNet as good as FT-Transformer at 0 and far behind it at 1, where CatBoost is best.

NOTE[DIFF]: the paper does not standardize the two parts before they are mixed, so that another alpha is half of each.
Every seed draws new rows and functions, and ResNet is tabapp's default.

--settings paper is that of the paper: the parts are mixed as they are, the seeds of one draw differ in training only, and
ResNet has four blocks of width 256 (supplement E.1; 820,000 weights). --full is this with the paper's size and five seeds,
for a GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.fits import spread
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Params, Plugin, Shape

Floats = npt.NDArray[np.float64]
MODELS = ("ft_transformer", "resnet", "catboost")
RESNET: dict[str, Any] = {
    "n_layers": 4,
    "width": 256,
    "hidden_factor": 1.5,
    "hidden_dropout": 0.5,
    "residual_dropout": 0.0,
}
"""That of supplement E.1. The hidden size is not given; with 384 units, the network has the 820,000 weights that are."""
N_TREES, MOST_NODES, MOST_DEPTH = 30, 100, 10


def network_target(x: Floats, generator: np.random.Generator) -> Floats:
    """(rows,) output of a random MLP."""
    values = x
    for width in (256, 256, 256, 1):
        d_in = values.shape[1]
        weight = generator.normal(size=(d_in, width)) * np.sqrt(2 / d_in)
        bias = generator.uniform(-(d_in**-0.5), d_in**-0.5, width)
        values = values @ weight + bias
        if width > 1:
            values = np.maximum(values, 0)
    return values[:, 0]


def tree_target(x: Floats, generator: np.random.Generator) -> Floats:
    """(rows,) mean output of random trees: the next leaf to split is drawn at random until a tree is complete."""
    total = np.zeros(len(x))
    for _ in range(N_TREES):
        leaf = np.zeros(len(x), dtype=np.int64)
        depths, n_nodes = {0: 0}, 1
        while n_nodes < MOST_NODES and (open_leaves := [node for node, d in depths.items() if d < MOST_DEPTH]):
            node = int(generator.choice(open_leaves))
            feature, threshold = int(generator.integers(x.shape[1])), generator.normal()
            left, right = 2 * n_nodes - 1 + 10_000, 2 * n_nodes + 10_000
            depth = depths.pop(node) + 1
            depths |= {left: depth, right: depth}
            here = leaf == node
            leaf[here] = np.where(x[here, feature] < threshold, left, right)
            n_nodes += 2
        values = {node: generator.normal() for node in depths}
        nodes, which = np.unique(leaf, return_inverse=True)
        total += np.array([values[int(node)] for node in nodes])[which]
    return total / N_TREES


def standardized(values: Floats, training: slice) -> Floats:
    """By the mean and standard deviation of the training rows."""
    return (values - values[training].mean()) / values[training].std()


def targets_of(
    x: Floats, alphas: list[float], training: slice, generator: np.random.Generator, settings: str
) -> list[Floats]:
    """The target of each alpha."""
    informative = x[:, : x.shape[1] // 2]
    parts = network_target(informative, generator), tree_target(informative, generator)
    network, trees = parts if settings == "paper" else (standardized(part, training) for part in parts)
    return [standardized(alpha * trees + (1 - alpha) * network, training) for alpha in alphas]


def model_of(name: str, shape: Shape, settings: str) -> tuple[Plugin, Params]:
    """A model and its hyperparameters."""
    if settings == "cpu":
        plugin = registry.get(name)
        return plugin, plugin.defaults("regression", shape, "cpu")
    plugin = registry.get("resnet:paper" if name == "resnet" else name)
    params = plugin.defaults("regression", shape, "cuda:0")
    return plugin, msgspec.structs.replace(params, **RESNET) if name == "resnet" else params


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000, help="training rows; a tenth to stop by, a fifth to score")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--alphas", default="0,0.25,0.5,0.75,1")
    parser.add_argument("--minutes", type=float, default=1.5, help="for each fit")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--settings", choices=["cpu", "paper"], default="cpu")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "tree_like.json")
    options = parser.parse_args()
    if options.full:
        options.rows, options.features, options.settings, options.minutes = 500_000, 100, "paper", 120.0
        options.seeds = 5
    alphas = [float(a) for a in options.alphas.split(",")]
    n_valid, n_test = max(1_000, options.rows // 10), max(2_000, options.rows // 5)
    n_all = options.rows + n_valid + n_test
    training = slice(0, options.rows)
    names = tuple(f"x{i}" for i in range(options.features))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    shape = Shape(options.rows, options.features, 0, 1)
    scores: dict[float, dict[str, list[float]]] = {a: {name: [] for name in MODELS} for a in alphas}
    for seed in range(options.seeds):
        generator = np.random.default_rng(0 if options.settings == "paper" else seed)
        x = generator.normal(size=(n_all, options.features))
        for alpha, y in zip(alphas, targets_of(x, alphas, training, generator, options.settings), strict=True):
            table = Table(x.astype(np.float32), np.zeros((n_all, 0), np.int32), y)
            parts = (
                table.take(training),
                table.take(slice(options.rows, options.rows + n_valid)),
                table.take(slice(options.rows + n_valid, None)),
            )
            for name in MODELS:
                plugin, params = model_of(name, shape, options.settings)
                with TemporaryDirectory() as folder:
                    context = FitContext(
                        task="regression",
                        n_classes=1,
                        metric="rmse",
                        features=spec,
                        seed=seed,
                        device=options.device if plugin.family == "deep" else "cpu",
                        n_threads=int(os.environ.get("OMP_NUM_THREADS", "1")),
                        folder=Path(folder),
                        soft_deadline=time.monotonic() + 60 * options.minutes,
                    )
                    model = plugin.fit(parts[0], parts[1], params, context)
                rmse = metrics.score("rmse", parts[2].target, model.predict(parts[2]))
                scores[alpha][name].append(rmse)
                print(f"alpha {alpha:g}, {name}, seed {seed}: RMSE {rmse:.4f}", flush=True)
    rows = [[f"{alpha:g}", *(spread(scores[alpha][name], 4) for name in MODELS)] for alpha in alphas]
    facts = machine("torch", "catboost") | {"rows": options.rows, "features": options.features, "seeds": options.seeds}
    report(facts, ["alpha", *MODELS], rows, scores, options.out, (1, 2, 3))


if __name__ == "__main__":
    main()
