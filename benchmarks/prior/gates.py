"""Gates of a prior-fitted network on a CPU: does it learn from context, and how long does a prediction take?

python -m benchmarks.prior.gates [--network FILE.safetensors] [--tables 200] [--threads 2] [--out FILE.json]

The network in one permutation, k nearest neighbors (15, by distance, on the cells as the network sees them) and the shares of the
classes predict query rows of unseen synthetic tables with 96 to 192 context rows and 2 to 24 columns. The table gives log loss
and accuracy with standard errors over tables, and the part of the tables on which the network has a lower log loss. The seconds
are those of a prediction of 1,000 rows by 1,000 context rows of 20 columns in one permutation on --threads threads, the shortest
of five. The processor time of all threads, the median of five, hardly changes with other work on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from tabapp_plugins.prior_fitted.network import encode
from tabapp_plugins.prior_fitted.reading import Predictor

from benchmarks.machine import RESULTS, machine, report
from benchmarks.prior.draws import Draws
from benchmarks.prior.state import SHIPPED
from benchmarks.prior.tables import make_tables

SEED = 2_000_003
SHAPES = ((128, 2), (128, 8), (256, 4), (256, 12), (256, 24))
CONTEXT = 0.75
SMALLEST = 1e-3
"""Smallest probability that counts, for all three."""

Floats = NDArray[np.float64]


def scores_on_tables(predictor: Predictor, n_tables: int) -> dict[str, Floats]:
    """(tables, 2) log loss and accuracy of each predictor."""
    found: dict[str, list[tuple[float, float]]] = {"network": [], "nearest neighbors": [], "class shares": []}
    for i, (n_rows, n_columns) in enumerate(SHAPES):
        tables = make_tables(n_tables // len(SHAPES), n_rows, n_columns, Draws(SEED + i))
        n_context = int(n_rows * CONTEXT)
        cells = encode(tables.values, tables.categorical, n_context)
        for j, all_labels in enumerate(tables.labels.numpy()):
            labels, truth = all_labels[:n_context], all_labels[n_context:]
            n_classes = int(all_labels.max()) + 1
            values = tables.values[j].double().numpy()
            probabilities = predictor.predict(
                values[:n_context],
                tables.categorical[j].numpy(),
                labels,
                values[n_context:],
                n_classes=n_classes,
                seed=j,
            )
            found["network"].append(_scores(probabilities, truth))
            seen = cells[j].flatten(1).double().numpy()
            found["nearest neighbors"].append(_scores(_neighbors(seen, labels, n_classes), truth))
            shares = np.bincount(labels, minlength=n_classes) / n_context
            found["class shares"].append(_scores(np.tile(shares, (len(truth), 1)), truth))
    return {name: np.array(values) for name, values in found.items()}


def _neighbors(cells: Floats, labels: NDArray[np.int64], n_classes: int) -> Floats:
    model = KNeighborsClassifier(15, weights="distance").fit(cells[: len(labels)], labels)
    probabilities = np.zeros((len(cells) - len(labels), n_classes))
    probabilities[:, model.classes_] = model.predict_proba(cells[len(labels) :])
    return probabilities


def _scores(probabilities: Floats, truth: NDArray[np.int64]) -> tuple[float, float]:
    clipped = np.clip(probabilities, SMALLEST, None)
    clipped /= clipped.sum(1, keepdims=True)
    log_loss = -np.log(clipped[np.arange(len(truth)), truth]).mean()
    return float(log_loss), float((probabilities.argmax(1) == truth).mean())


def seconds_of_prediction(predictor: Predictor, repeats: int = 5) -> tuple[float, float]:
    """Shortest seconds, and median processor seconds, for 1,000 rows by 1,000 context rows of 20 columns in one permutation."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(2_000, 20)), rng.integers(0, 2, 1_000)
    one, seconds, busy = Predictor(predictor.network, 1), list[float](), list[float]()
    for _ in range(repeats + 1):
        began, busy_before = time.perf_counter(), time.process_time()
        one.predict(rows[:1_000], np.zeros(20, bool), labels, rows[1_000:], n_classes=2, seed=0)
        seconds.append(time.perf_counter() - began)
        busy.append(time.process_time() - busy_before)
    return min(seconds[1:]), statistics.median(busy[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=Path, default=SHIPPED)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "prior_gates.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    predictor = Predictor.load(options.network, permutations=1)
    scores = scores_on_tables(predictor, options.tables)
    seconds, busy = seconds_of_prediction(predictor)
    network, rows = scores["network"], list[list[str]]()
    for name, values in scores.items():
        mean, error = values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))
        better = f"{(network[:, 0] < values[:, 0]).mean():.0%}" if name != "network" else ""
        taken = [f"{seconds:.2f}", f"{busy:.2f}"] if name == "network" else ["", ""]
        rows.append([name, f"{mean[0]:.3f} ± {error[0]:.3f}", f"{mean[1]:.3f} ± {error[1]:.3f}", better, *taken])
    header = ["Predictor", "Log loss", "Accuracy", "Network better", "Seconds", "Processor seconds"]
    results = {
        "seconds": seconds,
        "processor_seconds": busy,
        "scores": {name: values.round(4).tolist() for name, values in scores.items()},
    }
    report(machine("torch") | {"threads": options.threads}, header, rows, results, options.out, right=(1, 2, 3, 4, 5))
    return 0


if __name__ == "__main__":
    sys.exit(main())
