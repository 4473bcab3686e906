"""Helpers for search spaces."""

from __future__ import annotations

from tabapp.models.contract import Trial


def zero_or(trial: Trial, name: str, low: float, high: float, *, log: bool = False) -> float:
    """Draw from {0, Uniform[low, high]} (LogUniform if `log`): first whether the value is nonzero, then the value."""
    used = trial.suggest_categorical(f"use_{name}", [False, True])
    return trial.suggest_float(name, low, high, log=log) if used else 0.0
