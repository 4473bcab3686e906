"""The score of a model that is trained on fewer rows."""

from __future__ import annotations

from math import isnan

from tabapp.findings import CurvePoint
from tabapp.run.analyses.parts import Partial, gain_text, metric_of, partial_sentences, point_text, series_of
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Lines, Request
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState, subject_of, title_of


class RowCurveReady(AnalysisEvent, tag="row_curve.ready", frozen=True, kw_only=True):
    """The score of `model`, trained on fewer rows.

    Attributes:
        points: by mean number of training rows of a fold.
        gain: how much better the score with all rows is than with half of them, with the 95 % interval of a paired bootstrap; a
            positive gain is an improvement. If half was not trained in time, the next smaller number of rows is compared.
        partial: what the time limit left out; None if the curve is complete.
    """

    points: tuple[CurvePoint, ...]
    gain: float
    low: float
    high: float
    partial: Partial | None = None


def _tables(found: RowCurveReady, state: RunState) -> list[DiagnosisTable]:
    """The score by the number of training rows, and whether more rows would help."""
    metric = metric_of(state)
    gap = gain_text(found.gain, found.low, found.high)
    fewer, most = ([0.0, 0.0] + [point.place for point in found.points])[-2:]
    # Numbers of rows are rounded.
    rest = "the second half of the rows" if abs(2 * fewer - most) <= 2 else f"{most:,.0f} rather than {fewer:,.0f} rows"
    if isnan(found.gain):
        verdict = f"The {metric} is undefined on the scored rows, so nothing shows whether more rows would help."
    elif found.low > 0:
        verdict = f"More rows would likely help: {rest} improved the score by {gap}."
    else:
        verdict = f"More rows may not help: {rest} changed the score by {gap}, which chance can explain."
    rows = tuple((f"{point.place:,.0f}", point_text(point)) for point in found.points)
    title = f"Learning curve of {subject_of(state, found)}"
    sentences = (verdict, *partial_sentences(found.partial))
    return [DiagnosisTable(title, sentences, ("training rows", metric), rows, (0, 1))]


def _figures(found: RowCurveReady, state: RunState) -> list[Lines]:
    metric = metric_of(state)
    return [Lines("Learning curve by rows", "training rows", metric, (series_of(metric, found.points),))]


ANALYSIS = Analysis(
    event=RowCurveReady,
    rank=30,
    tables=_tables,
    line=lambda found, state: f"Learning curve of {title_of(state, found.model)} over training rows",
    figures=_figures,
    request=Request(
        option="learning-curve",
        help="Score the best model with fewer training rows; trains it again.",
        computation="tabapp.engine.analyses.learning_curves:measure_row_curve",
        title="Learning curve by rows",
        note="would more rows help? trains the best model again",
        trains=True,
    ),
)
