"""Time and memory of predictions with a bundle, beside AutoGluon's predictor trained on the same table with the same budget.

python -m benchmarks.predicting DATA --target COLUMN [--bundle FILE] [--budget 120] [--rows 1,1000,100000] [--repeats 5]
    [--memory-rows 5000000] [--autogluon PYTHON] [--preset best_quality] [--out FILE.json]

Cold is a new process from start to end: it loads the models, reads the rows from a CSV file, predicts, and writes CSV. Warm is a
prediction of rows in memory by a process that has the models. Times are medians. Memory is the largest resident memory of
`tabapp predict` and its model process together, sampled every 50 ms, for a file of many rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from benchmarks.machine import RESULTS, machine, report
from tabapp.bundle.contents import open_bundle

HERE = Path(__file__).parent
PART_ROWS = 250_000
_WARM = """
import json, sys, time
import polars as pl
import tabapp
bundle, path, n_rows, repeats = sys.argv[1:]
predictor, rows = tabapp.load(bundle), pl.read_csv(path, infer_schema_length=None).head(int(n_rows))
predict = predictor.predict_proba if predictor.classes else predictor.predict
predict(rows)
seconds = []
for _ in range(int(repeats)):
    began = time.perf_counter()
    predict(rows)
    seconds.append(time.perf_counter() - began)
print(json.dumps(seconds))
"""


def measured(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a command and its children.

    Raises:
        SystemExit: it fails.
    """
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-800:]}")
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return seconds, used


def peak_memory(command: list[str]) -> float:
    """Largest resident MiB of a command and its children together."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watched, most = psutil.Process(process.pid), 0.0
    while process.poll() is None:
        try:
            every = [watched, *watched.children(recursive=True)]
            most = max(most, sum(each.memory_info().rss for each in every) / 2**20)
        except psutil.Error:
            continue
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed.")
    return most


def write_rows(table: pl.DataFrame, n_rows: int, path: Path) -> None:
    """Write a number of rows, repeating those of a table, in parts."""
    repeated = pl.concat([table] * (min(n_rows, PART_ROWS) // table.height + 1)).head(min(n_rows, PART_ROWS))
    with path.open("wb") as file:
        for start in range(0, n_rows, PART_ROWS):
            repeated.head(n_rows - start).write_csv(file, include_header=start == 0)


def tabapp(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "tabapp", *arguments]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--rows", default="1,1000,100000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-rows", type=int, default=5_000_000)
    parser.add_argument("--autogluon", type=Path, metavar="PYTHON")
    parser.add_argument("--preset", default="best_quality")
    parser.add_argument("--out", type=Path, default=RESULTS / "predicting.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _measure(options, Path(folder))


def _measure(options: Any, place: Path) -> int:
    table = pl.read_csv(options.data, infer_schema=False)
    training = place / "training.csv"
    table.write_csv(training)
    bundle = options.bundle
    if bundle is None:
        bundle = place / "model.tabapp"
        words = ["--auto", str(training), "--target", options.target, "--budget", f"{options.budget}s"]
        measured(tabapp(*words, "--runs-dir", str(place / "runs"), "--out", str(bundle), "-q"))
    manifest = open_bundle(bundle).manifest
    script, predictor = str(HERE / "rival_autogluon_predict.py"), str(place / "autogluon")
    rival = None if options.autogluon is None else [str(options.autogluon), script]
    if rival is not None:
        words = [str(training), options.target, manifest.task, manifest.metric, str(options.budget), options.preset]
        measured([*rival, "train", *words, predictor])
    rows = table.drop(options.target)
    results: list[dict[str, Any]] = []
    for n_rows in map(int, options.rows.split(",")):
        path, out = place / f"{n_rows}.csv", str(place / "out.csv")
        write_rows(rows, n_rows, path)
        count = [str(n_rows), str(options.repeats)]
        own = tabapp("predict", str(bundle), str(path), "-o", out, "-q")
        warm = [sys.executable, "-P", "-c", _WARM, str(bundle), str(path), *count]
        results.append({"system": "tabapp", "rows": n_rows, **_times(own, warm, options.repeats)})
        if rival is not None:
            cold, warm = [*rival, "cold", predictor, str(path), out], [*rival, "warm", predictor, str(path), *count]
            results.append({"system": "AutoGluon", "rows": n_rows, **_times(cold, warm, options.repeats)})
    if options.memory_rows:
        path = place / "many.csv"
        write_rows(rows, options.memory_rows, path)
        out = str(place / "many.parquet")
        peak = peak_memory(tabapp("predict", str(bundle), str(path), "-o", out, "-q"))
        results.append({"system": "tabapp", "rows": options.memory_rows, "peak_mib": round(peak)})
    _report(options, bundle, results)
    return 0


def _times(cold: list[str], warm: list[str], repeats: int) -> dict[str, Any]:
    """Medians in seconds, and all measured times."""
    colds = [measured(cold) for _ in range(repeats)]
    done = subprocess.run(warm, stdout=subprocess.PIPE, text=True, check=True)
    warms: list[float] = json.loads(done.stdout.splitlines()[-1])
    return {
        "cold": statistics.median(wall for wall, _ in colds),
        "cold_cpu": statistics.median(used for _, used in colds),
        "warm": statistics.median(warms),
        "all_cold": colds,
        "all_warm": warms,
    }


def _report(options: Any, bundle: Path, results: list[dict[str, Any]]) -> None:
    rival = {each["rows"]: each for each in results if each["system"] == "AutoGluon"}
    lines: list[list[str]] = []
    for each in results:
        if "peak_mib" in each:
            lines.append([each["system"], f"{each['rows']:,}", "", "", "", "", f"{each['peak_mib']:,} MiB"])
            continue
        other = rival.get(each["rows"]) if each["system"] == "tabapp" else None
        shares = "" if other is None else f"{each['cold'] / other['cold']:.2f} / {each['warm'] / other['warm']:.2f}"
        lines.append(
            [
                each["system"],
                f"{each['rows']:,}",
                f"{each['cold']:.2f} s",
                f"{each['cold_cpu']:.2f} s",
                f"{1000 * each['warm']:.1f} ms",
                shares,
                "",
            ]
        )
    report(
        {
            **machine(),
            "table": options.data.name,
            "bundle": f"{bundle.stat().st_size / 1e6:.1f} MB",
            "budget": f"{options.budget:g} s",
        },
        ["system", "rows", "cold", "cold, CPU", "warm", "share of AutoGluon's cold / warm", "peak memory"],
        lines,
        results,
        options.out,
        right=(1, 2, 3, 4, 5, 6),
    )


if __name__ == "__main__":
    sys.exit(main())
