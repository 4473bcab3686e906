"""Charts of one or two models: learning curves and charts of out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.run.record.state import format_score
from tabapp.run.texts.diagnoses import lift_at
from tabapp.tui.content import Content
from tabapp.tui.parts.chart_numbers import chart_numbers
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.model_card import Comparison, ModelCard
from tabapp.tui.viewmodels.texts import MUTED, brief, cut_labels

STYLES = ("$primary", "$secondary")
GLYPHS = ("●", "◆")
FAINT = "$foreground 40%"

Draw = Callable[[ev.EvaluationReady, int, int, str], list[Content]]
"""Draws one evaluation at a width and height in a style."""

CURVES = ("learning", "Learning curve", "Curve")
CLASSES = (
    ("confusion", "Confusion", "Confusion"),
    ("roc", "ROC", "ROC"),
    ("precision_recall", "Precision and recall", "PR"),
    ("gain", "Cumulative gain", "Gain"),
    ("calibration", "Calibration", "Calibration"),
    CURVES,
)
"""The charts of a classification, the most useful first: kind, title, and name in the strip."""
AXES = {"roc": ("false", "true positive rate"), "precision_recall": ("recall", "precision"),
        "gain": ("share of rows", "share of positive rows")}  # fmt: skip
NUMBERS = (
    ("density", "Predicted and true", "Predicted"),
    ("residuals", "Residuals", "Residuals"),
    ("bands", "Residuals by prediction", "By prediction"),
    CURVES,
)
TALL = 14
"""Least lines of a panel in which the strip may take a second one."""


@dataclass(frozen=True)
class PictureFacts:
    """One of the charts of the task.

    Attributes:
        place: counts from 0.
        strip: the names of all charts, and whether each can be drawn now.
    """

    comparison: Comparison
    kind: str
    title: str
    place: int
    strip: tuple[tuple[str, bool], ...]

    @property
    def evaluations(self) -> list[ev.EvaluationReady | None]:
        """The evaluation of each model."""
        return [card.evaluation for card in self.comparison.cards]


def picture_facts(comparison: Comparison, index: int | None) -> PictureFacts:
    """The facts of a chart; `index` wraps around the charts of the task, and None is the first that can be drawn."""
    kinds = NUMBERS if comparison.is_regression else CLASSES
    drawn = [any(_can_draw(card, kind) for card in comparison.cards) for kind, _, _ in kinds]
    place = (drawn.index(True) if True in drawn else 0) if index is None else index % len(kinds)
    kind, title, _ = kinds[place]
    strip = tuple((short, can) for (_, _, short), can in zip(kinds, drawn, strict=True))
    return PictureFacts(comparison, kind, title, place, strip)


def _can_draw(card: ModelCard, kind: str) -> bool:
    if kind == "learning":
        return any(card.curves)
    if card.evaluation is None:
        return False
    return kind not in AXES or bool(getattr(card.evaluation, kind))


def strip_lines(facts: PictureFacts, width: int, most: int) -> list[Content]:
    """The names of all charts: the shown one marked, those that cannot be drawn faint; around the shown one if there is no room."""
    parts = [
        Content.styled(name, "bold $background on $primary" if n == facts.place else "" if can else FAINT)
        for n, (name, can) in enumerate(facts.strip)
    ]
    lines: list[Content] = []
    for part in parts:
        joined = Content.assemble(lines[-1], (" · ", FAINT), part) if lines else part
        if lines and joined.cell_length <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    if len(lines) <= most:
        return lines
    here = next(
        n for n, line in enumerate(lines) if any(span.style == "bold $background on $primary" for span in line.spans)
    )
    return lines[here : here + most] if here + most <= len(lines) else lines[-most:]


def comparison_title(facts: Comparison, title: str) -> str:
    """A panel's title with the glyph of each model that it shows."""
    if len(facts.cards) < 2:
        return title
    return f"{title} · " + "  ".join(f"{glyph} {card.name}" for glyph, card in zip(GLYPHS, facts.cards, strict=False))


