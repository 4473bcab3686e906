"""Interactions of the most important columns."""

from __future__ import annotations

from tabapp.findings import Interaction
from tabapp.run.analyses.parts import numbered_header
from tabapp.run.record.analysis import Analysis, DiagnosisTable
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState, subject_of

SHOWN_PAIRS = 15


class InteractionsReady(AnalysisEvent, tag="interactions.ready", frozen=True, kw_only=True):
    """Interactions of the most important columns, largest first. `label` is the class of the probability, empty for regression."""

    label: str
    columns: tuple[str, ...]
    pairs: tuple[Interaction, ...]


def interactions_table(found: InteractionsReady, state: RunState) -> DiagnosisTable:
    """The pairs of columns with the largest interaction."""
    unit = f"probability of {found.label}" if found.label else "target"
    sentence = (
        f"H is the share of the joint effect of two columns on {subject_of(state, found)} that is not the sum of their single "
        f"effects. The size is the standard deviation of that part, in units of the {unit}: read H only where the size matters."
    )
    rows = tuple((f"{p.a} × {p.b}", f"{p.h:.2f}", _size(p.size)) for p in found.pairs[:SHOWN_PAIRS])
    return DiagnosisTable("Interactions", (sentence,), ("columns", "H", "size"), rows, (1, 2))


def _size(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def interactions_map(found: InteractionsReady) -> DiagnosisTable:
    """H of every pair of columns, shaded by the size of the interaction."""
    pairs = {frozenset((pair.a, pair.b)): pair for pair in found.pairs}
    most = max((pair.size for pair in found.pairs), default=0.0) or 1.0
    rows: list[tuple[str, ...]] = []
    shades: list[tuple[float, ...]] = []
    for a in found.columns:
        each = [pairs.get(frozenset((a, b))) if a != b else None for b in found.columns]
        rows.append((a, *("—" if pair is None else f"{pair.h:.2f}" for pair in each)))
        shades.append(tuple(0.0 if pair is None else pair.size / most for pair in each))
    sentence = "The number is H; the stronger the color, the larger the interaction."
    header, numbered = numbered_header(("column", *found.columns), tuple(rows))
    right = tuple(range(1, len(header)))
    return DiagnosisTable("Interactions by column", (sentence,), header, numbered, right, tuple(shades))


ANALYSIS = Analysis(
    event=InteractionsReady,
    rank=60,
    tables=lambda found, state: [interactions_table(found, state)],
    figures=lambda found, state: [interactions_map(found)],
    of_columns=True,
    title="Interactions",
)
