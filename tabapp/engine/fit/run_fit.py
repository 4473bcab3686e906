"""One fit, or several as one stacked network: prepare features, train on a fold's training rows, predict the others, save."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import files, metrics
from tabapp.engine.fit.jobs import FitJob, FitResult
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.other_targets import with_other_targets
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.fit.unlabeled import PRETRAINED, add_unlabeled, fitted_features, pretrained_folder
from tabapp.engine.machine import peak_memory
from tabapp.engine.machine.devices import CPU
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.models import registry
from tabapp.models.contract import FitContext, FitStopped, FittedModel, Float32, GroupFit, Params, Plugin
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.undefined import defined

LARGE_BYTES = 2**28
"""Tables of this size in memory are prepared by one process at a time."""
ROWS = "rows.npy"
"""In the folder of a fit whose model stores training rows: the usable rows passed to the fit."""


def recipe_id(recipe: FeatureRecipe) -> str:
    """A short name, equal for equal recipes."""
    *values, rows, derived = msgspec.structs.astuple(recipe)
    values += ([rows] if rows != "training" else []) + (["derived"] if derived else [])
    return "-".join(map(str, values))


def features_folder(folder: RunFolder, recipe: FeatureRecipe, fold: int) -> Path:
    """The folder of a recipe's features on a fold: `state/` for the preparer, and the arrays. Features that are fitted on rows
    without a target have one folder for all folds."""
    return folder.features / f"{recipe_id(recipe)}-f{shared_fold(recipe, fold)}"


def shared_fold(recipe: FeatureRecipe, fold: int) -> int:
    """The fold whose features serve a fold."""
    return fold if recipe.rows == "training" else 0


def prepared_table(
    folder: RunFolder, data: RunData, recipe: FeatureRecipe, fold: int, run_seed: int
) -> tuple[Table, FeatureSpec]:
    """The features of all rows, fitted on the fold's training rows only; computed once, then memory-mapped.

    They depend on the run's seed, the recipe and the fold, and not on the model that asks for them first.

    Two processes may compute the same features at the same time: the first to finish keeps the folder, and both are equal. Those of
    large tables take turns, because the memory of one is several times that of the table.
    """
    place = features_folder(folder, recipe, fold)
    if not place.is_dir():
        with _turn(folder, data):
            _prepare(place, data, recipe, fold, run_seed)
    preparer = FeaturePreparer.load(place / "state")
    table = Table(
        numeric=np.load(place / "numeric.npy", mmap_mode="r", allow_pickle=False),
        categorical=np.load(place / "categorical.npy", mmap_mode="r", allow_pickle=False),
        target=data.target,
        weight=data.weight,
    )
    return table, preparer.spec


@contextmanager
def _turn(folder: RunFolder, data: RunData) -> Generator[None]:
    """Wait until no other process prepares features of a large table. The system ends the turn of a killed process."""
    if data.frame.estimated_size() < LARGE_BYTES:
        yield
        return
    folder.features.mkdir(exist_ok=True)
    descriptor = files.open_lock(folder.features / "lock", create=True)
    try:
        # Some shared file systems have no locks.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _prepare(place: Path, data: RunData, recipe: FeatureRecipe, fold: int, run_seed: int) -> None:
    if not place.is_dir():
        seed = seed_of(run_seed, recipe_id(recipe), shared_fold(recipe, fold))
        preparer, table = _fitted_features(data, recipe, fold, seed)
        with files.new_folder(place) as temporary:
            (temporary / "state").mkdir()
            preparer.save(temporary / "state")
            np.save(temporary / "numeric.npy", table.numeric, allow_pickle=False)
            np.save(temporary / "categorical.npy", table.categorical, allow_pickle=False)


def _fitted_features(data: RunData, recipe: FeatureRecipe, fold: int, seed: int) -> tuple[FeaturePreparer, Table]:
    """A preparer fitted on the fold's training rows or on the rows without a target, as the recipe says, and the arrays of all rows
    with a target; no training row is encoded with its own."""
    training, held_out = data.training(fold), data.held_out(fold)
    frame, target, groups = training.of(data.frame), training.of(data.target), training.of(data.groups)
    preparer, trained = fitted_features(frame, data.schema, recipe, seed, target, groups, data.unlabeled)
    scored = preparer.transform(held_out.of(data.frame))
    numeric = np.empty((len(data.frame), trained.numeric.shape[1]), dtype=np.float32)
    categorical = np.empty((len(data.frame), trained.categorical.shape[1]), dtype=np.int32)
    for rows, part in ((training, trained), (held_out, scored)):
        rows.put(numeric, part.numeric)
        rows.put(categorical, part.categorical)
    return preparer, Table(numeric=numeric, categorical=categorical)


@dataclass(frozen=True)
class _Fold:
    """What a fit on a fold needs: the rows by their numbers, and the table of all of them.

    Attributes:
        learned: the table as the model learns it, with other targets; held-out rows are predicted from `table`, without them.
        stopping: which of the training rows stop training early.
    """

    job: FitJob
    data: RunData
    recipe: FeatureRecipe
    plugin: Plugin
    params: Params
    context: FitContext
    table: Table
    learned: Table
    training: UsableRows
    stopping: npt.NDArray[np.bool_]
    held_out: UsableRows
    pretrain_seconds: float

    @property
    def train(self) -> Table:
        """The training rows without those of early stopping."""
        return self.training.at(~self.stopping).of(self.learned)

    @property
    def valid(self) -> Table:
        """The early-stopping rows."""
        return self.training.at(self.stopping).of(self.learned)


def _fold_of(job: FitJob, report: Callable[[int, float], None]) -> _Fold:
    """Prepare the features and the context of a fit."""
    folder = RunFolder(Path(job.run))
    data = RunData(folder)
    recipe = recipe_for(job.recipe, data.schema)
    table, spec = prepared_table(folder, data, recipe, job.fold, job.run_seed)
    training, held_out = data.training(job.fold), data.held_out(job.fold)
    stopping = data.stopping(training, job.task, job.seed)
    plugin = registry.get(job.model)
    params = msgspec.convert(job.params, plugin.params_type)
    scratch = folder.checkpoints / job.fit
    scratch.mkdir(parents=True, exist_ok=True)
    context = FitContext(
        task=job.task,
        n_classes=job.n_classes,
        metric=job.metric,
        features=spec,
        seed=job.seed,
        device=job.device,
        n_threads=job.n_threads,
        folder=scratch,
        soft_deadline=job.soft_deadline,
        on_report=report,
        most_step_rows=job.most_step_rows,
        is_ordered=data.time is not None,
    )
    pretrain_seconds = 0.0
    if data.unlabeled is not None and plugin.uses_unlabeled:
        preparer = FeaturePreparer.load(features_folder(folder, recipe, job.fold) / "state")
        add_unlabeled(context, plugin, data.unlabeled, preparer)
    if plugin.pretrains:
        context.pretrained, pretrain_seconds = pretrained_folder(
            folder.path / PRETRAINED, plugin, params, context, recipe_id(recipe), job.run_seed
        )
    # Tables without them are what the held-out rows are predicted from.
    learned = with_other_targets(table, context, plugin, data)
    return _Fold(
        job, data, recipe, plugin, params, context, table, learned, training, stopping, held_out, pretrain_seconds
    )


def run_fit(job: FitJob, report: Callable[[int, float], None]) -> FitResult:
    """Run a fit and save its folder in the run.

    Raises:
        FitStopped: `report` asked the fit to stop.
        Exception: any error of the model.
    """
    fold = _fold_of(job, report)
    plugin, params, context = fold.plugin, fold.params, fold.context
    before = peak_memory.reset_peak()
    peak_memory.reset_gpu_peak(job.device)
    started = time.perf_counter()
    try:
        model = plugin.refit(fold.training.of(fold.learned), params, job.pilots, context) if job.pilots else None
        if model is None:
            model = plugin.fit(fold.train, fold.valid, params, context)
    finally:
        shutil.rmtree(context.folder, ignore_errors=True)
    seconds = time.perf_counter() - started
    scored = _Scored.of(fold, model)
    n_bytes = _peak_bytes(job.device, before)
    return _saved(fold, model, scored, seconds, n_bytes)


def _peak_bytes(device: str, before: int) -> int:
    """The memory that a fit took of its device; 0 if it is not known, as for boosters on a GPU.

    Args:
        before: bytes in memory before the fit.
    """
    return max(0, peak_memory.peak() - before) if device == CPU else peak_memory.gpu_peak(device)


def run_group(job: FitJob, report: Callable[[str, int, float], None]) -> list[FitResult]:
    """Run a fit and its companions as one stacked network, and save a folder for each, as separate fits do.

    The seconds and the memory of a result are those of the group divided by the number of its fits.

    Args:
        report: receives the id of a fit, a step and a score.

    Raises:
        FitStopped: `report` asked a fit to stop; nothing is saved.
        Exception: any error of the model.
    """
    folds: list[_Fold] = []
    tables: dict[tuple[int, int], tuple[Table, Table]] = {}
    for each in job.each():
        fold = _fold_of(each, partial(report, each.fit))
        folds.append(fold)
        if not job.pilots:
            # Of the same objects, a stacked network keeps one copy on its device.
            key = each.fold, each.seed
            tables[key] = tables.get(key) or (fold.train, fold.valid)
    plugin = folds[0].plugin
    before = peak_memory.reset_peak()
    peak_memory.reset_gpu_peak(job.device)
    started = time.perf_counter()
    try:
        if job.pilots:
            nothing = slice(0, 0)
            fits = [
                GroupFit(
                    f.training.of(f.learned), f.training.at(nothing).of(f.learned), f.params, f.context, job.pilots
                )
                for f in folds
            ]
        else:
            fits = [GroupFit(*tables[f.job.fold, f.job.seed], f.params, f.context) for f in folds]
        models = [model for model in plugin.fit_group(fits) if model is not None]
        if len(models) < len(folds):
            raise FitStopped
    finally:
        for fold in folds:
            shutil.rmtree(fold.context.folder, ignore_errors=True)
    seconds = (time.perf_counter() - started) / len(folds)
    scored = [_Scored.of(fold, model) for fold, model in zip(folds, models, strict=True)]
    n_bytes = _peak_bytes(job.device, before)
    return [
        _saved(fold, model, each, seconds, n_bytes // len(folds))
        for fold, model, each in zip(folds, models, scored, strict=True)
    ]


@dataclass(frozen=True)
class _Scored:
    """Predictions of the held-out rows, and the seconds that they took."""

    prediction: Float32
    seconds: float

    @classmethod
    def of(cls, fold: _Fold, model: FittedModel) -> _Scored:
        """Predict the held-out rows of a fold."""
        scored = fold.held_out.of(fold.table)
        started = time.perf_counter()
        prediction = model.predict(replace(scored, target=None))
        seconds = time.perf_counter() - started
        if not np.isfinite(prediction).all():
            raise FloatingPointError(f"{fold.plugin.title} predicted NaN or infinity on fold {fold.job.fold + 1}")
        return cls(prediction, seconds)


def _saved(fold: _Fold, model: FittedModel, scored: _Scored, seconds: float, n_bytes: int) -> FitResult:
    """Save the folder of a fit, and return its result."""
    job, data, held_out = fold.job, fold.data, fold.held_out
    truth, weight = held_out.of(data.target), held_out.of(data.weight)
    result = FitResult(
        fit=job.fit,
        model=job.model,
        trial=job.trial,
        fold=job.fold,
        score=defined(metrics.score(job.metric, truth, scored.prediction, weight)),
        seconds=seconds,
        predict_seconds=scored.seconds,
        n_rows=len(held_out),
        recipe=fold.recipe,
        summary=model.summary(),
        n_bytes=n_bytes,
        pretrain_seconds=fold.pretrain_seconds,
    )
    with files.new_folder(RunFolder(Path(job.run)).fits / job.fit) as temporary:
        (temporary / "model").mkdir()
        model.save(temporary / "model")
        np.save(temporary / "oof.npy", scored.prediction, allow_pickle=False)
        if fold.plugin.contains_training_rows:
            rows = UsableRows.joined([fold.training.at(~fold.stopping), fold.training.at(fold.stopping)])
            np.save(temporary / ROWS, rows.places, allow_pickle=False)
        files.write_json(temporary / "params.json", job.params)
        written = sorted(path for path in temporary.rglob("*") if path.is_file())
        checksums = {path.relative_to(temporary).as_posix(): files.sha256(path) for path in written}
        result = msgspec.structs.replace(result, checksums=checksums)
        files.write_bytes(temporary / "metrics.json", msgspec.json.encode(result))
    return result
