"""Tables on stdout: with Rich on a terminal, as aligned plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines of columns padded with blanks and separated by two; columns in `right` are right-aligned."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines: list[str] = []
    for row in cells:
        parts = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append("  ".join(parts).rstrip())
    return lines


GAP = 3
MIN_LAST_COLUMN = 24


def fitting_columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[int], available: int
) -> list[int]:
    """Indices of the columns that fit into `available` cells. Drops `optional` columns in order; the last column may wrap."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    widths[-1] = min(widths[-1], MIN_LAST_COLUMN)
    kept = list(range(len(header)))
    for dropped in optional:
        if sum(widths[i] + GAP for i in kept) - GAP <= available:
            break
        kept.remove(dropped)
    return kept


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    title: str = "",
    optional: Sequence[int] = (),
) -> None:
    """Print a table on stdout. On a terminal it has colors, and `optional` columns are dropped where they do not fit."""
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
    kept = fitting_columns(header, rows, optional, console.width)
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
