"""What the configuration of a run may decide outside of its folder: only what this user wrote into it.

A run from elsewhere reads its tables from its own folder, writes its bundle into it, and runs its fits on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tabapp import files
from tabapp.errors import UsageError, option
from tabapp.run.options.config import RunConfig
from tabapp.run.record.events import RunFinished
from tabapp.run.record.folder import RunFolder

TABLES = ("test", "unlabelled")
"""Options that name a further table."""
MOST_SHOWN = 100
CHANGEABLE = (*TABLES, "out")
"""Options that name a file outside of the run folder which its owner may change before the start."""
OUTSIDE = ("data", *CHANGEABLE, "executor", "address")
"""Options that name something outside of the run folder: what to read, to write, and to connect to."""


def own_config(folder: RunFolder, warn: Callable[[str], None] | None = None) -> RunConfig:
    """The configuration of a run, confined to its folder unless this user wrote it.

    Args:
        warn: receives a sentence about the files that a run from elsewhere names and that are left out.

    Raises:
        UsageError: `run.json` is missing or cannot be understood.
    """
    config = folder.config()
    if folder.is_own():
        return config
    tables = {name: inside(folder, getattr(config, name)) for name in TABLES}
    kept = {name: str(path) if path is not None and _is_file(path) else None for name, path in tables.items()}
    data = inside(folder, config.data) or folder.path / "data.csv"
    confined = msgspec.structs.replace(config, data=str(data), out=None, executor="local", address=None, **kept)
    named = {name: getattr(config, name) for name in (*TABLES, "out")}
    left_out = [
        f"{option(name)} {shown(path)}" for name, path in named.items() if path is not None and not kept.get(name)
    ]
    if left_out and warn is not None:
        warn(
            f"The run {folder.run} was made by another user, on another machine, or by an older version. Files that it names "
            f"elsewhere are not used: {', '.join(left_out)}. Copy a table into the run folder to use it; `tabapp resume` with "
            f"{option('out')} writes the bundle to another place."
        )
    return confined


def shown(path: str) -> str:
    """A path from a file in a sentence: quoted, escaped and not too long."""
    return repr(path if len(path) <= MOST_SHOWN else f"{path[:MOST_SHOWN]}…")


def inside(folder: RunFolder, path: str | None) -> Path | None:
    """The file of this name in a run folder; None if the path has no name."""
    name = "" if path is None else Path(path).name
    return folder.path / name if files.is_plain_name(name) else None


def _is_file(path: Path) -> bool:
    try:
        files.open_to_read(path).close()
    except (OSError, ValueError):
        return False
    return True


def reject_outside(options: Mapping[str, object], own: RunConfig | None = None) -> None:
    """Check that a change of the plan names nothing outside of the run folder, except a file that this user has also written into
    the configuration: anybody who can write into the folder can append a command.

    Args:
        own: the configuration, if this user wrote it.

    Raises:
        UsageError: names the option.
    """
    for name, value in options.items():
        is_written = own is not None and name in CHANGEABLE and getattr(own, name) == value
        if name in OUTSIDE and not is_written:
            raise UsageError(f"{option(name)} is chosen when a run is created. Start a new run with it.")


def bundle_of(folder: RunFolder, finished: RunFinished | None, *, is_own: bool) -> Path:
    """The bundle of a run that a view offers: the file that its last event names, if this user made the run or the file is in
    the run folder; else that of the run folder."""
    if finished is None or not finished.bundle:
        return folder.bundle
    named = Path(os.path.normpath(finished.bundle))
    return named if (is_own or named.is_relative_to(folder.path)) and _is_file(named) else folder.bundle
