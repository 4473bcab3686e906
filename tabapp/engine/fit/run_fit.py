"""One fit, or several as one stacked network: prepare features, train on a fold's training rows, predict the others, save."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from tabapp import files, metrics
from tabapp.engine.fit.features import Features, RunFeatures
from tabapp.engine.fit.fold_task import FoldTask
from tabapp.engine.fit.jobs import FitJob, FitResult
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.summaries import described
from tabapp.engine.machine import peak_memory
from tabapp.engine.machine.contention import Contention
from tabapp.engine.machine.devices import CPU
from tabapp.features.prepare import recipe_for
from tabapp.models.contract import Floats
from tabapp.models.prepared_fit import PreparedFit, Split, TrainedModel, train_group
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.undefined import defined

ROWS = "rows.npy"
"""In the folder of a fit whose model stores training rows: the usable rows passed to the fit."""
Report = Callable[[str, int, float], None]
"""Receives the id of a fit, a step and a score."""


def ignore(fit: str, step: int, value: float) -> None:
    """Do not follow a fit."""


@dataclass(frozen=True)
class _Fold:
    """A fit on a fold, and the rows that it is scored on.

    Attributes:
        folder: where the fit is saved.
    """

    job: FitJob
    data: RunData
    features: Features
    fit: PreparedFit
    pretrain_seconds: float
    folder: RunFolder

    @property
    def held_out(self) -> UsableRows:
        """The scored rows."""
        return self.data.held_out(self.job.fold)


@dataclass(frozen=True)
class _Measured:
    """Seconds, bytes and slowdown of a result, as in `FitResult`."""

    seconds: float
    n_bytes: int
    slowdown: float


def _folds_of(job: FitJob, report: Report, scratch: RunFolder | None) -> list[_Fold]:
    """Prepare the features of a fit and its companions; those of the same fold share their rows."""
    folder = RunFolder(Path(job.run))
    data, place = RunData(folder), scratch or folder
    recipe = recipe_for(job.recipe, data.schema)
    prepared = RunFeatures(data, job.run_seed, place, None if scratch is None else folder)
    splits: dict[int, Split] = {}
    folds: list[_Fold] = []
    for each in job.each():
        task = FoldTask(
            goal=each,
            model=each.model,
            params=each.params,
            features=prepared.saved(recipe, each.fold),
            device=each.device,
            n_threads=each.n_threads,
            deadline=each.soft_deadline,
            report=partial(report, each.fit),
            most_step_rows=each.most_step_rows,
            pilots=each.pilots,
            seed=each.seed,
            n_scored=len(data.held_out(each.fold)),
        )
        folds.append(_Fold(each, data, task.features, *task.prepare(place.checkpoints / each.fit, splits), place))
    return folds


def run_fit(job: FitJob, report: Report = ignore, scratch: RunFolder | None = None) -> list[FitResult]:
    """Run a fit, or with its companions as one stacked network, and save a folder for each.

    The seconds and the memory of a result are those of all divided by the number of fits.

    Args:
        scratch: gets the folders of the fits, and features that the run lacks; None means the run.

    Raises:
        FitStopped: `report` asked a fit to stop; nothing is saved.
        Exception: any error of the model.
    """
    folds = _folds_of(job, report, scratch)
    fits = [fold.fit for fold in folds]
    before = peak_memory.reset_peak()
    peak_memory.reset_gpu_peak(job.device)
    started, contention = time.perf_counter(), Contention()
    trained = train_group(fits) if job.companions else [fits[0].train()]
    seconds = (time.perf_counter() - started) / len(folds)
    scored = [_scored(fold, each) for fold, each in zip(folds, trained, strict=True)]
    n_bytes = _peak_bytes(job.device, before) // len(folds)
    measured = _Measured(seconds, n_bytes, contention.slowdown())
    return [
        _saved(fold, each, *predicted, measured) for fold, each, predicted in zip(folds, trained, scored, strict=True)
    ]


def _peak_bytes(device: str, before: int) -> int:
    """The memory that a fit took of its device; 0 if it is not known, as for boosters on a GPU.

    Args:
        before: bytes in memory before the fit.
    """
    return max(0, peak_memory.peak() - before) if device == CPU else peak_memory.gpu_peak(device)


def _scored(fold: _Fold, trained: TrainedModel) -> tuple[Floats, float]:
    """Predictions of the held-out rows of a fold, and the seconds that they took."""
    table = replace(fold.held_out.of(fold.features.table), target=None)
    started = time.perf_counter()
    prediction = trained.model.predict(table)
    seconds = time.perf_counter() - started
    if not np.isfinite(prediction).all():
        raise FloatingPointError(f"{fold.fit.plugin.title} predicted NaN or infinity on fold {fold.job.fold + 1}")
    return prediction, seconds


def _saved(
    fold: _Fold,
    trained: TrainedModel,
    prediction: Floats,
    predict_seconds: float,
    measured: _Measured,
) -> FitResult:
    """Save the folder of a fit, and return its result."""
    job, data, held_out = fold.job, fold.data, fold.held_out
    truth, weight = held_out.of(data.target), held_out.of(data.weight)
    result = FitResult(
        fit=job.fit,
        model=job.model,
        trial=job.trial,
        fold=job.fold,
        score=defined(metrics.score(job.metric, truth, prediction, weight)),
        seconds=measured.seconds,
        predict_seconds=predict_seconds,
        n_rows=len(held_out),
        recipe=fold.features.preparer.recipe,
        summary=described(trained.model, fold.features.spec),
        n_bytes=measured.n_bytes,
        slowdown=measured.slowdown,
        pretrain_seconds=fold.pretrain_seconds,
        seed=job.seed,
    )
    with files.new_folder(fold.folder.fits / job.fit) as temporary:
        (temporary / "model").mkdir()
        trained.model.save(temporary / "model")
        np.save(temporary / "oof.npy", prediction, allow_pickle=False)
        if fold.fit.plugin.contains_training_rows:
            np.save(temporary / ROWS, trained.places, allow_pickle=False)
        files.write_json(temporary / "params.json", job.params)
        written = sorted(path for path in temporary.rglob("*") if path.is_file())
        checksums = {path.relative_to(temporary).as_posix(): files.sha256(path) for path in written}
        result = msgspec.structs.replace(result, checksums=checksums)
        files.write_bytes(temporary / "metrics.json", msgspec.json.encode(result))
    return result
