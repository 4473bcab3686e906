"""The report of `tabapp monitor`: shifts of columns and predictions, and scores over files."""

from __future__ import annotations

from tabapp.report.parts import Facts, Part, Report, Section, Table, Text
from tabapp.run.protocol.monitoring import LARGE, MODERATE, FileShift, Monitored, size_of
from tabapp.run.record.analysis import Lines, Series
from tabapp.run.record.state import format_score

MOST_LINES, MOST_ROWS = 6, 100
"""Columns of the chart, and rows of a table: those with the largest shift."""


def drift_report(found: Monitored) -> Report:
    """The report."""
    n_large = len({c.column for file in found.files for c in file.columns if c.stability > LARGE})
    summary = (
        f"{len(found.files)} files compared with the training table of {found.bundle}, which predicts {found.target}. "
        f"{n_large} columns have a large shift in at least one file."
    )
    sections = [Section("Overview", (_overview(found), *_charts(found)))]
    sections += [Section(file.file, _file(file)) for file in found.files]
    return Report(f"Drift of {found.bundle}", summary, tuple(sections))


def _overview(found: Monitored) -> Table:
    rows: list[tuple[str, ...]] = [("training, out of fold", "", "", *_score_cells(found.trained))]
    for file in found.files:
        largest = file.columns[0] if file.columns else None
        shift = "" if largest is None else f"{largest.stability:.3f} {largest.column}"
        rows.append((file.file, f"{file.rows:,}", shift, *_score_cells(file.score)))
    header = ("file", "rows", "largest shift", found.trained.metric, "95 % interval")
    return Table("Files", header, tuple(rows), right=(1, 3))


def _score_cells(score: object) -> tuple[str, str]:
    from tabapp.run.protocol.monitoring import FileScore

    if not isinstance(score, FileScore) or score.score is None:
        return "—", ""
    return format_score(score.score), f"{format_score(score.low)} … {format_score(score.high)}"


def _charts(found: Monitored) -> list[Part]:
    if len(found.files) < 2:
        return []
    largest = {
        column: max(c.stability for file in found.files for c in file.columns if c.column == column)
        for column in {c.column for file in found.files for c in file.columns}
    }
    shown = sorted(largest, key=lambda column: (-largest[column], column))[:MOST_LINES]
    series = tuple(
        Series(
            column,
            tuple(
                (float(number), next(c.stability for c in file.columns if c.column == column))
                for number, file in enumerate(found.files, start=1)
            ),
        )
        for column in shown
    )
    charts: list[Part] = [Lines("Shift of columns over the files", "file", "population stability", series)]
    scored = [(float(n), f.score) for n, f in enumerate(found.files, start=1) if f.score and f.score.score is not None]
    if len(scored) > 1:
        points = tuple((number, score.score or 0.0) for number, score in scored)
        low = tuple(score.low or 0.0 for _, score in scored)
        high = tuple(score.high or 0.0 for _, score in scored)
        trained = found.trained.score
        reference = () if trained is None else ((points[0][0], trained), (points[-1][0], trained))
        charts.append(
            Lines(
                "Score over the files; the dashed line is the score of training",
                "file",
                found.trained.metric,
                (Series(found.trained.metric, points, low, high),),
                reference,
            )
        )
    return charts


def _file(file: FileShift) -> tuple[Part, ...]:
    rows = tuple(
        (
            column.column,
            f"{column.stability:.3f}",
            size_of(column.stability),
            f"{column.new_levels:,}" if column.new_levels else "",
            f"{column.missing:.1%}",
            f"{column.missing_before:.1%}",
        )
        for column in file.columns[:MOST_ROWS]
    )
    header = ("column", "stability", "shift", "cells with new levels", "missing", "missing in training")
    parts: list[Part] = [
        Facts(tuple((f"mean prediction {name}", f"{value:.4g}") for name, value in file.predictions.items())),
        Table("Columns", header, rows, right=(1, 3, 4, 5)),
        Text(
            f"The population stability index compares the shares of the values with those of the training table. Above {MODERATE} "
            f"a shift is called moderate, above {LARGE} large. With few rows it is above 0 by chance."
        ),
    ]
    return (*parts, *(Text(note) for note in file.notes))
