"""Panels of the Tuning screen: trials, best score so far, slice and hyperparameter importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tabapp import charts
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState, format_score
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.query import parse
from tabapp.tui.viewmodels.texts import MUTED, brief, count, metric_with_arrow
from tabapp.tui.viewmodels.trial_facts import (
    Slice,
    TrialFacts,
    all_trials,
    plot,
    slice_of,
    sort_trials,
    varied_parameters,
)
from tabapp.tui.widgets.tuning_panel import TALLEST

SORTS = ("newest", "score", "time", "model")
TITLES = {"#": "newest", "Model": "model", "Time": "time", "Status": "newest"}
LEAST_RANKED = 10
"""Complete trials that the engine needs to rank hyperparameters."""
FIELDS = ("model", "trial", "status", "score", "seconds", "reason")
MARKS = {
    "pruned": ("⊘", "$warning"),
    "failed": ("✗", "$error"),
    "running": ("●", "$primary"),
    "incomplete": ("◔", "$warning"),
    "ok": ("✓", "$success"),
}


def status_text(row: TrialFacts) -> Content:
    """The status of a trial as a glyph and a word."""
    if row.status in ("running", "incomplete"):
        return Content.assemble(MARKS[row.status], f" {row.folds}/{row.n_folds} folds")
    if row.best:
        return Content.assemble(("★", "$accent"), " best of model")
    return Content.assemble(MARKS[row.status], " done" if row.status == "ok" else f" {row.status}")


def note_of(row: TrialFacts, varied: Sequence[str]) -> str:
    """Why a trial was pruned, or the hyperparameters that differ from other trials of its model."""
    if row.reason:
        return row.reason
    return "  ".join(f"{name}={brief(row.params[name])}" for name in varied if name in row.params)


def trial_row(row: TrialFacts, varied: Sequence[str]) -> Row:
    """A trial as a row of the table."""
    quiet = "" if row.is_complete else MUTED
    cells = (
        Content.styled(str(row.trial), MUTED),
        Content.styled(row.title, quiet),
        Content.styled(format_score(row.score), "bold $accent" if row.best else quiet),
        status_text(row),
        Content.styled(format_duration(row.seconds) if row.seconds else "—", MUTED),
        Content.styled(note_of(row, varied), MUTED),
    )
    return Row(row.key, cells)


class Trials(Table):
    """All trials, or those of one model; the key k belongs to the screen, which stops a model with it."""

    ORDERS: ClassVar = SORTS

    def __init__(self) -> None:
        super().__init__([], id="trials", empty="Waiting for the first trial…")
        set_titles(self, "Trials")
        self.sort = "newest"
        self.filter = ""
        self.only: str | None = None
        self.trials: list[TrialFacts] = []
        self._seen: RunState | None = None
        self._drawn: tuple[object, ...] = ()

    @property
    def trial(self) -> TrialFacts | None:
        """The trial under the cursor."""
        key = self.key
        return next((row for row in self.trials if row.key == key), None)

    def next_sort(self) -> None:
        """Sort by the next column."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def of_model(self, model: str | None) -> list[TrialFacts]:
        """The trials of a model, the newest first."""
        return [row for row in self.trials if row.model == model]

    def show_state(self, state: RunState) -> None:
        """Draw the trials of a state."""
        seen, drawn = self._seen, (self.sort, self.filter, self.only)
        if seen is not None and drawn == self._drawn and _same_trials(seen, state):
            return
        self._seen, self._drawn = state, drawn
        self.trials = all_trials(state)
        greater = state.plan.greater_is_better if state.plan else True
        metric = metric_with_arrow(state.plan)
        rows = [row for row in self.trials if self.only in (None, row.model)]
        parameters = {name for row in rows for name in row.params}
        query = parse(self.filter, {*FIELDS, *parameters})
        varied = {model: varied_parameters(self.of_model(model)) for model in {row.model for row in rows}}
        fitting = [
            row
            for row in rows
            if query.fits(row.facts(), f"{row.title} {row.status} {note_of(row, varied[row.model])} #{row.trial}")
        ]
        self.set_empty(f"No trial matches “{self.filter}”." if self.filter and rows else "Waiting for the first trial…")
        columns = (
            Column("#", "right", width=3),
            Column("Model", width=max([5, *(len(row.title) for row in rows)])),
            Column(metric, "right", width=max(len(metric), 8)),
            Column("Status", width=15),
            Column("Time", "right", width=5, priority=1),
            Column("Parameters", width=30, flexible=True),
        )
        ordered = sort_trials(fitting, self.sort, greater_is_better=greater)
        self.show([trial_row(row, varied[row.model]) for row in ordered], columns)
        title = rows[0].title if self.only and rows else "all models"
        details = [f"sorted by {self.sort}"] if self.sort != "newest" else []
        details += [f"“{self.filter}”"] if self.filter else []
        set_titles(self, " · ".join(["Trials", title, *details]), query.problem or summary(rows))


