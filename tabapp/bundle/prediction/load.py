"""Loads a `.tabapp` file as a predictor. Every member is verified before a native loader reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.bundle.files.archive import Archive, open_archive
from tabapp.bundle.files.contents import Contents, decode_contents
from tabapp.bundle.files.records import DOUBLE_VERSION, SAMPLE, SAMPLE_OUTPUT, WEIGHTS
from tabapp.bundle.files.sample import SampleError, read_sample
from tabapp.bundle.files.unpack import unpacked
from tabapp.bundle.prediction.local import load_predictor
from tabapp.bundle.prediction.neighbors import Neighbor, merged
from tabapp.bundle.prediction.predict import Float64, Predictor
from tabapp.errors import BundleError, TabappError
from tabapp.weights.store import also_in

EXACT = 1e-6
"""Largest allowed difference from the stored predictions on the machine that wrote the bundle (see `LoadedBundle.drift`)."""

TOLERANCE = 1e-5
"""The same on other machines, where sums of float32 numbers are rounded in another order.

Networks predict in float32, whose rounding error is 6e-8. Under the instruction sets SSE4, AVX2 and AVX-512 of oneDNN, MKL,
OpenBLAS and PyTorch, with one and two threads, the predictions of the built-in models differed by up to 3.6e-7; those of trees,
which compare and add the same numbers everywhere, by nothing. The tolerance is 28 times as much, for deeper networks and other
libraries.
"""

MOST_SAMPLE_ROWS = 1_000
"""A run stores 20."""


@dataclass(frozen=True)
class LoadedBundle:
    """A bundle that is ready to predict.

    Attributes:
        drift: largest difference from the stored predictions: absolute for probabilities; for a regression relative to the spread
            of the stored predictions or the half-width of the 90 % interval, whichever is larger. The rounding of bundles that
            predicted in single precision is no difference.
        sample: the sample rows as text.
    """

    contents: Contents
    predictor: Predictor
    drift: float
    sample: pl.DataFrame

    def neighbors(self, typed: pl.DataFrame) -> list[list[Neighbor]]:
        """`neighbors_of` with the models of this bundle."""
        return neighbors_of(self.predictor, self.contents, typed)

    def reference_rows(self) -> pl.DataFrame:
        """The sample as typed rows, with which explanations compare a row."""
        return self.predictor.typed_rows(self.sample, fill_missing_columns=True)[0]


def neighbors_of(predictor: Predictor, contents: Contents, typed: pl.DataFrame) -> list[list[Neighbor]]:
    """The training rows on which each prediction rests, largest weight first; empty lists without a model that predicts from
    training rows, or if the bundle does not say which rows those are.

    Raises:
        BundleError: a model fails.
    """
    rows = contents.training_rows
    models = {} if rows is None else {model: len(numbers) for model, numbers in rows.numbers.items()}
    found = predictor.neighbors(typed, models) if models else {}
    if rows is None or not found:
        return [[] for _ in range(typed.height)]
    return merged(found, contents.ensemble, rows, contents.schema)


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
        with also_in(folder / WEIGHTS):
            predictor = load_predictor(contents.schema, contents.ensemble, lambda member: folder / member, str(path))
        return self_tested(archive, contents, predictor, tolerance)


def self_tested(archive: Archive, contents: Contents, predictor: Predictor, tolerance: float) -> LoadedBundle:
    """Compare the predictions for the sample of a bundle with the stored ones.

    Raises:
        BundleError: they differ by more than `tolerance`, or the sample cannot be predicted.
    """
    is_single = contents.manifest.format_version < DOUBLE_VERSION
    drift, sample = _replay(archive, predictor, is_single)
    if not drift <= tolerance:
        saved_by = ", ".join(f"{name} {version}" for name, version in contents.manifest.libraries.items())
        raise BundleError(
            f"{archive.path} predicts its sample differently here than where it was made (by up to {drift:.2g}). Install "
            f"the versions that it was made with: {saved_by}."
        )
    return LoadedBundle(contents, predictor, drift, sample)


def _replay(archive: Archive, predictor: Predictor, is_single: bool) -> tuple[float, pl.DataFrame]:
    """The difference between the predictions for the sample and the stored ones, as in `LoadedBundle.drift`, and the sample.

    Args:
        is_single: the stored predictions of a regression were rounded to single precision.

    Raises:
        BundleError: the sample is missing, is not a sample, or cannot be predicted.
    """
    try:
        sample = read_sample(archive.read(SAMPLE))
        stored = read_sample(archive.read(SAMPLE_OUTPUT))
        if not 0 < sample.height <= MOST_SAMPLE_ROWS:
            raise BundleError(
                f"{archive.path}: its {SAMPLE} has {sample.height:,} rows instead of 1 to {MOST_SAMPLE_ROWS:,}."
            )
        if (stored.columns, stored.height) != (predictor.output_columns, sample.height):
            raise BundleError(
                f"{archive.path}: its {SAMPLE_OUTPUT} does not have the rows and columns of its predictions."
            )
        drift = _drift(predictor, sample, stored, is_single)
        quoted = [name for name in sample.columns if '"' in name]
        if quoted and not drift <= EXACT:
            # In older bundles, predictions were stored without the columns that have a double quote in their names.
            unread = sample.rename({name: name.replace('"', '""') for name in quoted})
            drift = min(drift, _drift(predictor, unread, stored, is_single))
    except BundleError:
        raise
    except (SampleError, PolarsError, TabappError) as error:
        detail = str(error).splitlines()[0][:160]
        raise BundleError(f"{archive.path}: cannot predict its sample ({detail}).") from None
    return drift, sample


def _drift(predictor: Predictor, sample: pl.DataFrame, stored: pl.DataFrame, is_single: bool) -> float:
    """The difference between the predictions for a sample and the stored ones, as in `LoadedBundle.drift`."""
    output = predictor.to_frame(predictor.predict_frame(sample, fill_missing_columns=True))
    numbers = [name for name in output.columns if output[name].dtype == pl.Float64]
    found = output.select(numbers).to_numpy()
    expected = stored.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
    half_width = predictor.ensemble.residual_quantile or 0.0 if predictor.schema.task == "regression" else None
    return _difference(found, expected, half_width, is_single)


def _difference(found: Float64, expected: Float64, half_width: float | None, is_single: bool = False) -> float:
    """The largest difference of predictions, as in `LoadedBundle.drift`; NaN where a stored one is not a number.

    Args:
        found, expected: (rows, classes) probabilities, or (rows, 3): prediction, low and high.
        half_width: that of the 90 % interval; None for classification.
        is_single: predictions of a regression were rounded to single precision, which is no difference.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(np.isnan(found) & np.isnan(expected), 0.0, np.abs(found - expected))
        if half_width is None:
            return float(difference.max())
        if is_single:
            difference -= 2 * float(np.finfo(np.float32).eps) * np.abs(expected[:, :1])
            difference = np.maximum(difference, 0.0)
        return float(difference.max()) / (max(float(np.ptp(expected[:, 0])), half_width) or 1.0)
