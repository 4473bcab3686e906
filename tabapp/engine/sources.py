"""The files of a run that its bundle is made of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tabapp.bundle.write import CandidateSource, FoldSource
from tabapp.engine.candidates import Candidate
from tabapp.engine.fit import ROWS, features_folder
from tabapp.engine.rows import ROW_NUMBERS
from tabapp.run.folder import RunFolder


def row_numbers(folder: RunFolder, n_rows: int) -> npt.NDArray[np.int64]:
    """(n_rows,) the number of each usable row in the training file; their positions in runs of earlier versions."""
    saved = folder.data / ROW_NUMBERS
    return np.load(saved, allow_pickle=False) if saved.is_file() else np.arange(n_rows)


def source_of(
    folder: RunFolder, candidate: Candidate, weight: float, numbers: npt.NDArray[np.int64]
) -> CandidateSource:
    """The models, features and training rows of the folds of a candidate.

    Args:
        weight: of the candidate in the ensemble.
        numbers: as returned by `row_numbers`.
    """
    folds: list[FoldSource] = []
    for fold, result in sorted(candidate.results.items()):
        place = folder.fits / candidate.fit_name(fold)
        # Only models that store training rows have them.
        rows = np.load(place / ROWS, allow_pickle=False) if (place / ROWS).is_file() else None
        folds.append(
            FoldSource(
                fold=fold,
                model=place / "model",
                features=features_folder(folder, result.recipe, fold) / "state",
                rows=None if rows is None else numbers[rows].tolist(),
            )
        )
    return CandidateSource(candidate.model, candidate.trial, candidate.params, weight, folds)
