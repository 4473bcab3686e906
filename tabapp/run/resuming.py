"""The configuration with which a run continues."""

from __future__ import annotations

import msgspec

from tabapp.errors import UsageError
from tabapp.run.config import RunConfig
from tabapp.run.folder import EventReader, RunBusy, RunFolder
from tabapp.run.state import replay, seconds_used


def resumed_config(folder: RunFolder, budget: float | None, trials: int | None) -> RunConfig:
    """The configuration of a run with more time or trials; save it with `RunFolder.save_config`.

    Args:
        budget: seconds in addition to those already used.
        trials: a new maximum number of trials per model.

    Raises:
        RunBusy: an engine is running.
        UsageError: the run is complete, and neither budget nor trials is set.
    """
    if folder.is_running():
        raise RunBusy(f"The run {folder.run} is running. Use `tabapp attach {folder.argument}` to show it.")
    history = EventReader(folder.events).read_new()
    finished = replay(history).finished
    if finished is not None and finished.status == "ok" and budget is None and trials is None:
        raise UsageError(
            f"The run {folder.run} is complete; give it more with --budget or --trials, or start a new one."
        )
    config = msgspec.structs.replace(folder.config(), start=True)
    if budget is not None:
        config = msgspec.structs.replace(config, budget=seconds_used(history) + budget)
    if trials is not None:
        config = msgspec.structs.replace(config, trials=trials)
    return config
