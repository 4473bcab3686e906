"""Boosters on a GPU and on the processor: seconds of a fixed number of trees, and the scores of both on public tables.

    python -m benchmarks.gpu.boosters_on_gpu [MODEL …] [--sizes 200000x50,…] [--trees 200] [--repeats 1] [--threads 8]
                                         [--device cuda:0] [--seconds 120] [--agreement] [--data FOLDER] [--out FILE]

Speed: each model trains on generated tables through `Plugin.fit`, with early-stopping rows but without stopping: XGBoost with trees
of depth 8, CatBoost with depth 6. Both devices take turns after a small fit on each, whose time is that of the start. "rows/s" is
rows times trees over the seconds of the whole fit; "ms/tree" is the slope between few and all trees.

Agreement (`--agreement`): test scores of the defaults on six tables, three seeds on each device. "difference" is the mean score on
the GPU minus that on the CPU, in standard deviations over the seeds.

Results are written after each measurement, and a repeated command continues. After --seconds, nothing more is started. With
`--device cpu`, only the processor is measured. A fit that did not run on the GPU says why, and that model is not measured there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.fits import changed, data_folder, load, prepared, random_division
from benchmarks.machine import RESULTS, ResultTable, machine, report
from benchmarks.product.rivals import keep_results, results_in
from tabapp import metrics
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Shape

MODELS: dict[str, dict[str, Any]] = {"xgboost": {"max_depth": 8}, "catboost": {"depth": 6}}
SIZES = "200000x50,500000x50,50000x50,200000x10,10000x50"
FEW_TREES = 20
TABLES = ("adult", "bank_marketing", "california_housing", "covertype", "diamonds", "students_dropout")
METRICS = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}
N_SEEDS, MOST_ROWS, MOST_TEST_ROWS, AGREEMENT_TREES = 3, 20_000, 20_000, 400
CPU = "cpu"


@cache
def generated(n_rows: int, n_columns: int) -> Table:
    """A binary target that depends on products and waves of normal columns, with noise."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x @ random.normal(0, 0.3, n_columns).astype(np.float32)
    target = (random.random(n_rows) < 1 / (1 + np.exp(-2 * signal))).astype(np.int64)
    return Table(x, np.empty((n_rows, 0), np.int32), target)


def timed_fit(model: str, n_rows: int, n_columns: int, n_trees: int, device: str, n_threads: int) -> dict[str, Any]:
    """Seconds of a fit that grows a number of trees, and what the model says of its device."""
    plugin, table = registry.get(model), generated(n_rows, n_columns)
    shape = Shape(n_rows, n_columns, 0, 2)
    fixed = MODELS[model] | {"n_trees": n_trees, "patience": n_trees, "refit": False, "derived_features": False}
    params = changed(plugin.defaults("binary", shape, device), fixed)
    names = tuple(f"x{i}" for i in range(n_columns))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    n_train = n_rows * 9 // 10
    with TemporaryDirectory(prefix="tabapp-boosters-") as folder:
        context = FitContext("binary", 2, "log_loss", spec, 0, device, n_threads, Path(folder))
        start = time.perf_counter()
        fitted = plugin.fit(table.take(slice(0, n_train)), table.take(slice(n_train, None)), params, context)
        seconds = time.perf_counter() - start
    facts = fitted.summary()
    return {"seconds": seconds, "ran_on": facts.get("device", CPU), "why": facts.get("not on the GPU", "")}


def speed(model: str, n_rows: int, n_columns: int, n_trees: int, device: str, n_threads: int) -> dict[str, Any]:
    """Seconds of fits with few and with all trees."""
    few = timed_fit(model, n_rows, n_columns, FEW_TREES, device, n_threads)
    whole = timed_fit(model, n_rows, n_columns, n_trees, device, n_threads)
    each = (whole["seconds"] - few["seconds"]) / max(1, n_trees - FEW_TREES)
    return whole | {"few_seconds": few["seconds"], "tree_seconds": each, "trees": n_trees}


