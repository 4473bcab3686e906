"""Correlated columns, interactions, attention and the agreement of importance methods, as parts of a report."""

from __future__ import annotations

from tabapp.report.parts import Part, Table, Text
from tabapp.run.record.state import RunState
from tabapp.run.texts.dependence_tables import dependence_tables, interactions_map
from tabapp.run.texts.diagnosis_table import DiagnosisTable


def dependence_parts(state: RunState) -> list[Part]:
    """Sentences and tables, and the heat map of the interactions; empty if nothing is known."""
    parts: list[Part] = []
    for found in dependence_tables(state):
        parts += _table(found)
        if state.interactions is not None and found.title == "Interactions":
            parts += _table(interactions_map(state.interactions))
    return parts


def _table(found: DiagnosisTable) -> list[Part]:
    table = Table(found.title, found.header, found.rows, found.right, found.shades)
    return [*(Text(sentence) for sentence in found.sentences), table]
