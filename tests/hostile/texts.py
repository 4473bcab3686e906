"""Names that attack a terminal or a markup parser, and what finds their raw characters in the output of a view."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
import termios
import threading
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tabapp.printable import HIDDEN, one_line

TITLE = "\x1b]0;owned\x07title"
CLIPBOARD = "clip\x1b]52;c;b3duZWQ=\x1b\\board"
CURSOR = "cur\x1b[66;31m\x1b[2Jsor"
LINK = "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\"
C1 = "c1\x9b31mcode\x9d0;owned\x9c"
BIDI = "bidi\u202egpj.exe\u2066"
ZERO_WIDTH = "zero\u200bwidth\ufeff\u00ad"
BACKSPACE = "back\x08\x7fspace\x00\x0b"
ATTACKS = (TITLE, CLIPBOARD, CURSOR, LINK, C1, BIDI, ZERO_WIDTH, BACKSPACE)
LONG = (("".join(ATTACKS) + "[/b][red]price [$] \n") * 40)[:5_000]
"""5,000 characters of every attack."""

BRACKETS = (
    "price [$]",
    "mass [kg]",
    "[/b]",
    "[red]",
    "[link=https://example.org]a",
    "[@click=app.quit]b",
    ":smile: [/]",
)

_RAW = re.compile(f"(?!\n)[{HIDDEN}]")
_OWN_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OWN_NUMBERS = "66;31m"


def raw_characters(output: str) -> list[str]:
    """The hidden characters of an output, each with the text around it; the styles of a terminal program are none."""
    # The live view returns to the start of a line before it moves the cursor.
    rest = _OWN_STYLE.sub("", output.replace("\r\x1b[", "\x1b["))
    found = [rest[max(0, match.start() - 20) : match.end() + 20] for match in _RAW.finditer(rest)]
    return [*found, *(["\x1b[" + _OWN_NUMBERS] if f"\x1b[{_OWN_NUMBERS}" in output else [])]


def shown(name: str) -> str:
    """A name as every view shows it."""
    return one_line(name)


class Terminal:
    """What was written to a pseudo-terminal."""

    def __init__(self) -> None:
        self._content = bytearray()

    def add(self, content: bytes) -> None:
        self._content += content

    @property
    def text(self) -> str:
        return self._content.decode(errors="surrogateescape")


@contextmanager
def pseudo_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 240) -> Generator[Terminal]:
    """A pseudo-terminal as stdout and stderr of this process, without translation of what is written."""
    master, slave = os.openpty()
    tty.setraw(slave)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    terminal = Terminal()

    def read() -> None:
        # Linux reports EIO when the last writer has closed.
        with suppress(OSError):
            while content := os.read(master, 1 << 16):
                terminal.add(content)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with monkeypatch.context() as patch, open(slave, "w", encoding="utf-8") as screen:
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", str(columns))
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            yield terminal
    finally:
        reader.join()
        os.close(master)


Captured = Callable[..., str]


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Captured:
    """Runs a function with a pseudo-terminal; returns what it wrote."""

    def run(function: Callable[[], object]) -> str:
        with pseudo_terminal(monkeypatch) as terminal:
            function()
        return terminal.text

    return run


def piped(capfd: pytest.CaptureFixture[str]) -> Captured:
    """Runs a function with stdout and stderr captured; returns what it wrote."""

    def run(function: Callable[[], object]) -> str:
        capfd.readouterr()
        function()
        captured = capfd.readouterr()
        return captured.out + captured.err

    return run


def file_name(folder: Path, suffix: str) -> Path:
    """A path whose name attacks the terminal; a file name holds no slash."""
    return folder / f"{TITLE} [red]{C1}{suffix}"
