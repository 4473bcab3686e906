"""The right side of the Diagnose screen: the sentences of a result, its chart, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tabapp import charts
from tabapp.run.analyses.attention import AttentionReady
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import DiagnosisTable, Grid, Lines, Series, analysis_of
from tabapp.run.record.state import RunState, format_score
from tabapp.run.texts.diagnoses import grid_lines, tables_of
from tabapp.tui.content import Content
from tabapp.tui.parts.line_chart import interval_track, line_chart, nearest
from tabapp.tui.viewmodels.diagnoses import attention_steps, interactions_content, tables_content
from tabapp.tui.viewmodels.diagnosis_entries import CALIBRATION, Entry
from tabapp.tui.viewmodels.texts import MUTED, brief

LEAST_CHART, MOST_CHART = 9, 18


@dataclass(frozen=True)
class Findings:
    """What a result shows at one of its steps.

    Attributes:
        steps: number of places, maps or charts that ←/→ walk through; 1 for none.
        place: the step that is shown.
        moved: the threshold at the line if it is not the chosen one; None otherwise.
    """

    title: str
    content: Content
    steps: int = 1
    place: int = 0
    step_name: str = ""
    moved: float | None = None


def findings(entry: Entry, state: RunState, place: int | None, width: int, height: int) -> Findings:
    """The findings of an entry.

    Args:
        place: the step; None for the first one, or the chosen threshold.
        width, height: of the view in characters; longer content scrolls.
    """
    if entry.key == CALIBRATION:
        return _calibration(state, width, height)
    event = entry.result
    if event is None:
        return Findings(entry.title, Content(entry.text or "The result appears here."))
    notes = (f"The new analysis has no result: {entry.text}",) if entry.status == "failed" else ()
    tables = tables_of(event, state)
    tables[0] = replace(tables[0], sentences=(*notes, *tables[0].sentences))
    match event:
        case ThresholdChosen() if event.curve:
            return _threshold(event, state, tables, place, width, height)
        case AttentionReady():
            return _attention(event, state, place, width)
        case InteractionsReady():
            return Findings(entry.title, interactions_content(event, state, width))
        case FairnessReady():
            return _groups(event, tables, place or 0, width)
        case _:
            return _with_charts(event, state, tables, place or 0, width, height)


def _joined(
    sentences: Sequence[str],
    middle: Sequence[Content],
    tables: Sequence[DiagnosisTable],
    width: int,
    after: Sequence[str] = (),
) -> Content:
    """Sentences, a chart, further sentences and tables below each other."""
    first, *others = tables
    parts = [Content.styled(sentence, "bold" if not number else "") for number, sentence in enumerate(sentences)]
    parts += [Content(""), *middle] if middle else []
    rest = [replace(first, sentences=tuple(after)), *others] if first.rows or after else others
    if rest:
        parts += [Content("")] if len(rest) > 1 or after else []
        parts.append(tables_content(rest, width))
    return Content("\n").join(parts)


def _chart_height(sentences: Sequence[str], tables: Sequence[DiagnosisTable], width: int, height: int) -> int:
    """Lines of a chart: what sentences and tables leave of the view."""
    words = sum(-(-len(sentence) // max(1, width)) for sentence in sentences)
    rows = sum(len(table.rows) + 2 for table in tables if table.rows)
    return max(LEAST_CHART, min(MOST_CHART, height - words - min(rows, 6) - 3))


def _with_charts(
    event: ev.AnalysisEvent, state: RunState, tables: list[DiagnosisTable], place: int, width: int, height: int
) -> Findings:
    """A result with its line charts and heat maps, one at a time, above its tables."""
    shown = [each for each in analysis_of(event).figures(event, state) if isinstance(each, Lines | Grid)]
    sentences = tables[0].sentences
    drawn: list[Content] = []
    if shown:
        place %= len(shown)
        chart = shown[place]
        if isinstance(chart, Grid):
            drawn = _heat_map(chart)
        else:
            drawn = line_chart(chart, width, _chart_height(sentences, tables, width, height))
    content = _joined(sentences, drawn, tables, width)
    return Findings(tables[0].title, content, max(1, len(shown)), place, "chart" if len(shown) > 1 else "")


def _heat_map(found: Grid) -> list[Content]:
    *cells, axes, strongest = grid_lines(found)
    lines = [Content.styled(found.title, "bold"), *(Content.styled(line, "$primary") for line in cells)]
    return [*lines, Content.styled(axes, MUTED), Content.styled(strongest, MUTED)]


# -- thresholds ---------------------------------------------------------------------------------------------------


def _threshold(
    found: ThresholdChosen,
    state: RunState,
    tables: list[DiagnosisTable],
    place: int | None,
    width: int,
    height: int,
) -> Findings:
    """The metric at every threshold, with a line at one of them and what happens there."""
    assert found.value is not None
    chosen = nearest([each for each, _ in found.curve], found.value)
    place = chosen if place is None else max(0, min(place, len(found.curve) - 1))
    at = found.value if place == chosen else found.curve[place][0]
    (lines,) = [each for each in analysis_of(found).figures(found, state) if isinstance(each, Lines)]
    # What happens at the line stays beside the conclusion, also on a small terminal.
    conclusion, *others = tables[0].sentences
    room = _chart_height((conclusion,), tables, width, height) - 2
    drawn = [*_at_line(found, place, at, moved=place != chosen), *line_chart(lines, width, room, mark=at)]
    return Findings(
        f"Threshold · {found.metric_title}",
        _joined((conclusion,), drawn, tables, width, others),
        len(found.curve),
        place,
        "threshold",
        None if place == chosen else at,
    )


def _at_line(found: ThresholdChosen, place: int, at: float, *, moved: bool) -> list[Content]:
    """The threshold at the line with the metric, recall and precision there."""
    parts: list[tuple[str, str]] = [("│ ", "bold $accent"), (f"{at:.3f}", "bold")]
    parts.append((f"  {found.metric_title} {format_score(found.curve[place][1])}", ""))
    if place < len(found.counts):
        tp, fp, fn, _ = found.counts[place]
        recall = f"{tp / (tp + fn):.0%}" if tp + fn else "—"
        precision = f"{tp / (tp + fp):.0%}" if tp + fp else "—"
        parts.append((f"  recall {recall}  precision {precision}", ""))
        parts.append((f"  {tp + fp:,.0f} labeled {found.positive}", MUTED))
    hint = "enter keeps this threshold" if moved else "in force · ←/→ moves the line"
    return [Content.assemble(*parts), Content.styled(hint, "$accent" if moved else MUTED)]


# -- maps, groups and calibration -------------------------------------------------------------------------------


def _attention(found: AttentionReady, state: RunState, place: int | None, width: int) -> Findings:
    steps = attention_steps(found)
    place = (place or 0) % len(steps) if steps else 0
    if not steps:
        return Findings("Attention", Content("The model has no attention map."))
    title, content = steps[place].drawn(found, state, width)
    return Findings(title, content, len(steps), place, "map")


def _groups(found: FairnessReady, tables: list[DiagnosisTable], place: int, width: int) -> Findings:
    """One rate of each group with its interval, between the lowest and the highest end of an interval."""
    names = [rate.name for rate in found.groups[0].rates] if found.groups else []
    drawn: list[Content] = []
    if names:
        place %= len(names)
        rates = [group.rate(names[place]) for group in found.groups]
        known = [each for rate in rates for each in (rate.low, rate.value, rate.high) if each is not None]
        bounds = charts.extent(known)
        longest = min(max(len(group.level) for group in found.groups), max(8, width // 3))
        room = max(6, width - longest - 18)
        drawn.append(Content.assemble((names[place], "bold"), (f"  {brief(bounds[0])} … {brief(bounds[1])}", MUTED)))
        for group, rate in zip(found.groups, rates, strict=True):
            name = Content(group.level).truncate(longest, ellipsis=True, pad=True)
            if rate.value is None or rate.low is None or rate.high is None:
                drawn.append(Content.assemble(name, ("  —", MUTED)))
                continue
            track = interval_track(rate.low, rate.value, rate.high, bounds, room)
            drawn.append(
                Content.assemble(name, "  ", (track, "$primary"), f" {brief(rate.value):>7}", (f"{group.n:>8,}", MUTED))
            )
    content = _joined(tables[0].sentences, drawn, tables, width)
    return Findings(tables[0].title, content, max(1, len(names)), place, "rate" if len(names) > 1 else "")


def _calibration(state: RunState, width: int, height: int) -> Findings:
    """Observed frequencies against predicted probabilities of the ensemble."""
    found = state.evaluations[ev.ENSEMBLE]
    of_what = f"“{found.positive}”" if found.positive else "the most probable class"
    sentence = (
        f"The calibration error is {format_score(found.calibration_error)}: the mean distance between the probability of {of_what} "
        "and how often it came true."
    )
    if found.uncalibrated_error is not None:
        sentence += f" Before calibration it was {format_score(found.uncalibrated_error)}."
    bins = found.calibration
    series = Series(
        "observed",
        tuple((each.predicted, each.observed) for each in bins),
        tuple(each.low for each in bins),
        tuple(each.high for each in bins),
    )
    square = (0.0, 1.0)
    lines = Lines("Calibration", "predicted", "came true", (series,), ((0.0, 0.0), (1.0, 1.0)), square, square)
    rows = tuple(
        (f"{each.predicted:.3f}", f"{each.observed:.3f} ({each.low:.3f} to {each.high:.3f})", f"{each.count:,}")
        for each in bins
    )
    table = DiagnosisTable("Calibration", (sentence,), ("predicted", "came true", "rows"), rows, (0, 1, 2))
    drawn = line_chart(lines, width, _chart_height((sentence,), [table], width, height))
    return Findings("Calibration of the ensemble", _joined((sentence,), drawn, [table], width))
