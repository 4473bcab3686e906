"""The options that choose where the fits of an earlier run continue."""

from __future__ import annotations

from tabapp.cli.options import all_of, run_option
from tabapp.run.options.config import Executor, RunConfig
from tabapp.run.options.settings import load_settings

cluster_options = all_of(
    run_option(
        "executor",
        summary="Where fits run: local for this machine, ray for a cluster. Needed if the run used a cluster.",
        default=None,
    ),
    run_option("address"),
)
"""The options that choose where the fits of an earlier run continue; see `chosen_cluster`."""


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
