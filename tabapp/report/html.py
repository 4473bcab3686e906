"""A report as one HTML file: inline SVG, no script, no request to any other file, light and dark, printable."""

from __future__ import annotations

from tabapp.report.parts import Bars, Facts, HeatMap, Histogram, Part, Report, Section, Table, Text
from tabapp.report.svg import draw_bars, draw_grid, draw_heat_map, draw_histogram, draw_lines, text_of
from tabapp.run.record.analysis import Grid, Lines

MOST_KEPT_ROWS = 16
"""The longest table that is printed on one page."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --text: #1d2330; --muted: #5a6272; --back: #ffffff; --panel: #f5f6f9; --line: #d4d8e1;
  --c0: #2f5fd0; --c1: #b4530a; --c2: #18794e; --c3: #a1307c; --c4: #6d4bd8; --c5: #5f6b00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9f0; --muted: #a7b0c0; --back: #14171e; --panel: #1d212b; --line: #3a4150;
  --c0: #7ea6ff; --c1: #f5a35c; --c2: #5fd39b; --c3: #f08fd0; --c4: #b9a3ff; --c5: #cdd75a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
header, main, nav, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; overflow-wrap: break-word; }
dd { overflow-wrap: anywhere; }
h1 { margin: 2rem 0 .25rem; font-size: 1.7rem; line-height: 1.25; }
h2 { margin: 2.5rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line); font-size: 1.25rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; margin: 1rem 0 0; list-style: none; }
a { color: var(--c0); }
a:focus-visible, .wide:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.5rem; margin: 1rem 0; }
dt { color: var(--muted); }
dd { margin: 0; }
pre { padding: .75rem 1rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption, figcaption { padding: .25rem 0; font-weight: 600; text-align: left; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; max-width: 26rem; }
thead th { color: var(--muted); font-weight: 600; }
.right { text-align: right; }
td.right { white-space: nowrap; }
td:last-child:not(.right, .heat) { min-width: 11rem; max-width: 40rem; }
td.heat { text-align: right; background: color-mix(in srgb, var(--c0) calc(55% * var(--share)), transparent); }
figure { margin: 1.5rem 0; max-width: 44rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; font: 12px system-ui, sans-serif; fill: var(--text); }
.axis { fill: var(--muted); }
.grid { stroke: var(--line); stroke-width: 1; }
.zero { stroke: var(--muted); stroke-width: 1; }
.bar { fill: var(--c0); }
.interval { stroke: var(--text); stroke-width: 1.3; fill: none; }
.line { fill: none; stroke: var(--color); stroke-width: 2; }
.band { fill: var(--color); opacity: .2; stroke: none; }
.reference { fill: none; stroke: var(--muted); stroke-width: 1.3; stroke-dasharray: 5 4; }
rect.heat { fill: color-mix(in srgb, var(--c0) calc(50% * var(--share)), var(--panel)); }
.small { font-size: 9px; }
.c0 { --color: var(--c0); } .c1 { --color: var(--c1); } .c2 { --color: var(--c2); }
.c3 { --color: var(--c3); } .c4 { --color: var(--c4); } .c5 { --color: var(--c5); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .25rem 0 0; padding: 0; list-style: none; font-size: .9rem; }
.legend li::before { content: ""; display: inline-block; width: 1rem; height: .25rem; margin: 0 .4rem .2rem 0;
  background: var(--color); }
footer { margin: 3rem auto 2rem; color: var(--muted); font-size: .9rem; }
@media print { :root { color-scheme: light; --text: #000; --muted: #444; --back: #fff; --panel: #f5f5f5; --line: #bbb;
  --c0: #2f5fd0; --c1: #b4530a; --c2: #18794e; --c3: #a1307c; --c4: #6d4bd8; --c5: #5f6b00; }
  nav { display: none; } figure, tr, dl, .kept { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; }
  table { font-size: .7rem; } th, td { padding: .15rem .3rem; } td.right { white-space: normal; }
  td:last-child:not(.right, .heat) { min-width: 0; } }
"""


def to_html(report: Report) -> str:
    """The report as a page."""
    links = "".join(f'<li><a href="#{_anchor(i)}">{text_of(s.title)}</a></li>' for i, s in enumerate(report.sections))
    sections = "\n".join(_section(i, section) for i, section in enumerate(report.sections))
    title = text_of(report.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} · tabapp report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1><p>{text_of(report.summary)}</p></header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{sections}\n</main>\n'
        "<footer>Written by tabapp. This file contains everything it shows.</footer>\n</body>\n</html>\n"
    )


def _anchor(i: int) -> str:
    return f"section-{i + 1}"


def _section(i: int, section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f'<section id="{_anchor(i)}">\n<h2>{text_of(section.title)}</h2>\n{parts}\n</section>'


def _part(part: Part) -> str:
    match part:
        case Text():
            return f"<pre><code>{text_of(part.text)}</code></pre>" if part.code else f"<p>{text_of(part.text)}</p>"
        case Facts():
            return (
                f"<dl>{''.join(f'<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>' for name, value in part.rows)}</dl>"
            )
        case Table():
            return _table(part)
        case Lines():
            return draw_lines(part)
        case Bars():
            return draw_bars(part)
        case Histogram():
            return draw_histogram(part)
        case HeatMap():
            return draw_heat_map(part)
        case Grid():
            return draw_grid(part)


def _table(table: Table) -> str:
    def kind(i: int) -> str:
        return ' class="right"' if i in table.right else ""

    def cell(row: int, i: int, text: str) -> str:
        if i and table.shades:
            return f'<td class="heat" style="--share:{table.shades[row][i - 1]:.3f}">{text_of(text)}</td>'
        return f"<td{kind(i)}>{text_of(text)}</td>"

    head = "".join(f'<th scope="col"{kind(i)}>{text_of(name)}</th>' for i, name in enumerate(table.header))
    rows = "".join(
        f"<tr>{''.join(cell(number, i, text) for i, text in enumerate(row))}</tr>"
        for number, row in enumerate(table.rows)
    )
    kept = " kept" if len(table.rows) <= MOST_KEPT_ROWS else ""
    return (
        f'<div class="wide{kept}" role="region" tabindex="0" aria-label="{text_of(table.title)}"><table>'
        f"<caption>{text_of(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
