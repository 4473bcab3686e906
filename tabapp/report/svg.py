"""Charts as inline SVG. Colors come from the style sheet of the page, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from tabapp.printable import one_line
from tabapp.report.parts import Bar, Bars, HeatMap, Histogram
from tabapp.run.record.analysis import Grid, Lines, Point, Series

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 88, 16, 12, 44
BAR_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 22, 190, 90
N_COLORS = 6
MAX_LABEL, CHARACTER_WIDTH = 40, 7
MAX_HEAT_LABELS = 12
MAX_SHORT_LABEL = 2
"""The longest label that fits below a square of a confusion matrix."""


def text_of(text: str, limit: int | None = None) -> str:
    """Text for HTML and SVG: escaped, its control characters visible, shortened to `limit` characters."""
    shown = one_line(text)
    if limit is not None and len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return escape(shown)


def number(value: float) -> str:
    """A number as short as its four significant digits allow, thousands grouped."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """About `n` round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low] if math.isfinite(low) else []
    raw = (high - low) / n
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


class Axes:
    """Maps values to the drawing area of a chart, and draws its axes.

    Args:
        x_range, y_range: the values at the edges; an empty range is widened by one on each side.
    """

    def __init__(self, x_range: Point, y_range: Point) -> None:
        self._x, self._y = widened(x_range), widened(y_range)

    def place(self, point: Point) -> str:
        """The coordinates of a point, clipped to the drawing area."""
        x = _share(point[0], self._x) * (WIDTH - LEFT - RIGHT) + LEFT
        y = HEIGHT - BOTTOM - _share(point[1], self._y) * (HEIGHT - TOP - BOTTOM)
        return f"{x:.1f},{y:.1f}"

    def draw(self, x_title: str, y_title: str) -> Iterator[str]:
        """Grid lines with their numbers, and the titles."""
        for value in ticks(*self._x):
            x = self.place((value, self._y[0])).split(",")[0]
            yield f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}"/>'
            yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number(value)}</text>'
        for value in ticks(*self._y):
            y = self.place((self._x[0], value)).split(",")[1]
            yield f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
            yield f'<text x="{LEFT - 8}" y="{y}" dy="0.32em" text-anchor="end">{number(value)}</text>'
        center = (LEFT + WIDTH - RIGHT) / 2
        yield f'<text class="axis" x="{center}" y="{HEIGHT - 8}" text-anchor="middle">{text_of(x_title, 60)}</text>'
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield (
            f'<text class="axis" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">'
            f"{text_of(y_title, 34)}</text>"
        )


def widened(interval: Point) -> Point:
    """The interval, or one around it if it is empty."""
    low, high = interval
    return (low, high) if high > low else (low - 1, low + 1)


def _share(value: float, interval: Point) -> float:
    return min(max((value - interval[0]) / (interval[1] - interval[0]), 0.0), 1.0)


def _figure(title: str, description: str, height: float, body: Sequence[str], legend: str = "") -> str:
    return (
        f'<figure><figcaption>{text_of(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{text_of(title)}: {text_of(description)}">{"".join(body)}</svg>{legend}</figure>'
    )


def draw_lines(chart: Lines) -> str:
    """A line chart with bands, a reference and a legend where there are several lines."""
    series = [_finite(one) for one in chart.series]
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    heights = [y for _, y in points] + [y for one in series for y in (*one.low, *one.high)]
    heights += [y for _, y in chart.reference]
    xs = [x for x, _ in points]
    x_range = widened(chart.x_range or (min(xs), max(xs)))
    axes = Axes(x_range, chart.y_range or (min(heights), max(heights)))
    body = list(axes.draw(chart.x_title, chart.y_title))
    series = [_visible(one, 0.01 * (x_range[1] - x_range[0])) for one in series]
    if chart.reference:
        body.append(f'<polyline class="reference" points="{" ".join(map(axes.place, chart.reference))}"/>')
    for i, one in enumerate(series):
        color = i % N_COLORS
        if one.low:
            across = [x for x, _ in one.points]
            band = [*zip(across, one.high, strict=True), *reversed(list(zip(across, one.low, strict=True)))]
            body.append(f'<polygon class="band c{color}" points="{" ".join(map(axes.place, band))}"/>')
        body.append(f'<polyline class="line c{color}" points="{" ".join(map(axes.place, one.points))}"/>')
    legend = ""
    if len(series) > 1:
        entries = (f'<li class="c{i % N_COLORS}">{text_of(one.name, 40)}</li>' for i, one in enumerate(series))
        legend = f'<ul class="legend">{"".join(entries)}</ul>'
    return _figure(chart.title, f"{chart.y_title} by {chart.x_title}", HEIGHT, body, legend)


