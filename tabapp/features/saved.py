"""Checked reading of saved arrays: nothing in a file is used before it is compared with what its reader expects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

Array = npt.NDArray[Any]


def demand(holds: object, problem: str) -> None:
    """Raise a ValueError that says what is wrong with a saved file, unless a condition holds."""
    if not holds:
        raise ValueError(problem)


def demand_limits(limits: tuple[float, float] | None) -> None:
    """Demand that the limits of a prediction, if there are any, are finite and in order."""
    demand(
        limits is None or -math.inf < limits[0] <= limits[1] < math.inf, "the limits of its predictions are not usable"
    )


def read_arrays(
    path: Path, expected: Mapping[str, tuple[str, int]], *, unchecked: Iterable[str] = ()
) -> dict[str, Array]:
    """Read a safetensors file with exactly the expected arrays. Memory use is bounded by the size of the file.

    Args:
        expected: type (or several, separated by "|") and number of dimensions of each array.
        unchecked: arrays whose values may be NaN or infinite; all other floats are finite.

    Raises:
        ValueError: the file is not such a file.
        OSError: the file cannot be read.
    """
    arrays, _ = read_arrays_and_notes(path, expected, unchecked=unchecked)
    return arrays


def read_arrays_and_notes(
    path: Path, expected: Mapping[str, tuple[str, int]], *, unchecked: Iterable[str] = ()
) -> tuple[dict[str, Array], dict[str, str]]:
    """As `read_arrays`, with the texts that are stored next to the arrays. Half precision becomes single precision."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            demand(names == set(expected), f"{path.name} has the arrays {_few(names)} instead of {_few(expected)}")
            arrays = {name: _single(file.get_tensor(name), dtype) for name, (dtype, _) in expected.items()}
            notes: dict[str, str] = file.metadata() or {}
    except (SafetensorError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: {_first_line(error)}") from None
    excepted = set(unchecked)
    for name, (dtype, n_dimensions) in expected.items():
        array = arrays[name]
        found = f"{array.dtype} with {array.ndim} dimensions"
        fits = array.dtype.name in dtype.split("|") and array.ndim == n_dimensions
        demand(fits, f"{path.name}: {name!r} is {found} instead of {dtype} with {n_dimensions}")
        if array.dtype.kind == "f" and name not in excepted:
            demand(is_finite(array), f"{path.name}: {name!r} has values that are not finite")
    return arrays, notes


def array_names(path: Path) -> set[str]:
    """Names of the arrays in a safetensors file.

    Raises:
        ValueError: it is not such a file.
        OSError: it cannot be read.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return set(file.keys())
    except SafetensorError as error:
        raise ValueError(f"{path.name}: {_first_line(error)}") from None


def _single(array: Array, expected: str) -> Array:
    return array.astype(np.float32) if expected == "float32" and array.dtype == np.float16 else array


def is_finite(array: Array) -> bool:
    """Whether all values are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum, which takes no memory, is enough; a sum of large values may overflow.
        return bool(np.isfinite(array.sum(dtype=np.float64))) or bool(np.isfinite(array).all())


def is_within(codes: Array, start: int, end: int) -> bool:
    """Whether all integers are at least `start` and below `end`."""
    return codes.size == 0 or (int(codes.min()) >= start and int(codes.max()) < end)


def _few(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(repr(name[:40]) for name in shown[:8]) + (" …" if len(shown) > 8 else "")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
