"""The run under the cursor of the Runs screen in detail, or the score curves of the marked runs on common axes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabapp import charts
from tabapp.run.lists.description import RunDescription
from tabapp.run.options.units import format_duration
from tabapp.run.record.state import format_score
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.run_list import STATUSES, status_words
from tabapp.tui.viewmodels.texts import MUTED, count, cut_labels, file_size, keep_end

COLORS = ("$primary", "$accent", "$secondary", "$success", "$error", "$warning")
MOST_CURVES = 9
"""Each curve ends with its digit, so that curves differ without colors too."""
CURVE_HEIGHT = 8
LEAST_CURVES = 4
"""Lines of curves of several runs with their axis, at least."""


@dataclass(frozen=True)
class PreviewFacts:
    """What the panel shows: the curves of two runs or more, or else one run; nothing without a run."""

    runs: tuple[RunDescription, ...] = ()


class RunPreview(Panel[PreviewFacts]):
    """Details of a run, or an overlay of curves."""

    def __init__(self) -> None:
        super().__init__("Run", id="run-preview")

    def on_facts(self, facts: PreviewFacts) -> None:
        names = [run.title for run in facts.runs]
        set_titles(self, f"Scores of {len(names)} marked runs" if len(names) > 1 else "".join(names) or "Run")

    def draw(self, facts: PreviewFacts, width: int, height: int) -> Sequence[Content]:
        first = next(iter(facts.runs), None)
        if first is None:
            return [Content.styled("No run under the cursor.", MUTED)]
        if len(facts.runs) > 1:
            return _overlay(facts.runs, width, height)
        return _details(first, width, height)


def _details(run: RunDescription, width: int, height: int) -> list[Content]:
    glyph, _, style = STATUSES[run.status]
    lines = [
        Content.assemble(
            (f"{glyph} {status_words(run)}", style), (f" · {format_duration(run.seconds)} · {run.run}", MUTED)
        )
    ]
    if run.best is not None:
        scored = f" on {run.partial}" if run.partial else ""
        lines.append(
            Content.assemble(
                (format_score(run.best), "bold"), f" {run.metric_title}{scored}", (f" · {run.model}", MUTED)
            )
        )
    if run.reason:
        lines += [Content.styled(line, MUTED) for line in textwrap.wrap(run.reason, width)[:3]]
    facts = [*_plan_lines(run, width), *_label_lines(run, width)]
    room = min(CURVE_HEIGHT, height - len(lines) - len(facts) - 2)
    if len(run.curve) > 1 and room >= 3:
        lines += ["", *_chart([run], width, room)]
    return [*map(_content, lines), Content(""), *facts]


def _content(line: Content | str) -> Content:
    return line if isinstance(line, Content) else Content(line)


def _plan_lines(run: RunDescription, width: int) -> list[Content]:
    plan = run.plan
    facts = [("File", f"{Path(run.data).name} › {run.target}" if run.target else Path(run.data).name)]
    if plan is not None:
        competing = sum(model.reason is None for model in plan.models)
        limits = [format_duration(plan.budget)] if plan.budget is not None else []
        limits += [f"{plan.trials} trials per model"] if plan.trials is not None else []
        facts += [
            ("Task", f"{plan.task} · {plan.validation}"),
            (
                "Plan",
                f"{' · '.join([*limits, plan.quality])} · {run.models} of {count(competing, 'model')} · seed {plan.seed}",
            ),
        ]
    facts.append(("Bundle", file_size(run.bundle_bytes) if run.bundle_bytes else "none"))
    return [line for name, value in facts for line in _wrapped(name, value, width)]


def _label_lines(run: RunDescription, width: int) -> list[Content]:
    labels = run.labels
    lines = _wrapped("Tags", " ".join(f"#{tag}" for tag in labels.tags), width)
    lines += _wrapped("Note", labels.note, width)
    lines += [Content.styled(line, "$warning") for line in textwrap.wrap(run.labels_problem, width)]
    return lines


def _wrapped(name: str, value: str, width: int) -> list[Content]:
    """A fact with its name before the first line; nothing without a value."""
    texts = textwrap.wrap(value, max(10, width - 8))
    return [Content.assemble((f"{name if place == 0 else '':<8}", MUTED), text) for place, text in enumerate(texts)]


def _overlay(runs: Sequence[RunDescription], width: int, height: int) -> list[Content]:
    """The curves of the runs that have the metric of the first, with a legend; the others are named."""
    metric = runs[0].metric_title
    drawn = [run for run in runs if run.metric_title == metric and run.curve][:MOST_CURVES]
    others = [run for run in runs if run not in drawn]
    shared = {_predicted(run) for run in drawn}
    heading = f"{metric} · {shared.pop()}" if len(shared) == 1 else metric
    notes = [(f"– {run.title}: {_why_not(run, metric)}.", MUTED) for run in others]
    if len({run.data for run in drawn}) > 1:
        notes.append(("The runs read different tables, so their scores may not be comparable.", "$warning"))
    said = [Content.styled(line, style) for text, style in notes for line in textwrap.wrap(text, width)]
    above = Content.styled(heading, MUTED).wrap(width)
    room = height - len(above) - len(said)
    legend = _legend(drawn, width, room - LEAST_CURVES, with_predicted=bool(shared))
    room -= len(legend)
    chart = _chart(drawn, width, room) if drawn and room >= LEAST_CURVES else []
    return [*above, *chart, *legend, *said]


def _predicted(run: RunDescription) -> str:
    return f"{Path(run.data).name} › {run.target}"


def _legend(runs: Sequence[RunDescription], width: int, room: int, *, with_predicted: bool) -> list[Content]:
    """Number, name and score of each run. What it predicts is below them, or left out, where the lines are too short or too few."""
    scores = [f" · {format_score(run.best)}" for run in runs]
    longest = max(map(len, scores), default=0)
    names = cut_labels([run.title for run in runs], max(1, width - 4 - longest))
    lines: list[Content] = []
    places = [_predicted(run) if with_predicted else "" for run in runs]
    fits = all(
        4 + len(f"{name}{score} · {place}") <= width for name, score, place in zip(names, scores, places, strict=True)
    )
    for number, (name, score, place) in enumerate(zip(names, scores, places, strict=True), start=1):
        mark = (f"{number} ━ ", COLORS[(number - 1) % len(COLORS)])
        beside = f" · {place}" if place and fits else ""
        lines.append(Content.assemble(mark, name, (score + beside, MUTED)))
        if place and not fits and 2 * len(runs) <= room:
            lines.append(Content.styled("    " + keep_end(place, width - 4), MUTED))
    return lines


def _why_not(run: RunDescription, metric: str) -> str:
    return (
        "no score over all folds yet"
        if not run.curve
        else f"its metric is {run.metric_title}"
        if run.metric_title != metric
        else "no room"
    )


def _chart(runs: Sequence[RunDescription], width: int, height: int) -> list[Content]:
    """Best scores over seconds of fitting as step curves, each with its digit at the end if there are several."""
    scores = [score for run in runs for _, score in run.curve]
    up = charts.extent(scores)
    end = max(max(run.seconds, run.curve[-1][0]) for run in runs) or 1.0
    labels = charts.axis_labels(*up, height - 1, format_score)
    across = max(4, width - len(labels[0]) - 2)
    layers = [charts.braille_line(_steps(run), across, height - 1, x_range=(0.0, end), y_range=up) for run in runs]
    ends = {
        charts.cell_of(_steps(run)[-1], across, height - 1, (0.0, end), up): number
        for number, run in enumerate(runs, start=1)
    }
    lines = [
        Content.assemble((f"{label} ┤", MUTED), *_cells(layers, row, ends if len(runs) > 1 else {}))
        for row, label in enumerate(labels)
    ]
    right = format_duration(end)
    axis = f"{'':>{len(labels[0])}}  0s{right:>{max(1, across - 2)}}"
    return [*lines, Content.styled(axis, MUTED)]


def _steps(run: RunDescription) -> list[charts.Point]:
    """The corners of the curve of a run, up to its end: a best score stays until the next one."""
    corners: list[charts.Point] = []
    for time, score in run.curve:
        if corners:
            corners.append((time, corners[-1][1]))
        corners.append((time, score))
    return [*corners, (max(run.seconds, corners[-1][0]), corners[-1][1])]


def _cells(layers: Sequence[Sequence[str]], row: int, ends: dict[tuple[int, int], int]) -> list[tuple[str, str]]:
    """One line of several drawings: each cell has the color of the first drawing in it."""
    parts: list[tuple[str, str]] = []
    for column in range(len(layers[0][row])):
        number = ends.get((column, row))
        if number is not None:
            parts.append((str(number), f"bold {COLORS[(number - 1) % len(COLORS)]}"))
            continue
        dots = [ord(layer[row][column]) - charts.BRAILLE_BLANK for layer in layers]
        first = next((index for index, each in enumerate(dots) if each), 0)
        merged = 0
        for each in dots:
            merged |= each
        parts.append((chr(charts.BRAILLE_BLANK + merged), COLORS[first % len(COLORS)]))
    return parts
