"""Analyses of a run as tables of text, the same on every view and in reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.state import RunState, format_score, subject_of
from tabapp.run.texts.dependence_tables import dependence_tables, faithfulness_table, partial_sentences
from tabapp.run.texts.diagnosis_table import DiagnosisTable as DiagnosisTable


def threshold_table(found: ev.ThresholdChosen) -> DiagnosisTable:
    """The threshold of the positive class, and the labels at it."""
    if found.value is None:
        return DiagnosisTable("Threshold", ("The bundle labels rows by the more probable class again.",))
    gain = found.score - found.at_half
    better = (gain > 0) == found.greater_is_better and gain != 0
    sentences = (
        f"A row is labeled {found.positive} if the probability of {found.positive} is at least {found.value:.3f} (95 % interval "
        f"{found.low:.3f} to {found.high:.3f}), the best threshold by {found.metric_title}. The bundle keeps this threshold, and "
        "predict uses it.",
        f"On rows whose fold did not choose the threshold, the {found.metric_title} is {format_score(found.score)} (95 % interval "
        f"{format_score(found.score_low)} to {format_score(found.score_high)}); with 0.5 it is {format_score(found.at_half)}."
        + ("" if better else " The threshold is no better than 0.5 there."),
    )
    rows = (
        (f"truly {found.positive}", f"{found.tp:,.0f}", f"{found.fn:,.0f}"),
        ("truly other", f"{found.fp:,.0f}", f"{found.tn:,.0f}"),
    )
    return DiagnosisTable("Threshold", sentences, ("rows", f"labeled {found.positive}", "labeled other"), rows, (1, 2))


def robustness_table(found: ev.RobustnessReady, state: RunState) -> DiagnosisTable:
    """The score by the share of damaged cells."""
    metric = state.plan.metric_title if state.plan else "score"
    sentence = (
        f"The {metric} of the ensemble on {found.n_rows:,} held-out rows when cells of its columns are missing, or noisy: the "
        "value of another row."
    )
    rows = _two_curves(found.missing, found.noisy, "{:.0%}")
    return DiagnosisTable("Robustness", (sentence,), ("damaged cells", "missing", "noisy"), rows, (0, 1, 2))


def _two_curves(
    one: Sequence[ev.CurvePoint], other: Sequence[ev.CurvePoint], place: str
) -> tuple[tuple[str, ...], ...]:
    """A line for each place of a curve, in the format `place`, with the scores of both curves."""
    others = {point.place: _with_interval(point) for point in other}
    return tuple((place.format(point.place), _with_interval(point), others.get(point.place, "—")) for point in one)


def row_curve_table(found: ev.RowCurveReady, state: RunState) -> DiagnosisTable:
    """The score by the number of training rows, and whether more rows would help."""
    metric = state.plan.metric_title if state.plan else "score"
    gap = _gain(found.gain, found.low, found.high)
    fewer, most = ([0.0, 0.0] + [point.place for point in found.points])[-2:]
    # Numbers of rows are rounded.
    rest = "the second half of the rows" if abs(2 * fewer - most) <= 2 else f"{most:,.0f} rather than {fewer:,.0f} rows"
    if isnan(found.gain):
        verdict = f"The {metric} is undefined on the scored rows, so nothing shows whether more rows would help."
    elif found.low > 0:
        verdict = f"More rows would likely help: {rest} improved the score by {gap}."
    else:
        verdict = f"More rows may not help: {rest} changed the score by {gap}, which chance can explain."
    rows = tuple((f"{point.place:,.0f}", _with_interval(point)) for point in found.points)
    title = subject_of(state, found)
    sentences = (verdict, *partial_sentences(found.partial))
    return DiagnosisTable(f"Learning curve of {title}", sentences, ("training rows", metric), rows, (0, 1))


def time_curve_table(found: ev.TimeCurveReady, state: RunState) -> DiagnosisTable:
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
    metric = state.plan.metric_title if state.plan else "score"
    sentences = (
        f"{metric} on the {found.n_rows:,} latest rows, {found.column} from {found.since} on, of models trained on earlier rows.",
        f"{old} {_gain(older.value, older.low, older.high)}.",
        f"{new} {_gain(recency.value, recency.low, recency.high)}.",
        *partial_sentences(found.partial),
    )
    rows = _two_curves(found.recent, found.oldest, "{:,.0f}")
    header = ("training rows", "most recent", "oldest")
    title = f"Learning curve of {subject_of(state, found)} over time"
    return DiagnosisTable(title, sentences, header, rows, (0, 1, 2))


def _gain(value: float, low: float, high: float) -> str:
    if isnan(value):
        return "an undefined amount: the metric is undefined on the scored rows"
    return f"{value:+.4g} (95 % interval {low:+.4g} to {high:+.4g})"


def fairness_table(found: ev.FairnessReady) -> DiagnosisTable:
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
    rows = tuple((group.level, f"{group.n:,}", *(_rate(rate) for rate in group.rates)) for group in found.groups)
    header = ("group", "rows", *names)
    return DiagnosisTable(f"Groups by {found.column}", tuple(sentences), header, rows, tuple(range(1, len(header))))


def diagnosis_tables(state: RunState) -> list[DiagnosisTable]:
    """All analyses of a run so far."""
    requested = (state.threshold, state.robustness, state.row_curve, state.time_curve, *state.fairness.values())
    found = [table_of(each, state) for each in requested if each is not None]
    return [*(table for table in found if table is not None), *dependence_tables(state)]


def requested_tables(state: RunState) -> list[DiagnosisTable]:
    """The analyses of a run that a user has requested."""
    engine = {table.title for table in dependence_tables(state)}
    return [table for table in diagnosis_tables(state) if table.title not in engine]


def table_of(event: ev.AnyEvent, state: RunState) -> DiagnosisTable | None:
    """The table of an analysis; None for another event."""
    match event:
        case ev.ThresholdChosen():
            return _marked(threshold_table(event), event, state)
        case ev.RobustnessReady():
            return _marked(robustness_table(event, state), event, state)
        case ev.RowCurveReady():
            return row_curve_table(event, state)
        case ev.TimeCurveReady():
            return time_curve_table(event, state)
        case ev.FairnessReady():
            return _marked(fairness_table(event), event, state)
        case ev.FaithfulnessReady():
            return faithfulness_table(event, state)
        case _:
            return None


def _marked(table: DiagnosisTable, found: ev.Described, state: RunState) -> DiagnosisTable:
    """The table of an analysis of the ensemble, which says so if it describes an earlier one."""
    earlier = earlier_subject(found, state.leaderboard)
    return replace(table, sentences=(f"These are results of {earlier}.", *table.sentences)) if earlier else table


def lift_at(gain: Sequence[tuple[float, float]], share: float) -> float:
    """How many times more positive rows a share of the rows with the highest probabilities has than random rows.

    Args:
        gain: the cumulative gain curve, which is interpolated.
    """
    for (x0, y0), (x1, y1) in pairwise(gain):
        if x1 >= share:
            y = y0 + (y1 - y0) * ((share - x0) / (x1 - x0) if x1 > x0 else 1.0)
            return y / share
    return 1.0


def _with_interval(point: ev.CurvePoint) -> str:
    return f"{format_score(point.score)} ({format_score(point.low)} to {format_score(point.high)})"


def _rate(rate: ev.RateView) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "—"
    return f"{rate.value:.3g} ({rate.low:.3g} to {rate.high:.3g})"
