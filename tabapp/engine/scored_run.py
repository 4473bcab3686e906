"""The results of a finished run, read from its folder."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import files
from tabapp.engine.candidates import Candidate, read_results
from tabapp.engine.plan import Plan
from tabapp.engine.rows import ROW_NUMBERS
from tabapp.engine.run_data import RunData
from tabapp.errors import UsageError
from tabapp.run.folder import UNREADABLE, RunFolder
from tabapp.run.state import RunState

ENSEMBLE_PREDICTION = "ensemble.npz"
"""Cross-fitted out-of-fold predictions of the ensemble: `prediction` for the rows in `rows`."""

Array = npt.NDArray[Any]


def save_prediction(folder: RunFolder, rows: Array, prediction: Array) -> None:
    """Save the cross-fitted out-of-fold predictions of the ensemble.

    Args:
        rows: (scored,) positions among the usable rows.
        prediction: (scored, classes) or (scored,).
    """
    content = io.BytesIO()
    np.savez(content, rows=rows, prediction=prediction)
    files.write_bytes(folder.path / ENSEMBLE_PREDICTION, content.getvalue())


class ScoredRun:
    """A run with an ensemble.

    Attributes:
        rows: (scored,) positions among the usable rows that the ensemble has out-of-fold predictions for.
        prediction: (scored, classes) or (scored,) these predictions.

    Raises:
        UsageError: the run has no result, or a file of it cannot be read.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.state: RunState = folder.state()
        if self.state.plan is None or self.state.ensemble is None or not folder.plan.is_file():
            raise UsageError(
                f"The run {folder.run} has no result yet. Use `tabapp resume {folder.argument}` to finish it."
            )
        try:
            self.plan = msgspec.json.decode(files.read_regular(folder.plan), type=Plan)
            self.data = RunData(folder)
            self.members = [self._member(each.model, each.trial) for each in self.state.ensemble.members]
            self.weights = [each.weight for each in self.state.ensemble.members]
            self.rows, self.prediction = self._predictions()
        except (*UNREADABLE, OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"The results of the run {folder.run} cannot be read ({reason}).") from None

    @property
    def truth(self) -> Array:
        """(scored,) class codes, or values in target units."""
        return self.data.target[self.rows]

    @property
    def weight(self) -> Array | None:
        """(scored,) row weights, or None."""
        return None if self.data.weight is None else self.data.weight[self.rows]

    @property
    def numbers(self) -> Array:
        """(usable rows,) numbers of the rows in the file."""
        saved = self.folder.data / ROW_NUMBERS
        return np.load(saved, allow_pickle=False) if saved.is_file() else np.arange(len(self.data.target))

    def best_of(self, model: str) -> Candidate:
        """The best trial of a model on the leaderboard, with its fits.

        Raises:
            UsageError: the model has no score.
        """
        row = next((row for row in self.state.leaderboard if row.model == model and row.score is not None), None)
        if row is None:
            raise UsageError(f"The run {self.folder.run} has no score of the model {model!r}.")
        return self._member(model, row.trial or 0)

    def _member(self, model: str, trial: int) -> Candidate:
        candidate = Candidate(model, trial, {}, self.plan.folds)
        read_results(self.folder, candidate)
        if not candidate.results:
            raise ValueError(f"the model {model} #{trial} has no fit")
        saved = self.folder.fits / candidate.fit_name(min(candidate.results)) / "params.json"
        candidate.params = files.read_json(saved)
        return candidate

    def _predictions(self) -> tuple[Array, Array]:
        saved = self.folder.path / ENSEMBLE_PREDICTION
        if saved.is_file():
            arrays = np.load(io.BytesIO(files.read_regular(saved)), allow_pickle=False)
            return arrays["rows"], arrays["prediction"]
        # Runs of earlier versions: the weights were chosen on the same rows.
        folds = sorted(set.intersection(*(set(member.results) for member in self.members)))
        rows = np.concatenate([self.data.held_out(fold) for fold in folds])
        parts = [
            weight
            * np.concatenate(
                [np.load(self.folder.fits / member.fit_name(fold) / "oof.npy", allow_pickle=False) for fold in folds]
            ).astype(np.float64)
            for member, weight in zip(self.members, self.weights, strict=True)
        ]
        return rows, np.sum(parts, axis=0) / sum(self.weights)
