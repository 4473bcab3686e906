"""What a run with a GPU waits for until its first network: imports, CUDA, and the steps of the engine.

python -m benchmarks.gpu.gpu_start [--device cuda] [--parts stages,imports,run] [--limit 75] [--out FILE.json]

"stages" has the seconds of what the first fit on a device does: in a new process, in one forked from the warm server, and in a
spare that warms up. "imports" has those of the modules that the fit servers import: from a cold disk, for which the pages of the
installed packages are dropped from memory, and again; and the packages that take most of them. "run" is a run of 30 seconds on a
generated table of 10,000 rows and 20 features; its times are seconds since the command was started. What has no time left is
skipped. `--device cpu` shows that the command works.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from sysconfig import get_paths
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.machine import RESULTS, ResultTable, machine, report

PARTS = ("stages", "imports", "run")
SERVERS = ("boosters", "trees", "torch")
BUDGET, N_ROWS, N_FEATURES = 30, 10_000, 20
RUN_SECONDS = BUDGET + 6
"""What a run takes with its start and its end."""
MOST_PACKAGES = 10
SAMPLE_SECONDS = 0.05
SIZE = 512


def drop_pages(folders: set[Path]) -> None:
    """Remove files from the page cache, except pages that other processes use."""
    for folder in folders:
        for file in folder.rglob("*"):
            with suppress(OSError):
                if file.is_file() and not file.is_symlink():
                    descriptor = os.open(file, os.O_RDONLY)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(descriptor)


def seconds_of_import(module: str, limit: float) -> float | None:
    """Seconds of an import in a new process; None if it takes longer than the limit."""
    program = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=limit
        )
        return float(done.stdout.split()[-1])
    return None


def seconds_of_packages(module: str, limit: float) -> dict[str, float]:
    """Seconds of an import by package, without those of other packages that it imports; parts of torch count separately."""
    seconds = dict[str, float]()
    with suppress(subprocess.TimeoutExpired):
        command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
        for line in done.stderr.splitlines():
            own, _, name = line.removeprefix("import time:").split("|") if line.count("|") == 2 else ("", "", "")
            if own.strip().isdigit():
                parts = name.strip().split(".")
                package = ".".join(parts[:2] if parts[0] == "torch" else parts[:1])
                seconds[package] = seconds.get(package, 0.0) + int(own) / 1e6
    return dict(sorted(seconds.items(), key=lambda item: -item[1])[:MOST_PACKAGES])


def imports(left: Callable[[], float]) -> dict[str, Any]:
    """Seconds of the imports of each server, and of the packages of the slowest."""
    torch = "tabapp.engine.fit.preload_torch"
    drop_pages({Path(get_paths()[name]) for name in ("purelib", "platlib")})
    cold = seconds_of_import(torch, max(1.0, left() / 2))
    warm = {name: seconds_of_import(f"tabapp.engine.fit.preload_{name}", max(1.0, left())) for name in SERVERS}
    of_modules = {name: seconds_of_import(name, max(1.0, left())) for name in ("torch", "torch, torch._dynamo")}
    return {
        "cold": {"torch server": cold},
        "warm": {**{f"{name} server": seconds for name, seconds in warm.items()}, **of_modules},
        "packages": seconds_of_packages(torch, max(1.0, left())),
    }


def stages(device: str) -> dict[str, float | str]:
    """Seconds of each thing that a first fit does, in the order in which it does them; an error is its text."""
    seconds: dict[str, float | str] = {}

    def measure(name: str, act: Callable[[], object]) -> None:
        began = time.perf_counter()
        try:
            act()
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_initialized():
                torch.cuda.synchronize(device)
            seconds[name] = round(time.perf_counter() - began, 4)
        except Exception as error:
            seconds[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"

    measure("import torch", lambda: __import__("torch"))
    import torch
    from torch import nn
    from torch.nn import functional

    place, kept = torch.device(device), dict[str, Any]()
    measure("context", lambda: torch.zeros(1, device=place))
    measure("product", lambda: torch.ones(SIZE, SIZE, device=place) @ torch.ones(SIZE, SIZE, device=place))
    low = torch.bfloat16

    def multiply() -> None:
        factor = torch.ones(SIZE, SIZE, dtype=low, device=place)
        torch.mm(factor, factor.T)

    measure("product, bfloat16", multiply)

    def attend() -> None:
        query, key, value = (torch.randn(8, 4, 32, 16, dtype=low, device=place, requires_grad=True) for _ in range(3))
        functional.scaled_dot_product_attention(query, key, value).sum().backward()

    measure("attention and its gradients", attend)

    def optimize() -> None:
        network = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 1)).to(place)
        kept["network"], kept["rows"] = network, torch.randn(256, 32, device=place)
        kept["optimizer"] = torch.optim.AdamW(network.parameters(), fused=True, capturable=device != "cpu")
        step()

    def step() -> None:
        kept["optimizer"].zero_grad(set_to_none=True)
        functional.mse_loss(kept["network"](kept["rows"]), kept["rows"][:, :1]).backward()
        kept["optimizer"].step()

    measure("step of AdamW", optimize)

    def record() -> None:
        stream, graph = torch.cuda.Stream(place), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(place))
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream(place).wait_stream(stream)
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            step()
        graph.replay()

    if device != "cpu":
        measure("record a graph", record)

    def small_fit(name: str) -> None:
        from tabapp.engine.machine.warm_up import fit_small

        fit_small(name, device)

    for name in ("mlp", "ft_transformer"):
        measure(f"small fit of {name}", lambda name=name: small_fit(name))
        measure(f"again: {name}", lambda name=name: small_fit(name))
    return seconds


def engine_stages(device: str) -> dict[str, float | str]:
    """Seconds of what the engine asks about a GPU."""
    from tabapp.engine.machine.devices import gpu_memory
    from tabapp.errors import UsageError
    from tabapp.models.devices import existing_gpu

    seconds: dict[str, float | str] = {}
    if device != "cpu":
        began = time.perf_counter()
        with suppress(UsageError):
            device = existing_gpu(device)
        seconds["GPUs of the driver"] = round(time.perf_counter() - began, 4)
        seconds["torch imported for them"] = "yes" if "torch" in sys.modules else "no"
        began = time.perf_counter()
        gpu_memory(device)
        seconds["free memory of the GPU"] = round(time.perf_counter() - began, 4)
    return seconds


def send_stages(device: str, connection: Connection) -> None:
    """The target of a process that is forked from a server."""
    connection.send(stages(device))


def send_warm_up(device: str, connection: Connection) -> None:
    """The target of a process that warms up as a spare does, and then fits a network."""
    from tabapp.engine.machine.warm_up import fit_small, warm_up

    began = time.perf_counter()
    warm_up(device, lambda: False)
    warm = time.perf_counter()
    fit_small("mlp", device)
    connection.send(
        {"warm-up of a spare": round(warm - began, 4), "fit after it": round(time.perf_counter() - warm, 4)}
    )


def in_server(target: Callable[[str, Connection], None], device: str, limit: float) -> dict[str, float | str]:
    """The result of a process that is forked from the warm server of networks."""
    from tabapp.engine.fit.servers import SERVERS, FitProcess

    if not SERVERS["torch"].wait(limit):
        return {"error": "the server was not ready"}
    ours, theirs = Pipe()
    process = FitProcess("torch", target, (device, theirs))
    process.start()
    theirs.close()
    found: dict[str, float | str] = {"error": "it did not end in time"}
    if ours.poll(limit):
        found = {"error": "it ended without a result"}
        with suppress(EOFError):
            found = ours.recv()
    process.kill()
    process.join()
    return found


def all_stages(device: str, left: Callable[[], float]) -> dict[str, dict[str, float | str]]:
    """Seconds of the stages in a new process, in one of the server, and of the warm-up of a spare."""
    program = f"import json; from benchmarks.gpu.gpu_start import stages; print(json.dumps(stages({device!r})))"
    fresh: dict[str, float | str] = {"error": "it did not end in time"}
    with suppress(subprocess.TimeoutExpired, ValueError, IndexError):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=max(1.0, left()))
        fresh = {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
        fresh = json.loads(done.stdout.splitlines()[-1])
    return {
        "engine": engine_stages(device),
        "new process": fresh,
        "forked process": in_server(send_stages, device, max(1.0, left())),
        "spare": in_server(send_warm_up, device, max(1.0, left())),
    }


def write_table(path: Path) -> Path:
    """A binary target of 20 features, four of them categorical."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(0)
    numbers = generator.normal(size=(N_ROWS, N_FEATURES - 4))
    letters = generator.integers(0, 8, size=(N_ROWS, 4))
    signal = numbers[:, 0] * numbers[:, 1] + np.abs(numbers[:, 2]) + (letters[:, 0] < 3)
    columns = {f"x{i}": np.round(column, 4) for i, column in enumerate(numbers.T)}
    names = {f"c{i}": np.array(list("abcdefgh"))[column] for i, column in enumerate(letters.T)}
    bought = np.where(signal + generator.normal(size=N_ROWS) > 1.0, "yes", "no")
    pl.DataFrame({**columns, **names, "bought": bought}).write_csv(path)
    return path