def _finite(series: Series) -> Series:
    """The series without points that have no finite coordinates."""
    kept = [i for i, point in enumerate(series.points) if all(map(math.isfinite, point))]
    if series.low:
        kept = [i for i in kept if math.isfinite(series.low[i]) and math.isfinite(series.high[i])]
    low, high = (tuple(values[i] for i in kept) if values else () for values in (series.low, series.high))
    return Series(series.name, tuple(series.points[i] for i in kept), low, high)


def _visible(series: Series, width: float) -> Series:
    """The series; a single point, which has no line, becomes a short one of twice the width."""
    if len(series.points) != 1:
        return series
    ((x, y),) = series.points
    return Series(series.name, ((x - width, y), (x + width, y)), series.low * 2, series.high * 2)


def draw_bars(chart: Bars) -> str:
    """Horizontal bars from zero with their intervals and values."""
    rows = [bar for bar in chart.rows if math.isfinite(bar.value)]
    if not rows:
        return ""
    ends = [0.0, *(bar.value for bar in rows)]
    ends += [end for bar in rows for end in (bar.low, bar.high) if end is not None and math.isfinite(end)]
    interval = widened((min(ends), max(ends)))
    longest = max(min(len(one_line(bar.label)), MAX_LABEL) for bar in rows)
    left, right = max(LABEL_WIDTH, 8 + CHARACTER_WIDTH * longest), WIDTH - VALUE_WIDTH

    def place(value: float) -> float:
        return left + _share(value, interval) * (right - left)

    zero = place(0.0)
    body: list[str] = []
    for i, bar in enumerate(rows):
        body += _bar(bar, i * BAR_HEIGHT + BAR_HEIGHT / 2, left, zero, place)
    height = len(rows) * BAR_HEIGHT + 24
    body.append(f'<line class="zero" x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{len(rows) * BAR_HEIGHT}"/>')
    middle = (left + right) / 2
    body.append(
        f'<text class="axis" x="{middle}" y="{height - 6}" text-anchor="middle">{text_of(chart.unit, 60)}</text>'
    )
    return _figure(chart.title, f"{len(rows)} bars, {chart.unit}", height, body)


def _bar(bar: Bar, middle: float, left: float, zero: float, place: Callable[[float], float]) -> Iterator[str]:
    end = place(bar.value)
    start, width = min(zero, end), abs(end - zero)
    yield f'<text x="{left - 8}" y="{middle}" dy="0.32em" text-anchor="end">{text_of(bar.label, MAX_LABEL)}</text>'
    yield f'<rect class="bar" x="{start:.1f}" y="{middle - 7}" width="{width:.1f}" height="14"/>'
    if bar.low is not None and bar.high is not None and math.isfinite(bar.low) and math.isfinite(bar.high):
        low, high = place(bar.low), place(bar.high)
        yield f'<path class="interval" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"/>'
    yield f'<text x="{WIDTH - VALUE_WIDTH + 8}" y="{middle}" dy="0.32em">{number(bar.value)}</text>'


def draw_histogram(chart: Histogram) -> str:
    """Counts in equal bins."""
    if not any(chart.counts):
        return ""
    low, high = widened(chart.x_range)
    axes = Axes((low, high), (0.0, float(max(chart.counts))))
    body = list(axes.draw(chart.x_title, "rows"))
    step = (high - low) / len(chart.counts)
    for i, count in enumerate(chart.counts):
        x0, y1 = map(float, axes.place((low + i * step, count)).split(","))
        x1, y0 = map(float, axes.place((low + (i + 1) * step, 0.0)).split(","))
        body.append(
            f'<rect class="bar" x="{x0:.1f}" y="{y1:.1f}" width="{max(x1 - x0 - 1, 0.5):.1f}" height="{y0 - y1:.1f}"/>'
        )
    return _figure(chart.title, f"rows by {chart.x_title}", HEIGHT, body)


