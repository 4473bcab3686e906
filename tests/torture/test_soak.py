"""A long run takes no more memory and no more open files at its end than at its beginning.

`make torture` runs it for two hours: TABAPP_TORTURE_SOAK is its budget.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.tables import write_wine
from tests.torture.disturbing import HANG_SECONDS, command, descendants, name_of

SECONDS = float(os.environ.get("TABAPP_TORTURE_SOAK", "60"))
MOST_GROWTH = 0.25
"""Growth of the engine's memory over the last two thirds of the run, as a share of it."""


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_engine_neither_grows_nor_keeps_files_open(tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    words = ["--auto", str(data), "--models", "linear,lightgbm,k_neighbors", "--budget", f"{SECONDS:.0f}s"]
    process = subprocess.Popen(
        command(*words, "--runs-dir", str(tmp_path / "runs")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    memory: list[int] = []
    files: list[int] = []
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < 0.85 * SECONDS:
        for child in descendants(process):
            if name_of(child) == "engine" and time.monotonic() - began > SECONDS / 4:
                memory.append(child.memory_info().rss)
                files.append(child.num_fds())
        time.sleep(SECONDS / 200)
    family = descendants(process)
    assert process.wait(SECONDS + HANG_SECONDS) == 0
    assert len(memory) > 20
    slope = float(np.polyfit(np.linspace(0, 1, len(memory)), memory, 1)[0])
    assert slope < MOST_GROWTH * memory[0], f"the engine grew by {slope / 1e6:.0f} MB from {memory[0] / 1e6:.0f} MB"
    assert max(files[len(files) // 2 :]) <= max(files[: len(files) // 2]) + 10
    _, alive = psutil.wait_procs(family, timeout=HANG_SECONDS)
    assert not alive
