"""Loads in the background what a run needs only after its first fits have started."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress

from tabapp.engine.executors import Executor
from tabapp.models import registry

END_OF_RUN = "tabapp.engine.finish"
"""It comes first: the end of a short run must not wait for it."""
PARAMETER_RANKING = "optuna.importance"
"""It imports scikit-learn, which takes two seconds of processor time."""


class BackgroundLoader:
    """Starts the fit server of the deep models, and imports what the end of a run needs and the plugins that take seconds.

    Args:
        models: names of the plugins to import.
        executor: runs the fits of these models.
        ranks_parameters: whether the run may have enough trials to rank hyperparameters.
    """

    def __init__(self, models: Sequence[str], executor: Executor, *, ranks_parameters: bool) -> None:
        self._models, self._executor = tuple(models), executor
        self._modules = (END_OF_RUN, PARAMETER_RANKING) if ranks_parameters else (END_OF_RUN,)
        self._thread: threading.Thread | None = None
        self._imported = threading.Event()
        self._cancelled = False

    def start(self) -> None:
        """Start loading; a second call does nothing."""
        if self._thread is not None:
            return
        if self._models:
            self._executor.prepare("torch")
        # Not a daemon: a thread that is stopped within an import crashes the interpreter at its exit.
        self._thread = threading.Thread(target=self._load)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the plugins are imported and a fit of theirs starts without delay."""
        return self._imported.is_set() and (not self._models or self._executor.is_ready("torch"))

    def cancel(self) -> None:
        """Import nothing more after the import in progress."""
        self._cancelled = True

    def _load(self) -> None:
        for module in self._modules:
            # An import that fails is reported by the code that needs it.
            with suppress(Exception):
                importlib.import_module(module)
        for name in self._models:
            if self._cancelled:
                return
            registry.find(name)
        self._imported.set()
