"""Panels of the explanation of one row: prediction, contributions, the curve over one column, and nearest changes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tabapp import charts
from tabapp.printable import one_line
from tabapp.run.protocol import row_requests as messages
from tabapp.run.protocol.prediction import label_text
from tabapp.tui.content import Content
from tabapp.tui.parts.grid import EMPTY
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.pictures import ends, framed, layered
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, brief, spinner

LEAST_BAR = 8
MARK = "$accent"


@dataclass(frozen=True)
class RowFacts:
    """What the panels of a row show; see `tabapp.tui.session.row_explanation.RowExplanation`.

    `column` is the one under the cursor; `frame` animates the spinner while something is computed.
    """

    target: str
    row: int
    values: dict[str, str | None]
    fixed: frozenset[str]
    predicted: messages.RowPredicted | None
    explained: messages.RowExplained | None
    curve: messages.CurveDrawn | None
    changes: messages.ChangesFound | None
    goal: str
    column: str
    is_current: bool
    working: str
    trouble: str
    frame: int | None
    metric: str = ""
    """The title of the metric that chose the threshold of the bundle, if it is known."""


class RowSummary(Panel[RowFacts]):
    """The prediction of the row, and how base and contributions add up to its output."""

    def on_facts(self, facts: RowFacts) -> None:
        changed = f"{len(facts.values)} changed · u undoes" if facts.values else ""
        set_titles(self, f"Row {facts.row + 1:,} · {facts.target}", changed)

    def draw(self, facts: RowFacts, width: int, height: int) -> list[Content]:
        if facts.trouble:
            return Content.styled(f"✗ {one_line(facts.trouble)}", "$error").wrap(width)
        working = Content.styled(f"{spinner(facts.frame)} {facts.working} …", MUTED) if facts.working else Content("")
        if facts.predicted is None:
            return [working]
        first = Content.assemble(
            (one_line(facts.predicted.prediction), "bold $primary"), "  ", _detail(facts.predicted, facts.metric)
        )
        return [first, _sum(facts) if facts.explained is not None and facts.is_current else working]


def _detail(predicted: messages.RowPredicted, metric: str) -> Content:
    if predicted.low is not None and predicted.high is not None:
        return Content.styled(f"90 % interval {brief(predicted.low)} … {brief(predicted.high)}", MUTED)
    shares = sorted(predicted.probabilities.items(), key=lambda item: -item[1])
    parts = [f"{one_line(label)} {share:.1%}" for label, share in shares[:4]]
    if predicted.threshold is not None:
        parts.append(label_text(one_line(predicted.positive), predicted.threshold, metric))
    return Content.styled(" · ".join(parts), MUTED)


def _sum(facts: RowFacts) -> Content:
    found = facts.explained
    assert found is not None
    what = "output" if found.label is None else f"probability of {one_line(found.label)}"
    error = max(found.errors.values(), default=0.0)
    exact = f"±{brief(error)} per column" if error else "exact"
    total = Content.assemble(
        (f"{what} ", MUTED),
        (brief(found.output), "bold"),
        (f" = base {brief(found.base)} {_signed(found.output - found.base)} · {exact}", MUTED),
    )
    return Content.assemble(total, (f" · {spinner(facts.frame)} {facts.working}", MUTED)) if facts.working else total


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'} {brief(abs(value))}"


class Contributions(Table):
    """A row for each column, largest contribution first; the order stays while values change."""

    def __init__(self) -> None:
        super().__init__([], id="row-columns", empty="The contributions appear here.")
        set_titles(self, "Contributions")
        self._facts: RowFacts | None = None
        self._order: list[str] = []

    def show_row(self, facts: RowFacts) -> None:
        """Draw the contributions of a row."""
        self._facts = facts
        found = facts.explained
        if found is None:
            self.show([], [Column("column")])
            return
        if set(self._order) != set(found.contributions):
            self._order = sorted(found.contributions, key=lambda name: -abs(found.contributions[name]))
        top = max(max(map(abs, found.contributions.values()), default=0.0), 1e-12)
        longest = min(max(6, *(len(name) for name in self._order)), max(10, self.size.width // 4))
        wide = max(8, min(18, self.size.width // 5))
        bar = max(LEAST_BAR, self.size.width - longest - wide - 7 - 7 - 14)
        columns = [
            Column("", width=1),
            Column("column", width=longest),
            Column("value", width=wide),
            Column("− contribution +".center(bar), width=bar),
            Column("", "right", width=7),
            Column("±", "right", width=6, priority=1),
        ]
        self.show([_contribution(facts, found, name, bar, top) for name in self._order], columns)

    def on_resize(self) -> None:
        super().on_resize()
        if self._facts is not None:
            self.show_row(self._facts)


def _contribution(facts: RowFacts, found: messages.RowExplained, name: str, bar: int, top: float) -> Row:
    is_changed = name in facts.values
    cell = facts.values[name] if is_changed else found.cells.get(name)
    style = "" if facts.is_current else MUTED
    contribution, error = found.contributions[name], found.errors.get(name, 0.0)
    cells = (
        Content.styled("■" if name in facts.fixed else "✎" if is_changed else " ", MARK),
        Content(one_line(name)),
        # Files with a space after each comma are common.
        Content.styled(EMPTY if cell is None else one_line(cell.strip()), "bold $accent" if is_changed else MUTED),
        _diverging(contribution / top, bar),
        Content.styled(_aligned(contribution, top), style),
        Content.styled(_aligned(error, top) if error else "", MUTED),
    )
    return Row(name, cells)


def _aligned(value: float, top: float) -> str:
    """A number with the decimals of three significant digits of `top`, so that a column of numbers can be compared."""
    decimals = 2 - math.floor(math.log10(top))
    if not -2 <= decimals <= 4:
        return brief(value)
    text = f"{value:,.{max(0, decimals)}f}"
    return text if any(digit in text for digit in "123456789") else "0"


def _diverging(share: float, width: int) -> Content:
    """A bar to the left of the middle for a negative share, else to the right."""
    half = (width - 1) // 2
    line = charts.rule(abs(share), half)
    if share < 0:
        return Content.assemble((line.replace("╸", "╺")[::-1].rjust(half), "$error"), ("│", MUTED), " " * half)
    return Content.assemble(" " * half, ("│", MUTED), (line.ljust(half), "$success"))


class RowCurve(Panel[RowFacts]):
    """The output of this row as the column under the cursor changes; ● is its present value."""

    def on_facts(self, facts: RowFacts) -> None:
        set_titles(self, f"What if {facts.column} changes" if facts.column else "What if")

    def draw(self, facts: RowFacts, width: int, height: int) -> list[Content]:
        found = facts.curve
        if found is None or found.column != facts.column:
            return [Content("")]
        if not found.outputs:
            return Content.styled("The training data has no values to try in this column.", MUTED).wrap(width)
        what = "prediction" if found.label is None else f"probability of {one_line(found.label)}"
        title = Content.assemble((f"{what}, all other values kept", MUTED))
        draw = _curve_levels if found.labels else _curve_line
        return [title.truncate(width, ellipsis=True), *draw(found, width, max(1, height - 1))]


def _curve_line(found: messages.CurveDrawn, width: int, height: int) -> list[Content]:
    rows = max(1, height - 1)
    y_range, x_range = charts.extent(list(found.outputs)), charts.extent(list(found.places))
    labels = charts.axis_labels(*y_range, rows, brief)
    room = max(1, width - len(labels[0]) - 1)
    points = list(zip(found.places, found.outputs, strict=True))
    layers = [charts.braille_line(points, room, rows, x_range=x_range, y_range=y_range)]
    drawn = layered(layers, ["$primary"])
    now = _number(found.current)
    if now is not None and found.places:
        nearest = min(points, key=lambda point: abs(point[0] - now))
        across, down = charts.cell_of(nearest, room, rows, x_range, y_range)
        line = drawn[down]
        drawn[down] = Content.assemble(line[:across], ("●", f"bold {MARK}"), line[across + 1 :])
    return framed(labels, drawn, ends(brief(x_range[0]), "", brief(x_range[1]), room), room)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", "."))
    except ValueError:
        return None


def _curve_levels(found: messages.CurveDrawn, width: int, height: int) -> list[Content]:
    shown = min(len(found.labels), height)
    longest = min(max(map(len, found.labels[:shown])), max(6, width // 3))
    low, high = min(0.0, *found.outputs), max(found.outputs)
    room = max(1, width - longest - 11)
    lines: list[Content] = []
    for label, output in zip(found.labels[:shown], found.outputs, strict=False):
        share = (output - low) / (high - low) if high > low else 0.0
        is_current = label == (found.current or "").strip()
        name = Content(one_line(label)).truncate(longest, ellipsis=True, pad=True)
        mark = ("● ", f"bold {MARK}") if is_current else ("  ", "")
        lines.append(
            Content.assemble(mark, name, " ", (charts.rule(share, room).ljust(room), "$primary"), f"{brief(output):>8}")
        )
    return lines


class RowChanges(Panel[RowFacts]):
    """The nearest changes that reach another output, and the training rows that the answer rests on."""

    def on_facts(self, facts: RowFacts) -> None:
        reach = one_line(facts.goal)
        set_titles(self, f"Nearest changes to {reach}" if facts.goal else "Nearest changes · Answered from")

    def draw(self, facts: RowFacts, width: int, height: int) -> list[Content]:
        lines = self._changes(facts, width)
        neighbors = facts.explained.neighbors if facts.explained is not None else ()
        if neighbors and any(each.cells for each in neighbors):
            title = Content.assemble(("Answered from", "bold"), (" · values that differ", MUTED))
            lines += [title, *_training_rows(facts, width)]
        elif neighbors:
            words = " · ".join(map(_training_row, neighbors))
            lines += Content.assemble(("Answered from  ", "bold"), words).wrap(width)
        return lines

    def _changes(self, facts: RowFacts, width: int) -> list[Content]:
        if not facts.goal:
            text = "f finds the nearest changes that reach another class or value; space fixes a column."
            return Content.styled(text, MUTED).wrap(width)
        if facts.changes is None:
            return Content.styled(f"{spinner(facts.frame)} searching …" if facts.working else "", MUTED).wrap(width)
        if facts.changes.note:
            return Content.styled(facts.changes.note, MUTED).wrap(width)
        lines: list[Content] = []
        for each in facts.changes.changes:
            words = ", ".join(
                f"{one_line(name)} → {EMPTY if cell is None else one_line(cell)}" for name, cell in each.values.items()
            )
            lines += Content.assemble(
                (words, "bold"), (f"  gives {one_line(each.prediction)}{_share(facts, each)}", MUTED)
            ).wrap(width)
        return lines


def _training_row(row: messages.NeighborRow) -> str:
    return f"row {row.row + 1:,} {one_line(row.target)} {row.weight:.0%}"


def _training_rows(facts: RowFacts, width: int) -> list[Content]:
    """Target and weight of each training row, and its values that differ, in the columns that contribute most first."""
    found = facts.explained
    assert found is not None
    order = sorted(found.contributions, key=lambda name: -abs(found.contributions[name]))
    lines: list[Content] = []
    for each in found.neighbors:
        values = [
            f"{one_line(name)} {EMPTY if cell is None else one_line(cell)}"
            for name in order
            if name in each.cells and (cell := each.cells[name]) != found.cells.get(name)
        ]
        line = Content.assemble(_training_row(each), "  ", (" · ".join(values) or "the same values", MUTED))
        lines += line.truncate(2 * width - 8, ellipsis=True).wrap(width)
    return lines


def _share(facts: RowFacts, change: messages.FoundChange) -> str:
    is_class = facts.predicted is not None and bool(facts.predicted.probabilities)
    return f" ({change.output:.1%})" if is_class else ""
