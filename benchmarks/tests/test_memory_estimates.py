"""Estimated and measured peak memory of fits. The slow test measures every model over a grid of rows and features."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.waiting import HANG_SECONDS

LINE = re.compile(r"(\w+) +([\d,]+) rows +([\d,]+) features +estimated +(\d+) MB, measured +(\d+) MB, ratio +([\d.]+)")
FACTOR, LEAST_SHARE = 1.5, 0.9


def ratios(*arguments: str) -> dict[tuple[str, str, str], float]:
    """Estimated divided by measured memory, by model, rows and features."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.performance.memory_estimates", *arguments]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=HANG_SECONDS * 10, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return {
        (match[1], match[2], match[3]): float(match[6]) for match in map(LINE.match, done.stdout.splitlines()) if match
    }


@pytest.mark.slow
def test_estimates_of_a_booster_and_a_network_are_close() -> None:
    found = ratios("catboost", "snn", "--rows", "2000", "--features", "20")
    assert {model for model, _, _ in found} == {"catboost", "snn"}
    assert all(1 / FACTOR <= ratio <= FACTOR for ratio in found.values()), found


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_nine_of_ten_estimates_are_within_the_promised_factor() -> None:
    from tabapp.models import registry

    found = ratios(*registry.names())
    assert {model for model, _, _ in found} == set(registry.names())
    wrong = {key: ratio for key, ratio in found.items() if not 1 / FACTOR <= ratio <= FACTOR}
    assert len(wrong) <= (1 - LEAST_SHARE) * len(found), wrong
