"""Makes text from files printable: no character of it can control a terminal, reorder text, or stay invisible.

Column names, category labels, file names and the metadata of a bundle or a run come from files that somebody else may have written.
Every view passes them through this module.

Each replaced character becomes exactly one visible character of one cell, so that offsets and styles of a text stay valid. C0
controls and DEL become their control pictures (U+2400 ff.), such as ␛ for ESC. All others become U+FFFD. An escape such as
`\\x1b` would take four cells, and look the same as these four characters in a cell.
"""

from __future__ import annotations

import re

REPLACEMENT = "�"
NEWLINE, TAB = "⏎", "→"

# Cc, Cf, Cs, Zl and Zp, and whatever Unicode lets a renderer ignore (Default_Ignorable_Code_Point). Exempt are VS15 and VS16, which
# choose the form of an emoji, and the visible number signs of Arabic and other scripts, which are Cf too.
_C0_IN_LINES = "\x00-\x08\x0b-\x1f"
_OTHERS = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
HIDDEN = f"\t\n{_C0_IN_LINES}{_OTHERS}"
_HIDDEN = re.compile(f"[{HIDDEN}]")
_HIDDEN_IN_LINES = re.compile(f"[{_C0_IN_LINES}{_OTHERS}]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_CONTROL = re.compile(f"[{_C0_IN_LINES}\x7f-\x9f]")


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 32:
        return chr(0x2400 + code)
    return "␡" if code == 127 else REPLACEMENT


def _visible_in_line(found: re.Match[str]) -> str:
    return {"\n": NEWLINE, "\t": TAB}.get(found[0]) or _visible(found)


def is_printable(text: str) -> bool:
    """Whether `one_line` returns a text unchanged."""
    return _HIDDEN.search(text) is None


def one_line(text: str) -> str:
    """A text as one printable line of as many characters; a newline becomes ⏎ and a tab →."""
    return _HIDDEN.sub(_visible_in_line, text)


def multi_line(text: str) -> str:
    """A text as printable lines of as many characters; newlines and tabs stay."""
    return _HIDDEN_IN_LINES.sub(_visible, text)


def without_controls(text: str) -> str:
    """A text whose control characters are visible; it keeps newlines, tabs and characters without a width, such as joiners.

    For the clipboard: in a terminal, a pasted control character can end the paste and run what follows.
    """
    return _CONTROL.sub(_visible, text)


def escape_json(line: str) -> str:
    """JSON with every hidden character of its strings escaped as \\uXXXX; it decodes to the same values.

    JSON itself demands this only of C0 controls. Newlines and tabs between values stay.
    """
    return _HIDDEN_IN_LINES.sub(_json_escape, line)


def ascii_json(line: str) -> str:
    """JSON with every character beyond ASCII escaped, too; it decodes to the same values."""
    return _NOT_ASCII.sub(_json_escape, escape_json(line))


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
