"""The configuration with which a run continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tabapp.errors import UsageError, option
from tabapp.run.options.config import Executor, RunConfig, check_config
from tabapp.run.options.places import reject_undecodable
from tabapp.run.record.confining import own_config, shown
from tabapp.run.record.folder import EventReader, RunBusy, RunFolder
from tabapp.run.record.outputs import reject_replacing
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import seconds_used


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
    folder: RunFolder,
    budget: float | None,
    trials: int | None,
    *,
    out: str | None = None,
    executor: Executor | None = None,
    address: str | None = None,
    warn: Callable[[str], None] | None = None,
) -> RunConfig:
    """The configuration of a run with more time or trials; save it with `save_resumed`.

    Args:
        budget: seconds in addition to those already used.
        trials: a new maximum number of trials per model.
        out: a new place for a copy of the bundle; None keeps that of a run that this user made.
        executor: where the fits run; needed for a run that used a cluster, since no file decides where tabapp connects.
        address: of the Ray cluster.
        warn: receives a sentence about files that a run from elsewhere names, which are not used.

    Raises:
        RunBusy: an engine is running.
        UsageError: the run is complete, and neither budget nor trials is set; an option is needed; or the run comes from
            elsewhere and has not read its table yet.
    """
    if folder.is_running():
        raise RunBusy(folder.busy_sentence)
    history = EventReader(folder.events).read_new()
    finished = replay(history).finished
    if finished is not None and finished.status == "ok" and budget is None and trials is None:
        raise UsageError(
            f"The run {folder.run} is complete; give it more with {option('budget')} or {option('trials')}, or start a new one."
        )
    recorded = folder.config()
    config = msgspec.structs.replace(own_config(folder, warn), start=True)
    if out is not None:
        config = msgspec.structs.replace(config, out=out)
    if budget is not None:
        config = msgspec.structs.replace(config, budget=seconds_used(history) + budget)
    if trials is not None:
        config = msgspec.structs.replace(config, trials=trials)
    config = on_chosen_machines(config, recorded, executor, address, f"tabapp resume {folder.argument}")
    if not folder.has_started:
        _check_table(folder, config, recorded)
    return config


def on_chosen_machines(
    config: RunConfig, recorded: RunConfig, executor: Executor | None, address: str | None, command: str
) -> RunConfig:
    """A configuration whose fits run where the user chooses now, and nowhere else.

    Args:
        recorded: the configuration in the run folder.
        command: of this call, for the sentence.

    Raises:
        UsageError: the run used a cluster and the user chooses nothing, or an option is out of range.
    """
    if executor is None and recorded.executor == "ray":
        raise UsageError(
            f"The run used a Ray cluster. Use `{command} --executor ray --address ADDRESS` to continue on a cluster, or "
            f"{option('executor', 'local')} to continue on this machine."
        )
    config = msgspec.structs.replace(config, executor=executor or "local", address=address)
    check_config(config)
    return config


def _check_table(folder: RunFolder, config: RunConfig, recorded: RunConfig) -> None:
    """Check that a run that has not read its table yet may read it.

    Raises:
        UsageError: the run comes from elsewhere, and its table is not in its folder.
    """
    if config.data != recorded.data and not Path(config.data).is_file():
        raise UsageError(
            f"The run {folder.run} was made by another user or on another machine, and has not read its table "
            f"{shown(recorded.data)} yet. Copy the table to {config.data}, or start a new run with `tabapp DATA`."
        )
