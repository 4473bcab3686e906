"""Bundles as objects that predict tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tabapp.api.forks import check_process
from tabapp.api.frames import frame_like, is_path, series_like, to_polars
from tabapp.errors import BundleError, DataError, UsageError, spelled_in_python
from tabapp.run.options.units import parse_bytes
from tabapp.warning_text import sentences

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.files.records import MetricValue
    from tabapp.bundle.prediction.load import LoadedBundle
    from tabapp.bundle.prediction.predict import Prediction
    from tabapp.data.schema import Schema
    from tabapp.task import Task

MissingColumns = Literal["error", "fill"]
DecimalMark = Literal[".", ","]


class Source(NamedTuple):
    """What `load` was called with, and `load` itself."""

    path: Path
    trust: Path | None
    device: str
    load: Callable[..., Any]


def load_again(source: Source, digests: Mapping[str | None, str], target: str | None = None) -> Any:
    """The predictor that a pickle stands for: that of the whole bundle, or of one of its targets.

    Raises:
        BundleError: the file is gone, or is another bundle than when the pickle was made.
        UsageError: as `load`.
    """
    loaded = source.load(source.path, trust=source.trust, device=source.device)
    found: dict[str | None, Predictor] = (
        {None: loaded} if isinstance(loaded, Predictor) else {name: loaded[name] for name in loaded}
    )
    if any(name not in found or found[name]._digest() != digest for name, digest in digests.items()):  # pyright: ignore[reportPrivateUsage]
        raise BundleError(f"{source.path} has changed since its predictor was pickled; load it again.")
    return loaded if target is None else found[target]


class Predictor:
    """A trained ensemble, loaded from a bundle.

    Every method that predicts takes the path of a file, or a polars, pandas or pyarrow table, and keeps the rows and their order. A
    pandas table gets pandas results with its index; everything else gets polars results. Columns may be in any order; columns that
    training did not have are ignored, with a warning. A pickle holds the path of the bundle, which is loaded again.
    """

    def __init__(self, loaded: LoadedBundle, path: Path, source: Source, target: str | None = None) -> None:
        self._loaded = loaded
        self._path = path
        self._source = source
        self._target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return load_again, (self._source, {self._target: self._digest()}, self._target)

    def _digest(self) -> str:
        """What the bundle contains, by the checksums of its members."""
        import msgspec

        return sha256(msgspec.json.encode(self._loaded.contents.manifest)).hexdigest()

    @property
    def path(self) -> Path:
        """The file of the bundle."""
        return self._path

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
        self,
        data: Any,
        *,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict every row: the most probable class as text, or a number in target units.

        Args:
            data: path of a file, or a table.
            missing_columns: "fill" predicts without feature columns that are missing or of another kind than in training.
            strict: reject data in which a column differs from training: most values are unknown, on another scale, or spelled
                otherwise. Without it, such differences are warnings.
            decimal: decimal mark of the numbers in a text file; detected by default.
            max_memory: memory that reading a file may use, such as "8GiB" or bytes; by default 80 % of what is free.

        Returns:
            A series named like the target.

        Raises:
            DataError: feature columns are missing or of another kind than in training, or differ and `strict` is set, which names
                every one; or a file cannot be read, or needs more memory.
        """
        found = self._predict(data, missing_columns, strict, decimal, max_memory)
        return series_like(data, self._loaded.predictor.to_frame(found)["prediction"].alias(self.target))

    def predict_proba(
        self,
        data: Any,
        *,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict the probability of each class.

        Args:
            data, missing_columns, strict, decimal, max_memory: as for `predict`.

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
        values = self._predict(data, missing_columns, strict, decimal, max_memory).values
        return frame_like(data, {label: pl.Series(values[:, code]) for code, label in enumerate(self.classes)})

    def predict_interval(
        self,
        data: Any,
        coverage: float = 0.9,
        *,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict an interval around each prediction that covers a share of new rows, on average over rows like the training ones.

        The half-width is a quantile of the absolute out-of-fold errors, and is larger where predictions of about the same value
        had larger errors (normalized split-conformal prediction).

        Args:
            data, missing_columns, strict, decimal, max_memory: as for `predict`.
            coverage: share of rows, above 0 and up to 0.999. It is rounded up to a whole percent, 0.995 or 0.999.

        Returns:
            A frame with the columns `low` and `high` in target units.

        Raises:
            UsageError: the task is a classification, the coverage is out of range, or the bundle stores 90 % intervals only.
            DataError: as for `predict`.
        """
        import polars as pl

        predictor = self._loaded.predictor
        predictor.half_width(coverage)  # reports a wrong coverage before the prediction, which may take long
        low, high = predictor.interval(
            self._predict(data, missing_columns, strict, decimal, max_memory).values, coverage
        )
        return frame_like(data, {"low": pl.Series(low), "high": pl.Series(high)})

    def explain(
        self,
        data: Any,
        *,
        label: str | None = None,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> dict[str, Any]:
        """Explain the prediction of every row by the contribution of each column.

        Contributions are Shapley values of the ensemble's own output, compared with the sample rows of the bundle. They are in
        units of the output: the probability of a class, or the target's unit.

        Args:
            data, missing_columns, strict, decimal, max_memory: as for `predict`. A row takes about a second.
            label: the class whose probability is explained; by default the one predicted for the first row.

        Returns:
            The JSON of `tabapp explain --json`: `base` plus the sum of the `contributions` of a row is its `output`.

        Raises:
            UsageError: there is no such class, or the bundle has more columns than can be explained.
            DataError: as for `predict`.
        """
        from tabapp.explain.rows import Explainer, explanations_json

        predictor = self._loaded.predictor
        frame, mark = self._text_of(data, missing_columns, decimal, max_memory)
        with _python_words(data):
            typed, notes = predictor.typed_rows(
                frame, fill_missing_columns=missing_columns == "fill", strict=strict, decimal=mark
            )
        for note in notes:
            warnings.warn(f"{note.rstrip('.')}.", stacklevel=2)
        explainer = Explainer(
            predictor.predict_typed,
            self.schema,
            self._loaded.reference_rows(),
            self._loaded.neighbors,
            predictor.decompose_exactly,
            predictor.labels,
        )
        found = explainer.explain(typed, range(typed.height), label=label)
        return explanations_json(found, self.target)

    def _predict(
        self,
        data: Any,
        missing_columns: str,
        strict: bool,
        decimal: DecimalMark | None,
        max_memory: str | int | None,
    ) -> Prediction:
        frame, mark = self._text_of(data, missing_columns, decimal, max_memory)
        with _python_words(data):
            found = self._loaded.predictor.predict_frame(
                frame, fill_missing_columns=missing_columns == "fill", strict=strict, decimal=mark
            )
        for note in found.notes:
            warnings.warn(f"{note.rstrip('.')}.", stacklevel=3)
        return found

    def _text_of(
        self, data: Any, missing_columns: str, decimal: DecimalMark | None, max_memory: str | int | None
    ) -> tuple[pl.DataFrame, str | None]:
        if missing_columns not in ("error", "fill"):
            raise UsageError(f"missing_columns={missing_columns!r} is not known; use 'error' or 'fill'.")
        check_process()
        with spelled_in_python():
            return self._text(data, decimal, max_memory)

    def _text(
        self, data: Any, decimal: DecimalMark | None, max_memory: str | int | None
    ) -> tuple[pl.DataFrame, str | None]:
        """A table as text, with dates and numbers in the formats that the bundle reads, and the decimal mark of a text file."""
        if is_path(data):
            from tabapp.data.reading.read import ReadOptions, read_table

            limit = parse_bytes(str(max_memory)) if max_memory is not None else None
            options = ReadOptions(decimal=decimal, max_memory=limit)
            reading = read_table(Path(data), options, allow_no_rows=True, columns=self.schema.columns)
            for text in sentences(reading.warnings):
                warnings.warn(f"{text}.", stacklevel=5)
            return reading.frame, reading.decimal
        from tabapp.data.columns import renamed_as_in_training
        from tabapp.data.stored import as_text

        frame, found = renamed_as_in_training(to_polars(data), self.schema.columns)
        for text in sentences(found):
            warnings.warn(f"{text}.", stacklevel=5)
        return as_text(frame, "data", self.schema.columns), None

    def __repr__(self) -> str:
        first = next(iter(self.metrics.values()), None)
        score = f", {first.name}={first.score:.4g}" if first is not None and first.score is not None else ""
        return f"<Predictor of {self.target!r} ({self.task}){score}, {self.path.name}>"


@contextmanager
def _python_words(data: Any) -> Generator[None]:
    """Name the file in errors of its content, and keywords instead of options."""
    try:
        with spelled_in_python():
            yield
    except DataError as error:
        raise DataError(f"{data}: {error}" if is_path(data) else str(error)) from None
