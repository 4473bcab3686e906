"""Experiments of the papers' size end after a time and continue with the same results."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.document import ROOT
from benchmarks.machine import write_results
from benchmarks.performance.resuming import Job, earlier_results, run_cells, run_jobs
from papers.ft_transformer_tuned import WINDOW, Tuning, packed, unpacked
from papers.npt.paper import Splits, lines, steps_of
from papers.tests.paper_tables import write_tables


def twice(n: int) -> Iterator[int]:
    yield n
    yield 10 * n


def once(n: int) -> Iterator[int]:
    yield n


def failing() -> Iterator[int]:
    yield 1
    raise ValueError("no such luck")


def dying() -> Iterator[int]:
    os._exit(3)
    yield 0


def endless() -> Iterator[int]:
    yield 7
    time.sleep(600)


def done(jobs: list[Job], seconds: float = 60.0) -> tuple[bool, list[tuple[str, Any]]]:
    """Whether `run_jobs` did all jobs, and what it recorded."""
    found: list[tuple[str, Any]] = []
    started: set[str] = set()

    def following(taken: Collection[str]) -> Job | None:
        job = next((job for job in jobs if job.key not in taken | started), None)
        started.update([job.key] if job else [])
        return job

    is_complete = run_jobs(
        following, lambda key, result: found.append((key, result)), processes=2, seconds=seconds, preload=[__name__]
    )
    assert not multiprocessing.active_children()
    return is_complete, found


@pytest.mark.slow
def test_every_result_of_every_job_is_recorded() -> None:
    is_complete, found = done([Job(f"job {n}", twice, (n,)) for n in range(5)])
    assert is_complete
    assert sorted(found) == sorted((f"job {n}", value) for n in range(5) for value in (n, 10 * n))


def test_jobs_that_fail_or_die_do_not_stop_others(capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [Job("bad", failing, ()), Job("dead", dying, ()), *(Job(f"job {n}", twice, (n,)) for n in range(3))]
    is_complete, found = done(jobs)
    assert not is_complete
    assert len(found) == 7
    said = capfd.readouterr().err
    assert "bad failed" in said
    assert "no such luck" in said
    assert "dead failed: the process has died" in said


@pytest.mark.slow
def test_jobs_in_flight_end_with_the_time() -> None:
    began = time.monotonic()
    is_complete, found = done([Job("long", endless, ())], seconds=8.0)
    assert time.monotonic() - began < 30
    assert not is_complete
    assert found == [("long", 7)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of tables."""
    return write_tables(tmp_path_factory.mktemp("resuming") / "data")


def tuning(data: Path, n_trials: int, known: dict[str, Any] | None = None) -> Tuning:
    options = argparse.Namespace(data=data, rows=200, epochs=1, trials=n_trials, seeds=5, device="cpu")
    return Tuning("california_sklearn", options, known or {})


def finish(tuned: Tuning, n_jobs: int, n_open: int, order: np.random.Generator) -> None:
    """Finish some jobs with made results, in random order of those in flight."""
    in_flight: dict[str, Job] = {}
    for _ in range(n_jobs):
        while len(in_flight) < n_open and (job := tuned.following(in_flight)) is not None:
            in_flight[job.key] = job
        if not in_flight:
            return
        key = sorted(in_flight)[order.integers(len(in_flight))]
        _, params, seed, _ = in_flight.pop(key).arguments
        valid = abs(np.log(params.learning_rate) + 8) + params.attention_dropout + 0.01 * seed
        prediction = packed(np.full(200 - int(0.8 * 200), valid))
        raw = {
            "params": msgspec.to_builtins(params),
            "valid": valid,
            "test": valid,
            "seconds": 1.0,
            "prediction": prediction,
        }
        tuned.record(key, raw)


def test_a_search_depends_neither_on_timing_nor_on_interruptions(data: Path) -> None:
    n_trials = 2 * WINDOW + 5
    whole = tuning(data, n_trials)
    finish(whole, 1000, 1, np.random.default_rng(0))
    saved = whole.saved()
    assert [each["number"] for each in saved["trials"]] == list(range(n_trials))
    assert len({json.dumps(each["values"], sort_keys=True) for each in saved["trials"]}) == n_trials
    assert saved["trials"][0]["params"] == saved["fits"]["default"][0]["params"]
    assert len(saved["ensembles"]["tuned"]) == 1
    assert "prediction" not in json.dumps(saved)
    best = min(each["valid"] for each in saved["trials"])
    assert all(each["valid"] - 0.01 * each["seed"] == pytest.approx(best) for each in saved["fits"]["tuned"])

    order = np.random.default_rng(1)
    known: dict[str, Any] = {}
    for _ in range(50):
        parts = tuning(data, n_trials, known)
        finish(parts, 7, 6, order)
        # Trials in flight are lost with the call.
        known = json.loads(json.dumps(parts.saved()))
    assert known == json.loads(json.dumps(saved))


