"""Loads a `.tabapp` file as a predictor. Every member is verified before a native loader reads it."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.bundle.archive import Archive, open_archive
from tabapp.bundle.contents import Contents, decode_contents
from tabapp.bundle.format import SAMPLE, SAMPLE_OUTPUT
from tabapp.bundle.predict import Predictor, load_predictor
from tabapp.bundle.unpack import unpacked
from tabapp.errors import BundleError, TabappError

EXACT = 1e-6
"""Largest allowed difference from the stored predictions on the machine that wrote the bundle: absolute for probabilities, else
relative to the largest stored prediction."""

TOLERANCE = 1e-3
"""The same on other machines, where processors and library versions round differently."""


@dataclass(frozen=True)
class LoadedBundle:
    """A bundle that is ready to predict. `drift` is the largest difference from its stored predictions (see `EXACT`); None if it
    has none."""

    contents: Contents
    predictor: Predictor
    drift: float | None


def load_bundle(path: Path, *, tolerance: float = TOLERANCE, is_own: bool = False) -> LoadedBundle:
    """Verify a bundle, load its models, and compare its predictions for its sample with the stored ones.

    Members are verified while they are unpacked to a temporary folder, so the loaded files are the verified ones.

    Args:
        tolerance: allowed difference from the stored predictions; `EXACT` on the machine that wrote the bundle.
        is_own: this process has just written the bundle, so its unpacked size has no limit.

    Raises:
        BundleError: the bundle is not valid, or predicts differently here.
    """
    with open_archive(path, is_own=is_own) as archive, unpacked(archive) as folder:
        contents = decode_contents(archive)
        predictor = load_predictor(contents.schema, contents.ensemble, lambda member: folder / member, str(path))
        return self_tested(archive, contents, predictor, tolerance)


def self_tested(archive: Archive, contents: Contents, predictor: Predictor, tolerance: float) -> LoadedBundle:
    """Compare the predictions for the sample of a bundle with the stored ones.

    Raises:
        BundleError: they differ by more than `tolerance`, or the sample cannot be predicted.
    """
    drift = _replay(archive, predictor)
    if drift is not None and not drift <= tolerance:
        saved_by = ", ".join(f"{name} {version}" for name, version in contents.manifest.libraries.items())
        raise BundleError(
            f"{archive.path} predicts its sample differently here than where it was made (by up to {drift:.2g}). Install "
            f"the versions that it was made with: {saved_by}."
        )
    return LoadedBundle(contents, predictor, drift)


def read_sample(content: bytes) -> pl.DataFrame:
    """Read a stored sample as text; empty cells are null.

    Raises:
        PolarsError: the content is not a table.
    """
    return pl.read_csv(BytesIO(content), infer_schema=False)


def _replay(archive: Archive, predictor: Predictor) -> float | None:
    """The largest difference (see `EXACT`) between the predictions for the sample and the stored ones."""
    if SAMPLE not in archive or SAMPLE_OUTPUT not in archive:
        return None
    try:
        sample = read_sample(archive.read(SAMPLE))
        stored = pl.read_csv(BytesIO(archive.read(SAMPLE_OUTPUT)), infer_schema=False)
        output = predictor.to_frame(predictor.predict_frame(sample, fill_missing_columns=True))
        numbers = [name for name in output.columns if output[name].dtype == pl.Float64]
        found = output.select(numbers).to_numpy()
        expected = stored.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
    except BundleError:
        raise
    except (PolarsError, TabappError) as error:
        detail = str(error).splitlines()[0][:160]
        raise BundleError(f"{archive.path}: cannot predict its sample ({detail}).") from None
    if found.shape != expected.shape:
        raise BundleError(f"{archive.path}: its {SAMPLE_OUTPUT} and its {SAMPLE} have different rows.")
    both_missing = np.isnan(found) & np.isnan(expected)
    difference = np.where(both_missing, 0.0, np.abs(found - expected))
    largest = float(np.nanmax(np.abs(expected), initial=0.0))
    scale = largest if predictor.schema.task == "regression" and largest > 0 else 1.0
    return float(difference.max(initial=0.0)) / scale
