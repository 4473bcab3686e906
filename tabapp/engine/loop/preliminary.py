"""Importances of the best model so far that is fast enough, computed beside the fits in time that they leave."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.explained_model import explained_model, n_passes
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.time_share import Allowance
from tabapp.explain.agreement import combine
from tabapp.explain.permutation import permutation_importance
from tabapp.models import registry
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder

N_REPEATS = 2
MOST_ROWS = 1_000
MOST_SECONDS = 3.0
"""After which no further shuffle starts."""
PAUSE_SECONDS = 10.0
"""Least seconds between two computations."""
BUSY_SHARE, FIRST_BUSY_SECONDS = 0.005, 0.5
"""Importances while all workers are busy take at most the first share of the elapsed time, plus these seconds."""


@dataclass
class PreliminaryImportances:
    """Computes importances in a thread when a worker is idle, and rarely otherwise.

    Networks are left out as long as torch is not loaded, which takes seconds of processor time.
    """

    folder: RunFolder
    data: RunData
    board: Board
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _computing: Future[ev.ImportancesReady | None] | None = None
    _allowance: Allowance = field(default_factory=lambda: Allowance(BUSY_SHARE, FIRST_BUSY_SECONDS))
    _known: str = ""
    _began: float = 0.0

    def refresh(self, *, idle: bool, loading: bool) -> ev.ImportancesReady | None:
        """Start or collect a computation; returns importances that are new.

        Args:
            idle: a worker has no fit.
            loading: libraries are imported in another thread, which would slow down a computation until its deadline.
        """
        if self._computing is not None:
            if not self._computing.done():
                return None
            future, self._computing = self._computing, None
            # What fails here fails again at the end, where it is reported.
            return None if future.exception() is not None else future.result()
        waits = loading or time.monotonic() - self._began < PAUSE_SECONDS
        if waits or not (idle or self._allowance.is_left):
            return None
        best = self._best()
        if best is not None and best.identity != self._known:
            self._known, self._began = best.identity, time.monotonic()
            self._computing = self._pool.submit(self._compute, best, idle)
        return None

    def close(self) -> None:
        """Forget a computation in progress."""
        self._computing = None
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _best(self) -> Candidate | None:
        """The best complete candidate whose libraries are loaded and whose shuffles fit in the time; None if there is none."""
        competition = self.board.competition
        usable = [
            name for name in competition.models if "torch" not in registry.get(name).requires or "torch" in sys.modules
        ]
        found = [c for c in map(competition.best_of, usable) if c is not None and c.is_complete]
        found.sort(key=lambda candidate: (competition.loss_of(candidate), candidate.key))
        n_columns = len(self.data.schema.inputs)
        return explained_model(found, n_columns, MOST_SECONDS, 1, MOST_ROWS) if found else None

    def _compute(self, best: Candidate, idle: bool) -> ev.ImportancesReady | None:
        began = time.thread_time()
        models, columns = FoldModels.of_run(self.folder, self.data, self.board.plan), self.data.schema.inputs
        folds = models.with_held_out(best, time.monotonic() + MOST_SECONDS, n_passes(len(columns), 1))
        found = permutation_importance(
            folds,
            self.board.plan.metric,
            [column.name for column in columns],
            seed=self.board.plan.seed,
            n_repeats=N_REPEATS,
            n_jobs=1,
            max_rows=MOST_ROWS,
            # From now on: reading the first model imports its libraries, which may take seconds.
            deadline=time.monotonic() + MOST_SECONDS,
        )
        if not idle:
            self._allowance.spend(time.thread_time() - began)
        if np.isnan(found.score) or not found.columns:
            return None
        return ev.ImportancesReady(
            rows=tuple(combine(found, None)),
            model=best.model,
            trial=best.trial,
            identity=best.identity,
            attention_model=None,
            n_rows=found.n_rows,
            agreement=None,
            n_columns=len(columns),
            preliminary=True,
        )
