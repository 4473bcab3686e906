"""Times of day and durations, read as seconds."""

from __future__ import annotations

import polars as pl
import pytest

from tabapp.data.forms.clock import CLOCK, MINUTES, clock_share, parse_clock

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17:31", 17 * HOUR + 31 * 60),
        ("5:31 PM", 17 * HOUR + 31 * 60),
        ("05:31:07.5 a.m.", 5 * HOUR + 31 * 60 + 7.5),
        ("5:31 p. m.", 17 * HOUR + 31 * 60),
        ("12:00 AM", 0.0),
        ("12:15pm", 12 * HOUR + 15 * 60),
        ("9 am", 9 * HOUR),
        ("13:00 PM", None),
        ("5:61 PM", None),
        ("PM", None),
        ("1h 20m", HOUR + 20 * 60),
        ("-1:30", -HOUR - 30 * 60),
        ("2 days, 1:00:00", 49 * HOUR),
        ("PT1H30M", HOUR + 30 * 60),
    ],
)
def test_a_time_is_read_as_seconds(text: str, seconds: float | None) -> None:
    assert parse_clock(pl.Series([text])).to_list() == [seconds]


def test_columns_of_times_are_found() -> None:
    for texts, unit in ((["5:31 PM", "11:02 AM", "noon"], CLOCK), (["1:27.452", "1:28.001", "lap"], MINUTES)):
        seconds, share, found = clock_share(pl.Series(texts), pl.Series([1, 2, 1]))
        assert (seconds.null_count(), share, found) == (1, 0.75, unit)
