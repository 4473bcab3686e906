"""Check that a model predicts in several threads as it does in one."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import numpy as np

from tabapp.features.arrays import Table
from tabapp.models.checks.subject import Subject, demand, saved_and_loaded
from tabapp.models.checks.tables import make_table
from tabapp.models.contract import FittedModel

N_THREADS = 4
ROUNDS = 8
ROWS = (2_000, 1_400, 1_000, 600)
"""Rows of the table of each thread. They differ, so that an array of another thread has another shape."""
TOLERANCE = 1e-9
"""Allowed difference, relative to the largest prediction."""
SWITCH_SECONDS = 1e-6
"""After so short a time, Python lets another thread run, so that threads meet in few calls."""


def predicts_in_threads(subject: Subject) -> None:
    """Predict in four threads at the same time as in one. A model that does not declare `thread_safe` takes turns."""
    trained = subject.large()
    made = [make_table(trained.task, n_rows=n_rows, seed=n_rows)[0] for n_rows in ROWS]
    tables = [Table(table.numeric, table.categorical) for table in made]
    expected = [np.asarray(trained.model.predict(table), dtype=np.float64) for table in tables]
    # A loaded model has not predicted yet: threads meet in what it does once.
    off = largest_difference(saved_and_loaded(subject.plugin, trained.model), tables, expected)
    demand(
        off <= TOLERANCE,
        f"predictions in {N_THREADS} threads differ by up to {off:.2g} times the largest one from those in one thread, but "
        "thread_safe is True",
    )


def largest_difference(model: FittedModel, tables: Sequence[Table], expected: Sequence[Any]) -> float:
    """The largest difference of predictions in threads from the expected ones, relative to the largest of these; infinite where
    they have another shape."""
    together = Barrier(N_THREADS)

    def predict(place: int) -> float:
        together.wait()
        found = np.asarray(model.predict(tables[place]), dtype=np.float64)
        if found.shape != expected[place].shape:
            return float("inf")
        return float(np.abs(found - expected[place]).max()) / (float(np.abs(expected[place]).max()) or 1.0)

    found: list[float] = []
    with _short_switches(), ThreadPoolExecutor(N_THREADS) as pool:
        for first in range(ROUNDS):
            found += pool.map(predict, [(first + i) % len(tables) for i in range(N_THREADS)])
    return float(np.max(found))


@contextmanager
def _short_switches() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
