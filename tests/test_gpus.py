"""How many GPUs there are, without importing torch where the driver reports it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tabapp.errors import UsageError
from tabapp.models import devices
from tabapp.models.devices import existing_gpu, n_gpus

OF_TORCH = 1
"""GPUs that the torch of these tests finds."""

System = Callable[..., list[list[str]]]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    devices.n_gpus_of_driver.cache_clear()
    yield
    devices.n_gpus_of_driver.cache_clear()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """Makes an installed torch and the answer of the driver; returns the commands that ask it."""

    def make(
        cuda: str | None = "13.0", answer: str = "2 13000", hip: str | None = None, code: int = 0
    ) -> list[list[str]]:
        lines = f"__version__ = '2.11.0'\ncuda: Optional[str] = {cuda!r}\nhip: Optional[str] = {hip!r}\n"
        (tmp_path / "version.py").write_text(lines)
        asked: list[list[str]] = []

        def run(command: list[str], **options: object) -> SimpleNamespace:
            asked.append(command)
            if code:
                raise subprocess.CalledProcessError(code, command)
            return SimpleNamespace(stdout=f"{answer}\n")

        torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True, device_count=lambda: OF_TORCH))
        monkeypatch.setattr(devices, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
        monkeypatch.setattr(devices.subprocess, "run", run)
        monkeypatch.setitem(sys.modules, "torch", torch)
        return asked

    return make


def test_the_driver_is_asked_once(system: System) -> None:
    asked = system(answer="2 13010")
    assert existing_gpu("cuda") == "cuda:0"
    assert existing_gpu("cuda:1") == "cuda:1"
    assert len(asked) == 1
    with pytest.raises(UsageError, match="finds 2 GPUs"):
        existing_gpu("cuda:2")
    with pytest.raises(UsageError, match="does not exist"):
        existing_gpu("cuda:first")


@pytest.mark.parametrize(
    "options",
    [
        {"cuda": None},
        {"cuda": None, "hip": "6.4"},
        {"answer": "2 12080"},
        {"answer": "0 13000"},
        {"answer": "no driver"},
        {"code": 1},
    ],
    ids=["no CUDA", "ROCm", "old driver", "no GPU", "no answer", "error"],
)
def test_torch_is_asked_where_the_driver_does_not_settle_it(options: dict[str, object], system: System) -> None:
    system(**options)
    assert n_gpus() == OF_TORCH


def test_without_a_driver_the_command_fails() -> None:
    command = devices.module_command("tabapp.models.cuda_driver")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "libcuda" in done.stderr or "CUDA does not start" in done.stderr


@pytest.mark.gpu
def test_the_driver_finds_what_torch_finds() -> None:
    import torch

    assert devices.n_gpus_of_driver() == torch.cuda.device_count()