def draw_heat_map(chart: HeatMap) -> str:
    """Counts as a table whose cells are shaded by their share of the row."""
    if len(chart.labels) > MAX_HEAT_LABELS:
        return _shaded_squares(chart)
    head = "".join(f'<th scope="col">{text_of(label, MAX_LABEL)}</th>' for label in chart.labels)
    rows: list[str] = []
    for label, counts in zip(chart.labels, chart.counts, strict=True):
        total = sum(counts) or 1
        cells = "".join(f'<td class="heat" style="--share:{count / total:.3f}">{count:,}</td>' for count in counts)
        rows.append(f'<tr><th scope="row">{text_of(label, MAX_LABEL)}</th>{cells}</tr>')
    corner = f'<th scope="col">{text_of(chart.row_title)} ↓ {text_of(chart.column_title)} →</th>'
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{text_of(chart.title)}"><table>'
        f"<caption>{text_of(chart.title)}</caption><thead><tr>{corner}{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def draw_grid(chart: Grid) -> str:
    """A heat map of ordered rows and columns; the strongest shade is the largest cell, or twice chance."""
    if not chart.cells or not chart.cells[0]:
        return ""
    side = min(24.0, (WIDTH - LEFT - RIGHT) / len(chart.cells[0]))
    wide, high = side * len(chart.cells[0]), side * len(chart.cells)
    body = [
        f'<rect class="heat" style="--share:{math.sqrt(max(0.0, value) / chart.top):.2f}" x="{LEFT + j * side:.1f}" '
        f'y="{i * side:.1f}" width="{side:.1f}" height="{side:.1f}"/>'
        for i, row in enumerate(chart.cells)
        for j, value in enumerate(row)
    ]
    body.append(
        f'<text class="axis" x="{LEFT + wide / 2:.1f}" y="{high + 18:.0f}" text-anchor="middle">'
        f"{text_of(chart.column_title, 60)} →</text>"
    )
    body.append(
        f'<text class="axis" transform="translate({LEFT - 10} {high / 2:.1f}) rotate(-90)" text-anchor="middle">'
        f"← {text_of(chart.row_title, 40)}</text>"
    )
    body.append(
        f'<text class="axis" x="{LEFT}" y="{high + 36:.0f}">strongest: {chart.top:.3g} {text_of(chart.unit, 60)}</text>'
    )
    return _figure(chart.title, f"{chart.row_title} by {chart.column_title}", high + 42, body)


def _shaded_squares(chart: HeatMap) -> str:
    """A confusion matrix of many classes: a square for each pair, with its percentage of the row where that is not 0."""
    n = len(chart.labels)
    left = min(LABEL_WIDTH, max(LEFT, 16 + 7 * max(map(len, chart.labels))))
    side = min(28.0, (WIDTH - left - RIGHT) / n)
    body: list[str] = []
    for i, (label, counts) in enumerate(zip(chart.labels, chart.counts, strict=True)):
        total = sum(counts) or 1
        middle = (i + 0.5) * side
        body.append(
            f'<text x="{left - 8}" y="{middle:.1f}" dy="0.32em" text-anchor="end">{text_of(label, MAX_LABEL)}</text>'
        )
        for j, count in enumerate(counts):
            title = f"{text_of(label)} predicted as {text_of(chart.labels[j])}: {count:,} rows"
            body.append(
                f'<rect class="heat" style="--share:{math.sqrt(count / total):.3f}" x="{left + j * side:.1f}" y="{i * side:.1f}" '
                f'width="{side - 1:.1f}" height="{side - 1:.1f}"><title>{title}</title></rect>'
            )
            if percent := round(100 * count / total):
                place = f'x="{left + (j + 0.5) * side - 0.5:.1f}" y="{middle - 0.5:.1f}"'
                body.append(f'<text class="small" {place} dy="0.35em" text-anchor="middle">{percent}</text>')
    bottom = n * side
    note = f"; percent of the {text_of(chart.row_title)}"
    axis = f"{text_of(chart.column_title)}, in the same order{note}"
    if max(map(len, chart.labels[:-1])) <= MAX_SHORT_LABEL:
        # The last label, of all other classes together, may be longer; it is the one of its row.
        axis, bottom = f"{text_of(chart.column_title)}{note}", n * side + 16
        for j, label in enumerate(chart.labels):
            # A longer last label starts at its square and ends in the margin.
            start, anchor = ((j + 0.5) * side, "middle") if len(label) <= MAX_SHORT_LABEL else (j * side + 2, "start")
            place = f'x="{left + start:.1f}" y="{n * side + 12:.1f}"'
            body.append(f'<text {place} text-anchor="{anchor}">{text_of(label, MAX_LABEL)}</text>')
    height = bottom + 24
    body.append(
        f'<text class="axis" x="{left + n * side / 2:.1f}" y="{height - 6:.0f}" text-anchor="middle">{axis}</text>'
    )
    return _figure(chart.title, f"{chart.row_title} by {chart.column_title}", height, body)
