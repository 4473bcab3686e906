"""Checks of the paths that a user gives: what a run can record, and outputs that would replace an input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.files import is_address
from tabapp.run.options.config import RunConfig

AnyPath = str | os.PathLike[str]


def reject_undecodable(config: RunConfig, runs_dir: Path) -> None:
    """Refuse options and a folder with bytes that are not UTF-8: run files are JSON, and model libraries take no such path.

    Raises:
        UsageError: names the text.
    """
    for value in (str(runs_dir), *(getattr(config, field) for field in config.__struct_fields__)):
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError:
            what = f"{value} contains" if isinstance(value, str) else "An option contains"
            raise UsageError(f"{what} bytes that are not UTF-8, which a run cannot record. Rename it.") from None


def reject_inputs(output: AnyPath | None, inputs: Iterable[AnyPath | None]) -> None:
    """Refuse an output that is an input, by whatever name or link, before any work is done.

    Args:
        output: a file or folder to be written; None and `-` are stdout.
        inputs: paths to be read; None and `-` are none.

    Raises:
        UsageError: names both.
    """
    if output is None or output == "-" or _is_stream(output):
        return
    for path in inputs:
        if path is not None and path not in ("-", "") and is_same_file(output, path):
            raise UsageError(f"The output {output} is the same file as the input {path}. Choose another output.")


def tables_of(config: RunConfig) -> tuple[str | None, ...]:
    """The tables that a run reads."""
    return config.data, config.test, config.unlabelled


def is_same_file(one: AnyPath, other: AnyPath) -> bool:
    """Whether two paths are names of one file, which need not exist yet."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        pass
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


def _is_stream(path: AnyPath) -> bool:
    """Whether writing to a path replaces nothing, as for a terminal, a pipe or the null device."""
    try:
        return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    except ValueError:
        return False


def check_file(path: str) -> None:
    """Reject a missing, empty or unreadable file before an engine starts.

    Raises:
        DataError: names the file and the problem.
    """
    file = Path(path)
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        status = None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(
            f"{path[:100]}{'…' if len(path) > 100 else ''} cannot be opened ({reason}). Check the path."
        ) from None
    if file.is_dir():
        raise DataError(f"{path} is a directory, not a table. Choose a file inside it.")
    if status is None and is_address(path):
        raise DataError(f"{path} is an address on a network. Download the file, and give its path.")
    if status is None:
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise DataError(f"There is no file {path}{did_you_mean(file.name, beside) or '; check the path.'}")
    if file.is_file() and file.stat().st_size == 0:
        raise DataError(f"{path} is empty. Choose a file that contains a table.")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} may not be read by this user. Change its permissions.")


def checked_out(out: Path) -> Path:
    """Refuse at once a place for the bundle that could not be written at the end.

    Raises:
        UsageError: it is a directory or a device, or its folder is not there or may not be written.
    """
    if out.is_dir():
        raise UsageError(f"--out {out} is a directory. Choose a file inside it.")
    if out.exists() and not out.is_file():
        raise UsageError(f"--out {out} is not a regular file. Choose another path.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}. Create it first.")
    if not os.access(out.absolute().parent, os.W_OK):
        raise UsageError(f"--out {out}: the folder {out.absolute().parent} cannot be written. Choose another folder.")
    return out
