"""Imports for a fit server: a library that is missing or broken affects only its own models, never the server."""

from __future__ import annotations

import importlib
from contextlib import suppress

COMMON = ("numpy", "polars", "tabapp.engine.fit.run_fit")
SKLEARN = "sklearn.preprocessing"


def load(*names: str, lean: bool = False) -> None:
    """Import what every fit needs, then the named libraries. Importing must start no thread and use no GPU.

    Args:
        lean: import the libraries without the packages that they use only if installed.
    """
    for name in COMMON if lean else (*COMMON, *names):
        with suppress(Exception):
            importlib.import_module(name)
    with suppress(Exception):
        from tabapp.models import lean_imports, registry

        if lean:
            lean_imports.import_packages(names, lean=True)
        # Reads the metadata of the installed packages once for all fits.
        registry.names()
