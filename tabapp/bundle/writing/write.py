"""Writes models and features of a run to one `.tabapp` file."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

import tabapp
from tabapp.bundle.files.archive import Entry, entries_of_folder, new_file, write_archive
from tabapp.bundle.files.card import model_card
from tabapp.bundle.files.records import (
    CARD,
    ENSEMBLE,
    FEATURES,
    FORMAT_VERSION,
    MODELS,
    SAMPLE,
    SAMPLE_OUTPUT,
    SCHEMA,
    TRAINING_ROWS,
    WEIGHTS,
    Candidate,
    Ensemble,
    FoldModel,
    Manifest,
    MetricValue,
    PretrainedMember,
    TrainingRows,
)
from tabapp.bundle.files.sample import read_sample, write_sample
from tabapp.bundle.prediction.intervals import Intervals
from tabapp.bundle.prediction.load import EXACT, load_bundle
from tabapp.bundle.prediction.local import load_predictor
from tabapp.data.schema import Schema
from tabapp.ensemble.calibration import Calibration, ClassScaling
from tabapp.errors import BundleError
from tabapp.models import registry
from tabapp.models.contract import FittedModel
from tabapp.models.distributions import distribution_of
from tabapp.weights import store

MOST_LISTED_ROWS = 2_000_000
"""Training rows of all fold models together, above which the bundle does not say which rows they are."""


@dataclass(frozen=True)
class FoldSource:
    """The model of a fold on disk: the folders written by `FittedModel.save` and `FeaturePreparer.save`, with no other files.

    Candidates with the same recipe and fold share a `features` folder, which is stored once. `rows` are the numbers in the
    training file of the rows passed to the fit, of a model that predicts from them. `seed` numbers the models of a fold that differ
    in their random numbers only.
    """

    fold: int
    model: Path
    features: Path
    rows: Sequence[int] | None = None
    seed: int = 0


@dataclass(frozen=True)
class CandidateSource:
    """A trial in the ensemble: plugin name, number of the trial, hyperparameters as JSON, weight, and its folds."""

    model: str
    trial: int
    params: dict[str, Any]
    weight: float
    folds: Sequence[FoldSource]


@dataclass(frozen=True)
class BundleContents:
    """The contents of a bundle. Models and features stay on disk until they are copied.

    Attributes:
        run, name: id of the run, and the name that the user gave ("" for none).
        metric: the run's metric; `metrics` lists it first, then all others that were computed.
        validation: how the scored rows were chosen, in words.
        leaderboard: rows as JSON values.
        data: fingerprint of the training table as JSON values, such as file name, rows, columns and SHA-256.
        created_at: ISO 8601 in UTC.
        candidates: those with weight 0 are left out; the other weights are scaled to sum to 1.
        sample: a few training rows as text, which test the bundle when it is loaded.
        targets: class code or target of each row of the training file that `FoldSource.rows` names.
        intervals: prediction intervals (`intervals.fit_intervals`); None for classification.
        calibration, threshold: see `Ensemble`.
    """

    run: str
    name: str
    schema: Schema
    metric: str
    metrics: Sequence[MetricValue]
    validation: str
    leaderboard: Sequence[dict[str, Any]]
    seed: int
    data: dict[str, Any]
    created_at: str
    candidates: Sequence[CandidateSource]
    sample: pl.DataFrame
    intervals: Intervals | None = None
    targets: Mapping[int, float] = field(default_factory=dict[int, float])
    calibration: Calibration | None = None
    threshold: float | None = None


@dataclass
class _Layout:
    """The ensemble with paths in the bundle, the folder on disk of each path, and the training rows of each model."""

    ensemble: Ensemble
    sources: dict[str, Path] = field(default_factory=dict[str, Path])
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


def write_bundle(path: Path, contents: BundleContents) -> Manifest:
    """Write a bundle under a temporary name, load it, compare its predictions for the sample, and rename it; returns its manifest.

    The same contents give the same bytes. Files are streamed.

    Raises:
        ValueError: the contents have no ensemble, no sample, or a file that cannot be stored.
        BundleError: the loaded bundle predicts differently.
        OSError: the disk is full or a file cannot be read; `path` is unchanged.
    """
    if not contents.sample.height:
        raise ValueError("a bundle needs sample rows")
    layout = _layout_of(contents)
    entries = [
        Entry(SCHEMA, "schema", _json(contents.schema)),
        Entry(ENSEMBLE, "ensemble", _json(layout.ensemble)),
    ]
    for path_in_bundle, source in layout.sources.items():
        entries += entries_of_folder(
            source, path_in_bundle, "features" if path_in_bundle.startswith(f"{FEATURES}/") else "model"
        )
    if layout.rows and sum(map(len, layout.rows.values())) <= MOST_LISTED_ROWS:
        used = sorted({number for numbers in layout.rows.values() for number in numbers})
        rows = TrainingRows(numbers=layout.rows, targets={number: contents.targets[number] for number in used})
        entries.append(Entry(TRAINING_ROWS, "rows", msgspec.json.encode(rows)))
    sample = write_sample(contents.sample)
    predictor = load_predictor(contents.schema, layout.ensemble, layout.sources.__getitem__, str(path))
    output = predictor.to_frame(predictor.predict_frame(read_sample(sample), fill_missing_columns=True))
    entries += [Entry(SAMPLE, "sample", sample), Entry(SAMPLE_OUTPUT, "sample", write_sample(output))]
    pretrained = _pretrained_in(layout.ensemble, predictor.models)
    entries += [
        Entry(f"{WEIGHTS}/{sha256}.safetensors", "weights", store.verified(record))
        for sha256 in {each.weights.sha256 for each in pretrained}
        # Another version of tabapp may come with other weights.
        if (record := store.with_hash(sha256)) is not None and store.is_shipped(record.name)
    ]
    manifest = _manifest(contents, layout.ensemble, pretrained)
    entries.append(Entry(CARD, "card", model_card(manifest, contents.schema, layout.ensemble).encode()))
    with new_file(path) as temporary:
        manifest = write_archive(temporary, entries, manifest)
        try:
            load_bundle(temporary, tolerance=EXACT, is_own=True)
        except BundleError as error:
            raise BundleError(error.args[0].replace(str(temporary), str(path))) from None
    return manifest


def _layout_of(contents: BundleContents) -> _Layout:
    chosen = [candidate for candidate in contents.candidates if candidate.weight > 0]
    total = sum(candidate.weight for candidate in chosen)
    if not chosen or not all(candidate.folds for candidate in chosen):
        raise ValueError("a bundle needs at least one model with a weight")
    feature_paths: dict[Path, str] = {}
    sources: dict[str, Path] = {}
    rows: dict[str, tuple[int, ...]] = {}
    candidates: list[Candidate] = []
    for candidate in chosen:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{candidate.model}-{candidate.trial}")
        folds: list[FoldModel] = []
        for fold in candidate.folds:
            features = feature_paths.setdefault(fold.features.resolve(), f"{FEATURES}/{len(feature_paths):03d}")
            model = f"{MODELS}/{name}/{fold.fold}" + (f"-{fold.seed}" if fold.seed else "")
            if model in sources:
                raise ValueError(f"{candidate.model} #{candidate.trial} fold {fold.fold} appears twice")
            sources |= {features: fold.features, model: fold.model}
            if fold.rows is not None:
                rows[model] = tuple(fold.rows)
            folds.append(FoldModel(fold=fold.fold, model=model, features=features))
        candidates.append(
            Candidate(
                model=candidate.model,
                trial=candidate.trial,
                weight=candidate.weight / total,
                params=candidate.params,
                folds=tuple(folds),
            )
        )
    intervals, calibration = contents.intervals, contents.calibration
    ensemble = Ensemble(
        candidates=tuple(candidates),
        residual_quantile=None if intervals is None else intervals.residual_quantile,
        half_widths=() if intervals is None else intervals.half_widths,
        interval_scale=None if intervals is None else intervals.scale,
        temperature=calibration if isinstance(calibration, float) else None,
        scaling=calibration if isinstance(calibration, ClassScaling) else None,
        threshold=contents.threshold,
    )
    return _Layout(ensemble, sources, rows)


def _manifest(contents: BundleContents, ensemble: Ensemble, pretrained: tuple[PretrainedMember, ...]) -> Manifest:
    return Manifest(
        format_version=FORMAT_VERSION,
        created_by=f"tabapp {tabapp.__version__}",
        created_at=contents.created_at,
        run=contents.run,
        name=contents.name,
        task=contents.schema.task,
        target=contents.schema.target,
        classes=contents.schema.classes,
        metric=contents.metric,
        metrics=tuple(contents.metrics),
        validation=contents.validation,
        seed=contents.seed,
        data=contents.data,
        leaderboard=tuple(contents.leaderboard),
        libraries=_libraries(ensemble),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        members=(),
        training_rows_in=models_with_training_rows(ensemble),
        pretrained=pretrained,
    )


def _pretrained_in(ensemble: Ensemble, models: Mapping[str, FittedModel]) -> tuple[PretrainedMember, ...]:
    """The weights that the models of an ensemble refer to, each once."""
    used = {
        (candidate.model, weights.name): PretrainedMember(model=candidate.model, weights=weights)
        for candidate in ensemble.candidates
        for fold in candidate.folds
        if (weights := models[fold.model].pretrained()) is not None
    }
    return tuple(used[key] for key in sorted(used))


def models_with_training_rows(ensemble: Ensemble) -> tuple[str, ...]:
    """Names of the ensemble's models whose saved form contains training rows."""
    names = {candidate.model for candidate in ensemble.candidates}
    return tuple(sorted(name for name in names if registry.get_to_load(name).contains_training_rows))


def _libraries(ensemble: Ensemble) -> dict[str, str]:
    """Versions of the packages that wrote the models, by distribution name."""
    imported = {"numpy", "polars"}
    for candidate in ensemble.candidates:
        imported |= {package.split(".")[0] for package in registry.get_to_load(candidate.model).requires}
    found: dict[str, str] = {}
    for package in sorted(imported):
        name = distribution_of(package)
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _json(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
