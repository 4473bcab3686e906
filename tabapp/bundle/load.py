"""From a `.tabapp` file to a predictor: everything is verified before a native loader sees a byte."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.bundle.archive import Archive, is_safe_path, open_archive
from tabapp.bundle.format import ENSEMBLE, SAMPLE, SAMPLE_OUTPUT, SCHEMA, Ensemble, Manifest
from tabapp.bundle.predict import Predictor, load_predictor
from tabapp.data.schema import Schema
from tabapp.errors import BundleError, TabappError

EXACT = 1e-6
"""Largest difference from the stored predictions on the machine that made a bundle: of probabilities, or relative to the largest
stored prediction."""

TOLERANCE = 1e-3
"""The same elsewhere, where other processors and library versions round otherwise."""


@dataclass(frozen=True)
class Contents:
    """What a verified bundle says about itself; no model is loaded."""

    path: Path
    manifest: Manifest
    schema: Schema
    ensemble: Ensemble


@dataclass(frozen=True)
class LoadedBundle:
    """A bundle that is ready to predict. `drift` is the largest difference from its stored predictions (see `EXACT`), None
    when it stores none."""

    contents: Contents
    predictor: Predictor
    drift: float | None


def open_bundle(path: Path) -> Contents:
    """Verify names, sizes and checksums of a bundle and decode its records, loading no model.

    Raises:
        BundleError: one sentence on what is wrong.
    """
    with open_archive(path) as archive:
        archive.verify()
        return _contents(archive)


def load_bundle(path: Path, *, tolerance: float = TOLERANCE) -> LoadedBundle:
    """Verify a bundle, load its models, and predict its sample again.

    The members are verified while they are unpacked to a temporary folder, so what is loaded is what was checked.

    Args:
        tolerance: difference from the stored predictions that is allowed; `EXACT` on the machine that made the bundle.

    Raises:
        BundleError: one sentence on what is wrong.
    """
    with open_archive(path) as archive, tempfile.TemporaryDirectory(prefix="tabapp-bundle-") as unpacked:
        folder = Path(unpacked)
        archive.extract(folder)
        contents = _contents(archive)
        predictor = load_predictor(contents.schema, contents.ensemble, lambda member: folder / member, str(path))
        drift = _replay(archive, predictor)
    if drift is not None and not drift <= tolerance:
        saved_by = ", ".join(f"{name} {version}" for name, version in contents.manifest.libraries.items())
        raise BundleError(
            f"{path}: predicts its own sample differently here than where it was made (by up to {drift:.2g}); it was made with "
            f"{saved_by}, install those versions to use it."
        )
    return LoadedBundle(contents, predictor, drift)


def read_sample(content: bytes) -> pl.DataFrame:
    """A stored sample as text, null where a cell is empty; the writer reads its own sample the same way.

    Raises:
        PolarsError: it is not a table.
    """
    return pl.read_csv(BytesIO(content), infer_schema=False)


def _contents(archive: Archive) -> Contents:
    manifest = archive.manifest
    schema = archive.decode(SCHEMA, Schema)
    ensemble = archive.decode(ENSEMBLE, Ensemble)
    problem = _schema_problem(manifest, schema) or _ensemble_problem(manifest, ensemble)
    if problem:
        raise BundleError(f"{archive.path}: contradicts itself: {problem}.")
    return Contents(archive.path, manifest, schema, ensemble)


def _schema_problem(manifest: Manifest, schema: Schema) -> str | None:
    names = [column.name for column in schema.columns]
    if len(set(names)) < len(names):
        return "a column is described twice"
    if (manifest.task, manifest.target, manifest.classes) != (schema.task, schema.target, schema.classes):
        return "manifest and schema name another task, target or classes"
    if schema.target not in names or not schema.features:
        return "its schema lacks the target or has no feature"
    n_classes = len(schema.classes)
    right = {"regression": n_classes == 0, "binary": n_classes == 2, "multiclass": n_classes > 2}[schema.task]
    if not right or len(set(schema.classes)) < n_classes:
        return f"its classes do not fit a {schema.task} task"
    return None


def _ensemble_problem(manifest: Manifest, ensemble: Ensemble) -> str | None:
    weights = [candidate.weight for candidate in ensemble.candidates]
    if not weights or min(weights) <= 0 or not math.isclose(math.fsum(weights), 1.0, rel_tol=1e-6):
        return "the weights of its ensemble do not sum to 1"
    folders = {member.path.rsplit("/", depth)[0] for member in manifest.members for depth in range(1, 8)}
    for candidate in ensemble.candidates:
        if not candidate.folds:
            return f"its ensemble member {candidate.model} #{candidate.trial} has no model"
        for fold in candidate.folds:
            for folder in (fold.model, fold.features):
                if not is_safe_path(folder) or folder not in folders:
                    return f"its ensemble names {folder[:80]!r}, which it does not hold"
    return None


def _replay(archive: Archive, predictor: Predictor) -> float | None:
    """The largest difference (see `EXACT`) between what the bundle predicts for its sample and what it says it predicts."""
    if SAMPLE not in archive or SAMPLE_OUTPUT not in archive:
        return None
    try:
        sample = read_sample(archive.read(SAMPLE))
        stored = pl.read_csv(BytesIO(archive.read(SAMPLE_OUTPUT)), infer_schema=False)
        output = predictor.to_frame(predictor.predict_frame(sample, fill_missing_columns=True))
        numbers = [name for name in output.columns if output[name].dtype == pl.Float64]
        found = output.select(numbers).to_numpy()
        expected = stored.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
    except (PolarsError, TabappError) as error:
        detail = str(error).splitlines()[0][:160]
        raise BundleError(f"{archive.path}: its sample cannot be predicted ({detail}).") from None
    if found.shape != expected.shape:
        raise BundleError(f"{archive.path}: its {SAMPLE_OUTPUT} does not have the rows of its {SAMPLE}.")
    both_missing = np.isnan(found) & np.isnan(expected)
    difference = np.where(both_missing, 0.0, np.abs(found - expected))
    largest = float(np.nanmax(np.abs(expected), initial=0.0))
    scale = largest if predictor.schema.task == "regression" and largest > 0 else 1.0
    return float(difference.max(initial=0.0)) / scale
