"""What the benchmark of devices reads from the events of a run."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import devices


def test_facts_of_events() -> None:
    events: list[dict[str, Any]] = [
        {"ev": "run.started", "elapsed": 0.1},
        {"ev": "resources", "elapsed": 1.0, "gpu_percent": 90.0},
        {"ev": "fit.started", "elapsed": 2.0, "model": "lightgbm"},
        {"ev": "fit.finished", "elapsed": 4.0, "model": "lightgbm"},
        {"ev": "resources", "elapsed": 5.0, "gpu_percent": 0.0},
        {"ev": "fit.finished", "elapsed": 7.5, "model": "mlp"},
        {"ev": "resources", "elapsed": 10.0, "gpu_percent": 60.0},
        {"ev": "resources", "elapsed": 11.0},
        {"ev": "fit.finished", "elapsed": 12.0, "model": "tabm"},
        {"ev": "resources", "elapsed": 13.0, "gpu_percent": 5.0},
    ]
    assert devices.facts_of_events(events) == {
        "busy": 30.0,
        "busy_later": 60.0,
        "first_network": 7.5,
        "networks": 2,
        "others": 1,
    }
    nothing = devices.facts_of_events(events[:2])
    assert nothing == {"busy": None, "busy_later": None, "first_network": None, "networks": 0, "others": 0}


def test_fits_of_events() -> None:
    events: list[dict[str, Any]] = [
        {"ev": "fit.started", "elapsed": 2.0, "fit": "mlp-0000-f0", "device": "cuda:0", "seconds": 6.0},
        {"ev": "fit.started", "elapsed": 3.0, "fit": "lightgbm-0000-f0"},
        {"ev": "fit.started", "elapsed": 4.0, "fit": "xgboost-0000-f0", "device": "cpu"},
        {"ev": "fit.finished", "elapsed": 5.0, "fit": "lightgbm-0000-f0", "score": 0.8},
        {"ev": "fit.finished", "elapsed": 7.5, "fit": "mlp-0000-f0", "score": 0.7},
    ]
    assert devices.fits_of_events(events) == [
        ("lightgbm-0000-f0", None, 3.0, 5.0, None, 0.8),
        ("mlp-0000-f0", "cuda:0", 2.0, 7.5, 6.0, 0.7),
    ]


def test_results_of_an_earlier_version_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"name": "t", "target": "y", "task": "regression"}
    facts = {"networks": 1, "others": 2, "busy": None, "seconds": [1.0]}
    results = {f"t|{system}|0|60": {"score": 2.0, **facts} for system in (devices.CPU, devices.GPU)}
    options: Any = type("Options", (), {"draws": [0], "budget": 60, "out": None, "out_of_fold": False})
    devices.show(results, [entry], options)
    assert "1.000" in capsys.readouterr().out
