"""A report as Markdown: tables, and charts of braille characters in code blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from tabapp import charts
from tabapp.printable import one_line
from tabapp.report.parts import Bars, Facts, HeatMap, Histogram, Part, Report, Table, Text
from tabapp.report.svg import number
from tabapp.run.record.analysis import Grid, Lines
from tabapp.run.texts.diagnoses import grid_lines

CHART_WIDTH, CHART_HEIGHT, BAR_WIDTH = 60, 12, 24
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")


def escaped(text: str) -> str:
    """Text whose characters have no meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", one_line(text)).replace("&", "&amp;")


def to_markdown(report: Report) -> str:
    """The report as a document."""
    blocks = [f"# {escaped(report.title)}", escaped(report.summary)]
    for section in report.sections:
        blocks.append(f"## {escaped(section.title)}")
        blocks += [block for part in section.parts for block in _blocks(part)]
    return "\n\n".join(blocks) + "\n"


def _blocks(part: Part) -> list[str]:
    match part:
        case Text():
            return _code([part.text]) if part.code else [escaped(part.text)]
        case Facts():
            return ["\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in part.rows)]
        case Table():
            return [f"**{escaped(part.title)}**", _table(part.header, part.rows, part.right)]
        case Bars():
            return _bars(part)
        case Lines():
            return _lines(part)
        case Histogram():
            drawn = charts.bars([float(count) for count in part.counts], CHART_WIDTH, CHART_HEIGHT)
            low, high = part.x_range
            return [f"**{escaped(part.title)}**", *_code([*drawn, f"{part.x_title}: {number(low)} to {number(high)}"])]
        case Grid():
            return [f"**{escaped(part.title)}**", *_code(grid_lines(part))]
        case HeatMap():
            header = (f"{part.row_title} ↓ {part.column_title} →", *part.labels)
            rows = [
                (label, *(f"{count:,}" for count in counts))
                for label, counts in zip(part.labels, part.counts, strict=True)
            ]
            return [f"**{escaped(part.title)}**", _table(header, rows, range(1, len(header)))]


def _code(lines: Iterable[str]) -> list[str]:
    """A code block, whose fence is longer than any run of backticks in it."""
    text = "\n".join(one_line(line) for line in lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [f"{fence}text\n{text}\n{fence}"]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int]) -> str:
    aligned = set(right)
    lines = [header, *rows]
    drawn = [f"| {' | '.join(escaped(cell) for cell in line)} |" for line in lines]
    rule = "| " + " | ".join("---:" if i in aligned else "---" for i in range(len(header))) + " |"
    return "\n".join([drawn[0], rule, *drawn[1:]])


def _bars(chart: Bars) -> list[str]:
    largest = max((bar.value for bar in chart.rows if math.isfinite(bar.value)), default=0.0)
    rows = [
        (
            bar.label,
            charts.bar(max(0.0, bar.value) / largest if largest > 0 else 0.0, BAR_WIDTH),
            number(bar.value),
            "—" if bar.low is None or bar.high is None else f"{number(bar.low)} to {number(bar.high)}",
        )
        for bar in chart.rows
    ]
    table = _table(("", "", chart.unit, "95 % interval"), rows, (2,))
    return [f"**{escaped(chart.title)}**", table]


def _lines(chart: Lines) -> list[str]:
    points = [point for one in chart.series for point in one.points]
    finite = [point for point in points if all(map(math.isfinite, point))]
    if not finite:
        return []
    across = chart.x_range or charts.extent([x for x, _ in finite])
    up = chart.y_range or charts.extent([y for _, y in finite])
    drawn: list[str] = []
    for one in chart.series:
        if len(chart.series) > 1:
            drawn.append(one.name)
        drawn += charts.braille_line(one.points, CHART_WIDTH, CHART_HEIGHT, x_range=across, y_range=up)
    ranges = [
        f"{chart.x_title}: {number(across[0])} to {number(across[1])}",
        f"{chart.y_title}: {number(up[0])} to {number(up[1])}",
    ]
    return [f"**{escaped(chart.title)}**", *_code([*drawn, *ranges])]
