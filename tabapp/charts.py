"""Charts as text: pure functions that convert numbers to lines of a given size, without colors or terminal control.

Blocks (U+2580 ff.) have eight levels per cell; braille (U+2800 ff.) has 2 × 4 dots per cell. Non-finite values are ignored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

# Seven of the eight levels, because a full block touches the line above.
LEVELS = " ▁▂▃▄▅▆▇"
FULL_LEVELS = LEVELS + "█"
SHADES = " ░▒▓█"
HORIZONTAL_EIGHTHS = " ▏▎▍▌▋▊▉█"
BRAILLE_BLANK = 0x2800
# Dot bits of a braille cell, by row from the top, then by column.
BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

Point = tuple[float, float]


def resample(values: Sequence[float], width: int) -> list[float]:
    """Reduce values to at most `width` means of intervals of equal length."""
    if len(values) <= width:
        return list(values)
    edges = [round(index * len(values) / width) for index in range(width + 1)]
    intervals = [values[start:end] for start, end in itertools.pairwise(edges)]
    return [sum(interval) / len(interval) for interval in intervals]


def sparkline(values: Sequence[float], width: int, low: float | None = None, high: float | None = None) -> str:
    """A line of at most `width` blocks, each at least one eighth of a cell high.

    Args:
        low, high: the values of the lowest and the highest block; the extremes of `values` if None.
    """
    finite = resample([value for value in values if math.isfinite(value)], width)
    if not finite or width < 1:
        return ""
    bottom = min(finite) if low is None else low
    top = max(finite) if high is None else high
    scale = (top - bottom) or 1.0
    shares = (min(max((value - bottom) / scale, 0.0), 1.0) for value in finite)
    return "".join(LEVELS[1 + round(share * 6)] for share in shares)


def histogram(counts: Sequence[float], width: int) -> str:
    """A histogram in one line, relative to the largest count; empty bins are blank, others at least one eighth of a cell high."""
    bins = resample(counts, width)
    top = max(bins, default=0.0)
    if top <= 0:
        return ""
    return "".join(LEVELS[max(1, round(count / top * 7))] if count > 0 else " " for count in bins)


def bar(share: float, width: int) -> str:
    """A horizontal bar over `share` (0 to 1) of `width` cells, in eighths of a cell, padded with blanks to `width`."""
    if not math.isfinite(share):
        return " " * max(0, width)
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (HORIZONTAL_EIGHTHS[rest] if rest else "")
    return text.ljust(width)


def rule(share: float, width: int) -> str:
    """A heavy horizontal line over `share` (0 to 1) of `width` cells, in halves of a cell."""
    if not math.isfinite(share):
        return ""
    full, half = divmod(round(min(max(share, 0.0), 1.0) * width * 2), 2)
    return "━" * full + "╸" * half


def interval_rule(value: float, low: float, high: float, top: float, width: int) -> tuple[str, str]:
    """A heavy line up to `value` and a light line to the upper end of its confidence interval, which ends with a tick.

    Args:
        top: the value at the full width.

    Returns:
        Both parts, together at most `width` long. The second is empty if it is shorter than a cell.
    """
    if top <= 0 or width < 1 or not math.isfinite(value):
        return "", ""
    solid = rule(value / top, width)
    end = math.floor(min(max(high / top, 0.0), 1.0) * width + 0.5)
    spread = end - len(solid)
    if spread < 1 or high <= low:
        return solid, ""
    if solid.endswith("╸"):
        solid = solid[:-1] + "╾"
    return solid, "─" * (spread - 1) + "┤"


def decimate(points: Sequence[Point], width: int) -> list[Point]:
    """Reduce points to at most `2 * width` with the same outline: the lowest and highest of each of `width` equal intervals."""
    if len(points) <= 2 * width:
        return list(points)
    edges = [round(index * len(points) / width) for index in range(width + 1)]
    kept: list[Point] = []
    for start, end in itertools.pairwise(edges):
        interval = sorted(points[start:end], key=lambda point: point[1])
        kept += sorted({interval[0], interval[-1]})
    return kept


def _draw_segment(dots: set[tuple[int, int]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        dots.add((round(start[0] + (end[0] - start[0]) * share), round(start[1] + (end[1] - start[1]) * share)))


def braille_line(
    points: Sequence[Point],
    width: int,
    height: int,
    *,
    x_range: Point | None = None,
    y_range: Point | None = None,
) -> list[str]:
    """A line chart of points in order of x, as `height` lines of `width` braille characters.

    Args:
        x_range, y_range: the values at the edges; the extremes of the points if None. An empty range is drawn in the middle.
    """
    finite = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if width < 1 or height < 1:
        return []
    dots: set[tuple[int, int]] = set()
    if finite:
        finite = decimate(finite, 2 * width)
        across = x_range or (finite[0][0], finite[-1][0])
        up = y_range or extent([y for _, y in finite])
        placed = [_dot_of(point, width, height, across, up) for point in finite]
        dots.add(placed[0])
        for start, end in itertools.pairwise(placed):
            _draw_segment(dots, start, end)
    return _cells_of(dots, width, height)


def braille_points(
    points: Sequence[Point],
    width: int,
    height: int,
    *,
    x_range: Point | None = None,
    y_range: Point | None = None,
) -> list[str]:
    """A scatter plot of points in any order, as `height` lines of `width` braille characters.

    Args:
        x_range, y_range: the values at the edges; the extremes of the points if None. An empty range is drawn in the middle.
    """
    finite = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if width < 1 or height < 1:
        return []
    across = x_range or extent([x for x, _ in finite])
    up = y_range or extent([y for _, y in finite])
    return _cells_of({_dot_of(point, width, height, across, up) for point in finite}, width, height)


def cell_of(point: Point, width: int, height: int, x_range: Point, y_range: Point) -> tuple[int, int]:
    """The column and the line (from the top) of the character in which `braille_points` draws a point."""
    x, y = _dot_of(point, width, height, x_range, y_range)
    return x // 2, y // 4


def overlay(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Overlay two braille drawings of the same size."""
    return [
        "".join(chr(ord(first) | ord(second)) for first, second in zip(line, twin, strict=True))
        for line, twin in zip(one, other, strict=True)
    ]


