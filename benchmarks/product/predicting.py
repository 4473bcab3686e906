"""Time and memory of predictions with a bundle, beside AutoGluon's predictor trained on the same table with the same budget.

python -m benchmarks.product.predicting DATA --target COLUMN [--bundle FILE] [--budget 120] [--rows 1,1000,100000] [--repeats 5]
    [--memory-rows 5000000] [--autogluon PYTHON] [--preset best_quality] [--keep FOLDER] [--out FILE.json]

Cold is a new process from start to end: it loads the models, reads the rows from a CSV file, predicts, and writes CSV. Warm is a
prediction of rows in memory by a process that has the models. Times are medians; CPU is processor time (user and system) of all
processes, which depends less on what else the machine does. Memory is the largest resident memory of `tabapp predict` and its model
process together, sampled every 50 ms, for a file of many rows. FOLDER keeps what was trained for the next call.

Exits with 1 if a bound is missed: half of AutoGluon's cold time for any number of rows, a fifth of its warm time for one row, and
1 GiB of memory.
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
from tabapp.bundle.files.contents import open_bundle

HERE = Path(__file__).parent
PART_ROWS = 250_000
COLD_SHARE, WARM_ROW_SHARE, MEMORY_MIB = 0.5, 0.2, 1024
_WARM = """
import json, sys, time
import polars as pl
import psutil
import tabapp

def used():
    own = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True)))

bundle, path, n_rows, repeats = sys.argv[1:]
predictor, rows = tabapp.load(bundle), pl.read_csv(path, infer_schema_length=None).head(int(n_rows))
predict = predictor.predict_proba if predictor.classes else predictor.predict
predict(rows)
seconds, before = [], used()
for _ in range(int(repeats)):
    began = time.perf_counter()
    predict(rows)
    seconds.append(time.perf_counter() - began)
print(json.dumps([seconds, (used() - before) / int(repeats)]))
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
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=RESULTS / "predicting.json")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        return _measure(options, options.keep)
    with tempfile.TemporaryDirectory() as folder:
        return _measure(options, Path(folder))


def _measure(options: Any, place: Path) -> int:
    table = pl.read_csv(options.data, infer_schema=False)
    training = place / "training.csv"
    table.write_csv(training)
    bundle = options.bundle
    if bundle is None:
        bundle = place / "model.tabapp"
    if not bundle.exists():
        words = ["--auto", str(training), "--target", options.target, "--budget", f"{options.budget}s"]
        measured(tabapp(*words, "--runs-dir", str(place / "runs"), "--out", str(bundle), "-q"))
    manifest = open_bundle(bundle).manifest
    script, predictor = str(HERE / "rival_autogluon_predict.py"), str(place / "autogluon")
    rival = None if options.autogluon is None else [str(options.autogluon), script]
    if rival is not None and not Path(predictor).exists():
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
    return _report(options, bundle, results)


def _times(cold: list[str], warm: list[str], repeats: int) -> dict[str, Any]:
    """Medians in seconds, and all measured times."""
    colds = [measured(cold) for _ in range(repeats)]
    done = subprocess.run(warm, stdout=subprocess.PIPE, text=True, check=True)
    warms, warm_cpu = json.loads(done.stdout.splitlines()[-1])
    return {
        "cold": statistics.median(wall for wall, _ in colds),
        "cold_cpu": statistics.median(used for _, used in colds),
        "warm": statistics.median(warms),
        "warm_cpu": warm_cpu,
        "all_cold": colds,
        "all_warm": warms,
    }


def _shares(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """tabapp's times as shares of AutoGluon's, by number of rows."""
    rival = {each["rows"]: each for each in results if each["system"] == "AutoGluon"}
    names = ("cold", "cold_cpu", "warm", "warm_cpu")
    return [
        {"rows": each["rows"], **{name: each[name] / max(rival[each["rows"]][name], 1e-9) for name in names}}
        for each in results
        if each["system"] == "tabapp" and "cold" in each and each["rows"] in rival
    ]


def _missed(results: list[dict[str, Any]], shares: list[dict[str, Any]]) -> list[str]:
    """The bounds that are missed, as sentences."""
    missed = [
        f"cold, {each['rows']:,} rows: {each['cold']:.2f} of AutoGluon's time, more than {COLD_SHARE}"
        for each in shares
        if each["cold"] > COLD_SHARE
    ]
    missed += [
        f"warm, one row: {each['warm']:.2f} of AutoGluon's time, more than {WARM_ROW_SHARE}"
        for each in shares
        if each["rows"] == 1 and each["warm"] > WARM_ROW_SHARE
    ]
    return missed + [
        f"memory: {each['peak_mib']:,} MiB, more than {MEMORY_MIB:,}"
        for each in results
        if each.get("peak_mib", 0) > MEMORY_MIB
    ]


def _report(options: Any, bundle: Path, results: list[dict[str, Any]]) -> int:
    shares = _shares(results)
    lines: list[list[str]] = []
    for each in results:
        if "peak_mib" in each:
            lines.append([each["system"], f"{each['rows']:,}", "", "", "", "", f"{each['peak_mib']:,} MiB"])
            continue
        seconds = [f"{each['cold']:.2f} s", f"{each['cold_cpu']:.2f} s"]
        milliseconds = [f"{1000 * each[name]:.1f} ms" for name in ("warm", "warm_cpu")]
        lines.append([each["system"], f"{each['rows']:,}", *seconds, *milliseconds, ""])
    for each in shares:
        cells = [f"{each[name]:.2f}" for name in ("cold", "cold_cpu", "warm", "warm_cpu")]
        lines.append(["share of AutoGluon's", f"{each['rows']:,}", *cells, ""])
    facts = {
        **machine(),
        "table": options.data.name,
        "bundle": f"{bundle.stat().st_size / 1e6:.1f} MB",
        "budget": f"{options.budget:g} s",
        **({} if options.autogluon is None else {"AutoGluon": _autogluon_version(options.autogluon)}),
        "AutoGluon preset": options.preset,
    }
    header = ["system", "rows", "cold", "cold, CPU", "warm", "warm, CPU", "peak memory"]
    report(facts, header, lines, {"measured": results, "shares": shares}, options.out, right=(1, 2, 3, 4, 5, 6))
    missed = _missed(results, shares)
    print("\n".join(missed), file=sys.stderr)
    return 1 if missed else 0


def _autogluon_version(python: Path) -> str:
    program = "from importlib.metadata import version; print(version('autogluon.tabular'))"
    return subprocess.run([str(python), "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
