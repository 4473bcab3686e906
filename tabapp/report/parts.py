"""The structure of a report. The texts are those of the data and of the run; renderers escape them."""

from __future__ import annotations

import msgspec

from tabapp.run.record.analysis import Grid, Lines, Point


class Text(msgspec.Struct, frozen=True, tag_field="part", tag="text"):
    """A paragraph; `code` marks one that is shown with a fixed width."""

    text: str
    code: bool = False


class Facts(msgspec.Struct, frozen=True, tag_field="part", tag="facts"):
    """Names with their values."""

    rows: tuple[tuple[str, str], ...]


class Table(msgspec.Struct, frozen=True, tag_field="part", tag="table"):
    """A table; the columns in `right` are right-aligned. `shades` are, by row, how strongly the cells after the first are shaded,
    from 0 to 1; empty for none."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    shades: tuple[tuple[float, ...], ...] = ()


class Bar(msgspec.Struct, frozen=True):
    """A value with its interval, None without one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


class Bars(msgspec.Struct, frozen=True, tag_field="part", tag="bars"):
    """Horizontal bars from zero. `unit` names their values."""

    title: str
    unit: str
    rows: tuple[Bar, ...]


class Histogram(msgspec.Struct, frozen=True, tag_field="part", tag="histogram"):
    """Counts in equal bins of a range."""

    title: str
    x_title: str
    x_range: Point
    counts: tuple[int, ...]


class HeatMap(msgspec.Struct, frozen=True, tag_field="part", tag="heat_map"):
    """Counts by row and column; shades are shares of the row."""

    title: str
    row_title: str
    column_title: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


Part = Text | Facts | Table | Bars | Lines | Histogram | HeatMap | Grid


class Section(msgspec.Struct, frozen=True):
    """A titled part of the report."""

    title: str
    parts: tuple[Part, ...]


class Report(msgspec.Struct, frozen=True):
    """A whole report. It contains no time of its own: the same run gives the same report."""

    title: str
    summary: str
    sections: tuple[Section, ...]
