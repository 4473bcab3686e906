"""The ensemble of a bundle in this process: its models and feature preparation, and their predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from polars.exceptions import PanicException

from tabapp.bundle.files.records import Candidate, Ensemble
from tabapp.bundle.prediction.neighbors import MOST_NEIGHBORS, is_valid
from tabapp.bundle.prediction.predict import Decomposition, Float64, Predictor
from tabapp.data.schema import Schema
from tabapp.errors import BundleError, UsageError
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.text import CountedTexts
from tabapp.models import registry
from tabapp.models.contract import FittedModel, RowNeighbors
from tabapp.models.explanations import Unit

_ROWS_FOR_THREADS = 500
"""With fewer rows, a model predicts in about the time that a thread takes to start."""


@dataclass(frozen=True)
class _Member:
    """A fold model with its share of the ensemble: the candidate's weight divided by its number of folds.

    Attributes:
        where: its name in error messages.
        features: path of its feature state in the bundle.
        folder: its own path in the bundle.
    """

    share: float
    where: str
    features: str
    folder: str
    model: FittedModel


_Started = list[tuple[_Member, "Future[Float64]"]]


class LocalPredictor(Predictor):
    """An ensemble with its models in this process. Thread-safe: models that are not take turns.

    Attributes:
        preparers: feature preparations by their path in the bundle.
        models: fold models by their path in the bundle.
    """

    def __init__(
        self,
        schema: Schema,
        ensemble: Ensemble,
        preparers: dict[str, FeaturePreparer],
        models: dict[str, FittedModel],
        where: str = "the ensemble",
    ) -> None:
        super().__init__(schema, ensemble, where)
        self.preparers = preparers
        self.models = models
        self._members = [
            _Member(
                share=candidate.weight / len(candidate.folds),
                where=f"{where}: {name_of(candidate)} in {fold.model}",
                features=fold.features,
                folder=fold.model,
                model=models[fold.model],
            )
            for candidate in ensemble.candidates
            for fold in candidate.folds
        ]

    @property
    def n_models(self) -> int:
        """Number of fold models."""
        return len(self._members)

    def predict_batch(self, batch: pl.DataFrame, progress: Callable[[float], None]) -> Float64:
        n_classes, n_cores = len(self.schema.classes), os.cpu_count() or 1
        values = np.zeros((batch.height, n_classes) if n_classes else batch.height, dtype=np.float64)
        counted: dict[str, CountedTexts] = {}
        n_done = 0
        waiting: list[_Started] = []

        def add_oldest() -> None:
            nonlocal values, n_done
            # Added in the order of the members, so that the sum does not depend on the threads.
            for member, future in waiting.pop(0):
                values += member.share * future.result()
                n_done += 1
                progress(n_done / len(self._members))

        with ThreadPoolExecutor(n_cores) as pool:
            for folder, preparer in self.preparers.items():
                with bundle_errors(f"{self.where}: the feature state in {folder} fails"):
                    table = preparer.transform(batch, counted)
                waiting.append(self._started(folder, table, pool))
                # The next features are prepared while a core is free, and no sooner: each table in use takes memory.
                while waiting and (_n_open(waiting[:1]) == 0 or _n_open(waiting) >= n_cores):
                    add_oldest()
            while waiting:
                add_oldest()
        return values

    def _started(self, folder: str, table: Table, pool: ThreadPoolExecutor) -> _Started:
        """The predictions of the members with these features, in their order: started in threads where that is faster, and then
        made here for the others.
        """
        n_classes = len(self.schema.classes)
        members = [member for member in self._members if member.features == folder]
        in_threads = {
            member.where: pool.submit(_predict, member, table, n_classes)
            for member in members
            if len(table) >= _ROWS_FOR_THREADS and member.model.predicts_in_threads
        }
        started: _Started = []
        for member in members:
            future = in_threads.get(member.where)
            if future is None:
                future = Future[Float64]()
                future.set_result(_predict(member, table, n_classes))
            started.append((member, future))
        return started

    def decompose(
        self, batch: pl.DataFrame, model: str, code: int, reference: pl.DataFrame | None = None
    ) -> Decomposition | None:
        folders = {
            fold.model for candidate in self.ensemble.candidates if candidate.model == model for fold in candidate.folds
        }
        members = [member for member in self._members if member.folder in folders]
        total = sum(member.share for member in members)
        base, method, errors = 0.0, "", np.zeros(batch.height)
        unit: Unit | None = None
        columns = {column.name: np.zeros(batch.height) for column in self.schema.inputs}
        for member in members:
            preparer = self.preparers[member.features]
            with bundle_errors(f"{member.where} fails to explain"):
                origin = None if reference is None else preparer.transform(reference)
                found = member.model.contributions(preparer.transform(batch), code, origin)
                if found is None or unit not in (None, found.unit):
                    return None
                base += member.share / total * found.base
                unit, method = found.unit, found.method
                if found.errors is not None:
                    errors += member.share / total * found.errors
                for index, sources in enumerate(preparer.spec.columns()):
                    for source in sources:
                        columns[source] += member.share / total / len(sources) * found.values[:, index]
        if unit is None:
            return None
        if not (np.isfinite(base) and all(np.isfinite(values).all() for values in [errors, *columns.values()])):
            raise BundleError(f"{self.where} explains by values that are not finite. Do not use this bundle.")
        return Decomposition(base, unit, columns, method, errors)

    def neighbors(self, batch: pl.DataFrame, models: Mapping[str, int]) -> dict[str, RowNeighbors]:
        found: dict[str, RowNeighbors] = {}
        for member in self._members:
            if member.folder in models:
                with bundle_errors(f"{member.where} fails to find its neighbors"):
                    table = self.preparers[member.features].transform(batch)
                    each = member.model.row_neighbors(table, min(MOST_NEIGHBORS, models[member.folder]))
                if each is not None:
                    if not is_valid(each, batch.height, models[member.folder]):
                        raise BundleError(
                            f"{member.where} names neighbors that it cannot have. Do not use this bundle."
                        )
                    found[member.folder] = each
        return found


def _n_open(started: list[_Started]) -> int:
    """Number of predictions that are not made yet."""
    return sum(not future.done() for each in started for _, future in each)


def _predict(member: _Member, table: Table, n_classes: int) -> Float64:
    """The predictions of a fold model.

    Raises:
        BundleError: the model fails, or its predictions have another shape or are not finite.
    """
    with bundle_errors(f"{member.where} fails to predict"):
        predicted = np.asarray(member.model.predict(table), dtype=np.float64)
    expected = (len(table), n_classes) if n_classes else (len(table),)
    if predicted.shape != expected:
        raise BundleError(f"{member.where} predicts the shape {predicted.shape} instead of {expected}.")
    if not np.isfinite(predicted).all():
        raise BundleError(f"{member.where} predicts values that are not finite. Do not use this bundle.")
    return predicted


def name_of(candidate: Candidate) -> str:
    """The name of a trial in error messages."""
    return f"the model {candidate.model} #{candidate.trial}"


def load_predictor(
    schema: Schema, ensemble: Ensemble, folder_of: Callable[[str], Path], where: str, *, device: str = "cpu"
) -> LocalPredictor:
    """Load the models and the feature preparation of an ensemble through the registry, by plugin name only.

    Args:
        folder_of: the folder on disk of a path in the bundle.
        where: name of the bundle in error messages.
        device: the device of the networks.

    Raises:
        BundleError: a plugin is not installed, or a part does not load or does not fit the schema.
    """
    preparers: dict[str, FeaturePreparer] = {}
    models: dict[str, FittedModel] = {}
    for candidate in ensemble.candidates:
        for fold in candidate.folds:
            if fold.features not in preparers:
                preparers[fold.features] = load_features(schema, folder_of(fold.features), fold.features, where)
            spec = preparers[fold.features].spec
            model = load_model(schema, candidate, spec, folder_of(fold.model), fold.model, where)
            with bundle_errors(f"{where}: {name_of(candidate)} in {fold.model} cannot move to {device}"):
                model.to(device)
            models[fold.model] = model
    return LocalPredictor(schema, ensemble, preparers, models, where)


def load_features(schema: Schema, folder: Path, member: str, where: str) -> FeaturePreparer:
    """Load the feature preparation in a folder, which is `member` in the bundle.

    Raises:
        BundleError: it does not load, or does not fit the schema.
    """
    with bundle_errors(f"{where}: the feature state in {member} does not load", folder):
        preparer = FeaturePreparer.load(folder)
        preparer.check(schema)
    return preparer


def load_model(
    schema: Schema, candidate: Candidate, spec: FeatureSpec, folder: Path, member: str, where: str
) -> FittedModel:
    """Load the model in a folder, which is `member` in the bundle.

    Raises:
        BundleError: its plugin is not usable, or it does not load, or does not fit the schema.
    """
    try:
        plugin = registry.get_to_load(candidate.model)
        msgspec.convert(candidate.params, plugin.params_type)
    except UsageError as error:
        raise BundleError(f"{where} needs a model that is not usable here: {error}") from None
    except msgspec.ValidationError as error:
        raise BundleError(
            f"{where} was made with another version of the model {candidate.model!r} ({error})."
        ) from None
    with bundle_errors(f"{where}: {name_of(candidate)} in {member} does not load", folder):
        model = plugin.load(folder)
        model.check(spec, schema.task, len(schema.classes) or 1)
    return model


@contextmanager
def bundle_errors(sentence: str, folder: Path | None = None) -> Generator[None]:
    """Turn any exception into a BundleError: a sentence, with the exception's first line in parentheses.

    Args:
        folder: a temporary folder, whose path is left out.
    """
    try:
        yield
    except (Exception, PanicException) as error:
        detail = (str(error).splitlines() or [""])[0] or type(error).__name__
        if folder is not None:
            detail = detail.replace(f"{folder}: ", "").replace(f"{folder}/", "").replace(str(folder), "its folder")
        raise BundleError(f"{sentence} ({detail[:200]}).") from error
