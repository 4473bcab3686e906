"""Measurements at the same time get disjoint shares of the cores."""

from __future__ import annotations

import os

import pytest

from benchmarks.product.together import run_in_turn, run_together, shares_of_cores


def own_cores() -> set[int]:
    return os.sched_getaffinity(0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system binds no process to cores")
def test_jobs_have_equal_shares_of_the_cores_and_change_places() -> None:
    cores = own_cores()
    if len(cores) < 2:
        pytest.skip("a single core is not shared")
    first, second = (dict(run_together({"a": own_cores, "b": own_cores}, turn)) for turn in (0, 1))
    assert list(first) == ["a", "b"]
    assert not first["a"] & first["b"]
    assert first["a"] | first["b"] <= cores
    assert (second["a"], second["b"]) == (first["b"], first["a"])
    assert own_cores() == cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system binds no process to cores")
def test_jobs_in_turn_have_the_cores_of_those_that_ended() -> None:
    cores = own_cores()
    if len(cores) < 2:
        pytest.skip("a single core is not shared")
    found = dict(run_in_turn(dict.fromkeys("abcd", own_cores), 2))
    assert sorted(found) == ["a", "b", "c", "d"]
    shares = {frozenset(each) for each in found.values()}
    assert shares <= {frozenset(each) for each in shares_of_cores(2)}
    assert own_cores() == cores