class Pictures(Panel[PictureFacts]):
    """One chart at a time, of one model or two."""

    def on_facts(self, facts: PictureFacts) -> None:
        title = comparison_title(facts.comparison, facts.title)
        cards = facts.comparison.cards if facts.kind != "learning" else ()
        for glyph, card in zip(GLYPHS, cards, strict=False):
            mark = f"{glyph} " if len(cards) > 1 else ""
            title += f" · {mark}of {card.evaluated}" if card.evaluated else ""
        is_stale = any(card.evaluated for card in cards)
        set_titles(self, title, f"←/→ chart {facts.place + 1} of {len(facts.strip)}", is_stale=is_stale)

    def draw(self, facts: PictureFacts, width: int, height: int) -> list[Content]:
        strip = strip_lines(facts, width, 2 if height >= TALL else 1)
        return [*strip, *self._chart(facts, width, max(1, height - len(strip)))]

    def numbers(self) -> list[list[object]]:
        facts = self._facts
        return chart_numbers(facts.comparison, facts.kind) if facts is not None else []

    def _chart(self, facts: PictureFacts, width: int, height: int) -> list[Content]:
        if facts.kind == "learning":
            return learning_curves(facts.comparison.cards, width, height)
        known = [evaluation for evaluation in facts.evaluations if evaluation is not None]
        if not known:
            text = (
                "The run ended before these out-of-fold predictions were evaluated."
                if facts.comparison.is_over
                else "Drawn from out-of-fold predictions, a few seconds after a model has a score on all folds."
            )
            return Content.styled(text, MUTED).wrap(width)
        match facts.kind:
            case "confusion":
                return _each(facts, known, width, height, confusion)
            case "density":
                return _each(facts, known, width, height, density)
            case "residuals":
                return _each(facts, known, width, height, residuals)
            case "bands":
                return _each(facts, known, width, height, bands)
            case "calibration":
                return calibration(facts, width, height)
            case _:
                return curve(facts, width, height)


def _each(
    facts: PictureFacts,
    known: Sequence[ev.EvaluationReady],
    width: int,
    height: int,
    draw: Draw,
) -> list[Content]:
    """The chart of one model, or the charts of two below each other with their names."""
    if len(facts.evaluations) < 2:
        return draw(known[0], width, height, STYLES[0])
    lines: list[Content] = []
    room = height // 2 - 1
    for glyph, style, card in zip(GLYPHS, STYLES, facts.comparison.cards, strict=False):
        lines.append(Content.assemble((f"{glyph} {card.name}", f"bold {style}")))
        if card.evaluation is None:
            lines.append(Content.styled("not known yet", MUTED))
        else:
            lines += draw(card.evaluation, width, room, style)
    return lines


# -- lines in a frame -------------------------------------------------------------------------------------------


def layered(layers: Sequence[Sequence[str]], styles: Sequence[str]) -> list[Content]:
    """Overlay braille drawings; a cell in several of them takes the style of the last."""
    lines: list[Content] = []
    for rows in zip(*layers, strict=True):
        parts: list[tuple[str, str]] = []
        for characters in zip(*rows, strict=True):
            owner = max((n for n, one in enumerate(characters) if ord(one) > charts.BRAILLE_BLANK), default=0)
            bits = 0
            for one in characters:
                bits |= ord(one)
            if parts and parts[-1][1] == styles[owner]:
                parts[-1] = (parts[-1][0] + chr(bits), styles[owner])
            else:
                parts.append((chr(bits), styles[owner]))
        lines.append(Content.assemble(*parts))
    return lines


def framed(labels: Sequence[str], drawn: Sequence[Content], below: str, room: int) -> list[Content]:
    """Lines with axis labels at the left and a text below."""
    under = " " * (len(labels[0]) + 1 if labels else 0)
    lines = [Content.assemble((label, MUTED), " ", line) for label, line in zip(labels, drawn, strict=True)]
    return [*lines, Content.styled(under + below[:room], MUTED)]


def ends(low: str, middle: str, high: str, room: int) -> str:
    """Axis labels at the left, in the middle if there is room, and at the right."""
    between = room - len(low) - len(high)
    return f"{low}{middle.center(between) if between > len(middle) else ' ' * max(1, between)}{high}"


