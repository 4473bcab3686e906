from __future__ import annotations

import time
from pathlib import Path

import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.engine.loop.clock import CHECKS, EXPORT_BYTES_PER_SECOND, LONGEST_RESERVE, Clock, export_seconds
from tabapp.features.arrays import FeatureRecipe
from tabapp.run.record import events as ev
from tabapp.run.record.state import seconds_used


def test_paused_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock(100.0, used=20.0)
    assert clock.left() == 80.0
    assert clock.fitting_left() == 80.0 - 6.0
    clock.pause()
    now += 500.0
    assert (clock.left(), clock.fitting_left()) == (80.0, 74.0)
    clock.resume()
    assert (clock.left(), clock.fitting_left()) == (80.0, 74.0)
    now += 10.0
    assert (clock.left(), clock.fitting_left()) == (70.0, 64.0)


def test_a_run_without_a_budget_has_no_deadline() -> None:
    clock = Clock(None, used=5.0)
    assert clock.left() == clock.fitting_left() == float("inf")
    assert clock.wall_deadline() is None


def test_the_deadline_moves_both_ways_but_never_before_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    clock = Clock(100.0, used=0.0)
    assert clock.extend(60.0) == 60.0
    assert (clock.left(), clock.fitting_left(), clock.budget) == (160.0, 154.0, 160.0)
    assert clock.extend(-1000.0) == -154.0
    assert (clock.left(), clock.fitting_left(), clock.budget) == (6.0, 0.0, 6.0)
    assert Clock(None, used=0.0).extend(60.0) == 0.0


def started(t: float) -> ev.RunStarted:
    return ev.RunStarted(t=t, run="r", name="r", data="d", pid=1, seed=0, budget=60.0, version="0")


def test_time_before_the_start_and_while_paused_is_not_used() -> None:
    history: list[ev.AnyEvent] = [
        started(0.0),
        ev.StageChanged(t=2.0, stage="ready"),
        ev.StageChanged(t=100.0, stage="fitting"),
        ev.StageChanged(t=110.0, stage="fitting", paused=True),
        ev.StageChanged(t=400.0, stage="fitting"),
        ev.Log(t=405.0, level="info", message="killed after this"),
        started(900.0),
        ev.StageChanged(t=901.0, stage="fitting"),
        ev.Log(t=907.0, level="info", message="killed again"),
    ]
    assert seconds_used(history) == 10.0 + 5.0 + 7.0


def test_a_large_bundle_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    clock = Clock(300.0, used=0.0)
    assert clock.fitting_left() == 300.0 - 18.0
    clock.reserve_export(6.0)
    assert clock.fitting_left() == 300.0 - 18.0, "an ordinary bundle"
    assert clock.left_before_export() == 294.0
    clock.reserve_export(15.0)
    assert clock.fitting_left() == 300.0 - 27.0
    clock.extend(300.0)
    clock.reserve_export(15.0)
    assert clock.fitting_left() == 600.0 - 27.0
    clock.reserve_export(1_000.0)
    assert clock.fitting_left() == 600.0 - 150.0, "most of the time is for fits"
    assert clock.left_before_export() == 0.0
    clock.reserve_export(0.0)
    assert clock.fitting_left() == 600.0 - 18.0

    unlimited = Clock(None, used=0.0)
    unlimited.reserve_export(15.0)
    assert unlimited.fitting_left() == unlimited.left_before_export() == float("inf")


def test_the_ensemble_of_a_large_table_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    clock = Clock(60.0, used=0.0)
    clock.reserve_ensemble(2_000)
    assert clock.fitting_left() == pytest.approx(60.0 - 3.6), "a small one"
    clock.reserve_ensemble(500_000)
    assert clock.fitting_left() == pytest.approx(60.0 - 2.4 - 4.0)
    clock.reserve_export(1.0)
    assert clock.fitting_left() == pytest.approx(60.0 - 2.4 - 4.0 - 1.0)
    long = Clock(600.0, used=0.0)
    long.reserve_ensemble(500_000)
    assert long.fitting_left() == pytest.approx(600.0 - 36.0), "the reserve of a long run suffices"


def test_the_time_for_a_bundle_depends_on_the_size_of_its_models(tmp_path: Path) -> None:
    for fit, n_bytes in (("mlp-0000-f0", 1_000_000), ("mlp-0000-f1", 2_000_000), ("mlp-0001-f0", 4_000_000)):
        model = tmp_path / fit / "model" / "parts"
        model.mkdir(parents=True)
        (model / "weights").write_bytes(bytes(n_bytes))
    both = export_seconds(tmp_path, [(fitted("mlp", 2), 1.0)])
    assert both == pytest.approx(3e6 / EXPORT_BYTES_PER_SECOND)
    assert export_seconds(tmp_path, []) == 0.0


def fitted(model: str, n_folds: int) -> Candidate:
    """A candidate whose fits took 3 seconds, and their predictions 1."""
    results = {
        fold: FitResult(
            fit=f"{model}-0000-f{fold}", model=model, trial=0, fold=fold, score=0.5, seconds=3.0, predict_seconds=1.0, n_rows=9,
            recipe=FeatureRecipe(), summary={},
        )
        for fold in range(n_folds)
    }  # fmt: skip
    return Candidate(model, 0, {}, n_folds, results=results)


def test_a_bundle_takes_the_time_in_which_its_models_read_their_rows(tmp_path: Path) -> None:
    each_fold = export_seconds(tmp_path, [(fitted("tabr", 4), 0.5)])
    assert each_fold == CHECKS * 4 * 1.0
    one_for_all = export_seconds(tmp_path, [(fitted("lightpfn", 4), 0.5)])
    assert one_for_all == CHECKS * 3.0


def test_a_busy_machine_gets_more_time_for_the_end_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    assert Clock(30.0, used=0.0).fitting_left() == 30.0 - 2.5
    assert Clock(30.0, used=0.0, slowdown=2.0).fitting_left() == 30.0 - 5.0
    assert Clock(30.0, used=0.0, slowdown=20.0).fitting_left() == 30.0 - 7.5, "most of the time is for fits"
    assert Clock(600.0, used=0.0, slowdown=4.0).fitting_left() == 600.0 - 36.0, "the reserve of a long run suffices"
    clock = Clock(300.0, used=0.0, slowdown=3.0)
    clock.reserve_export(6.0)
    assert clock.left_before_export() == 300.0 - 18.0


def test_a_first_score_may_take_the_time_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    assert Clock(20.0, used=10.0).grace_seconds() == (1.5, 6.0)
    assert Clock(20.0, used=10.0, slowdown=4.0).grace_seconds() == (2.5, 6.0), "most of the rest is for the bundle"
    assert Clock(20.0, used=30.0).grace_seconds() == (0.0, 0.0)


@pytest.mark.parametrize(("budget", "reserve"), [(1000.0, 60.0), (100.0, 6.0), (None, LONGEST_RESERVE)])
@pytest.mark.parametrize("paused", [False, True])
def test_what_follows_an_early_end_takes_the_reserved_time_only(
    monkeypatch: pytest.MonkeyPatch, budget: float | None, reserve: float, paused: bool
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock(budget, 0.0)
    now += 10.0
    if paused:
        clock.pause()
        now += 500.0
    clock.end_fitting()
    assert (clock.fitting_left(), clock.left(), clock.paused) == (0.0, reserve, False)
    now += 1.0
    assert clock.left() == reserve - 1.0
