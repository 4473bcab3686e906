"""Time to explain a row and to change it: by the process that a screen asks, and by the command.

python -m benchmarks.performance.explaining DATA BUNDLE [BUNDLE …] [--members N] [--rows 10] [--repeats 3] [--out FILE.json]

The explainer process of the terminal UI has the bundle and answers one request after another, as the screen sends them: explain a
row; predict it with a changed value ("what if"); draw the curve over a column; find the nearest changes. The command is
`tabapp explain` for one row, from start to end. CPU is processor time (user and system) of all processes, which depends less on
what else the machine does than the seconds of the clock.

Instead of a BUNDLE, the folder of a finished run can be given: its N best models are bundled with equal weights. Such a bundle is
for timing only; the run selects fewer members if more do not lower its error. The results say so.

Exits with 1 if the median CPU time of a measurement is above its bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.machine import RESULTS, machine, report
from tabapp.bundle.files.contents import Contents, open_bundle
from tabapp.bundle.writing.write import BundleContents, write_bundle
from tabapp.data.reading.read import read_table
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.plan.write_rows import read_sample
from tabapp.run.protocol import row_requests as messages
from tabapp.run.record.folder import RunFolder

WARM_SECONDS, COLD_SECONDS = 1.5, 4.0
CHANGED_SECONDS = {"one booster": 0.15, "an ensemble": 0.5}
BOOSTERS = {"xgboost", "lightgbm", "catboost", "hist_gradient_boosting"}
Times = tuple[float, float]
"""Seconds of the clock, and of the processors."""


class Screen:
    """The explainer process, asked one request at a time."""

    def __init__(self, bundle: Path, data: Path) -> None:
        words = [sys.executable, "-P", "-m", "tabapp.processes.explainer", str(bundle), str(data)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: messages.AnyRequest) -> messages.AnyReply:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(messages.REQUESTS.encode(request))
        self._process.stdin.flush()
        reply = messages.REPLIES.decode(self._process.stdout.readline())
        if isinstance(reply, messages.Failed):
            raise SystemExit(reply.message)
        return reply

    def used(self) -> float:
        """Processor seconds of the process and its children so far."""
        own = psutil.Process(self._process.pid)
        return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True)))

    def measured(self, request: messages.AnyRequest) -> Times:
        before, began = self.used(), time.perf_counter()
        self.ask(request)
        return time.perf_counter() - began, self.used() - before

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def command(bundle: Path, data: Path) -> Times:
    """`tabapp explain` for one row, with its processes."""
    before, began = os.times(), time.perf_counter()
    words = [sys.executable, "-m", "tabapp", "explain", str(bundle), str(data), "--row", "0", "--json"]
    subprocess.run(words, check=True, capture_output=True)
    seconds, after = time.perf_counter() - began, os.times()
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def measure(bundle: Path, data: Path, contents: Contents, rows: int, repeats: int) -> dict[str, list[Times]]:
    """The times of each request, by what it is."""
    cells = read_table(data).frame.head(rows + 1)
    columns = [column.name for column in contents.schema.features]
    screen = Screen(bundle, data)
    found: dict[str, list[Times]] = {}

    def of_each_row(what: str, request: Callable[[int, str], messages.AnyRequest]) -> None:
        found[what] = [screen.measured(request(row, columns[row % len(columns)])) for row in range(1, cells.height)]

    try:
        # The first answers wait for the bundle and for imports.
        screen.ask(messages.PredictRow(row=0, values={}))
        screen.ask(messages.ExplainRow(row=0, values={}))
        of_each_row("explain a row", lambda row, _: messages.ExplainRow(row=row, values={}))
        # The value of another row.
        of_each_row(
            "what if: predict a changed row",
            lambda row, column: messages.PredictRow(row=row, values={column: cells[column][row - 1]}),
        )
        of_each_row("curve over a column", lambda row, column: messages.DrawCurve(row=row, values={}, column=column))
        if contents.schema.classes:
            label = contents.schema.classes[-1]
            of_each_row("nearest changes", lambda row, _: messages.FindChanges(row=row, values={}, goal=label))
    finally:
        screen.close()
    found["tabapp explain, one row"] = [command(bundle, data) for _ in range(repeats)]
    return found


def with_equal_weights(run_folder: Path, n_members: int, place: Path) -> Path:
    """A bundle of the best models of a run, the best trial of each, with equal weights.

    Raises:
        SystemExit: the run has fewer models with a score.
    """
    run = FinishedRun(RunFolder(run_folder))
    models = [row.model for row in run.state.leaderboard if row.score is not None and row.model != "ensemble"]
    if len(models) < n_members:
        raise SystemExit(f"{run_folder.name} has {len(models)} models with a score; --members asks for {n_members}.")
    manifest = run.contents.manifest
    bundle = place / f"{run_folder.name}-{n_members}.tabapp"
    write_bundle(
        bundle,
        BundleContents(
            run=manifest.run,
            name=manifest.name,
            schema=run.data.schema,
            metric=manifest.metric,
            # Nothing has scored this blend.
            metrics=(),
            validation=manifest.validation,
            leaderboard=manifest.leaderboard,
            seed=manifest.seed,
            data=manifest.data,
            created_at=manifest.created_at,
            candidates=[run.source_of(run.best_of(model), 1 / n_members) for model in models[:n_members]],
            sample=read_sample(run.folder),
            targets=dict(zip(run.numbers.tolist(), map(float, run.data.target), strict=True)),
        ),
    )
    return bundle


def bounds(kind: str) -> dict[str, float]:
    return {
        "explain a row": WARM_SECONDS,
        "what if: predict a changed row": CHANGED_SECONDS[kind],
        "tabapp explain, one row": COLD_SECONDS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE")
    parser.add_argument("--members", type=int, default=5, metavar="N", help="models of a run given by its folder")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "explaining.json")
    options = parser.parse_args()
    lines: list[list[str]] = []
    results: list[dict[str, Any]] = []
    is_met = True
    with tempfile.TemporaryDirectory() as place:
        for given in options.bundles:
            is_run = given.is_dir()
            bundle = with_equal_weights(given, options.members, Path(place)) if is_run else given
            contents = open_bundle(bundle)
            models = [candidate.model for candidate in contents.ensemble.candidates]
            folds = sum(len(candidate.folds) for candidate in contents.ensemble.candidates)
            kind = "one booster" if len(models) == 1 and models[0] in BOOSTERS else "an ensemble"
            found = measure(bundle, options.data, contents, options.rows, options.repeats)
            weights = "equal, for timing only" if is_run else "selected by the run"
            results.append(
                {
                    "bundle": bundle.name,
                    "models": models,
                    "weights": weights,
                    "fold_models": folds,
                    "seconds_and_cpu": found,
                }
            )
            what_it_is = f"{', '.join(models)} ({folds} fold models{', equal weights' if is_run else ''})"
            for what, times in found.items():
                seconds, cpu = ([each[i] for each in times] for i in (0, 1))
                bound = bounds(kind).get(what)
                is_met = is_met and (bound is None or statistics.median(cpu) <= bound)
                numbers = [statistics.median(seconds), max(seconds), statistics.median(cpu), max(cpu)]
                shown = [f"{value:.3f} s" for value in numbers]
                lines.append([what_it_is, what, *shown, "" if not bound else f"{bound:g} s"])
    header = ["bundle", "measurement", "median", "largest", "median CPU", "largest CPU", "bound"]
    report(machine("numpy", "polars"), header, lines, msgspec.to_builtins(results), options.out, right=(2, 3, 4, 5, 6))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
