"""How the papers' tables of hyperparameters are drawn from a trial."""

from __future__ import annotations

from tabapp.models.contract import Trial


def zero_or(trial: Trial, name: str, low: float, high: float, *, log: bool = False) -> float:
    """The paper's {0, Uniform[low, high]}, or LogUniform: first whether it is used at all, then how much of it."""
    used = trial.suggest_categorical(f"use_{name}", [False, True])
    return trial.suggest_float(name, low, high, log=log) if used else 0.0
