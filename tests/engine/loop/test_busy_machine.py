"""Runs on a machine that other programs use: start-up, hand-over and ending are part of the budget."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabapp.engine.session import Session
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, create_run
from tests.engine.test_run import events_of, tabapp
from tests.tables import write_mixed

N_LOOPS = 5


@contextmanager
def busy() -> Iterator[None]:
    """Programs that use all processors."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(N_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_the_start_of_the_engine_counts_towards_the_budget(tmp_path: Path) -> None:
    data = write_mixed(tmp_path / "mixed.csv", rows=100)
    config = RunConfig(data=str(data), target="price", budget=60.0, device="cpu", models=("linear",), start=True)
    folder = create_run(config, tmp_path / "runs")
    with folder.lock():
        assert Session(folder, age=60.0).run() == 4
    finished = EventReader(folder.events).read_new()[-1]
    assert isinstance(finished, ev.RunFinished)
    assert finished.seconds >= 60.0
    assert "The budget ended" in finished.message


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "budget"), [("price", 30), ("price,city", 60)])
def test_a_run_on_a_busy_machine_has_a_score_for_each_target_in_its_budget(
    targets: str, budget: int, tmp_path: Path
) -> None:
    data = write_mixed(tmp_path / "mixed.csv", rows=1000)
    with busy():
        began = time.monotonic()
        done = tabapp(
            *("--auto", str(data), "--target", targets, "--budget", f"{budget}s", "--json"),
            *("--runs-dir", str(tmp_path / "runs")),
        )
        seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert seconds <= 1.1 * budget + 5.0
    finished = events_of(done.stdout)[-1]
    assert all(result["best"] is not None for result in finished["targets"] or [finished])
