"""Paths that a user types, or that the files of a run name. Looking for them never raises, however long or unusual they are."""

from __future__ import annotations

import os
from pathlib import Path

from tabapp.tui.viewmodels.texts import keep_end

_SHOWN = 60


def typed_path(text: str) -> Path:
    """The path of a text; `~` of an unknown user stays, where `Path.expanduser` would raise.

    A name that begins with a dash becomes absolute, since it would be an option of the commands that receive it.
    """
    path = os.path.expanduser(text.strip())
    return Path(path).absolute() if os.path.normpath(path).startswith("-") else Path(path)


def is_file(path: Path) -> bool:
    """Whether there is a file; False for a name that is too long, for which `Path.is_file` raises OSError."""
    return os.path.isfile(path)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False for a name that is too long."""
    return os.path.isdir(path)


def can_be_written(path: Path) -> bool:
    """Whether a path is a file, or a new name that the system accepts in a folder that exists."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return False
    # A tilde that is left names an unknown user; a file of such a name can be written as ./~name.
    return is_folder(path.parent) and not is_folder(path) and not str(path).startswith("~")


def exists(path: Path) -> bool:
    """Whether there is a file or folder; False for a name that is too long."""
    return os.path.exists(path)


def quoted(text: str) -> str:
    """What was typed, for a sentence: the end of a long text, or "Nothing" for an empty one."""
    return keep_end(text.strip(), _SHOWN) or "Nothing"
