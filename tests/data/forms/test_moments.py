"""Columns of moments: the same microseconds in training and prediction, from text and typed files, in every notation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.data.forms.moments import Dates, find_dates, find_order, is_date_format, number_dates, read_moments
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import read_table
from tabapp.data.schema import Column
from tabapp.data.small import SMALL
from tabapp.data.typed import typed_column, typed_frame

GENERATOR = np.random.default_rng(3)
Spell = Callable[[datetime], str]


def offset(hours: float) -> Spell:
    zone = timezone(timedelta(hours=hours))
    return lambda moment: moment.replace(tzinfo=UTC).astimezone(zone).isoformat(" ")


MONTHS_OF = {
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "Portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "Dutch": "januari februari maart april mei juni juli augustus september oktober november december",
}


def in_words(language: str, form: str) -> Spell:
    names = MONTHS_OF[language].split()
    return lambda moment: (
        form.format(d=moment.day, m=names[moment.month - 1], y=moment.year) + moment.strftime(" %H:%M:%S")
    )


SECONDS: dict[str, Spell] = {
    "ISO": lambda moment: moment.isoformat(),
    "ISO with Z": lambda moment: moment.isoformat() + "Z",
    "SQL": lambda moment: str(moment),
    "PostgreSQL": lambda moment: f"{moment}+00",
    "offset": offset(2),
    "offset of half an hour": offset(-5.5),
    "basic": lambda moment: moment.strftime("%Y%m%dT%H%M%SZ"),
    "compact": lambda moment: moment.strftime("%Y%m%d%H%M%S"),
    "fraction": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S.000"),
    "comma": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S,000"),
    "German": lambda moment: moment.strftime("%d.%m.%Y %H:%M:%S"),
    "short British": lambda moment: moment.strftime("%d/%m/%y %H:%M:%S"),
    "American": lambda moment: f"{moment.month}/{moment.day}/{moment.year} {moment:%I:%M:%S %p}",
    "American with 24 hours": lambda moment: f"{moment.month}/{moment.day}/{moment.year} {moment.hour}:{moment:%M:%S}",
    "mail": lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S +0000"),
    "log": lambda moment: moment.strftime("%d/%b/%Y:%H:%M:%S +0000"),
    "C": lambda moment: moment.strftime("%a %b %d %H:%M:%S %Y"),
    "German words": in_words("German", "{d}. {m} {y}"),
    "French words": in_words("French", "{d} {m} {y}"),
    "Spanish words": in_words("Spanish", "{d} de {m} de {y}"),
    "Italian words": in_words("Italian", "{d} {m} {y}"),
    "Portuguese words": in_words("Portuguese", "{d} de {m} de {y}"),
    "Dutch words": in_words("Dutch", "{d} {m} {y}"),
}  # fmt: skip
DAYS: dict[str, Spell] = {
    "ISO": lambda day: day.strftime("%Y-%m-%d"),
    "slashes": lambda day: day.strftime("%Y/%m/%d"),
    "compact": lambda day: day.strftime("%Y%m%d"),
    "German": lambda day: f"{day.day}.{day.month}.{day.year}",
    "British": lambda day: day.strftime("%d/%m/%Y"),
    "American": lambda day: day.strftime("%m/%d/%Y"),
    "short German": lambda day: day.strftime("%d.%m.%y"),
    "short years first": lambda day: day.strftime("%y-%m-%d"),
    "week": lambda day: "{}-W{:02}-{}".format(*day.isocalendar()),
    "words": lambda day: day.strftime("%B %d, %Y"),
    "SAS": lambda day: day.strftime("%d%b%Y").upper(),
}


def moments_of(n: int, *, days: bool = False, years: int = 12) -> list[datetime]:
    seconds = GENERATOR.integers(0, years * 365 * 86_400, n).tolist()
    moments = [datetime(2010, 1, 1) + timedelta(seconds=second) for second in seconds]
    return [moment.replace(hour=0, minute=0, second=0) for moment in moments] if days else moments


def found_in(texts: list[str], **options: bool) -> Dates:
    dates = find_dates(texts, np.ones(len(texts), dtype=np.int64), **options)  # type: ignore[arg-type]
    assert dates is not None
    return dates


@pytest.mark.parametrize("n", [200, SMALL + 200], ids=["few", "many"])
@pytest.mark.parametrize(
    ("spell", "days"),
    [*((spell, False) for spell in SECONDS.values()), *((spell, True) for spell in DAYS.values())],
    ids=[*SECONDS, *(f"{name} day" for name in DAYS)],
)
def test_a_notation_has_the_same_microseconds_in_training_and_prediction(spell: Spell, days: bool, n: int) -> None:
    moments = list(dict.fromkeys(moments_of(n, days=days)))
    texts = [spell(moment) for moment in moments]
    dates = found_in(texts)
    assert dates.moments.to_list() == moments
    for part in (texts, texts[:1], texts * 3):
        read = read_moments(pl.Series(part), dates.form, dates.open_ends)
        assert read.moments.to_list() == (moments * 3)[: len(part)]
        assert not read.ends.count()


def test_all_notations_of_an_order_may_be_mixed() -> None:
    spells = [spell for name, spell in SECONDS.items() if not name.startswith("American")]
    moments = moments_of(40 * len(spells))
    texts = [spells[i % len(spells)](moment) for i, moment in enumerate(moments)]
    dates = found_in(texts)
    assert (dates.form, dates.share, dates.zone) == ("day first", 1.0, "mixed")
    assert dates.moments.to_list() == moments
    # Each order of the texts and each length is read alike.
    for places in (GENERATOR.permutation(len(texts)).tolist(), range(17)):
        read = read_moments(pl.Series([texts[i] for i in places]), dates.form)
        assert read.moments.to_list() == [moments[i] for i in places]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("trained_on", [".csv", ".parquet", ".arrow"])
def test_text_and_typed_files_give_the_same_moments(trained_on: str, suffix: str, tmp_path: Path) -> None:
    plain, zoned, fine = moments_of(60), moments_of(60), moments_of(60)
    day = moments_of(60, days=True)
    target = [i % 3 for i in range(60)]
    in_india = pl.Series(zoned).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata")
    typed = pl.DataFrame({
        "plain": plain, "zoned": in_india, "fine": pl.Series(fine, dtype=pl.Datetime("ns")), "day": pl.Series(day).dt.date(),
        "y": target,
    })  # fmt: skip
    text = pl.DataFrame({
        "plain": [moment.strftime("%d.%m.%Y %H:%M:%S") for moment in plain],
        "zoned": [moment.isoformat() + "Z" for moment in zoned],
        "fine": [f"{moment.month}/{moment.day}/{moment:%Y %I:%M:%S %p}" for moment in fine],
        "day": [f"{moment:%d/%m/%y}" for moment in day],
        "y": target,
    })  # fmt: skip
    for name, write in ((".csv", text.write_csv), (".parquet", typed.write_parquet), (".arrow", typed.write_ipc)):
        write(tmp_path / f"table{name}")
    reading = read_table(tmp_path / f"table{trained_on}")
    schema = infer_schema(reading.frame, target="y", stored=reading.stored)
    assert [column.kind for column in schema.columns[:4]] == ["datetime"] * 4
    new = typed_frame(read_table(tmp_path / f"table{suffix}", columns=schema.columns).frame, schema)
    assert [new[name].to_list() for name in ("plain", "zoned", "fine", "day")] == [plain, zoned, fine, day]


@pytest.mark.parametrize(
    ("unit", "factor"), [("epoch s", 10**6), ("epoch ms", 10**3), ("epoch us", 1), ("epoch ns", 0.001), ("excel", 0)]
)
@pytest.mark.parametrize("n", [200, SMALL + 200], ids=["few", "many"])
def test_numbers_give_the_same_microseconds(unit: str, factor: float, n: int) -> None:
    moments = list(dict.fromkeys(moments_of(n)))
    since = [round((moment - datetime(1970, 1, 1)).total_seconds() * 1e6) for moment in moments]
    texts = [str(each / 86_400e6 + 25_569) if unit == "excel" else str(round(each / factor)) for each in since]
    if unit == "epoch ns":
        texts = [f"{each}000" for each in since]
    dates = number_dates(texts, np.ones(len(texts), dtype=np.int64))
    assert dates is not None
    assert dates.form == unit
    assert dates.moments.to_list() == moments
    # Other notations are read in such a column as well.
    mixed = pl.Series([text if i % 2 else str(moments[i]) for i, text in enumerate(texts)])
    assert read_moments(mixed, unit).moments.to_list() == moments


@pytest.mark.parametrize("n", [20, SMALL + 200], ids=["few", "many"])
def test_timestamps_of_another_unit_than_in_training_are_read_by_their_digits(n: int) -> None:
    moments = moments_of(n)
    units = {"epoch s": 1, "epoch ms": 10**3, "epoch us": 10**6, "epoch ns": 10**9}
    for trained, (unit, factor) in product([*units, "iso", "excel"], units.items()):
        texts = [str(round(moment.replace(tzinfo=UTC).timestamp()) * factor) for moment in moments]
        assert read_moments(pl.Series(texts), trained).moments.to_list() == moments, (trained, unit)


def test_the_order_is_that_of_most_dates() -> None:
    assert find_order(pl.Series(["13/02/2024", "01/02/2024"])) == ("day first", None)
    assert find_order(pl.Series(["02/13/2024", "01/02/2024"])) == ("month first", None)
    assert find_order(pl.Series(["01/02/2024", "03/04/2024"])) == ("month first", "day first")
    assert find_order(pl.Series(["01.02.2024", "03.04.2024"])) == ("day first", "month first")
    assert find_order(pl.Series(["01/01/2024", "02/02/2024"])) == ("month first", None)
    assert find_order(pl.Series(["2024-01-02", "3 May 2024"])) == ("iso", None)
    years = [f"{year}-0{1 + day % 9}-{day:02}" for year in (22, 23) for day in range(1, 32)]
    assert find_order(pl.Series(years))[0] == "year first"
    assert find_order(pl.Series(["24-03-13", "23-04-11"])) == ("day first", "year first")
    assert find_order(pl.Series(["24.03.13", "23.04.11"])) == ("day first", None)
    assert find_order(pl.Series([f"{day}-03-2{day % 4}" for day in range(13, 29)])) == ("day first", None)
    many = pl.Series([f"{1 + i % 28}/{1 + i % 12}/{1990 + i % 30} 10:{i % 60:02}" for i in range(5000)])
    assert find_order(many) == ("day first", None)


def test_dates_against_the_order_of_training_are_missing() -> None:
    column = Column(name="x", kind="datetime", reason="", datetime_format="day first")
    typed = typed_column(pl.Series(["13/02/2024", "02/13/2024"]), column)
    assert typed.to_list() == [datetime(2024, 2, 13), None]


def test_new_rows_decide_about_the_order_that_training_did_not_need() -> None:
    column = Column(name="x", kind="datetime", reason="", datetime_format="iso")
    for texts, expected in (
        (["03/04/2024", "13/04/2024"], [datetime(2024, 4, 3), datetime(2024, 4, 13)]),
        (["03/04/2024", "04/13/2024"], [datetime(2024, 3, 4), datetime(2024, 4, 13)]),
        (["03/04/2024", "2024-04-13"], [None, datetime(2024, 4, 13)]),
        (["03.04.24", "28.10.21"], [datetime(2024, 4, 3), datetime(2021, 10, 28)]),
    ):
        assert typed_column(pl.Series(texts), column).to_list() == expected


def test_formats_of_earlier_versions_are_read() -> None:
    for form, text in (
        ("%Y-%m-%d", "2021-10-28"),
        ("%d/%m/%Y", "28/10/21"),
        ("%m/%d/%Y %H:%M", "10/28/2021"),
        ("%d.%m.%y", "28.10.2021 00:00"),
        ("%d %B %Y", "28 October 2021"),
        ("%a, %d %B %Y %H:%M:%S%.f UTC", "Thu, 28 Oct 2021 00:00:00 UTC"),
        ("%Y-%m-%dT%H:%M:%S%.f%z", "2021-10-28T02:00+02:00"),
        ("%Y%m%d", "20211028"),
        ("epoch s", "1635379200"),
    ):
        assert is_date_format(form), form
        assert read_moments(pl.Series([text]), form).moments.to_list() == [datetime(2021, 10, 28)]
    assert not any(map(is_date_format, ("", "%", "%Q", "iso\n", "day", "epoch", "%d", "%Y" * 100)))


NOT_DATES: dict[str, list[str]] = {
    "versions": [f"{i % 4}.{i % 7}.{i % 11}" for i in range(90)],
    "long versions": [f"{10 + i % 4}.{i % 30}.{i % 60}" for i in range(90)],
    "ranges": [f"{i}-{i + 5}" for i in range(90)],
    "years": [str(1950 + i % 70) for i in range(90)],
    "seasons": [f"{1998 + i}-{(99 + i) % 100:02}" for i in range(14)],
    "scores": [f"{i % 7}/{i % 5}" for i in range(90)],
    "numbered bills": [f"2024-{i:03}" for i in range(1, 120)],
    "numbered parts": [f"{1000 + 7 * i}-{i % 90:02}" for i in range(90)],
    "addresses": [f"192.168.{i % 9}.{i}" for i in range(90)],
    "stages": [f"T{1 + i % 4}-{10 + i % 80}" for i in range(90)],
    "telephones": [f"0{i % 9}0 {i:03} {i * 7:04}" for i in range(90)],
    "times": [f"{i % 24:02}:{i % 60:02}" for i in range(90)],
    "months": ["May", "June", "Mar", "Dec"] * 5,
    "sentences": [f"it was 2024-03-{i % 28 + 1:02} when we met" for i in range(90)],
    "numbers": [str(45_000 + i) for i in range(90)],
    "timestamps": [str(1_700_000_000 + i) for i in range(90)],
}


@pytest.mark.parametrize("texts", NOT_DATES.values(), ids=NOT_DATES)
def test_other_texts_are_no_dates(texts: list[str]) -> None:
    distinct = list(dict.fromkeys(texts))
    assert find_dates(distinct, np.ones(len(distinct), dtype=np.int64)) is None


def test_open_ends_are_missing_and_few_other_texts_are_set_aside() -> None:
    days = [f"{2015 + i % 8}-0{1 + i % 9}-{1 + i % 28:02}" for i in range(150)]
    cells = [*days, *["9999-12-31"] * 90, *["1900-01-01"] * 9, *["ongoing"] * 30, "0000-00-00", "soon", "2024-13-45"]
    distinct = list(dict.fromkeys(cells))
    dates = find_dates(distinct, np.array([cells.count(cell) for cell in distinct]))
    assert dates is not None
    assert dates.open_ends == ("0000-00-00", "1900-01-01", "9999-12-31", "ongoing")
    assert dates.share == pytest.approx(1 - 2 / len(cells))
    for repeats in (1, 10):
        read = read_moments(pl.Series(cells * repeats), dates.form, dates.open_ends)
        assert read.moments.count() == 150 * repeats
        assert read.ends.drop_nulls().value_counts().sort("")["count"].to_list() == [
            r * repeats for r in (1, 9, 90, 30)
        ]


def test_open_ends_of_dates_without_separators_and_timestamps(tmp_path: Path) -> None:
    moments = moments_of(120)
    lines = ["day,updated,y"]
    for i, moment in enumerate(moments):
        day = f"{moment:%Y%m%d}" if i % 3 else "99991231" if i % 2 else "00000000"
        lines.append(f"{day},{round(moment.replace(tzinfo=UTC).timestamp()) if i % 5 else 0},{i % 2}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    schema = infer_schema(read_table(tmp_path / "table.csv").frame, target="y")
    assert [schema.column(name).datetime_format for name in ("day", "updated")] == ["iso", "epoch s"]
    assert schema.column("day").open_ends == ("0000-00-00", "9999-12-31")
    assert schema.column("updated").open_ends == ("1970-01-01",)
    typed = typed_frame(read_table(tmp_path / "table.csv").frame, schema)
    days = [moment.replace(hour=0, minute=0, second=0) if i % 3 else None for i, moment in enumerate(moments)]
    assert typed["day"].to_list() == days
    assert typed["updated"].to_list() == [moment if i % 5 else None for i, moment in enumerate(moments)]
    assert typed["updated mark"].to_list() == [None if i % 5 else "1970-01-01" for i in range(120)]


def test_first_days_of_ordinary_years_are_dates() -> None:
    birthdays = [*(f"19{30 + i % 60}-0{1 + i % 9}-11" for i in range(100)), *["1900-01-01"] * 5]
    first_days = [f"{1990 + i % 30}-01-01" for i in range(100)]
    for cells in (birthdays, first_days, ["1900-01-01", *["2024-05-06", "2024-07-08"] * 9]):
        distinct = list(dict.fromkeys(cells))
        dates = find_dates(distinct, np.array([cells.count(cell) for cell in distinct]))
        assert dates is not None
        assert dates.open_ends == ()
