"""Half-precision copies of saved models, where their predictions change little enough."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tabapp.bundle.files.records import Candidate
from tabapp.bundle.prediction.local import load_features, load_model
from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.data.schema import Schema
from tabapp.errors import BundleError
from tabapp.models import registry

HALF_TOLERANCE = 1e-4
"""Largest change of a probability, or of a number as a share of the spread of the predictions."""


def in_half_precision(
    sources: list[CandidateSource], schema: Schema, rows: pl.DataFrame, folder: Path, report: Callable[[str], None]
) -> list[CandidateSource]:
    """Replace saved models that tolerate it by half-precision copies whose predictions differ by at most `HALF_TOLERANCE`.

    Other models stay as they are: a rounded threshold of a tree changes few predictions, but those by much.

    Args:
        rows: typed rows that the predictions are compared on.
        folder: an empty folder for the copies.
        report: called with the name of each model that is tried.
    """
    changed: list[CandidateSource] = []
    for source in sources:
        if not registry.get(source.model).tolerates_half:
            changed.append(source)
            continue
        folds: list[FoldSource] = []
        for fold in source.folds:
            report(source.model)
            copy = folder / f"{source.model}-{source.trial}-{fold.fold}"
            is_close = write_halved(fold.model, copy) and _predicts_alike(source, fold, copy, schema, rows)
            folds.append(replace(fold, model=copy) if is_close else fold)
        changed.append(replace(source, folds=folds))
    return changed


def write_halved(folder: Path, copy: Path) -> bool:
    """Copy a folder with the float32 arrays of its safetensors files in float16; returns whether there is any such array."""
    shutil.copytree(folder, copy)
    any_halved = False
    for path in sorted(copy.rglob("*.safetensors")):
        try:
            with safe_open(path, framework="numpy") as file:
                notes: dict[str, str] | None = file.metadata()
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, TypeError):
            # NumPy has no bfloat16, for example.
            continue
        with np.errstate(over="ignore"):
            halves = {name: a.astype(np.float16) for name, a in arrays.items() if a.dtype == np.float32 and a.size > 1}
        # Saved arrays are finite, so an array beyond the range of float16 stays as it is.
        halves = {name: half for name, half in halves.items() if np.isfinite(half).all()}
        if halves:
            any_halved = True
            save_file(arrays | halves, path, metadata=notes)
    return any_halved


def _predicts_alike(source: CandidateSource, fold: FoldSource, copy: Path, schema: Schema, rows: pl.DataFrame) -> bool:
    candidate = Candidate(model=source.model, trial=source.trial, weight=1.0, params=source.params, folds=())
    preparer = load_features(schema, fold.features, "features", "the run")
    table = preparer.transform(rows)
    expected = load_model(schema, candidate, preparer.spec, fold.model, "model", "the run").predict(table)
    try:
        found = load_model(schema, candidate, preparer.spec, copy, "model", "the copy").predict(table)
    except BundleError:
        # A third-party plugin need not read half precision.
        return False
    spread = 1.0 if schema.classes else float(np.ptp(expected)) or 1.0
    difference = np.abs(np.asarray(found, dtype=np.float64) - expected)
    return found.shape == expected.shape and bool((difference <= HALF_TOLERANCE * spread).all())
