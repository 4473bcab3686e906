"""Output of the commands: text and messages are printable, JSON is escaped, and piped data is unchanged.

Messages on stderr are complete sentences after the program's name. Stdout is reserved for data.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from tabapp.printable import ascii_json, escape_json, multi_line, one_line
from tabapp.streams import is_unicode, named, write_line


def sentence(message: str) -> str:
    """Format a message as one line that starts with a capital letter and ends with a punctuation mark.

    A first word that is a file or an option keeps its spelling.
    """
    text = one_line(" ".join(re.split(r"[ \t\n]+", message.strip(" \t\n"))))
    if re.match(r"[a-z]+(['’][a-z]+)?(\s|$)", text):
        text = text[0].upper() + text[1:]
    text = re.sub(r"([.?!…])\.$", r"\1", text)
    return text if text.endswith((".", "?", "!", "…")) else text + "."


def say(message: str) -> None:
    """Print a sentence on stderr."""
    write_line(f"tabapp: {sentence(message)}", err=True)


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line for people, which may contain data."""
    write_line(one_line(line), err=err)


def echo_json(document: str | bytes) -> None:
    """Print JSON on stdout, with the hidden characters of its strings escaped, and a newline at its end. All other characters are
    escaped, too, where stdout is not UTF-8."""
    text = document if isinstance(document, str) else document.decode()
    escaped = escape_json if is_unicode(sys.stdout) else ascii_json
    write_line(escaped(text.rstrip("\n")), err=False)


def json_text(value: Any) -> str:
    """A document as indented JSON. File names may have bytes that are not text, which only `json` writes."""
    import msgspec

    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=1)


def echo_data(content: bytes) -> None:
    """Write data to stdout: unchanged into a pipe or a file, printable on a terminal."""
    try:
        if sys.stdout.isatty():
            sys.stdout.write(multi_line(content.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise named(error) from None
