"""The server that fit processes are forked from: it loads the heavy libraries once, while the engine still reads the data."""

from __future__ import annotations

from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext


def fit_context() -> ForkServerContext:
    """The context whose processes start from the server."""
    return get_context("forkserver")


def warm_up() -> None:
    """Start the server and its imports in the background."""
    fit_context().set_forkserver_preload(["tabapp.engine.preload"])
    forkserver.ensure_running()
