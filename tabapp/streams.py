"""The standard streams of a command: closed ones, and those whose encoding lacks some characters.

A character that a stream cannot show never ends a command. tabapp's own signs, such as bars and arrows, become ASCII; characters of
the user's data become escapes such as `\\xf6`, which lose nothing.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

PLAIN = "tabapp.plain"
"""Name of the error handler for encoding."""

_GROUPS = {
    "~": "≈",
    "-": "·•—–−─━╸╺░▒▁▂▃▏▎▍",
    "|": "│┃‖",
    "+": "┤├✓",
    "#": "█▓▄▅▆▇▉▊▋▌■",
    "*": "●◆◇★◎✎",
    "o": "○◔◐⊘",
    ">": "▸›",
    "<": "‹",
    "v": "↓▾▼",
    "^": "↑▲",
    "x": "✗×",
    "i": "ⓘ",
    "!": "⚠",
    '"': "“”",
    "'": "‘’",
    "?": "�",
    "...": "…",
    "->": "→",
    "<-": "←",
    "<->": "⇄",
    "+-": "±",
    "!=": "≠",
    "<=": "≤",
    ">=": "≥",
    "1/8": "⅛",
    "EUR": "€",
    "\\n": "⏎",
}
_SIGNS = {sign: plain for plain, signs in _GROUPS.items() for sign in signs}
_BRAILLE = range(0x2800, 0x2900)
_CONTROL_PICTURES = range(0x2400, 0x2440)


def _in_ascii(character: str) -> str:
    code = ord(character)
    if code in _BRAILLE:
        return " " if code == _BRAILLE.start else "."
    if code in _CONTROL_PICTURES:
        return "?"
    return _SIGNS.get(character) or character.encode("ascii", "backslashreplace").decode()


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


codecs.register_error(PLAIN, _replace)


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can show every character. A stream without an encoding is an object in memory, which can."""
    encoding = getattr(stream, "encoding", None)
    return not encoding or encoding.lower().startswith("utf")


def prepare_streams() -> None:
    """Open the null device in place of closed streams, and let the others show what they can, without errors.

    A closed descriptor would be that of the next file that is opened, into which a library might print.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            opened = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)


def release_streams() -> None:
    """Forget what could not be written. Otherwise Python fails once more when it closes the streams, with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_line(text: str, *, err: bool) -> None:
    """Write a line to stdout or stderr.

    Raises:
        BrokenPipeError: the reader of the stream has exited.
        OSError: stdout cannot be written. A message that stderr does not take is lost.
    """
    stream = sys.stderr if err else sys.stdout
    if not is_unicode(stream):
        text = text.encode(stream.encoding, PLAIN).decode(stream.encoding)
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if not err:
            raise named(error) from None


def named(error: OSError) -> OSError:
    """An error of writing stdout, with the name that a message shows."""
    return OSError(error.errno, error.strerror, "Standard output")
