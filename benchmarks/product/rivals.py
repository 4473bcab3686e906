"""tabapp and other AutoML systems with the same training rows, seconds and machine, scored on unseen rows.

python -m benchmarks.product.rivals [--systems tabapp,autogluon:best_quality] [--autogluon PYTHON] [--tables a,b] [--draws 0,1]
                            [--budget 120] [--together | --at-once 2] [--data FOLDER] [--keep FOLDER] [--out FILE.json]

Each draw sets a fifth of a table's rows apart (at most 20,000; stratified by class). The systems train on the other rows one
after another, or with --together at the same time, each on its share of the cores, and their predictions of the test rows are
scored. With --at-once, so many jobs run at the same time, whatever their table, each on its share of the cores. The other system
has a separate environment, whose interpreter is given by --autogluon; `tabapp:folds=8+quality=high` is tabapp with those options,
and `tabapp@60` has 60 seconds instead of the --budget. Tables are CSV files next to a
`datasets.json` with target and task. Results are added to an existing --out, and its systems are not run again. --keep keeps the
run folders, tables and predictions of each system.

"error" is the difference to a perfect score: 1 - AUC, the log loss, the RMSE. Ratios are tabapp's error over the other's, so that
less than 1 means that tabapp is better; the last line has their geometric mean over the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.model_selection import train_test_split

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.together import run_in_turn, run_together
from tabapp import metrics
from tabapp.run.record.state import format_score

TABLES = (
    "german_credit",
    "titanic",
    "telco_churn",
    "bank_marketing",
    "adult",
    "wine_quality_white",
    "students_dropout",
    "letter",
    "house_prices",
    "kin8nm",
    "power_plant",
    "california_housing",
    "bike_sharing_hour",
    "diamonds",
    "covertype",
    "hotel_bookings",
    "mammography",
    "pima_diabetes",
    "concrete",
    "protein_casp",
)
METRICS = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}
MOST_TEST_ROWS = 20_000
PATIENCE = 3.0
"""A system that runs longer than this multiple of its budget is stopped and has no score."""


def split(table: pl.DataFrame, target: str, task: str, draw: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Training and test rows."""
    n_test = min(table.height // 5, MOST_TEST_ROWS)
    labels = table[target].to_numpy() if task != "regression" else None
    train, test = train_test_split(np.arange(table.height), test_size=n_test, random_state=draw, stratify=labels)
    return table[np.sort(train)], table[np.sort(test)]


def entries_of(parser: argparse.ArgumentParser, data: Path, names: list[str]) -> list[dict[str, Any]] | None:
    """The listing's entries of some tables; None, with a message, if the folder of the tables is not there. An unknown table ends
    the command with a usage error."""
    listing = data / "datasets.json"
    if not listing.is_file():
        print(f"{listing} is not there; name the folder of the tables with --data or TABAPP_DATA.", file=sys.stderr)
        return None
    known = {entry["name"]: entry for entry in json.loads(listing.read_text())}
    missing = [name for name in names if name not in known]
    if missing:
        parser.error(f"{listing} has no table {', '.join(missing)}")
    return [known[name] for name in names]


def facts_of_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Target, task and metric of a table."""
    return {"target": entry["target"], "task": entry["task"], "metric": METRICS[entry["task"]]}


def table_of_entry(data: Path, entry: dict[str, Any]) -> pl.DataFrame:
    """The rows of a table that have a target as text, without the columns that identify rows or leak the target."""
    table = pl.read_csv(data / entry["file"], separator=entry["separator"], infer_schema=False)
    return table.filter(pl.col(entry["target"]).is_not_null()).drop(entry["leak_or_id_columns"])


def results_in(file: Path) -> dict[str, dict[str, Any]]:
    """The results of an earlier command; none if the file is not there."""
    return json.loads(file.read_text())["results"] if file.is_file() else {}


def keep_results(file: Path, results: dict[str, dict[str, Any]], new: str) -> None:
    """Print a new result, and write all so that a repeated command continues."""
    print(new, results[new], file=sys.stderr, flush=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"results": results}))


def budget_of(system: str, options: argparse.Namespace) -> int:
    """The seconds of a system."""
    own = system.partition("@")[2]
    return int(own) if own else options.budget


def command_of(
    system: str, files: dict[str, str], facts: dict[str, Any], options: argparse.Namespace
) -> list[list[str]]:
    """The commands that train and predict, in order."""
    (name, _, preset), budget = system.partition("@")[0].partition(":"), budget_of(system, options)
    if name == "tabapp":
        train = [sys.executable, "-m", "tabapp", "--auto", files["train"], "--target", facts["target"]]
        train += ["--task", facts["task"], "--metric", facts["metric"], "--budget", f"{budget}s"]
        train += ["--out", files["bundle"], "--runs-dir", files["runs"]]
        train += [f"--{option}" for option in preset.split("+") if option]
        return [
            train,
            [sys.executable, "-m", "tabapp", "predict", files["bundle"], files["test"], "-o", files["out"], "-q"],
        ]
    script = str(Path(__file__).with_name("rival_autogluon.py"))
    arguments = [files["train"], files["test"], facts["target"], facts["task"], facts["metric"]]
    return [[options.autogluon, script, *arguments, str(budget), preset or "best_quality", files["out"]]]


def score(out: Path, truth: pl.Series, facts: dict[str, Any]) -> float:
    """The metric of a file of predictions. Classes are identified by column names, with or without a prefix."""
    predictions = pl.read_csv(out, infer_schema_length=None)
    assert predictions.height == len(truth), f"{predictions.height} predictions of {len(truth)} rows"
    metric = metrics.get(facts["metric"])
    if facts["task"] == "regression":
        values = predictions["prediction"].to_numpy()
        return metric.function(truth.cast(pl.Float64).to_numpy(), values, None)
    labels = truth.cast(pl.String).str.strip_chars()
    classes = sorted(labels.unique())
    columns = {name.removeprefix("probability_").strip(): name for name in predictions.columns}
    probabilities = predictions.select(columns[label] for label in classes).to_numpy()
    codes = labels.replace_strict(classes, list(range(len(classes)))).to_numpy()
    return metric.function(codes, probabilities, None)


def measure(
    system: str, name: str, table: pl.DataFrame, facts: dict[str, Any], draw: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Train, predict and score one system on one draw."""
    train, test = split(table, facts["target"], facts["task"], draw)
    return measure_division(system, f"{name}-{system.replace(':', '-')}-{draw}", train, test, facts, options)


def measure_division(
    system: str,
    name: str,
    train: pl.DataFrame,
    test: pl.DataFrame,
    facts: dict[str, Any],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Train, predict and score one system on given training and test rows.

    Args:
        name: of the folder in `options.keep`.
        facts: target, task and metric, and as "scored" the metric of the test rows if it is another.
    """
    with contextlib.ExitStack() as stack:
        if options.keep is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        else:
            folder = options.keep / name
            # An interrupted run may have left one without a score.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        paths = {"train": "train.csv", "test": "test.csv", "out": "out.csv", "bundle": "b.tabapp", "runs": "runs"}
        files = {key: str(Path(folder, name)) for key, name in paths.items()}
        train.write_csv(files["train"])
        test.drop(facts["target"]).write_csv(files["test"])
        seconds: list[float] = []
        for command in command_of(system, files, facts, options):
            began = time.perf_counter()
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=PATIENCE * budget_of(system, options) + 60,
                )
            except subprocess.TimeoutExpired:
                return {"error": "did not end"}
            seconds.append(time.perf_counter() - began)
            if done.returncode != 0:
                return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
        scored = {**facts, "metric": facts.get("scored", facts["metric"])}
        return {"score": score(Path(files["out"]), test[facts["target"]], scored), "seconds": seconds}


def error_of(value: float, metric: str) -> float:
    """Difference to a perfect score."""
    return 1 - value if metrics.get(metric).greater_is_better else value


def show(results: dict[str, dict[str, Any]], facts_of: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """One line per table, and the geometric mean of the ratios."""
    systems, draws = options.systems.split(","), [int(draw) for draw in options.draws.split(",")]
    own, *rivals = systems
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {rival: [] for rival in rivals}
    for name, facts in facts_of.items():
        cells, errors = [name, facts["metric"]], dict[str, list[float]]()
        for system in systems:
            found = [results.get(f"{name}|{system}|{draw}", {}) for draw in draws]
            scores = [result["score"] for result in found if "score" in result]
            errors[system] = [error_of(value, facts["metric"]) for value in scores]
            spread = f" ± {format_score(float(np.std(scores, ddof=1)))}" if len(scores) > 1 else ""
            wall = [sum(result["seconds"]) for result in found if "score" in result]
            reason = next((result["error"] for result in found if "error" in result), "—")
            cells += (
                [f"{format_score(float(np.mean(scores)))}{spread}", f"{np.mean(wall):.0f}"] if scores else [reason, "—"]
            )
        for rival in rivals:
            if len(errors[own]) == len(errors[rival]) == len(draws):
                ratios[rival].append(float(np.mean(errors[own]) / np.mean(errors[rival])))
                cells.append(f"{ratios[rival][-1]:.3f}")
            else:
                cells.append("—")
        rows.append(cells)
    means = [f"{np.exp(np.mean(np.log(ratios[rival]))):.3f}" if ratios[rival] else "—" for rival in rivals]
    rows.append(["geometric mean", "", *[""] * (2 * len(systems)), *means])
    header = ["table", "metric", *[cell for system in systems for cell in (system, "seconds")]]
    facts = {
        **machine("torch", "xgboost", "catboost", "lightgbm"),
        "budget": " and ".join(dict.fromkeys(f"{budget_of(system, options)} s" for system in systems))
        + " together" * options.together
        + f", {options.at_once} at once" * (options.at_once > 0),
        "draws": len(draws),
    }
    right = range(2, 2 + 2 * len(systems) + len(rivals))
    report(facts, [*header, *(f"error / {rival}" for rival in rivals)], rows, results, options.out, right=tuple(right))


def run_alone(job: tuple[str, Callable[[], dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """A job's name and result."""
    return job[0], job[1]()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="tabapp,autogluon:best_quality")
    parser.add_argument("--autogluon", default="", help="the Python that has AutoGluon")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", default="0,1")
    parser.add_argument("--budget", type=int, default=120, help="seconds")
    parser.add_argument(
        "--together", action="store_true", help="run the systems at the same time on equal shares of the cores"
    )
    parser.add_argument("--at-once", type=int, default=0, help="jobs at the same time, each on its share of the cores")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--keep", type=Path, help="folder for run folders, tables and predictions")
    parser.add_argument("--out", type=Path, default=RESULTS / "rivals.json")
    options = parser.parse_args()
    systems: list[str] = options.systems.split(",")
    unknown = [system for system in systems if not re.fullmatch(r"(tabapp|autogluon)(:[^@]+)?(@[0-9]+)?", system)]
    if unknown or systems[0].partition("@")[0] != "tabapp":
        parser.error(
            "--systems takes tabapp and, after it, autogluon, autogluon:PRESET or tabapp:OPTION=VALUE, optionally with @SECONDS"
        )
    if options.together and options.at_once:
        parser.error("--together and --at-once exclude each other")
    if "autogluon" in options.systems and not options.autogluon:
        parser.error("--autogluon names the interpreter of an environment that has AutoGluon")
    entries = entries_of(parser, options.data, options.tables.split(","))
    if entries is None:
        return 0
    results = results_in(options.out)
    facts_of: dict[str, dict[str, Any]] = {}
    waiting: dict[str, Callable[[], dict[str, Any]]] = {}
    for entry in entries:
        name = entry["name"]
        facts_of[name] = facts_of_entry(entry)
        table = table_of_entry(options.data, entry)
        for draw in map(int, options.draws.split(",")):
            keys = {f"{name}|{system}|{draw}": system for system in systems}
            missing = [key for key in keys if "score" not in results.get(key, {})]
            # A system that ran beside another is not compared with one that had all cores.
            jobs = {
                key: partial(measure, keys[key], name, table, facts_of[name], draw, options)
                for key in (keys if missing and options.together else missing)
            }
            if options.at_once:
                waiting.update(jobs)
                continue
            for key, result in run_together(jobs, draw) if options.together and jobs else map(run_alone, jobs.items()):
                results[key] = result
                keep_results(options.out, results, key)
    if waiting:
        # The longest ones first, so that no core waits at the end.
        waiting = dict(sorted(waiting.items(), key=lambda job: -budget_of(job[0].split("|")[1], options)))
        for key, result in run_in_turn(waiting, options.at_once):
            results[key] = result
            keep_results(options.out, results, key)
    show(results, facts_of, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
