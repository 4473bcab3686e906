"""The options that choose where the fits of an earlier run continue."""

from __future__ import annotations

from typing import Any

import click

from tabapp.cli.options import Choice
from tabapp.run.options.config import Executor, RunConfig
from tabapp.run.options.settings import load_settings


def cluster_options(function: Any) -> Any:
    """The options that choose where the fits of an earlier run continue; see `chosen_cluster`."""
    address = click.option(
        "--address",
        metavar="ADDRESS",
        help="Address of the Ray cluster [default: $RAY_ADDRESS, else a cluster on this machine].",
    )
    executor = click.option(
        "--executor",
        type=Choice(["local", "ray"]),
        metavar="NAME",
        help="Where fits run: local for this machine, ray for a cluster. Needed if the run used a cluster.",
    )
    return executor(address(function))


def chosen_cluster(
    recorded: RunConfig, executor: Executor | None, address: str | None
) -> tuple[Executor | None, str | None]:
    """The options of `cluster_options`, with the defaults in the user's configuration for a run that used a cluster.

    Raises:
        UsageError: the configuration is not valid.
    """
    if executor is not None or address is not None or recorded.executor != "ray":
        return executor, address
    defaults = load_settings().run
    return ("ray", defaults.get("address")) if defaults.get("executor") == "ray" else (None, None)
