"""scikit-learn estimators: `TabappClassifier` and `TabappRegressor`.

Each `fit` is a run of its own in a temporary folder; the estimator keeps the bundle of the run as bytes, so that it can be pickled.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tabapp.api.fitting import follow, prepare_run
from tabapp.api.forks import check_process
from tabapp.api.frames import from_objects, is_pandas, to_polars
from tabapp.api.progress import Silent
from tabapp.bundle.confined.box import load_boxed
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.prediction.predict import Predictor
from tabapp.column_names import column_name
from tabapp.data.infer import MINIMUM_ROWS
from tabapp.data.plain import left_out
from tabapp.data.stored import as_text
from tabapp.errors import DataError, TabappError, UsageError
from tabapp.temporary import TemporaryFolder

__all__ = ["TabappClassifier", "TabappRegressor"]

_LARGEST_SEED = 2**31 - 1


class EstimatorError(TabappError, ValueError):
    """Data or parameters of an estimator cannot be used; a ValueError as well, as scikit-learn expects."""


class _TabappEstimator(BaseEstimator):
    """What the classifier and the regressor share.

    Attributes of a fitted estimator:
        bundle_: the bundle as bytes; write them to a file for `tabapp predict` or `tabapp.load`.
        leaderboard_: every model with its out-of-fold score, as a polars frame.
        n_features_in_, feature_names_in_: as in scikit-learn.
    """

    n_features_in_: int
    bundle_: bytes

    def __init__(
        self,
        *,
        metric: str | None = None,
        budget: str | float | None = None,
        trials: int | None = None,
        quality: str = "balanced",
        models: Any = None,
        exclude: Any = None,
        validation: str = "auto",
        folds: int | None = None,
        device: str = "auto",
        workers: int | None = None,
        memory_limit: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.budget = budget
        self.trials = trials
        self.quality = quality
        self.models = models
        self.exclude = exclude
        self.validation = validation
        self.folds = folds
        self.device = device
        self.workers = workers
        self.memory_limit = memory_limit
        self.random_state = random_state

    def _run(self, frame: pl.DataFrame, target: pl.Series, sample_weight: Any, options: dict[str, Any]) -> None:
        """Train on a frame of features, and keep the bundle and the leaderboard."""
        if frame.height < MINIMUM_ROWS:
            raise ValueError(
                f"X has n_samples={frame.height} and n_features={frame.width}; {type(self).__name__} needs at least "
                f"{MINIMUM_ROWS} rows."
            )
        name = _free_name("target", frame.columns)
        table = frame.with_columns(target.alias(name))
        # Every number is a feature: the estimator leaves out no column that a caller has chosen.
        kinds = {
            column.name: "numeric"
            for column in frame
            if column.dtype.is_numeric() and column.is_finite().any()  # pyright: ignore[reportUnknownMemberType]
        }
        if sample_weight is not None:
            weight = _free_name("weight", table.columns)
            table = table.with_columns(pl.Series(weight, sample_weight))
            kinds[weight] = "numeric"
            options = {**options, "weight": weight}
        given = {field: getattr(self, field) for field in _OPTIONS}
        with TemporaryFolder("estimator") as runs_dir:
            given |= {**options, "target": name, "kind": kinds, "seed": self._seed()}
            folder = _as_value_error(prepare_run, table, given, Path(runs_dir))
            run = _as_value_error(follow, folder, Silent(folder.argument))
            self.leaderboard_ = run.leaderboard()
            self.bundle_ = folder.bundle.read_bytes()
            # The engine that this process started has just written the bundle, so it is not loaded in a confined process.
            self._loaded: tuple[int, Predictor] | None = (os.getpid(), load_bundle(folder.bundle).predictor)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(_LARGEST_SEED))

    def _frame(self, X: Any, *, reset: bool) -> pl.DataFrame:
        """Features as a frame: a pandas or polars table with its types, anything else as an array of numbers or text."""
        _as_value_error(check_process)
        if is_pandas(X) or isinstance(X, pl.DataFrame):
            given: Any = X
            validate_data(self, given, reset=reset, skip_check_array=True)
            names = self._names()
            renamed = dict(zip(given.columns, names, strict=True))
            table = given.set_axis(names, axis=1) if is_pandas(X) else given.rename(renamed)
            frame = _as_value_error(to_polars, table, "X")
            infinite = [c.name for c in frame if c.dtype.is_float() and c.is_infinite().any()]
            if infinite:
                raise ValueError(f"Input X contains infinity in the column {infinite[0]!r}.")
            return _only_plain(frame)
        array: Any = validate_data(
            self,
            X,
            reset=reset,
            dtype=_dtype_of(X),
            ensure_all_finite="allow-nan",
        )
        return _only_plain(
            pl.DataFrame([_as_value_error(_column, name, array[:, i]) for i, name in enumerate(self._names())])
        )

    def _names(self) -> list[str]:
        """Column names: those that X was fitted with, or x0, x1, …"""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _predictor(self) -> Predictor:
        """The ensemble of the bundle. Where the estimator comes from a pickle or another process, a confined process loads it."""
        if self._loaded is None or self._loaded[0] != os.getpid():
            with TemporaryFolder("estimator") as folder:
                path = Path(folder) / "model.tabapp"
                path.write_bytes(self.bundle_)
                self._loaded = (os.getpid(), load_boxed(path).predictor)
        return self._loaded[1]

    def _predicted(self, X: Any) -> Any:
        """Predictions for X as an array: (rows, classes) or (rows,)."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        predictor = self._predictor()
        found = _as_value_error(lambda: predictor.predict_frame(as_text(frame, "X", predictor.schema.columns)))
        for note in found.notes:
            warnings.warn(f"{note.rstrip('.')}.", stacklevel=3)
        return found.values

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, "_loaded": None} if "_loaded" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