def _same_trials(one: RunState, other: RunState) -> bool:
    # By identity: comparing thousands of trials would cost more than drawing them.
    return (
        one.trials is other.trials
        and one.fits is other.fits
        and one.plan is other.plan
        and one.finished is other.finished
        and one.active.keys() == other.active.keys()
    )


def summary(rows: Sequence[TrialFacts]) -> str:
    """The numbers of trials by status."""
    words = [count(len(rows), "trial")]
    for status in ("running", "incomplete", "pruned", "failed"):
        number = sum(row.status == status for row in rows)
        if number:
            words.append(f"{number} {status}")
    return " · ".join(words)


@dataclass(frozen=True)
class BestFacts:
    """The complete trials of one model in the order in which they ended."""

    title: str
    scores: tuple[float, ...]
    greater_is_better: bool


class BestSoFar(Panel[BestFacts]):
    """A step for each trial better than all before it."""

    def on_facts(self, facts: BestFacts) -> None:
        set_titles(self, f"Best so far · {facts.title}" if facts.title else "Best so far")

    def draw(self, facts: BestFacts, width: int, height: int) -> list[Content]:
        if not facts.scores:
            return [Content.styled("No complete trial yet.", MUTED)]
        best = charts.best_so_far(facts.scores, greater_is_better=facts.greater_is_better)
        words = [count(len(best), "trial"), f"defaults {format_score(best[0])}", f"best {format_score(best[-1])}"]
        if len(best) == 1:
            return [Content.styled(" · ".join(words), MUTED)]
        lines = plot(charts.step_points(best), width, max(1, min(height - 1, TALLEST)))
        return [*lines, Content.styled(" · ".join(words), MUTED)]


@dataclass(frozen=True)
class SliceFacts:
    """One hyperparameter of a model; `place` of `number` among those that vary, and the trials to be marked."""

    title: str
    slice: Slice | None
    place: int
    number: int
    best: str | None
    cursor: str | None


def ordered_parameters(rows: Sequence[TrialFacts], ranked: ev.ParametersRanked | None) -> list[str]:
    """The hyperparameters that vary between complete trials: the most important first, if known."""
    varied = varied_parameters([row for row in rows if row.is_complete])
    places = {row.name: place for place, row in enumerate(ranked.rows)} if ranked is not None else {}
    return sorted(varied, key=lambda name: places.get(name, len(places)))


def slice_facts(
    rows: Sequence[TrialFacts], parameters: Sequence[str], chosen: str | None, cursor: str | None
) -> SliceFacts:
    """The facts of one model's trials over the chosen hyperparameter, or over the first."""
    title = rows[0].title if rows else ""
    best = next((row.key for row in rows if row.best), None)
    if not parameters:
        return SliceFacts(title, None, 0, 0, best, cursor)
    place = parameters.index(chosen) if chosen in parameters else 0
    return SliceFacts(title, slice_of(rows, parameters[place]), place, len(parameters), best, cursor)


