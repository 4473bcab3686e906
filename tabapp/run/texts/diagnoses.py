"""Analyses of a run as tables of text, the same on every view and in reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import DiagnosisTable, Grid, all_analyses, analysis_of
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.state import RunState


def known_results(state: RunState) -> list[ev.AnalysisEvent]:
    """All results of a run so far: those of columns, which the engine adds, are last."""
    analyses = sorted(all_analyses(), key=lambda each: each.of_columns)
    return [found for each in analyses for found in state.results(each.event)]


def tables_of(found: ev.AnalysisEvent, state: RunState) -> list[DiagnosisTable]:
    """The tables of a result, which say so if they describe an earlier ensemble."""
    tables = list(analysis_of(found).tables(found, state))
    earlier = earlier_subject(found, state.leaderboard) if found.model == ev.ENSEMBLE else ""
    note = f"These are results of {earlier}."
    return [replace(table, sentences=(note, *table.sentences)) for table in tables] if earlier else tables


def grids_of(found: ev.AnalysisEvent, state: RunState) -> list[Grid]:
    """The heat maps of a result."""
    return [each for each in analysis_of(found).figures(found, state) if isinstance(each, Grid)]


def grid_lines(found: Grid) -> list[str]:
    """A heat map as lines of shades, with its axes."""
    axes = f"{found.row_title} ↓ {found.column_title} →"
    return [*charts.shades_below(found.cells, found.top), axes, f"strongest: {found.top:.3g} {found.unit}"]


def lift_at(gain: Sequence[tuple[float, float]], share: float) -> float:
    """How many times more positive rows a share of the rows with the highest probabilities has than random rows.

    Args:
        gain: the cumulative gain curve, which is interpolated.
    """
    for (x0, y0), (x1, y1) in pairwise(gain):
        if x1 >= share:
            y = y0 + (y1 - y0) * ((share - x0) / (x1 - x0) if x1 > x0 else 1.0)
            return y / share
    return 1.0
