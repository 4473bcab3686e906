"""The score of the ensemble over the time of fitting, with its interval and what joined."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tabapp import charts
from tabapp.run.options.units import format_duration
from tabapp.run.record.score_text import interval_text
from tabapp.run.record.state import EnsembleStep, RunState, format_score, title_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.pictures import layered
from tabapp.tui.viewmodels.texts import MUTED

LEAST_ROWS = 2
BAND = "$accent 45%"


@dataclass(frozen=True)
class CurveFacts:
    """The steps of the score until `end`, in seconds of fitting; `names` are the titles of the models that joined at each."""

    steps: tuple[EnsembleStep, ...]
    names: tuple[str, ...]
    end: float
    metric: str
    arrow: str
    is_settled: bool = False


def curve_facts(state: RunState, now: float) -> CurveFacts:
    """The curve of a state at a time; it grows by whole seconds."""
    names = tuple(" ".join(f"+{title_of(state, model)}" for model in step.joined) for step in state.steps)
    last = state.steps[-1].seconds if state.steps else 0.0
    is_fitting = state.finished is None and state.stage == "fitting"
    end = max(last, float(math.floor(state.fitting_seconds(now))) if is_fitting else last)
    plan = state.plan
    arrow = "" if plan is None else " ↑" if plan.greater_is_better else " ↓"
    title = plan.metric_title if plan is not None else "Score"
    return CurveFacts(state.steps, names, end, title, arrow, is_settled=is_fitting and state.settled is not None)


class ScoreCurve(Panel[CurveFacts]):
    """A step curve of the score between faint lines of its 95 % interval; marks below it name what joined the ensemble."""

    def on_facts(self, facts: CurveFacts) -> None:
        last = facts.steps[-1] if facts.steps else None
        shown = "" if last is None else f"{format_score(last.score)} ({interval_text(last)})"
        shown += " · more time would add little" if facts.is_settled else ""
        set_titles(self, f"{facts.metric}{facts.arrow} of the ensemble", shown)

    def draw(self, facts: CurveFacts, width: int, height: int) -> list[Content]:
        steps = [step for step in facts.steps if step.score is not None]
        if not steps:
            return list(
                Content.styled("The curve begins when the first model has all of its folds.", MUTED).wrap(width)
            )
        rows = max(1, height - 2 if height > LEAST_ROWS + 1 else height - 1)
        values = [value for step in steps for value in (step.score, step.low, step.high) if value is not None]
        low, high = charts.extent(values)
        labels = charts.axis_labels(low, high, rows, format_score)
        room = max(1, width - len(labels[0]) - 1)
        span, y_range = (0.0, facts.end or 1.0), (low, high)
        layers = [
            charts.braille_line(_corners(steps, name, facts.end), room, rows, x_range=span, y_range=y_range)
            for name in ("low", "high", "score")
        ]
        drawn = layered(layers, (BAND, BAND, "$accent"))
        lines = [Content.assemble((label, MUTED), " ", line) for label, line in zip(labels, drawn, strict=True)]
        under = " " * (len(labels[0]) + 1)
        if height > LEAST_ROWS + 1:
            lines.append(Content.styled(under + _marks(facts, room), MUTED))
        return [*lines, Content.styled(under + _times(facts.end, room), MUTED)]


def _corners(steps: list[EnsembleStep], name: str, end: float) -> list[charts.Point]:
    """The corners of a curve whose values last until the next step."""
    corners: list[charts.Point] = []
    for step in steps:
        value = getattr(step, name)
        if value is not None:
            corners += [(step.seconds, corners[-1][1] if corners else value), (step.seconds, value)]
    return [*corners, (end, corners[-1][1])] if corners else []


def _marks(facts: CurveFacts, room: int) -> str:
    """What joined at the place of its time; names that would overlap an earlier one are left out."""
    line = ""
    for step, names in zip(facts.steps, facts.names, strict=True):
        place = round(step.seconds / (facts.end or 1.0) * (room - 1))
        text = f"▲{names}"
        if names and place >= len(line) and place < room:
            # A mark at the right edge is written before its place.
            start = min(place, max(len(line), room - len(text)))
            line = line.ljust(start) + text[: room - start] + " "
    return line[:room]


def _times(end: float, room: int) -> str:
    """The axis of time, with its end and as many places between as there is room for."""
    n_places = max(1, min(4, room // 14))
    line = "0s"
    for place in range(1, n_places + 1):
        text = format_duration(end * place / n_places)
        at = round(room * place / n_places) - (len(text) if place == n_places else len(text) // 2)
        line = line.ljust(max(at, len(line) + 1)) + text
    return line[:room]
