"""Bundles of several targets as objects that predict tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp.api.frames import frame_like
from tabapp.api.predictor import DecimalMark, MissingColumns, Predictor, Source, load_again
from tabapp.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.files.records import MetricValue
    from tabapp.bundle.prediction.load import LoadedBundle


class TargetsPredictor:
    """The predictors of several targets, loaded from one bundle. `predictors[target]` is that of one target.

    Methods take the same data as those of `Predictor`.
    """

    def __init__(self, path: Path, predictors: Mapping[str, Predictor], source: Source) -> None:
        self._path = path
        self._predictors = dict(predictors)
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        digests = {target: each._digest() for target, each in self._predictors.items()}  # pyright: ignore[reportPrivateUsage]
        return load_again, (self._source, digests)

    @property
    def path(self) -> Path:
        """The file of the bundle."""
        return self._path

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that are predicted, in the order of the run."""
        return tuple(self._predictors)

    @property
    def metrics(self) -> dict[str, dict[str, MetricValue]]:
        """Out-of-fold scores by target and metric, as in `Predictor.metrics`."""
        return {target: each.metrics for target, each in self._predictors.items()}

    def __getitem__(self, target: str) -> Predictor:
        if target not in self._predictors:
            raise KeyError(f"{target!r} is not a target{did_you_mean(target, self._predictors) or '.'}")
        return self._predictors[target]

    def __iter__(self) -> Iterator[str]:
        return iter(self._predictors)

    def __len__(self) -> int:
        return len(self._predictors)

    def predict(
        self,
        data: Any,
        *,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict every row: the most probable class as text, or a number in units of the target.

        Args:
            data, missing_columns, strict, decimal, max_memory: as for `Predictor.predict`.

        Returns:
            A frame with a column for each target.

        Raises:
            DataError: as for `Predictor.predict`.
        """
        found = self._frames(data, missing_columns, strict, decimal, max_memory)
        return frame_like(data, {target: frame["prediction"] for target, frame in found.items()})

    def predict_proba(
        self,
        data: Any,
        *,
        missing_columns: MissingColumns = "error",
        strict: bool = False,
        decimal: DecimalMark | None = None,
        max_memory: str | int | None = None,
    ) -> Any:
        """Predict the probability of each class of the targets that are classes.

        Args:
            data, missing_columns, strict, decimal, max_memory: as for `Predictor.predict`.

        Returns:
            A frame with a column `<target>_<class>` for each class.

        Raises:
            UsageError: every target is a number.
            DataError: as for `Predictor.predict`.
        """
        chosen = [target for target, each in self._predictors.items() if each.classes]
        if not chosen:
            raise UsageError("Probabilities exist for classification only, and every target is a regression.")
        found = self._frames(data, missing_columns, strict, decimal, max_memory, chosen)
        columns = {
            f"{target}_{label}": frame[f"probability_{label}"]
            for target, frame in found.items()
            for label in self._predictors[target].classes
        }
        return frame_like(data, columns)

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
        """Predict an interval for each target that is a number, as `Predictor.predict_interval`.

        Args:
            data, coverage, missing_columns, strict, decimal, max_memory: as for `Predictor.predict_interval`.

        Returns:
            A frame with the columns `<target>_low` and `<target>_high`.

        Raises:
            UsageError: every target is a class, or as for `Predictor.predict_interval`.
            DataError: as for `Predictor.predict`.
        """
        import polars as pl

        chosen = [target for target, each in self._predictors.items() if not each.classes]
        if not chosen:
            raise UsageError("Prediction intervals exist for regression only, and every target is a class.")
        predictors = {target: self._loaded_of(target).predictor for target in chosen}
        for predictor in predictors.values():
            predictor.half_width(coverage)  # reports a wrong coverage before the predictions, which may take long
        found = self._frames(data, missing_columns, strict, decimal, max_memory, chosen)
        columns: dict[str, Any] = {}
        for target, predictor in predictors.items():
            low, high = predictor.interval(found[target]["prediction"].to_numpy(), coverage)
            columns |= {f"{target}_low": pl.Series(low), f"{target}_high": pl.Series(high)}
        return frame_like(data, columns)

    def _frames(
        self,
        data: Any,
        missing_columns: str,
        strict: bool,
        decimal: DecimalMark | None,
        max_memory: str | int | None,
        targets: Sequence[str] | None = None,
    ) -> dict[str, pl.DataFrame]:
        """The predictions of each target as columns."""
        found: dict[str, pl.DataFrame] = {}
        with warnings.catch_warnings():
            # Notes on columns are almost the same for all targets.
            warnings.simplefilter("once")
            for target in self.targets if targets is None else targets:
                predicted = self._predictors[target]._predict(data, missing_columns, strict, decimal, max_memory)  # pyright: ignore[reportPrivateUsage]
                found[target] = self._loaded_of(target).predictor.to_frame(predicted)
        return found

    def _loaded_of(self, target: str) -> LoadedBundle:
        return self._predictors[target]._loaded  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        return f"<TargetsPredictor of {', '.join(map(repr, self.targets))}, {self.path.name}>"
