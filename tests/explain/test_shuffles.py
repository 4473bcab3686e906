"""Which shuffles are done before a deadline."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tabapp.explain import shuffles
from tabapp.explain.shuffles import BLOCK, run_shuffles

REPEATS = 5


class Clock:
    """Time that passes while a column is shuffled only."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(shuffles, "time", found)
    return found


def noise(index, repeat):
    return float(np.random.default_rng([index, repeat]).normal())


def run(clock, order, n_shuffles, effect=noise):
    """The shuffles in a time that suffices for so many of them."""

    def shuffle(index, repeat):
        clock.now += 1
        return effect(index, repeat)

    deadline = None if n_shuffles is None else clock.now + n_shuffles - 0.5
    return run_shuffles(shuffle, lambda each: each, order, REPEATS, n_jobs=1, deadline=deadline)


def repeats(done):
    return Counter(index for index, _ in done)


def test_all_shuffles_are_done_in_time(clock):
    order = list(range(3 * BLOCK))[::-1]
    everything = {(index, repeat) for index in order for repeat in range(REPEATS)}
    assert run(clock, order, None).keys() == everything
    assert clock.now == len(everything), "each of them once"
    assert run(clock, order, len(everything)).keys() == everything
    assert run(clock, [], None) == {}


def test_without_time_for_all_columns_the_most_promising_ones_are_complete(clock):
    order = np.random.default_rng(0).permutation(400).tolist()
    done = repeats(run(clock, order, BLOCK * REPEATS + BLOCK * 2 + 3))
    first, second = order[:BLOCK], order[BLOCK : 2 * BLOCK]
    assert [done[index] for index in first] == [REPEATS] * BLOCK
    assert [done[index] for index in second] == [3] * 3 + [2] * (BLOCK - 3)
    assert set(done) == {*first, *second}


def test_a_single_block_takes_turns(clock):
    assert set(repeats(run(clock, range(BLOCK), BLOCK * 3)).values()) == {3}
    assert len(run(clock, range(BLOCK), 5)) == 5


@pytest.mark.parametrize(
    "effect", [lambda index, repeat: index + 3 * noise(index, repeat), lambda index, repeat: 0.0], ids=["agree", "zero"]
)
def test_where_two_shuffles_agree_other_columns_come_before_more_shuffles(clock, effect):
    done = repeats(run(clock, range(400), 200, effect))
    assert [done[index] for index in range(BLOCK)] == [2] * BLOCK
    assert [done[index] for index in range(BLOCK, 200 - BLOCK)] == [1] * (200 - 2 * BLOCK)
    assert len(done) == 200 - BLOCK


def test_with_time_for_all_columns_those_with_the_largest_effects_are_shuffled_again(clock):
    def effect(index, repeat):
        return math.nan if index == 7 else float(index)

    n = 5 * BLOCK
    done = repeats(run(clock, range(n), n + (REPEATS - 1) * BLOCK, effect))
    assert len(done) == n
    assert {index for index, count in done.items() if count == REPEATS} == set(range(n - BLOCK, n))
    assert {count for count in done.values() if count < REPEATS} == {1}
    assert len(repeats(run(clock, range(n), n + 1, effect))) == n


def test_errors_of_single_shuffles_do_not_lead_the_ranking(clock):
    """Ten of 2,000 columns have an effect, which is as large as the error of a shuffle; promise finds most of them."""
    found: list[int] = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        true = np.where(np.arange(2_000) >= 1_990, 1.0, 0.0)
        order = np.argsort(-true - 0.4 * generator.normal(size=2_000)).tolist()
        errors = generator.normal(size=(2_000, REPEATS))
        done = run(clock, order, 140, lambda index, repeat, t=true, e=errors: float(t[index] + e[index, repeat]))
        means = {index: np.mean([done[index, repeat] for repeat in range(n)]) for index, n in repeats(done).items()}
        leaders = sorted(means, key=lambda index: -means[index])[:10]
        found.append(sum(index >= 1_990 for index in leaders))
    assert np.mean(found) > 4, "with one shuffle for each of 140 columns, it is 1.95"
