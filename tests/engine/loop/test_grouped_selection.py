"""The rows of a group stay together when the weights of an ensemble are selected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.loop.selection import select_ensemble
from tests.engine.finished_runs import make_run


def test_the_targets_of_a_group_do_not_change_how_the_rows_of_that_group_are_blended(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x, noise = generator.normal(size=(2, 240))
    shop = [f"shop {i}" for i in generator.integers(0, 12, 240)]
    pl.DataFrame({"x": x, "shop": shop, "y": x**2 + 3 * x + noise}).write_csv(tmp_path / "t.csv")
    run = FinishedRun(make_run(tmp_path / "runs", tmp_path / "t.csv", "y", ("linear", "k_neighbors"), group="shop"))
    assert run.scorer.groups is not None
    rows = run.scorer.groups == run.scorer.groups[0]
    before = select_ensemble(list(run.candidates.values()), run.scorer, "rmse", 0)
    run.scorer.target = run.scorer.target + np.where(rows, 50 * generator.normal(size=240), 0.0)
    after = select_ensemble(list(run.candidates.values()), run.scorer, "rmse", 0)
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before.blend[rows], after.blend[rows])
    assert not np.array_equal(before.blend[~rows], after.blend[~rows])
