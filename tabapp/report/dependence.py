"""Correlated columns, interactions, attention and the agreement of importance methods, as parts of a report."""

from __future__ import annotations

from tabapp.report.parts import Bar, Bars, Part, Table, Text
from tabapp.run.dependence_tables import dependence_tables
from tabapp.run.state import RunState

MOST_PAIRS = 12


def dependence_parts(state: RunState) -> list[Part]:
    """Sentences and tables, and the sizes of the interactions as bars; empty if nothing is known."""
    parts: list[Part] = []
    for found in dependence_tables(state):
        parts += [Text(sentence) for sentence in found.sentences]
        parts.append(Table(found.title, found.header, found.rows, found.right))
    if state.interactions is not None:
        bars = tuple(Bar(f"{p.a} × {p.b}", p.size) for p in state.interactions.pairs[:MOST_PAIRS])
        parts.append(Bars("Size of the interactions", "standard deviation in units of the output", bars))
    return parts
