"""The fits that `benchmarks.lab.collect` has kept, as a run's scorer and scheduler read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.lab.collect import expectations, read_records
from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.features.arrays import FeatureRecipe
from tabapp.run.record.folder import list_runs

Array = npt.NDArray[Any]


@dataclass
class Library:
    """The recorded fits of one draw of a table.

    Attributes:
        place: its folder.
        fits: the records by model and trial, with one for each fold. Trials with missing folds are left out.
    """

    place: Path
    fits: dict[tuple[str, int], list[dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.metric: str = json.loads((self.place / "table.json").read_text())["metric"]
        rows = np.load(self.place / "rows.npz")
        self.target, self.folds, self.test_target = rows["target"], rows["fold"], rows["test"]
        self.n_folds = int(self.folds.max()) + 1
        found: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
        for record in read_records(self.place / "fits.jsonl"):
            model, trial, fold = record["fit"].rsplit("-", 2)
            if "error" not in record:
                found.setdefault((model, int(trial)), {})[int(fold[1:])] = record
        complete = {key: folds for key, folds in found.items() if len(folds) == self.n_folds}
        self.fits = {key: [folds[fold] for fold in range(self.n_folds)] for key, folds in sorted(complete.items())}
        self._known: dict[tuple[str, int], tuple[Array, Array]] = {}

    @property
    def models(self) -> list[str]:
        """Names of the models with at least one trial."""
        return sorted({model for model, _ in self.fits})

    def n_trials(self, model: str) -> int:
        """Recorded trials of a model, without gaps."""
        n = 0
        while (model, n) in self.fits:
            n += 1
        return n

    def predictions(self, key: tuple[str, int]) -> tuple[Array, Array]:
        """Out-of-fold predictions of the training rows, and the mean over the folds of those of the test rows."""
        if key not in self._known:
            oof, test = None, 0.0
            for fold, record in enumerate(self.fits[key]):
                arrays = np.load(self.place / "fits" / f"{record['fit']}.npz")
                if oof is None:
                    oof = np.zeros((len(self.target), *arrays["oof"].shape[1:]), dtype=np.float32)
                oof[self.folds == fold] = arrays["oof"]
                test = test + arrays["test"].astype(np.float64) / self.n_folds
            assert oof is not None
            self._known[key] = oof, np.asarray(test)
        return self._known[key]

    def result(self, key: tuple[str, int], fold: int) -> FitResult:
        """The result of a fit; its seconds are processor time."""
        record = self.fits[key][fold]
        return FitResult(
            fit=record["fit"],
            model=key[0],
            trial=key[1],
            fold=fold,
            score=record["score"],
            seconds=record["seconds"],
            predict_seconds=record["predict_seconds"],
            n_rows=int((self.folds == fold).sum()),
            recipe=FeatureRecipe(),
            summary={},
        )

    def expectations(self, model: str) -> dict[str, float]:
        """What the scheduler knows of a model before its first fit, as the plugins of today estimate it."""
        runs = list_runs(self.place / "runs")
        return expectations(runs[0], model) if runs else self.fits[model, 0][0]

    def test_error(self, prediction: Array) -> float:
        """Difference of a test score to a perfect one."""
        value = metrics.score(self.metric, self.test_target, prediction)
        return 1 - value if metrics.get(self.metric).greater_is_better else value


class LibraryScorer:
    """Stands in for the scorer of a run: the same properties and methods on recorded predictions."""

    weight = groups = None

    def __init__(self, library: Library) -> None:
        self.library = library
        self._losses: dict[tuple[tuple[str, int], tuple[int, ...]], float] = {}

    @property
    def target(self) -> Array:
        return self.library.target

    @property
    def folds(self) -> Array:
        return self.library.folds

    def out_of_fold(self, candidate: Candidate) -> tuple[Array, npt.NDArray[np.bool_]]:
        prediction, _ = self.library.predictions(candidate.key)
        return prediction, np.isin(self.folds, list(candidate.results))

    def loss(self, candidate: Candidate) -> float:
        key = candidate.key, tuple(sorted(candidate.results))
        if key not in self._losses:
            prediction, covered = self.out_of_fold(candidate)
            self._losses[key] = metrics.loss(self.library.metric, self.target[covered], prediction[covered])
        return self._losses[key]

    def clearly_behind(self, candidate: Candidate, other: Candidate) -> bool:
        """Only runs without a time limit ask for it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a replay has a time limit")


def open_libraries(lab: Path) -> list[Library]:
    """All draws in a lab, by name."""
    return [Library(place) for place in sorted(lab.iterdir()) if (place / "table.json").is_file()]
