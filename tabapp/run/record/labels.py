"""What a user writes on a run: a name, a note, tags and a pin, in the file `labels.json` of its folder.

The engine never reads or writes this file, so a label can change while a run is in progress.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabapp import files
from tabapp.errors import UsageError, did_you_mean

FILE = "labels.json"
MOST_BYTES = 1 << 16
"""Largest file of labels."""
LONGEST_NAME = 100


class RunLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The labels of a run.

    Attributes:
        name: replaces the name that the run was started with; empty keeps it.
        note: text of the user.
        tags: words without spaces, each once, in the order in which they were given.
        pinned: whether lists show the run first.
    """

    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False


def read_labels(folder: Path) -> RunLabels:
    """The labels in the folder of a run; none if it has no file of labels.

    Raises:
        UsageError: the file cannot be read or understood; names an unknown key.
    """
    path = folder / FILE
    try:
        with files.open_to_read(path) as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return RunLabels()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path} has more than {MOST_BYTES:,} bytes. Shorten its note.")
    try:
        return msgspec.json.decode(content, type=RunLabels)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be understood: {_problem(str(error))}") from None


def save_labels(folder: Path, labels: RunLabels) -> None:
    """Replace the labels of a run, atomically.

    Raises:
        UsageError: the present labels cannot be understood, and would be lost; or the folder cannot be written.
    """
    read_labels(folder)
    content = msgspec.json.format(msgspec.json.encode(labels), indent=1) + b"\n"
    if len(content) > MOST_BYTES:
        raise UsageError(f"The labels have more than {MOST_BYTES:,} bytes. Shorten the note.")
    try:
        files.write_bytes(folder / FILE, content, mode=files.PRIVATE_FILE)
    except OSError as error:
        raise UsageError(f"{folder / FILE} cannot be written: {error.strerror}.") from None


def parse_tags(text: str) -> tuple[str, ...]:
    """The tags of a text, separated by spaces or commas, each once; a leading # is dropped."""
    words = (word.lstrip("#") for word in text.replace(",", " ").split())
    return tuple(dict.fromkeys(word for word in words if word))


def parse_name(text: str) -> str:
    """A name of a run without surrounding spaces.

    Raises:
        UsageError: it is too long, or looks like a path, which commands would open instead of the run.
    """
    name = text.strip()
    if len(name) > LONGEST_NAME:
        raise UsageError(f"A name has at most {LONGEST_NAME} characters; this one has {len(name)}.")
    if "/" in name or name in (".", "..", "last"):
        raise UsageError(f"{name!r} cannot be a name: commands read it as a path or as the newest run.")
    return name


def _problem(message: str) -> str:
    """An error of msgspec as a sentence, with the nearest known key."""
    quoted = message.split("`")
    if "unknown field" in message and len(quoted) > 1:
        fields = RunLabels.__struct_fields__
        hint = did_you_mean(quoted[1], fields) or f"; the keys are {', '.join(fields)}."
        return f"{quoted[1]!r} is not a key{hint}"
    return f"{message.replace('`', '')}."
