"""Imports what models need, and little else: most of the time of a short prediction or run is imports."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tabapp.models import registry
from tabapp.models.contract import Plugin
from tabapp.models.stated import BOOSTERS, stated_libraries

LEAN = (*sorted(BOOSTERS), "optuna.importance", "sklearn")
OPTIONAL = ("dask", "graphviz", "IPython", "ipywidgets", "matplotlib", "pandas", "plotly", "pyarrow", "sklearn")
"""Packages that those import for estimators, data frames and plots if they are installed: more than a second together."""


POSTPONED = ("scipy.stats",)
"""What scikit-learn imports without needing it for built-in models: up to half a second.

Nothing of torch: its `_meta_registrations` take as long, but importing them also enables `torch.Generator`.
"""
FOR_TEXTS = ("sklearn.feature_extraction.text", "sklearn.preprocessing")
"""What the features of texts need."""


def import_for_prediction(models: Iterable[str], *, with_texts: bool = False) -> list[Plugin]:
    """Import models, and the packages that they need to load and predict.

    Built-in models pass arrays to the boosters, which are then imported without their optional packages, and use nothing of
    `POSTPONED`. Other plugins may pass data frames, and use everything.

    Args:
        models: names of models. Those that are not installed, or do not import, are left out.
        with_texts: also import what the features of texts need.

    Returns:
        The plugins.
    """
    models = list(models)
    lean = registry.are_built_in(models)
    networks = [model for model in models if stated_libraries(model) == "torch"]
    others = [model for model in models if model not in networks]
    plugins: list[Plugin] = []
    with kept_for_good(), ThreadPoolExecutor(1) as pool, postponed() if lean else nullcontext():
        if networks:
            # Where it fails, the import of torch reports why.
            pool.submit(_open_torch)
        for group, more in (others, FOR_TEXTS if with_texts else ()), (networks, ()):
            found = [plugin for model in group if (plugin := registry.find(model).plugin) is not None]
            packages = dict.fromkeys(package for plugin in found for package in _packages(plugin))
            import_packages([*packages, *more], lean=lean)
            plugins += found
    return plugins


def _open_torch() -> None:
    """Open the native libraries of torch in the order in which importing it opens them, while Python imports something else."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    for name, mode in ("libtorch_global_deps", ctypes.RTLD_GLOBAL), ("libtorch_cpu", ctypes.DEFAULT_MODE):
        for library in Path(spec.origin).with_name("lib").glob(f"{name}.*"):
            ctypes.CDLL(str(library), mode)


@contextmanager
def kept_for_good() -> Generator[None]:
    """Collect no garbage within the block, and never examine the objects that exist at its end.

    For imports, whose objects stay as long as the process: examining them again and again takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def import_packages(packages: Iterable[str], *, lean: bool) -> None:
    """Import packages; one that does not import is left to the code that needs it, which reports it.

    Args:
        lean: import the boosters, the rankings of Optuna and scikit-learn without the optional packages that they import if
            installed.
    """
    # In this order, because what is imported cannot be hidden.
    for package in sorted(packages, key=_place):
        root = package.partition(".")[0]
        hidden = [name for name in OPTIONAL if name != root] if lean and {package, root} & {*LEAN} else []
        with suppress(Exception), _hidden(hidden):
            __import__(package)


def _place(package: str) -> int:
    name = package if package in LEAN else package.partition(".")[0]
    return LEAN.index(name) if name in LEAN else len(LEAN)


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


class _Later:
    """A member of a postponed module, which is imported when the member is first called, or something is read of it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._member()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._member(), name)

    def _member(self) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


class _Postponed(ModuleType):
    """Takes the place of a module. What is imported from it, or read of it later, is a `_Later`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(self.__name__, name)


@contextmanager
def postponed() -> Generator[None]:
    """Let imports of `POSTPONED` have no effect until what they offer is used; later imports find the modules."""
    placed = {name: _Postponed(name) for name in POSTPONED if name not in sys.modules}
    sys.modules.update(placed)
    try:
        yield
    finally:
        for name in placed:
            del sys.modules[name]
