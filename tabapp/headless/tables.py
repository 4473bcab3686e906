"""Tables on stdout: with Rich on a terminal, as aligned plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len

from tabapp.headless.narration import echo
from tabapp.printable import one_line


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines of columns padded with blanks and separated by two; columns in `right` are right-aligned."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(header))]
    lines: list[str] = []
    for row in cells:
        parts: list[str] = []
        for i, cell in enumerate(row):
            padding = " " * (widths[i] - cell_len(cell))
            parts.append(padding + cell if i in right else cell + padding)
        lines.append("  ".join(parts).rstrip())
    return lines


GAP = 3
MIN_LAST_COLUMN = 24


def fitting_columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[int], available: int, *, wraps: bool = True
) -> list[int]:
    """Indices of the columns that fit into `available` cells. Drops `optional` columns in order; the last column may wrap if
    `wraps`."""
    widths = [max(cell_len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    if wraps:
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
    *,
    wraps: bool = True,
) -> None:
    """Print a table on stdout. On a terminal it has colors, and `optional` columns are dropped where they do not fit.

    With optional columns, only the last column wraps, or none without `wraps`: a cell that does not fit is cut. Cells may contain
    data: each is one printable line, and never markup.
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        if title:
            echo(title)
        for line in plain_table(header, rows, right):
            echo(line)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    kept = fitting_columns(header, rows, optional, console.width, wraps=wraps)
    table = Table(
        box=box.SIMPLE_HEAD, title=Text(one_line(title)) if title else None, title_justify="left", pad_edge=False
    )
    for i in kept:
        whole = bool(optional) and (not wraps or i != kept[-1])
        table.add_column(
            Text(header[i]),
            justify="right" if i in right else "left",
            overflow="ellipsis" if whole else "fold",
            no_wrap=whole,
        )
    for row in rows:
        table.add_row(*[Text(row[i]) for i in kept])
    console.print(table)
