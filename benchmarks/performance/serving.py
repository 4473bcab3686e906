"""Latency, throughput and memory of `tabapp serve` under clients on this machine.

python -m benchmarks.performance.serving BUNDLE DATA [--clients 1,8,32] [--rows 1,100] [--seconds 20] [--workers N]
    [--out FILE.json]

Each measurement starts with a second that is not counted. Every client opens a connection for each request and sends JSON rows of
DATA. Memory is the resident memory of the server and its model processes, before and after.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import psutil

from benchmarks.machine import RESULTS, machine, report

WARM_UP_SECONDS = 1.0


def start(bundle: Path, workers: int) -> tuple[subprocess.Popen[str], str, int]:
    """Start a server; returns the process, its host and its port."""
    words = [sys.executable, "-P", "-m", "tabapp", "serve", str(bundle), "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    if not address.port:
        raise SystemExit(f"The server of {bundle} did not start.")
    return process, str(address.hostname), address.port


def memory(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Resident MiB of the server, and of its model processes."""
    server = psutil.Process(process.pid)
    return server.memory_info().rss / 2**20, sum(child.memory_info().rss for child in server.children()) / 2**20


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Processor time of the server and its model processes so far."""
    server = psutil.Process(process.pid)
    return sum(sum(each.cpu_times()[:2]) for each in (server, *server.children()))


def requests_for(host: str, port: int, body: bytes, clients: int, seconds: float) -> tuple[list[float], int]:
    """Send a body from many clients for a while; returns the milliseconds of each answer, and the number of failures."""
    end = time.perf_counter() + seconds

    def client(_: int) -> tuple[list[float], int]:
        durations: list[float] = []
        failures = 0
        while time.perf_counter() < end:
            began = time.perf_counter()
            connection = http.client.HTTPConnection(host, port, timeout=120)
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            failures += answer.status != 200
            durations.append(1000 * (time.perf_counter() - began))
        return durations, failures

    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(client, range(clients)))
    return [value for durations, _ in found for value in durations], sum(failures for _, failures in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--rows", default="1,100")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.json")
    options = parser.parse_args()
    table = pl.read_csv(options.data, infer_schema=False)
    process, host, port = start(options.bundle, options.workers)
    results: list[dict[str, Any]] = []
    try:
        for rows in map(int, options.rows.split(",")):
            sent = table.head(rows)
            while sent.height < rows:
                sent = pl.concat([sent, table]).head(rows)
            body = json.dumps({"rows": sent.to_dicts()}).encode()
            for clients in map(int, options.clients.split(",")):
                requests_for(host, port, body, clients, WARM_UP_SECONDS)
                before, used = memory(process), processor_seconds(process)
                durations, failures = requests_for(host, port, body, clients, options.seconds)
                used, after = processor_seconds(process) - used, memory(process)
                hundredths = statistics.quantiles(durations, n=100)
                results.append(
                    {
                        "rows": rows,
                        "clients": clients,
                        "requests": len(durations),
                        "failures": failures,
                        "per_second": round(len(durations) / options.seconds, 1),
                        "p50_ms": round(hundredths[49], 1),
                        "p99_ms": round(hundredths[98], 1),
                        "cpu_ms": round(1000 * used / len(durations), 1),
                        "server_mib": [round(before[0]), round(after[0])],
                        "models_mib": [round(before[1]), round(after[1])],
                    }
                )
    finally:
        process.terminate()
        process.wait()
    report(
        {**machine("starlette", "uvicorn"), "bundle": options.bundle.name, "workers": options.workers},
        ["rows", "clients", "requests", "failures", "per second", "p50", "p99", "CPU per request", "server", "models"],
        [
            [
                *(str(each[name]) for name in ("rows", "clients", "requests", "failures", "per_second")),
                *(f"{each[name]} ms" for name in ("p50_ms", "p99_ms", "cpu_ms")),
                *(f"{each[name][0]} → {each[name][1]} MiB" for name in ("server_mib", "models_mib")),
            ]
            for each in results
        ],
        results,
        options.out,
        right=range(10),
    )
    return 1 if any(each["failures"] for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
