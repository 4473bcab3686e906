"""The files of a run that its bundle is made of."""

from __future__ import annotations

import numpy as np

from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.run_fit import ROWS, features_folder
from tabapp.run.record.folder import RunFolder


def source_of(folder: RunFolder, data: RunData, candidate: Candidate, weight: float) -> CandidateSource:
    """The models, features and training rows of the folds of a candidate.

    Args:
        weight: of the candidate in the ensemble.
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
                rows=None if rows is None else UsableRows(rows, len(data.target)).of(data.numbers).tolist(),
            )
        )
    return CandidateSource(candidate.model, candidate.trial, candidate.params, weight, folds)
