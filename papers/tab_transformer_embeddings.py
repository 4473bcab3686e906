"""What TabTransformer's layers know: Huang et al. 2020, section 3.1, with linear probes, another head, and a map of the embeddings.

python -m papers.tab_transformer_embeddings [--data FOLDER] [--tables adult,bank_marketing] [--seeds 3] [--rows 4000] [--epochs N]
    [--seconds 60] [--device cpu] [--map FILE.svg] [--out FILE.json]

A probe is a logistic regression on the embeddings of the categorical columns after a layer, beside the numbers; layer 0 is before
the Transformer. "trees" is LightGBM on the last layer, a head that is no network. Probe and trees are trained on the training rows
and scored by the AUC of test rows, as a share of the AUC of the network itself. "same column" is the share of the levels in test
rows whose nearest other level, by the mean of their embeddings, belongs to the same column.

--map draws these means after the last layer of the first seed of the first table with t-SNE, as the paper's Figure 2 does.
The paper shows its results as figures, without numbers: the relative score of the probe rises with the layers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from tabapp_plugins.tab_transformer import TabTransformerNetwork

from benchmarks.fits import Prepared, changed, data_folder, fitted, load, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.features.arrays import FIRST_LEVEL, Table
from tabapp.models import registry
from tabapp.nn.plugin import DeepModel, inputs

TABLES = ("adult", "bank_marketing")
N_TEST = 3_000
COLORS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac")
Array = npt.NDArray[np.float64]


def layers_of(network: TabTransformerNetwork, table: Table) -> list[Array]:
    """(rows, tokens, d_token) embeddings before the Transformer and after each of its layers."""
    found: list[Array] = []
    with torch.inference_mode():
        tokens = network.tokens(*inputs(table, torch.device("cpu")))
        if tokens is None:
            raise ValueError("the table has no categorical columns")
        for layer in (None, *network.layers):
            tokens = tokens if layer is None else cast(torch.Tensor, layer(tokens))
            found.append(tokens.double().numpy())
    return found


def flat(tokens: Array, table: Table) -> Array:
    """(rows, features) what a head sees: the embeddings, and the numbers."""
    return np.concatenate([tokens.reshape(len(tokens), -1), table.numeric.astype(np.float64)], axis=1)


def auc(head: Any, train: Array, test: Array, data: Prepared) -> float:
    """The AUC of a classifier of scikit-learn's kind on the test rows."""
    head.fit(train, data.train.target)
    return metrics.score("roc_auc", np.asarray(data.test.target), head.predict_proba(test))


def level_means(tokens: Array, table: Table) -> tuple[Array, list[tuple[int, int]]]:
    """The mean embedding of each level in some rows, and its column and code."""
    tokens = tokens[:, -table.categorical.shape[1] :]
    levels = [
        (j, int(code))
        for j, codes in enumerate(table.categorical.T)
        for code in np.unique(codes)
        if code >= FIRST_LEVEL
    ]
    return np.stack([tokens[table.categorical[:, j] == code, j].mean(axis=0) for j, code in levels]), levels


def same_column(means: Array, levels: list[tuple[int, int]]) -> float:
    """The share of levels whose nearest other level is of their column, of columns with several levels."""
    columns = np.array([column for column, _ in levels])
    distances = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    several = np.bincount(columns)[columns] > 1
    return float((columns[distances.argmin(axis=1)] == columns)[several].mean())


def draw(file: Path, means: Array, levels: list[tuple[int, int]], names: list[str], seed: int) -> None:
    """Write a map of levels by t-SNE as SVG, one color for each column."""
    from sklearn.manifold import TSNE

    perplexity = min(15.0, (len(means) - 1) / 3)
    places = TSNE(perplexity=perplexity, random_state=seed, init="pca").fit_transform(means)
    places = (places - places.min(axis=0)) / np.ptp(places, axis=0)
    dots = "".join(
        f'<circle cx="{20 + 560 * x:.1f}" cy="{20 + 560 * y:.1f}" r="5" fill="{COLORS[column % len(COLORS)]}"/>'
        for (x, y), (column, _) in zip(places.tolist(), levels, strict=True)
    )
    labels = "".join(
        f'<text x="610" y="{30 + 18 * i}" font-family="sans-serif" font-size="13" fill="{COLORS[i % len(COLORS)]}">{name}</text>'
        for i, name in enumerate(names)
    )
    file.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600">{dots}{labels}</svg>\n')


def measured(name: str, seed: int, options: argparse.Namespace, chart: Path | None) -> dict[str, Any]:
    """The AUC of the network, of the probe of each layer, and of trees; the share of `same_column` before and after."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    source, plugin = load(options.data, name), registry.get("tab_transformer")
    data = prepared(source, random_division(source, options.rows, N_TEST, seed), plugin, seed)
    params = plugin.defaults(source.task, data.shape, "cpu")
    params = changed(params, {"max_epochs": options.epochs} if options.epochs else {})
    model = fitted(plugin, data, params, metric="roc_auc", seed=seed, seconds=options.seconds, device=options.device)
    assert isinstance(model, DeepModel)
    assert isinstance(model.network, TabTransformerNetwork)
    model.to("cpu")
    before, after = layers_of(model.network, data.train), layers_of(model.network, data.test)
    both = [(flat(a, data.train), flat(b, data.test)) for a, b in zip(before, after, strict=True)]
    probes = [auc(make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)), a, b, data) for a, b in both]
    trees = LGBMClassifier(n_estimators=200, learning_rate=0.05, random_state=seed, n_jobs=1, verbose=-1)
    (first, levels), (last, _) = (level_means(each, data.test) for each in (after[0], after[-1]))
    if chart is not None:
        draw(chart, last, levels, list(data.spec.categorical), seed)
    return {
        "network": metrics.score("roc_auc", np.asarray(data.test.target), model.predict(data.test)),
        "probes": probes,
        "trees": auc(trees, *both[-1], data),
        "same column": [same_column(first, levels), same_column(last, levels)],
    }


def line(name: str, found: list[dict[str, Any]]) -> list[str]:
    """The line of a table."""
    probes = [spread([each["probes"][i] / each["network"] for each in found]) for i in range(len(found[0]["probes"]))]
    trees = spread([each["trees"] / each["network"] for each in found])
    same = [spread([each["same column"][i] for each in found]) for i in range(2)]
    return [name, str(len(found)), spread([each["network"] for each in found]), *probes, trees, *same]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES), help="tables with two classes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4_000, help="training and early-stopping rows")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--map", type=Path, help="draw the embeddings of the first table and seed")
    parser.add_argument("--out", type=Path, default=RESULTS / "tab_transformer_embeddings.json")
    options = parser.parse_args()
    cells: dict[str, list[dict[str, Any]]] = {}
    for name in options.tables.split(","):
        charts = [options.map if seed == 0 and not cells else None for seed in range(options.seeds)]
        cells[name] = [measured(name, seed, options, chart) for seed, chart in enumerate(charts)]
    rows = [line(name, found) for name, found in cells.items()]
    n_layers = len(next(iter(cells.values()))[0]["probes"])
    probes = [f"probe of layer {i}" for i in range(n_layers)]
    header = ["table", "seeds", "AUC of the network", *probes, "trees", "same column before", "same column after"]
    facts = machine("torch", "lightgbm", "scikit-learn") | {"rows": options.rows, "seconds of one fit": options.seconds}
    report(facts, header, rows, {"cells": cells}, options.out, right=range(1, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
