"""Search the files of a saved model for training rows.

The search finds rows stored with their exact values in any order of columns and beside other values, rows stored as consecutive
bytes in any file, and whole columns that were shifted, scaled and reordered. It cannot find rows behind a nonlinear transform.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.models.contract import Float32

NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
SAME_COLUMN = 1e-3
"""Largest difference, in standard deviations, between the sorted values of a column and of its copy. Two independent samples of
some hundred rows differ by more than 0.05."""


def n_rows_found(folder: Path, train: Float32, valid: Float32) -> int:
    """How many rows a saved model contains.

    Args:
        folder: what `FittedModel.save` wrote.
        train, valid: (rows, n_numeric) numbers, all different, that were passed to `fit`; at least two columns.
    """
    rows = np.concatenate([train, valid])
    found: set[int] = set()
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        found |= _in_bytes(path.read_bytes(), rows)
        for array in _arrays(path):
            for lines in _as_lines(array):
                found |= _in_lines(lines, rows)
                for columns in (train, rows):
                    if lines.shape[0] == len(columns) and _has_scaled_column(lines, columns):
                        found |= set(range(len(columns)))
    return len(found)


def _in_bytes(content: bytes, rows: Float32) -> set[int]:
    """Rows that occur as consecutive float32 or float64 values."""
    return {i for i, row in enumerate(rows) if row.tobytes() in content or row.astype(np.float64).tobytes() in content}


def _in_lines(lines: npt.NDArray[np.float64], rows: Float32) -> set[int]:
    """Rows whose values all occur in one line of a matrix."""
    n_columns = rows.shape[1]
    order = np.argsort(rows, axis=None)
    values = rows.ravel()[order]
    with np.errstate(over="ignore"):
        cells = lines.astype(np.float32)
    position = np.searchsorted(values, cells).clip(max=len(values) - 1)
    line, _ = matches = np.nonzero(values[position] == cells)
    cell = order[position[matches]]
    # Each (line, row, column) counts once, so that a value that occurs twice is not two columns.
    triples = np.unique(np.column_stack([line, cell // n_columns, cell % n_columns]), axis=0)
    pairs, n_found = np.unique(triples[:, :2], axis=0, return_counts=True)
    return set(pairs[n_found == n_columns, 1].tolist())


def _has_scaled_column(lines: npt.NDArray[np.float64], columns: Float32) -> bool:
    """Whether a column of a matrix holds the values of a training column, shifted, scaled or reordered."""
    copies, originals = _standardized(lines), _standardized(columns.astype(np.float64))
    # A negative scale reverses the order.
    return any(
        np.abs(copies - sign * original[::sign, None]).max(axis=0).min() < SAME_COLUMN
        for original in originals.T
        for sign in (1, -1)
    )


def _standardized(columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each column sorted, with mean 0 and standard deviation 1; zeros for a constant column."""
    ordered = np.sort(columns, axis=0)
    spread = ordered.std(axis=0)
    return (ordered - ordered.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _as_lines(array: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.float64]]:
    """An array as matrices whose lines may be rows: along its first axis, and along its last one."""
    if array.size and array.ndim:
        array = np.nan_to_num(array)
        yield array.reshape(len(array), -1)
        if array.ndim > 1:
            yield array.reshape(-1, array.shape[-1]).T
            yield array.reshape(-1, array.shape[-1])


def _arrays(path: Path) -> Iterator[npt.NDArray[np.float64]]:
    """The numbers in a file, as arrays; none for a format that is not read here."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 the file is not a mapping
                if file.get_slice(name).get_dtype() in ("F16", "F32", "F64"):
                    yield file.get_tensor(name).astype(np.float64)
    elif path.suffix == ".npy":
        yield np.load(path, allow_pickle=False).astype(np.float64)
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                if np.issubdtype(file[name].dtype, np.number):
                    yield file[name].astype(np.float64)
    elif path.suffix == ".json":
        yield from _in_json(json.loads(path.read_text(encoding="utf-8")))
    elif path.suffix in (".txt", ".csv"):
        by_length: dict[int, list[list[float]]] = {}
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            numbers = [float(number) for number in NUMBER.findall(line)]
            by_length.setdefault(len(numbers), []).append(numbers)
        yield from (np.array(lines) for lines in by_length.values())


def _in_json(value: Any) -> Iterator[npt.NDArray[np.float64]]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _in_json(each)
    elif isinstance(value, list) and value:
        try:
            yield np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            for each in value:
                yield from _in_json(each)
