"""The tables in the working folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabapp.run.lists.description import RunDescription
from tabapp.tui.content import Content
from tabapp.tui.dialogs.file_choice import entries
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, count, file_size

COLUMNS = (Column("File", flexible=True, least=12), Column("Size", "right", width=7), Column("Runs", width=7))


@dataclass(frozen=True)
class TableFile:
    """A file of the working folder: name, size in bytes, and number of its runs."""

    name: str
    size: int
    runs: int


def files_here(runs: Iterable[RunDescription]) -> list[TableFile]:
    """The tables in the working folder by name."""
    used = Counter(os.path.realpath(run.data) for run in runs if run.data)
    return [
        TableFile(name, size, used[os.path.realpath(name)]) for name, is_folder, size in entries("") if not is_folder
    ]


def recent_files(runs: Iterable[RunDescription]) -> list[tuple[Path, str]]:
    """The tables of runs that still exist, the most recently used first, each with its number of runs."""
    newest = sorted(runs, key=lambda run: -(run.started or 0.0))
    used = Counter(run.data for run in newest if run.data)
    return [(Path(data), count(number, "run")) for data, number in used.items() if os.path.isfile(data)]


class FilesHere(Table):
    """Tables to open, those whose name contains the filter."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, id="files", empty="No tables in this folder. Press o to choose one elsewhere.")
        self.filter = ""
        self._files: dict[str, TableFile] = {}

    def about_row(self) -> Sequence[Content]:
        file = self._files.get(self.key or "")
        if file is None:
            return ()
        runs = f", {count(file.runs, 'run')}" if file.runs else ""
        what = "enter opens its Data screen: the columns, and a plan that ctrl+r starts."
        return [Content.assemble((f"{file.name}, {file_size(file.size)}{runs}", "bold"), (": ", MUTED), what)]

    def show_files(self, files: list[TableFile]) -> None:
        """Draw files."""
        self._files = {file.name: file for file in files}
        words = self.filter.casefold().split()
        fitting = [file for file in files if all(word in file.name.casefold() for word in words)]
        if self.filter and files:
            self.set_empty(f"No file fits “{self.filter}”.")
        self.show(
            [
                Row(
                    file.name,
                    (
                        Content(file.name),
                        Content.styled(file_size(file.size), MUTED),
                        Content.styled(f"✓ {file.runs}" if file.runs else "", "$success"),
                    ),
                )
                for file in fitting
            ]
        )
        set_titles(self, "Files here", count(len(files), "table"))
