"""The analyses of a run as text: maps, and sentences with their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabapp import charts
from tabapp.run.analyses.attention import AttentionMap, AttentionReady, mean_over_heads
from tabapp.run.analyses.interactions import InteractionsReady, interactions_map, interactions_table
from tabapp.run.record.analysis import DiagnosisTable
from tabapp.run.record.state import RunState, subject_of
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED

SHADES = ("$foreground 40%", "", "$primary", "bold $primary")
"""Styles of less attention than chance, about as much, more, and more than twice as much; also of growing interactions."""
RATIOS = (0.7, 1.4, 2.5)
"""The shares, relative to chance, from which the next style is used."""


@dataclass(frozen=True)
class AttentionStep:
    """One of the maps of a result: a layer, and a head of it; -1 is the mean over heads."""

    layer: int
    head: int

    def drawn(self, found: AttentionReady, state: RunState, width: int) -> tuple[str, Content]:
        """Title and heat map, in lines of `width` characters."""
        return attention_content(found.maps[self.layer], self.head, subject_of(state, found), width)


def attention_steps(found: AttentionReady) -> list[AttentionStep]:
    """The maps of a result in the order in which ←/→ walk through them: of each layer the mean, then its heads."""
    steps: list[AttentionStep] = []
    for layer, each in enumerate(found.maps):
        heads = range(-1, len(each.heads)) if len(each.heads) > 1 else (-1,)
        steps += [AttentionStep(layer, head) for head in heads]
    return steps


def attention_content(found: AttentionMap, head: int, model: str, width: int) -> tuple[str, Content]:
    """Title and heat map of a head, or of the mean over heads for -1: attention of a model relative to chance."""
    weights = mean_over_heads(found) if head < 0 else found.heads[head]
    ratios = [_relative(row, found.chance) for row in weights]
    lines = [
        Content(f"Share of the {found.kind} of {model} divided by what equal {found.kind} would give: 1 is chance."),
        Content(""),
    ]
    if len(found.queries) == 1:
        margins = _relative(found.spread[0], found.chance) if head < 0 and any(found.spread[0]) else None
        lines += [Content.styled(f"from {found.queries[0]} to", MUTED), *_bars(found.keys, ratios[0], margins, width)]
    else:
        # One decimal makes a layer of nearly equal attention a table of "1.0".
        digits = 2 if len(found.keys) * 6 + 8 <= width else 1
        cells = [[(f"{ratio:.{digits}f}", _shade(ratio, *RATIOS)) for ratio in row] for row in ratios]
        lines += [Content.styled("Rows attend to columns.", MUTED), *_heat_map(found.queries, found.keys, cells, width)]
    title = f"{found.kind.capitalize()} · {found.title}" + (f" · head {head + 1}" if head >= 0 else "")
    return title, Content("\n").join(lines)


def _relative(shares: Sequence[float], chance: Sequence[float]) -> list[float]:
    return [share / each if each > 0 else 0.0 for share, each in zip(shares, chance, strict=True)]


def _bars(names: Sequence[str], ratios: Sequence[float], margins: Sequence[float] | None, width: int) -> list[Content]:
    """A line for each column, most attention first, with the half-width of its interval over folds."""
    longest = min(max(map(len, names)), max(6, width // 2))
    most = max(*ratios, 1e-12)
    room = max(4, width - longest - (17 if margins else 8))
    lines: list[Content] = []
    for place in sorted(range(len(names)), key=lambda each: -ratios[each]):
        style = _shade(ratios[place], *RATIOS)
        margin = f"  ±{margins[place]:.2f}" if margins else ""
        bar = charts.rule(ratios[place] / most, room)
        name = _cut(names[place], longest).ljust(longest)
        lines.append(Content.assemble(name, (f"  {ratios[place]:5.2f}", style), (margin, MUTED), " ", (bar, style)))
    return lines


def interactions_content(found: InteractionsReady, state: RunState, width: int) -> Content:
    """H of each pair of columns as a heat map, and the pairs with the largest interaction below."""
    table, pairs = interactions_map(found), interactions_table(found, state)
    cells = [
        [(cell, _shade(share, 0.2, 0.4, 0.7)) for cell, share in zip(row[1:], shares, strict=True)]
        for row, shares in zip(table.rows, table.shades, strict=True)
    ]
    lines = [*map(Content, table.sentences), Content(""), *_heat_map(found.columns, found.columns, cells, width)]
    return Content("\n").join([*lines, Content(""), tables_content([pairs], width)])


def _shade(value: float, *bounds: float) -> str:
    return SHADES[sum(value >= bound for bound in bounds)]


def _heat_map(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[tuple[str, str]]], width: int
) -> list[Content]:
    """Cells with their styles below the names of their columns, or below their numbers if the names do not fit the width."""
    least = max((len(text) for line in cells for text, _ in line), default=1)

    def fitted(labels: Sequence[str], heads: Sequence[str]) -> tuple[int, list[int]]:
        label = min(max(map(len, labels)), max(6, width - len(heads) * (least + 2)))
        most = max(least, (width - label) // max(1, len(heads)) - 2)
        return label, [max(least, min(most, len(head))) for head in heads]

    labels, heads = list(rows), list(columns)
    label, widths = fitted(labels, heads)
    if set(columns) & set(rows) and any(len(head) > room for head, room in zip(heads, widths, strict=True)):
        labels = [f"{i + 1:2} {name}" for i, name in enumerate(rows)]
        heads = [f"{rows.index(name) + 1}" if name in rows else name for name in columns]
        label, widths = fitted(labels, heads)
    head = [_cut(name, room).rjust(room) for name, room in zip(heads, widths, strict=True)]
    lines = [Content.styled("  ".join([" " * label, *head]), MUTED)]
    for name, line in zip(labels, cells, strict=True):
        parts = [(f"  {text:>{room}}", style) for (text, style), room in zip(line, widths, strict=True)]
        lines.append(Content.assemble((_cut(name, label).ljust(label), ""), *parts))
    return lines


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def tables_content(tables: Sequence[DiagnosisTable], width: int) -> Content:
    """Sentences and tables below each other, each with its title if there are several.

    A table that is wider than `width` characters is a list: a line for each cell, below the first one of its row.
    """
    lines: list[Content] = []
    for found in tables:
        lines += [Content("")] if lines else []
        lines += [Content.styled(found.title, "bold $primary")] if len(tables) > 1 else []
        lines += [Content(sentence) for sentence in found.sentences]
        if found.rows:
            widths = [max(len(row[i]) for row in (found.header, *found.rows)) for i in range(len(found.header))]
            lines.append(Content(""))
            if sum(widths) + 2 * (len(widths) - 1) <= width:
                lines.append(Content.styled(_line(found.header, widths, found.right), MUTED))
                lines += [Content(_line(row, widths, found.right)) for row in found.rows]
            else:
                lines += _listed(found)
    return Content("\n").join(lines)


def _listed(found: DiagnosisTable) -> list[Content]:
    lines: list[Content] = []
    longest = max(map(len, found.header[1:]), default=0)
    for row in found.rows:
        lines.append(Content.assemble((f"{found.header[0]} ", MUTED), (row[0].strip(), "bold")))
        cells = zip(found.header[1:], row[1:], strict=True)
        lines += [Content.assemble((f"  {name.ljust(longest)}  ", MUTED), cell) for name, cell in cells]
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    parts = [
        cell.rjust(width) if index in right else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()