def _dot_of(point: Point, width: int, height: int, x_range: Point, y_range: Point) -> tuple[int, int]:
    (left, right), (bottom, top) = x_range, y_range
    across = (point[0] - left) / (right - left) if right > left else 0.5
    up = (point[1] - bottom) / (top - bottom) if top > bottom else 0.5
    columns, rows = 2 * width - 1, 4 * height - 1
    return round(min(max(across, 0.0), 1.0) * columns), round((1 - min(max(up, 0.0), 1.0)) * rows)


def _cells_of(dots: set[tuple[int, int]], width: int, height: int) -> list[str]:
    cells = [[BRAILLE_BLANK] * width for _ in range(height)]
    for x, y in dots:
        cells[y // 4][x // 2] |= BRAILLE_DOTS[y % 4][x % 2]
    return ["".join(map(chr, row)) for row in cells]


def step_points(values: Sequence[float]) -> list[Point]:
    """The corners of a step curve whose value i spans x = i to x = i + 1."""
    corners: list[Point] = []
    for index, value in enumerate(values):
        corners += [(float(index), value), (index + 1.0, value)]
    return corners


def best_so_far(values: Sequence[float], *, greater_is_better: bool) -> list[float]:
    """The cumulative best of values."""
    choose = max if greater_is_better else min
    best: list[float] = []
    for value in values:
        best.append(choose(best[-1], value) if best else value)
    return best


def extent(values: Sequence[float]) -> Point:
    """The lowest and the highest finite value; (0, 0) if there is none."""
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)


