"""The lower panels of the Predict screen: what the check found, predictions beside their inputs, and their distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabapp import charts
from tabapp.printable import one_line
from tabapp.run.protocol.prediction import Checked, Distribution, LabelRule, Predicted
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Lines, Series
from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.grid import EMPTY
from tabapp.tui.parts.line_chart import line_chart
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, are_numbers, count

DIGITS = 6
LONGEST_INPUT = 20
"""Characters of an input beside a prediction; the explanation of a row shows the whole cell."""
MARKS = {
    "missing": ("✗ missing", "bold $error"),
    "changed": ("✗ changed", "bold $error"),
    "unseen": ("! new values", "$warning"),
    "cells": ("! cells", "$warning"),
    "extra": ("– extra", MUTED),
    "range": ("! range", "$warning"),
    "format": ("! format", "$warning"),
    "spelling": ("! spelling", "$warning"),
    "target": ("◎ target", "$accent"),
}
LabelText = Callable[[LabelRule], str]
"""A threshold in words."""


def finding_rows(checked: Checked, label_text: LabelText) -> list[Row]:
    """The differences of a file from the training schema, notes on the file, and the thresholds of the bundle."""
    rows = [
        Row(
            f"{found.finding} {found.column}",
            (
                Content.styled(*MARKS.get(found.finding, (found.finding, ""))),
                Content(one_line(found.column)),
                Content.styled(one_line(found.message), MUTED),
            ),
        )
        for found in checked.findings
    ]
    notes = [
        Row(note, (Content.styled("! file", "$warning"), Content(""), Content.styled(one_line(note), MUTED)))
        for note in checked.notes
    ]
    rules = [
        Row(
            f"Rows are {label_text(rule)}.",
            (
                Content.styled("◎ threshold", "$accent"),
                Content(one_line(rule.target)),
                Content.styled(label_text(rule), MUTED),
            ),
        )
        for rule in checked.labels
    ]
    if rules and not rows and not notes:
        fits = "The file matches the training schema."
        notes = [Row(fits, (Content.styled("✓ file", "$success"), Content(""), Content.styled(fits, MUTED)))]
    return [*rows, *notes, *rules]


class Predictions(Table):
    """The first predictions, and beside them the inputs of their rows: the most important columns first."""

    def __init__(self) -> None:
        super().__init__([], wide=True, id="predictions", empty="The first predictions appear here.")
        set_titles(self, "Predictions")

    def show_predicted(self, predicted: Predicted | None, state: RunState, label_text: LabelText) -> None:
        """Draw the result of a prediction."""
        if predicted is None:
            set_titles(self, "Predictions", "")
            self.show([], [])
            return
        order = _by_importance(predicted.inputs, state)
        columns = [
            Column("row", "right"),
            *(_column(name, predicted.preview, place) for place, name in enumerate(predicted.columns)),
            *(_column(predicted.inputs[place], predicted.input_rows, place) for place in order),
        ]
        rows: list[Row] = []
        for number, cells in enumerate(predicted.preview, start=1):
            inputs = predicted.input_rows[number - 1] if number <= len(predicted.input_rows) else ()
            shown = (
                [_cell(inputs[place], MUTED).truncate(LONGEST_INPUT, ellipsis=True) for place in order]
                if inputs
                else [Content("")] * len(order)
            )
            key = Content.styled(str(number), MUTED)
            rows.append(Row(str(number), (key, *(_cell(cell, "bold") for cell in cells), *shown)))
        rules = "".join(f" · {label_text(rule)}" for rule in predicted.labels[:1])
        title = f"Predictions · {len(rows)} of {count(predicted.rows, 'row')}{rules}"
        set_titles(self, title, "enter explains · ←/→ scroll")
        self.show(rows, columns)


def _by_importance(names: Sequence[str], state: RunState) -> list[int]:
    """Places of columns, those that matter most to the run first; others keep their order."""
    ranked = state.importances.rows if state.importances is not None else ()
    matters = {row.feature: -row.permutation for row in ranked if not row.unstable}
    return sorted(range(len(names)), key=lambda place: (matters.get(names[place], 0.0), place))


def _column(name: str, rows: Sequence[Sequence[str | None]], place: int) -> Column:
    """A column with numbers at the right."""
    return Column(one_line(name), "right" if are_numbers([row[place] for row in rows]) else "left")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cell(text: str | None, style: str) -> Content:
    """A cell, with numbers rounded to a few digits."""
    if text is None:
        return Content.styled(EMPTY, MUTED)
    is_long = len(text) > DIGITS + 2 and _is_number(text)
    return Content.styled(f"{float(text):.{DIGITS}g}" if is_long else one_line(text), style)


@dataclass(frozen=True)
class SpreadFacts:
    """The predictions of a file, and the out-of-fold predictions of training to compare them with.

    Attributes:
        training: the evaluation of the ensemble; None if there is none.
        threshold: from which probability rows are labeled; None for the more probable class.
    """

    found: Distribution
    training: ev.EvaluationReady | None
    threshold: float | None


def spread_facts(predicted: Predicted, state: RunState) -> SpreadFacts | None:
    """The facts of the distribution of the shown target; None if the command that predicted counted nothing."""
    target = state.plan.target if state.plan is not None else ""
    known = {each.target: each for each in predicted.distributions}
    found = known.get(target) or next(iter(predicted.distributions), None)
    if found is None:
        return None
    rule = next((each for each in predicted.labels if each.target == found.target), None)
    return SpreadFacts(found, state.evaluations.get(ev.ENSEMBLE), rule.threshold if rule is not None else None)


class Spread(Panel[SpreadFacts]):
    """How the predictions of a file are distributed, over those of the training rows."""

    def on_facts(self, facts: SpreadFacts) -> None:
        known = _training_of(facts) is not None
        set_titles(self, "New rows over training" if known else "New rows", "")

    def draw(self, facts: SpreadFacts, width: int, height: int) -> list[Content]:
        found, training = facts.found, _training_of(facts)
        if found.classes:
            return _class_bars(found, training or {}, width, height)
        new = _points(found.counts, found.low, found.high)
        series = [Series("new rows", new)]
        if isinstance(training, tuple):
            counts, low, high = training
            # Bins of the same width, so that the heights compare.
            series = [
                Series("new rows", _points(_rebinned(found, len(counts), low, high), low, high)),
                Series("training", _points(counts, low, high)),
            ]
        x_title = f"probability of {one_line(found.label)}" if found.label else "prediction"
        lines = Lines(
            "Predictions", x_title, "share of rows", tuple(series), x_range=(0.0, 1.0) if found.label else None
        )
        return line_chart(lines, width, height, mark=facts.threshold)


def _training_of(facts: SpreadFacts) -> tuple[Sequence[int], float, float] | dict[str, int] | None:
    """Counts of the out-of-fold predictions with their range, or by class; None if the run has not kept them."""
    found, known = facts.found, facts.training
    if known is None:
        return None
    if found.classes and known.confusion:
        totals = [sum(row[place] for row in known.confusion) for place in range(len(known.labels))]
        return dict(zip(known.labels, totals, strict=True))
    if found.label and known.calibration and known.positive == found.label:
        bins = [0] * 10
        for each in known.calibration:
            bins[min(9, int(each.predicted * 10))] += each.count
        return bins, 0.0, 1.0
    if not found.label and known.density:
        return [sum(column) for column in zip(*known.density, strict=True)], *known.density_range
    return None


def _points(counts: Sequence[float], low: float, high: float) -> tuple[charts.Point, ...]:
    """The share of rows in each bin, at its center."""
    total, width = sum(counts) or 1.0, (high - low) / max(1, len(counts))
    return tuple((low + (place + 0.5) * width, number / total) for place, number in enumerate(counts))


def _rebinned(found: Distribution, n_bins: int, low: float, high: float) -> list[float]:
    """The counts in other bins; values outside of them are in the first or the last one."""
    bins = [0.0] * n_bins
    width = (found.high - found.low) / max(1, len(found.counts))
    for place, number in enumerate(found.counts):
        center = found.low + (place + 0.5) * width
        share = (center - low) / (high - low) if high > low else 0.0
        bins[max(0, min(n_bins - 1, int(share * n_bins)))] += number
    return bins


def _class_bars(found: Distribution, training: object, width: int, height: int) -> list[Content]:
    """The share of rows predicted as each class, the most frequent first, with that of the training rows."""
    known: dict[str, int] = training if isinstance(training, dict) else {}
    total, before = sum(number for _, number in found.classes) or 1, sum(known.values()) or 1
    shown = sorted(found.classes, key=lambda each: -each[1])[: max(1, height)]
    longest = min(max(len(one_line(label)) for label, _ in shown), max(6, width // 3))
    room = max(1, width - longest - 24)
    lines: list[Content] = []
    for label, number in shown:
        name = Content(one_line(label)).truncate(longest, ellipsis=True, pad=True)
        bar = charts.rule(number / total, room).ljust(room)
        old = f"  training {known[label] / before:4.0%}" if label in known else ""
        lines.append(Content.assemble(name, " ", (bar, "$primary"), f" {number / total:4.0%}", (old, MUTED)))
    return lines
