"""What models take and give in finished runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.lab import model_value
from benchmarks.lab.model_value import Value, add_run, rows_of
from benchmarks.product.worker_time import Ledger
from tests.engine.finished_runs import make_run


def test_a_run_without_the_only_good_model_has_a_larger_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    x, noise = generator.normal(size=(2, 300))
    pl.DataFrame({"x": x, "z": generator.normal(size=300), "y": 10 * x + noise}).write_csv(tmp_path / "t.csv")
    folder = make_run(tmp_path / "runs", tmp_path / "t.csv", "y", ("linear", "k_neighbors"))
    fits = [(("linear", 0), 0, 1.0), (("linear", 0), 1, 2.0), (("k_neighbors", 0), 0, 1.0)]
    monkeypatch.setattr(model_value, "ledger_of", lambda events: Ledger(fits=fits))
    values: dict[str, Value] = {}
    add_run(values, folder)
    linear, neighbors = values["linear"], values["k_neighbors"]
    assert (linear.started, linear.time) == ([True], [0.75])
    assert (neighbors.started, neighbors.time) == ([True], [0.25])
    assert linear.weight[0] + neighbors.weight[0] == pytest.approx(1)
    assert linear.weight[0] > 0.5
    assert linear.without[0] > 1.5
    assert rows_of(values)[0][0] == "linear"


def test_the_mean_ratio_is_geometric_with_its_standard_error() -> None:
    mean, error = Value(without=[1.0, 1.21]).mean_ratio
    assert mean == pytest.approx(1.1)
    assert error == pytest.approx(math.log(1.21) / 2)
    rows = rows_of({"never": Value([False], [0.0], [0.0]), "once": Value([True], [1.0], [1.0], [1.5])})
    assert [row[-1] for row in rows] == ["1.500", "—"]
