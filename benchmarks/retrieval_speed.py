"""Time of a training step of TabR and ModernNCA, and of their neighbor search.

python -m benchmarks.retrieval_speed [--device cuda] [--tables 10240,102400] [--columns 20] [--batches 256,1024,512] [--steps 50]
                                     [--seconds 60] [--out FILE.json]

A step is that of the training loop with the defaults for a GPU: eager and recorded with the search of a CPU, and recorded with the
search of a GPU. "TabR, embeddings" has periodic embeddings and an encoder block, so that all candidates are encoded. With the
first batch size on the first table, 200 steps are taken, and the predictions for other rows are compared with those after eager
steps: the root mean square of the differences, over the standard deviation of the predictions. Keys of the searches are normal, and
"groups" selects the neighbors in two stages.

Cases start until --seconds have passed. Each is printed as it ends, and --out then holds all of them. A case that fails is an error
in its line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import torch
from tabapp_plugins import tabr

from benchmarks.machine import RESULTS, machine, report, write_results
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Shape
from tabapp.nn.layers import neighbors
from tabapp.nn.layers.precision import tensor_float32
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training import cuda_graphs, trainer
from tabapp.nn.training.cuda_graphs import EAGER_STEPS, GraphedSteps, can_record
from tabapp.nn.training.objective import Objective

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "TabR": ("tabr", {}),
    "ModernNCA": ("modern_nca", {}),
    "TabR, embeddings": ("tabr", {"n_frequencies": 48, "n_encoder_blocks": 1}),
}
EAGER, RECORDED, SEARCHED = "eager", "recorded", "recorded, search of a GPU"
ONE_STAGE, GROUPS = "float32", "float32, groups"
COMPARED_STEPS, COMPARED_ROWS = 200, 2000
WARM_STEPS = EAGER_STEPS + 3
WIDTH, N_NEIGHBORS = 265, 96
"""Those of TabR's defaults, for the searches."""
HEADER = ("case", "rows", "batch", "way", "ms", "rows/s", "difference")


@dataclass
class FewSteps(FitContext):
    """A fit that ends after some steps."""

    n_left: int = 0

    def seconds_left(self) -> float:
        self.n_left -= 1
        return float(self.n_left)


class Observed(GraphedSteps):
    """Remembers the recordings that it has made."""

    made: list[Observed]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Observed.made.append(self)


