"""A column beside the target, as text for the column inspector."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run.protocol.paging import Inspected, ValueBin
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED
from tabapp.warning_text import sentence

GLYPHS = (("█", "$primary"), ("▓", "$accent"), ("▒", "$secondary"), ("░", "$warning"))
"""How the groups of the target differ, also without colors."""
MOST_BAR, LEAST_BAR = 44, 12
LONGEST_LABEL = 22


def inspection_text(
    column: ev.ColumnView,
    facts: Inspected | None,
    warnings: Sequence[ev.WarningView],
    n_rows: int,
    target: str,
    width: int,
    trouble: str = "",
) -> Content:
    """All that is known of a column.

    Args:
        facts: of the pager; None while they are computed.
        n_rows: rows of the table.
        width: of a line, in cells.
        trouble: why there are no facts.
    """
    lines = about_column(column, column.reason, n_rows)
    if trouble:
        lines.append(Content.styled(trouble, "$error"))
    elif facts is None:
        lines.append(Content.styled("Comparing it with the target…", MUTED))
    elif facts.groups:
        lines += [_association(column, facts, target), Content(""), *_histogram(facts, target, width)]
        lines += [_missing(facts)] if any(facts.missing) else []
        lines += [Content(text) for text in facts.reading]
    else:
        lines.append(Content.styled("The column has no values that can be compared with the target.", MUTED))
    own = warnings_of(column, warnings)
    return Content("\n").join([*lines, Content(""), *own] if own else lines)


def about_column(column: ev.ColumnView, reason: str, n_rows: int) -> list[Content]:
    """Kind and role with the reason, and how many cells are missing and distinct."""
    share = column.missing / n_rows if n_rows else 0.0
    return [
        Content.assemble((f"{column.kind}, {column.role}: ", "bold"), reason),
        Content.styled(f"{share:.1%} missing · {column.unique:,} distinct", MUTED),
    ]


def warnings_of(column: ev.ColumnView, warnings: Sequence[ev.WarningView]) -> list[Content]:
    """The warnings about a column."""
    own = [warning for warning in warnings if warning.column == column.name]
    return [Content.assemble(("⚠ ", "$warning"), f"{sentence(warning)}.") for warning in own]


def _association(column: ev.ColumnView, facts: Inspected, target: str) -> Content:
    if facts.association is None:
        return Content.styled("It is the target.", MUTED)
    words = "predicts the target almost perfectly" if facts.association > 0.95 else f"scores {facts.measure}"
    return Content.assemble(
        (f"Association with {target}: {facts.association:.2f}", "bold"),
        (f" of 1. Alone, {column.name} {words}, out of fold.", MUTED),
    )


def _histogram(facts: Inspected, target: str, width: int) -> list[Content]:
    labels = [_short(each.label) for each in facts.bins]
    longest = max([len(label) for label in labels] or [0])
    room = max(LEAST_BAR, min(MOST_BAR, width - longest - 18))
    most = max([sum(each.counts) for each in facts.bins] or [1])
    legend: list[Content] = [Content.styled(f"{target}: ", MUTED)]
    for (glyph, style), group in zip(GLYPHS, facts.groups, strict=False):
        legend.append(Content.assemble((glyph, style), f" {group}   "))
    lines = [Content("").join(legend)]
    by_share = len(facts.groups) == 2
    if by_share:
        lines[0] = Content.assemble(lines[0], (f"and the share of {facts.groups[-1]}", MUTED))
    for label, each in zip(labels, facts.bins, strict=True):
        total = sum(each.counts)
        bar = _bar(each, room, most)
        share = f"{each.counts[-1] / total:7.1%}" if by_share and total else ""
        lines.append(
            Content.assemble(
                (f"{label:>{longest}} ", MUTED), bar.pad_right(room - bar.cell_length), f"{total:>8,}", share
            )
        )
    shown = sum(sum(each.counts) for each in facts.bins)
    rest = sum(facts.rows) - sum(facts.missing) - shown
    if rest > 0:
        more = facts.distinct - len(facts.bins)
        lines.append(Content.styled(f"{rest:,} rows have one of {more:,} other values.", MUTED))
    return lines


def _bar(each: ValueBin, room: int, most: int) -> Content:
    """A bar of a bin, in parts by group. A group with few rows has a cell as soon as half of one is filled."""
    parts: list[tuple[str, str]] = []
    begun = drawn = 0
    for (glyph, style), count in zip(GLYPHS, each.counts, strict=False):
        begun += count
        end = round(room * begun / max(1, most))
        parts.append((glyph * (end - drawn), style))
        drawn = end
    if not drawn and begun:
        return Content.styled("▏", MUTED)
    return Content.assemble(*parts)


def _missing(facts: Inspected) -> Content:
    shares = [
        f"{group} {missing / rows:.1%}"
        for group, missing, rows in zip(facts.groups, facts.missing, facts.rows, strict=True)
        if rows
    ]
    return Content.assemble(("Missing by target: ", "bold"), " · ".join(shares))


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
