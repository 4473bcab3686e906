"""The records of a bundle: verified, decoded and checked for consistency, without loading any model or its code."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tabapp.bundle.files.archive import Archive, open_archive
from tabapp.bundle.files.archive_checks import is_safe_path
from tabapp.bundle.files.records import (
    COVERAGES,
    ENSEMBLE,
    SAMPLE,
    SAMPLE_OUTPUT,
    SCHEMA,
    TRAINING_ROWS,
    Ensemble,
    Manifest,
    TrainingRows,
)
from tabapp.data.schema import Schema
from tabapp.data.schema_checks import schema_problem
from tabapp.ensemble.scaling import LEAST_POWER, MOST_POWER
from tabapp.ensemble.temperature import HIGHEST, LOWEST
from tabapp.errors import BundleError


@dataclass(frozen=True)
class Contents:
    """The records of a verified bundle; no model is loaded.

    `is_signed` says whether it has a signature, by whatever key. `training_rows` names the rows that models store, if known.
    """

    path: Path
    manifest: Manifest
    schema: Schema
    ensemble: Ensemble
    is_signed: bool = False
    training_rows: TrainingRows | None = None


def open_bundle(path: Path, *, trust: Path | None = None) -> Contents:
    """Verify the names, sizes and checksums of a bundle and decode its records. Loads no model.

    Args:
        trust: file of the public key that must have signed the bundle.

    Raises:
        BundleError: the bundle is not valid, or is not signed by that key.
        UsageError: the key cannot be used.
    """
    with open_archive(path, trust=trust) as archive:
        archive.verify()
        return decode_contents(archive)


def decode_contents(archive: Archive) -> Contents:
    """Decode the records of a bundle and check that they are consistent.

    Raises:
        BundleError: a record is missing or not valid, or two records contradict each other.
    """
    manifest = archive.manifest
    for member in (SAMPLE, SAMPLE_OUTPUT):
        if member not in archive:
            raise BundleError(f"{archive.path}: the bundle has no {member}, which tests its predictions.")
    schema = archive.decode(SCHEMA, Schema)
    ensemble = archive.decode(ENSEMBLE, Ensemble)
    rows = archive.decode(TRAINING_ROWS, TrainingRows) if TRAINING_ROWS in archive else None
    problem = (
        _schema_problem(manifest, schema)
        or _ensemble_problem(manifest, ensemble)
        or _rows_problem(rows, schema, ensemble)
    )
    if problem:
        raise BundleError(f"{archive.path} is inconsistent: {problem}.")
    return Contents(archive.path, manifest, schema, ensemble, archive.signature is not None, rows)


def _schema_problem(manifest: Manifest, schema: Schema) -> str | None:
    names = [column.name for column in schema.columns]
    if len(set(names)) < len(names):
        return "its schema has a column twice"
    if (manifest.task, manifest.target, manifest.classes) != (schema.task, schema.target, schema.classes):
        return "its manifest and its schema differ in task, target or classes"
    if schema.target not in names or not schema.features:
        return "its schema has no target or no feature"
    n_classes = len(schema.classes)
    is_valid = {"regression": n_classes == 0, "binary": n_classes == 2, "multiclass": n_classes > 2}[schema.task]
    if not is_valid or len(set(schema.classes)) < n_classes:
        return f"its classes do not fit a {schema.task} task"
    return schema_problem(schema)


def _ensemble_problem(manifest: Manifest, ensemble: Ensemble) -> str | None:
    weights = [candidate.weight for candidate in ensemble.candidates]
    if not weights or min(weights) <= 0 or not math.isclose(math.fsum(weights), 1.0, rel_tol=1e-6):
        return "the weights of its ensemble do not sum to 1"
    widths = ensemble.half_widths
    if widths and (len(widths) != len(COVERAGES) or any(low > high for low, high in pairwise(widths))):
        return "the half-widths of its intervals do not fit their coverages"
    numbers = [ensemble.residual_quantile or 0.0, *widths]
    if not all(0 <= number < math.inf for number in numbers):
        return "a half-width of its intervals is not a number above 0"
    scale = ensemble.interval_scale
    if scale is not None:
        at, factors = scale.predictions, scale.factors
        increases = all(low < high for low, high in pairwise(at))
        if not (at and len(at) == len(factors) and increases and all(map(math.isfinite, at))):
            return "the scale of its intervals does not increase"
        if not all(0 < factor < math.inf for factor in factors):
            return "a factor of its intervals is not a number above 0"
    if ensemble.temperature is not None and not (manifest.classes and LOWEST <= ensemble.temperature <= HIGHEST):
        return "its temperature does not fit its task"
    scaling = ensemble.scaling
    if scaling is not None:
        if ensemble.temperature is not None:
            return "it has both a temperature and a scaling of its probabilities"
        if not manifest.classes or any(
            len(each) != len(manifest.classes) for each in (scaling.powers, scaling.factors)
        ):
            return "the scaling of its probabilities does not fit its classes"
        if not all(LEAST_POWER <= power <= MOST_POWER for power in scaling.powers):
            return f"a power of its probabilities is not between {LEAST_POWER:g} and {MOST_POWER:g}"
        if not all(0 < factor < math.inf for factor in scaling.factors):
            return "a factor of its probabilities is not a number above 0"
    if ensemble.threshold is not None and not (manifest.task == "binary" and 0 < ensemble.threshold < 1):
        return "its threshold does not fit its task"
    models = [fold.model for candidate in ensemble.candidates for fold in candidate.folds]
    (most_frequent, n_times), *_ = Counter(models).most_common(1) or [("", 0)]
    if n_times > 1:
        return f"its ensemble lists {most_frequent[:80]!r} {n_times:,} times"
    folders = {member.path.rsplit("/", depth)[0] for member in manifest.members for depth in range(1, 8)}
    for candidate in ensemble.candidates:
        if not candidate.folds:
            return f"its ensemble member {candidate.model} #{candidate.trial} has no model"
        for fold in candidate.folds:
            for folder in (fold.model, fold.features):
                if not is_safe_path(folder) or folder not in folders:
                    return f"its ensemble refers to {folder[:80]!r}, which is missing"
    return None


def _rows_problem(rows: TrainingRows | None, schema: Schema, ensemble: Ensemble) -> str | None:
    if rows is None:
        return None
    models = {fold.model for candidate in ensemble.candidates for fold in candidate.folds}
    if not set(rows.numbers) <= models:
        return "its training rows belong to a model that is missing"
    n_classes = len(schema.classes)
    for number, target in rows.targets.items():
        is_code = 0 <= target < n_classes and target == int(target)
        if number < 0 or not math.isfinite(target) or (n_classes and not is_code):
            return "a target of its training rows is not valid"
    if not all(number in rows.targets for numbers in rows.numbers.values() for number in numbers):
        return "a training row has no target"
    return None
