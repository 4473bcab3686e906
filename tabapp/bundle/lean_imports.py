"""Imports what the models of a bundle need to predict, and little else: most of the time of a short prediction is imports."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from tabapp.models.contract import Plugin

LEAN = ("catboost", "lightgbm", "xgboost", "sklearn")
OPTIONAL = ("dask", "graphviz", "IPython", "ipywidgets", "matplotlib", "pandas", "plotly", "pyarrow", "sklearn")
"""Packages that those import for estimators, data frames and plots if they are installed: more than a second together."""

_BUILT_IN = "tabapp_plugins"


def import_for_prediction(plugins: Iterable[Plugin]) -> None:
    """Import the packages that the plugins need to load and predict.

    Built-in plugins pass arrays to the boosters, which are then imported without their optional packages. Other plugins may pass
    data frames to them.
    """
    plugins = list(plugins)
    packages = dict.fromkeys(package for plugin in plugins for package in _packages(plugin))
    are_built_in = all(type(plugin).__module__.partition(".")[0] == _BUILT_IN for plugin in plugins)
    # In this order, because what is imported cannot be hidden.
    for package in sorted(packages, key=lambda name: LEAN.index(name) if name in LEAN else len(LEAN)):
        hidden = [name for name in OPTIONAL if name != package] if are_built_in and package in LEAN else []
        # Loading the model reports a package that does not import.
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
