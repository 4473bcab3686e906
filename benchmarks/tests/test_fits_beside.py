"""What the benchmark of fits beside each other reads from the events of a run."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import fits_beside


def progress(fit: str, elapsed: float, step: int) -> dict[str, Any]:
    return {"ev": "fit.progress", "fit": fit, "elapsed": elapsed, "step": step}


def started(fit: str, elapsed: float, device: str = "cuda:0") -> dict[str, Any]:
    model, trial, _ = fit.split("-")
    return {
        "ev": "fit.started", "fit": fit, "model": model, "trial": int(trial), "elapsed": elapsed, "device": device,
    }  # fmt: skip


def test_steps_are_divided_by_what_runs_beside() -> None:
    events = [
        started("mlp-0000-f0", 0.0),
        started("lightgbm-0000-f0", 0.0, "cpu"),
        progress("mlp-0000-f0", 1.0, 10),
        progress("lightgbm-0000-f0", 1.5, 5),
        progress("mlp-0000-f0", 2.0, 20),
        started("tabm-0000-f0", 2.0),
        progress("mlp-0000-f0", 4.0, 26),
        {"ev": "trial.pruned", "model": "tabm", "trial": 0, "elapsed": 4.0},
        progress("mlp-0000-f0", 5.0, 36),
    ]
    times = fits_beside.times_of_events(events)
    assert times == {"mlp-0000": {"alone": (2.0, 20), "beside": (2.0, 6)}}
    assert fits_beside.ratio_of(times["mlp-0000"]) == pytest.approx((2 / 6) / (2 / 20))
    assert fits_beside.ratio_of({"alone": (1.0, 2), "beside": (9.0, 90)}) is None
