"""Target encoding of categories with many levels, without leaking the target of a row into its own feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tabapp.data.split import make_folds
from tabapp.features.columns import Int32
from tabapp.task import Task

Float64 = npt.NDArray[np.float64]
Target = npt.NDArray[np.int64] | npt.NDArray[np.float64]

MAX_CLASSES = 10
_FOLDS = 5


@dataclass(frozen=True)
class TargetEncoding:
    """The target encoding of the levels of one column.

    Attributes:
        means: (cardinality, outputs) float64 by code: the smoothed mean of the target, or the share of each encoded class.
    """

    means: Float64

    @classmethod
    def fit(cls, codes: Int32, cardinality: int, target: Target, task: Task, classes: Sequence[int]) -> TargetEncoding:
        """Fit on rows. Small levels are shrunk toward the overall mean.

        Uses the `TargetEncoder` of scikit-learn with empirical Bayes smoothing (Micci-Barreca 2001).

        Args:
            codes: (rows,) as `CategoricalStep.codes` returns them; levels without a separate code are encoded together.
            target: (rows,) class codes or numbers.
            classes: classes to encode, see `classes_to_encode`.
        """
        # Imported here because only training needs it, and a prediction must start quickly.
        from sklearn.preprocessing import TargetEncoder

        outputs = target[:, None] if task == "regression" else (target[:, None] == np.array(classes))
        outputs = outputs.astype(np.float64)
        means = np.empty((cardinality, outputs.shape[1]))
        levels = np.arange(cardinality)
        for i in range(outputs.shape[1]):
            encoder = TargetEncoder(
                categories=[levels],  # pyright: ignore[reportArgumentType]
                target_type="continuous",
                smooth="auto",
            )
            encoder.fit(codes[:, None], outputs[:, i])
            means[:, i] = np.asarray(encoder.encodings_[0])
        return cls(means)

    def transform(self, codes: Int32) -> Float64:
        """Convert (rows,) codes to (rows, outputs) float64."""
        return self.means[codes]


def classes_to_encode(target: Target, task: Task) -> list[int]:
    """The class codes whose shares are encoded: the positive class of two, else the `MAX_CLASSES` most frequent."""
    if task == "regression":
        return []
    if task == "binary":
        return [1]
    counts = np.bincount(target.astype(np.int64))
    return sorted(np.argsort(-counts, kind="stable")[:MAX_CLASSES].tolist())


def cross_fitted(
    codes: Int32,
    cardinality: int,
    target: Target,
    task: Task,
    classes: Sequence[int],
    seed: int,
    groups: npt.NDArray[np.generic] | None,
) -> Float64:
    """(rows, outputs) out-of-fold encodings of the training rows; all rows of a group are in one fold.

    Similar to the holdout target statistics of Prokhorenkova et al. (2018, section 3.2).
    """
    fold = make_folds(target, task, _FOLDS, seed, groups)
    result = np.empty((len(codes), 1 if task == "regression" else len(classes)))
    for held in range(int(fold.max()) + 1):
        learned = fold != held
        encoding = TargetEncoding.fit(codes[learned], cardinality, target[learned], task, classes)
        result[~learned] = encoding.transform(codes[~learned])
    return result


def names_of(column: str, task: Task, classes: Sequence[int], labels: Sequence[str]) -> list[str]:
    """Names of the features that encode a column."""
    if task == "regression":
        return [f"{column} target mean"]
    return [f"{column} share of {labels[code]}" for code in classes]
