"""The options of a run, their defaults, and the equivalent command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal

import msgspec

from tabapp.errors import UsageError
from tabapp.run.options.bounds import FOLDS, SEED, TRIALS, WORKERS
from tabapp.run.options.lists import join_list

Quality = Literal["fast", "balanced", "best"]
Executor = Literal["local", "ray"]

DEFAULT_BUDGET = 600.0
MOST_HIDDEN = 0.9
"""Largest share of the cells that networks hide in training."""


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of a run. None means that tabapp chooses.

    Attributes:
        data: path of the table.
        budget: seconds that the whole run may take; None with `trials` set means no time limit.
        trials: maximum trials per model; without a budget the run is reproducible.
        address: of a Ray cluster; None means that of RAY_ADDRESS, or else a cluster of this machine's own.
        unlabelled: path of a table of further rows, which are used without their target.
        other_targets: columns that other runs of the same table predict, in the run of one of several targets; no option sets it.
        hide_cells: share of the cells that networks hide in training.
        monotonic: "+" for each column with which predictions may only rise, and "-" where they may only fall.
        start: start as soon as the plan is ready; a screen sets it to False and sends the command `start`.
    """

    data: str
    target: str | None = None
    task: Literal["auto", "binary", "multiclass", "regression"] = "auto"
    metric: str | None = None
    budget: float | None = None
    trials: int | None = None
    quality: Quality = "balanced"
    models: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    validation: Literal["auto", "holdout", "cv"] = "auto"
    folds: int | None = None
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    kinds: dict[str, str] = {}
    test: str | None = None
    unlabelled: str | None = None
    other_targets: tuple[str, ...] = ()
    hide_cells: float = 0.0
    monotonic: dict[str, str] = {}
    positive: str | None = None
    seed: int = 0
    device: str = "auto"
    workers: int | None = None
    memory_limit: int | None = None
    executor: Executor = "local"
    address: str | None = None
    out: str | None = None
    name: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()
    max_memory: int | None = None
    start: bool = True

    @property
    def budget_seconds(self) -> float | None:
        """Seconds for the whole run; None when only the number of trials limits it."""
        if self.budget is None and self.trials is None:
            return DEFAULT_BUDGET
        return self.budget


def check_hidden(share: object) -> float:
    """Check a share of hidden cells, and return it.

    Raises:
        UsageError: names the option, its value and its range.
    """
    if not isinstance(share, float | int) or not 0 <= share <= MOST_HIDDEN:
        raise UsageError(f"--hide-cells {share!r} is not valid. Use a number from 0 to {MOST_HIDDEN:g}.")
    return share


def check_directions(directions: Mapping[str, str]) -> None:
    """Check the values of `--monotonic`.

    Raises:
        UsageError: a value is neither + nor -.
    """
    for column, sign in directions.items():
        if sign not in ("+", "-"):
            raise UsageError(
                f"--monotonic {column + '=' + sign!r} is not valid. Use {column}=+ if predictions may only rise with the "
                f"column, or {column}=- if they may only fall."
            )


def check_address(config: RunConfig) -> None:
    """Reject the address of a cluster that is not used.

    Raises:
        UsageError: names the missing option.
    """
    if config.address is not None and config.executor != "ray":
        raise UsageError("--address is the address of a Ray cluster. Add --executor ray.")


def check_bounds(config: RunConfig) -> None:
    """Reject options that are out of range.

    Raises:
        UsageError: names the option, its value and its range.
    """
    SEED.check("--seed", config.seed)
    for option, bounds, value in (
        ("--folds", FOLDS, config.folds),
        ("--trials", TRIALS, config.trials),
        ("--workers", WORKERS, config.workers),
    ):
        if value is not None:
            bounds.check(option, value)
    check_address(config)
    check_hidden(config.hide_cells)
    check_directions(config.monotonic)
    if config.budget is not None and not config.budget > 0:
        raise UsageError(f"--budget {config.budget!r} is not valid. Use more than 0 seconds.")


def check_folds(config: RunConfig) -> None:
    """Reject a number of folds where the validation scheme has none.

    Raises:
        UsageError: names both options.
    """
    if config.folds is None:
        return
    if config.validation == "holdout":
        raise UsageError("--validation holdout scores one part of the rows, which has no --folds. Remove one of them.")
    if config.time is not None:
        raise UsageError("--time scores the latest rows, which have no --folds. Remove one of them.")


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_budget(text: str) -> float:
    """Read a duration such as `90s`, `10m`, `1.5h` or plain seconds; returns seconds.

    Raises:
        UsageError: it is not a positive duration.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(f"The budget {text!r} is not a duration; write it like 90s, 10m or 2h.")
    return seconds


_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(text: str) -> int:
    """Read a size such as `8GiB`, `512MiB` or plain bytes; returns bytes.

    Raises:
        UsageError: it is not a positive size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    size = int(float(match[1]) * _BYTES[match[2].lower()]) if match else 0
    if size <= 0:
        raise UsageError(f"The memory limit {text!r} is not a size; write it like 8GiB or 512MiB.")
    return size


def format_duration(seconds: float) -> str:
    """Write seconds as a budget option would: 90s, 10m, 2h."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def quoted_command(text: str) -> str:
    """A command of a run from a file, quoted so that a shell that it is pasted into runs nothing but tabapp; empty if it is
    another command."""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    return shlex.join(words) if words[:1] == ["tabapp"] else ""


def command_line(config: RunConfig) -> str:
    """The command that starts an equal run without a screen, for copying into a script."""
    words = ["tabapp", "--auto", config.data]
    defaults = RunConfig(data=config.data)
    for field in config.__struct_fields__:
        value = getattr(config, field)
        if field in ("data", "start", "other_targets") or value == getattr(defaults, field):
            continue
        option = "--kind" if field == "kinds" else "--" + field.replace("_", "-")
        if field == "budget":
            text = format_duration(value)
        elif field in ("kinds", "monotonic"):
            text = join_list(f"{column}={setting}" for column, setting in value.items())
        elif field in ("models", "exclude", "ignore", "null"):
            text = join_list(value)
        else:
            text = str(value)
        words += [option, text]
    return shlex.join(words)
