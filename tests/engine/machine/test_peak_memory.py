"""Peak memory of a fit on a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tabapp.engine.machine import peak_memory

NEW_PROCESS = """
from tabapp.engine.machine import peak_memory
peak_memory.reset_gpu_peak("cuda:0")
import torch
torch.zeros(2**20, device="cuda:0")
print(peak_memory.gpu_peak("cuda:0"))
"""


def test_cuda_is_initialized_before_its_peak_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: calls.append("init"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", calls.append)
    peak_memory.reset_gpu_peak("cpu")
    assert calls == []
    peak_memory.reset_gpu_peak("cuda:1")
    assert calls == ["init", "cuda:1"]


def test_a_process_without_torch_does_not_import_it() -> None:
    code = """
import sys
from tabapp.engine.machine import peak_memory
peak_memory.reset_gpu_peak("cuda:0")
print(peak_memory.gpu_peak("cuda:0"), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]


@pytest.mark.gpu
def test_a_new_process_measures_the_memory_of_a_gpu() -> None:
    done = subprocess.run([sys.executable, "-c", NEW_PROCESS], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 4 * 2**20
