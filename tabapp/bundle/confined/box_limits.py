"""Limits of the process that loads the models of a bundle, in proportion to the bundle and to the rows to predict."""

from __future__ import annotations

import os
from dataclasses import dataclass

IMPORT_SECONDS = 600.0
"""Time to start and to import the libraries, which does not depend on the bundle."""
IDLE_FACTOR = 12.0
"""A process that computes little is given this much longer: it may wait for a busy machine."""
SLEEP_SECONDS = 60.0
"""Longest sleep of a process that should answer; more is a deadlock."""

_LOAD_SECONDS, _BYTES_PER_SECOND = 5.0, 2**20
_PREDICT_SECONDS, _SECONDS_PER_ROW = 5.0, 0.02
_PREDICT_MEMORY, _MEMORY_PER_ROW = 2**31, 2**16
_PRETRAINED_SECONDS, _PRETRAINED_MEMORY = 600.0, 8 * 2**30
_LOAD_MEMORY, _MEMORY_PER_CPU, _MEMORY_PER_BYTE = 512 * 2**20, 16 * 2**20, 32


def load_seconds(n_bytes: int) -> float:
    """Seconds to load a folder of a bundle: a generous bound that ends a hang."""
    return _LOAD_SECONDS + n_bytes / _BYTES_PER_SECOND


def predict_seconds(n_rows: int) -> float:
    """Seconds for one model to predict rows: a generous bound that ends a hang."""
    return _PREDICT_SECONDS + _SECONDS_PER_ROW * n_rows


def explain_seconds(n_rows: int, n_reference: int = 0) -> float:
    """Seconds for one model to explain rows.

    TreeSHAP takes time in proportion to the squared depth of the trees, and integrated gradients from reference rows predict every
    row at many points of each path.
    """
    return _PREDICT_SECONDS + (10 + 50 * n_reference) * _SECONDS_PER_ROW * n_rows


def load_memory(n_bytes: int) -> int:
    """Bytes of private memory for the models of a bundle of this unpacked size, with the stacks of the libraries' threads."""
    return _LOAD_MEMORY + _MEMORY_PER_CPU * (os.cpu_count() or 1) + _MEMORY_PER_BYTE * n_bytes


def predict_memory(n_rows: int, n_bytes: int) -> int:
    """Bytes of private memory to predict rows that are `n_bytes` long together."""
    return _PREDICT_MEMORY + _MEMORY_PER_CPU * (os.cpu_count() or 1) + _MEMORY_PER_ROW * n_rows + 32 * n_bytes


def impute_seconds(n_rows: int, n_models: int) -> float:
    """Seconds for some models to fill the missing cells of rows."""
    return n_models * predict_seconds(n_rows)


def cpu_seconds(seconds: float) -> float:
    """CPU time after which the kernel ends the process, should nobody wait for it anymore: all processors for a multiple of
    the limit."""
    return IDLE_FACTOR * seconds * (os.cpu_count() or 1)


@dataclass(frozen=True)
class Allowance:
    """What a request may use.

    Attributes:
        step_seconds: time of each step, which ends with a report of progress.
        seconds: time of all steps.
        memory: bytes of private memory.
    """

    step_seconds: float
    seconds: float
    memory: int


def to_predict(n_rows: int, n_bytes: int, n_models: int) -> Allowance:
    """What is needed to predict rows that are `n_bytes` long together, model by model."""
    seconds = predict_seconds(n_rows)
    return Allowance(seconds, seconds * n_models, predict_memory(n_rows, n_bytes))


def to_find_neighbors(n_rows: int, n_bytes: int, n_models: int) -> Allowance:
    """What is needed to find the neighbors of rows, at once."""
    seconds = predict_seconds(n_rows) * n_models
    return Allowance(seconds, seconds, predict_memory(n_rows, n_bytes))


def to_explain(n_rows: int, n_reference: int, n_bytes: int, n_models: int) -> Allowance:
    """What is needed to decompose the output for rows, at once."""
    seconds = explain_seconds(n_rows, n_reference) * n_models
    return Allowance(seconds, seconds, predict_memory(n_rows + n_reference, n_bytes))


def to_impute(n_rows: int, n_bytes: int, n_models: int) -> Allowance:
    """What is needed to fill the missing cells of rows, at once."""
    seconds = impute_seconds(n_rows, n_models)
    return Allowance(seconds, seconds, predict_memory(n_rows, n_bytes))


def with_pretrained(allowance: Allowance, n_models: int) -> Allowance:
    """An allowance with that of some models whose pre-trained networks read their context rows before they predict."""
    if not n_models:
        return allowance
    return Allowance(
        allowance.step_seconds + _PRETRAINED_SECONDS,
        allowance.seconds + n_models * _PRETRAINED_SECONDS,
        allowance.memory + _PRETRAINED_MEMORY,
    )
