"""The learning curve over time of finished runs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.engine.finished import FinishedRun
from tabapp.engine.time_curve import measure_time_curve
from tabapp.errors import UsageError
from tabapp.run.diagnoses import time_curve_table
from tests.engine.finished import make_finished_run, write_table


def write_drifting(path, n_rows=300):
    """The effect of `x` changes its sign after the first third; rows are in random order."""
    generator = np.random.default_rng(0)
    day, x = np.arange(n_rows), generator.normal(size=n_rows)
    outcome = np.where(day < n_rows / 3, -3 * x, 3 * x) + generator.normal(scale=0.3, size=n_rows)
    frame = pl.DataFrame({"when": np.datetime64("2023-01-01") + day, "x": x, "outcome": outcome})
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_csv(path)
    return path


def test_old_rows_of_another_relation_harm(tmp_path):
    run = FinishedRun(make_finished_run(write_drifting(tmp_path / "data.csv"), tmp_path, folds=2))
    found = measure_time_curve(run)
    assert (found.model, found.column, found.n_rows) == ("linear", "when", 60)
    assert found.since.startswith("2023-08-29"), "240 days after the first row"
    assert [point.place for point in found.recent] == [60, 120, 240]
    assert [point.place for point in found.oldest] == [60, 120]
    assert found.recent[1].high < found.recent[2].low < found.oldest[0].low, "RMSE with recent, all, and old rows"
    assert found.older_rows.high < 0 < found.recency.low
    table = time_curve_table(found, run.state)
    assert "Older rows harm" in table.sentences[1]
    assert "train again regularly" in table.sentences[2]


@pytest.mark.slow
def test_a_table_without_dates_is_rejected(tmp_path):
    run = make_finished_run(write_table(tmp_path / "all.csv", "regression", 120), tmp_path, folds=2)
    with pytest.raises(UsageError, match="no dates"):
        measure_time_curve(FinishedRun(run))