def generated(n_rows: int, n_columns: int) -> Table:
    """A numeric target that depends on products and waves of normal columns, with noise."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x @ random.normal(0, 0.3, n_columns)
    return Table(x, np.empty((n_rows, 0), np.int32), (signal + random.normal(0, 0.3, n_rows)).astype(np.float32))


@contextmanager
def way_of(way: str) -> Generator[None]:
    """Train in one of the three ways."""
    Observed.made = []
    with mock.patch.object(trainer, "GraphedSteps", Observed):
        eager_steps = 10**9 if way == EAGER else EAGER_STEPS
        with mock.patch.object(cuda_graphs, "EAGER_STEPS", eager_steps):
            if way == SEARCHED:
                yield
                return
            with (
                mock.patch.object(tabr, "starts_operations_slowly", return_value=False),
                mock.patch.object(neighbors, "prefers_groups", return_value=False),
            ):
                yield


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_steps(
    model: str, n_rows: int, batch: int, way: str, *, n_steps: int, compared: bool, options: argparse.Namespace
) -> tuple[dict[str, Any], np.ndarray | None]:
    """Seconds of a step, and the predictions for other rows after `COMPARED_STEPS` if they are compared."""
    device = torch.device(options.device)
    name, changes = MODELS[model]
    plugin = registry.get(name)
    assert isinstance(plugin, DeepPlugin)
    table = generated(n_rows + COMPARED_ROWS, options.columns)
    learned, others = table.take(slice(0, n_rows)), table.take(slice(n_rows, None))
    params = plugin.defaults("regression", Shape(n_rows, options.columns, 0, 1), "cuda:0")
    params = msgspec.structs.replace(params, batch_size=batch, **changes)
    names = tuple(f"x{i}" for i in range(options.columns))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with TemporaryDirectory(prefix="tabapp-retrieval-") as folder, way_of(way):
        context = FewSteps("regression", 1, "rmse", spec, 0, options.device, 1, Path(folder))
        trainer.seed_everything(context)
        objective = Objective.fit(learned, context)
        network = plugin.build(Sizes(n_numeric=options.columns, cardinalities=(), d_out=1), params)
        network.to(device).train()
        method = plugin.method(network, params, objective, context)
        steps = trainer.Steps(network, learned, params, objective, device, method)

        def take(n: int) -> float:
            context.n_left = n
            synchronize(device)
            started = time.perf_counter()
            while context.n_left > 0:
                steps.run_epoch(params.max_epochs, context)
            synchronize(device)
            return (time.perf_counter() - started) / n

        with tensor_float32(device, plugin.tolerates_tf32):
            take(WARM_STEPS)
            seconds = take(n_steps)
            if compared:
                take(max(1, COMPARED_STEPS - WARM_STEPS - n_steps))
        replayed = sum(each.n_replayed for each in Observed.made)
        prediction = None
        if compared:
            output = trainer.predict_output(network, *trainer.inputs(others, device))
            prediction = objective.prediction(output)
    line = {
        "case": model,
        "rows": n_rows,
        "batch": batch,
        "way": way,
        "ms": 1e3 * seconds,
        "rows_per_second": batch / seconds,
    }
    if device.type == "cuda":
        line["replayed"] = replayed
    return line, prediction


def measure_search(n_keys: int, batch: int, way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a search for the neighbors of a batch, and the share of them that is missed."""
    device = torch.device(options.device)
    torch.manual_seed(0)
    keys, own = torch.randn(n_keys, WIDTH, device=device), torch.randperm(n_keys)[:batch].to(device)
    n_nearest = min(N_NEIGHBORS, n_keys // neighbors.GROUP)
    found: list[torch.Tensor] = [own]

    def take(rows: torch.Tensor) -> None:
        found[0] = neighbors.nearest(keys[rows], keys, n_nearest, own=rows)

    with mock.patch.object(neighbors, "prefers_groups", return_value=way == GROUPS):
        step: Callable[[torch.Tensor], None] = GraphedSteps(take, device) if can_record(device) else take
        for _ in range(WARM_STEPS):
            step(own)
        synchronize(device)
        started = time.perf_counter()
        for _ in range(options.steps):
            step(own)
        synchronize(device)
        seconds = (time.perf_counter() - started) / options.steps
        index = found[0]
    with mock.patch.object(neighbors, "prefers_groups", return_value=False):
        expected = neighbors.nearest(keys[own], keys, n_nearest, own=own)
    missed = (index.unsqueeze(2) != expected.unsqueeze(1)).all(1).double().mean().item()
    line = {"case": "search", "rows": n_keys, "batch": batch, "way": way, "ms": 1e3 * seconds, "missed": missed}
    return line | {"rows_per_second": batch / seconds}


def row_of(line: dict[str, Any]) -> list[str]:
    """A line of the printed table."""
    first = [line["case"], f"{line['rows']:,}", str(line["batch"]), line["way"]]
    if "error" in line:
        return [*first, line["error"], "", ""]
    difference = line.get("difference", line.get("missed"))
    shown = "" if difference is None else f"{difference:.5f}"
    return [*first, f"{line['ms']:.3f}", f"{line['rows_per_second']:,.0f}", shown]


def cases(options: argparse.Namespace) -> Generator[dict[str, Any]]:
    """Measure and yield one line after the other."""
    for n_rows in options.tables:
        for way in (ONE_STAGE, GROUPS):
            case = {"case": "search", "rows": n_rows, "batch": options.batches[0], "way": way}
            try:
                yield measure_search(n_rows, options.batches[0], way, options)
            except Exception as error:
                yield case | {"error": f"{type(error).__name__}: {error}"[:200]}
    for batch in options.batches:
        for n_rows in options.tables:
            for model, (name, _) in MODELS.items():
                compared = (batch, n_rows) == (options.batches[0], options.tables[0])
                eager: np.ndarray | None = None
                # ModernNCA searches in the same way everywhere.
                for way in (EAGER, RECORDED, SEARCHED)[: 2 if name == "modern_nca" else 3]:
                    try:
                        line, prediction = measure_steps(
                            model, n_rows, batch, way, n_steps=options.steps, compared=compared, options=options
                        )
                        if prediction is not None and eager is not None:
                            line["difference"] = float(np.sqrt(np.mean((prediction - eager) ** 2)) / eager.std())
                        eager = prediction if eager is None else eager
                    except Exception as error:
                        line = {"case": model, "rows": n_rows, "batch": batch, "way": way}
                        line["error"] = f"{type(error).__name__}: {error}"[:200]
                    yield line


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--tables", type=numbers, default=[10_240, 102_400])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--batches", type=numbers, default=[256, 1024, 512])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS / "retrieval_speed.json")
    options = parser.parse_args()
    started = time.monotonic()
    device = torch.device(options.device)
    facts = machine("torch") | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, one thread",
        "columns": options.columns,
        "steps": options.steps,
    }
    lines: list[dict[str, Any]] = []
    right = (1, 2, 4, 5, 6)
    for line in cases(options):
        lines.append(line)
        print(json.dumps(line), flush=True)
        write_results(options.out, facts, HEADER, [row_of(each) for each in lines], lines, right)
        if time.monotonic() - started > options.seconds:
            print(f"stopped after {options.seconds:.0f} s", flush=True)
            break
    report(facts, HEADER, [row_of(each) for each in lines], lines, options.out, right)


if __name__ == "__main__":
    main()
