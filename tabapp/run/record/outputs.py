"""Outputs of the commands on a run, none of which may replace what the run has read or written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tabapp.errors import UsageError
from tabapp.run.options.places import reject_inputs, tables_of
from tabapp.run.record.folder import RunFolder

OWN_FILES = (
    "run.json",
    "events.jsonl",
    "commands.jsonl",
    "labels.json",
    "lock",
    "log.txt",
    "plan.json",
    "targets.json",
    "splits.npz",
    "study.db",
    "ensemble.json",
    "importances.json",
    "model.tabapp",
    "stdin.csv",
)
OWN_FOLDERS = ("data", "features", "fits", "checkpoints", "targets")


def reject_replacing(folder: RunFolder, output: str | Path | None) -> None:
    """Refuse an output that is a table that a run has read, or one of the run's own files, before any work is done.

    Args:
        output: a file or folder to be written; None is none.

    Raises:
        UsageError: names the file.
    """
    if output is None:
        return
    with suppress(ValueError):
        beginning, inside = os.path.realpath(folder.path), os.path.realpath(output)
        if any(inside.startswith(os.path.join(beginning, name, "")) for name in OWN_FOLDERS):
            raise UsageError(f"The output {output} is among the files of the run {folder.run}. Choose another output.")
    reject_inputs(output, [folder.path / name for name in OWN_FILES])
    reject_inputs(output, _tables(folder))


def _tables(folder: RunFolder) -> tuple[str | None, ...]:
    """The tables that a run reads; none if its configuration cannot be read."""
    try:
        return tables_of(folder.config())
    except UsageError:
        return ()
