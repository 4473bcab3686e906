"""Lines of the log: events of the run, and output of the engine and its libraries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabapp import files
from tabapp.run.record.state import FeedLine

READ_AT_MOST = 256 * 1024
KEPT = 5000

LEVELS = ("everything", "no single fits", "warnings and errors", "engine output")


@dataclass(frozen=True)
class LogLine:
    """A line with its number in order of arrival; `t` is None for printed output, which has no time."""

    number: int
    t: float | None
    kind: str
    text: str

    def is_of(self, level: str) -> bool:
        """Whether a level includes the line."""
        match level:
            case "no single fits":
                return self.kind != "fit"
            case "warnings and errors":
                return self.kind in ("warn", "error")
            case "engine output":
                return self.kind == "engine"
            case _:
                return True


class LogLines:
    """Collects lines in order of arrival; printed lines are placed where they were first read."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset: int | None = None
        self._last: FeedLine | None = None
        self._number = 0
        self.lines: list[LogLine] = []

    def take(self, feed: tuple[FeedLine, ...]) -> bool:
        """Add new lines; returns whether there were any."""
        known = self._number
        for text in self._printed():
            self._add(None, "engine", text)
        for line in self._new_of(feed):
            self._add(line.t, line.kind, line.text)
        del self.lines[:-KEPT]
        return self._number > known

    def _add(self, t: float | None, kind: str, text: str) -> None:
        self._number += 1
        self.lines.append(LogLine(self._number, t, kind, text))

    def _new_of(self, feed: tuple[FeedLine, ...]) -> tuple[FeedLine, ...]:
        # The feed forgets its oldest lines, so that the last one seen is looked for from its end, by identity.
        start = 0
        for index in range(len(feed) - 1, -1, -1):
            if feed[index] is self._last:
                start = index + 1
                break
        if feed:
            self._last = feed[-1]
        return feed[start:]

    def _printed(self) -> list[str]:
        """Complete lines added to the log file since the last read; only the end of a large file."""
        try:
            with files.open_to_read(self._log) as file:
                size = file.seek(0, 2)
                begin = max(0, size - READ_AT_MOST) if self._offset is None else min(self._offset, size)
                file.seek(begin)
                added = file.read(READ_AT_MOST)
        except OSError:
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset = begin + len(whole)
        return [line for line in whole.decode(errors="replace").splitlines() if line.strip()]
