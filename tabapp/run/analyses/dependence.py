"""Groups of correlated columns, and the importance of a column among rows that are similar in the others."""

from __future__ import annotations

import msgspec

from tabapp.findings import ImportanceRow
from tabapp.run.record.analysis import Analysis, DiagnosisTable
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.importance_notes import UNSTABLE
from tabapp.run.record.score_text import bounds_text, format_score
from tabapp.run.record.state import RunState, subject_of


class GroupImportance(msgspec.Struct, frozen=True, kw_only=True):
    """Correlated columns, and how much the metric worsens when they are shuffled together, with its 95 % interval; `unstable` as in
    `ImportanceRow`."""

    columns: tuple[str, ...]
    permutation: float
    low: float
    high: float
    unstable: bool = False


class ConditionalImportance(msgspec.Struct, frozen=True, kw_only=True):
    """How much the metric worsens when a column is shuffled only among rows that are similar in the columns it depends on;
    `unstable` as in `ImportanceRow`."""

    feature: str
    permutation: float
    low: float
    high: float
    unstable: bool = False


class DependenceReady(AnalysisEvent, tag="dependence.ready", frozen=True, kw_only=True):
    """Groups of correlated columns, and conditional permutation importance, of the model of the importances."""

    groups: tuple[GroupImportance, ...]
    conditional: tuple[ConditionalImportance, ...]


def _tables(found: DependenceReady, state: RunState) -> list[DiagnosisTable]:
    plain = {row.feature: row for row in state.importances.rows} if state.importances is not None else {}
    tables: list[DiagnosisTable] = []
    if found.groups:
        rows: list[tuple[str, ...]] = []
        for group in sorted(found.groups, key=lambda each: -each.permutation):
            rows.append((" + ".join(group.columns), _interval(group)))
            rows += [(f"  · {name}", _interval(plain[name])) for name in group.columns if name in plain]
        sentence = (
            "Columns of a group depend on each other, so each seems less important alone: shuffled together, they show what the "
            f"group is worth to {subject_of(state, found)}."
        )
        tables.append(DiagnosisTable("Correlated columns", (sentence,), ("columns", "permutation"), tuple(rows), (1,)))
    if found.conditional:
        sentence = (
            "Conditional permutation shuffles a column only among rows that are similar in the columns it depends on. It measures "
            "what the column adds to them; plain permutation also counts what they share."
        )
        known = [each for each in found.conditional if each.feature in plain]
        rows = [(each.feature, _interval(plain[each.feature]), _interval(each)) for each in known]
        header = ("column", "plain", "conditional")
        tables.append(DiagnosisTable("Conditional importance", (sentence,), header, tuple(rows), (1, 2)))
    return tables


def _interval(row: ImportanceRow | GroupImportance | ConditionalImportance) -> str:
    interval = UNSTABLE if row.unstable else bounds_text(row.permutation, row.low, row.high, " to ")
    return f"{format_score(row.permutation)} ({interval})"


def _line(found: DependenceReady, state: RunState) -> str:
    return f"Correlated columns: {len(found.groups) or 'no'} group{'' if len(found.groups) == 1 else 's'}"


ANALYSIS = Analysis(
    event=DependenceReady, rank=50, tables=_tables, line=_line, of_columns=True, title="Correlated columns"
)
