from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from benchmarks.product.published_tables import division_of, rows_of

TABLE = pl.DataFrame({"x": [str(i) for i in range(20)], "y": [str(i % 2) for i in range(20)]})
FACTS = {"target": "y", "task": "binary", "metric": "roc_auc"}


def test_a_published_split_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "few.json.gz").write_bytes(gzip.compress(json.dumps({"test_rows": [[3, 1]]}).encode()))

    division = division_of(tmp_path, "few", TABLE, FACTS, 0)

    assert division is not None
    train, test = division
    assert test["x"].to_list() == ["1", "3"]
    assert sorted(train["x"].to_list() + test["x"].to_list()) == sorted(TABLE["x"].to_list())
    assert division_of(tmp_path, "few", TABLE, FACTS, 1) is None


def test_a_table_without_published_splits_is_divided_at_random(tmp_path: Path) -> None:
    first, second = (division_of(tmp_path, "few", TABLE, FACTS, number) for number in (0, 1))

    assert first is not None
    assert second is not None
    assert first[1].height == second[1].height == 4
    assert first[1]["x"].to_list() != second[1]["x"].to_list()


def test_a_row_compares_the_mean_over_splits_with_the_published_error() -> None:
    results = {
        "yacht|0": {"score": 0.4, "seconds": [1.0]},
        "yacht|1": {"score": 0.6, "seconds": [1.0]},
        "boston|0": {"error": "did not end"},
        "covertype|0": {"score": 0.9, "seconds": [1.0]},
    }

    yacht, covertype = rows_of(["yacht", "boston", "covertype"], results)

    assert yacht[2:5] == ["2 of 20", "0.5 ± 0.100", "0.85"]
    assert float(yacht[-1]) == pytest.approx(0.5 / 0.85, abs=5e-4)
    assert float(covertype[-1]) == pytest.approx(0.1 / 0.0304, abs=5e-4)
