"""The copy of a run's bundle at `--out`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tabapp import files
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder


def copy_bundle(folder: RunFolder, config: RunConfig, emit: Callable[[ev.Event], None]) -> tuple[Path, str]:
    """Copy the bundle of a run to `--out`; returns its path, and a sentence if it could not be written there."""
    if config.out is None:
        return folder.bundle, ""
    out = Path(config.out)
    try:
        files.write_bytes(out, files.read_regular(folder.bundle), shared=True)
    except OSError as error:
        message = (
            f"{out} cannot be written ({error.strerror}). The bundle is in the run; "
            f"copy it with `tabapp export {folder.argument} -o FILE.tabapp`."
        )
        emit(ev.Log(level="warning", message=message))
        return folder.bundle, message
    return out, ""
