"""Imports for a fit server: a library that is missing or broken affects only its own models, never the server."""

from __future__ import annotations

import importlib
from contextlib import suppress

COMMON = ("numpy", "polars", "sklearn.preprocessing", "tabapp.engine.fit")


def load(*names: str) -> None:
    """Import what every fit needs, then the named libraries. Importing must start no thread and use no GPU."""
    for name in (*COMMON, *names):
        with suppress(Exception):
            importlib.import_module(name)
    with suppress(Exception):
        from tabapp.models import registry

        # Reads the metadata of the installed packages once for all fits.
        registry.names()
