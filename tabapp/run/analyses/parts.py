"""Records, sentences and curves that several analyses have in common."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan

import msgspec

from tabapp.findings import CurvePoint
from tabapp.run.options.units import format_duration
from tabapp.run.record.analysis import Series
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState

LONGEST_HEADER = 72
"""Characters of the names of a map's columns."""


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis that its time limit ended after `trained` of the `planned` models."""

    seconds: float
    trained: int
    planned: int


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """How much better one score is than another, with the 95 % interval of a paired bootstrap; positive is an improvement."""

    value: float
    low: float
    high: float


def metric_of(state: RunState) -> str:
    """The title of the metric of a run."""
    return state.plan.metric_title if state.plan else "score"


def partial_sentences(found: Partial | None) -> tuple[str, ...]:
    """What the time limit of an analysis left out; empty if it is complete."""
    if found is None:
        return ()
    return (
        f"Partial result: {found.trained} of {found.planned} models were trained within {format_duration(found.seconds)}. Choose a "
        "longer --budget of tabapp diagnose for the others.",
    )


def gain_text(value: float, low: float, high: float) -> str:
    """A gain with its interval."""
    if isnan(value):
        return "an undefined amount: the metric is undefined on the scored rows"
    return f"{value:+.4g} (95 % interval {low:+.4g} to {high:+.4g})"


def point_text(point: CurvePoint) -> str:
    """The score of a point with its interval."""
    return f"{format_score(point.score)} ({format_score(point.low)} to {format_score(point.high)})"


def two_curves(one: Sequence[CurvePoint], other: Sequence[CurvePoint], place: str) -> tuple[tuple[str, ...], ...]:
    """A line for each place of a curve, in the format `place`, with the scores of both curves."""
    others = {point.place: point_text(point) for point in other}
    return tuple((place.format(point.place), point_text(point), others.get(point.place, "—")) for point in one)


def series_of(name: str, points: Sequence[CurvePoint]) -> Series:
    """The defined points of a curve as a line with a band."""
    points = [point for point in points if isfinite(point.score)]
    return Series(
        name,
        tuple((point.place, point.score) for point in points),
        tuple(point.low for point in points),
        tuple(point.high for point in points),
    )


def numbered_header(
    header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows of a map; numbers replace names that do not fit a page and that the rows have, too."""
    names = [row[0] for row in rows]
    if sum(map(len, header)) <= LONGEST_HEADER or not set(header[1:]) & set(names):
        return header, rows
    numbers = tuple(str(names.index(name) + 1) if name in names else name for name in header[1:])
    return (header[0], *numbers), tuple((f"{i} {row[0]}", *row[1:]) for i, row in enumerate(rows, start=1))
