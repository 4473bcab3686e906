"""Checks of the paths that a user gives: what a run can record, and outputs that would replace an input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tabapp.errors import UsageError
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
