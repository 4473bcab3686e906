"""New rows whose values parse as in training, but mean something else: another scale, decimal mark, share or zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tests.frontdoor.numbers import grouped
from tests.frontdoor.tables import PREDICTION, SAID, situation
from tests.frontdoor.truth import Cell, Draw, Drawn, Value, at


def changed(
    draw: Draw, name: str, value: Callable[[], float], plain: Callable[[float], str], odd: Callable[[float], str]
) -> Drawn:  # fmt: skip
    """One column of numbers that is written otherwise in all new rows."""

    def text(v: Value) -> str:
        assert isinstance(v, float)
        return plain(v)

    def cell(v: Value) -> Cell:
        assert isinstance(v, float)
        return Cell(odd(v), v)

    return Drawn([draw.column(name, value, text, cell, 1.0)])


@situation(phases=PREDICTION, is_read=SAID)
def decimal_point_instead_of_comma(draw: Draw) -> Drawn:
    value = lambda: round(float(draw.rng.uniform(200, 9000)), 3)  # noqa: E731
    sides = [lambda v: grouped(v, ".", ",", 3), lambda v: f"{v:.3f}"]
    if draw.rng.random() < 0.5:
        sides = [lambda v: grouped(v, ",", ".", 3), lambda v: f"{v:.3f}".replace(".", ",")]
    return changed(draw, "mass", value, *sides)


@situation(phases=PREDICTION, is_read=SAID)
def decimal_comma_of_small_numbers(draw: Draw) -> Drawn:
    value = lambda: round(float(draw.rng.uniform(0, 10)), 2)  # noqa: E731
    return changed(draw, "acidity", value, lambda v: f"{v:.2f}", lambda v: f"{v:.2f}".replace(".", ","))


@situation(phases=PREDICTION, is_read=SAID)
def another_unit(draw: Draw) -> Drawn:
    factor = float(draw.pick("0.001", "0.01", "100", "1000"))
    value = lambda: round(float(draw.rng.uniform(40, 90)), 2)  # noqa: E731
    return changed(draw, "height", value, lambda v: f"{v:.2f}", lambda v: f"{v * factor:.5f}")


@situation(phases=PREDICTION, is_read=SAID)
def another_unit_that_is_written(draw: Draw) -> Drawn:
    value = lambda: round(float(draw.rng.uniform(40, 90)), 2)  # noqa: E731
    return changed(draw, "weight", value, lambda v: f"{v:.2f} kg", lambda v: f"{v * 1000:.0f} g")


@situation(phases=PREDICTION, is_read=SAID)
def shares_instead_of_percent(draw: Draw) -> Drawn:
    value = lambda: round(float(draw.rng.uniform(5, 95)), 1)  # noqa: E731
    unit = draw.pick("", " %", "%")
    return changed(draw, "humidity", value, lambda v: f"{v:.1f}{unit}", lambda v: f"{v / 100:.3f}")


@situation(phases=PREDICTION, is_read=SAID)
def sentinels(draw: Draw) -> Drawn:
    """Missing values are written as a number that training does not have."""
    number = draw.pick("-999", "99999", "-1", "9999")
    value = lambda: round(float(draw.rng.uniform(40, 90)), 2)  # noqa: E731

    def cell(v: Value) -> Cell:
        return Cell(number, None)

    return Drawn([draw.column("pressure", value, lambda v: f"{v:.2f}", cell, draw.share(0.6, 1.0))])


@situation(phases=PREDICTION, is_read=SAID)
def another_currency_sign(draw: Draw) -> Drawn:
    value = lambda: round(float(draw.rng.uniform(5, 95)), 2)  # noqa: E731
    return changed(draw, "price", value, lambda v: f"${v:.2f}", lambda v: f"€{v * 0.9:.2f}")


@situation(phases=PREDICTION, is_read=SAID)
def years_of_two_digits(draw: Draw) -> Drawn:
    form = draw.pick("%d/%m/%y", "%d-%m-%y")
    long = form.replace("y", "Y")

    def cell(v: Value) -> Cell:
        return Cell(at(v).strftime(form), v)

    return Drawn(
        [draw.column("sold", lambda: draw.moment(timedelta(days=1)), lambda v: at(v).strftime(long), cell, 1.0)]
    )


@situation(phases=PREDICTION, is_read=SAID)
def months_before_days(draw: Draw) -> Drawn:
    """Days up to 12 parse in both orders, so that a tenth of the cells is not enough to tell."""

    def cell(v: Value) -> Cell:
        return Cell(at(v).strftime("%m/%d/%Y"), v)

    plain = lambda v: at(v).strftime("%d/%m/%Y")  # noqa: E731
    return Drawn([draw.column("sold", lambda: draw.moment(timedelta(days=1)), plain, cell, 1.0)])


@situation(phases=PREDICTION, is_read=SAID)
def another_year(draw: Draw) -> Drawn:
    """Moments a century away from those of training."""

    def cell(v: Value) -> Cell:
        early = at(v).replace(year=at(v).year - 1900, day=min(at(v).day, 28))
        return Cell(f"{early.year:04d}{early:-%m-%d}", v)

    plain = lambda v: at(v).strftime("%Y-%m-%d")  # noqa: E731
    return Drawn([draw.column("sold", lambda: draw.moment(timedelta(days=1)), plain, cell, 1.0)])
