"""Levels and classes: texts that may mean a missing cell, and the same level in another spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from tests.frontdoor.tables import PREDICTION, SAID, TRAINING, situation
from tests.frontdoor.truth import Cell, Cells, Draw, Drawn, Field, Value

COUNTRIES = ("DE", "FR", "BR", "US", "ZA")
DOUBTFUL = ("NA", "N/A", "null", "nan", "None", "?", "-", "na", "n/a", "NULL", "NaN", ".", "missing")


def chosen(draw: Draw, name: str, levels: Sequence[str], chances: Sequence[float] | None = None) -> Field:
    """One column of levels."""
    sides = [[str(level) for level in draw.rng.choice(levels, size, p=chances)] for size in draw.sizes]
    return Field(name, *(Cells([*side], side) for side in sides))


def respelled(draw: Draw, name: str, levels: Sequence[str], other: Callable[[str], str], share: float = 1.0) -> Drawn:
    """One column whose levels have another spelling in new rows."""

    def odd(value: Value) -> Cell:
        return Cell(other(str(value)), value)

    return Drawn([draw.column(name, lambda: str(draw.rng.choice(levels)), str, odd, share)])


@situation(phases=TRAINING)
def doubtful_class(draw: Draw) -> Drawn:
    return Drawn([chosen(draw, "region", [*COUNTRIES, draw.pick(*DOUBTFUL)])], target="region")


@situation(phases=TRAINING)
def doubtful_class_of_two(draw: Draw) -> Drawn:
    return Drawn([chosen(draw, "churned", ["yes", draw.pick(*DOUBTFUL)])], target="churned")


@situation(phases=TRAINING, is_read=SAID)
def doubtful_level(draw: Draw) -> Drawn:
    return Drawn([chosen(draw, "origin", [*COUNTRIES, draw.pick("NA", "N/A", "null", "nan", "None", "?")])])


@situation(is_read=SAID)
def gaps_of_a_feature(draw: Draw) -> Drawn:
    """A rare doubtful text among numbers is a missing cell, without a word or with one."""
    text = draw.pick(*DOUBTFUL)

    def odd(value: Value) -> Cell:
        return Cell(text, None)

    return Drawn([draw.column("score", draw.number, lambda v: f"{v:.2f}", odd, draw.share(0.01, 0.3))])


@situation(phases=TRAINING, is_read=SAID)
def gaps_of_the_target(draw: Draw) -> Drawn:
    """Rows without a target are set aside, and a warning names the text."""
    text = draw.pick("", "NA", "?", "n/a")
    field = chosen(draw, "defect", ["yes", "no", text], [0.47, 0.48, 0.05])
    texts = [level or None for level in field.training.texts]
    values = [None if level == text else level for level in field.training.values]
    return Drawn([Field("defect", Cells(texts, values), field.new)], target="defect")


@situation(phases=PREDICTION)
def codes_as_floats(draw: Draw) -> Drawn:
    return respelled(draw, "soil", ["1", "2", "3", "4"], lambda level: f"{level}.0", draw.share(0.2, 1.0))


@situation(phases=PREDICTION, formats=("parquet",))
def codes_stored_as_floats(draw: Draw) -> Drawn:
    import polars as pl

    field = chosen(draw, "soil", ["1", "2", "3", "4"])
    new = field.new
    stored = pl.Series([float(text or 0) for text in new.texts])
    return Drawn([Field("soil", field.training, Cells(new.texts, new.values, (), stored))])


@situation(phases=PREDICTION, is_read=SAID)
def lost_zeros(draw: Draw) -> Drawn:
    codes = [f"{int(code):05d}" for code in draw.rng.integers(1000, 9999, 12)]
    return respelled(draw, "postal code", codes, lambda level: level.lstrip("0"))


@situation(phases=PREDICTION, is_read=SAID)
def other_case(draw: Draw) -> Drawn:
    change = {"upper": str.upper, "lower": str.lower, "title": str.title}[draw.pick("upper", "lower", "title")]
    return respelled(draw, "soil", ["Clay", "sandy Loam", "PEAT", "siLt"], change)


@situation()
def other_composition(draw: Draw) -> Drawn:
    """Composed and decomposed letters are one level, in training and in new rows."""
    form = "NFD" if draw.rng.random() < 0.7 else "NFC"
    levels = ["Größe", "Ähre", "café", "naïve", "Łódź"]

    def other(level: str) -> str:
        return unicodedata.normalize(form, level)

    return respelled(draw, "label", levels, other, draw.share(0.2, 1.0))


@situation(phases=PREDICTION, is_read=SAID)
def other_spaces(draw: Draw) -> Drawn:
    space = draw.pick("\u00a0", "  ", "_")
    return respelled(
        draw, "kind of soil", ["heavy clay", "loose sand", "wet peat"], lambda level: level.replace(" ", space)
    )


@situation(phases=PREDICTION)
def spaces_around(draw: Draw) -> Drawn:
    space = draw.pick(" ", "\t", "\u00a0")
    return respelled(
        draw, "soil", ["clay", "sand", "peat"], lambda level: f"{space}{level}{space}", draw.share(0.2, 1.0)
    )


@situation(phases=PREDICTION)
def other_truth_values(draw: Draw) -> Drawn:
    pair = (("true", "True"), ("1", "true"), ("yes", "YES"), ("t", "true"))[int(draw.rng.integers(4))]
    opposite = {"true": "false", "True": "False", "1": "0", "yes": "no", "YES": "NO", "t": "f"}
    other = dict([pair, (opposite[pair[0]], opposite[pair[1]])])
    return respelled(draw, "member", [pair[0], opposite[pair[0]]], other.__getitem__)


@situation(phases=PREDICTION, is_read=SAID)
def only_unknown_levels(draw: Draw) -> Drawn:
    return respelled(draw, "soil", ["clay", "sand", "peat"], lambda level: f"{level} (new)", draw.share(0.8, 1.0))


@situation(phases=PREDICTION, is_read=SAID)
def levels_that_look_like_footers(draw: Draw) -> Drawn:
    """A level of training is a value of new rows, wherever it stands."""
    field = chosen(draw, "account", [draw.pick("Total", "Note Inc", "#7", "EOF", "Sum"), "Cash", "Rent"])
    new = field.new
    texts, values = [*new.texts], [*new.values]
    texts[-1] = values[-1] = next(t for t in field.training.texts if t not in ("Cash", "Rent"))
    return Drawn([Field("account", field.training, Cells(texts, values))])
