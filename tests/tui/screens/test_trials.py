"""Trials as rows, their order, and slices; the cards of models and how they differ."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.reducing.fits import KEPT_CURVE_LENGTH
from tabapp.run.record.reducing.reduce import reduce, replay
from tabapp.run.record.state import RunState
from tabapp.tui.viewmodels.model_card import differences, model_card, score_verdict
from tabapp.tui.viewmodels.trial_facts import TrialFacts, all_trials, slice_of, sort_trials, varied_parameters
from tests.tui import recordings


def state_of(events: list[ev.Event]) -> RunState:
    return replay(msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, 1))


def trial(number: int, score: float | None, status: str = "ok", **params: object) -> TrialFacts:
    return TrialFacts("m", "M", number, status, score, float(number), 5, 5, params=params)


def test_every_trial_is_a_row_whatever_became_of_it():
    state = state_of(recordings.running())
    rows = all_trials(state)
    assert {row.status for row in rows} == {"ok", "failed", "running"}
    assert len(rows) == len(state.trials) + 1
    running = rows[0]
    assert running.status == "running"
    assert (running.model, running.folds, running.n_folds) == ("mlp", 4, 5)
    assert not running.is_complete
    failed = next(row for row in rows if row.status == "failed")
    assert failed.model == "resnet"
    assert "memory" in failed.reason
    best = {row.model: row.score for row in rows if row.best}
    board = {row.model: row.score for row in state.leaderboard if row.score is not None and row.model != "ensemble"}
    assert best == board


def test_a_pruned_trial_is_never_the_best():
    events = recordings.running()
    events.append(ev.TrialPruned(model="catboost", trial=9, reason="behind", score=0.999))
    rows = all_trials(state_of(events))
    given_up = next(row for row in rows if row.key == "catboost#9")
    assert given_up.status == "pruned"
    assert not given_up.best


def test_no_trial_runs_once_the_run_has_ended():
    assert not [row for row in all_trials(state_of(recordings.finished())) if row.status == "running"]


@pytest.mark.parametrize(("greater", "order"), [(True, [2, 1, 3, 4]), (False, [1, 2, 3, 4])])
def test_sorting_by_score_puts_incomplete_trials_last(greater, order):
    rows = [trial(3, 0.99, "pruned"), trial(1, 0.8), trial(2, 0.9), trial(4, None, "running")]
    ordered = sort_trials(rows, "score", greater_is_better=greater)
    assert [row.trial for row in ordered if row.status == "ok"] == order[:2]
    assert {row.trial for row in ordered[2:]} == {3, 4}
    assert [row.trial for row in sort_trials(rows, "time", greater_is_better=True)] == [4, 3, 2, 1]
    assert sort_trials(rows, "newest", greater_is_better=True) == rows


def test_slices_over_numbers_logarithms_and_names():
    rows = [
        trial(0, 0.8, rate=0.001, depth=3, kind="a", same=1),
        trial(1, 0.9, rate=0.1, depth=9, kind="b", same=1),
        trial(2, 0.7, "pruned", rate=0.5, depth=1, kind="c", same=1),
    ]
    assert varied_parameters(rows) == ["rate", "depth", "kind"]
    rate = slice_of(rows, "rate")
    assert rate.logarithmic
    assert rate.points == ((-3.0, 0.8), (pytest.approx(-1.0), 0.9))
    assert rate.keys == ("m#0", "m#1"), "a trial that was given up has no comparable score"
    depth = slice_of(rows, "depth")
    assert not depth.logarithmic
    assert depth.points == ((3.0, 0.8), (9.0, 0.9))
    kind = slice_of(rows, "kind")
    assert kind.categories == ("a", "b")
    assert kind.points == ((0.0, 0.8), (1.0, 0.9))


def test_the_card_of_a_model_holds_its_best_trial():
    state = state_of(recordings.running())
    row = next(row for row in state.leaderboard if row.model == "catboost")
    card = model_card(state, "catboost")
    assert card is not None
    assert card.trial == row.trial == 1
    assert card.params == row.params
    assert card.defaults == next(t.params for t in state.trials if (t.model, t.trial) == ("catboost", 0))
    assert len(card.folds) == 5
    assert math.fsum(score or 0.0 for score in card.folds) / 5 == pytest.approx(row.score)
    assert len(card.curves) == 5
    assert model_card(state, "no such model") is None
    assert model_card(state, "ensemble").members[0][1] == 0.5
    assert model_card(state, "resnet").params == {"n_blocks": 2, "d_block": 192}


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((0.80, 0.78, 0.82), (0.81, 0.79, 0.83), "no clear difference"),
        ((0.80, 0.79, 0.81), (0.83, 0.805, 0.85), "may differ"),
        ((0.80, 0.79, 0.81), (0.90, 0.89, 0.91), "do not overlap: they differ"),
        ((0.80, None, None), (0.90, 0.89, 0.91), ""),
    ],
)
def test_the_verdict_on_two_models_follows_from_their_intervals(a, b, verdict):
    card = model_card(state_of(recordings.running()), "catboost")
    cards = [
        replace(card, row=msgspec.structs.replace(card.row, score=score, low=low, high=high))
        for score, low, high in (a, b)
    ]
    assert verdict in score_verdict(cards)
    assert bool(score_verdict(cards)) == bool(verdict)


def test_differences_between_two_models_and_from_the_defaults():
    state = state_of(recordings.running())
    one, other = model_card(state, "catboost"), model_card(state, "resnet")
    alone = differences((one,))
    assert [(row.name, row.differs) for row in alone] == [("learning_rate", True), ("max_depth", True)]
    both = differences((one, other))
    assert {row.name for row in both} == {"learning_rate", "max_depth", "n_blocks", "d_block"}
    assert not any(row.differs for row in both), "models that have no hyperparameter in common"
    empty = type(one)(one.row, "empty", 1, {"max_depth": one.params["max_depth"], "patience": None}, None, (), ())
    assert [(row.name, row.differs) for row in differences((empty, one))] == [
        ("max_depth", False),
        ("learning_rate", False),
    ]
    same = msgspec.structs.replace(one.row)
    twin = type(one)(same, "twin", 1, dict(one.params), None, (), ())
    assert not any(row.differs for row in differences((one, twin)))
    assert not any(row.differs for row in differences((twin,))), "nothing is known of its defaults"


def test_finished_fits_keep_their_score_and_a_thin_curve():
    state = RunState()
    start = ev.FitStarted(seq=1, fit="f", model="m", trial=2, fold=1, folds=5, pid=1)
    state = reduce(state, start)
    for step in range(1, 151):
        state = reduce(
            state, ev.FitProgress(seq=1 + step, fit="f", model="m", trial=2, fold=1, step=step, value=float(step))
        )
    state = reduce(state, ev.FitFinished(seq=152, fit="f", model="m", trial=2, fold=1, score=0.5, seconds=3.0))
    fit = state.fits["f"]
    assert (fit.model, fit.trial, fit.fold, fit.score, fit.seconds) == ("m", 2, 1, 0.5, 3.0)
    assert len(fit.curve) <= KEPT_CURVE_LENGTH
    assert fit.curve[-1] == (150, 150.0)
    assert not state.active
