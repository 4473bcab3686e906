"""Compares the estimated with the measured peak memory of fits over a grid of rows and features.

    python -m benchmarks.performance.memory_estimates [MODEL …] [--rows 500,5000] [--features 5,50] [--update]
                                         [--device cpu] [--out FILE]

Each fit runs in a process forked from this one, which has the libraries loaded. A fifth of the labels is random, because trees of a
target without errors have few nodes. Prints a table and writes `benchmarks/results/memory_estimates.json`. On a
GPU, the memory that torch reserves there is measured, and with models given the results are written only with `--out`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import machine, write_results

HEADER = ("model", "fits", "within 1.5×", "lowest ratio", "highest ratio")
CPU = "cpu"
RESULTS = Path(__file__).parents[1] / "results" / "memory_estimates.json"
ROWS, FEATURES = (1_000, 20_000), (8, 50, 200)
SECONDS = 1.0
"""Time for a fit: memory is at its peak after one epoch or a few trees. Forests, which grow until they end, get more."""
FOREST_SECONDS = 600.0
FACTOR = 1.5
RANDOM_LABELS = 0.2


@dataclass(frozen=True)
class Point:
    """A fit: its estimated and its measured peak memory in bytes; `measured` is None where it was skipped or failed."""

    model: str
    n_rows: int
    n_features: int
    estimated: int
    measured: int | None
    reason: str = ""

    @property
    def ratio(self) -> float:
        """Estimated divided by measured memory."""
        return self.estimated / max(self.measured or 0, 1)

    @property
    def is_close(self) -> bool:
        """Whether the estimate is within the promised factor."""
        return 1 / FACTOR <= self.ratio <= FACTOR


def load_libraries(models: Iterable[str]) -> None:
    """Import what the fits of some models import, before processes are forked."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from tabapp.models import registry

    for name in models:
        for package in registry.get(name).requires:
            importlib.import_module(package)


def measure(model: str, n_rows: int, n_features: int, task: Any = "binary", device: str = CPU) -> Point:
    """Fit the defaults of a model on a generated table in a forked process, and measure its peak memory."""
    from tabapp.models import registry
    from tabapp.models.checks.tables import make_table, shape_of

    plugin = registry.get(model)
    n_categorical = max(1, n_features // 5)
    columns: dict[str, Any] = {
        "n_rows": n_rows,
        "n_numeric": n_features - n_categorical,
        "cardinalities": (10,) * n_categorical,
    }
    table, spec, n_classes = make_table(task, **columns)
    table = _with_random_labels(table, n_classes)
    shape = shape_of(table, spec, n_classes)
    if reason := plugin.supports(task, shape):
        return Point(model, n_rows, n_features, 0, None, reason)
    params = plugin.defaults(task, shape, device)
    estimated = plugin.cost(task, shape, params, device).n_bytes
    _return_freed_memory()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.write(writer, _fit(plugin, table, spec, n_classes, params, task, device))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer.isdigit():
        return Point(model, n_rows, n_features, estimated, None, answer or "the process died")
    return Point(model, n_rows, n_features, estimated, int(answer))


def _return_freed_memory() -> None:
    """Return freed memory to the system: a fit would reuse what tables of earlier points have left, and seem to need less."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _with_random_labels(table: Any, n_classes: int) -> Any:
    import numpy as np

    if n_classes < 2:
        return table
    generator = np.random.default_rng(0)
    random = generator.integers(0, n_classes, len(table))
    return replace(table, target=np.where(generator.random(len(table)) < RANDOM_LABELS, random, table.target))


def _fit(plugin: Any, table: Any, spec: Any, n_classes: int, params: Any, task: Any, device: str) -> bytes:
    import numpy as np

    from tabapp.engine.machine import peak_memory
    from tabapp.models.checks.tables import make_context

    try:
        order = np.random.default_rng(0).permutation(len(table))
        seconds = FOREST_SECONDS if plugin.family == "classic" else SECONDS
        n_train, n_valid = len(table) * 6 // 10, len(table) * 2 // 10
        with TemporaryDirectory(prefix="tabapp-memory-") as folder:
            peak_memory.reset_gpu_peak(device)
            deadline = time.monotonic() + seconds
            context = make_context(task, spec, n_classes, Path(folder), soft_deadline=deadline)
            context = replace(context, device=device)
            before = peak_memory.reset_peak()
            train, valid = table.take(order[:n_train]), table.take(order[n_train : n_train + n_valid])
            model = plugin.fit(train, valid, params, context)
            model.predict(table.take(order[n_train + n_valid :]))
            return str(peak_memory.gpu_peak(device) or max(0, peak_memory.peak() - before)).encode()
    except BaseException as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:200].encode()


def grid(models: Iterable[str], rows: Iterable[int], features: Iterable[int], device: str = CPU) -> Iterator[Point]:
    """Measure every model at every size."""
    for model in models:
        for n_features in features:
            for n_rows in rows:
                yield measure(model, n_rows, n_features, device=device)


def summary(points: Iterable[Point]) -> list[list[str]]:
    """For each model: measured points, those within the factor, and the extreme ratios."""
    of_model: dict[str, list[Point]] = {}
    for point in points:
        if point.measured is not None:
            of_model.setdefault(point.model, []).append(point)
    rows: list[list[str]] = []
    for model, measured in of_model.items():
        ratios = [point.ratio for point in measured]
        close = sum(point.is_close for point in measured)
        rows.append([model, str(len(measured)), str(close), f"{min(ratios):.2f}", f"{max(ratios):.2f}"])
    return rows


def main(arguments: list[str]) -> None:
    """Measure and print."""
    from tabapp.models import registry

    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--features", default=",".join(map(str, FEATURES)))
    parser.add_argument("--update", action="store_true", help="Replace the results of these models in the file.")
    parser.add_argument("--device", default=CPU)
    parser.add_argument("--out", type=Path, help="write the results of these models to another file")
    chosen = parser.parse_args(arguments)
    # Asking CUDA itself would keep the forked processes from using it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    rows, features = ([int(part) for part in text.split(",")] for text in (chosen.rows, chosen.features))
    load_libraries(chosen.models or registry.names())
    points: list[Point] = []
    for point in grid(chosen.models or registry.names(), rows, features, chosen.device):
        points.append(point)
        size = f"{point.model:24}{point.n_rows:>8,} rows {point.n_features:>5,} features"
        if point.measured is None:
            print(f"{size}  {point.reason}", flush=True)
            continue
        mark = "" if point.is_close else "  <<<"
        print(
            f"{size}  estimated {point.estimated / 1e6:8.0f} MB, measured {point.measured / 1e6:8.0f} MB, "
            f"ratio {point.ratio:5.2f}{mark}",
            flush=True,
        )
    if chosen.models and chosen.update:
        old = [Point(**point) for point in json.loads(RESULTS.read_text())["results"]]
        new = {(point.model, point.n_rows, point.n_features): point for point in points}
        points = [new.pop((point.model, point.n_rows, point.n_features), point) for point in old] + list(new.values())
    measured = [point for point in points if point.measured is not None]
    close = sum(point.is_close for point in measured)
    print(f"{close} of {len(measured)} estimates are within a factor of {FACTOR}.")
    if chosen.out or not chosen.models or chosen.update:
        facts = machine("torch") | {"device": chosen.device}
        results = [asdict(point) for point in points]
        write_results(chosen.out or RESULTS, facts, HEADER, summary(points), results, (1, 2, 3, 4))


if __name__ == "__main__":
    main(sys.argv[1:])
