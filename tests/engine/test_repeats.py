from __future__ import annotations

from typing import Any

import pytest

from tabapp.engine.candidates import Candidate
from tabapp.engine.repeats import equals, trial_to_repeat
from tests.engine.test_scheduler import FOLDS, finish


def candidate(trial: int, params: dict[str, Any], score: float | None = 0.9, n_folds: int = FOLDS) -> Candidate:
    made = Candidate("m", trial, params, FOLDS)
    for fold in range(n_folds if score is not None else 0):
        finish(made, fold, (score or 0.0) + 0.01 * fold)
    return made


def test_every_second_new_trial_repeats_the_hyperparameters_with_the_largest_weight_for_each_of_their_trials() -> None:
    first, second = candidate(0, {"rate": 0.1}, 0.9), candidate(1, {"rate": 0.2}, 0.8)
    assert trial_to_repeat([first], {("m", 0): 1.0}) is None, "the first new trial has new hyperparameters"
    assert trial_to_repeat([first, second], {("m", 0): 0.6, ("m", 1): 0.4}) is first
    again = candidate(2, {"rate": 0.1}, 0.91)
    assert trial_to_repeat([first, second, again], {("m", 0): 0.6, ("m", 1): 0.4}) is None
    third = candidate(3, {"rate": 0.3}, 0.7)
    weights = {("m", 0): 0.3, ("m", 2): 0.3, ("m", 1): 0.4}
    assert trial_to_repeat([first, second, again, third], weights) is second, "0.3 for each of its trials"


@pytest.mark.parametrize("weights", [{}, {("other", 0): 1.0}])
def test_a_model_without_weight_is_not_repeated(weights: dict[tuple[str, int], float]) -> None:
    assert trial_to_repeat([candidate(0, {"a": 1}), candidate(1, {"a": 2})], weights) is None


def test_only_complete_trials_are_repeated() -> None:
    begun = [candidate(0, {"a": 1}, n_folds=1), candidate(1, {"a": 2})]
    assert trial_to_repeat(begun, {("m", 0): 1.0}) is None


def test_a_model_without_random_numbers_is_not_repeated_again() -> None:
    first, second = candidate(0, {"a": 1}), candidate(1, {"a": 2}, 0.8)
    same, third = candidate(2, {"a": 1}, n_folds=1), candidate(3, {"a": 3}, 0.7)
    assert equals(same, first)
    assert not equals(candidate(4, {"a": 1}, score=None), first)
    assert trial_to_repeat([first, second, same, third], {("m", 0): 1.0}) is None