_OPTIONS = (
    "metric", "budget", "trials", "quality", "models", "exclude", "validation", "folds", "device", "workers", "memory_limit",
)  # fmt: skip


class TabappClassifier(ClassifierMixin, _TabappEstimator):
    """AutoML classifier: an ensemble of the best models found within a budget.

    Parameters are those of `tabapp.fit`; `random_state` takes the place of `seed`. Class labels may be numbers, booleans or text.

    Attributes:
        classes_: class labels in the order of the probabilities.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TabappClassifier:
        """Train on the rows of X.

        Args:
            X: (rows, columns) array, or a pandas or polars table, whose column types are kept.
            y: (rows,) class labels.
            sample_weight: (rows,) weights of 0 or more.

        Raises:
            ValueError: X or y cannot be used.
            TabappError: no model could be trained.
        """
        frame = self._frame(X, reset=True)
        labels = _checked_target(X, y, len(frame), type(self).__name__)
        weights = _checked_weights(sample_weight, len(frame))
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(np.unique(codes if weights is None else codes[weights > 0])) < 2:
            raise ValueError(f"{type(self).__name__} needs rows of two classes or more, but y has 1 class.")
        names = _class_names(self.classes_)
        target = pl.Series(names, dtype=pl.String).gather(pl.Series(codes)).cast(pl.Categorical)
        options: dict[str, Any] = {"task": "multiclass"}
        if len(names) == 2:
            options = {"task": "binary", "positive": names[1]}
        self._run(frame, target, weights, options)
        return self

    def predict_proba(self, X: Any) -> Any:
        """(rows, classes) probabilities in the order of `classes_`."""
        found = self._predicted(X)
        known = list(self._predictor().schema.classes)
        return found[:, [known.index(name) for name in _class_names(self.classes_)]]

    def predict(self, X: Any) -> Any:
        """(rows,) the most probable class of each row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]


