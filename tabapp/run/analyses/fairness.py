"""Rates, errors and calibration of the predictions by the groups of a column."""

from __future__ import annotations

from tabapp.findings import Gap, Group, Rate
from tabapp.printable import one_line
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Request, Value
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState


class FairnessReady(AnalysisEvent, tag="fairness.ready", frozen=True, kw_only=True):
    """Out-of-fold predictions of the ensemble by the groups of a column.

    Attributes:
        label: the class of the rates; empty for a regression.
        threshold: on its probability.
        left_out: groups with too few rows.
    """

    column: str
    label: str
    threshold: float | None
    groups: tuple[Group, ...]
    gaps: tuple[Gap, ...]
    left_out: int = 0

    @property
    def part(self) -> str:
        return self.column


def _tables(found: FairnessReady, state: RunState) -> list[DiagnosisTable]:
    """The rates of each group, and the largest differences."""
    sentences = [
        f"Out-of-fold predictions by {found.column}"
        + (f", of {found.label}" if found.label else "")
        + (f" at the threshold {found.threshold:.3f}." if found.threshold is not None else ".")
    ]
    if found.left_out:
        sentences.append(f"{found.left_out} group{'s' if found.left_out > 1 else ''} with too few rows left out.")
    for gap in found.gaps:
        mark = "a clear difference" if gap.clear else "chance can explain it"
        sentences.append(
            f"{gap.rate}: {gap.difference:.3g} more for {found.column} {gap.highest} than for {found.column} {gap.lowest} (95 % "
            f"interval {gap.low:.3g} to {gap.high:.3g}; {mark})."
        )
    names = [rate.name for rate in found.groups[0].rates] if found.groups else []
    rows = tuple((group.level, f"{group.n:,}", *(_rate_text(rate) for rate in group.rates)) for group in found.groups)
    header = ("group", "rows", *names)
    right = tuple(range(1, len(header)))
    return [DiagnosisTable(f"Groups by {found.column}", tuple(sentences), header, rows, right)]


def _rate_text(rate: Rate) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "—"
    return f"{rate.value:.3g} ({rate.low:.3g} to {rate.high:.3g})"


def _line(found: FairnessReady, state: RunState) -> str:
    clear = sum(gap.clear for gap in found.gaps)
    return f"Groups by {found.column}: {clear or 'no'} clear difference{'' if clear == 1 else 's'}"


def _values(state: RunState) -> list[Value]:
    columns = state.schema.columns if state.schema is not None else ()
    target = state.plan.target if state.plan is not None else ""
    return [
        Value(column.name, one_line(column.name), column.kind)
        for column in columns
        if column.name != target and column.kind != "text"
    ]


ANALYSIS = Analysis(
    event=FairnessReady,
    rank=90,
    tables=_tables,
    line=_line,
    request=Request(
        option="fairness",
        metavar="COLUMN",
        help="Rates, errors and calibration by the groups of a column.",
        computation="tabapp.engine.analyses.diagnosing:measure_fairness",
        title="Groups of a column",
        note="rates, errors and calibration per group",
        question="Groups of the column",
        values=_values,
    ),
)
