"""One fit: prepare features, train on a fold's training rows, predict the held-out rows, save."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from tabapp import files, metrics
from tabapp.data.split import early_stopping_rows
from tabapp.engine import peak_memory
from tabapp.engine.jobs import FitJob, FitResult
from tabapp.engine.other_targets import with_other_targets
from tabapp.engine.rows import sha256
from tabapp.engine.run_data import RunData
from tabapp.engine.seeds import seed_of
from tabapp.engine.unlabeled import PRETRAINED, add_unlabeled, fitted_features, pretrained_folder
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.models import registry
from tabapp.models.contract import FitContext
from tabapp.run.folder import RunFolder

ROWS = "rows.npy"
"""In the folder of a fit whose model stores training rows: the usable rows passed to the fit."""


def recipe_id(recipe: FeatureRecipe) -> str:
    """A short name, equal for equal recipes."""
    *values, rows = msgspec.structs.astuple(recipe)
    return "-".join(str(value) for value in (values if rows == "training" else (*values, rows)))


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

    Two processes may compute the same features at the same time: the first to finish keeps the folder, and both are equal.
    """
    place = features_folder(folder, recipe, fold)
    if not place.is_dir():
        seed = seed_of(run_seed, recipe_id(recipe), shared_fold(recipe, fold))
        preparer, table = _fitted_features(data, recipe, fold, seed)
        with files.new_folder(place) as temporary:
            (temporary / "state").mkdir()
            preparer.save(temporary / "state")
            np.save(temporary / "numeric.npy", table.numeric, allow_pickle=False)
            np.save(temporary / "categorical.npy", table.categorical, allow_pickle=False)
    preparer = FeaturePreparer.load(place / "state")
    table = Table(
        numeric=np.load(place / "numeric.npy", mmap_mode="r", allow_pickle=False),
        categorical=np.load(place / "categorical.npy", mmap_mode="r", allow_pickle=False),
        target=data.target,
        weight=data.weight,
    )
    return table, preparer.spec


def _fitted_features(data: RunData, recipe: FeatureRecipe, fold: int, seed: int) -> tuple[FeaturePreparer, Table]:
    """A preparer fitted on the fold's training rows or on the rows without a target, as the recipe says, and the arrays of all rows
    with a target; no training row is encoded with its own."""
    training, held_out = data.training(fold), data.held_out(fold)
    groups = None if data.groups is None else data.groups[training]
    preparer, trained = fitted_features(
        data.frame[training], data.schema, recipe, seed, data.target[training], groups, data.unlabeled
    )
    scored = preparer.transform(data.frame[held_out])
    numeric = np.empty((len(data.frame), trained.numeric.shape[1]), dtype=np.float32)
    categorical = np.empty((len(data.frame), trained.categorical.shape[1]), dtype=np.int32)
    for rows, part in ((training, trained), (held_out, scored)):
        numeric[rows], categorical[rows] = part.numeric, part.categorical
    return preparer, Table(numeric=numeric, categorical=categorical)


def run_fit(job: FitJob, report: Callable[[int, float], None]) -> FitResult:
    """Run a fit and save its folder in the run.

    Raises:
        FitStopped: `report` asked the fit to stop.
        Exception: any error of the model.
    """
    folder = RunFolder(Path(job.run))
    data = RunData(folder)
    recipe = recipe_for(job.recipe, data.schema)
    table, spec = prepared_table(folder, data, recipe, job.fold, job.run_seed)
    training, held_out = data.training(job.fold), data.held_out(job.fold)
    stopping = early_stopping_rows(data.target, job.task, training, job.seed, groups=data.groups, time=data.time)
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
    before = peak_memory.reset_peak()
    peak_memory.reset_gpu_peak(job.device)
    started = time.perf_counter()
    try:
        model = plugin.refit(learned.take(training), params, job.pilots, context) if job.pilots else None
        if model is None:
            train, valid = learned.take(training[~stopping]), learned.take(training[stopping])
            model = plugin.fit(train, valid, params, context)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = time.perf_counter() - started
    scored = table.take(held_out)
    started = time.perf_counter()
    prediction = model.predict(replace(scored, target=None))
    predict_seconds = time.perf_counter() - started
    n_bytes = peak_memory.gpu_peak(job.device) or max(0, peak_memory.peak() - before)
    if not np.isfinite(prediction).all():
        raise FloatingPointError(f"{plugin.title} predicted NaN or infinity on fold {job.fold + 1}")
    truth, weight = data.target[held_out], None if data.weight is None else data.weight[held_out]
    result = FitResult(
        fit=job.fit,
        model=job.model,
        trial=job.trial,
        fold=job.fold,
        score=metrics.score(job.metric, truth, prediction, weight),
        seconds=seconds,
        predict_seconds=predict_seconds,
        n_rows=len(held_out),
        recipe=recipe,
        summary=model.summary(),
        n_bytes=n_bytes,
        pretrain_seconds=pretrain_seconds,
    )
    with files.new_folder(folder.fits / job.fit) as temporary:
        (temporary / "model").mkdir()
        model.save(temporary / "model")
        np.save(temporary / "oof.npy", prediction, allow_pickle=False)
        if plugin.contains_training_rows:
            rows = np.concatenate([training[~stopping], training[stopping]])
            np.save(temporary / ROWS, rows, allow_pickle=False)
        files.write_json(temporary / "params.json", job.params)
        written = sorted(path for path in temporary.rglob("*") if path.is_file())
        checksums = {path.relative_to(temporary).as_posix(): sha256(path) for path in written}
        result = msgspec.structs.replace(result, checksums=checksums)
        files.write_bytes(temporary / "metrics.json", msgspec.json.encode(result))
    return result
