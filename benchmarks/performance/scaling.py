"""What the serial parts of the engine cost in a run of 10,000 fits, and how a run scales with the number of workers.

python -m benchmarks.performance.scaling [--fits 10000] [--workers 1,2,4,16,64] [--seconds 300] [--out FILE.json]

Serial parts: a real conductor with its scheduler for a time limit, Optuna on SQLite, leaderboard and ensemble selection runs on a
small table with simulated fits, which end as soon as the engine asks for them. The processor time of the engine's thread is added
up by its parts in blocks of fits; writing the simulated fits is left out. The ensemble is selected in a thread of its own.

Scaling: the scheduler of runs without a time limit gives recorded fits of `tests/recordings` to N workers in simulated time. The
engine starts one fit at a time and takes the measured serial seconds for each. "speed" is the seconds of all fits over those of one
worker, and "engine busy" the share of time in which the engine works. "Slower" repeats the simulation with ten times the seconds
for the run and for each fit, as on a table with ten times the rows.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from benchmarks.machine import RESULTS, Results, ResultTable, machine
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.engine.fit.servers import SERVERS
from tabapp.engine.loop import conductor as conductor_module
from tabapp.engine.loop.clock import Clock
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.moment import Setup
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.features.arrays import FeatureRecipe
from tabapp.headless.tables import plain_table
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, create_run
from tests.engine.conducting import Engine
from tests.recordings import FOLDER
from tests.tables import write_breast_cancer

MODELS = (
    "lightgbm",
    "xgboost",
    "catboost",
    "linear",
    "random_forest",
    "extra_trees",
    "hist_gradient_boosting",
    "k_neighbors",
)
RECORDINGS = ("cancer", "prices", "wine")
FOLDS = 5
BLOCKS = (100, 1_000, 2_500, 5_000, 10_000)
YEAR = 3.2e7
SLOWER = (1, 10)
START_SECONDS = 0.05
"""To start the process of a fit and to receive its result, including the mean wait for the engine's next look."""


class Enough(Exception):
    """The simulated run has as many fits as were asked for."""


