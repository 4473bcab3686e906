"""Write drawn columns as files beside ordinary columns, read them as tabapp does, and compare every cell with the truth."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from tabapp.data.new_rows.rows import NewRows
from tabapp.data.profile import schema_with_warnings
from tabapp.data.reading.read import read_table
from tabapp.data.schema import Schema
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError
from tests.frontdoor.truth import Cells, Difference, Draw, Drawn, Field, Format, Phase, difference

TARGET = "outcome"
ORDINARY = ("width", "visits", "color", "opened")
"""Columns without any problem. A warning that names one is a false alarm."""
BOTH: tuple[Phase, ...] = ("training", "prediction")
TRAINING: tuple[Phase, ...] = ("training",)
PREDICTION: tuple[Phase, ...] = ("prediction",)
SAID: tuple[Phase, ...] = ()
"""In no phase is a value more than one may expect: a warning is enough."""


@dataclass(frozen=True)
class Situation:
    """What a file of a user may contain.

    Attributes:
        is_read: phases in which the values must be right, and a warning is not enough.
        formats: file formats in which the situation exists.
        phases: where the unusual cells may be.
    """

    name: str
    draw: Callable[[Draw], Drawn]
    is_read: tuple[Phase, ...]
    formats: tuple[Format, ...]
    phases: tuple[Phase, ...]


SITUATIONS: dict[str, Situation] = {}


def situation(
    *,
    is_read: tuple[Phase, ...] = BOTH,
    formats: tuple[Format, ...] = ("csv", "parquet"),
    phases: tuple[Phase, ...] = BOTH,
) -> Callable[[Callable[[Draw], Drawn]], Callable[[Draw], Drawn]]:
    """Register a function that draws a situation under its name."""

    def register(function: Callable[[Draw], Drawn]) -> Callable[[Draw], Drawn]:
        name = function.__name__
        SITUATIONS[name] = Situation(name, function, is_read, formats, phases)
        return function

    return register


@dataclass(frozen=True)
class Outcome:
    """What tabapp made of the two files of a table.

    Attributes:
        differences: by "training" and "prediction", columns that are not the truth.
        said: by "training" and "prediction", warnings and notes, or the refusal.
        false_alarms: sentences that name an ordinary column.
    """

    differences: dict[Phase, list[Difference]]
    said: dict[Phase, list[str]]
    false_alarms: list[str]

    def silent(self) -> list[str]:
        """Differences that no sentence mentions. What training differs in need not be repeated for new rows."""
        known = {one.name for one in self.differences["training"]}
        found: list[tuple[Phase, Difference]] = [("training", one) for one in self.differences["training"]]
        found += [("prediction", one) for one in self.differences["prediction"] if one.name not in known]
        return [
            f"{side}: {one.name!r}: {one.what}; said: {self.said[side]}"
            for side, one in found
            if not one.is_said(self.said[side])
        ]


def try_table(situation: Situation, phase: Phase, form: Format, seed: int, folder: Path) -> Outcome:
    """Draw a table, write it, and compare what is read with the truth."""
    draw = Draw(np.random.default_rng([seed, *situation.name.encode(), phase == "training"]), phase)
    drawn = situation.draw(draw)
    fields = [*_ordinary(draw), *drawn.fields]
    order = draw.rng.permutation(len(fields)) if drawn.write is None else range(len(fields))
    fields = [fields[i] for i in order]
    delimiter = draw.pick(",", ";", "\t", "|")
    paths: dict[Phase, Path] = {}
    for side in ("training", "prediction"):
        paths[side] = folder / f"{side}.{form}"
        _write(paths[side], fields, drawn, side, delimiter if form == "csv" else None)
    return _compare(fields, drawn, paths)


def _ordinary(draw: Draw) -> list[Field]:
    """Columns without a problem: a number, an integer, a category, a date, and the target."""
    start, sides = date(2021, 1, 4), dict[str, list[Cells]]()
    for size in draw.sizes:
        days = [start + timedelta(days=int(i)) for i in draw.rng.integers(1400, size=size)]
        since = [(day - date(1970, 1, 1)).days * 86_400_000_000 for day in days]
        width = draw.rng.normal(50, 20, size).round(3).tolist()
        visits = draw.rng.poisson(30, size).tolist()
        color = draw.rng.choice(["red", "green", "blue"], size).tolist()
        outcome = draw.rng.normal(7, 2, size).round(4).tolist()
        for name, cells in (
            ("width", Cells([*map(str, width)], width, stored=pl.Series(width))),
            ("visits", Cells([*map(str, visits)], visits, stored=pl.Series(visits))),
            ("color", Cells(color, color)),
            ("opened", Cells([*map(str, days)], since, stored=pl.Series(days))),
            (TARGET, Cells([*map(str, outcome)], outcome, stored=pl.Series(outcome))),
        ):
            sides.setdefault(name, []).append(cells)
    return [Field(name, *cells) for name, cells in sides.items()]


def _write(path: Path, fields: list[Field], drawn: Drawn, side: Phase, delimiter: str | None) -> None:
    """Write a file; `delimiter` is None for Parquet."""
    columns = {
        _name(field, drawn, side): field.training if side == "training" else field.new
        for field in fields
        if side == "training" or field.name not in (drawn.target or TARGET, TARGET)
    }
    if delimiter is None:
        n = len(fields[0].training.texts if side == "training" else fields[0].new.texts)
        table = {
            name: pl.Series(cells.texts, dtype=pl.String) if cells.stored is None else cells.stored
            for name, cells in columns.items()
        }
        pl.DataFrame({**table, **{name: make(n) for name, make in drawn.more.items()}}).write_parquet(path)
        return
    rows = [list(row) for row in zip(*(cells.texts for cells in columns.values()), strict=True)]
    if drawn.write is not None:
        path.write_text(drawn.write(side, list(columns), rows), encoding="utf-8")
        return
    path.write_text(delimited([list(columns), *rows], delimiter), encoding="utf-8")


def _name(field: Field, drawn: Drawn, side: Phase) -> str:
    name = drawn.names.get(field.name, field.name)
    return drawn.new_names.get(name, name) if side == "prediction" else name


def delimited(rows: list[list[str]] | list[list[str | None]], delimiter: str = ",") -> str:
    """Rows as CSV."""
    content = io.StringIO()
    csv.writer(content, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return content.getvalue()


def _compare(fields: list[Field], drawn: Drawn, paths: dict[Phase, Path]) -> Outcome:
    differences: dict[Phase, list[Difference]] = {side: [] for side in BOTH}
    said: dict[Phase, list[str]] = {side: [] for side in BOTH}
    spelled: dict[str, dict[str, str]] = {}
    side: Phase = "training"
    try:
        typed, said[side], schema = training_rows(paths[side], drawn)
        differences[side] = _differences(fields, drawn, typed, side, spelled)
        side = "prediction"
        typed, said[side] = new_rows(paths[side], schema)
        differences[side] = _differences(fields, drawn, typed, side, spelled)
    except DataError as error:
        said[side] = [str(error)]
        differences[side] = [Difference("", f"the file is refused: {error}", ())]
    alarms = [one for one in said["training"] if one.startswith(tuple(f"{name}: " for name in ORDINARY))]
    alarms += [
        one for one in said["prediction"] if any(f"'{name}'" in one for name in ORDINARY) and not one.startswith(": ")
    ]
    return Outcome(differences, said, alarms)


def _differences(
    fields: list[Field], drawn: Drawn, typed: pl.DataFrame, side: Phase, spelled: dict[str, dict[str, str]]
) -> list[Difference]:
    """Columns that are not the truth, except the target of new rows; only the number of rows if it differs."""
    cells = {field.name: field.training if side == "training" else field.new for field in fields}
    n_rows = len(cells[fields[0].name].values)
    if typed.height != n_rows:
        return [Difference("", f"{typed.height} rows instead of {n_rows}", ())]
    unused = {*drawn.ignore, *(() if side == "training" else (drawn.target, TARGET))}
    found = [
        difference(field, cells[field.name], typed, spelled.setdefault(field.name, {}))
        for field in fields
        if field.name not in unused
    ]
    return [one for one in found if one is not None]


def training_rows(path: Path, drawn: Drawn) -> tuple[pl.DataFrame, list[str], Schema]:
    """The typed rows of a training file, all that is said about them, and their schema.

    Raises:
        DataError: the file is refused.
    """
    reading = read_table(path)
    schema = schema_with_warnings(reading, target=drawn.target or TARGET, ignore=drawn.ignore)
    said = [f"{w.column or ''}: {w.message} {w.action}" for w in schema.warnings]
    # The profile and the Data screen show the reason, which counts the texts that are read as missing.
    said += [f"{c.name}: {c.reason}" for c in schema.columns if c.role == "feature" and c.missing_spellings]
    return typed_frame(reading.frame, schema), said, schema


def new_rows(path: Path, schema: Schema) -> tuple[pl.DataFrame, list[str]]:
    """The typed rows of a file to predict, and all that is said about them.

    Raises:
        DataError: the file is refused.
    """
    reading = read_table(path, allow_no_rows=True, columns=schema.columns)
    notes = [f"{w.column or ''}: {w.message} {w.action}" for w in reading.warnings]
    rows = NewRows(schema, reading.frame.columns, decimal=reading.decimal)
    typed = rows.add(reading.frame)
    return typed, [*notes, *rows.notes()]
