"""Fits on a Ray cluster of this machine: every way that they end. The slow tests run whole tables on two nodes and kill one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("ray")

from tabapp.engine.fit.jobs import Done, Failed, FitJob, Message, Started
from tabapp.engine.machine.capacity import Machines
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.engine.remote.ray_cluster import TOKEN_BYTES, Cluster
from tabapp.engine.remote.ray_executor import RayExecutor
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.fit.test_executors import job
from tests.tables import write_breast_cancer
from tests.waiting import HANG_SECONDS

ADVANCE_SECONDS = 0.05

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    # Files that Ray leaves open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("ray")
    config = RunConfig(data=str(write_breast_cancer(root / "cancer.csv")), target="diagnosis", folds=3)
    folder = create_run(config, root / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    write_rows(folder, config, reading, schema, make_plan(config, schema))
    return folder


@pytest.fixture(scope="module")
def executor(folder: RunFolder) -> Iterator[RayExecutor]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        cluster = Cluster(None, cores=2)
        cluster.check_shared(folder.path)
        executor = RayExecutor(cluster)
        yield executor
        executor.close()


def ends_of(executor: RayExecutor, fits: set[str]) -> dict[str, list[Message]]:
    """The messages of some fits until all of them have ended."""
    messages: dict[str, list[Message]] = {fit: [] for fit in fits}
    until = time.monotonic() + HANG_SECONDS
    while not all(sent and isinstance(sent[-1], Done | Failed) for sent in messages.values()):
        assert time.monotonic() < until, messages
        for message in executor.poll():
            messages[message.fit].append(message)
        time.sleep(ADVANCE_SECONDS)
    return messages


def wait_for_begin(executor: RayExecutor, fit: str) -> Started:
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until:
        for message in executor.poll():
            if isinstance(message, Started) and message.fit == fit:
                return message
        time.sleep(ADVANCE_SECONDS)
    raise TimeoutError(fit)


def quick_job(folder: RunFolder, fit: str, **params: object) -> FitJob:
    return job(folder, fit, "linear", **params)


def test_fits_end_with_a_result_or_the_error_of_the_model(folder: RunFolder, executor: RayExecutor) -> None:
    executor.submit(quick_job(folder, "whole"))
    executor.submit(quick_job(folder, "wrong", no_such_parameter=1))
    messages = ends_of(executor, {"whole", "wrong"})
    done, failed = messages["whole"][-1], messages["wrong"][-1]
    assert isinstance(done, Done)
    assert 0.9 < done.result.score <= 1.0
    assert (folder.fits / "whole" / "oof.npy").is_file()
    assert isinstance(messages["whole"][0], Started)
    assert isinstance(failed, Failed)
    assert "no_such_parameter" in failed.reason
    assert not failed.died
    assert executor.running() == []


def test_a_killed_process_is_reported_once_and_the_cluster_continues(folder: RunFolder, executor: RayExecutor) -> None:
    executor.submit(job(folder, "victim", "mlp", learning_rate=1e-9))
    os.kill(wait_for_begin(executor, "victim").pid, signal.SIGKILL)
    failed = ends_of(executor, {"victim"})["victim"][-1]
    assert isinstance(failed, Failed)
    assert failed.died
    assert not (folder.fits / "victim").exists()


def test_a_cancelled_fit_stops_by_itself(folder: RunFolder, executor: RayExecutor) -> None:
    executor.submit(job(folder, "unwanted", "mlp", learning_rate=1e-9))
    wait_for_begin(executor, "unwanted")
    executor.cancel("unwanted")
    failed = ends_of(executor, {"unwanted"})["unwanted"][-1]
    assert isinstance(failed, Failed)
    assert failed.stopped


def test_a_folder_that_a_node_does_not_see_is_named(
    folder: RunFolder, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tabapp.engine.remote import ray_cluster

    # The file is not where the nodes look for it.
    monkeypatch.setattr(ray_cluster.files, "write_text", lambda path, text: None)
    with pytest.raises(UsageError, match=r"does not see the run folder .* \(FileNotFoundError"):
        executor._cluster.check_shared(folder.path)
    assert not list(folder.path.glob(".shared-*"))


def test_a_missing_cluster_is_named() -> None:
    with pytest.raises(UsageError, match=r"There is no Ray cluster at 127\.0\.0\.1:1 \(Connection refused"):
        Cluster("127.0.0.1:1", 1)


CONNECT = (
    "import sys; from tabapp.engine.remote.ray_cluster import Cluster; print(len(Cluster(sys.argv[1], 1).nodes()))"
)


@pytest.mark.parametrize("token", ["right", "wrong", "none"])
def test_a_cluster_that_tabapp_starts_needs_its_token(executor: RayExecutor, token: str) -> None:
    environment = {**os.environ, "RAY_NUM_REDIS_GET_RETRIES": "1"}
    assert environment["RAY_AUTH_MODE"] == "token"
    assert len(environment["RAY_AUTH_TOKEN"]) == 2 * TOKEN_BYTES
    if token == "wrong":
        environment["RAY_AUTH_TOKEN"] = "0" * 64
    if token == "none":
        del environment["RAY_AUTH_TOKEN"], environment["RAY_AUTH_MODE"]
    address: str = executor._ray.get_runtime_context().gcs_address
    words = [sys.executable, "-c", CONNECT, address]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS)
    if token == "right":
        assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
    else:
        last = done.stderr.strip().splitlines()[-1]
        assert f"No Ray cluster at {address} accepts this machine (Failed to connect" in last, done.stderr
        assert "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in last


def test_the_plan_of_a_cluster_uses_all_nodes_and_bounds_a_fit_by_the_largest(folder: RunFolder) -> None:
    config = RunConfig(data=folder.config().data, target="diagnosis", models=("linear", "mlp"))
    reading = read_data(config)
    schema = infer(reading, config)
    plan = make_plan(config, schema, machines=Machines(cores=64, gpus=2, largest_cores=2, largest_memory=2**33))
    assert (plan.workers, plan.n_threads, plan.device, plan.memory_limit) == (16, 2, "cuda:0", 2**33)
    plan = make_plan(config, schema, machines=Machines(cores=3, gpus=0, largest_cores=2, largest_memory=2**33))
    assert (plan.workers, plan.n_threads, plan.device) == (3, 1, "cpu")


@pytest.fixture
def two_nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster as TestCluster

    cluster = TestCluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def start_run(table: Path, target: str, folder: Path, address: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--target", target, "--json", "--executor", "ray"]
    command += ["--address", address, "--runs-dir", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_run_on_two_nodes_scores_like_a_local_one_although_a_node_is_killed(two_nodes: Any, tmp_path: Path) -> None:
    table = write_breast_cancer(tmp_path / "cancer.csv")
    options = ("--trials", "2", "--models", "linear,lightgbm,xgboost,mlp", "--folds", "3", "--seed", "3")
    process = start_run(table, "diagnosis", tmp_path / "runs", two_nodes.address, *options)
    events: list[dict[str, Any]] = []
    killed = False
    for event in events_of(process):
        events.append(event)
        if not killed and sum(each["ev"] == "fit.finished" for each in events) >= 3:
            node = next(iter(two_nodes.worker_nodes))
            raylet = node.all_processes["raylet"][0].process.pid
            for child in psutil.Process(raylet).children(recursive=True):
                child.kill()
            psutil.Process(raylet).kill()
            killed = True
    assert killed
    assert process.wait(HANG_SECONDS) == 0
    finished = [event["fit"] for event in events if event["ev"] == "fit.finished"]
    assert len(finished) == len(set(finished))
    local = tmp_path / "local"
    command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--target", "diagnosis", "--json"]
    done = subprocess.run(
        [*command, "--runs-dir", str(local), *options], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    expected = json.loads(done.stdout.splitlines()[-1])
    scores = [{row["model"]: row["score"] for row in run["leaderboard"]} for run in (events[-1], expected)]
    assert scores[0] == scores[1]
