"""The weighted mean of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = npt.NDArray[np.float64]


def blend(predictions: Sequence[Array], weights: Weights) -> Array:
    """Weighted sum of predictions of equal shape, as float64; predictions with weight 0 are not read."""
    total = np.zeros(np.shape(predictions[0]), dtype=np.float64)
    for prediction, weight in zip(predictions, weights, strict=True):
        if weight > 0:
            total += weight * np.asarray(prediction, dtype=np.float64)
    return total
