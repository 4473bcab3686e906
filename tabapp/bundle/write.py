"""From the folders of a run to one `.tabapp` file."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

import tabapp
from tabapp.bundle.archive import Entry, entries_of_folder, new_file, write_archive
from tabapp.bundle.card import model_card
from tabapp.bundle.format import (
    CARD,
    ENSEMBLE,
    FEATURES,
    FORMAT_VERSION,
    MODELS,
    SAMPLE,
    SAMPLE_OUTPUT,
    SCHEMA,
    Candidate,
    Ensemble,
    FoldModel,
    Manifest,
    MetricValue,
)
from tabapp.bundle.load import EXACT, load_bundle, read_sample
from tabapp.bundle.predict import load_predictor
from tabapp.data.schema import Schema
from tabapp.models import registry


@dataclass(frozen=True)
class FoldSource:
    """One fold's model on disk: what `FittedModel.save` wrote, and what `FeaturePreparer.save` wrote (and nothing beside it).

    Candidates with the same recipe and fold name the same `features` folder; it is stored once.
    """

    fold: int
    model: Path
    features: Path


@dataclass(frozen=True)
class CandidateSource:
    """A trial in the ensemble: plugin name, number of the trial, hyper-parameters as JSON, weight, and its folds."""

    model: str
    trial: int
    params: dict[str, Any]
    weight: float
    folds: Sequence[FoldSource]


@dataclass(frozen=True)
class BundleContents:
    """Everything that goes into a bundle. Models and features stay on disk until they are copied.

    Attributes:
        run, name: id of the run, and the name that the user gave ("" for none).
        metric: name of the run's metric; `metrics` holds it first, and any others that were computed.
        validation: how the scored rows were chosen, in words.
        leaderboard: rows as JSON values.
        data: fingerprint of the training table as JSON values, such as file name, rows, columns and SHA-256.
        created_at: ISO 8601 in UTC.
        candidates: those without weight are left out; the weights of the others are scaled to sum to 1.
        sample: a few training rows as text, None for a bundle that shows no data.
        residual_quantile: half-width of the 90 % interval (`predict.residual_quantile`); None for classification.
        half_widths: half-widths for every coverage (`predict.half_widths`); empty for classification.
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
    sample: pl.DataFrame | None = None
    residual_quantile: float | None = None
    half_widths: tuple[float, ...] = ()


@dataclass
class _Layout:
    """Where everything goes in the bundle, and where it lies now."""

    ensemble: Ensemble
    sources: dict[str, Path] = field(default_factory=dict[str, Path])


def write_bundle(path: Path, contents: BundleContents) -> Manifest:
    """Write a bundle, read it back, and let it predict its sample, before it takes its name; returns its manifest.

    The same contents give the same bytes. Files are streamed.

    Raises:
        ValueError: the contents are no ensemble, or hold something that cannot be stored.
        BundleError: what was written does not predict the same when loaded again.
        OSError: the disk is full or a file cannot be read; nothing stands under `path` that was not there before.
    """
    layout = _lay_out(contents)
    entries = [
        Entry(SCHEMA, "schema", _json(contents.schema)),
        Entry(ENSEMBLE, "ensemble", _json(layout.ensemble)),
    ]
    for place, source in layout.sources.items():
        entries += entries_of_folder(source, place, "features" if place.startswith(f"{FEATURES}/") else "model")
    if contents.sample is not None and contents.sample.height:
        sample = contents.sample.write_csv().encode()
        predictor = load_predictor(contents.schema, layout.ensemble, layout.sources.__getitem__, str(path))
        output = predictor.to_frame(predictor.predict_frame(read_sample(sample), fill_missing_columns=True))
        entries += [Entry(SAMPLE, "sample", sample), Entry(SAMPLE_OUTPUT, "sample", output.write_csv().encode())]
    manifest = _manifest(contents, layout.ensemble)
    entries.append(Entry(CARD, "card", model_card(manifest, contents.schema, layout.ensemble).encode()))
    with new_file(path) as temporary:
        manifest = write_archive(temporary, entries, manifest)
        load_bundle(temporary, tolerance=EXACT)
    return manifest


def _lay_out(contents: BundleContents) -> _Layout:
    chosen = [candidate for candidate in contents.candidates if candidate.weight > 0]
    total = sum(candidate.weight for candidate in chosen)
    if not chosen or not all(candidate.folds for candidate in chosen):
        raise ValueError("a bundle needs at least one model with a weight")
    places: dict[Path, str] = {}
    sources: dict[str, Path] = {}
    candidates: list[Candidate] = []
    for candidate in chosen:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{candidate.model}-{candidate.trial}")
        folds: list[FoldModel] = []
        for fold in candidate.folds:
            features = places.setdefault(fold.features.resolve(), f"{FEATURES}/{len(places):03d}")
            model = f"{MODELS}/{name}/{fold.fold}"
            if model in sources:
                raise ValueError(f"{candidate.model} #{candidate.trial} fold {fold.fold} is there twice")
            sources |= {features: fold.features, model: fold.model}
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
    ensemble = Ensemble(
        candidates=tuple(candidates),
        residual_quantile=contents.residual_quantile,
        half_widths=contents.half_widths,
    )
    return _Layout(ensemble, sources)


def _manifest(contents: BundleContents, ensemble: Ensemble) -> Manifest:
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
        training_rows_in=keepers_of_rows(ensemble),
    )


def keepers_of_rows(ensemble: Ensemble) -> tuple[str, ...]:
    """Names of the ensemble's models that are saved with rows they were trained on."""
    names = {candidate.model for candidate in ensemble.candidates}
    return tuple(sorted(name for name in names if registry.get(name).contains_training_rows))


def _libraries(ensemble: Ensemble) -> dict[str, str]:
    """Versions of the packages whose code wrote the models, by the names they are installed under."""
    imported = {"numpy", "polars"}
    for candidate in ensemble.candidates:
        imported |= {package.split(".")[0] for package in registry.get(candidate.model).requires}
    distributions = packages_distributions()
    found: dict[str, str] = {}
    for package in sorted(imported):
        name = distributions.get(package, [package])[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _json(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