def score(model: str, name: str, data: Path, device: str, seed: int, n_threads: int) -> dict[str, Any]:
    """The test score of the defaults on a table; all seeds have the same rows."""
    plugin, source = registry.get(model), load(data, name)
    division = random_division(source, MOST_ROWS, MOST_TEST_ROWS, seed=0)
    rows = prepared(source, division, plugin, seed=0)
    metric = METRICS[source.task]
    params = changed(
        plugin.defaults(source.task, rows.shape, device), {"n_trees": AGREEMENT_TREES, "derived_features": False}
    )
    with TemporaryDirectory(prefix="tabapp-boosters-") as folder:
        context = FitContext(source.task, source.n_classes, metric, rows.spec, seed, device, n_threads, Path(folder))
        start = time.perf_counter()
        fitted = plugin.fit(rows.train, rows.valid, params, context)
        seconds = time.perf_counter() - start
    facts, truth = fitted.summary(), source.target[division.test]
    value = metrics.score(metric, truth, fitted.predict(rows.test), None)
    ran_on = {"ran_on": facts.get("device", CPU), "why": facts.get("not on the GPU", "")}
    return {"score": value, "metric": metric, "seconds": seconds, "trees": facts.get("trees"), **ran_on}


class Measurements:
    """Runs measurements in a process, kept for those of one model: an error in a GPU's library may end it.

    Args:
        seconds: after this time since the start, none is started, nor one that is expected to end later.
    """

    def __init__(self, file: Path, seconds: float) -> None:
        self.file, self.results = file, results_in(file)
        self._end = time.monotonic() + seconds
        self._pool: ProcessPoolExecutor | None = None
        self._pool_of = ""

    def has_time(self, expected: float = 0.0) -> bool:
        """Whether a measurement may start."""
        return time.monotonic() + expected < self._end

    def run(self, key: str, function: Callable[..., dict[str, Any]], *arguments: Any) -> None:
        """Measure, and write the result; the first argument is the model."""
        try:
            found = self._process_of(arguments[0]).submit(function, *arguments).result()
        except BrokenProcessPool:
            found, self._pool = {"failed": "the process died"}, None
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        self.results[key] = found
        keep_results(self.file, self.results, key)

    def needs(self, key: str, device: str) -> bool:
        """Whether there is no result on the device yet."""
        return not ran(self.results.get(key, {}), device.partition(":")[0])

    def _process_of(self, model: str) -> ProcessPoolExecutor:
        if self._pool is None or self._pool_of != model:
            self.close()
            # A forked process could not use a GPU that this one has used.
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            self._pool_of = model
        return self._pool

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()


def speed_key(model: str, size: str, device: str, repeat: int) -> str:
    return f"speed|{model}|{size}|{device.partition(':')[0]}|{repeat}"


def expected_seconds(results: dict[str, dict[str, Any]], model: str, device: str, size: str) -> float:
    """Seconds of both fits of a measurement, from the largest rate of those so far; 0 if there are none."""
    rates = [0.0]
    for key, result in results.items():
        kind, *names = key.split("|")
        if kind == "speed" and names[0] == model and names[2] == device.partition(":")[0] and "seconds" in result:
            rates.append((result["seconds"] + result["few_seconds"]) / cells(names[1]))
    return max(rates) * cells(size)


def cells(size: str) -> int:
    n_rows, n_columns = map(int, size.split("x"))
    return n_rows * n_columns


def measure_speed(measured: Measurements, devices: list[str], options: argparse.Namespace) -> None:
    """All sizes of a model before the next one, which starts a process."""
    for model in options.models:
        for device in devices:
            key = f"start|{model}|{device.partition(':')[0]}"
            if measured.has_time():
                measured.run(key, timed_fit, model, 10_000, 50, 5, device, options.threads)
        usable = [
            device for device in devices if not measured.needs(f"start|{model}|{device.partition(':')[0]}", device)
        ]
        for size in options.sizes.split(","):
            n_rows, n_columns = map(int, size.split("x"))
            for repeat in range(options.repeats):
                for device in usable[:: -1 if repeat % 2 else 1]:
                    key = speed_key(model, size, device, repeat)
                    expected = expected_seconds(measured.results, model, device, size)
                    if measured.needs(key, device) and measured.has_time(expected):
                        measured.run(key, speed, model, n_rows, n_columns, options.trees, device, options.threads)


def measure_agreement(measured: Measurements, devices: list[str], options: argparse.Namespace) -> None:
    """The seeds of a table alternate between the devices."""
    for model in options.models:
        for name in options.tables.split(","):
            for seed in range(N_SEEDS):
                for device in devices:
                    key = f"agreement|{model}|{name}|{device.partition(':')[0]}|{seed}"
                    if measured.needs(key, device) and measured.has_time():
                        measured.run(key, score, model, name, options.data, device, seed, options.threads)


