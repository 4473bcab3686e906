"""The processor time of a run counts processes that lived between two measurements."""

from __future__ import annotations

import subprocess
import sys
import time

from tabapp.engine.machine.resources import ResourceMeter

BUSY_SECONDS = 0.5
BUSY = f"import time\nwhile time.process_time() < {BUSY_SECONDS}: pass"


def seconds_of(meter: ResourceMeter, since: float) -> float:
    percent = meter.measure().cpu_percent
    return percent / 100 * (time.monotonic() - since)


def test_a_process_that_has_ended_counts_once() -> None:
    began = time.monotonic()
    meter = ResourceMeter()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    between = time.monotonic()
    assert seconds_of(meter, began) > 0.9 * BUSY_SECONDS
    assert seconds_of(meter, between) < 0.5 * BUSY_SECONDS


def test_a_process_counts_once_while_it_lives_and_after_it_has_ended() -> None:
    began = time.monotonic()
    meter = ResourceMeter()
    wait = f"{BUSY}\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        between = time.monotonic()
        assert seconds_of(meter, began) > 0.9 * BUSY_SECONDS
        process.communicate(b"\n")
    assert seconds_of(meter, between) < 0.5 * BUSY_SECONDS