@dataclass(frozen=True)
class ParameterImportanceFacts:
    """Hyperparameter importance of one model's trials, the hyperparameter on the slice, and how many trials are complete."""

    title: str
    ranked: ev.ParametersRanked | None
    chosen: str
    n_complete: int


class HyperparameterImportance(Panel[ParameterImportanceFacts]):
    """How strongly each hyperparameter separates the best trials from the rest."""

    def on_facts(self, facts: ParameterImportanceFacts) -> None:
        ranked = facts.ranked
        set_titles(self, "Importance", f"{ranked.n_trials} trials" if ranked is not None else "")

    def draw(self, facts: ParameterImportanceFacts, width: int, height: int) -> list[Content]:
        if facts.ranked is None:
            so_far = f"so far {facts.n_complete}" if facts.n_complete else "so far none"
            text = f"Available after {LEAST_RANKED} complete trials; {so_far}."
            return Content.styled(text, MUTED).wrap(width)
        rows = facts.ranked.rows[:height]
        longest = min(max(len(row.name) for row in rows), width // 2)
        room = max(1, width - longest - 6)
        top = max(row.importance for row in rows)
        lines: list[Content] = []
        for row in rows:
            drawn = charts.rule(row.importance / top if top > 0 else 0.0, room).ljust(room)
            name = Content(row.name).truncate(longest, ellipsis=True, pad=True)
            name = name.stylize("bold") if row.name == facts.chosen else name
            lines.append(Content.assemble(name, " ", (drawn, "$primary"), f" {row.importance:4.0%}"))
        return lines


class SlicePlot(Panel[SliceFacts]):
    """A point for each complete trial: the score against one hyperparameter."""

    def on_facts(self, facts: SliceFacts) -> None:
        if facts.slice is None:
            set_titles(self, "Slice", "")
        else:
            set_titles(self, f"Slice · {facts.slice.parameter}", f"←/→ parameter {facts.place + 1} of {facts.number}")

    def draw(self, facts: SliceFacts, width: int, height: int) -> list[Content]:
        if facts.slice is None:
            text = "Needs two complete trials with different hyperparameters."
            return Content.styled(text, MUTED).wrap(width)
        cut, rows = facts.slice, max(1, height - 1)
        x_range = (-0.5, len(cut.categories) - 0.5) if cut.categories else charts.extent([x for x, _ in cut.points])
        y_range = charts.extent([y for _, y in cut.points])
        labels = charts.axis_labels(*y_range, rows, format_score)
        room = max(1, width - len(labels[0]) - 1)
        drawn = charts.braille_points(cut.points, room, rows, x_range=x_range, y_range=y_range)
        plain = [Content.styled(line, "$primary") for line in drawn]
        marks = dict(zip(cut.keys, cut.points, strict=True))
        for key, glyph, style in ((facts.cursor, "○", "bold $foreground"), (facts.best, "★", "bold $accent")):
            if key is not None and key in marks:
                across, down = charts.cell_of(marks[key], room, rows, x_range, y_range)
                line = plain[down]
                plain[down] = Content.assemble(line[:across], (glyph, style), line[across + 1 :])
        lines = [Content.assemble((label, MUTED), " ", line) for label, line in zip(labels, plain, strict=True)]
        under = " " * (len(labels[0]) + 1)
        return [*lines, Content.assemble(under, (self._axis(cut, room, x_range), MUTED))]

    def _axis(self, cut: Slice, room: int, x_range: charts.Point) -> str:
        if cut.categories:
            each = max(1, room // len(cut.categories))
            return "".join(name[: each - 1].center(each) for name in cut.categories)[:room]
        low, high = (brief(10**x if cut.logarithmic else x) for x in x_range)
        middle = "log scale" if cut.logarithmic else ""
        return f"{low}{middle.center(max(0, room - len(low) - len(high)))}{high}"
