"""Models that do not declare thread safety take turns."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tabapp.features.arrays import Table
from tabapp.models.contract import CALLED_IN_THREADS, FittedModel
from tests.waiting import HANG_SECONDS

ROWS = Table(np.zeros((3, 1), np.float32), np.zeros((3, 0), np.int32))


class Watched(FittedModel):
    """Counts the calls in progress."""

    calls = most = 0

    def predict(self, table):
        cls = Watched
        cls.calls += 1
        cls.most = max(cls.most, cls.calls)
        threading.Event().wait(0.002)
        cls.calls -= 1
        return np.zeros(len(table), np.float32)

    def attention(self, table):
        return self.predict(table)

    def save(self, folder):
        raise NotImplementedError


class Derived(Watched):
    def predict(self, table):
        return super().predict(table)


class Together(FittedModel):
    """Predicts only when two threads predict at the same time."""

    thread_safe = True

    def __init__(self):
        self.both = threading.Barrier(2, timeout=HANG_SECONDS)

    def predict(self, table):
        self.both.wait()
        return np.zeros(len(table), np.float32)

    def save(self, folder):
        raise NotImplementedError


@pytest.mark.parametrize("kind", [Watched, Derived])
def test_calls_of_all_models_of_a_class_take_turns(kind):
    Watched.calls = Watched.most = 0
    models = [kind(), kind()]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(getattr(models[i % 2], name), ROWS) for i in range(8) for name in ("predict", "attention")]
    assert all(len(call.result()) == 3 for call in calls)
    assert Watched.most == 1


class Attentive(FittedModel):
    """Overrides a method that other models inherit."""

    def attention(self, table):
        return np.ones((len(table), 1), np.float32)


class Inherits(Together, Attentive):
    pass


def test_methods_that_are_not_overridden_stay_those_of_the_contract():
    assert Together.attention is FittedModel.attention
    assert Inherits().attention(ROWS).sum() == 3


def test_a_thread_safe_model_predicts_in_two_threads_at_once():
    model = Together()
    with ThreadPoolExecutor(2) as pool:
        assert [len(found) for found in pool.map(model.predict, [ROWS, ROWS])] == [3, 3]


def test_every_method_that_takes_a_table_is_called_in_turns():
    takes_table = {
        name
        for name, method in vars(FittedModel).items()
        if callable(method) and "table" in getattr(method, "__annotations__", {})
    }
    assert takes_table == set(CALLED_IN_THREADS)
