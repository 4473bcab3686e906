"""How the score falls when cells are missing or noisy."""

from __future__ import annotations

from tabapp.findings import CurvePoint
from tabapp.run.analyses.parts import metric_of, series_of, two_curves
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Lines, Request
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState


class RobustnessReady(AnalysisEvent, tag="robustness.ready", frozen=True, kw_only=True):
    """The score of the ensemble on `n_rows` held-out rows when a share of the cells is missing, or has the value of another row."""

    n_rows: int
    missing: tuple[CurvePoint, ...]
    noisy: tuple[CurvePoint, ...]


def _tables(found: RobustnessReady, state: RunState) -> list[DiagnosisTable]:
    """The score by the share of damaged cells."""
    sentence = (
        f"The {metric_of(state)} of the ensemble on {found.n_rows:,} held-out rows when cells of its columns are missing, or "
        "noisy: the value of another row."
    )
    rows = two_curves(found.missing, found.noisy, "{:.0%}")
    return [DiagnosisTable("Robustness", (sentence,), ("damaged cells", "missing", "noisy"), rows, (0, 1, 2))]


def _figures(found: RobustnessReady, state: RunState) -> list[Lines]:
    both = (("missing", found.missing), ("noisy", found.noisy))
    series = tuple(series_of(name, points) for name, points in both if points)
    return [Lines("Robustness", "share of damaged cells", metric_of(state), series)]


ANALYSIS = Analysis(
    event=RobustnessReady,
    rank=20,
    tables=_tables,
    line=lambda found, state: f"Robustness to missing and noisy cells on {found.n_rows:,} held-out rows",
    figures=_figures,
    request=Request(
        option="robustness",
        help="Score the ensemble with 0 to 60 % of the cells missing or noisy.",
        computation="tabapp.engine.analyses.diagnosing:measure_robustness",
        title="Robustness",
        note="score with missing and noisy cells",
    ),
)
