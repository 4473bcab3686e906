"""Removes the models of candidates that cannot be in the final ensemble, which would fill the disk in a long run on many cores."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.selection import best_of_all_models
from tabapp.run.record.folder import RunFolder

PAUSE_SECONDS = 5.0
"""Least time between two removals."""


class UnusedModels:
    """The models that a run does not need any more. Predictions, scores and hyperparameters of their candidates stay."""

    def __init__(self, folder: RunFolder, board: Board) -> None:
        self._folder, self._board = folder, board
        self._removed_at = time.monotonic()

    def remove(self, *, at_once: bool = False) -> None:
        """Remove the models of candidates without use, unless an ensemble is being selected, which may have one of them.

        Args:
            at_once: also if this was done a moment ago.
        """
        now = time.monotonic()
        if self._board.is_selecting or (now - self._removed_at < PAUSE_SECONDS and not at_once):
            return
        self._removed_at = now
        for candidate in self._without_use():
            candidate.remove_models(self._folder)

    def _without_use(self) -> Iterator[Candidate]:
        """Candidates that get no more folds, and are neither among those that the ensemble is selected from nor the best of their
        model. Better ones that follow take further places. Without a complete candidate, an ensemble may have any fold."""
        board, candidates = self._board, self._board.competition.candidates
        complete = [candidate for candidate in candidates.values() if candidate.is_complete]
        if not complete:
            return
        complete.sort(key=lambda candidate: (board.scorer.loss(candidate), candidate.key))
        kept = {c.key for c in best_of_all_models(complete, board.policy.ensemble_candidates, board.weights())}
        best = (board.competition.best_of(name) for name in board.competition.models)
        kept |= {candidate.key for candidate in best if candidate is not None}
        for key, candidate in candidates.items():
            if key not in kept and candidate.status != "active" and candidate.has_models:
                yield candidate