def share_label(value: float) -> str:
    """A label of an axis from 0 to 1."""
    return f"{value:.1f}"


def learning_curves(cards: Sequence[ModelCard], width: int, height: int) -> list[Content]:
    """The learning curves of all folds, in one color per model."""
    points = [[[(float(step), value) for step, value in curve] for curve in card.curves] for card in cards]
    flat = [point for curves in points for curve in curves for point in curve]
    if not flat:
        alone = all(card.row.model == "ensemble" for card in cards)
        text = "The ensemble has no learning curve." if alone else "Its fits report no steps. → shows the next chart."
        return Content.styled(text, MUTED).wrap(width)
    rows = max(1, height - 1)
    x_range, y_range = charts.extent([x for x, _ in flat]), charts.extent([y for _, y in flat])
    labels = charts.axis_labels(*y_range, rows, format_score)
    room = max(1, width - len(labels[0]) - 1)
    layers: list[list[str]] = []
    for curves in points:
        lines = charts.braille_points([], room, rows)
        for curve in curves:
            lines = charts.overlay(lines, charts.braille_line(curve, room, rows, x_range=x_range, y_range=y_range))
        layers.append(lines)
    below = ends(f"step {x_range[0]:,.0f}", "", f"{x_range[1]:,.0f}", room)
    return framed(labels, layered(layers, STYLES), below, room)


def curve(facts: PictureFacts, width: int, height: int) -> list[Content]:
    """ROC, precision-recall or gain curve, with random guessing as a dotted line."""
    is_precision = facts.kind == "precision_recall"
    words: list[Content] = []
    layers: list[list[str]] = []
    for glyph, style, each in zip(GLYPHS, STYLES, facts.evaluations, strict=False):
        if each is not None:
            words += Content.assemble((f"{glyph} ", f"bold {style}"), _curve_words(each, facts.kind)).wrap(width)
    rows = max(1, height - 1 - len(words))
    labels = charts.axis_labels(0.0, 1.0, rows, share_label)
    room = max(1, width - len(labels[0]) - 1)
    known = next(each for each in facts.evaluations if each is not None)
    layers.append(_level(known.base_rate, room, rows) if is_precision else charts.diagonal(room, rows))
    for each in facts.evaluations:
        points: tuple[tuple[float, float], ...] = () if each is None else getattr(each, facts.kind)
        square = (0.0, 1.0)
        layers.append(charts.braille_line(list(points), room, rows, x_range=square, y_range=square))
    x_axis, y_axis = AXES[facts.kind]
    drawn = layered(layers, (FAINT, *STYLES))
    lines = framed(labels, drawn, ends("0", f"{x_axis} → · ↑ {y_axis}", "1", room), room)
    return [*words, *lines]


def _level(share: float | None, room: int, rows: int) -> list[str]:
    if share is None:
        return charts.braille_points([], room, rows)
    points = [(step / room, share) for step in range(0, room, 2)]
    return charts.braille_points(points, room, rows, x_range=(0.0, 1.0), y_range=(0.0, 1.0))


def _curve_words(each: ev.EvaluationReady, kind: str) -> str:
    of_what = f"“{each.positive}” against the rest" if each.positive else "mean over classes, one against the rest"
    if kind == "gain":
        if not each.gain:
            return "drawn for two classes" if len(each.labels) > 2 else "not recorded by the version that made the run"
        return f"lift {lift_at(each.gain, 0.1):.2f} in the first 10 % of rows · “{each.positive}”"
    area = each.roc_auc if kind == "roc" else each.average_precision
    name = "area" if kind == "roc" else "average precision"
    return f"{name} {format_score(area)} · {of_what}" if area is not None else of_what


def calibration(facts: PictureFacts, width: int, height: int) -> list[Content]:
    """Observed against predicted probability, with perfect calibration as a dotted line and row counts below."""
    shown = [
        (glyph, style, each) for glyph, style, each in zip(GLYPHS, STYLES, facts.evaluations, strict=False) if each
    ]
    words = [line for glyph, style, each in shown for line in _calibration_words(glyph, style, each).wrap(width)]
    rows = max(1, height - 1 - len(shown) - len(words))
    labels = charts.axis_labels(0.0, 1.0, rows, share_label)
    room = max(1, width - len(labels[0]) - 1)
    square, under = (0.0, 1.0), " " * (len(labels[0]) + 1)
    layers, styles = [charts.diagonal(room, rows)], [FAINT]
    counts: list[Content] = []
    for _, style, each in shown:
        for row in each.calibration if len(shown) == 1 else ():
            ends_of = [(row.predicted, row.low), (row.predicted, row.high)]
            layers.append(charts.braille_line(ends_of, room, rows, x_range=square, y_range=square))
            styles.append(f"{style} 60%")
        points = [(row.predicted, row.observed) for row in each.calibration]
        layers.append(charts.braille_line(points, room, rows, x_range=square, y_range=square))
        styles.append(style)
        bins = [0] * 10
        for row in each.calibration:
            bins[min(9, int(row.predicted * 10))] += row.count
        counts.append(Content.assemble(under, (charts.bars(bins, room, 1)[0], style)))
    lines = framed(labels, layered(layers, styles), ends("0", "predicted → · ↑ came true", "1", room), room)
    return [*words, *lines[:-1], *counts, lines[-1]]


def _calibration_words(glyph: str, style: str, each: ev.EvaluationReady) -> Content:
    error = format_score(each.calibration_error)
    of_what = f"“{each.positive}”" if each.positive else "the most probable class"
    if each.uncalibrated_error is not None:
        error += f" ({format_score(each.uncalibrated_error)} before)"
    return Content.assemble((f"{glyph} ", f"bold {style}"), f"calibration error {error} · {of_what}")


# -- grids and bars -----------------------------------------------------------------------------------------------


def confusion(shown: ev.EvaluationReady, width: int, height: int, style: str) -> list[Content]:
    """Rows by true class (down) and predicted class (across): shaded numbers, or only shades if there is no room."""
    totals = [sum(row) for row in shown.confusion]
    recall = [
        row[n] / total if total else None for n, (row, total) in enumerate(zip(shown.confusion, totals, strict=True))
    ]
    digits = len(f"{max(map(max, shown.confusion)):,}")
    label, cell = "precision", max(digits, 5) + 3
    if _confusion_width(shown, label, cell, width) > width:
        label, cell = "prec.", max(digits, 4) + 2
    fits = _confusion_width(shown, label, cell, width) <= width
    longest = _longest_label(shown, label, width)
    names = [Content(f"{each:<{longest}}") for each in cut_labels(shown.labels, longest)]
    if not fits:
        return _shades(shown, names, recall, width, height, style)
    header = "".join(each.rjust(cell) for each in cut_labels(shown.labels, cell - 1))
    lines = [Content.styled(f"{'true ↓':<{longest}}  {header}  recall", MUTED)]
    for name, row, total, found, place in zip(names, shown.confusion, totals, recall, range(len(names)), strict=True):
        cells: list[tuple[str, str]] = []
        for column, number in enumerate(row):
            mark = charts.shade(number / total if total else 0.0)
            right = "bold" if column == place else ""
            cells += [(mark.rjust(cell - len(f"{number:,}") - 1), style), (f" {number:,}", right)]
        lines.append(Content.assemble(name, "  ", *cells, (f"  {_percent(found)}", "bold")))
    sums = [sum(row[column] for row in shown.confusion) for column in range(len(names))]
    precision = [shown.confusion[n][n] / total if total else None for n, total in enumerate(sums)]
    closing = "".join(_percent(share).rjust(cell) for share in precision)
    lines.append(Content.styled(f"{label:<{longest}}  {closing}", MUTED))
    right = sum(shown.confusion[n][n] for n in range(len(names))) / max(1, sum(totals))
    closing = Content.styled(f"{right:.1%} of {_rows(shown)} are given the right class.", MUTED)
    return [*lines, Content(""), *closing.wrap(width)]


