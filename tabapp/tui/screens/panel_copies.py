"""Copies the table in focus, and saves the panel in focus to a file that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.screen import Screen

from tabapp.tui.dialogs.basic import Ask
from tabapp.tui.parts.panel_files import as_markdown, as_tsv, check_file, proposed_file, save, table_rows, title_of
from tabapp.tui.screens.base import RunView
from tabapp.tui.session.host import Host
from tabapp.tui.viewmodels.texts import short_path


def copy_table(app: Host, screen: Screen[Any], *, markdown: bool) -> None:
    """Copy the table in focus with tabs or as Markdown."""
    table = screen.table_in_focus() if isinstance(screen, RunView) else None
    if table is None or not table.rows:
        app.notify("There is no table with rows in focus. Move to one with tab.", severity="warning")
    else:
        rows = table_rows(table)
        app.copy(as_markdown(rows) if markdown else as_tsv(rows))


def ask_for_panel(app: Host, screen: Screen[Any]) -> None:
    """Ask where to save the panel in focus, and save it."""
    if not isinstance(screen, RunView):
        return
    panel = screen.panel_in_focus()

    def write(answer: str | None) -> None:
        if answer is None:
            return
        path = Path(answer)
        try:
            save(screen, panel, path)
        except OSError as error:
            app.notify(f"{path} could not be written: {error.strerror}.", severity="error")
        else:
            app.notify(short_path(path.absolute()), title="Saved")

    proposed = str(proposed_file(app.folder.run, panel))
    message = "An .svg file keeps the picture, a .csv file the numbers of a table or chart:"
    app.push_screen(Ask(f"Save “{title_of(panel)}” as", message, proposed, lambda text: check_file(text, panel)), write)
