"""Chooses the metric, the width and the penalty of a kernel machine by the leave-one-out error of some rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tabapp.models.contract import Float32

from .kernel import Float64, Kernel, Norm, average_gradient, distances, leave_one_out

WIDTHS, PENALTIES = tuple(2.0**k for k in range(-1, 6)), tuple(10.0**k for k in range(-5, 2))
"""Widths in units of the median distance of two rows, and penalties."""
Place = tuple[int, int]
FIRST: Place = 2, 3
"""Where the search starts in these lists."""
LEAST_EIGENVALUE = 1e-12


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        transform: (columns, columns) for the norm 2 and (1, columns) for the norm 1; multiplies standardized rows.
        kernel: with the best width.
        penalty: the best penalty of a row with the mean weight.
        error: mean squared leave-one-out error, summed over the outputs.
        places: of width and penalty in the lists of them, in each iteration up to this model.
        coefficients, left_out: (rows, outputs) of the rows that were searched on, and their leave-one-out predictions.
        codes, weight: (rows,) the output with the largest target of these rows, which is the class, and their weights.
    """

    transform: Float32
    kernel: Kernel
    penalty: float
    error: float
    places: tuple[Place, ...]
    coefficients: Float64
    left_out: Float64
    codes: npt.NDArray[np.int64]
    weight: Float64


def transformed(rows: Float32, transform: Float32) -> Float32:
    """Rows in the learned metric."""
    return rows * transform if len(transform) < transform.shape[1] else rows @ transform


def tune(
    rows: Float32,
    target: Float64,
    weight: Float64,
    *,
    norm: Norm,
    exponent: float,
    n_iterations: int,
    n_binary: int,
    may_continue: Callable[[], bool],
    known: Sequence[Place] = (),
) -> Tuned:
    """Alternate between a search for width and penalty, and the average gradient of the best model as the next metric.

    NOTE[DIFF] the paper chooses width and penalty by random search with validation rows, and the iteration by validation rows.
    Leave-one-out errors have a closed form for kernel ridge regression and use all rows, of which small tables have few.

    Args:
        rows: (rows, columns) standardized columns.
        target: (rows, outputs) with mean 0.
        weight: (rows,) above 0, with mean 1.
        may_continue: asked between models; at least one is fitted.
        known: the places of width and penalty in the lists of them, in each iteration; searched for if empty.
    """
    n_columns = rows.shape[1]
    transform = np.ones((1, n_columns), np.float32) if norm == 1 else np.eye(n_columns, dtype=np.float32)
    best: Tuned | None = None
    at, places = FIRST, ()
    for iteration in range(n_iterations + 1):
        at = known[iteration] if known else at
        may_search = (lambda: False) if known else may_continue
        found = _searched(rows, target, weight, transform, norm, exponent, n_binary, at, may_search)
        (at,) = found.places
        places = *places, at
        best = replace(found, places=places) if best is None or found.error < best.error else best
        if iteration == n_iterations or not may_continue():
            break
        z = transformed(rows, transform)
        gradient = average_gradient(z, found.kernel, distances(z, z, norm, n_binary), found.coefficients)
        transform = _metric(gradient, transform)
    assert best is not None
    return best


def _searched(
    rows: Float32,
    target: Float64,
    weight: Float64,
    transform: Float32,
    norm: Norm,
    exponent: float,
    n_binary: int,
    at: tuple[int, int],
    may_continue: Callable[[], bool],
) -> Tuned:
    """Climb from neighbor to neighbor in the grid of widths and penalties until none has a lower error."""
    z = transformed(rows, transform)
    distance = distances(z, z, norm, n_binary)
    positive = distance[distance > 0]
    median = float(np.median(positive)) if len(positive) else 1.0
    known: dict[tuple[int, int], Tuned | None] = {}

    def tried(place: tuple[int, int]) -> Tuned | None:
        if place not in known:
            kernel, penalty = Kernel(norm, exponent, WIDTHS[place[0]] * median), PENALTIES[place[1]]
            try:
                coefficients, left_out = leave_one_out(kernel.of(distance), penalty / weight, target)
            except np.linalg.LinAlgError:
                known[place] = None
            else:
                error = float(np.average(((target - left_out) ** 2).sum(axis=1), weights=weight))
                known[place] = Tuned(
                    transform, kernel, penalty, error, (place,), coefficients, left_out, target.argmax(axis=1), weight
                )
        return known[place]

    best = tried(at)
    while best is None:
        # Rounding: the largest penalty is far above it.
        at = at[0], at[1] + 1
        best = tried(at)
    while True:
        start = at
        for step in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)):
            place = start[0] + step[0], start[1] + step[1]
            if not (0 <= place[0] < len(WIDTHS) and 0 <= place[1] < len(PENALTIES)):
                continue
            if place not in known and not may_continue():
                return best
            found = tried(place)
            if found is not None and found.error < best.error:
                best, at = found, place
        if at == start:
            return best


def _metric(gradient: Float64, transform: Float32) -> Float32:
    """The square root of the average gradient in the original columns, with a mean eigenvalue of 1."""
    wide = transform.astype(np.float64)
    if gradient.ndim == 1:
        matrix = gradient * wide[0] ** 2
        mean = matrix.mean()
        return np.sqrt(matrix / mean)[None].astype(np.float32) if mean > LEAST_EIGENVALUE else transform
    matrix = wide.T @ gradient @ wide
    mean = float(np.trace(matrix)) / len(matrix)
    if not mean > LEAST_EIGENVALUE:
        return transform
    values, vectors = np.linalg.eigh(matrix / mean)
    return ((vectors * np.sqrt(values.clip(0.0))) @ vectors.T).astype(np.float32)
