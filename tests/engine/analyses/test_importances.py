"""Importances of a run: the most promising columns first, and how many were measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import msgspec
import polars as pl
import pytest

from tabapp.engine.analyses import importances
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.importances import compute_importances
from tabapp.explain import shuffles
from tests.engine.finished import make_finished_run, write_table

FIRST_IN_THE_FILE = ["noise", "group", "weak"]


@pytest.fixture(scope="module", params=["linear", "k_neighbors"])
def run(request, tmp_path_factory):
    """A run of a model that knows its use of the columns, or of one that does not; the columns that matter are the last ones."""
    place = tmp_path_factory.mktemp("importances")
    path = write_table(place / "all.csv", "binary", 300)
    pl.read_csv(path).select(*FIRST_IN_THE_FILE, "twin", "strong", "outcome").write_csv(path)
    return FinishedRun(make_finished_run(path, place, model=request.param))


def importances_of(run, monkeypatch, n_passes, candidates=None, now=0.0):
    """The importances of a run whose time ends after so many shuffles.

    Args:
        n_passes: None for no end.
        candidates: the best first; None for that of the run.
        now: reading of the clock before the shuffles.
    """
    found = candidates or [run.best_of(run.plan.models[0].name)]
    scheduler = SimpleNamespace(models=range(len(found)), best_of=found.__getitem__, loss_of=found.index)
    plan = msgspec.structs.replace(run.plan, workers=1, n_threads=1)
    monkeypatch.setattr(importances, "time", SimpleNamespace(monotonic=lambda: now))
    # The clock is read at the start, which is time 0, and before each shuffle.
    readings = count(0)
    monkeypatch.setattr(shuffles, "time", SimpleNamespace(monotonic=lambda: float(next(readings))))
    deadline = None if n_passes is None else n_passes + 0.5
    return compute_importances(replace(run.models, plan=plan), scheduler, deadline)


def test_the_most_promising_columns_are_measured_before_the_time_ends(run, monkeypatch):
    found = importances_of(run, monkeypatch, 2)
    assert {row.feature for row in found.rows} == {"strong", "twin"}
    assert found.n_columns == 5


def test_values_do_not_depend_on_the_time(run, monkeypatch):
    complete = importances_of(run, monkeypatch, None)
    assert len(complete.rows) == complete.n_columns == 5
    assert not any(row.unstable for row in complete.rows)
    assert importances_of(run, monkeypatch, 100) == complete


def test_a_model_whose_shuffles_would_end_too_late_gives_way_to_the_next_one(run, monkeypatch):
    whole = run.best_of(run.plan.models[0].name)
    fast = replace(whole, results={0: whole.results[0]})
    results = {fold: msgspec.structs.replace(fit, predict_seconds=10.0) for fold, fit in whole.results.items()}
    slow = replace(whole, results=results)
    assert importances_of(run, monkeypatch, None, [slow, fast]).n_rows == 300
    found = importances_of(run, monkeypatch, 100, [slow, fast])
    assert found.n_rows == whole.results[0].n_rows < 300
    assert len(found.rows) == 5


def test_shuffles_have_some_time_when_reading_the_models_took_all_of_it(run, monkeypatch):
    monkeypatch.setattr(importances, "LEAST_SECONDS", 2.5)
    found = importances_of(run, monkeypatch, -100, now=0.0)
    assert len(found.rows) == 2


def test_without_any_time_no_column_is_measured(run, monkeypatch):
    found = importances_of(run, monkeypatch, 0)
    assert found.rows == ()
    assert found.n_columns == 5
