"""The score on the latest rows of a model that is trained on recent and on old rows."""

from __future__ import annotations

from tabapp.findings import CurvePoint
from tabapp.run.analyses.parts import Gain, Partial, gain_text, metric_of, partial_sentences, series_of, two_curves
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Lines, Request
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState, subject_of, title_of


class TimeCurveReady(AnalysisEvent, tag="time_curve.ready", frozen=True, kw_only=True):
    """The score of `model` on the latest rows, trained on parts of the earlier rows.

    Attributes:
        column: the column of times.
        since: time of the earliest of the `n_rows` scored rows.
        recent, oldest: by number of the most recent, and of the oldest, earlier rows.
        older_rows: of training on all earlier rows rather than on the most recent half, the last two of `recent`.
        recency: of training on the most recent half rather than on the oldest half, the last of `oldest`.
        partial: what the time limit left out; None if the curve is complete.
    """

    column: str
    since: str
    n_rows: int
    recent: tuple[CurvePoint, ...]
    oldest: tuple[CurvePoint, ...]
    older_rows: Gain
    recency: Gain
    partial: Partial | None = None


def _tables(found: TimeCurveReady, state: RunState) -> list[DiagnosisTable]:
    """The score on the latest rows by the training rows, and whether old rows help and recent rows are worth more."""
    older, recency = found.older_rows, found.recency
    if found.partial is None:
        more, fewer, recent, oldest = (
            "all earlier rows",
            "the most recent half",
            "the most recent half",
            "the oldest half",
        )
    else:
        fewest, most = (f"{point.place:,.0f}" for point in found.recent[-2:])
        both = f"{found.oldest[-1].place:,.0f}"
        more, fewer = f"the most recent {most} rows", f"the most recent {fewest}"
        recent, oldest = f"the most recent {both} rows", f"the oldest {both}"
    if older.low > 0:
        old = f"Older rows help: training on {more} rather than on {fewer} improved the score by"
    elif older.high < 0:
        old = f"Older rows harm: training on {more} rather than on {fewer} changed the score by"
    else:
        old = f"Older rows do not matter clearly: {more} rather than {fewer} changed the score by"
    if recency.low > 0:
        new = f"Models age, so train again regularly: with {recent} rather than {oldest} the score is better by"
    else:
        new = f"No clear aging: training on {recent} rather than on {oldest} changed the score by"
    sentences = (
        f"{metric_of(state)} on the {found.n_rows:,} latest rows, {found.column} from {found.since} on, of models trained on "
        "earlier rows.",
        f"{old} {gain_text(older.value, older.low, older.high)}.",
        f"{new} {gain_text(recency.value, recency.low, recency.high)}.",
        *partial_sentences(found.partial),
    )
    rows = two_curves(found.recent, found.oldest, "{:,.0f}")
    header = ("training rows", "most recent", "oldest")
    title = f"Learning curve of {subject_of(state, found)} over time"
    return [DiagnosisTable(title, sentences, header, rows, (0, 1, 2))]


def _figures(found: TimeCurveReady, state: RunState) -> list[Lines]:
    series = (series_of("most recent rows", found.recent), series_of("oldest rows", found.oldest))
    return [Lines("Learning curve by time", "training rows", metric_of(state), series)]


def _has_dates(state: RunState) -> bool:
    columns = state.schema.columns if state.schema is not None else ()
    return any(column.kind == "datetime" or column.role == "time" for column in columns)


ANALYSIS = Analysis(
    event=TimeCurveReady,
    rank=40,
    tables=_tables,
    line=lambda found, state: f"Learning curve of {title_of(state, found.model)} over time",
    figures=_figures,
    request=Request(
        option="time-curve",
        help="Score the latest rows by the best model, trained on recent rows and on old rows; for tables with dates.",
        computation="tabapp.engine.analyses.learning_curves:measure_time_curve",
        title="Learning curve by time",
        note="do old rows help, and does the model age?",
        trains=True,
        is_offered=_has_dates,
        needs="a date column, or a run with --time",
    ),
)
