"""What the terminal UI remembers for the next start: the theme, the order of tables, panels shown, and filters typed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabapp import files
from tabapp.user_folders import state_folder

MOST_BYTES = 1 << 20
MOST_FILTERS = 20


class Remembered(msgspec.Struct, kw_only=True):
    """The file of the preferences; every field is optional, and unknown ones are ignored.

    Attributes:
        theme: chosen with ctrl+t; the configuration takes precedence.
        sorts: order of a table by its id.
        charts: screens that show their charts on a narrow terminal.
        filters: texts typed into the filter of each screen, newest first.
    """

    theme: str = ""
    sorts: dict[str, str] = {}
    charts: dict[str, bool] = {}
    filters: dict[str, list[str]] = {}


def preferences_file() -> Path:
    """The path of the preferences."""
    return state_folder() / "screen.json"


class Preferences:
    """The preferences of the user. A file that cannot be read or written never stops the app.

    Attributes:
        note: why the file was ignored; empty if it was not.
    """

    def __init__(self) -> None:
        self.note = ""
        self._file = preferences_file()
        self.values = self._read()
        self._saved = msgspec.json.encode(self.values)

    def _read(self) -> Remembered:
        try:
            with files.open_to_read(self._file) as opened:
                content = opened.read(MOST_BYTES + 1)
            return msgspec.json.decode(content[:MOST_BYTES], type=Remembered)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            self.note = f"{self._file} is damaged, so the remembered theme, orders and filters are not used."
        return Remembered()

    def add_filter(self, view: str, text: str) -> None:
        """Remember a text typed into the filter of a screen."""
        if text.strip():
            others = [each for each in self.values.filters.get(view, []) if each != text]
            self.values.filters[view] = [text, *others][:MOST_FILTERS]
            self.save()

    def save(self) -> None:
        """Write the file if something has changed."""
        content = msgspec.json.encode(self.values)
        if content == self._saved:
            return
        self._saved = content
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(self._file, content)
        except OSError:
            # What cannot be kept is chosen again next time.
            pass
