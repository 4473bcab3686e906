"""One column beside the target: bins, groups of the target, missing cells and association."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.inspection import associations, inspect_column

N = 600


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    return pl.DataFrame(
        {
            "y": [("no", "yes")[each] for each in y],
            "signal": [f"{value:.3f}" for value in y + rng.normal(0, 0.3, N)],
            "noise": [f"{value:.3f}" for value in rng.normal(0, 1, N)],
            "color": [("red", "green", "blue")[each] for each in rng.integers(0, 3, N)],
            "gap": [None if each else str(value) for each, value in zip(y, rng.integers(0, 90, N), strict=True)],
            "day": [f"2024-{1 + each % 12:02}-{1 + each % 28:02}" for each in range(N)],
            "amount": [f"{value:.2f}" for value in 100 * y + rng.normal(50, 5, N)],
            "many": [f"class {each % 7}" for each in range(N)],
        }
    )


def test_bins_split_the_rows_by_class_and_add_up(frame):
    schema = infer_schema(frame, target="y")
    found = inspect_column(frame, schema, "signal")
    assert set(found.groups) == {"no", "yes"}
    assert len(found.bins) == 10
    assert tuple(np.sum([each.counts for each in found.bins], axis=0)) == found.rows
    assert sum(found.rows) == N
    yes = found.groups.index("yes")
    assert found.bins[0].counts[yes] == 0 < found.bins[-1].counts[yes]
    assert found.association > 0.8
    assert found.measure.startswith("ROC AUC")


def test_missing_cells_are_counted_by_class(frame):
    found = inspect_column(frame, infer_schema(frame, target="y"), "gap")
    yes = found.groups.index("yes")
    assert found.missing[yes] == found.rows[yes]
    assert found.missing[1 - yes] == 0


def test_categories_are_their_most_frequent_values(frame):
    found = inspect_column(frame, infer_schema(frame, target="y"), "color")
    counts = [sum(each.counts) for each in found.bins]
    assert {each.label for each in found.bins} == {"red", "green", "blue"}
    assert counts == sorted(counts, reverse=True)
    assert found.distinct == 3


def test_dates_have_ranges_of_days(frame):
    found = inspect_column(frame, infer_schema(frame, target="y"), "day")
    assert found.bins[0].label.startswith("2024-01-01 – ")
    assert found.bins[-1].label.endswith("2024-12-12") or found.bins[-1].label.endswith("2024-12-28")


def test_a_number_to_predict_has_three_groups(frame):
    found = inspect_column(frame, infer_schema(frame, target="amount"), "y")
    assert len(found.groups) == 3
    assert max(found.rows) - min(found.rows) <= 2
    assert found.groups[0].startswith("≤ ")
    assert found.measure.startswith("R² ")


def test_the_rarest_of_many_classes_are_one_group(frame):
    found = inspect_column(frame, infer_schema(frame, target="many"), "color")
    assert len(found.groups) == 4
    assert found.groups[-1] == "other"
    assert sum(found.rows) == N


def test_the_target_has_no_association_with_itself(frame):
    found = inspect_column(frame, infer_schema(frame, target="y"), "y")
    assert found.association is None
    assert [sum(each.counts) for each in found.bins] == sorted(found.rows, reverse=True)


def test_associations_rank_what_predicts_the_target(frame):
    found = associations(frame, infer_schema(frame, target="y"))
    assert "y" not in found
    assert max(found, key=found.__getitem__) in ("amount", "gap", "signal")
    assert found["noise"] < 0.2 < found["signal"]
    assert found["signal"] == pytest.approx(
        inspect_column(frame, infer_schema(frame, target="y"), "signal").association
    )
