"""Helpers for search spaces."""

from __future__ import annotations

from tabapp.models.contract import Shape, Trial
from tabapp.nn.training.params import OTHERS_SHARE


def zero_or(trial: Trial, name: str, low: float, high: float, *, log: bool = False) -> float:
    """Draw from {0, Uniform[low, high]} (LogUniform if `log`): first whether the value is nonzero, then the value."""
    used = trial.suggest_categorical(f"use_{name}", [False, True])
    return trial.suggest_float(name, low, high, log=log) if used else 0.0


def share_of_others(trial: Trial, shape: Shape) -> float:
    """Weight of the loss of the other targets of the run: none or that of the portfolio; always 0 if there are none."""
    return trial.suggest_categorical("others_share", [0.0, OTHERS_SHARE]) if shape.n_other_targets else 0.0
