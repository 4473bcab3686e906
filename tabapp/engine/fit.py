"""One fit, in its own process: prepare features, train on a fold's training rows, predict the held-out ones, save."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files, metrics
from tabapp.data.schema import Schema
from tabapp.data.split import early_stopping_rows
from tabapp.engine.jobs import Done, Failed, FitJob, FitResult, Progress, encode
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.models import registry
from tabapp.models.contract import FitContext, FitStopped
from tabapp.run.folder import RunFolder

PR_SET_PDEATHSIG = 1


def recipe_id(recipe: FeatureRecipe) -> str:
    """A short name that equal recipes share."""
    return "-".join(str(value) for value in msgspec.structs.astuple(recipe))


class RunData:
    """The rows of a run as its fits see them, memory-mapped from the run folder.

    Attributes:
        schema: what the columns are.
        frame: typed columns of all usable rows.
        target: (rows,) class codes or target units.
        fold: (rows,) int16: the fold that scores the row, -1 for rows that are only learned from.
        weight: (rows,) or None.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.schema = msgspec.json.decode((folder.data / "schema.json").read_bytes(), type=Schema)
        self.frame: pl.DataFrame = pl.read_ipc(folder.data / "table.arrow")
        arrays = np.load(folder.path / "splits.npz", allow_pickle=False)
        self.target: npt.NDArray[np.int64] | npt.NDArray[np.float64] = arrays["target"]
        self.fold: npt.NDArray[np.int16] = arrays["fold"]
        self.weight: npt.NDArray[np.float32] | None = arrays.get("weight", None)
        self.groups: npt.NDArray[np.int64] | None = arrays.get("groups", None)
        self.time: npt.NDArray[np.float64] | None = arrays.get("time", None)

    @property
    def n_folds(self) -> int:
        """How many folds are scored: 1 for a holdout."""
        return int(self.fold.max()) + 1

    def held_out(self, fold: int) -> npt.NDArray[np.intp]:
        """Indices of the rows that a fold scores."""
        return np.flatnonzero(self.fold == fold)

    def training(self, fold: int) -> npt.NDArray[np.intp]:
        """Indices of the rows that a fold may learn from."""
        return np.flatnonzero(self.fold != fold)


def features_folder(folder: RunFolder, recipe: FeatureRecipe, fold: int) -> Path:
    """Where the features of a recipe and fold are kept: `state/` for the preparer, arrays beside it."""
    return folder.features / f"{recipe_id(recipe)}-f{fold}"


def prepared_table(
    folder: RunFolder, data: RunData, recipe: FeatureRecipe, fold: int, seed: int
) -> tuple[Table, FeatureSpec]:
    """The features of all rows, fitted on the fold's training rows only; made once, then memory-mapped.

    Two processes may make the same folder at the same time: whoever is done first wins, and both are right.
    """
    place = features_folder(folder, recipe, fold)
    if not place.is_dir():
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
    """Features learned from the fold's training rows, and the arrays of all rows: a training row's own target is not in them."""
    training, held_out = data.training(fold), data.held_out(fold)
    groups = None if data.groups is None else data.groups[training]
    preparer, learned_from = FeaturePreparer.fit_transform(
        data.frame[training], data.schema, recipe, seed, data.target[training], groups
    )
    scored = preparer.transform(data.frame[held_out])
    numeric = np.empty((len(data.frame), learned_from.numeric.shape[1]), dtype=np.float32)
    categorical = np.empty((len(data.frame), learned_from.categorical.shape[1]), dtype=np.int32)
    for rows, part in ((training, learned_from), (held_out, scored)):
        numeric[rows], categorical[rows] = part.numeric, part.categorical
    return preparer, Table(numeric=numeric, categorical=categorical)


def run_fit(job: FitJob, report: Callable[[int, float], None]) -> FitResult:
    """Do a fit and leave its complete folder in the run.

    Raises:
        FitStopped: `report` asked for the end.
        Exception: whatever the model raised.
    """
    folder = RunFolder(Path(job.run))
    data = RunData(folder)
    recipe = recipe_for(job.recipe, data.schema)
    table, spec = prepared_table(folder, data, recipe, job.fold, job.seed)
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
    started = time.perf_counter()
    try:
        model = plugin.fit(table.take(training[~stopping]), table.take(training[stopping]), params, context)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = time.perf_counter() - started
    scored = table.take(held_out)
    started = time.perf_counter()
    prediction = model.predict(replace(scored, target=None))
    predict_seconds = time.perf_counter() - started
    if not np.isfinite(prediction).all():
        raise FloatingPointError(f"{plugin.title} predicted values that are not finite on fold {job.fold + 1}")
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
    )
    with files.new_folder(folder.fits / job.fit) as temporary:
        (temporary / "model").mkdir()
        model.save(temporary / "model")
        np.save(temporary / "oof.npy", prediction, allow_pickle=False)
        files.write_json(temporary / "params.json", job.params)
        files.write_bytes(temporary / "metrics.json", msgspec.json.encode(result))
    return result


def _die_with_the_engine() -> None:
    """End this process when the engine ends, however that happens: by signal where the system offers it, else by watching."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    engine = parent_process()
    if engine is None:
        return

    def watch() -> None:
        wait([engine.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def fit_process(job_json: bytes, connection: Connection) -> None:
    """Entry point of a fit process: reports over the connection, and leaves in silence when the engine is gone."""
    _die_with_the_engine()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.setpgid(0, 0)
    job = msgspec.json.decode(job_json, type=FitJob)

    def report(step: int, value: float) -> None:
        if connection.poll():
            raise FitStopped
        # A metric may be undefined on few rows, such as an area under a curve where one class is absent.
        if math.isfinite(value):
            connection.send_bytes(encode(Progress(fit=job.fit, step=step, value=float(value))))

    try:
        message = Done(fit=job.fit, result=run_fit(job, report))
    except FitStopped:
        message = Failed(fit=job.fit, reason="stopped", stopped=True)
    except MemoryError:
        message = Failed(fit=job.fit, reason="out of memory", detail=traceback.format_exc())
    except Exception as error:
        sentence = " ".join(str(error).split()) or type(error).__name__
        message = Failed(fit=job.fit, reason=f"{type(error).__name__}: {sentence[:200]}", detail=traceback.format_exc())
    with suppress(OSError):
        connection.send_bytes(encode(message))
        connection.close()
