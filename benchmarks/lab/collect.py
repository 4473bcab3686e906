"""Fit configurations of many models on many tables, and keep what a replay needs: seconds, out-of-fold and test predictions.

python -m benchmarks.lab.collect [--tables a,b] [--draws 0,1] [--models a,b] [--trials 6] [--folds N] [--rows N]
                                 [--seconds 20] [--processes 2] [--data FOLDER] [--lab FOLDER]

Each draw takes at most 10,000 rows of a table, and sets a fifth of them apart for testing. --rows limits the rows for training, so
that a small table has many rows to test. The number of folds is that of a run, or --folds. For each model, trial 0 is its
defaults, the next are its portfolio, and the others are drawn at random from its search space; later folds reuse the steps of the
first as in a run. A model whose first trial takes longer than --seconds for each fold gets no further trial. Seconds are processor
time of one thread, so that other work on the machine hardly changes them. Fits that are in the cache are not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from benchmarks.product.rivals import METRICS, split
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import encode_target, typed_frame
from tabapp.engine.fit.candidates import pilots_of
from tabapp.engine.fit.features import features_folder
from tabapp.engine.fit.jobs import FitJob
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.plan.make_plan import approximate_shape
from tabapp.features.arrays import Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.run.record.folder import RunFolder, list_runs

MOST_ROWS = 10_000
MODELS = (
    "linear",
    "k_neighbors",
    "lightgbm",
    "hist_gradient_boosting",
    "xgboost",
    "random_forest",
    "extra_trees",
    "catboost",
    "realmlp",
    "tabm",
    "mlp",
    "resnet",
    "snn",
    "modern_nca",
    "tabr",
    "ft_transformer",
)
TABLES = (
    "german_credit",
    "titanic",
    "telco_churn",
    "pima_diabetes",
    "wine_quality_red",
    "wine_quality_white",
    "students_dropout",
    "concrete",
    "kin8nm",
    "power_plant",
    "house_prices",
    "bank_marketing",
    "adult",
    "california_housing",
    "bike_sharing_hour",
    "diamonds",
    "letter",
    "covertype",
    "mammography",
    "energy_efficiency",
    "auto_mpg",
    "ecoli",
    "horse_colic",
    "hotel_bookings",
)
LAB = Path(os.environ.get("TABAPP_LAB", "build/lab"))


def make_run(
    place: Path, entry: dict[str, Any], draw: int, n_folds: int | None, n_rows: int | None, data: Path
) -> None:
    """A run folder with the rows, schema and folds of a draw in `place/runs`, and the test rows in `place/test.csv`."""
    table = pl.read_csv(data / entry["file"], separator=entry["separator"], infer_schema=False)
    table = table.drop(entry["leak_or_id_columns"]).filter(pl.col(entry["target"]).is_not_null())
    if table.height > MOST_ROWS:
        table = table.sample(MOST_ROWS, seed=draw)
    train, test = split(table, entry["target"], entry["task"], draw)
    if n_rows is not None and train.height > n_rows:
        train = train.sample(n_rows, seed=draw)
    place.mkdir(parents=True)
    train.write_csv(place / "train.csv")
    test.write_csv(place / "test.csv")
    command = ["--auto", str(place / "train.csv"), "--target", entry["target"], "--task", entry["task"]]
    command += ["--metric", METRICS[entry["task"]], "--models", "linear", "--trials", "1"]
    command += ["--folds", str(n_folds)] if n_folds else []
    command += ["--validation", "cv", "--runs-dir", str(place / "runs"), "--out", str(place / "b.tabapp"), "--quiet"]
    subprocess.run([sys.executable, "-m", "tabapp", *command], check=True, capture_output=True)


class RandomTrial:
    """Draws hyperparameters at random from a search space.

    Args:
        seed: seed of the draws.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        if step is not None:
            return low + step * int(self._generator.integers(0, round((high - low) / step) + 1))
        if log:
            return float(np.exp(self._generator.uniform(np.log(low), np.log(high))))
        return float(self._generator.uniform(low, high))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        if log:
            return int(np.clip(round(self.suggest_float(name, low, high, log=True)), low, high))
        return low + step * int(self._generator.integers(0, (high - low) // step + 1))

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[int(self._generator.integers(len(choices)))]


def jobs_of(folder: RunFolder, model: str, n_trials: int, seconds: float) -> list[list[FitJob]]:
    """The fits of a model by trial; empty if it does not support the table."""
    plan = json.loads(folder.plan.read_bytes())
    data, plugin = RunData(folder), registry.get(model)
    shape = approximate_shape(data.schema, plan["n_classes"])
    task = plan["task"]
    if task not in plugin.tasks or plugin.supports(task, shape) is not None:
        return []
    fixed = [plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu")]
    drawn = [
        plugin.search_space(RandomTrial(seed_of(0, model, trial)), task, shape, "cpu") for trial in range(n_trials)
    ]
    return [
        [
            FitJob(
                fit=f"{model}-{trial:04d}-f{fold}",
                run=str(folder.path),
                model=model,
                trial=trial,
                fold=fold,
                params=msgspec.to_builtins(params),
                recipe=plugin.features_for(params),
                task=task,
                n_classes=plan["n_classes"],
                metric=plan["metric"],
                run_seed=plan["seed"],
                device="cpu",
                libraries="trees",
                n_threads=1,
                soft_deadline=seconds,
            )
            for fold in range(data.n_folds)
        ]
        for trial, params in enumerate([*fixed, *drawn][:n_trials])
    ]


def expectations(folder: RunFolder, model: str) -> dict[str, float]:
    """What the scheduler of a run knows of a model before its first fit: expected seconds, merit and the share of later folds."""
    plan = json.loads(folder.plan.read_bytes())
    plugin = registry.get(model)
    task, shape = plan["task"], approximate_shape(RunData(folder).schema, plan["n_classes"])
    params = plugin.defaults(task, shape, "cpu")
    return {
        "prior": plugin.cost(task, shape, params, "cpu").seconds,
        "merit": plugin.merit(task, shape),
        "later_share": plugin.later_share(shape),
    }


def fit_and_predict(job: FitJob, test: Path, out: Path) -> dict[str, Any]:
    """Run a fit, predict the test rows with its model, and write both predictions to `out`.

    Returns:
        The fit's seconds and scores, or its error.
    """
    folder = RunFolder(Path(job.run))
    assert job.soft_deadline is not None
    limited = msgspec.structs.replace(job, soft_deadline=time.monotonic() + job.soft_deadline)
    began, wall = time.process_time(), time.perf_counter()
    try:
        (result,) = run_fit(limited)
    except Exception as error:
        return {"fit": job.fit, "error": f"{type(error).__name__}: {error}"}
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    data = RunData(folder)
    frame = typed_frame(read_table(test, ReadOptions(delimiter=",")).frame, data.schema)
    preparer = FeaturePreparer.load(features_folder(folder, result.recipe, job.fold) / "state")
    began = time.process_time()
    prepared: Table = preparer.transform(frame)
    model = registry.get(job.model).load(folder.fits / job.fit / "model")
    prediction = model.predict(replace(prepared, target=None))
    predict_seconds = time.process_time() - began
    oof = np.load(folder.fits / job.fit / "oof.npy")
    with tempfile.NamedTemporaryFile(dir=out.parent, delete=False) as file:
        np.savez(file, oof=oof.astype(np.float32), test=prediction.astype(np.float32))
    os.replace(file.name, out)
    for path in (folder.fits / job.fit).rglob("*"):
        if path.is_file():
            path.unlink()
    return {
        "fit": job.fit,
        "score": result.score,
        "seconds": seconds,
        "wall": wall,
        "predict_seconds": predict_seconds,
        "params": job.params,
        "summary": result.summary,
        **expectations(folder, job.model),
    }


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    os.nice(5)


def collect(place: Path, entry: dict[str, Any], options: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Add the missing fits of a draw to its folder."""
    if not list_runs(place / "runs"):
        make_run(place, entry, place_draw(place), options.folds, options.rows, options.data)
    folder = list_runs(place / "runs")[0]
    fits = place / "fits"
    fits.mkdir(exist_ok=True)
    listing = place / "fits.jsonl"
    known = {record["fit"]: record for record in read_records(listing)}
    if not (place / "rows.npz").is_file():
        data = RunData(folder)
        test = typed_frame(read_table(place / "test.csv", ReadOptions(delimiter=",")).frame, data.schema)
        np.savez(place / "rows.npz", target=data.target, fold=data.fold, test=encode_target(test, data.schema))
        facts = {"table": entry["name"], "task": entry["task"], "metric": METRICS[entry["task"]]}
        (place / "table.json").write_text(json.dumps(facts))
    for model in options.models.split(","):
        for trial, jobs in enumerate(jobs_of(folder, model, options.trials, options.seconds)):
            n_pilots = pilots_of(registry.get(model), len(jobs))
            for part, pilots in ((jobs[:n_pilots], []), (jobs[n_pilots:], jobs[:n_pilots])):
                if any("summary" not in known[pilot.fit] for pilot in pilots):
                    # A fit failed whose steps the others would reuse.
                    continue
                summaries = tuple(known[pilot.fit]["summary"] for pilot in pilots)
                todo = [msgspec.structs.replace(job, pilots=summaries) for job in part if job.fit not in known]
                waiting: list[Future[dict[str, Any]]] = [
                    pool.submit(fit_and_predict, job, place / "test.csv", fits / f"{job.fit}.npz") for job in todo
                ]
                for done in as_completed(waiting):
                    record = done.result()
                    known[record["fit"]] = record
                    with listing.open("a") as file:
                        file.write(json.dumps(record) + "\n")
            records = [known[job.fit] for job in jobs if job.fit in known]
            errors = [record["error"] for record in records if "error" in record]
            spent = sum(record.get("seconds", 0.0) for record in records)
            print(f"{place.name}  {model}  {trial}  {errors[0] if errors else f'{spent:.1f} s'}", flush=True)
            if errors or spent > 0.9 * options.seconds * len(jobs):
                break


def place_draw(place: Path) -> int:
    """The draw of a folder named TABLE-DRAW."""
    return int(place.name.rsplit("-", 1)[1])


def read_records(listing: Path) -> list[dict[str, Any]]:
    """The records of complete fits."""
    if not listing.is_file():
        return []
    return [json.loads(line) for line in listing.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", default="0")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--trials", type=int, default=6, help="at most so many of each model")
    parser.add_argument("--folds", type=int, help="instead of as many as in a run")
    parser.add_argument("--rows", type=int, help="at most so many for training")
    parser.add_argument("--seconds", type=float, default=20.0, help="soft deadline of a fit")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--lab", type=Path, default=LAB)
    options = parser.parse_args()
    listing = options.data / "datasets.json"
    if not listing.is_file():
        print(f"{listing} is not there; name the folder of the tables with --data or TABAPP_DATA.", file=sys.stderr)
        return 0
    entries = {entry["name"]: entry for entry in json.loads(listing.read_text())}
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(options.processes, get_context("spawn"), _one_thread) as pool:
        for draw in options.draws.split(","):
            for name in options.tables.split(","):
                with contextlib.suppress(subprocess.CalledProcessError):
                    collect(options.lab / f"{name}-{draw}", entries[name], options, pool)
    return 0


if __name__ == "__main__":
    sys.exit(main())
