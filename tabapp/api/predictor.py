"""Bundles as objects that predict tables."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabapp.api.frames import frame_like, is_path, series_like, to_polars
from tabapp.errors import BundleError, DataError, UsageError
from tabapp.run.config import parse_bytes
from tabapp.run.keywords import in_python

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.format import MetricValue
    from tabapp.bundle.load import LoadedBundle
    from tabapp.bundle.predict import Prediction
    from tabapp.data.schema import Schema, Task

MissingColumns = Literal["error", "fill"]


def load(bundle: str | os.PathLike[str], *, trust: str | os.PathLike[str] | None = None) -> Predictor:
    """Load a bundle: every checksum is verified, and the bundle predicts its stored sample again.

    Args:
        trust: file of an Ed25519 public key. A bundle that this key has not signed is rejected.

    Raises:
        BundleError: there is no such file, or it cannot be trusted or understood.
        UsageError: the key cannot be used.
    """
    from tabapp.bundle.box import load_boxed

    path = Path(bundle)
    if not path.is_file():
        raise BundleError(f"There is no bundle {path}; check the path.")
    return Predictor(load_boxed(path, trust=None if trust is None else Path(trust)))


class Predictor:
    """A trained ensemble, loaded from a bundle.

    Every method that predicts takes the path of a file, or a polars, pandas or pyarrow table, and keeps the rows and their order. A
    pandas table gets pandas results with its index; everything else gets polars results. Columns may be in any order; columns that
    training did not have are ignored, with a warning.
    """

    def __init__(self, loaded: LoadedBundle) -> None:
        self._loaded = loaded

    @property
    def path(self) -> Path:
        """The file of the bundle."""
        return self._loaded.contents.path

    @property
    def schema(self) -> Schema:
        """The columns of the training table: names, kinds, roles, and the reason for each kind."""
        return self._loaded.contents.schema

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.schema.target

    @property
    def task(self) -> Task:
        """ "binary", "multiclass" or "regression"."""
        return self.schema.task

    @property
    def classes(self) -> tuple[str, ...]:
        """Class labels as text, in the order of the probabilities; the positive class of a binary task is last. Empty for
        regression."""
        return self.schema.classes

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """Out-of-fold scores of the ensemble by metric, each with `score`, `low` and `high` (95 % interval). The metric that the
        run chose its models by comes first."""
        return {value.name: value for value in self._loaded.contents.manifest.metrics}

    def predict(
        self, data: Any, *, missing_columns: MissingColumns = "error", max_memory: str | int | None = None
    ) -> Any:
        """Predict every row: the most probable class as text, or a number in target units.

        Args:
            data: path of a file, or a table.
            missing_columns: "fill" predicts without feature columns that are missing or of another kind than in training.
            max_memory: memory that reading a file may use, such as "8GiB" or bytes; by default 80 % of what is free.

        Returns:
            A series named like the target.

        Raises:
            DataError: feature columns are missing or of another kind than in training, which names every one; or a file cannot be
                read, or needs more memory.
        """
        found = self._predict(data, missing_columns, max_memory)
        return series_like(data, self._loaded.predictor.to_frame(found)["prediction"].alias(self.target))

    def predict_proba(
        self, data: Any, *, missing_columns: MissingColumns = "error", max_memory: str | int | None = None
    ) -> Any:
        """Predict the probability of each class.

        Args:
            data, missing_columns, max_memory: as for `predict`.

        Returns:
            A frame with a column for each class, named by its label, in the order of `classes`. Rows sum to 1.

        Raises:
            UsageError: the task is a regression.
            DataError: as for `predict`.
        """
        import polars as pl

        if not self.classes:
            raise UsageError(
                "Probabilities exist for classification only; predict_interval gives the intervals of a regression."
            )
        values = self._predict(data, missing_columns, max_memory).values
        return frame_like(data, {label: pl.Series(values[:, code]) for code, label in enumerate(self.classes)})

    def predict_interval(
        self,
        data: Any,
        coverage: float = 0.9,
        *,
        missing_columns: MissingColumns = "error",
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict an interval around each prediction that covers a share of new rows, on average over rows like the training ones.

        The half-width is a quantile of the absolute out-of-fold errors (split-conformal prediction).

        Args:
            data, missing_columns, max_memory: as for `predict`.
            coverage: share of rows, above 0 and up to 0.999. It is rounded up to a whole percent, 0.995 or 0.999.

        Returns:
            A frame with the columns `low` and `high` in target units.

        Raises:
            UsageError: the task is a classification, the coverage is out of range, or the bundle stores 90 % intervals only.
            DataError: as for `predict`.
        """
        import polars as pl

        half = self._loaded.predictor.half_width(coverage)
        values = self._predict(data, missing_columns, max_memory).values
        return frame_like(data, {"low": pl.Series(values - half), "high": pl.Series(values + half)})

    def _predict(self, data: Any, missing_columns: str, max_memory: str | int | None) -> Prediction:
        if missing_columns not in ("error", "fill"):
            raise UsageError(f"missing_columns={missing_columns!r} is not known; use 'error' or 'fill'.")
        try:
            frame = self._text(data, max_memory)
        except DataError as error:
            raise DataError(in_python(str(error))) from None
        try:
            found = self._loaded.predictor.predict_frame(frame, fill_missing_columns=missing_columns == "fill")
        except DataError as error:
            raise DataError(in_python(f"{data}: {error}" if is_path(data) else str(error))) from None
        for note in found.notes:
            warnings.warn(f"{note.rstrip('.')}.", stacklevel=3)
        return found

    def _text(self, data: Any, max_memory: str | int | None) -> pl.DataFrame:
        """A table as text, its dates written as the bundle reads them."""
        if is_path(data):
            from tabapp.data.read import ReadOptions, read_table

            limit = parse_bytes(str(max_memory)) if max_memory is not None else None
            return read_table(Path(data), ReadOptions(max_memory=limit), allow_no_rows=True).frame
        from tabapp.data.stored import as_text

        formats = {c.name: c.datetime_format for c in self.schema.columns if c.datetime_format is not None}
        return as_text(to_polars(data), "data", formats)

    def __repr__(self) -> str:
        first = next(iter(self.metrics.values()), None)
        score = f", {first.name}={first.score:.4g}" if first is not None and first.score is not None else ""
        return f"<Predictor of {self.target!r} ({self.task}){score}, {self.path.name}>"
