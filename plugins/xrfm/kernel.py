"""Kernels of recursive feature machines: distances, leave-one-out errors and average gradients.

Beaglehole, Holzmüller, Radhakrishnan, Belkin: "xRFM: Accurate, scalable, and interpretable feature learning models for tabular
data", 2025, sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tabapp.models.contract import Float32

Float64 = npt.NDArray[np.float64]
Norm = Literal[1, 2]

BLOCK_CELLS = 1 << 19
"""Distances that are computed at a time: so many fit in a cache."""
MOST_RAISES = 6
"""A search on few rows may find a penalty that is below the rounding of a larger kernel."""


@dataclass(frozen=True)
class Kernel:
    """exp(-(‖x - z‖ / width) ** exponent) with the norm 1 or 2, positive definite for exponents up to the norm.

    With the norm 1 and the exponent 1 it is a product over the columns, which suits functions that change along the axes, like
    those of trees.
    """

    norm: Norm
    exponent: float
    width: float

    def of(self, distance: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The kernel at distances, in their type."""
        scaled = distance / np.asarray(-self.width if self.exponent == 1.0 else self.width, distance.dtype)
        if self.exponent != 1.0:
            scaled **= self.exponent
            np.negative(scaled, out=scaled)
        return np.exp(scaled, out=scaled)


def distances(a: Float32, b: Float32, norm: Norm, n_binary: int = 0) -> Float32:
    """(rows of a, rows of b) distances.

    Args:
        n_binary: the last so many columns have two values in both, of which one is 0.
    """
    found = np.empty((len(a), len(b)), np.float32)
    step = max(1, BLOCK_CELLS // max(1, len(b)))
    for start in range(0, len(a), step):
        block = found[start : start + step]
        rows = a[start : start + step]
        if norm == 2:
            _squared(rows, b, block)
            np.sqrt(block, out=block)
        else:
            _absolute(rows, b, a.shape[1] - n_binary, block)
    return found


def _squared(a: Float32, b: Float32, out: Float32) -> None:
    wide, other = a.astype(np.float64), b.astype(np.float64)
    squares = (wide**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * (wide @ other.T)
    np.maximum(squares, 0.0, out=squares)
    out[:] = squares


def _absolute(a: Float32, b: Float32, n_numeric: int, out: Float32) -> None:
    if n_numeric < a.shape[1]:
        # |x - z| = x + z - 2 x z / w, where both are 0 or w.
        x, z = a[:, n_numeric:], b[:, n_numeric:]
        weight = np.maximum(x.max(axis=0, initial=0.0), z.max(axis=0, initial=0.0))
        both = x @ (z / np.where(weight > 0, weight, 1.0)).T
        np.subtract(x.sum(axis=1)[:, None] + z.sum(axis=1), 2 * both, out=out)
        np.maximum(out, 0.0, out=out)
    else:
        out[:] = 0.0
    difference = np.empty_like(out)
    for j in range(n_numeric):
        np.subtract(a[:, j, None], b[:, j], out=difference)
        np.abs(difference, out=difference)
        out += difference


def solved(kernel: npt.NDArray[Any], penalty: Float64, target: Float64) -> Float64:
    """(rows, outputs) coefficients of kernel ridge regression.

    Args:
        kernel: (rows, rows), float32 or float64.
        penalty: (rows,) above 0. All are raised tenfold as often as it takes to be above the rounding of the kernel.
        target: (rows, outputs).
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    for raised in range(MOST_RAISES + 1):
        matrix = kernel.astype(np.float64)
        matrix[np.diag_indices(len(matrix))] += penalty * 10.0**raised
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        return cho_solve(factor, target, check_finite=False)
    raise LinAlgError("the kernel is not positive definite")


def leave_one_out(kernel: npt.NDArray[Any], penalty: Float64, target: Float64) -> tuple[Float64, Float64]:
    """The coefficients, and the predictions of each row by a model without it: target - coefficient / diagonal of the inverse.

    Args:
        kernel: (rows, rows).
        penalty: (rows,) above 0.
        target: (rows, outputs).

    Returns:
        Both (rows, outputs).

    Raises:
        LinAlgError: the penalties are below the rounding of the kernel.
    """
    from scipy.linalg import get_lapack_funcs

    potrf, potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
    matrix = np.asfortranarray(kernel, dtype=np.float64)
    matrix[np.diag_indices(len(matrix))] += penalty
    factor, failed = potrf(matrix, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("the kernel is not positive definite")
    inverse, _ = potri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse, -1)
    diagonal = np.diag(inverse)
    coefficients = lower @ target + lower.T @ target + diagonal[:, None] * target
    return coefficients, target - coefficients / diagonal[:, None]


def average_gradient(rows: Float32, kernel: Kernel, distance: Float32, coefficients: Float64) -> Float64:
    """The average outer product of the gradients (AGOP) of a model at its rows, summed over the outputs.

    Returns:
        (columns, columns) with the norm 2; its diagonal (columns,) with the norm 1. Both up to a constant factor.
    """
    values = kernel.of(distance)
    if kernel.norm == 1:
        found = np.zeros(rows.shape[1])
        if kernel.exponent != 1.0:
            values = values * np.where(distance > 1e-6 * kernel.width, distance, np.inf) ** (kernel.exponent - 1)
        for j, column in enumerate(rows.T):
            signs = np.sign(column[:, None] - column)
            signs *= values
            found[j] = float(((signs @ coefficients) ** 2).sum()) / len(rows)
        return found
    # The gradient at a stored row counts as 0: the kernel has a kink there.
    apart = np.where(distance > 1e-6 * kernel.width, distance, np.inf).astype(np.float64)
    slope = values * apart ** (kernel.exponent - 2)
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for output in coefficients.T:
        gradient = rows * (slope @ output)[:, None] - slope @ (output[:, None] * rows)
        total += gradient.T @ gradient
    return total / len(rows)
