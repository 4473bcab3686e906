"""Models that no ensemble can have leave the run folder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate, read_results
from tabapp.engine.loop import unused_models
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.recovery import recover
from tabapp.engine.loop.unused_models import UnusedModels
from tabapp.policy import POLICY
from tabapp.run.record.folder import RunFolder
from tests.engine.finished_runs import make_run
from tests.engine.schedule.test_scheduler import finish, make

FOLDS = 2


class Trials:
    """A competition of two models, and the fits of their trials on disk."""

    def __init__(self, place: Path) -> None:
        self.folder = RunFolder(place)
        self.competition = make({"a": 1.0, "b": 1.0}).competition
        scorer = SimpleNamespace(loss=self.competition.loss_of)
        policy = replace(POLICY, ensemble_candidates=3)
        self.board = Board(cast(Any, SimpleNamespace(metric="rmse")), self.competition, cast(Any, scorer), policy)

    def add(self, model: str, trial: int, loss: float, folds: int = FOLDS, status: str = "complete") -> Candidate:
        candidate = self.competition.add(Candidate(model, trial, {}, FOLDS))
        for fold in range(folds):
            finish(candidate, fold, -loss)
            place = candidate.place(self.folder, fold)
            (place / "model" / "part").mkdir(parents=True)
            for name in ("oof.npy", "model/trees.json", "model/part/weights"):
                (place / name).write_text("x")
        candidate.status = cast(Any, status)
        return candidate

    def with_models(self) -> set[tuple[str, int]]:
        """The candidates all of whose fits have their models; asserts that the others have none, and all their predictions."""
        found: set[tuple[str, int]] = set()
        for candidate in self.competition.candidates.values():
            places = [candidate.place(self.folder, fold) for fold in candidate.results]
            assert all((place / "oof.npy").is_file() for place in places)
            left = {len([path for path in place.rglob("*") if path.is_file()]) for place in places}
            assert left <= {3} or (left <= {1} and not candidate.has_models)
            if left == {3}:
                found.add(candidate.key)
        return found

    def remove(self) -> None:
        UnusedModels(self.folder, self.board).remove(at_once=True)


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    return Trials(tmp_path)


def test_models_of_candidates_that_no_ensemble_can_have_are_removed(trials: Trials) -> None:
    for trial, loss in enumerate((0.5, 0.1, 0.2, 0.4)):
        trials.add("a", trial, loss)
    trials.add("a", 4, 0.3, folds=1, status="pruned")
    trials.add("a", 5, 0.9, folds=1, status="active")
    trials.add("b", 0, 0.8, folds=1, status="pruned")
    trials.remove()
    # The three best complete ones, the one that continues, and the best of each model.
    assert trials.with_models() == {("a", 1), ("a", 2), ("a", 3), ("a", 5), ("b", 0)}
    better = trials.add("b", 1, 0.05)
    trials.remove()
    assert trials.with_models() == {("a", 1), ("a", 2), ("a", 5), better.key}


def test_members_of_the_ensemble_keep_their_models(trials: Trials) -> None:
    for trial, loss in enumerate((0.5, 0.1, 0.2, 0.4)):
        trials.add("a", trial, loss)
    member = trials.competition.candidates["a", 0]
    trials.board.selected = cast(Any, SimpleNamespace(members=((member, 1.0),)))
    trials.remove()
    assert trials.with_models() == {("a", 0), ("a", 1), ("a", 2), ("a", 3)}


def test_nothing_is_removed_without_a_complete_candidate_or_during_a_selection(trials: Trials) -> None:
    for trial in range(5):
        trials.add("a", trial, 0.1 * trial, folds=1, status="pruned")
    trials.remove()
    assert len(trials.with_models()) == 5
    for trial in range(5, 10):
        trials.add("a", trial, 0.1 * trial)
    trials.board._selecting = cast(Any, "in progress")
    trials.remove()
    assert len(trials.with_models()) == 10
    trials.board._selecting = None
    trials.remove()
    assert trials.with_models() == {("a", 5), ("a", 6), ("a", 7)}


@pytest.mark.parametrize(("pause", "left"), [(1e9, 5), (0.0, 3)])
def test_removals_have_pauses(trials: Trials, monkeypatch: pytest.MonkeyPatch, pause: float, left: int) -> None:
    monkeypatch.setattr(unused_models, "PAUSE_SECONDS", pause)
    unused = UnusedModels(trials.folder, trials.board)
    for trial in range(5):
        trials.add("a", trial, 0.1 * trial)
    unused.remove()
    assert len(trials.with_models()) == left


def test_candidates_without_models_may_not_join_an_ensemble(trials: Trials) -> None:
    for trial in range(5):
        trials.add("a", trial, 0.1 * trial)
    trials.remove()
    assert [candidate.trial for candidate in trials.board._eligible()] == [0, 1, 2]


def test_a_run_without_some_models_continues_and_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x": rng.normal(size=80), "z": rng.normal(size=80)})
    table.with_columns(y=pl.col("x") * 2 + pl.col("z")).write_csv(tmp_path / "table.csv")
    folder = make_run(tmp_path / "runs", tmp_path / "table.csv", "y", ("linear", "k_neighbors"))
    run = FinishedRun(folder)
    member, other = run.candidates["linear", 0], run.candidates["k_neighbors", 0]
    assert [candidate for candidate, _ in run.members] == [member]
    other.remove_models(folder)
    warnings: list[str] = []
    recover(folder, folder.config(), warnings.append)
    assert warnings == []
    again = Candidate(other.model, other.trial, {}, other.n_folds)
    read_results(folder, again)
    assert again.is_complete
    assert not again.has_models
    assert np.array_equal(again.out_of_fold(folder, 0), other.out_of_fold(folder, 0))
    assert list(FinishedRun(folder).candidates) == [member.key]
    # A model that is lost in another way is trained again.
    shutil.rmtree(member.place(folder, 0) / "model")
    recover(folder, folder.config(), warnings.append)
    assert "The fit runs again." in warnings[0]
