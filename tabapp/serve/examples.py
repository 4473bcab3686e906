"""The columns of a bundle for clients: what `/schema` answers, and an example row made from the schema."""

from __future__ import annotations

import math
from typing import Any

from tabapp.bundle.files.contents import Contents
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.schema import Column, Schema

MOST_LEVELS = 100
"""Levels of a column that `/schema` lists, the most frequent first."""


def described_bundle(name: str, contents: Contents, digest: str) -> dict[str, Any]:
    """The answer of `/schema`: what the bundle predicts, and the columns that a request needs."""
    manifest, schema = contents.manifest, contents.schema
    return {
        "bundle": name,
        "sha256": digest,
        "run": manifest.run,
        "created_at": manifest.created_at,
        "target": schema.target,
        "task": schema.task,
        "classes": list(schema.classes),
        "metric": manifest.metric,
        "scores": {
            value.name: {"score": value.score, "low": value.low, "high": value.high} for value in manifest.metrics
        },
        "columns": [_described(column) for column in schema.inputs],
        "example": example_row(schema),
    }


def _described(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": column.kind,
        "levels": list(column.levels[:MOST_LEVELS]),
        "more_levels": len(column.levels) > MOST_LEVELS,
        "low": column.low_text if column.low is None else column.low,
        "high": column.high_text if column.high is None else column.high,
        "format": column.datetime_format,
    }


def example_row(schema: Schema) -> dict[str, Any]:
    """A value of every feature that training could have seen: the most frequent level, or the middle of the fullest bin."""
    return {column.name: _example(column) for column in schema.inputs}


def _example(column: Column) -> float | int | str | None:
    if column.kind == "numeric":
        number = _middle(column)
        if number is not None and column.unit in CLOCKS:
            return f"0:00:{abs(number) % 60:02.0f}"
        return f"{number}%" if number is not None and column.notation == "share" else number
    if column.kind == "datetime":
        return _moment(column)
    return column.levels[0] if column.levels else ("some text" if column.kind == "text" else None)


def _middle(column: Column) -> float | int | None:
    low, high, histogram = column.low, column.high, column.histogram
    if low is None or high is None:
        return None
    if not histogram or low == high:
        return _short(low, low, high)
    fullest = histogram.index(max(histogram))
    return _short(low + (fullest + 0.5) / len(histogram) * (high - low), low, high)


def _short(number: float, low: float, high: float) -> float | int:
    """A number in the range with few digits; an integer if the range ends in integers."""
    if low.is_integer() and high.is_integer() and abs(number) < 2**53:
        return round(number)
    if number == 0 or not math.isfinite(number):
        return 0.0
    return round(number, max(0, 3 - math.floor(math.log10(abs(number)))))


def _moment(column: Column) -> str | None:
    return None if column.low_text is None else column.low_text.replace("T", " ").removesuffix(" 00:00:00")