def axis_labels(low: float, high: float, height: int, write: Callable[[float], str]) -> list[str]:
    """One right-aligned label per line, for the top, the middle and the bottom line, blank elsewhere; all equally wide."""
    if height < 1:
        return []
    positions = (
        {0: high, height - 1: low} if height < 5 else {0: high, (height - 1) // 2: (low + high) / 2, height - 1: low}
    )
    if height == 1 or low == high:
        positions = {(height - 1) // 2: high}
    labels = [write(positions[line]) if line in positions else "" for line in range(height)]
    width = max(map(len, labels))
    return [label.rjust(width) for label in labels]


def shade(share: float) -> str:
    """A shade of `share` (0 to 1): blank for 0, one of four shades for larger values."""
    if not math.isfinite(share) or share <= 0:
        return SHADES[0]
    return SHADES[min(len(SHADES) - 1, math.ceil(share * (len(SHADES) - 1)))]


def fit_grid(counts: Sequence[Sequence[float]], width: int, height: int) -> list[list[float]]:
    """Resize a grid of counts to `height` lines of `width` cells. A cell is the mean of the bins that it covers, at least one."""
    if not counts or not counts[0] or width < 1 or height < 1:
        return []
    down, across = _intervals(len(counts), height), _intervals(len(counts[0]), width)
    return [
        [
            sum(counts[row][column] for row in range(*rows) for column in range(*columns))
            / ((rows[1] - rows[0]) * (columns[1] - columns[0]))
            for columns in across
        ]
        for rows in down
    ]


def _intervals(number: int, parts: int) -> list[tuple[int, int]]:
    starts = [index * number // parts for index in range(parts)]
    ends = [max(start + 1, (index + 1) * number // parts) for index, start in enumerate(starts)]
    return list(zip(starts, ends, strict=True))


def density(counts: Sequence[Sequence[float]], width: int, height: int) -> list[str]:
    """A grid of counts as shades, first line at the bottom. Square roots keep small counts visible."""
    cells = fit_grid(counts, width, height)[::-1]
    top = max((value for line in cells for value in line), default=0.0)
    return ["".join(shade(math.sqrt(value / top)) if top > 0 else " " for value in line) for line in cells]


def heat_map(rows: Sequence[Sequence[float]], cell: int = 2) -> list[str]:
    """A matrix as shades, `cell` characters per value, relative to the largest value of the row."""
    tops = [max(row, default=0.0) for row in rows]
    return [
        "".join(shade(value / top if top > 0 else 0.0) * cell for value in row)
        for row, top in zip(rows, tops, strict=True)
    ]


def shades_below(cells: Sequence[Sequence[float]], top: float, cell: int = 2) -> list[str]:
    """A matrix as shades relative to `top`, `cell` characters per value. Square roots keep small values visible."""
    return ["".join(shade(math.sqrt(max(0.0, value) / top)) * cell for value in row) for row in cells]


def bars(counts: Sequence[float], width: int, height: int) -> list[str]:
    """A histogram as `height` lines of `width` characters, in eighths of a cell; every non-empty bin is visible."""
    if width < 1 or height < 1:
        return []
    heights = fit_grid([counts], width, 1)[0] if counts else [0.0] * width
    top = max(heights)
    eighths = [0 if value <= 0 or top <= 0 else max(1, round(value / top * height * 8)) for value in heights]
    return [
        "".join(FULL_LEVELS[min(8, max(0, tall - 8 * line))] for tall in eighths) for line in reversed(range(height))
    ]


def diagonal(width: int, height: int, *, gap: int = 4) -> list[str]:
    """A dotted line from the lower left to the upper right, with a dot every `gap` braille columns."""
    steps = max(1, 2 * width // gap)
    points = [(step / steps, step / steps) for step in range(steps + 1)]
    return braille_points(points, width, height, x_range=(0.0, 1.0), y_range=(0.0, 1.0))


def box(quantiles: Sequence[float], low: float, high: float, width: int) -> str:
    """A box plot of five quantiles in `width` characters from `low` to `high`: whiskers, box and median, as in ├──██┃██──┤."""
    if width < 1 or len(quantiles) != 5 or high <= low or not all(map(math.isfinite, quantiles)):
        return " " * max(0, width)
    a, b, middle, c, d = (round(min(max((value - low) / (high - low), 0.0), 1.0) * (width - 1)) for value in quantiles)
    line = [" "] * width
    line[a : d + 1] = "─" * (d + 1 - a)
    line[b : c + 1] = "█" * (c + 1 - b)
    line[a], line[d] = ("├" if a < b else line[a]), ("┤" if d > c else line[d])
    line[middle] = "┃"
    return "".join(line)
