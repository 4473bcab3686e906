"""Imports for a fit server: a library that is missing or broken affects only its own models, never the server."""

from __future__ import annotations

import importlib
from contextlib import nullcontext, suppress

COMMON = ("numpy", "polars", "tabapp.engine.fit.run_fit")
SKLEARN = "sklearn.preprocessing"


def load(*names: str, built_in: bool = False) -> None:
    """Import what every fit needs, then the named libraries. Importing must start no thread and use no GPU.

    Built-in models need neither data frames nor plots, so that the libraries are imported without the packages for these, unless
    models of others are installed.

    Args:
        built_in: only fits of built-in models come from the server.
    """
    with suppress(Exception):
        from tabapp.models import lean_imports, registry

        lean = built_in or registry.has_only_built_in()
        with lean_imports.kept_for_good(), lean_imports.postponed() if lean else nullcontext():
            for name in COMMON:
                with suppress(Exception):
                    importlib.import_module(name)
            lean_imports.import_packages(names, lean=lean)
            # Reads the metadata of the installed packages once for all fits.
            registry.names()
