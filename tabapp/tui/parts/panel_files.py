"""Copies and saves what a panel shows: a table as text, any panel as a picture, a table or chart as numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.segment import Segment, Segments
from textual.screen import Screen
from textual.widget import Widget

from tabapp import files
from tabapp.errors import UsageError
from tabapp.tui.parts.panel import Panel
from tabapp.tui.parts.table import Table
from tabapp.tui.paths import can_be_written, exists, quoted, typed_path

Rows = Sequence[Sequence[str]]


def table_rows(table: Table) -> list[list[str]]:
    """Titles and cells of a table, also of columns for which there is no room."""
    titles = [column.title for column in table.columns]
    return [titles, *([cell.plain.strip() for cell in row.cells] for row in table.rows)]


def row_under_cursor(table: Table) -> list[list[str]]:
    """Titles and cells of the row under the cursor; nothing without rows."""
    titles, *rows = table_rows(table)
    found = [cells for row, cells in zip(table.rows, rows, strict=True) if row.key == table.key]
    return [titles, *found] if found else []


def as_tsv(rows: Rows) -> str:
    """Rows as text with tabs, which spreadsheets paste as cells."""
    return "\n".join("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) for row in rows)


def as_markdown(rows: Rows) -> str:
    """Rows as a Markdown table; the first has the titles."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def as_csv(rows: Rows) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def numbers_of(panel: Widget) -> list[list[str]]:
    """The numbers of a table, of a chart or of the table in a box; nothing for other panels."""
    if isinstance(panel, Table):
        return table_rows(panel)
    if isinstance(panel, Panel):
        return [list(map(str, row)) for row in panel.numbers()]
    inside = list(panel.query(Table)) if panel.has_class("box") else []
    return table_rows(inside[0]) if inside else []


def picture_of(screen: Screen[Any], panel: Widget) -> str:
    """A panel as drawn now, as SVG."""
    region = panel.region
    shown = screen._compositor.render_strips()[region.y : region.bottom]  # pyright: ignore[reportPrivateUsage]
    width, height = region.width, region.height
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False,
    )  # fmt: skip
    lines = [[*strip.crop(region.x, region.right), Segment.line()] for strip in shown]
    console.print(Segments([segment for line in lines for segment in line]), end="")
    return console.export_svg(title=title_of(panel))


def title_of(panel: Widget) -> str:
    """The title of a panel's border, without details."""
    title = panel.border_title
    return str(title).partition(" · ")[0] if title else "panel"


def proposed_file(run: str, panel: Widget) -> Path:
    """A new file in the working folder for a panel of a run."""
    words = re.sub(r"[^a-z0-9]+", "-", title_of(panel).casefold()).strip("-") or "panel"
    path = Path(f"{run}-{words}.svg")
    number = 2
    while exists(path):
        path, number = Path(f"{run}-{words}-{number}.svg"), number + 1
    return path


def check_file(text: str, panel: Widget) -> str:
    """The path for a panel as typed.

    Raises:
        UsageError: the file exists, cannot be made, or the panel cannot be saved in its format.
    """
    path = typed_path(text)
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".csv") or not can_be_written(path):
        raise UsageError(f"{quoted(text)} is not an .svg or .csv file in an existing folder.")
    if suffix == ".csv" and not numbers_of(panel):
        raise UsageError("This panel has no table of numbers. Save it as .svg.")
    if exists(path):
        raise UsageError(f"{quoted(text)} already exists. Choose another name.")
    return str(path)


def save(screen: Screen[Any], panel: Widget, path: Path) -> None:
    """Write a panel as its suffix says.

    Raises:
        OSError: the file cannot be written.
    """
    text = as_csv(numbers_of(panel)) if path.suffix.lower() == ".csv" else picture_of(screen, panel)
    files.write_bytes(path, text.encode(), shared=True)
