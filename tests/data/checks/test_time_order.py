"""Rows that are sorted by a date."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np

from tests.data.checks.tables import CLASSES, NOISE, N, found


def test_rows_sorted_by_a_date() -> None:
    days = [date(2020, 1, 1) + timedelta(days=i) for i in range(N)]
    assert "--time day" in found("time", day=days, x=NOISE, y=CLASSES)["day"].action
    assert set(found("time", day=days[::-1], x=NOISE, y=CLASSES)) == {"day"}
    assert found("time", day=np.random.default_rng(0).permutation(np.array(days)).tolist(), x=NOISE, y=CLASSES) == {}