def test_more_trials_continue_a_shorter_search(data: Path) -> None:
    short = tuning(data, WINDOW + 3)
    finish(short, 1000, 1, np.random.default_rng(0))
    longer = tuning(data, 2 * WINDOW, short.saved())
    finish(longer, 1000, 1, np.random.default_rng(0))
    whole = tuning(data, 2 * WINDOW)
    finish(whole, 1000, 1, np.random.default_rng(0))
    assert longer.saved() == whole.saved()


def test_predictions_keep_their_bits() -> None:
    values = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    assert (unpacked(json.loads(json.dumps(packed(values)))) == values).all()


def result(experiment: str, split: int, **facts: Any) -> dict[str, Any]:
    return {"experiment": experiment, "table": "boston", "split": split, **facts}


def test_splits_without_all_experiments_are_repeated(data: Path) -> None:
    fit = {"metric": "rmse", "test": 3.0, "steps": 4000, "parameters": 168_000_000, "seconds": 1.0}
    options = argparse.Namespace(splits=2, seconds=100.0)
    known = [result("fit", n, **fit) for n in range(2)] + [result("corruption", n, change=-20.0 - n) for n in range(2)]
    distances = {"kept": [1.0, 2.0], "random": [2.0, 4.0], "deleted": [3.0, 3.0]}
    splits = Splits(["boston"], options, [*known, result("deletion", 0, distances=distances)])
    job = splits.following([])
    assert job is not None
    assert job.key == "boston 1"
    assert splits.following(["boston 1"]) is None
    splits.record(result("fit", 1, **{**fit, "test": 2.0, "steps": 3000}))
    assert [each["split"] for each in splits.of("boston", "corruption")] == [0]
    test, corrupted, deleted = lines(splits, "boston")
    assert test == [
        "boston",
        "test RMSE",
        "168 million parameters, 3,000 to 4,000 steps",
        "2",
        "2.500 ± 0.707",
        "2.92 ± 0.15",
        "-0.420",
    ]
    assert corrupted[3:] == ["1", "-20.0 %", "-20 %", "+0.0 points"]
    assert deleted[1] == "rows kept by deletion, 2 times"
    assert lines(splits, "yacht") == []


def test_a_split_does_not_start_without_time_for_its_least_steps() -> None:
    fit = result("fit", 0, metric="accuracy", test=0.9, steps=6, parameters=1, seconds=60.0)
    known = [fit, result("corruption", 0, change=0.0)]
    for seconds, expected in ((23.0, "boston 1"), (20.0, None)):
        splits = Splits(["boston"], argparse.Namespace(splits=2, seconds=seconds), known)
        job = splits.following([])
        assert (job and job.key) == expected


def test_steps_of_all_tables_or_of_each() -> None:
    assert steps_of("", ["a", "b"]) == {}
    assert steps_of("6", ["a", "b"]) == {"a": {"n_steps": 6}, "b": {"n_steps": 6}}
    assert steps_of("a=6,b=7", ["a", "b"]) == {"a": {"n_steps": 6}, "b": {"n_steps": 7}}


@pytest.mark.slow
def test_a_continued_command_writes_what_one_call_writes(data: Path, tmp_path: Path) -> None:
    def call(out: str, arguments: str) -> dict[str, Any]:
        path = tmp_path / f"{out}.json"
        fixed = f"--data {data} --out {path} --rows 100 --epochs 1"
        command = [sys.executable, "-m", "papers.ft_transformer_tuned", *shlex.split(f"{fixed} {arguments}")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=600)
        return json.loads(path.read_text())["results"]

    def timeless(results: dict[str, Any]) -> str:
        for found in results["tables"].values():
            for each in [*found["trials"], *found["fits"]["default"], *found["fits"]["tuned"]]:
                assert each.pop("seconds") >= 0
        return json.dumps(results)

    assert call("parts", "--trials 3 --seconds 0")["tables"]["california_sklearn"]["trials"] == []
    call("parts", "--trials 1 --seeds 3")
    parts, whole = call("parts", "--trials 3 --seeds 5"), call("whole", "--trials 3 --seeds 5 --processes 1")
    assert len(whole["tables"]["california_sklearn"]["ensembles"]["tuned"]) == 1
    assert timeless(parts) == timeless(whole)


def test_finished_cells_are_not_computed_again() -> None:
    cells: dict[str, Any] = {"job 0": -1}
    written: list[int] = []
    jobs = [Job(f"job {n}", once, (n,)) for n in range(3)]
    assert run_cells(jobs, cells, lambda: written.append(len(cells)), processes=1, seconds=60, preload=[__name__])
    assert cells == {"job 0": -1, "job 1": 1, "job 2": 2}
    assert written == [2, 3]


def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert earlier_results(path, {"rows": 5}) == {}
    write_results(path, {}, ["a"], [["1"]], [1.0])
    assert earlier_results(path, {"rows": 5}) == {}
    write_results(path, {}, ["a"], [["1"]], {"settings": {"rows": 5}, "cells": {"x": 1}})
    assert earlier_results(path, {"rows": 5})["cells"] == {"x": 1}
    with pytest.raises(SystemExit, match=r"has results of \{'rows': 5\}, not of \{'rows': 6\}"):
        earlier_results(path, {"rows": 6})
