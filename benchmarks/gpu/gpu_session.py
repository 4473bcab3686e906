"""Measurements on a GPU in one command that ends in time. The next call continues where it stopped.

python -m benchmarks.gpu.gpu_session [--seconds 540] [--steps a,b] [--data FOLDER] [--logs FOLDER] [--device cuda] [--list]

A step is a test or a command of this folder. Commands keep every result in their file as soon as it is there, and do not repeat
what the file has. Steps start in their order while the time that they need at least is left, and end when it is over. The output
of a step is kept in --logs. Without --steps, those run that are not complete after one call.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.devices import TABLES

LINES_SHOWN = 40
SECONDS_TO_STOP = 10.0
"""Time for a step to end after it was asked to."""
RUN_SECONDS = 150
"""Of both runs on a table, at the same time."""
RUNS = "benchmarks/results/devices_120s.json"


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        arguments: module and options; {seconds}, {data} and {device} are replaced.
        least: seconds below which it does not start.
        most: seconds that it may take.
        in_every_call: it starts without being named.
    """

    name: str
    arguments: str
    least: int
    most: int
    in_every_call: bool = True


GPU_TESTS = "tests/nn tests/engine tests/plugins tests/test_gpus.py"
STEPS = (
    Step(
        "tuned",
        "papers.ft_transformer_tuned --full --device {device}:0 --processes 10 --data {data} --seconds {seconds}",
        60,
        540,
    ),
    Step("tests", f"pytest -q -n 8 -m gpu --timeout 100 {GPU_TESTS}", 60, 120),
    *(
        Step(
            f"run_{name}",
            f"benchmarks.gpu.devices --tables {name} --out-of-fold --data {{data}} --out {RUNS}",
            RUN_SECONDS,
            RUN_SECONDS + 10,
        )
        for name in TABLES
    ),
    Step("boosters", "benchmarks.gpu.boosters_on_gpu --threads 8 --seconds {seconds}", 40, 110),
    Step("agreement", "benchmarks.gpu.boosters_on_gpu --agreement --data {data} --seconds {seconds}", 60, 120, False),
    Step("start", "benchmarks.gpu.gpu_start --device {device} --limit {seconds}", 60, 90, False),
    Step("stacked", "benchmarks.performance.stacked_fits mlp --trials 16 --device {device}", 30, 60, False),
    Step(
        "ft_transformer",
        "papers.ft_transformer_speed --device {device} --rows 512,4096 --features 50",
        45,
        75,
        False,
    ),
    Step(
        "npt_paper",
        "papers.npt.paper --full --device {device}:0 --processes 1 --steps boston=4000,yacht=10000 --data {data}"
        " --seconds {seconds}",
        400,
        540,
        False,
    ),
)
OUTPUTS = {"stacked": "stacked_trials_gpu", "ft_transformer": "ft_transformer_speed_gpu"}
"""Results files that are not named after their module."""


def command_of(step: Step, seconds: int, options: argparse.Namespace) -> list[str]:
    """The command of a step that has some seconds left."""
    values = {"seconds": str(seconds), "data": str(options.data), "device": options.device}
    command = [sys.executable, "-m", *(part.format(**values) for part in step.arguments.split())]
    if step.name in OUTPUTS:
        command += ["--out", f"benchmarks/results/{OUTPUTS[step.name]}.json"]
    return command


def take(step: Step, seconds: int, options: argparse.Namespace) -> int:
    """Run a step, and print the end of its output; returns its exit code."""
    log = options.logs / f"{step.name}.log"
    started = time.monotonic()
    with log.open("w") as file:
        # A group of its own: the processes of a step must not stay on the GPU after it.
        process = subprocess.Popen(
            command_of(step, seconds, options), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        for signum, patience in ((None, seconds), (signal.SIGINT, SECONDS_TO_STOP), (signal.SIGKILL, None)):
            if signum is not None:
                os.killpg(process.pid, signum)
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                continue
    lines = log.read_text(errors="replace").splitlines()[-LINES_SHOWN:]
    took = time.monotonic() - started
    print(f"== {step.name}: exit code {process.returncode}, {took:.0f} s", *lines, sep="\n", flush=True)
    return process.returncode


def main(steps: tuple[Step, ...] = STEPS) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=540)
    parser.add_argument("--steps", default="")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--logs", type=Path, default=Path("gpu_session_logs"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true", help="print the steps")
    options = parser.parse_args()
    named = {name for name in options.steps.split(",") if name}
    unknown = named - {step.name for step in steps}
    if unknown:
        parser.error(f"no step is called {', '.join(sorted(unknown))}")
    if options.list:
        for step in steps:
            print(f"{step.name:24}{step.least:>4} … {step.most} s  {step.arguments}")
        return 0
    end = time.monotonic() + options.seconds
    options.logs.mkdir(parents=True, exist_ok=True)
    codes: list[int] = []
    for step in steps:
        left = int(end - time.monotonic() - SECONDS_TO_STOP)
        if (step.name in named if named else step.in_every_call) and left >= step.least:
            codes.append(take(step, min(left, step.most), options))
    return max(map(abs, codes), default=0)


if __name__ == "__main__":
    sys.exit(main())
