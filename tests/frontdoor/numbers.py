"""Numbers as people write them: with marks, units, currencies, separators, signs, and digits of other scripts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tests.frontdoor.tables import SAID, TRAINING, situation
from tests.frontdoor.truth import Cell, Draw, Drawn, Field, Value


def plain(value: Value) -> str:
    """A number with a decimal point and no exponent."""
    return f"{value:.2f}"


def written(
    draw: Draw, name: str, odd: Callable[[float], tuple[str, float, str | None]], share: float,
    value: Callable[[], float] | None = None, as_plain: Callable[[Value], str] = plain, scales: tuple[float, ...] = (1.0,),
) -> Drawn:  # fmt: skip
    """One column of numbers, a share of which is written otherwise.

    Args:
        odd: text, value and mark of an unusual cell.
    """

    def cell(v: Value) -> Cell:
        assert isinstance(v, float)
        return Cell(*odd(v))

    return Drawn([draw.column(name, value or draw.number, as_plain, cell, share, scales)])


def grouped(value: float, thousands: str, decimal: str, digits: int = 2) -> str:
    """A number with separators of thousands."""
    return f"{value:,.{digits}f}".translate({ord(","): thousands, ord("."): decimal})


@situation(is_read=TRAINING)
def detection_limit(draw: Draw) -> Drawn:
    mark, gap = draw.pick("<", ">", "≤", "≥"), draw.pick("", " ")
    return written(draw, "lead (µg/l)", lambda v: (f"{mark}{gap}{v:.2f}", round(v, 2), mark), draw.share(0.02, 0.6))


@situation(is_read=TRAINING)
def both_limits(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, str]:
        mark = draw.pick("<", ">")
        return f"{mark}{v:.2f}", round(v, 2), mark

    return written(draw, "titer", odd, draw.share(0.02, 0.6))


@situation(is_read=TRAINING)
def approximate(draw: Draw) -> Drawn:
    mark = draw.pick("~", "≈")
    # Both signs are one mark.
    return written(draw, "distance", lambda v: (f"{mark}{v:.2f}", round(v, 2), "~"), draw.share(0.02, 0.5))


@situation(is_read=TRAINING)
def footnotes(draw: Draw) -> Drawn:
    mark, gap = draw.pick("*", "†", "e", "p", "**", "‡"), draw.pick("", " ")
    return written(draw, "revenue", lambda v: (f"{v:.2f}{gap}{mark}", round(v, 2), mark), draw.share(0.02, 0.4))


@situation(is_read=TRAINING)
def several_footnotes(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, str]:
        mark = draw.pick("p", "e", "*")
        return f"{v:.2f}{mark}", round(v, 2), mark

    return written(draw, "births", odd, draw.share(0.05, 0.4))


@situation(is_read=TRAINING)
def trailing_minus(draw: Draw) -> Drawn:
    return written(draw, "balance", lambda v: (f"{v:.2f}-", -round(v, 2), None), draw.share(0.02, 0.5))


@situation(is_read=TRAINING)
def parentheses(draw: Draw) -> Drawn:
    return written(draw, "profit", lambda v: (f"({v:.2f})", -round(v, 2), None), draw.share(0.02, 0.5))


@situation(is_read=TRAINING)
def other_minus_signs(draw: Draw) -> Drawn:
    sign = draw.pick("−", "–", "- ", "－")
    return written(draw, "change", lambda v: (f"{sign}{v:.2f}", -round(v, 2), None), draw.share(0.02, 0.5))


@situation(is_read=SAID)
def credit_and_debit(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, None]:
        mark = draw.pick("CR", "DR")
        return f"{v:.2f} {mark}", round(v, 2) * (-1 if mark == "DR" else 1), None

    return written(draw, "posting", odd, draw.share(0.1, 1.0))


@situation(is_read=TRAINING)
def thousands_and_millions(draw: Draw) -> Drawn:
    currency = draw.pick("€", "$", "")

    def odd(v: float) -> tuple[str, float, None]:
        letter, factor = (("K", 1e3), ("M", 1e6))[int(draw.rng.integers(2))]
        return f"{currency}{v:.1f}{letter}", round(v, 1) * factor, None

    return written(draw, "value", odd, draw.share(0.1, 0.9), as_plain=lambda v: f"{currency}{v:.2f}")


@situation(is_read=TRAINING)
def millions_in_words(draw: Draw) -> Drawn:
    word = draw.pick(" million", " Mio", " mn")
    return written(draw, "turnover", lambda v: (f"{v:.1f}{word}", round(v, 1) * 1e6, None), 0.6, scales=(1.0, 1e-6))


@situation(is_read=TRAINING)
def one_cell_with_a_unit(draw: Draw) -> Drawn:
    unit = draw.pick("kg", "years", "cm", "EUR")
    return written(draw, "weight", lambda v: (f"{v:.2f} {unit}", round(v, 2), None), 0.0)


@situation(phases=TRAINING)
def one_unit_in_the_target(draw: Draw) -> Drawn:
    unit = draw.pick("kg", "years", "%", "m")
    drawn = written(draw, "yield", lambda v: (f"{v:.2f} {unit}", round(v, 2), None), 0.0)
    return Drawn(drawn.fields, target="yield")


@situation(phases=TRAINING)
def all_cells_with_a_unit(draw: Draw) -> Drawn:
    unit, gap = draw.pick("kg", "km/h", "mpg", "°C", "m²", "%"), draw.pick("", " ")
    scales = (1.0, 0.01) if unit == "%" else (1.0,)
    return written(draw, "size", lambda v: (f"{v:.2f}{gap}{unit}", round(v, 2), None), 1.0, scales=scales)


@situation(is_read=TRAINING)
def mixed_units(draw: Draw) -> Drawn:
    small, large, factor = (("g", "kg", 1e3), ("MB", "GB", 1e3), ("cm", "m", 1e2), ("m", "km", 1e3))[
        int(draw.rng.integers(4))
    ]
    scales = (1.0, 1 / factor, *((1 / 1024,) if large == "GB" else ()))
    return written(
        draw, "amount", lambda v: (f"{v:.2f} {large}", round(v, 2) * factor, None), draw.share(0.05, 0.5),
        as_plain=lambda v: f"{v:.2f} {small}", scales=scales,
    )  # fmt: skip


@situation(is_read=SAID)
def percent_in_some_cells(draw: Draw) -> Drawn:
    share = lambda: round(float(draw.rng.uniform(0.01, 0.99)), 4)  # noqa: E731
    return written(
        draw, "rate", lambda v: (f"{v * 100:.2f} %", v, None), draw.share(0.3, 0.6),
        value=share, as_plain=lambda v: f"{v:.4f}", scales=(1.0, 100.0),
    )  # fmt: skip


@situation(is_read=TRAINING)
def currency_before_or_after(draw: Draw) -> Drawn:
    sign = draw.pick("$", "€", "£", "USD ", "CHF ")
    after = draw.pick("$", "€", "£").strip() if draw.phase == "training" else sign
    return written(
        draw, "price", lambda v: (f"{v:.2f} {sign.strip()}", round(v, 2), None), draw.share(0.05, 0.5),
        as_plain=lambda v: f"{sign}{v:.2f}" if after else plain(v),
    )  # fmt: skip


@situation(is_read=TRAINING)
def currency_in_some_cells(draw: Draw) -> Drawn:
    sign = draw.pick("$", "€", "£")
    return written(draw, "fee", lambda v: (f"{sign}{v:.2f}", round(v, 2), None), draw.share(0.02, 0.6))


@situation(phases=TRAINING)
def separators(draw: Draw) -> Drawn:
    thousands, decimal = ((".", ","), (",", "."), ("'", "."), ("’", "."), (" ", ","), (" ", ","), (" ", "."))[
        int(draw.rng.integers(7))
    ]
    return written(
        draw, "income", lambda v: (grouped(v, thousands, decimal), round(v, 2), None), 1.0,
        value=lambda: round(float(draw.rng.lognormal(8, 1)), 2),
    )  # fmt: skip


@situation(is_read=SAID, phases=TRAINING)
def indian_grouping(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, None]:
        whole, _, rest = f"{v:.2f}".partition(".")
        head, tail = whole[:-3], whole[-3:]
        pairs = [head[max(0, i - 2) : i] for i in range(len(head), 0, -2)][::-1]
        return f"{','.join([*pairs, tail])}.{rest}", round(v, 2), None

    return written(draw, "salary", odd, 1.0, value=lambda: round(float(draw.rng.lognormal(12, 1)), 2))


@situation(is_read=TRAINING)
def lap_times(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, None]:
        return f"{int(v // 60)}:{v % 60:06.3f}", round(v, 3), None

    seconds = lambda: round(float(draw.rng.uniform(45, 130)), 3)  # noqa: E731
    return written(
        draw, "lap", odd, 1.0 if draw.phase == "training" else 0.5, value=seconds, as_plain=lambda v: odd(v)[0]
    )  # type: ignore[arg-type]


@situation(is_read=TRAINING)
def clock_durations(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, None]:
        total = int(v)
        return f"{total // 3600}:{total // 60 % 60:02d}:{total % 60:02d}", float(total), None

    return written(
        draw, "took", odd, 1.0, value=lambda: float(draw.rng.integers(60, 90_000)),
        as_plain=lambda v: odd(float(v or 0))[0],
    )  # fmt: skip


@situation(is_read=SAID)
def fractions(draw: Draw) -> Drawn:
    def odd(v: float) -> tuple[str, float, None]:
        whole, part = int(v), Fraction(int(draw.rng.integers(1, 8)), 8)
        return f"{whole} {part}" if whole else f"{part}", whole + float(part), None

    return written(draw, "bolt", odd, draw.share(0.05, 0.6))


@situation(is_read=TRAINING)
def powers_of_ten(draw: Draw) -> Drawn:
    times = draw.pick("*10^", "×10^", "x10^", " × 10^")

    def odd(v: float) -> tuple[str, float, None]:
        power = int(draw.rng.integers(2, 6))
        return f"{v:.2f}{times}{power}", round(v, 2) * 10**power, None

    return written(draw, "cells", odd, draw.share(0.05, 0.9))


@situation(is_read=TRAINING)
def digits_of_other_scripts(draw: Draw) -> Drawn:
    zero = int(draw.pick("1632", "1776", "2406", "65296", "2534"))
    to_script = {ord("0") + i: chr(zero + i) for i in range(10)}
    if zero in (1632, 1776) and draw.rng.random() < 0.5:
        to_script[ord(".")] = "٫"
    return written(draw, "count", lambda v: (plain(v).translate(to_script), round(v, 2), None), draw.share(0.5, 1.0))


@situation(is_read=TRAINING)
def one_odd_text(draw: Draw) -> Drawn:
    text = draw.pick("inf", "none given", "see note", "approx", "not measured", "#VALUE!", "TBD", "refused")

    def field(name: str) -> Field:
        return draw.column(name, draw.number, plain, lambda v: Cell(text, None), 0.0)

    return Drawn([field("glucose")])


@situation(is_read=SAID)
def many_odd_texts(draw: Draw) -> Drawn:
    texts = [f"see page {i}" for i in range(40)]

    def odd(v: Value) -> Cell:
        return Cell(draw.pick(*texts), None)

    return Drawn([draw.column("glucose", draw.number, plain, odd, draw.share(0.1, 0.25))])


@situation(is_read=TRAINING)
def leading_apostrophe(draw: Draw) -> Drawn:
    return written(draw, "article", lambda v: (f"'{v:.2f}", round(v, 2), None), draw.share(0.05, 1.0))


@situation(is_read=TRAINING)
def plus_signs(draw: Draw) -> Drawn:
    return written(draw, "delta", lambda v: (f"+{v:.2f}", round(v, 2), None), draw.share(0.05, 1.0))


@situation(is_read=TRAINING)
def spaces_in_numbers(draw: Draw) -> Drawn:
    space = draw.pick(" ", "\u00a0", "\u2009", "\t")
    return written(draw, "payment", lambda v: (f"{space}{v:.2f}{space}", round(v, 2), None), draw.share(0.05, 1.0))


@situation(is_read=SAID)
def large_offsets(draw: Draw) -> Drawn:
    offset = float(draw.pick("1000000000", "10000000000", "1700000000", "202403130000"))
    whole = lambda: offset + float(draw.rng.integers(2_000))  # noqa: E731
    return written(draw, "load", lambda v: (f"{v:.0f}", v, None), 0.5, value=whole, as_plain=lambda v: f"{v:.0f}")
