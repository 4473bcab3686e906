"""Spare fit processes, which a run keeps for a GPU; a test device stands for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import msgspec
import psutil
import pytest

from tabapp.engine.fit import spares as spares_module
from tabapp.engine.fit.executors import LocalExecutor
from tabapp.engine.fit.jobs import Done, Failed
from tabapp.engine.fit.servers import SERVERS
from tabapp.engine.fit.spares import Spares, keep_spare
from tabapp.engine.machine import warm_up as warm_up_module
from tabapp.engine.machine.warm_up import fit_small, warm_up
from tabapp.models.stated import warming_up
from tabapp.run.record.folder import RunFolder
from tests.engine.fit.test_executors import PLENTY, folder, job, long_job, wait_for_end, wait_for_progress
from tests.waiting import HANG_SECONDS, wait_until

__all__ = ["folder"]

pytestmark = pytest.mark.slow
DEVICE = "cpu"
"""A fit runs on it, so that the jobs of these tests do, too."""


def nap(device: str, is_awaited: Callable[[], bool]) -> None:
    """Take long, unless a job arrives."""
    until = time.monotonic() + HANG_SECONDS
    while not is_awaited() and time.monotonic() < until:
        time.sleep(0.01)


def fail(device: str, is_awaited: Callable[[], bool]) -> None:
    """Find after a while that the device does not work."""
    time.sleep(1.0)
    raise RuntimeError(device)


@pytest.fixture
def keep() -> Iterator[Callable[..., tuple[Spares, LocalExecutor]]]:
    """Keeps a spare for the test device; returns it once it runs, with an executor."""
    made: list[Spares] = []

    def make(warm_up: Callable[[str, Callable[[], bool]], None]) -> tuple[Spares, LocalExecutor]:
        spares = Spares(warm_up)
        executor = LocalExecutor(PLENTY, DEVICE, spares)
        made.append(spares)
        spares.keep(DEVICE)
        wait_until(lambda: bool(spares.pids()), "a spare")
        return spares, executor

    yield make
    for spares in made:
        spares.stop()


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_spare_runs_a_fit_and_is_replaced(
    folder: RunFolder, keep: Callable[..., tuple[Spares, LocalExecutor]]
) -> None:
    spares, executor = keep(nap)
    (first,) = spares.pids()
    assert executor.running() == [], "a spare is no fit"
    alone = executor.overhead(fresh=True)
    pid = executor.submit(job(folder, "in-spare", "mlp", max_epochs=1))
    assert pid == first
    (second,) = spares.pids()
    assert second != first
    end = wait_for_end(executor, "in-spare")
    assert isinstance(end, Done), end
    executor.close()
    assert is_gone(second)
    assert spares.pids() == []
    assert executor.overhead(fresh=True) < alone, "the memory of a spare counts"


def test_a_fit_in_a_spare_has_the_result_of_another(
    folder: RunFolder, keep: Callable[..., tuple[Spares, LocalExecutor]]
) -> None:
    _, executor = keep(warm_up)
    warm, cold = (job(folder, name, "mlp", max_epochs=3, dropout=0.2) for name in ("warm", "cold"))
    executor.submit(warm)
    ends = [wait_for_end(executor, "warm")]
    executor.close()
    executor.submit(cold)
    ends.append(wait_for_end(executor, "cold"))
    first, second = (end.result.score for end in ends if isinstance(end, Done))
    assert first == second


@pytest.mark.gpu
def test_a_fit_in_a_warm_process_on_a_gpu_has_the_result_of_another(folder: RunFolder) -> None:
    device, spares = "cuda:0", Spares()
    executor = LocalExecutor(PLENTY, device, spares)
    executor.prepare("torch")
    wait_until(lambda: bool(spares.pids()), "a spare")
    scores: list[float] = []
    for name in ("warm", "cold"):
        known = spares.pids()
        fit = job(folder, f"{name}-gpu", "mlp", max_epochs=3, dropout=0.2)
        pid = executor.submit(msgspec.structs.replace(fit, device=device))
        assert (pid in known) == (name == "warm")
        end = wait_for_end(executor, fit.fit)
        assert isinstance(end, Done), end
        scores.append(end.result.score or 0.0)
        executor.close()
    assert scores[0] == scores[1]


@pytest.mark.gpu
@pytest.mark.parametrize("name", warming_up())
def test_the_networks_of_the_warm_up_can_be_fitted_on_a_gpu(name: str) -> None:
    fit_small(name, "cuda:0")


@pytest.mark.parametrize("name", warming_up())
def test_the_networks_of_the_warm_up_can_be_fitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(warm_up_module, "fit_small", lambda name, device: asked.append(name))
    warm_up("cpu", lambda: bool(asked))
    assert asked == warming_up()[:1], "a job that waits comes before the next network"
    monkeypatch.undo()
    fit_small(name, "cpu")


def test_a_spare_can_be_cancelled(folder: RunFolder, keep: Callable[..., tuple[Spares, LocalExecutor]]) -> None:
    _, executor = keep(nap)
    executor.submit(long_job(folder, "cancelled"))
    wait_for_progress(executor, "cancelled")
    executor.cancel("cancelled")
    end = wait_for_end(executor, "cancelled")
    assert isinstance(end, Failed)
    assert end.stopped
    executor.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_without_a_spare_that_works_a_fit_has_a_process_of_its_own(
    folder: RunFolder, keep: Callable[..., tuple[Spares, LocalExecutor]], is_killed: bool
) -> None:
    spares, executor = keep(nap if is_killed else fail)
    pid, *_ = spares.pids() or [0]
    if is_killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not spares.pids(), "the end of the spare")
    name = f"after-{is_killed}"
    assert executor.submit(job(folder, name, "mlp", max_epochs=1)) not in {pid, 0}
    assert isinstance(wait_for_end(executor, name), Done)
    spares.keep(DEVICE)
    assert spares.pids() == [], "a device on which a spare has failed gets no other"
    executor.close()


def test_fits_that_need_other_libraries_leave_the_spare(
    folder: RunFolder, keep: Callable[..., tuple[Spares, LocalExecutor]]
) -> None:
    spares, executor = keep(nap)
    before = spares.pids()
    assert executor.submit(job(folder, "booster")) not in before
    assert isinstance(wait_for_end(executor, "booster"), Done)
    assert spares.pids() == before
    executor.close()


def test_spares_die_with_the_engine() -> None:
    program = (
        "import time\n"
        "from tabapp.engine.fit.spares import Spares\n"
        "from tests.engine.fit.test_spares import nap\n"
        "if __name__ == '__main__':\n"
        "    spares = Spares(nap)\n"
        "    spares.keep('cpu')\n"
        "    while not spares.pids():\n"
        "        time.sleep(0.01)\n"
        "    print(*spares.pids(), flush=True)\n"
        "    time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        assert psutil.pid_exists(pid)
        engine.kill()
    wait_until(lambda: not psutil.pid_exists(pid), "the end of the spare")


def test_a_run_on_a_cpu_ends_a_spare_that_was_started_before_its_plan(
    keep: Callable[..., tuple[Spares, LocalExecutor]],
) -> None:
    spares, _ = keep(nap)
    LocalExecutor(PLENTY, "cpu", spares)
    assert spares.pids() == []


@pytest.mark.parametrize(
    ("wanted", "is_started", "kept"),
    [
        ("auto", True, ["cuda:0"]),
        ("cuda:1", True, ["cuda:1"]),
        ("cuda:7", True, []),
        ("cpu", True, []),
        ("auto", False, []),
    ],
)
def test_the_device_of_the_first_spare(
    wanted: str, is_started: bool, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(spares_module, "has_driver", lambda: True)
    monkeypatch.setattr("tabapp.models.devices.n_gpus", lambda: 2)
    monkeypatch.setattr(type(SERVERS["torch"]), "is_started", is_started)
    monkeypatch.setattr(spares_module.SPARES, "keep", found.append)
    keep_spare(wanted)
    assert found == kept
