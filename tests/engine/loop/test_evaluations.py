"""Evaluations of out-of-fold predictions: their content for each task, when they are computed, and their size."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tabapp import metrics
from tabapp.engine.fit.candidates import Score
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop import evaluations
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.evaluations import ENSEMBLE, Evaluations
from tabapp.engine.loop.selection import Selected
from tabapp.ensemble.temperature import fit_temperature, tempered
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.record.folder import RunFolder


@dataclass
class Best:
    """A stand-in for the best trial of a model."""

    trial: int
    folds: int = 3
    is_complete: bool = True

    @property
    def results(self) -> dict[int, None]:
        return dict.fromkeys(range(self.folds))

    @property
    def identity(self) -> str:
        return f"{self.trial} on {self.folds} folds"

    @property
    def fit_names(self) -> list[str]:
        return [f"model-{self.trial}-{fold}" for fold in self.results]


def make(folder: Path, truth: Any, prediction: Any, classes: tuple[str, ...]) -> tuple[Evaluations, SimpleNamespace]:
    covered = np.ones(len(truth), dtype=bool)
    competition = SimpleNamespace(models={"m": None}, best=Best(0), best_of=lambda name: competition.best)
    board = SimpleNamespace(
        plan=SimpleNamespace(seed=0),
        competition=competition,
        scorer=SimpleNamespace(target=truth, out_of_fold=lambda candidate: (prediction, covered)),
        selected=None,
    )
    data = SimpleNamespace(schema=SimpleNamespace(classes=classes))
    return Evaluations(RunFolder(folder), cast(RunData, data), cast(Board, board)), competition


def evaluation_of(made: Evaluations) -> ev.EvaluationReady:
    event = made.refresh()
    assert event is not None
    # Views read the decoded event.
    back = decode(encode(event))
    assert isinstance(back, ev.EvaluationReady)
    return back


def probabilities(n_rows: int, n_classes: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, n_classes, n_rows)
    raw = generator.random((n_rows, n_classes)) + np.eye(n_classes)[truth]
    return truth, (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def test_two_classes(tmp_path: Path) -> None:
    truth, prediction = probabilities(2000, 2)
    event = evaluation_of(make(tmp_path, truth, prediction, ("no", "yes"))[0])
    assert (event.labels, event.positive, event.n_rows, event.sampled) == (("no", "yes"), "yes", 2000, False)
    assert sum(map(sum, event.confusion)) == 2000
    assert event.roc_auc == pytest.approx(metrics.score("roc_auc", truth, prediction), rel=1e-3)
    assert event.average_precision == pytest.approx(metrics.score("average_precision", truth, prediction), rel=1e-3)
    assert event.base_rate == pytest.approx(np.mean(truth == 1), rel=1e-3)
    assert event.roc[0] == (0, 0)
    assert sum(row.count for row in event.calibration) == 2000
    assert event.density == ()


def test_an_ensemble_with_a_temperature_shows_its_errors_with_and_without_it(tmp_path: Path) -> None:
    truth, blend = probabilities(2000, 2)
    made = make(tmp_path, truth, blend, ("no", "yes"))[0]
    covered = np.ones(len(truth), dtype=bool)
    temperature = fit_temperature(blend, truth, "log_loss")
    assert temperature is not None
    values = tempered(blend, temperature)
    made.board.selected = Selected(
        ((cast(Any, Best(0)), 1.0),), Score(0.5, 0.4, 0.6), values, covered, blend, temperature
    )
    event = made._evaluate(ENSEMBLE)  # pyright: ignore[reportPrivateUsage]
    assert event.temperature == temperature
    assert event.log_loss == pytest.approx(metrics.score("log_loss", truth, values), rel=1e-3)
    assert event.uncalibrated_log_loss == pytest.approx(metrics.score("log_loss", truth, blend), rel=1e-3)
    assert event.log_loss is not None
    assert event.log_loss < event.uncalibrated_log_loss
    assert event.calibration_error is not None
    assert event.uncalibrated_error is not None
    assert event.calibration_error < event.uncalibrated_error


def test_many_classes(tmp_path: Path) -> None:
    truth, prediction = probabilities(3000, 5)
    event = evaluation_of(make(tmp_path, truth, prediction, tuple("abcde"))[0])
    assert event.labels == tuple("abcde")
    assert (event.positive, event.average_precision) == ("", None)
    right = sum(event.confusion[code][code] for code in range(5)) / 3000
    assert right == pytest.approx(metrics.score("accuracy", truth, prediction))
    assert event.roc
    assert event.precision_recall


def test_regression(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(100, 20, 1500)
    event = evaluation_of(make(tmp_path, truth, (truth + generator.normal(0, 5, 1500)).astype(np.float32), ())[0])
    assert sum(map(sum, event.density)) == sum(event.residuals) == 1500
    assert event.residual_quantiles[0] < 0 < event.residual_quantiles[-1]
    assert event.bands
    assert event.confusion == ()


def test_evaluation_is_updated_after_the_best_trial_changes(tmp_path: Path, monkeypatch: Any) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    made, competition = make(tmp_path, *probabilities(100, 2), ("no", "yes"))
    competition.best = Best(0, is_complete=False)
    assert made.refresh() is None, "a score on some of the folds has no pictures yet"
    competition.best = Best(0)
    first = made.refresh()
    assert first is not None
    now += 60.0
    assert made.refresh() is None, "nothing has changed"
    competition.best = Best(1)
    second = made.refresh()
    assert second is not None
    assert second.trial == 1
    competition.best = Best(2)
    now += evaluations.PAUSE_SECONDS - 1
    assert made.refresh() is None, "it is too soon"
    assert [event.trial for event in made.catch_up(now + 1)] == [2]
    competition.best = Best(3)
    assert made.catch_up(now - 1) == [], "there is no time"
    competition.best = Best(4, folds=1, is_complete=False)
    assert [event.trial for event in made.catch_up(now + 1)] == [4], "nothing more comes, so some of the folds will do"


def test_large_tables_are_sampled_and_the_event_stays_small(tmp_path: Path) -> None:
    for n_rows, n_classes in ((200_000, 2), (100_000, 26)):
        truth, prediction = probabilities(n_rows, n_classes)
        made = make(tmp_path, truth, prediction, tuple(f"class {code}" for code in range(n_classes)))[0]
        event = evaluation_of(made)
        assert event.sampled
        assert event.n_rows == min(evaluations.MOST_ROWS, evaluations.MOST_CELLS // n_classes)
        assert len(encode(event)) < 8_000


def test_the_size_counts_the_files_of_all_folds(tmp_path: Path) -> None:
    for fold in range(3):
        folder = tmp_path / "fits" / f"model-0-{fold}" / "model" / "deep"
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"x" * 100)
    event = evaluation_of(make(tmp_path, *probabilities(100, 2), ("no", "yes"))[0])
    assert event.size == 300
