"""Dates and times in the notations of programs, standards and languages; mixed, with open ends, and in other zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

import polars as pl

from tests.frontdoor.tables import TRAINING, situation
from tests.frontdoor.truth import Cell, Cells, Draw, Drawn, Field, Value, at, microseconds

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)

MONTHS = {
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "Portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "Dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "English": "January February March April May June July August September October November December",
}


def written(
    draw: Draw, odd: Callable[[datetime], str], plain: Callable[[datetime], str], share: float,
    step: timedelta = timedelta(minutes=1), scales: tuple[float, ...] = (1.0,),
) -> Drawn:  # fmt: skip
    """One column of moments, a share of which is written otherwise."""
    return Drawn([
        draw.column(
            "sold", lambda: draw.moment(step), lambda v: plain(at(v)), lambda v: Cell(odd(at(v)), v), share, scales
        )
    ])  # fmt: skip


def in_one_form(draw: Draw, form: Callable[[datetime], str], step: timedelta = DAY, **more: tuple[float, ...]) -> Drawn:
    """One column of moments that are all written in one form; in new rows only, it is another form than in training."""
    iso = "%Y-%m-%d" if step >= DAY else "%Y-%m-%d %H:%M:%S"
    return written(draw, form, lambda t: t.strftime(iso), 1.0, step, **more)


def iso(when: datetime) -> str:
    return when.isoformat(sep=" ")


@situation()
def mixed_offsets(draw: Draw) -> Drawn:
    sep, colon = draw.pick(" ", "T"), draw.pick(":", "")

    def odd(when: datetime) -> str:
        hours = int(draw.rng.integers(-8, 9))
        if not hours:
            return when.isoformat(sep=sep) + "Z"
        local = when.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=hours)))
        text = local.isoformat(sep=sep)
        return text if colon else text[:-3] + text[-2:]

    # In new rows only, moments without an offset are moments of UTC too.
    return written(
        draw, odd, lambda t: t.isoformat(sep=sep) + ("Z" if draw.phase == "training" else ""), draw.share(0.3, 0.9)
    )


@situation()
def offsets_and_none(draw: Draw) -> Drawn:
    sep = draw.pick(" ", "T")
    return written(draw, lambda t: t.isoformat(sep=sep) + "Z", lambda t: t.isoformat(sep=sep), draw.share(0.1, 0.9))


@situation()
def short_offsets(draw: Draw) -> Drawn:
    def odd(when: datetime) -> str:
        return iso(when + 2 * HOUR) + "+02"

    return in_one_form(draw, odd, timedelta(minutes=1))


@situation()
def midnight_as_a_date(draw: Draw) -> Drawn:
    sep, step = draw.pick(" ", "T"), 6 * HOUR

    def form(when: datetime) -> str:
        return when.date().isoformat() if when.hour == 0 else when.isoformat(sep=sep)

    return written(draw, form, lambda t: t.isoformat(sep=sep), draw.share(0.3, 1.0), step)


@situation()
def with_and_without_seconds(draw: Draw) -> Drawn:
    sep = draw.pick(" ", "T")
    return written(
        draw, lambda t: t.isoformat(sep=sep, timespec="minutes"), lambda t: t.isoformat(sep=sep), draw.share(0.1, 0.9)
    )


@situation()
def with_and_without_fractions(draw: Draw) -> Drawn:
    digits = draw.pick("milliseconds", "microseconds")
    return written(draw, lambda t: t.isoformat(sep=" ", timespec=digits), iso, draw.share(0.1, 0.9), SECOND)


@situation()
def compact(draw: Draw) -> Drawn:
    form = draw.pick("%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%d%H%M")
    return in_one_form(draw, lambda t: t.strftime(form), timedelta(minutes=1))


@situation()
def weeks(draw: Draw) -> Drawn:
    form = draw.pick("{}-W{:02d}", "{}W{:02d}")

    def odd(when: datetime) -> str:
        monday = when.isocalendar()
        return form.format(monday.year, monday.week)

    return in_one_form(draw, odd, timedelta(days=7))


@situation()
def quarters(draw: Draw) -> Drawn:
    form = draw.pick("{0}Q{1}", "{0}-Q{1}", "{0} Q{1}", "Q{1} {0}", "Q{1}/{0}")
    drawn = in_one_form(draw, lambda t: form.format(t.year, (t.month + 2) // 3))
    return _first_of(drawn, lambda t: t.replace(month=(t.month - 1) // 3 * 3 + 1, day=1))


@situation()
def months(draw: Draw) -> Drawn:
    form = draw.pick("%Y-%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y/%m", "%m.%Y")
    return _first_of(in_one_form(draw, lambda t: t.strftime(form)), lambda t: t.replace(day=1))


def _first_of(drawn: Drawn, first: Callable[[datetime], datetime]) -> Drawn:
    """Round all values down, in the cells that a day is not written in; ordinary cells get the text of the first day."""

    def rounded(cells: Cells) -> Cells:
        values = [microseconds(first(at(value))) for value in cells.values]
        texts = [
            at(value).strftime("%Y-%m-%d") if text == at(old).strftime("%Y-%m-%d") else text
            for value, old, text in zip(values, cells.values, cells.texts, strict=True)
        ]
        return Cells(texts, values)

    field = drawn.fields[0]
    return Drawn([Field(field.name, rounded(field.training), rounded(field.new))])


@situation()
def month_names(draw: Draw) -> Drawn:
    names = MONTHS[draw.pick(*MONTHS)].split()
    form = draw.pick("{d} {m} {y}", "{d:02d} {m} {y}", "{d}. {m} {y}", "{d}-{m}-{y}")
    if names[0] in ("enero", "janeiro"):
        form = draw.pick(form, "{d} de {m} de {y}")
    return in_one_form(draw, lambda t: form.format(d=t.day, m=names[t.month - 1], y=t.year))


@situation()
def abbreviated_months(draw: Draw) -> Drawn:
    names = MONTHS[draw.pick("English", "Spanish", "Italian", "Portuguese", "German", "Dutch")].split()
    form = draw.pick("{d:02d}-{m}-{y}", "{d} {m} {y}", "{d}. {m}. {y}", "{d:02d}{m}{y}")
    # Three letters, except where a language abbreviates otherwise.
    short = {"März": "Mär", "maart": "mrt"}
    return in_one_form(
        draw, lambda t: form.format(d=t.day, m=short.get(names[t.month - 1], names[t.month - 1][:3]), y=t.year)
    )


@situation(is_read=TRAINING)
def two_digit_years(draw: Draw) -> Drawn:
    form = draw.pick("%d.%m.%y", "%d/%m/%y", "%d-%b-%y", "%d-%m-%y")
    return in_one_form(draw, lambda t: t.strftime(form))


@situation(is_read=TRAINING)
def national_forms(draw: Draw) -> Drawn:
    form = draw.pick(
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%d-%m-%Y",
        "%Y/%m/%d",
        "%Y.%m.%d",
        "%m/%d/%Y %I:%M %p",
        "%d.%m.%Y %H:%M",
        "%Y年%m月%d日",
    )
    return in_one_form(draw, lambda t: t.strftime(form), HOUR if "H" in form or "I" in form else DAY)


@situation()
def names_of_zones(draw: Draw) -> Drawn:
    zone = draw.pick("UTC", "GMT", "Z")
    return in_one_form(draw, lambda t: f"{iso(t)} {zone}", timedelta(minutes=1))


@situation()
def mail_headers(draw: Draw) -> Drawn:
    return in_one_form(draw, lambda t: t.strftime("%a, %d %b %Y %H:%M:%S GMT"), SECOND)


@situation(phases=TRAINING)
def epochs(draw: Draw) -> Drawn:
    factor = int(draw.pick("1000000", "1000", "1"))
    return in_one_form(draw, lambda t: str(microseconds(t) // factor), SECOND, scales=(1.0, 1 / factor))


@situation(phases=TRAINING)
def days_of_excel(draw: Draw) -> Drawn:
    """Days since 1899-12-30 are numbers, which may be moments where the column is called a date."""
    first = microseconds(datetime(1899, 12, 30))
    day = 86_400_000_000

    def as_days(cells: Cells) -> Cells:
        days = [(int(v or 0) - first) // day for v in cells.values]
        texts: list[str | None] = [*map(str, days)]
        return Cells(texts, days, also=cells.values) if named else Cells(texts, days)

    named = draw.rng.random() < 0.5
    field = in_one_form(draw, lambda t: t.date().isoformat()).fields[0]
    return Drawn([Field("sale date" if named else "stock", as_days(field.training), as_days(field.new))])


OPEN_ENDS = ("9999-12-31", "0001-01-01", "2999-12-31", "9999-12-31 00:00:00", "0000-00-00")


@situation()
def open_ends(draw: Draw) -> Drawn:
    end = draw.pick(*OPEN_ENDS)
    with_time = len(end) > 10

    def odd(value: Value) -> Cell:
        return Cell(end, None, end[:10])

    form = "%Y-%m-%d %H:%M:%S" if with_time else "%Y-%m-%d"
    step = SECOND if with_time else DAY
    column = draw.column(
        "valid until", lambda: draw.moment(step), lambda v: at(v).strftime(form), odd, draw.share(0.02, 0.6)
    )
    return Drawn([column])


@situation(formats=("parquet",))
def stored_open_ends(draw: Draw) -> Drawn:
    end = date.fromisoformat(draw.pick("9999-12-31", "0001-01-01", "2999-12-31"))

    def odd(value: Value) -> Cell:
        return Cell(end.isoformat(), None, end.isoformat())

    plain = lambda v: at(v).date().isoformat()  # noqa: E731
    column = draw.column("valid until", lambda: draw.moment(DAY), plain, odd, draw.share(0.02, 0.6))

    def typed(cells: Cells) -> Cells:
        days = pl.Series([date.fromisoformat(text) for text in cells.texts if text is not None])
        return Cells(cells.texts, cells.values, cells.marks, days)

    column = Field(column.name, typed(column.training), typed(column.new))
    return Drawn([column])


@situation(formats=("parquet",))
def stored_zones(draw: Draw) -> Drawn:
    zone = draw.pick("UTC", "Europe/Berlin", "America/New_York")

    def typed(cells: Cells) -> Cells:
        moments = pl.Series(list(cells.values), dtype=pl.Int64).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        return Cells(cells.texts, cells.values, (), moments.dt.convert_time_zone(zone))

    field = in_one_form(draw, iso, timedelta(minutes=1)).fields[0]
    return Drawn([Field(field.name, typed(field.training), typed(field.new))])