class Watch:
    """Notes when the processes of a run first appear, and when they first map libraries. The engine has no events for them."""

    def __init__(self, pid: int) -> None:
        self._root, self._ended = psutil.Process(pid), threading.Event()
        self.first: dict[str, float] = {}
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no further sample."""
        self._ended.set()
        self._thread.join()

    def _note(self, what: str) -> None:
        self.first.setdefault(what, time.time())

    def _sample(self) -> None:
        servers: dict[int, str] = {}
        while not self._ended.wait(SAMPLE_SECONDS):
            with suppress(psutil.Error):
                for process in self._root.children(recursive=True):
                    with suppress(psutil.Error, OSError):
                        self._look(process, servers)

    def _look(self, process: psutil.Process, servers: dict[int, str]) -> None:
        words = " ".join(process.cmdline())
        server = next((name for name in SERVERS if f"preload_{name}" in words), None)
        if server is not None and process.ppid() not in servers:
            servers[process.pid] = server
            self._note(f"server of {server} starts")
        elif server is not None:
            self._note(f"first process of the server of {server}")
        what, file = "", ""
        if "tabapp.processes.engine" in words:
            what, file = "engine imports torch", "libtorch_cpu"
        elif server == "torch" and process.pid not in servers:
            what, file = "first context of CUDA", "/dev/nvidia"
        if what and what not in self.first and file in Path(f"/proc/{process.pid}/maps").read_text():
            self._note(what)


def timeline(device: str) -> dict[str, Any]:
    """Seconds from the start of a run to each of its steps."""
    from tabapp.models import registry

    with TemporaryDirectory(prefix="tabapp-start-") as folder:
        table = write_table(Path(folder) / "table.csv")
        command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--device", device, "--budget", f"{BUDGET}s"]
        command += ["--runs-dir", folder, "--target", "bought"]
        started = time.time()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        watch = Watch(process.pid)
        _, errors = process.communicate()
        ended = time.time()
        watch.stop()
        files = list(Path(folder).rglob("events.jsonl"))
        lines = files[0].read_text().splitlines() if files else []
    first = dict(watch.first)
    families = Counter[str]()
    percents: list[float] = []
    for event in map(json.loads, lines):
        kind, at = event["ev"], event["t"]
        if kind in ("run.started", "data.read", "plan.made"):
            first.setdefault(kind, at)
        if kind in ("fit.started", "fit.finished"):
            family = registry.get(event["model"]).family
            first.setdefault(f"first {kind}", at)
            first.setdefault(f"first {kind} of the family {family}", at)
            families[family] += kind == "fit.finished"
        if kind == "resources" and event.get("gpu_percent") is not None:
            percents.append(event["gpu_percent"])
            if event["gpu_percent"] > 0:
                first.setdefault("GPU busy", at)
    return {
        "exit_code": process.returncode,
        "error": errors.strip().splitlines()[-1:] if process.returncode else [],
        "seconds": {what: round(at - started, 2) for what, at in sorted(first.items(), key=lambda each: each[1])},
        "whole": round(ended - started, 2),
        "fits": dict(families),
        "gpu_percent": percents,
    }


def shown(value: float | str | None) -> str:
    """A cell of a table."""
    return "—" if value is None else value if isinstance(value, str) else f"{value:.2f} s"


def tables_of(results: dict[str, Any]) -> list[ResultTable]:
    """The tables of the parts that were measured."""
    tables: list[ResultTable] = []
    if found := results.get("imports"):
        rows = [[name, shown(found["cold"].get(name)), shown(seconds)] for name, seconds in found["warm"].items()] + [
            [f"- of the torch server: {name}", "", shown(seconds)] for name, seconds in found["packages"].items()
        ]
        tables.append(ResultTable("imports", ["import", "cold disk", "warm"], [1, 2], rows))
    if found := results.get("stages"):
        names = dict.fromkeys(name for part in found.values() for name in part)
        rows = [[name, *(shown(found[part].get(name)) for part in found)] for name in names]
        tables.append(ResultTable("stages", ["first", *found], [1, 2, 3, 4], rows))
    if found := results.get("run"):
        rows = [[what, shown(seconds)] for what, seconds in found["seconds"].items()]
        rows += [["end", shown(found["whole"])], ["fits", str(found["fits"])]]
        tables.append(ResultTable("run", ["step", "after"], [1], rows))
    return tables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--limit", type=float, default=75.0, help="seconds of the whole command")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_start.json")
    options = parser.parse_args()
    parts: list[str] = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts takes {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    end = time.monotonic() + options.limit
    kept = RUN_SECONDS if "run" in parts else 0.0

    def left() -> float:
        """Seconds until the run has to start."""
        return end - kept - time.monotonic()

    results: dict[str, Any] = {}
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "imports": lambda: imports(left),
        "stages": lambda: all_stages(options.device, left),
        "run": lambda: timeline(options.device),
    }
    for part in parts:
        if part == "run" or left() > 0:
            results[part] = measures[part]()
            print(part, results[part], file=sys.stderr, flush=True)
    facts = {**machine("torch", "scikit-learn", "polars"), "device": options.device}
    first, *more = tables_of(results)
    report(facts, first.columns, first.rows, results, options.out, right=first.right, more=more)
    return results.get("run", {}).get("exit_code", 0)


if __name__ == "__main__":
    sys.exit(main())