def ran(result: dict[str, Any], device: str) -> bool:
    """Whether a measurement succeeded on its device."""
    return "seconds" in result and result["ran_on"].partition(":")[0] == device


def speed_rows(results: dict[str, dict[str, Any]], models: list[str]) -> Iterator[list[str]]:
    """A row for each model and size: medians over the repeats."""
    sizes = dict.fromkeys((names[1], names[2]) for key in results if (names := key.split("|"))[0] == "speed")
    for model, size in sizes:
        if model not in models:
            continue
        found: dict[str, list[dict[str, Any]]] = {
            device: [
                result
                for key, result in results.items()
                if key.startswith(f"speed|{model}|{size}|{device}|") and ran(result, device)
            ]
            for device in (CPU, "cuda")
        }
        n_rows, n_columns = map(int, size.split("x"))
        rates = {
            device: statistics.median(0.9 * n_rows * result["trees"] / result["seconds"] for result in each)
            for device, each in found.items()
            if each
        }
        trees = {
            device: statistics.median(1000 * result["tree_seconds"] for result in each)
            for device, each in found.items()
            if each
        }
        ratio = f"{rates['cuda'] / rates[CPU]:.1f}" if len(rates) == 2 else "—"
        shown = [f"{rates[device]:,.0f}" if device in rates else "—" for device in found]
        slopes = [f"{trees[device]:.1f}" if device in trees else "—" for device in found]
        yield [model, f"{n_rows:,}", str(n_columns), *shown, ratio, *slopes]


def agreement_rows(results: dict[str, dict[str, Any]], models: list[str]) -> Iterator[list[str]]:
    """A row for each model and table that both devices have scored with all seeds."""
    pairs = dict.fromkeys((names[1], names[2]) for key in results if (names := key.split("|"))[0] == "agreement")
    for model, name in pairs:
        scores: dict[str, list[float]] = {}
        metric = ""
        for device in (CPU, "cuda"):
            each = [results.get(f"agreement|{model}|{name}|{device}|{seed}", {}) for seed in range(N_SEEDS)]
            scores[device] = [result["score"] for result in each if ran(result, device)]
            metric = next((result["metric"] for result in each if "metric" in result), metric)
        if model not in models or any(len(found) < N_SEEDS for found in scores.values()):
            continue
        means = [statistics.fmean(found) for found in scores.values()]
        spread = max(1e-12, statistics.fmean(statistics.variance(found) for found in scores.values()) ** 0.5)
        cells = [f"{statistics.fmean(found):.5f} ± {statistics.stdev(found):.5f}" for found in scores.values()]
        yield [model, name, metric, *cells, f"{(means[1] - means[0]) / spread:+.1f}"]


def device_facts(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The GPU, the seconds of the first small fits, and why fits did not run on the GPU."""
    facts: dict[str, Any] = {}
    for key, result in results.items():
        if key.startswith("start|") and "seconds" in result:
            facts["first fit of " + " on ".join(key.split("|")[1:])] = f"{result['seconds']:.1f} s"
    reasons = {f"{key}: {why}" for key, result in results.items() if (why := result.get("why") or result.get("failed"))}
    for reason in sorted(reasons)[:5]:
        print(f"not on the GPU: {reason}", file=sys.stderr)
    return facts


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--agreement", action="store_true")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--out", type=Path, default=RESULTS / "boosters_on_gpu.json")
    options = parser.parse_args()
    measured = Measurements(options.out, options.seconds)
    devices = [CPU] if options.device == CPU else [CPU, options.device]
    (measure_agreement if options.agreement else measure_speed)(measured, devices, options)
    measured.close()
    results = measured.results
    header = ["model", "rows", "columns", "CPU, rows/s", "GPU, rows/s", "ratio", "CPU, ms/tree", "GPU, ms/tree"]
    columns = ["model", "table", "metric", "CPU", "GPU", "difference"]
    rows = list(agreement_rows(results, options.models))
    agreement = ResultTable(name="agreement", columns=columns, right=[3, 4, 5], rows=rows)
    facts = {**machine("xgboost", "catboost"), "device": gpu_name(options.device), "threads": options.threads}
    facts |= device_facts(results)
    table = list(speed_rows(results, options.models))
    report(facts, header, table, results, options.out, right=range(1, len(header)), more=[agreement] if rows else [])
    return 0


def gpu_name(device: str) -> str:
    """The name of a GPU."""
    if device == CPU:
        return CPU
    import torch

    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "none"


if __name__ == "__main__":
    sys.exit(main())
