"""The analyses of a run that a user has requested, as parts of a report."""

from __future__ import annotations

from math import isfinite

from tabapp.report.parts import Lines, Part, Series, Table, Text
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.run.texts.diagnoses import requested_tables


def diagnosis_parts(state: RunState) -> list[Part]:
    """Sentences, tables and charts; empty without an analysis."""
    parts: list[Part] = []
    for found in requested_tables(state):
        parts += [Text(sentence) for sentence in found.sentences]
        if found.rows:
            parts.append(Table(found.title, found.header, found.rows, found.right, found.shades))
    metric = state.plan.metric_title if state.plan is not None else "score"
    if state.threshold is not None and state.threshold.curve:
        series = (Series(state.threshold.metric_title, state.threshold.curve),)
        parts.append(Lines("Threshold", "threshold", state.threshold.metric_title, series))
    if state.robustness is not None:
        both = (("missing", state.robustness.missing), ("noisy", state.robustness.noisy))
        series = tuple(_series(name, points) for name, points in both if points)
        parts.append(Lines("Robustness", "share of damaged cells", metric, series))
    if state.row_curve is not None:
        parts.append(
            Lines("Learning curve over rows", "training rows", metric, (_series(metric, state.row_curve.points),))
        )
    if state.time_curve is not None:
        found = state.time_curve
        series = (_series("most recent rows", found.recent), _series("oldest rows", found.oldest))
        parts.append(Lines("Learning curve over time", "training rows", metric, series))
    return [part for part in parts if not isinstance(part, Lines) or any(series.points for series in part.series)]


def _series(name: str, points: tuple[ev.CurvePoint, ...]) -> Series:
    points = tuple(point for point in points if isfinite(point.score))
    return Series(
        name,
        tuple((point.place, point.score) for point in points),
        tuple(point.low for point in points),
        tuple(point.high for point in points),
    )
