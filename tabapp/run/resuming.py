"""The configuration with which a run continues."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabapp.errors import UsageError
from tabapp.run.config import RunConfig
from tabapp.run.folder import EventReader, RunBusy, RunFolder
from tabapp.run.outputs import reject_replacing
from tabapp.run.places import reject_undecodable
from tabapp.run.state import replay, seconds_used


def save_resumed(folder: RunFolder, config: RunConfig) -> None:
    """Save the configuration with which a run continues.

    Raises:
        UsageError: the run folder cannot be written, a path cannot be recorded, or the bundle would replace a file of the run.
    """
    reject_undecodable(config, folder.path)
    reject_replacing(folder, config.out)
    try:
        folder.save_config(config)
    except OSError as error:
        raise UsageError(
            f"{folder.path} cannot be written: {error.strerror}. Copy the run folder to a place that you may write to, "
            "and resume the copy."
        ) from None


def resumed_config(
    folder: RunFolder, budget: float | None, trials: int | None, *, runs_dir: Path, out: str | None = None
) -> RunConfig:
    """The configuration of a run with more time or trials; save it with `save_resumed`.

    A run outside `runs_dir` may come from somebody else: the place of its bundle is then not taken from its configuration.

    Args:
        budget: seconds in addition to those already used.
        trials: a new maximum number of trials per model.
        runs_dir: the user's folder of runs.
        out: a new place for a copy of the bundle; None keeps that of a run in `runs_dir`.

    Raises:
        RunBusy: an engine is running.
        UsageError: the run is complete, and neither budget nor trials is set.
    """
    if folder.is_running():
        raise RunBusy(folder.busy_sentence)
    history = EventReader(folder.events).read_new()
    finished = replay(history).finished
    if finished is not None and finished.status == "ok" and budget is None and trials is None:
        raise UsageError(
            f"The run {folder.run} is complete; give it more with --budget or --trials, or start a new one."
        )
    config = msgspec.structs.replace(folder.config(), start=True)
    if out is not None or folder.path.parent.resolve() != runs_dir.resolve():
        config = msgspec.structs.replace(config, out=out)
    if budget is not None:
        config = msgspec.structs.replace(config, budget=seconds_used(history) + budget)
    if trials is not None:
        config = msgspec.structs.replace(config, trials=trials)
    return config