class TabappRegressor(RegressorMixin, _TabappEstimator):
    """AutoML regressor: an ensemble of the best models found within a budget.

    Parameters are those of `tabapp.fit`; `random_state` takes the place of `seed`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TabappRegressor:
        """Train on the rows of X.

        Args:
            X: (rows, columns) array, or a pandas or polars table, whose column types are kept.
            y: (rows,) numbers.
            sample_weight: (rows,) weights of 0 or more.

        Raises:
            ValueError: X or y cannot be used.
            TabappError: no model could be trained.
        """
        frame = self._frame(X, reset=True)
        target = _checked_target(X, y, len(frame), type(self).__name__).astype(np.float64)
        self._run(frame, pl.Series(target), _checked_weights(sample_weight, len(frame)), {"task": "regression"})
        return self

    def predict(self, X: Any) -> Any:
        """(rows,) predictions in target units."""
        return self._predicted(X)


def _only_plain(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with one value in each cell: the estimator leaves out no column that a caller has chosen."""
    for name, held in left_out(frame.schema).items():
        raise ValueError(f"Column {name!r} of X holds {held}, not one value in each row. Leave it out.")
    return frame


def _as_value_error(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; what is wrong with the data is raised as a ValueError."""
    try:
        return function(*arguments)
    except (DataError, UsageError) as error:
        raise EstimatorError(str(error)) from error


def _free_name(name: str, taken: list[str]) -> str:
    """A column name that no feature has."""
    while name in taken:
        name += "_"
    return name


def _dtype_of(X: Any) -> str | None:
    """What `validate_data` converts an array to: numbers, or None to keep text and objects."""
    dtype = getattr(X, "dtype", None)
    kind = dtype.kind if isinstance(dtype, np.dtype) else np.asarray(X).dtype.kind
    return None if kind in "OUST" else "numeric"


def _column(name: str, cells: Any) -> pl.Series:
    """A column of an array; numbers among objects become numbers again."""
    if cells.dtype.kind in "biuf":
        return pl.Series(name, cells.astype(np.float32) if cells.dtype == np.float16 else cells)
    missing = [_is_missing(cell) for cell in cells]
    return from_objects([None if gone else cell for cell, gone in zip(cells.tolist(), missing, strict=True)], name, "X")


def _checked_target(X: Any, y: Any, n_rows: int, name: str) -> Any:
    """(rows,) y as an array without gaps; with a warning if its index has the rows of X in another order.

    Raises:
        ValueError: it is None, has another length than X, or contains NaN or infinity.
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    target = column_or_1d(y, warn=True)
    if len(target) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(target)}.")
    if target.dtype == object and any(map(_is_missing, target)):
        raise ValueError("Input y contains missing values.")
    assert_all_finite(target, input_name="y")
    if is_pandas(X) and hasattr(y, "index") and hasattr(y, "iloc") and _is_reordered(y.index, X.index):
        warnings.warn(
            "The index of y has the rows of X in another order, but rows are matched by position. Pass y.loc[X.index] to match "
            "them by index.",
            UserWarning,
            stacklevel=3,
        )
    return target


def _is_reordered(index: Any, other: Any) -> bool:
    """Whether an index is another one of the same length in another order."""
    return not index.equals(other) and bool(index.is_unique and other.is_unique and index.isin(other).all())


def _is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas.NA."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:
        # pandas.NA has no truth value.
        return True


def _class_names(classes: Any) -> list[str]:
    """Class labels as text; numbered names where the text of two labels is equal or empty."""
    names = [column_name(label) for label in classes]
    if "" in names or len(set(names)) < len(names):
        return [f"class_{i}" for i in range(len(names))]
    return names


def _checked_weights(sample_weight: Any, n_rows: int) -> Any:
    """(rows,) weights, or None.

    Raises:
        ValueError: they have another length than X, or are not numbers of 0 and above with some above.
    """
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, np.empty((n_rows, 1)), ensure_non_negative=True)
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights
