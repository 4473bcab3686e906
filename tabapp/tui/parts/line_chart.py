"""Line charts of analyses: lines with bands, a line to compare with, and a vertical mark."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp import charts
from tabapp.run.record.analysis import Lines, Series
from tabapp.tui.content import Content
from tabapp.tui.parts.pictures import ends, framed, layered
from tabapp.tui.viewmodels.texts import MUTED, brief

STYLES = ("$primary", "$secondary", "$accent")
GLYPHS = ("●", "◆", "▲")
FAINT = "$foreground 40%"
LEAST_ROWS = 3


def line_chart(found: Lines, width: int, height: int, mark: float | None = None) -> list[Content]:
    """A chart in `height` lines, the names of its lines above and its axis below; `mark` is the place of a vertical line."""
    legend = _legend(found.series, width)
    rows = max(LEAST_ROWS, height - len(legend) - 1)
    x_range, y_range = _ranges(found)
    labels = charts.axis_labels(*y_range, rows, brief)
    room = max(1, width - len(labels[0]) - 1)
    layers: list[list[str]] = []
    styles: list[str] = []

    def add(points: Sequence[charts.Point], style: str) -> None:
        layers.append(charts.braille_line(points, room, rows, x_range=x_range, y_range=y_range))
        styles.append(style)

    if found.reference:
        (x0, y0), (x1, y1) = found.reference[0], found.reference[-1]
        dots = [(x0 + (x1 - x0) * step / room, y0 + (y1 - y0) * step / room) for step in range(0, room + 1, 2)]
        layers.append(charts.braille_points(dots, room, rows, x_range=x_range, y_range=y_range))
        styles.append(FAINT)
    for style, each in zip(STYLES, found.series, strict=False):
        for band in (each.low, each.high):
            add([(x, y) for (x, _), y in zip(each.points, band, strict=False)], f"{style} 50%")
    for style, each in zip(STYLES, found.series, strict=False):
        add(each.points, style)
    if mark is not None:
        add([(mark, y_range[0]), (mark, y_range[1])], "bold $accent")
    below = ends(brief(x_range[0]), f"{found.x_title} → · ↑ {found.y_title}", brief(x_range[1]), room)
    return [*legend, *framed(labels, layered(layers, styles), below, room)]


def _ranges(found: Lines) -> tuple[charts.Point, charts.Point]:
    points = [point for each in found.series for point in each.points]
    ys = [y for _, y in points] + [y for each in found.series for y in (*each.low, *each.high)]
    x_range = found.x_range or charts.extent([x for x, _ in points])
    return x_range, found.y_range or charts.extent(ys)


def _legend(series: Sequence[Series], width: int) -> list[Content]:
    """The names of the lines, and that faint ones bound their intervals; empty for a single line without them."""
    parts: list[tuple[str, str]] = []
    if len(series) > 1:
        for glyph, style, each in zip(GLYPHS, STYLES, series, strict=False):
            parts += [(f"{glyph} ", style), (f"{each.name}  ", "")]
    if any(each.low for each in series):
        parts.append(("faint: 95 % interval", MUTED))
    return list(Content.assemble(*parts).wrap(width)) if parts else []


def nearest(places: Sequence[float], value: float) -> int:
    """The index of the place that is nearest to a value."""
    return min(range(len(places)), key=lambda index: abs(places[index] - value))


def interval_track(low: float, value: float, high: float, bounds: charts.Point, width: int) -> str:
    """An interval with its value between two bounds, as in ├──●──┤."""
    least, most = bounds
    span = (most - least) or 1.0
    start, middle, end = (round(min(max((each - least) / span, 0.0), 1.0) * (width - 1)) for each in (low, value, high))
    line = [" "] * width
    line[start : end + 1] = "─" * (end + 1 - start)
    line[start], line[end] = "├", "┤"
    line[middle] = "●"
    return "".join(line)
