"""Single moments in ISO 8601 and national forms."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tabapp.data.forms.moment_text import Order, read_moment, read_number

ISO: dict[str, str] = {
    "2024-03-13": "2024-03-13",
    "2024/3/7": "2024-03-07",
    "2024.03.13": "2024-03-13",
    "2024-03-13T03:05:06Z": "2024-03-13 03:05:06",
    "2024-03-13 03:05:06.123456789+02:00": "2024-03-13 01:05:06.123456",
    "2024-03-13 03:05:06,5 +0200": "2024-03-13 01:05:06.5",
    "2024-03-13 03:05:06+02": "2024-03-13 01:05:06",
    "2024-03-13 03:05:06-05:30": "2024-03-13 08:35:06",
    "2024-03-13 23:05:06-05:00": "2024-03-14 04:05:06",
    "2024-03-13T03:05": "2024-03-13 03:05",
    "2024-03-13T03": "2024-03-13 03:00",
    "2024-03-13 24:00:00": "2024-03-14",
    "2024-03-13 03:05:06 UTC": "2024-03-13 03:05:06",
    "2024-03-13 03:05:06 GMT+1": "2024-03-13 02:05:06",
    "2024-03-13 03:05 CET": "2024-03-13 02:05",
    "2024-03-13 03:05 EST": "2024-03-13 08:05",
    "2024-03-13T03:05:06+01:00[Europe/Berlin]": "2024-03-13 02:05:06",
    "2024-03-13 03:05:06 Europe/Berlin": "2024-03-13 02:05:06",
    "2024-07-13 03:05:06 America/New_York": "2024-07-13 07:05:06",
    "2024-03-13 03:05:06.5 +0100 CET": "2024-03-13 02:05:06.5",
    "20240313": "2024-03-13",
    "20240313T0305Z": "2024-03-13 03:05",
    "20240313T030506.25+0100": "2024-03-13 02:05:06.25",
    "20240313030511": "2024-03-13 03:05:11",
    "202403130305": "2024-03-13 03:05",
    "20240313 03:05": "2024-03-13 03:05",
    "2024-W12": "2024-03-18",
    "2024-W12-3": "2024-03-20",
    "2024W123": "2024-03-20",
    "2024-123": "2024-05-02",
    "2023Q3": "2023-07-01",
    "2023-Q3": "2023-07-01",
    "Q3 2023": "2023-07-01",
    "3Q2023": "2023-07-01",
    "Q3'23": "2023-07-01",
    "T3/2023": "2023-07-01",
    "3T 2023": "2023-07-01",
    "2024 W12": "2024-03-18",
    "Week 12 2024": "2024-03-18",
    "2023-02": "2023-02-01",
    "2023": "2023-01-01",
    "/Date(1710299106000)/": "2024-03-13 03:05:06",
    "/Date(1710299106000+0100)/": "2024-03-13 03:05:06",
    "02/2023": "2023-02-01",
    "1710299106": "2024-03-13 03:05:06",
    "1710299106000": "2024-03-13 03:05:06",
    "1710299106.5": "2024-03-13 03:05:06.5",
    "45364.5": "2024-03-13 12:00",
}

NAMES: dict[str, str] = {
    "3. März 2024": "2024-03-03",
    "3. Mär. 2024, 14:30 Uhr": "2024-03-03 14:30",
    "Mittwoch, den 13. März 2024 um 14:30 Uhr": "2024-03-13 14:30",
    "13. Jänner 2024": "2024-01-13",
    "Mar 3, 2024": "2024-03-03",
    "March 3rd, 2024 at 3:05 PM": "2024-03-03 15:05",
    "Wednesday, March 13, 2024, 12:05 a.m.": "2024-03-13 00:05",
    "3rd of March 2024": "2024-03-03",
    "3 de mayo de 2024": "2024-05-03",
    "miércoles, 13 de marzo de 2024": "2024-03-13",
    "13 sept. 2024 3:05 p. m.": "2024-09-13 15:05",
    "1º de maio de 2024": "2024-05-01",
    "quarta-feira, 13 de março de 2024": "2024-03-13",
    "5 fev 2024 às 10:30": "2024-02-05 10:30",
    "mar. 3 mars 2024": "2024-03-03",
    "3 août 2024 à 14h30": "2024-08-03 14:30",
    "1er févr. 2024": "2024-02-01",
    "13 DÉC 2024": "2024-12-13",
    "13 maggio 2024 alle ore 14:30": "2024-05-13 14:30",
    "lun 13 mag 2024": "2024-05-13",
    "woensdag 13 maart 2024 om 14:30": "2024-03-13 14:30",
    "13 mrt 2024": "2024-03-13",
    "Wed, 13 Mar 2024 03:05:06 +0100 (CET)": "2024-03-13 02:05:06",
    "Wed Mar 13 03:05:06 UTC 2024": "2024-03-13 03:05:06",
    "Wed Mar 13 2024 03:05:06 GMT+0100 (Central European Standard Time)": "2024-03-13 02:05:06",
    "Wednesday, 13-Mar-24 03:05:06 GMT": "2024-03-13 03:05:06",
    "Mar 13 2024  3:05AM": "2024-03-13 03:05",
    "13MAR2024:03:05:06": "2024-03-13 03:05:06",
    "13/Mar/2024:03:05:06 +0100": "2024-03-13 02:05:06",
    "13-MAR-24 03.05.06.123456 PM": "2024-03-13 15:05:06.123456",
    "2024-03-13-03.05.06.123456": "2024-03-13 03:05:06.123456",
    "2024-Mar-13": "2024-03-13",
    "Mar-24": "2024-03-01",
    "septiembre de 2024": "2024-09-01",
    "2024年3月13日 03:05": "2024-03-13 03:05",
    "2024년 3월 13일": "2024-03-13",
    "٢٠٢٤-٠٣-١٣": "2024-03-13",
    "Ma\u0308rz 2024": "2024-03-01",
}

ORDERED: list[tuple[str, Order, str | None]] = [
    ("03/04/2024", "day first", "2024-04-03"),
    ("03/04/2024", "month first", "2024-03-04"),
    ("03/04/2024", "iso", None),
    ("03.04.2024", "iso", "2024-04-03"),
    ("13/04/2024", "iso", "2024-04-13"),
    ("04/13/2024", "iso", "2024-04-13"),
    ("04/13/2024", "day first", None),
    ("13/04/2024", "month first", None),
    ("13-04-2024 5:06", "day first", "2024-04-13 05:06"),
    ("3/13/2024, 3:05:06 AM", "month first", "2024-03-13 03:05:06"),
    ("28/10/21", "day first", "2021-10-28"),
    ("28.10.69", "day first", "2069-10-28"),
    ("28.10.70", "day first", "1970-10-28"),
    ("9/9/99", "day first", "1999-09-09"),
    ("24-03-13", "year first", "2024-03-13"),
    ("24-03-13", "day first", "2013-03-24"),
    ("24-03-13", "iso", None),
    ("99-03-13", "iso", "1999-03-13"),
    ("13.03.2024 03.05", "day first", "2024-03-13 03:05"),
    ("Mi., 13.03.2024", "day first", "2024-03-13"),
]

ENDS = {
    "9999-12-31": "9999-12-31",
    "9999-12-31 23:59:59.999": "9999-12-31",
    "31.12.9999": "9999-12-31",
    "12/31/9999": "9999-12-31",
    "99991231": "9999-12-31",
    "31 Dec 9999": "9999-12-31",
    "2999-12-31": "2999-12-31",
    "3000-01-01": "3000-01-01",
    "0001-01-01T00:00:00Z": "0001-01-01",
    "01/01/0001": "0001-01-01",
    "0000-00-00 00:00:00": "0000-00-00",
    "00.00.0000": "0000-00-00",
    "9999-99-99": "9999-99-99",
    "-0001-11-30": "-0001-11-30",
    "infinity": "infinity",
    "0": "0",
}

NO_MOMENTS = [
    "", "soon", "1.2.3", "1-2", "3/4", "0024", "1024", "12:30", "2024-13-45", "2024-02-30", "13/13/2024", "2024-03-13 25:00",
    "2024-03-13 03:61", "2024-03-13 03:05 XYZ", "2024-03-13 03:05 Mars/Olympus",
    "2024-03-13-05", "Mar 13 03:05:06", "May", "May 3", "0202-03-13", "20224-03-13",
    "192.168.1.1", "+1 555 0100", "2023Q5", "2024-W54", "2023-366", "2023-14", "45", "12345678", "A-2024-03-13", "2024-03-13x",
    "10 000 2024", "3 of 2024", "13 Foo 2024", "2024-03-13 03:05+25:00", "x" * 200 + "1",
]  # fmt: skip


def spelled(text: str, order: Order = "day first") -> str | None:
    moment = read_moment(text, order)
    if moment is None or moment.microseconds is None:
        return None
    return str(datetime(1970, 1, 1) + timedelta(microseconds=moment.microseconds))


@pytest.mark.parametrize(("text", "expected"), (ISO | NAMES).items())
def test_moments_are_read_in_every_order(text: str, expected: str) -> None:
    orders: tuple[Order, ...] = ("iso", "day first", "month first", "year first")
    assert {spelled(text, order) for order in orders} == {str(datetime.fromisoformat(expected))}


@pytest.mark.parametrize(("text", "order", "expected"), ORDERED)
def test_the_order_decides_about_three_numbers(text: str, order: Order, expected: str | None) -> None:
    assert spelled(text, order) == (None if expected is None else str(datetime.fromisoformat(expected)))


@pytest.mark.parametrize(("text", "end"), ENDS.items())
def test_far_dates_are_open_ends(text: str, end: str) -> None:
    for order in ("iso", "day first", "month first"):
        moment = read_moment(text, order)
        assert moment is not None
        assert (moment.microseconds, moment.end) == (None, end)


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_other_texts_are_no_moments(text: str) -> None:
    assert [read_moment(text, order) for order in ("iso", "day first", "month first", "year first")] == [None] * 4


def test_offsets_and_zones_are_reported() -> None:
    for text, zoned, zone in (
        ("2024-03-13 03:05", False, None),
        ("2024-03-13 03:05Z", True, "z"),
        ("2024-03-13 03:05+00:00", True, None),
        ("2024-03-13 03:05 CST", True, "cst"),
    ):
        moment = read_moment(text, "iso")
        assert moment is not None
        assert (moment.zoned, moment.zone) == (zoned, zone)


def test_numbers_of_a_known_unit_have_any_number_of_digits() -> None:
    expected = [
        ("0", "epoch s", 0),
        ("-1", "epoch ms", -1000),
        ("7", "epoch us", 7),
        ("1500", "epoch ns", 2),
        ("25569", "excel", 0),
    ]
    for text, form, microseconds in expected:
        moment = read_number(text, form)  # type: ignore[arg-type]
        assert moment is not None
        assert moment.microseconds == microseconds
    assert read_number("1e30", "epoch s") is None
    assert read_number("soon", "epoch s") is None
    assert read_number("2958465", "excel") == (None, "9999-12-31", "number", False, None)
    assert read_number("45364.503472222219", "excel") == (1_710_331_500_000_000, None, "number", False, None)
