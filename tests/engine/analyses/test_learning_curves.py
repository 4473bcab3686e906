"""Learning curves of finished runs over rows and over time, and their time limit."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.fitting_again import TimeLimit, TimeLimitReached
from tabapp.engine.analyses.learning_curves import measure_row_curve, measure_time_curve
from tabapp.errors import BudgetError, UsageError
from tabapp.run.texts.diagnoses import tables_of
from tests.engine.finished import make_finished_run, write_table


def write_drifting(path, n_rows=300):
    """The effect of `x` changes its sign after the first third; rows are in random order."""
    generator = np.random.default_rng(0)
    day, x = np.arange(n_rows), generator.normal(size=n_rows)
    outcome = np.where(day < n_rows / 3, -3 * x, 3 * x) + generator.normal(scale=0.3, size=n_rows)
    frame = pl.DataFrame({"when": np.datetime64("2023-01-01") + day, "x": x, "outcome": outcome})
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_csv(path)
    return path


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    return FinishedRun(make_finished_run(write_table(place / "all.csv", "regression", 300), place))


@pytest.fixture(scope="module")
def drifting(tmp_path_factory):
    place = tmp_path_factory.mktemp("drifting")
    return FinishedRun(make_finished_run(write_drifting(place / "data.csv"), place, folds=2))


@pytest.fixture
def stop_after(monkeypatch):
    """Reach every time limit when a number of models is trained."""

    def stop(number):
        def check(limit):
            if limit.trained >= number:
                raise TimeLimitReached

        monkeypatch.setattr(TimeLimit, "check", check)

    return stop


def test_more_rows_give_a_better_score_and_all_rows_that_of_the_run(regression):
    found = measure_row_curve(regression)
    assert found.model == "linear"
    assert [point.place for point in found.points] == [50, 100, 200]
    assert found.points[-1].score == pytest.approx(regression.state.ensemble.score)
    assert found.low <= found.gain <= found.high
    assert found.partial is None
    assert len(tables_of(found, regression.state)[0].sentences) == 1
    with pytest.raises(UsageError, match="no score of the model 'mlp'"):
        measure_row_curve(regression, "mlp")


@pytest.mark.parametrize(("trained", "n_folds", "places"), [(4, 2, [50, 100, 200]), (1, 1, [50, 200])])
def test_a_time_limit_leaves_out_folds_or_shares(regression, stop_after, trained, n_folds, places):
    complete = measure_row_curve(regression)
    stop_after(trained)
    found = measure_row_curve(regression, seconds=90)
    assert [point.place for point in found.points] == places
    truth, held_out = regression.data.target, [regression.data.held_out(fold).places for fold in range(n_folds)]
    rows = np.concatenate(held_out)
    predicted = np.concatenate([np.load(path) for path in sorted(regression.folder.fits.glob("*/oof.npy"))[:n_folds]])
    assert found.points[-1].score == pytest.approx(np.sqrt(np.mean((truth[rows] - predicted) ** 2)))
    assert found.points[-1].score != complete.points[-1].score
    (table,) = tables_of(found, regression.state)
    assert f"{trained} of 6 models were trained within 1m 30s" in table.sentences[1]
    assert ("200 rather than 50 rows" in table.sentences[0]) == (places == [50, 200])


def test_a_time_limit_leaves_out_the_largest_parts_of_a_curve_over_time(drifting, stop_after):
    stop_after(4)
    found = measure_time_curve(drifting, seconds=90)
    assert [point.place for point in found.recent] == [60, 120]
    assert [point.place for point in found.oldest] == [60, 120]
    (table,) = tables_of(found, drifting.state)
    assert "the most recent 120 rows rather than" in table.sentences[1]
    assert "with the most recent 120 rows rather than the oldest 120" in table.sentences[2]
    assert "4 of 5 models" in table.sentences[3]


@pytest.mark.parametrize("measure", [measure_row_curve, measure_time_curve])
def test_a_time_limit_before_the_first_model_is_an_error(drifting, measure):
    with pytest.raises(BudgetError, match=r"^0 of \d models were trained within 1ms.*longer --budget"):
        measure(drifting, seconds=0.001)


def test_a_model_that_the_limit_stops_is_not_counted(monkeypatch):
    now = 0.0
    monkeypatch.setattr("tabapp.engine.analyses.fitting_again.time.monotonic", lambda: now)
    limit = TimeLimit(10.0, planned=1)
    now = 9.9
    limit.check()
    now = 10.0
    with pytest.raises(TimeLimitReached):
        limit.check()
    assert (limit.partial().trained, limit.partial().planned) == (0, 1)


def test_old_rows_of_another_relation_harm(drifting):
    run = drifting
    found = measure_time_curve(run)
    assert (found.model, found.column, found.n_rows) == ("linear", "when", 60)
    assert found.since.startswith("2023-08-29"), "240 days after the first row"
    assert [point.place for point in found.recent] == [60, 120, 240]
    assert [point.place for point in found.oldest] == [60, 120]
    assert found.recent[1].high < found.recent[2].low < found.oldest[0].low, "RMSE with recent, all, and old rows"
    assert found.older_rows.high < 0 < found.recency.low
    (table,) = tables_of(found, run.state)
    assert "Older rows harm" in table.sentences[1]
    assert "train again regularly" in table.sentences[2]


@pytest.mark.slow
def test_a_table_without_dates_is_rejected(tmp_path):
    run = make_finished_run(write_table(tmp_path / "all.csv", "regression", 120), tmp_path, folds=2)
    with pytest.raises(UsageError, match="no dates"):
        measure_time_curve(FinishedRun(run))
