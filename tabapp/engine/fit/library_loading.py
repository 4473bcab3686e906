"""The libraries of each model, and what a run loads in the background once its first fits have started."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from tabapp.engine.fit.executors import Executor
from tabapp.engine.fit.servers import FEW_CORES, SERVERS
from tabapp.models import registry, stated
from tabapp.models.contract import Plugin
from tabapp.models.lean_imports import import_packages
from tabapp.models.stated import Libraries

END_OF_RUN = "tabapp.engine.finish.run_end"
"""It comes before the plugins: the end of a short run must not wait for it."""
PARAMETER_RANKING = "optuna.importance"
"""It imports scikit-learn if it can, for a ranking that tabapp does not use: more than a second of processor time."""


def libraries_of(plugin: Plugin, *, features_use_sklearn: bool) -> Libraries:
    """The libraries that the fits of a model need.

    Args:
        features_use_sklearn: whether scikit-learn computes some of its features.
    """
    libraries = stated.libraries_of(plugin.requires)
    # Plugins of others may pass data frames to a booster, which must find pandas at its import for that.
    needs_more = features_use_sklearn or not registry.is_built_in(plugin)
    return "trees" if libraries == "boosters" and needs_more else libraries


def split_models(
    names: Sequence[str], fitted: Collection[str], libraries_of: Callable[[str], Libraries]
) -> tuple[list[str], dict[str, Libraries]]:
    """Models whose plugins load at once, because they have fits or need the libraries that load first, and the libraries of the
    others.

    Args:
        libraries_of: returns the libraries of a model, and imports its plugin; not called for models that count as torch.
    """
    needs: dict[str, Libraries] = {
        name: "torch" if stated.stated_libraries(name) == "torch" else libraries_of(name) for name in names
    }
    first = next(libraries for libraries in SERVERS if libraries in needs.values())
    at_once = [name for name in names if name in fitted or needs[name] == first]
    return at_once, {name: needs[name] for name in names if name not in at_once}


class BackgroundLoader:
    """Starts fit servers, on few cores one after another, and imports what the end of a run needs and plugins that take seconds.
    On few cores, these imports begin once the first models that need no plugin are ready.

    Args:
        models: the models to load, with the libraries of their fits.
        pending: those whose plugins are to be imported.
        first: the libraries of a model that waits for nothing else, and comes before the others in the queue; None without any.
        boosters: boosting libraries of competing models, which are imported for the importances.
        executor: runs the fits of these models.
        ranks_parameters: whether the run may have enough trials to rank hyperparameters.
        n_cores: of the run; where they are few, a second server would take time from the first fits.
        plugins_first: import the plugins before all else, so that a GPU does not wait for what the end of a run needs.
    """

    def __init__(
        self,
        models: Mapping[str, Libraries],
        executor: Executor,
        *,
        pending: Collection[str],
        first: Libraries | None,
        boosters: Collection[str],
        ranks_parameters: bool,
        n_cores: int,
        plugins_first: bool = False,
    ) -> None:
        self._waiting, self._executor = dict(models), executor
        self._boosters = tuple(boosters)
        self._plugins = tuple(pending)
        self._first: Libraries | None = first
        self._order: tuple[Libraries, ...] = ("torch", "trees") if first == "torch" else ("trees", "torch")
        self._ranks_parameters = ranks_parameters
        self._plugins_first = plugins_first
        self._servers_at_once = 1 if n_cores <= FEW_CORES else 2
        self._started = False
        self._thread: threading.Thread | None = None
        self._imported = threading.Event()
        self._cancelled = False

    def start(self) -> None:
        """Start loading; a second call does nothing."""
        if self._started:
            return
        self._started = True
        self._prepare_next()
        if self._servers_at_once > 1 or self._first is None:
            self._start_imports()

    @property
    def is_done(self) -> bool:
        """Whether `take_ready` has returned all models."""
        return not self._waiting

    def take_ready(self) -> list[str]:
        """The models that became ready since the last call: their plugins are imported, and their fits start without delay."""
        if not self._started:
            return []
        ready = [name for name, libraries in self._waiting.items() if self._is_ready(name, libraries)]
        for name in ready:
            del self._waiting[name]
        if ready:
            self._prepare_next()
            self._start_imports()
        return ready

    def cancel(self) -> None:
        """Import nothing more after the import in progress."""
        self._cancelled = True

    def _start_imports(self) -> None:
        if self._thread is None:
            # Not a daemon: a thread that is stopped within an import crashes the interpreter at its exit.
            self._thread = threading.Thread(target=self._load)
            self._thread.start()

    def _is_ready(self, name: str, libraries: Libraries) -> bool:
        return (name not in self._plugins or self._imported.is_set()) and self._executor.is_ready(libraries)

    def _prepare_next(self) -> None:
        needed: list[Libraries] = [libraries for libraries in self._order if libraries in self._waiting.values()]
        for libraries in needed[: self._servers_at_once]:
            self._executor.prepare(libraries)

    def _load(self) -> None:
        steps = self._import_end, self._find_plugins
        for step in reversed(steps) if self._plugins_first else steps:
            step()

    def _import_end(self) -> None:
        if self._cancelled:
            return
        # An import that fails is reported by the code that needs it.
        with suppress(Exception):
            importlib.import_module(END_OF_RUN)
        # Before scikit-learn and pandas, which they import if they can.
        packages = (*self._boosters, *([PARAMETER_RANKING] if self._ranks_parameters else []))
        import_packages(packages, lean=registry.has_only_built_in())

    def _find_plugins(self) -> None:
        for name in self._plugins:
            if self._cancelled:
                return
            registry.find(name)
        self._imported.set()