def _longest_label(shown: ev.EvaluationReady, label: str, width: int) -> int:
    return max(len("true ↓"), len(label), min(max(map(len, shown.labels)), width // 4))


def _confusion_width(shown: ev.EvaluationReady, label: str, cell: int, width: int) -> int:
    return _longest_label(shown, label, width) + 2 + cell * len(shown.labels) + len("  recall")


def _shades(
    shown: ev.EvaluationReady,
    names: Sequence[Content],
    recall: Sequence[float | None],
    width: int,
    height: int,
    style: str,
) -> list[Content]:
    cell = 2 if names[0].cell_length + 2 + 2 * len(names) + 6 <= width else 1
    lines: list[Content] = []
    for name, drawn, found, row in zip(
        names, charts.heat_map(shown.confusion, cell), recall, range(len(names)), strict=True
    ):
        right = drawn[row * cell : (row + 1) * cell]
        parts = (drawn[: row * cell], style), (right, "bold $accent"), (drawn[(row + 1) * cell :], style)
        lines.append(Content.assemble(name, " ", *parts, (f" {_percent(found)}", MUTED)))
    note = Content.styled(f"true ↓ predicted → in the same order; {_rows(shown)}, recall at the right", MUTED).wrap(
        width
    )
    room = max(1, height - len(note))
    if len(lines) > room:
        hidden = len(lines) - room + 1
        lines = [*lines[: room - 1], Content.styled(f"… {hidden} more · z fills the screen", "$warning")]
    return [*lines, *note]


def density(shown: ev.EvaluationReady, width: int, height: int, style: str) -> list[Content]:
    """Density of rows by true value (up) and prediction (across); good predictions are near the diagonal."""
    rows = max(1, height - 1)
    low, high = shown.density_range
    labels = charts.axis_labels(low, high, rows, brief)
    room = max(1, width - len(labels[0]) - 1)
    drawn = [Content.styled(line, style) for line in charts.density(shown.density, room, rows)]
    return framed(labels, drawn, ends(brief(low), "predicted → · ↑ true", brief(high), room), room)


def residuals(shown: ev.EvaluationReady, width: int, height: int, style: str) -> list[Content]:
    """The distribution of truth minus prediction, with its quartiles and its inner 90 %."""
    low, high = shown.residual_range
    rows = max(1, height - 4)
    drawn = [Content.styled(line, style) for line in charts.bars(shown.residuals, width, rows)]
    quantiles = shown.residual_quantiles
    a, b, middle, c, d = map(brief, quantiles)
    return [
        *drawn,
        Content.styled(charts.box(quantiles, low, high, width), style),
        Content.styled(ends(brief(low), "true minus predicted", brief(high), width), MUTED),
        Content.assemble(("median ", MUTED), middle, ("  half ", MUTED), f"{b} … {c}"),
        Content.assemble(("90 % within ", MUTED), f"{a} … {d}", (f"  of {_rows(shown)}", MUTED)),
    ]


def bands(shown: ev.EvaluationReady, width: int, height: int, style: str) -> list[Content]:
    """The median residual over the prediction between its 10 % and 90 % quantiles: a funnel means that errors grow."""
    if len(shown.bands) < 2:
        return [Content.styled("Too few rows.", MUTED)]
    rows = max(1, height - 1)
    x_range = charts.extent([band.predicted for band in shown.bands])
    y_range = charts.extent([value for band in shown.bands for value in (band.low, band.high, 0.0)])
    labels = charts.axis_labels(*y_range, rows, brief)
    room = max(1, width - len(labels[0]) - 1)
    zero = [(x_range[0] + (x_range[1] - x_range[0]) * step / room, 0.0) for step in range(0, room, 2)]
    lines = [[(band.predicted, getattr(band, name)) for band in shown.bands] for name in ("low", "high", "median")]
    drawn = [charts.braille_line(line, room, rows, x_range=x_range, y_range=y_range) for line in lines]
    layers = [charts.braille_points(zero, room, rows, x_range=x_range, y_range=y_range), *drawn]
    below = ends(brief(x_range[0]), "predicted → · ↑ true minus predicted", brief(x_range[1]), room)
    return framed(labels, layered(layers, (FAINT, f"{style} 60%", f"{style} 60%", style)), below, room)


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{share:.0%}"


def _rows(shown: ev.EvaluationReady) -> str:
    return f"{shown.n_rows:,} rows" + (" drawn by lot" if shown.sampled else "")
