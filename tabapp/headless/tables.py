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


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), title: str = ""
) -> None:
    """Print a table on stdout, in colour where stdout is a terminal."""
    if not sys.stdout.isatty():
        if title:
            click.echo(title)
        for line in plain_table(header, rows, right):
            click.echo(line)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
