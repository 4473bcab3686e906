"""Every way a fit process ends: done, by exception, killed, over the memory limit, stopped, and with the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tabapp.engine.fit.executors import LocalExecutor
from tabapp.engine.fit.jobs import Done, Failed, FitJob, Message
from tabapp.engine.fit.library_loading import libraries_of
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.models import registry
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.tables import write_breast_cancer
from tests.waiting import HANG_SECONDS, wait_until

PLENTY = 2**40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("executors")
    config = RunConfig(data=str(write_breast_cancer(root / "cancer.csv")), target="diagnosis", folds=3)
    folder = create_run(config, root / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    write_rows(folder, config, reading, schema, make_plan(config, schema))
    return folder


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    executor = LocalExecutor(PLENTY)
    yield executor
    executor.close()


def job(folder: RunFolder, fit: str, model: str = "lightgbm", fold: int = 0, **params: object) -> FitJob:
    return FitJob(
        fit=fit,
        run=str(folder.path),
        model=model,
        trial=0,
        fold=fold,
        params=dict(params),
        recipe=registry.get(model).features(),
        task="binary",
        n_classes=2,
        metric="roc_auc",
        run_seed=0,
        device="cpu",
        libraries=libraries_of(registry.get(model), features_use_sklearn=True),
        n_threads=1,
        soft_deadline=None,
    )


def long_job(folder: RunFolder, fit: str) -> FitJob:
    return job(folder, fit, "mlp", learning_rate=1e-9)


def wait_for_end(executor: LocalExecutor, fit: str) -> Message:
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until:
        for message in executor.poll():
            if message.fit == fit and isinstance(message, Done | Failed):
                return message
        time.sleep(0.02)
    raise TimeoutError(fit)


def wait_for_progress(executor: LocalExecutor, fit: str) -> None:
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until:
        messages = executor.poll()
        assert not any(isinstance(message, Done | Failed) for message in messages), messages
        if any(message.fit == fit for message in messages):
            return
        time.sleep(0.02)
    raise TimeoutError(fit)


def test_a_fit_leaves_a_complete_folder_and_a_score(folder: RunFolder, executor: LocalExecutor) -> None:
    executor.submit(job(folder, "whole"))
    message = wait_for_end(executor, "whole")
    assert isinstance(message, Done)
    assert 0.9 < message.result.score <= 1.0
    assert {path.name for path in (folder.fits / "whole").iterdir()} == {
        "model",
        "oof.npy",
        "params.json",
        "metrics.json",
    }
    assert executor.running() == []


def test_an_exception_is_a_failure_with_its_traceback(folder: RunFolder, executor: LocalExecutor) -> None:
    executor.submit(job(folder, "wrong", no_such_parameter=1))
    message = wait_for_end(executor, "wrong")
    assert isinstance(message, Failed)
    assert "no_such_parameter" in message.reason
    assert "Traceback" in message.detail
    assert not message.died
    assert not (folder.fits / "wrong").exists()


@pytest.mark.slow
def test_a_killed_fit_is_a_failure_and_the_others_continue(folder: RunFolder, executor: LocalExecutor) -> None:
    pid = executor.submit(long_job(folder, "victim"))
    executor.submit(job(folder, "other", fold=1))
    os.kill(pid, signal.SIGKILL)
    ends: dict[str, Message] = {}
    until = time.monotonic() + HANG_SECONDS
    while len(ends) < 2 and time.monotonic() < until:
        ends |= {m.fit: m for m in executor.poll() if isinstance(m, Done | Failed)}
        time.sleep(0.02)
    assert isinstance(ends["victim"], Failed)
    assert "SIGKILL" in ends["victim"].reason
    assert ends["victim"].died
    assert isinstance(ends["other"], Done)
    assert not list(folder.fits.glob(".victim*"))


def test_a_fit_over_the_memory_limit_is_killed_with_that_reason(folder: RunFolder) -> None:
    executor = LocalExecutor(memory_limit=1)
    executor.submit(long_job(folder, "greedy"))
    message = wait_for_end(executor, "greedy")
    assert isinstance(message, Failed)
    assert "out of memory" in message.reason
    assert not message.died
    executor.close()


def test_a_cancelled_fit_stops_by_itself(folder: RunFolder, executor: LocalExecutor) -> None:
    executor.submit(long_job(folder, "unwanted"))
    wait_for_progress(executor, "unwanted")
    executor.cancel("unwanted")
    message = wait_for_end(executor, "unwanted")
    assert isinstance(message, Failed)
    assert message.stopped


def test_close_leaves_no_process(folder: RunFolder) -> None:
    executor = LocalExecutor(PLENTY)
    pid = executor.submit(long_job(folder, "left"))
    executor.close()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_fits_die_with_the_engine(folder: RunFolder) -> None:
    import msgspec

    program = (
        "import sys, time, msgspec\n"
        "from tabapp.engine.fit.executors import LocalExecutor\n"
        "from tabapp.engine.fit.jobs import FitJob\n"
        "if __name__ == '__main__':\n"
        "    executor = LocalExecutor(2**40)\n"
        "    print(executor.submit(msgspec.json.decode(sys.argv[1], type=FitJob)), flush=True)\n"
        "    time.sleep(3600)\n"
    )
    words = [sys.executable, "-c", program, msgspec.json.encode(long_job(folder, "orphan")).decode()]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        assert psutil.pid_exists(pid)
        engine.kill()
    wait_until(lambda: not psutil.pid_exists(pid), "the end of the fit")


def test_fits_do_not_use_the_scored_rows(folder: RunFolder, executor: LocalExecutor, tmp_path: Path) -> None:
    """A target of pure noise scores like random guessing on the held-out rows, unless the fit has seen them."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{i}": generator.normal(size=600) for i in range(5)})
    frame = frame.with_columns(
        city=pl.Series(generator.choice(list("abcdef"), 600)), y=pl.Series(generator.integers(0, 2, 600))
    )
    frame.write_csv(tmp_path / "noise.csv")
    config = RunConfig(data=str(tmp_path / "noise.csv"), target="y", folds=2)
    noise = create_run(config, tmp_path / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    write_rows(noise, config, reading, schema, make_plan(config, schema))
    for model in ("xgboost", "lightgbm", "mlp"):
        executor.submit(job(noise, f"noise-{model}", model))
        message = wait_for_end(executor, f"noise-{model}")
        assert isinstance(message, Done), message
        assert 0.38 < message.result.score < 0.62
