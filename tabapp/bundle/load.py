"""From a `.tabapp` file to a predictor: everything is verified before a native loader sees a byte."""

from __future__ import annotations

import tempfile
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
from tabapp.errors import BundleError, TabappError

EXACT = 1e-6
"""Largest difference from the stored predictions on the machine that made a bundle: of probabilities, or relative to the largest
stored prediction."""

TOLERANCE = 1e-3
"""The same elsewhere, where other processors and library versions round otherwise."""


@dataclass(frozen=True)
class LoadedBundle:
    """A bundle that is ready to predict. `drift` is the largest difference from its stored predictions (see `EXACT`), None
    when it stores none."""

    contents: Contents
    predictor: Predictor
    drift: float | None


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
        contents = decode_contents(archive)
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
