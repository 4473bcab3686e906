"""What a candidate adds to the current ensemble."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Score
from tabapp.engine.loop import board as board_module
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.selection import Selected, best_of_all_models
from tabapp.engine.loop.time_share import Allowance
from tabapp.engine.plan.make_plan import PlannedModel
from tabapp.engine.schedule.gains import gain_over
from tabapp.policy import POLICY
from tests.engine.schedule.test_scheduler import finish, make

ROWS = 300
FOLD = np.arange(ROWS) % 3
GENERATOR = np.random.default_rng(0)
TARGET = GENERATOR.normal(size=ROWS)
Floats = npt.NDArray[np.float32]


class Predictions:
    """Stands in for a scorer: a prediction of all rows for each candidate."""

    target, weight = TARGET, None

    def __init__(self) -> None:
        self.of: dict[tuple[str, int], npt.NDArray[np.float64]] = {}

    def score(self, candidate: Candidate, *, exact: bool) -> Score:
        return Score(candidate.results[0].score, 0.0, 1.0)

    def out_of_fold(self, candidate: Candidate) -> tuple[Floats, npt.NDArray[np.bool_]]:
        covered = np.isin(FOLD, list(candidate.results))
        return np.where(covered, self.of[candidate.key], 0.0).astype(np.float32), covered


@pytest.fixture
def predictions() -> Predictions:
    return Predictions()


@pytest.fixture
def board(predictions: Predictions) -> Board:
    competition = make({"a": 1.0, "b": 1.0}).competition
    return Board(cast(Any, SimpleNamespace(metric="rmse", seed=0)), competition, cast(Any, predictions))


def candidate_with(
    board: Board, predictions: Predictions, name: str, prediction: npt.NDArray[np.float64], folds: int
) -> Candidate:
    candidate = board.competition.add(Candidate(name, 0, {}, 3))
    predictions.of[candidate.key] = prediction
    for fold in range(folds):
        finish(candidate, fold, 0.5)
    return candidate


def test_the_ensemble_is_the_first_row_even_if_a_single_score_is_better(board: Board, predictions: Predictions) -> None:
    models = tuple(PlannedModel(name=name, title=name.upper(), family="gbdt") for name in "ab")
    board.plan = cast(Any, SimpleNamespace(metric="rmse", models=models))
    members = [candidate_with(board, predictions, name, TARGET, folds=3) for name in "ab"]
    for candidate, score in zip(members, (0.4, 0.3), strict=True):
        for fold in range(3):
            finish(candidate, fold, score)
    board.selected = Selected(
        tuple((member, 0.5) for member in members),
        Score(0.35, 0.3, 0.4),
        TARGET.astype(np.float32),
        np.ones(ROWS, dtype=bool),
        TARGET.astype(np.float32),
    )
    rows = board.rows({}, over=True)
    assert [(row.rank, row.model, row.score) for row in rows] == [(1, "ensemble", 0.35), (2, "b", 0.3), (3, "a", 0.4)]


def select(board: Board, prediction: npt.NDArray[np.float64]) -> None:
    """Make this prediction the current ensemble."""
    values = prediction.astype(np.float32)
    board.selected = Selected((), Score(0.0, 0.0, 0.0), values, np.ones(ROWS, dtype=bool), values)
    board.n_selections += 1


def test_selections_take_a_small_share_of_the_time(
    board: Board, predictions: Predictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_with(board, predictions, "a", TARGET, folds=3)
    now, selections = 0.0, list[list[Candidate]]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "thread_time", lambda: 2.0 * len(selections))
    monkeypatch.setattr(board_module, "select_ensemble", lambda candidates, *_, **__: selections.append(candidates))
    board._allowance = Allowance(board_module.SELECTION_SHARE, board_module.FIRST_SELECTION_SECONDS)

    def refresh() -> int:
        """Start a selection if one is allowed, and wait for it."""
        board.mark_stale()
        board.refresh()
        if board._selecting is not None:
            board._selecting.result()
            board.refresh()
        return len(selections)

    assert refresh() == 1
    # It took two seconds, some of which are free.
    now = (2 - board_module.FIRST_SELECTION_SECONDS) / board_module.SELECTION_SHARE - 1
    assert refresh() == 1
    now += 2
    assert refresh() == 2


@pytest.mark.parametrize(("metric", "expected"), [("rmse", 0), ("log_loss", 1)])
def test_what_calibration_imports_is_loaded_once_during_fitting(
    metric: str, expected: int, board: Board, predictions: Predictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_with(board, predictions, "a", TARGET, folds=3)
    board.plan.metric = metric  # pyright: ignore[reportAttributeAccessIssue]
    loaded: list[str] = []
    monkeypatch.setattr(board_module, "load_optimizer", lambda: loaded.append("scipy"))
    monkeypatch.setattr(board_module, "select_ensemble", lambda *_, **__: None)
    board._allowance = Allowance(1.0, 1e9)
    for _ in range(2):
        board.mark_stale()
        board.refresh()
        assert board._selecting is not None
        board._selecting.result()
        board.refresh()
    assert board.select_now() is None
    assert len(loaded) == expected


def test_the_scores_of_the_final_rows_are_computed_before_them(board: Board, predictions: Predictions) -> None:
    best = candidate_with(board, predictions, "a", TARGET, folds=3)
    candidate_with(board, predictions, "b", TARGET, folds=0)
    scored: list[tuple[Candidate, bool]] = []
    board.scorer = cast(Any, SimpleNamespace(score=lambda candidate, exact=True: scored.append((candidate, exact))))
    board.score_rows()
    assert scored == [(best, True)]


def test_a_gain_is_the_share_of_the_error_that_the_best_blend_removes(board: Board, predictions: Predictions) -> None:
    noise, other = GENERATOR.normal(size=(2, ROWS))
    select(board, TARGET + noise)
    same = candidate_with(board, predictions, "a", TARGET + noise, folds=1)
    assert board.gain(same) == pytest.approx(0.0, abs=1e-6)
    independent = candidate_with(board, predictions, "b", TARGET + other, folds=1)
    rows = FOLD == 0
    # Equal and independent errors are best blended in equal parts.
    blended = np.sqrt(np.mean(((noise + other)[rows] / 2) ** 2) / np.mean(noise[rows] ** 2))
    assert board.gain(independent) == pytest.approx(1 - blended, abs=1e-5)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 40])
@pytest.mark.parametrize("metric", [metric.name for metric in metrics.for_task("binary")])
def test_a_gain_is_a_number_unless_the_metric_is_undefined_or_has_its_best_value(metric: str, n_rows: int) -> None:
    positive = np.zeros(n_rows, dtype=np.int64)
    positive[0] = 1
    known, added = (np.column_stack([1 - p, p]).astype(np.float32) for p in GENERATOR.random((2, n_rows)))
    scorer = cast(Any, SimpleNamespace(target=positive, weight=None))
    gain = gain_over([known], added, np.ones(n_rows, dtype=np.bool_), scorer, metric, 0)
    value = metrics.score(metric, positive, known)
    is_best = value == (1.0 if metrics.get(metric).greater_is_better else 0.0)
    assert np.isnan(gain) == np.isnan(value) or (is_best and np.isnan(gain))


def test_a_gain_without_a_defined_metric_is_just_enough(board: Board, predictions: Predictions) -> None:
    board.plan = cast(Any, SimpleNamespace(metric="r2", seed=0))
    predictions.target = np.ones(ROWS)
    select(board, GENERATOR.normal(size=ROWS))
    assert board.gain(candidate_with(board, predictions, "a", TARGET, folds=1)) == POLICY.gain_of_all_time


def test_a_candidate_that_does_not_help_has_a_negative_gain(board: Board, predictions: Predictions) -> None:
    select(board, TARGET + 0.01 * GENERATOR.normal(size=ROWS))
    assert board.gain(candidate_with(board, predictions, "a", GENERATOR.normal(size=ROWS), folds=2)) < 0


def test_a_gain_beside_a_similar_candidate_is_small(board: Board, predictions: Predictions) -> None:
    noise = GENERATOR.normal(size=ROWS)
    better = candidate_with(board, predictions, "a", TARGET + 0.1 * noise, folds=1)
    similar = candidate_with(
        board, predictions, "b", TARGET + 0.1 * noise + 0.01 * GENERATOR.normal(size=ROWS), folds=2
    )
    assert board.gain(similar, (better,)) == board.gain(similar), "without an ensemble, others are rivals already"
    select(board, TARGET + GENERATOR.normal(size=ROWS))
    assert board.gain(better) == pytest.approx(board.gain(similar), abs=0.05)
    assert board.gain(similar) > 0.3
    assert board.gain(similar, (better,)) < 0.05


def test_a_gain_follows_the_ensemble(board: Board, predictions: Predictions) -> None:
    candidate = candidate_with(board, predictions, "a", TARGET + 0.3 * GENERATOR.normal(size=ROWS), folds=1)
    select(board, TARGET + GENERATOR.normal(size=ROWS))
    assert board.gain(candidate) > 0
    select(board, TARGET.copy())
    assert board.gain(candidate) < 0


def test_without_an_ensemble_a_candidate_is_compared_with_the_others(board: Board, predictions: Predictions) -> None:
    good = candidate_with(board, predictions, "a", TARGET + 0.1 * GENERATOR.normal(size=ROWS), folds=1)
    assert board.gain(good) == float("inf")
    poor = candidate_with(board, predictions, "b", TARGET + 9.0 * GENERATOR.normal(size=ROWS), folds=1)
    assert board.gain(good) > 0.4
    assert board.gain(poor) < 0


def test_models_in_training_come_before_other_models_without_a_score(board: Board, predictions: Predictions) -> None:
    board.competition = make(dict.fromkeys("abcd", 1.0)).competition
    models = tuple(PlannedModel(name=name, title=name.upper(), family="gbdt") for name in "abcd")
    skipped = PlannedModel(name="a0", title="A0", family="gbdt", reason="too few rows")
    board.plan = cast(Any, SimpleNamespace(metric="rmse", models=(skipped, *models)))
    candidate_with(board, predictions, "d", TARGET, folds=1)
    candidate_with(board, predictions, "a", TARGET, folds=0).status = "failed"
    rows = board.rows({"c": "defaults · fold 1/5"})
    assert [(row.model, row.status) for row in rows] == [
        ("d", "ok"),
        ("c", "running"),
        ("b", "queued"),
        ("a", "failed"),
        ("a0", "skipped"),
    ]


def test_the_best_trial_of_every_model_may_join_the_ensemble(board: Board, predictions: Predictions) -> None:
    candidates: list[Candidate] = []
    for trial in range(POLICY.ensemble_candidates + 5):
        candidates.append(board.competition.add(Candidate("a", trial, {}, 3)))
    candidates.append(board.competition.add(Candidate("b", 0, {}, 3)))
    chosen = best_of_all_models(candidates, POLICY.ensemble_candidates)
    assert chosen == [*candidates[: POLICY.ensemble_candidates - 1], candidates[-1]]


def test_members_stay_among_the_candidates_although_each_model_has_a_better_trial(
    board: Board, predictions: Predictions
) -> None:
    candidates = [board.competition.add(Candidate(name, trial, {}, 3)) for trial in range(2) for name in "ab"]
    assert best_of_all_models(candidates, 2) == candidates[:2]
    assert best_of_all_models(candidates, 2, {("b", 1), ("c", 0)}) == [*candidates[:2], candidates[3]]


def test_an_ensemble_during_fitting_may_keep_its_members(
    board: Board, predictions: Predictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def selected(*given: Any, **named: Any) -> None:
        seen.append((named["kept"], named["is_final"]))

    monkeypatch.setattr(board_module, "select_ensemble", selected)
    board._select_for_now([])
    member, values = candidate_with(board, predictions, "a", TARGET, folds=3), TARGET.astype(np.float32)
    score = Score(0.0, 0.0, 0.0)
    board.selected = Selected(((member, 1.0),), score, values, np.ones(ROWS, dtype=bool), values)
    board._select_for_now([])
    board.select_now()
    assert seen == [(frozenset(), False), (frozenset({("a", 0)}), False), ((), True)]


@pytest.mark.parametrize("metric", ["roc_auc", "accuracy"])
def test_rows_without_an_error_say_nothing_of_a_candidate_that_has_none_either(metric: str) -> None:
    target = np.arange(40) % 2
    perfect, other = (np.column_stack([1 - p, p]).astype(np.float32) for p in (0.2 + 0.6 * target, 0.1 + 0.7 * target))
    wrong = perfect[:, ::-1].copy()
    scorer = cast(Any, SimpleNamespace(target=target, weight=None))
    every = np.ones(40, dtype=np.bool_)
    assert np.isnan(gain_over([perfect], other, every, scorer, metric, 0))
    assert gain_over([wrong], perfect, every, scorer, metric, 0) == pytest.approx(1)
