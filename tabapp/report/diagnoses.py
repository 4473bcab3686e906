"""The analyses of a run, as parts of a report."""

from __future__ import annotations

from tabapp.report.parts import Part, Table, Text
from tabapp.run.record.analysis import DiagnosisTable, Grid, Lines, analysis_of
from tabapp.run.record.state import RunState
from tabapp.run.texts.diagnoses import known_results, tables_of


def analysis_parts(state: RunState, *, of_columns: bool) -> list[Part]:
    """Sentences and tables, then line charts and heat maps; empty without a result.

    Args:
        of_columns: the analyses of columns, or the others.
    """
    parts: list[Part] = []
    charts: list[Part] = []
    for found in known_results(state):
        analysis = analysis_of(found)
        if analysis.of_columns != of_columns or analysis.has_own_section:
            continue
        figures = analysis.figures(found, state)
        for table in (*tables_of(found, state), *(each for each in figures if isinstance(each, DiagnosisTable))):
            parts += _table(table)
        for each in figures:
            if isinstance(each, Grid) or (isinstance(each, Lines) and any(series.points for series in each.series)):
                charts.append(each)
    return [*parts, *charts]


def _table(found: DiagnosisTable) -> list[Part]:
    sentences: list[Part] = [Text(sentence) for sentence in found.sentences]
    table = Table(found.title, found.header, found.rows, found.right, found.shades)
    return [*sentences, table] if found.rows else sentences