@dataclass
class Meter:
    """Processor seconds of the current thread by part of the engine; the time of a part excludes that of parts inside it."""

    def __post_init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.thread_time()

    def switch(self) -> None:
        """Add the time since the last switch to the innermost open part."""
        now = time.thread_time()
        self.seconds[self._open[-1] if self._open else "other"] += now - self._since
        self._since = now

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Measure a method of an object, or a function of a module."""
        function = getattr(owner, name)

        def measured(*args: Any, **kwargs: Any) -> Any:
            self.switch()
            self._open.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch()
                self._open.pop()

        setattr(owner, name, measured)


def measure_engine(n_fits: int, place: Path) -> list[dict[str, Any]]:
    """Milliseconds of the engine's thread for each fit, by part, in blocks of fits."""
    table = write_breast_cancer(place / "cancer.csv")
    config = RunConfig(data=str(table), target="diagnosis", models=MODELS, folds=FOLDS, workers=16, device="cpu")
    folder = create_run(config, place / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    plan = msgspec.structs.replace(make_plan(config, schema), workers=16, memory_limit=2**50)
    write_rows(folder, config, reading, schema, plan)
    conductor_module.TICK_SECONDS = conductor_module.MOST_TICK_SECONDS = 0.0
    engine = Engine(folder, plan, Clock(YEAR, 0), 0)
    engine.executor.ready.update(SERVERS)
    conductor, meter = engine.conductor, Meter()
    ends = iter(sorted({n for n in BLOCKS if n < n_fits} | {n_fits}))
    blocks: list[dict[str, Any]] = []
    end, done, kept, selections = next(ends), 0, dict[str, float](), list[float]()
    finish = engine.executor._finish

    def finish_one(job: Any) -> FitResult:
        nonlocal done, end, kept
        done += 1
        if done > end:
            meter.switch()
            first = blocks[-1]["to"] if blocks else 0
            spent = {part: seconds - kept.get(part, 0.0) for part, seconds in meter.seconds.items()}
            per_fit = {part: 1e3 * s / (end - first) for part, s in spent.items() if part != "simulated fits"}
            blocks.append(
                {"from": first, "to": end, "ms_per_fit": per_fit, "selection_seconds": median(selections or [0.0])}
            )
            print(blocks[-1], flush=True)
            kept = dict(meter.seconds)
            selections.clear()
            following = next(ends, None)
            if following is None:
                raise Enough
            end = following
        return finish(job)

    engine.executor._finish = finish_one
    select = conductor.board._pool.submit

    def timed(function: Callable[..., Any], *args: Any) -> Any:
        def run() -> Any:
            began = time.thread_time()
            try:
                return function(*args)
            finally:
                selections.append(time.thread_time() - began)

        return select(run)

    conductor.board._pool.submit = timed
    meter.wrap(engine.executor, "poll", "simulated fits")
    meter.wrap(conductor.competition, "_new_trial", "Optuna: ask")
    meter.wrap(conductor._trials, "_record", "Optuna: tell")
    meter.wrap(conductor._trials, "prune", "Optuna: tell")
    meter.wrap(conductor.scheduler, "next_work", "scheduler")
    meter.wrap(conductor.board, "_measured_gain", "gain over the ensemble")
    meter.wrap(conductor.board, "rows", "leaderboard")
    meter.wrap(conductor.evaluations, "refresh", "evaluations")
    meter.wrap(conductor._display._meter, "measure", "resources")
    with suppress(Enough):
        conductor.run()
    conductor.board._pool.shutdown(wait=True)
    return blocks


def recorded_seconds() -> dict[str, list[float]]:
    """Seconds of the recorded fits of each model."""
    found: dict[str, list[float]] = defaultdict(list)
    for name in RECORDINGS:
        for event in EventReader(FOLDER / f"{name}.jsonl").read_new():
            if isinstance(event, ev.FitFinished):
                found[event.model].append(event.seconds)
    return found


def simulate(
    n_workers: int, seconds: float, fits: dict[str, list[float]], serial: float, slower: float
) -> dict[str, float]:
    """Fits and complete trials of a run in simulated time, and the shares of time in which workers and the engine are busy."""
    generator = random.Random(0)
    losses: dict[tuple[str, int], float] = {}
    competition = Competition(
        "roc_auc",
        FOLDS,
        trials=None,
        new_trial=lambda name: Candidate(name, len(competition.of_model(name)), {}, FOLDS),
        loss=lambda candidate: losses[candidate.key],
    )
    for name, each in fits.items():
        competition.add_model(ModelRecord(name, slower * median(each), False, 1.0, "gbdt", False))
    scheduler = Scheduler(
        Setup(
            competition=competition,
            workers=lambda device: n_workers,
            tune=True,
            race=False,
            gain=lambda candidate, beside=(): 0.0,
            weights=dict,
            clearly_behind=lambda candidate, other: False,
            is_timed=False,
        )
    )
    now = engine_free = engine_busy = worker_busy = 0.0
    running: list[tuple[float, int, Any, float]] = []
    numbers, n_done = itertools.count(), 0
    while True:
        while len(running) < n_workers:
            busy = {(*work.candidate.key, work.fold) for _, _, work, _ in running}
            work = scheduler.next_work(busy, seconds - now)
            if work is None:
                break
            begins = max(now, engine_free) + serial
            engine_busy, engine_free = engine_busy + serial, begins
            takes = slower * generator.choice(fits[work.candidate.model])
            heapq.heappush(running, (begins + START_SECONDS + takes, next(numbers), work, takes))
        if not running:
            # Nothing else ends in time.
            break
        now, _, work, takes = heapq.heappop(running)
        if now > seconds:
            break
        worker_busy, n_done = worker_busy + takes, n_done + 1
        candidate = work.candidate
        result = {"score": 0.9 + 0.01 * generator.random(), "seconds": takes, "predict_seconds": 0.0}
        candidate.results[work.fold] = msgspec.convert(
            {
                "fit": "",
                "model": candidate.model,
                "trial": candidate.trial,
                "fold": work.fold,
                "n_rows": 100,
                "summary": {},
                **result,
                "recipe": FeatureRecipe(),
            },
            FitResult,
            from_attributes=True,
        )
        losses[candidate.key] = -fmean(result.score for result in candidate.results.values())
        competition.models[candidate.model].spent += takes
        if candidate.is_complete:
            candidate.status = "complete"
    complete = sum(candidate.is_complete for candidate in competition.candidates.values())
    return {
        "fits": n_done,
        "complete_trials": complete,
        "workers_busy": worker_busy / (n_workers * seconds),
        "engine_busy": engine_busy / seconds,
    }


def serial_table(blocks: Sequence[dict[str, Any]]) -> ResultTable:
    """Milliseconds for each fit by part and block."""
    parts = sorted({part for block in blocks for part in block["ms_per_fit"]}, key=lambda part: (part == "other", part))
    columns = ["fits", *parts, "sum", "one selection"]
    rows = [
        [
            f"{block['from']:,} to {block['to']:,}",
            *(f"{block['ms_per_fit'].get(part, 0.0):.2f}" for part in parts),
            f"{sum(block['ms_per_fit'].values()):.2f}",
            f"{1e3 * block['selection_seconds']:.0f}",
        ]
        for block in blocks
    ]
    return ResultTable(
        name="milliseconds of the engine for each fit", columns=columns, right=list(range(1, len(columns))), rows=rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=BLOCKS[-1])
    parser.add_argument("--workers", default="1,2,4,16,64")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tabapp-scaling-") as place:
        blocks = measure_engine(options.fits, Path(place))
    serial = sum(blocks[-1]["ms_per_fit"].values()) / 1e3
    fits = recorded_seconds()
    found: list[dict[str, Any]] = []
    for slower in SLOWER:
        for n_workers in map(int, options.workers.split(",")):
            found.append(
                {
                    "workers": n_workers,
                    "slower": slower,
                    **simulate(n_workers, slower * options.seconds, fits, serial, slower),
                }
            )
    alone = {row["slower"]: row["workers_busy"] for row in found if row["workers"] == found[0]["workers"]}
    rows = [
        [
            f"{row['slower']}×",
            str(row["workers"]),
            f"{row['fits']:,}",
            f"{row['complete_trials']:,}",
            f"{row['workers_busy'] / alone[row['slower']] * row['workers']:.1f}×",
            f"{row['workers_busy']:.0%}",
            f"{row['engine_busy']:.1%}",
        ]
        for row in found
    ]
    columns = ["fits are slower", "workers", "fits", "complete trials", "speed", "workers busy", "engine busy"]
    scaling = ResultTable(name="simulated runs", columns=columns, right=list(range(len(columns))), rows=rows)
    tables = [serial_table(blocks), scaling]
    for table in tables:
        print("\n".join(plain_table(table.columns, table.rows, table.right)), flush=True)
    counts = {name: len(each) for name, each in fits.items()}
    results = Results(
        benchmark="scaling",
        title="Scaling with the number of workers",
        source=None,
        command="python -m benchmarks.performance.scaling",
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        machine=machine("optuna"),
        tables=tables,
        results={"blocks": blocks, "runs": found, "serial_seconds": serial, "recorded_fits": counts},
    )
    options.out.write_text(
        msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n", encoding="utf-8"
    )
    return 0 if math.isfinite(serial) else 1


if __name__ == "__main__":
    sys.exit(main())
