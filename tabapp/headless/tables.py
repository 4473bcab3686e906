"""Tables for people and for pipes: Rich on a terminal, aligned plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Columns padded with blanks, two between them; `right` are the columns aligned to the right."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines: list[str] = []
    for row in cells:
        parts = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append("  ".join(parts).rstrip())
    return lines


GAP = 3
LEAST_LAST_COLUMN = 24


def fitting(header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[int], available: int) -> list[int]:
    """The columns that have room side by side: those of `optional` leave in their order; the last column may be folded."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    widths[-1] = min(widths[-1], LEAST_LAST_COLUMN)
    kept = list(range(len(header)))
    for leaving in optional:
        if sum(widths[i] + GAP for i in kept) - GAP <= available:
            break
        kept.remove(leaving)
    return kept


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    title: str = "",
    optional: Sequence[int] = (),
) -> None:
    """Print a table on stdout, in color where stdout is a terminal; there, `optional` columns leave where there is no room."""
    if not sys.stdout.isatty():
        if title:
            click.echo(title)
        for line in plain_table(header, rows, right):
            click.echo(line)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    kept = fitting(header, rows, optional, console.width)
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for i in kept:
        table.add_column(
            header[i],
            justify="right" if i in right else "left",
            overflow="fold",
            no_wrap=bool(optional) and i != kept[-1],
        )
    for row in rows:
        table.add_row(*[row[i] for i in kept])
    console.print(table)
