"""What a bundle says about itself: verified, decoded and held against itself, without any model or the code that runs one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tabapp.bundle.archive import Archive, is_safe_path, open_archive
from tabapp.bundle.format import COVERAGES, ENSEMBLE, SCHEMA, Ensemble, Manifest
from tabapp.data.schema import Schema
from tabapp.errors import BundleError


@dataclass(frozen=True)
class Contents:
    """What a verified bundle says about itself; no model is loaded."""

    path: Path
    manifest: Manifest
    schema: Schema
    ensemble: Ensemble


def open_bundle(path: Path) -> Contents:
    """Verify names, sizes and checksums of a bundle and decode its records, loading no model.

    Raises:
        BundleError: one sentence on what is wrong.
    """
    with open_archive(path) as archive:
        archive.verify()
        return decode_contents(archive)


def decode_contents(archive: Archive) -> Contents:
    """The typed records of a bundle, held against one another.

    Raises:
        BundleError: one is missing or not understood, or they contradict one another.
    """
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
    widths = ensemble.half_widths
    if widths and (len(widths) != len(COVERAGES) or any(low > high for low, high in pairwise(widths))):
        return "the half-widths of its intervals do not fit their coverages"
    folders = {member.path.rsplit("/", depth)[0] for member in manifest.members for depth in range(1, 8)}
    for candidate in ensemble.candidates:
        if not candidate.folds:
            return f"its ensemble member {candidate.model} #{candidate.trial} has no model"
        for fold in candidate.folds:
            for folder in (fold.model, fold.features):
                if not is_safe_path(folder) or folder not in folders:
                    return f"its ensemble names {folder[:80]!r}, which it does not hold"
    return None
