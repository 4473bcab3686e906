"""A node of a Ray cluster is lost: its fits are reported as lost, and the engine's next submission runs on another node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("ray")

from tabapp.engine.fit.jobs import Done, Failed
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.engine.remote.ray_cluster import Cluster
from tabapp.engine.remote.ray_executor import RayExecutor
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.engine.fit.test_executors import job
from tests.engine.remote.test_ray import ends_of, wait_for_begin
from tests.tables import write_breast_cancer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    # Files that Ray leaves open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    config = RunConfig(data=str(write_breast_cancer(tmp_path / "cancer.csv")), target="diagnosis", folds=3)
    folder = create_run(config, tmp_path / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    write_rows(folder, config, reading, schema, make_plan(config, schema))
    return folder


@pytest.fixture
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster as TestCluster

    # The head has no cores: every fit runs on the other node.
    cluster = TestCluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def test_the_fit_of_a_killed_node_runs_again_on_another(folder: RunFolder, nodes: Any) -> None:
    executor = RayExecutor(Cluster(nodes.address, 1))
    try:
        executor.submit(job(folder, "kept", "linear"))
        assert isinstance(ends_of(executor, {"kept"})["kept"][-1], Done)
        written = (folder.fits / "kept" / "metrics.json").stat().st_mtime_ns
        executor.submit(job(folder, "victim", "mlp", learning_rate=1e-9))
        wait_for_begin(executor, "victim")
        raylet = psutil.Process(next(iter(nodes.worker_nodes)).all_processes["raylet"][0].process.pid)
        for process in (*raylet.children(recursive=True), raylet):
            process.kill()
        failed = ends_of(executor, {"victim"})["victim"][-1]
        assert isinstance(failed, Failed)
        assert failed.lost
        nodes.add_node(num_cpus=1)
        executor.submit(job(folder, "again", "linear"))
        assert isinstance(ends_of(executor, {"again"})["again"][-1], Done)
        assert (folder.fits / "kept" / "metrics.json").stat().st_mtime_ns == written
    finally:
        executor.close()
