from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tabapp.engine.machine import contention
from tabapp.engine.machine.contention import MOST, Contention, process_age


def written(path: Path, ran: float, waited: float) -> None:
    path.write_text(f"{int(ran * 1e9)} {int(waited * 1e9)} 7\n")


def test_the_slowdown_is_elapsed_time_per_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "_SCHEDULER", tmp_path / "schedstat")
    written(tmp_path / "schedstat", 1.0, 3.0)
    later = Contention()
    assert Contention(since_start=True).slowdown() == pytest.approx(4.0)
    assert later.slowdown() == 1.0, "nothing has run since"
    written(tmp_path / "schedstat", 2.0, 4.0)
    assert later.slowdown() == pytest.approx(2.0)
    written(tmp_path / "schedstat", 2.0, 500.0)
    assert later.slowdown() == MOST


def test_an_unknown_slowdown_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "_SCHEDULER", tmp_path / "none")
    assert Contention(since_start=True).slowdown() == 1.0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not say how long threads wait")
def test_programs_on_the_same_core_slow_a_process_down() -> None:
    core = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [core])
        measured = Contention()
        until = time.process_time() + 0.2
        while time.process_time() < until or measured.slowdown() < 1.5:
            pass
    finally:
        os.sched_setaffinity(0, allowed)
        for each in busy:
            each.kill()
            each.wait()


def test_the_age_of_a_process_includes_its_start() -> None:
    program = "import time, tabapp.engine.machine.contention as c; time.sleep(0.1); print(c.process_age())"
    began = time.monotonic()
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 0.1 <= float(output) <= time.monotonic() - began + 0.02
    assert process_age() > 0
