"""Imports what models need, and little else: most of the time of a short prediction or run is imports."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from tabapp.models.contract import Plugin
from tabapp.models.registry import is_built_in
from tabapp.models.stated import BOOSTERS

LEAN = (*sorted(BOOSTERS), "optuna.importance", "sklearn")
OPTIONAL = ("dask", "graphviz", "IPython", "ipywidgets", "matplotlib", "pandas", "plotly", "pyarrow", "sklearn")
"""Packages that those import for estimators, data frames and plots if they are installed: more than a second together."""


def import_for_prediction(plugins: Iterable[Plugin]) -> None:
    """Import the packages that the plugins need to load and predict.

    Built-in plugins pass arrays to the boosters, which are then imported without their optional packages. Other plugins may pass
    data frames to them.
    """
    plugins = list(plugins)
    packages = dict.fromkeys(package for plugin in plugins for package in _packages(plugin))
    import_packages(packages, lean=all(map(is_built_in, plugins)))


def import_packages(packages: Iterable[str], *, lean: bool) -> None:
    """Import packages; one that does not import is left to the code that needs it, which reports it.

    Args:
        lean: import the boosters, the rankings of Optuna and scikit-learn without the optional packages that they import if
            installed.
    """
    # In this order, because what is imported cannot be hidden.
    for package in sorted(packages, key=lambda name: LEAN.index(name) if name in LEAN else len(LEAN)):
        hidden = [name for name in OPTIONAL if name != package] if lean and package in LEAN else []
        with suppress(Exception), _hidden(hidden):
            __import__(package)


def _packages(plugin: Plugin) -> tuple[str, ...]:
    return plugin.requires if plugin.predict_requires is None else plugin.predict_requires


@contextmanager
def _hidden(names: Iterable[str]) -> Generator[None]:
    """Make packages that are not imported yet seem missing; later imports find them."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # pyright: ignore[reportArgumentType, reportCallIssue] (None: not importable)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
