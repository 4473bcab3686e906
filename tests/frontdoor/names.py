"""Names of columns that are hard to write in an option or to find again, and columns that no model can use."""

from __future__ import annotations

import unicodedata

import polars as pl

from tests.frontdoor.numbers import plain
from tests.frontdoor.tables import PREDICTION, SAID, TRAINING, situation
from tests.frontdoor.truth import Cell, Draw, Drawn, Field

NAMES = (
    "distance, km", "x>=5", "rate=1", "a;b", 'size 5"', "it's", "f(x)", "[0, 1)", "{day}", "^mass.*$", "*", "$x", "a|b", "tab\tbed",
    "two\nlines", "Größe", "数", "😀", "-", "--target", "class", "None", "nan", "1", "0.5", "2024-01-01", "a" * 300, "mass mark",
)  # fmt: skip


def number(draw: Draw, name: str) -> Field:
    """One column of numbers."""
    return draw.column(name, draw.number, plain, lambda v: Cell(plain(v), v), 0.0)


@situation(phases=TRAINING)
def special_names(draw: Draw) -> Drawn:
    names = [str(name) for name in draw.rng.choice(NAMES, 3, replace=False)]
    return Drawn([number(draw, as_read(name)) for name in names], names={as_read(name): name for name in names})


@situation(phases=TRAINING)
def special_name_of_the_target(draw: Draw) -> Drawn:
    name = draw.pick(*NAMES)
    return Drawn([number(draw, as_read(name))], target=as_read(name), names={as_read(name): name})


def as_read(name: str) -> str:
    """A name with single spaces, as columns are called."""
    return " ".join(name.split())


@situation(phases=TRAINING)
def spaces_around_names(draw: Draw) -> Drawn:
    name = draw.pick("mass", "body mass")
    return Drawn([number(draw, name)], names={name: f" {name}  "})


@situation(phases=PREDICTION)
def decomposed_names(draw: Draw) -> Drawn:
    name = draw.pick("Größe", "Prénom", "Año")
    forms = ("NFC", "NFD") if draw.rng.random() < 0.5 else ("NFD", "NFC")
    first, second = (unicodedata.normalize(form, name) for form in forms)
    return Drawn([number(draw, first)], new_names={first: second})


@situation(phases=PREDICTION, is_read=SAID)
def names_in_other_case(draw: Draw) -> Drawn:
    name = draw.pick("Body Mass", "bodyMass", "MASS")
    return Drawn([number(draw, name)], new_names={name: name.lower()})


@situation(formats=("parquet",), phases=TRAINING)
def nested_columns(draw: Draw) -> Drawn:
    kind = draw.pick("list", "struct", "bytes")

    def make(n: int) -> pl.Series:
        values = {"list": [[1, 2]] * n, "struct": [{"a": 1}] * n, "bytes": [b"x"] * n}[kind]
        return pl.Series(values)

    return Drawn([number(draw, "mass")], more={"extra": make}, ignore=("extra",))
