"""Rows that are sorted by a date."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np

from tests.data.checks.tables import CLASSES, NOISE, N, found


def test_rows_sorted_by_a_date() -> None:
    days = [date(2020, 1, 1) + timedelta(days=i) for i in range(N)]
    warning = found("time", day=days, x=NOISE, y=CLASSES)["day"]
    assert "--time day" in warning.action
    assert warning.message == f"The rows are sorted by this date, from 2020-01-01 to {days[-1]}."
    assert set(found("time", day=days[::-1], x=NOISE, y=CLASSES)) == {"day"}
    times = [datetime(2020, 1, 1, 9, 30) + timedelta(hours=i) for i in range(N)]
    assert f"from 2020-01-01 09:30:00 to {times[-1]}." in found("time", at=times, x=NOISE, y=CLASSES)["at"].message
    assert found("time", day=np.random.default_rng(0).permutation(np.array(days)).tolist(), x=NOISE, y=CLASSES) == {}
