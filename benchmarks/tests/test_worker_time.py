from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.product.worker_time import mean_shares, names_of, read, worker_time
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.records import EnsembleMember

PLAN: dict[str, Any] = {
    "target": "y",
    "target_reason": "",
    "task": "binary",
    "task_reason": "",
    "classes": ("a", "b"),
    "metric": "roc_auc",
    "metric_title": "AUC",
    "metrics": (),
    "greater_is_better": True,
    "validation": "",
    "validation_reason": "",
    "budget": 60.0,
    "trials": None,
    "quality": "auto",
    "device": "cpu",
    "seed": 0,
    "models": (),
    "command": "",
}


def started(t: float, model: str, trial: int, fold: int) -> ev.FitStarted:
    return ev.FitStarted(t=t, fit=f"{model}-{trial}-{fold}", model=model, trial=trial, fold=fold, folds=2, pid=1)


def finished(t: float, model: str, trial: int, fold: int) -> ev.FitFinished:
    # The seconds of training are fewer than those of the worker, and are not used.
    return ev.FitFinished(
        t=t, fit=f"{model}-{trial}-{fold}", model=model, trial=trial, fold=fold, score=0.5, seconds=0.1
    )


def ensemble(t: float, *members: tuple[str, int]) -> ev.EnsembleChanged:
    return ev.EnsembleChanged(
        t=t,
        members=tuple(EnsembleMember(model=model, trial=trial, weight=1 / len(members)) for model, trial in members),
        score=0.5,
        low=0.4,
        high=0.6,
    )


LOG: list[ev.AnyEvent] = [
    ev.PlanMade(**PLAN, folds=2, workers=2),
    ev.StageChanged(t=100.0, stage="fitting"),
    started(100.0, "member", 0, 0),
    started(100.0, "complete", 0, 0),
    finished(104.0, "member", 0, 0),
    started(104.0, "member", 0, 1),
    finished(103.0, "complete", 0, 0),
    started(103.0, "complete", 0, 1),
    finished(105.0, "complete", 0, 1),
    ensemble(105.0, ("complete", 0)),
    finished(106.0, "member", 0, 1),
    started(106.0, "member", 1, 0),
    ev.TrialPruned(t=109.0, model="member", trial=1, reason="behind"),
    started(106.0, "failed", 0, 0),
    ev.FitFailed(t=107.0, fit="failed-0-0", model="failed", trial=0, fold=0, reason="no"),
    started(109.0, "late", 0, 0),
    finished(111.0, "late", 0, 0),
    started(111.0, "late", 0, 1),
    ev.StageChanged(t=115.0, stage="ensembling"),
    ensemble(115.5, ("member", 0)),
]


def test_seconds_are_counted_by_what_the_final_ensemble_uses() -> None:
    time = worker_time(LOG)
    # member-0: 4 + 2; complete-0: 3 + 2; member-1: 3, failed: 1, late: 2, and 4 until the end of fitting.
    assert (time.weight, time.complete, time.nowhere) == (6.0, 5.0, 10.0)
    assert time.first_folds == 6.0
    assert time.available == 30.0
    assert (time.n_fits, time.n_members) == (8, 1)
    assert time.shares == pytest.approx(
        {"weight": 6 / 21, "complete": 5 / 21, "nowhere": 10 / 21, "first_folds": 6 / 21, "idle": 9 / 30}
    )


def test_a_killed_session_ends_its_fits() -> None:
    resumed = ev.RunStarted(t=500.0, run="r", name="r", data="d", pid=1, seed=0, budget=60.0, version="1", resumed=True)
    again: list[ev.AnyEvent] = [
        resumed,
        ev.PlanMade(**PLAN, folds=2, workers=2, t=500.0),
        ev.StageChanged(t=501.0, stage="fitting"),
        started(501.0, "late", 0, 1),
        finished(503.0, "late", 0, 1),
        ev.StageChanged(t=504.0, stage="ensembling"),
        ensemble(504.0, ("late", 0)),
    ]
    # Before it was killed, the session wrote its last event at 111; the last fit of LOG had then just started.
    time = worker_time([*LOG[:-2], *again])
    assert (time.weight, time.complete, time.nowhere) == (4.0, 11.0, 4.0)
    assert time.available == 2 * (11.0 + 3.0)


def test_means_give_each_run_equal_weight() -> None:
    short = worker_time(LOG)
    other = worker_time([*LOG[:-1], ensemble(115.5, ("member", 0), ("complete", 0))])
    assert mean_shares([short, other])["weight"] == pytest.approx((6 / 21 + 11 / 21) / 2)


def test_a_kept_run_has_the_name_of_its_folder() -> None:
    runs = [Path("kept/adult-tabapp-0/runs/a"), Path("x/runs/b"), Path("y/x/runs/c"), Path("d")]
    assert names_of(runs) == ["adult-tabapp-0", "x/runs/b", "y/x/runs/c", "d"]


def test_an_unfinished_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"".join(map(encode, LOG[:5])))
    with pytest.raises(ValueError, match=f"{tmp_path.name}.*has not finished fitting"):
        read(tmp_path)
