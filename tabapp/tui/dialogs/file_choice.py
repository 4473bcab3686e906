"""Choose a file from recent ones, or type a path with completion."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from tabapp.printable import one_line
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Dialog, FilterLine, typing_help
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.paths import is_file, is_folder, quoted, typed_path
from tabapp.tui.viewmodels.texts import MUTED, file_size, keep_end, short_path

TABLE_SUFFIXES = (
    ".csv",
    ".tsv",
    ".txt",
    ".dat",
    ".gz",
    ".zst",
    ".zip",
    ".xlsx",
    ".json",
    ".jsonl",
    ".parquet",
    ".pq",
    ".arrow",
    ".feather",
    ".ipc",
)
MOST_ENTRIES = 300


def entries(typed: str) -> list[tuple[str, bool, int]]:
    """Completions of a typed path: text, whether it is a folder, and size in bytes. Folders come last."""
    folder, _, begun = typed.rpartition("/")
    place = typed_path(f"{folder}/" if "/" in typed else ".")
    prefix = f"{folder}/" if "/" in typed else ""
    found: list[tuple[str, bool, int]] = []
    try:
        with os.scandir(place) as listing:
            for entry in listing:
                hidden = entry.name.startswith(".") and not begun.startswith(".")
                if hidden or not entry.name.casefold().startswith(begun.casefold()):
                    continue
                if entry.is_dir():
                    found.append((f"{prefix}{entry.name}/", True, 0))
                elif entry.name.lower().endswith(TABLE_SUFFIXES) and entry.is_file():
                    found.append((f"{prefix}{entry.name}", False, entry.stat().st_size))
                if len(found) >= MOST_ENTRIES:
                    break
    except (OSError, ValueError):
        return []
    return sorted(found, key=lambda entry: (entry[1], entry[0].casefold()))


class FileChoice(Dialog):
    """Returns the path of an existing file.

    Args:
        recent: paths offered first, each with a note.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "list('move(-1)')", show=False, priority=True),
        Binding("down", "list('move(1)')", show=False, priority=True),
        Binding("pageup", "list('page(-1)')", show=False, priority=True),
        Binding("pagedown", "list('page(1)')", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
        Binding("question_mark", "help", show=False, priority=True),
    ]
    KEY_HELP = (
        ("↑ ↓", "Move."),
        ("tab", "Complete the typed path with the name under the cursor; a folder opens."),
        ("enter", "Use the typed file, or the one under the cursor."),
    )

    def __init__(self, title: str, recent: Sequence[tuple[Path, str]]) -> None:
        super().__init__(title)
        self._recent = recent

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="choice files"):
            yield FilterLine(placeholder="type a path · tab completes · ↑ ↓ choose", id="typed", compact=True)
            columns = [Column("name", flexible=True), Column("note", "right")]
            yield Table(columns, header=False, id="options", empty="There is no such file or folder.")
            yield Static("", id="problem")

    def on_mount(self) -> None:
        table = self.query_one(Table)
        table.can_focus = False
        table.styles.height = 12
        self._fill("")
        self.query_one(Input).focus()

    def _fill(self, typed: str) -> None:
        recent = [
            (short_path(path), note)
            for path, note in self._recent
            if not typed or ("/" not in typed and typed.casefold() in path.name.casefold())
        ]
        found = [(text, "folder" if is_folder else file_size(size)) for text, is_folder, size in entries(typed)]
        options = dict([*found, *recent]) if typed else dict([*recent, *found])
        table = self.query_one(Table)
        room = max(20, table.size.width - 26)
        # The input line above shows the folder already.
        shown = {text: text.removeprefix(f"{typed.rpartition('/')[0]}/") for text, _ in found}
        table.show(
            [
                Row(text, (Content(one_line(keep_end(shown.get(text, text), room))), Content.styled(note, MUTED)))
                for text, note in options.items()
            ]
        )

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)
        table = self.query_one(Table)
        if table.rows:
            table.move_to_key(table.rows[0].key)
        self.query_one("#problem", Static).update("")

    def about(self) -> Content:
        return typing_help("a path; the list shows the tables and folders that it begins")

    def action_complete(self) -> None:
        key = self.query_one(Table).key
        if key is not None:
            line = self.query_one(Input)
            line.value = key
            line.cursor_position = len(key)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        typed = typed_path(event.value)
        key = self.query_one(Table).key
        if event.value.strip() and is_file(typed):
            self.dismiss(str(typed))
        elif key is not None:
            self._take(key)
        else:
            sentence = f"There is no file {quoted(event.value)}. Press tab to complete existing names."
            self.query_one("#problem", Static).update(Content.styled(one_line(sentence), "$error"))

    @on(Table.Selected)
    def _double_clicked(self, event: Table.Selected) -> None:
        self._take(event.key)

    def _take(self, key: str) -> None:
        path = typed_path(key)
        if is_folder(path):
            self.action_complete()
        else:
            self.dismiss(str(path))

    async def action_list(self, action: str) -> None:
        await self.query_one(Table).run_action(action)
