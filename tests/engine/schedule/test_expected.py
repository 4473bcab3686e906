"""Expected seconds of fits in runs with a time limit."""

from __future__ import annotations

import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.expected_seconds import MOST_RATIO, ExpectedSeconds
from tabapp.engine.schedule.scheduler import ModelRecord
from tests.engine.schedule.test_scheduler import FOLDS, finish


def expectations(*candidates: Candidate) -> ExpectedSeconds:
    """Of the candidates of one model, whose prior is 3 s."""

    def seconds(name: str) -> list[float]:
        return [result.seconds for candidate in candidates for result in candidate.results.values()]

    return ExpectedSeconds({"a": ModelRecord("a", 3.0)}, seconds, seconds, lambda name: candidates)


def test_a_model_without_a_fit_has_its_prior_and_then_its_mean() -> None:
    first = Candidate("a", 0, {}, FOLDS)
    expected = expectations(first)
    assert expected.of_model("a") == expected.of_candidate(first) == 3.0
    finish(first, 0, 0.8, seconds=8.0)
    finish(first, 1, 0.8, seconds=4.0)
    assert expected.of_model("a") == expected.of_candidate(first) == 6.0
    expected.record_overhead(0.5)
    assert expected.of_model("a") == expected.of_candidate(first) == 6.5


def test_a_slow_candidate_is_expected_to_stay_slow_by_the_pattern_of_a_complete_one() -> None:
    first, slow, new = (Candidate("a", trial, {}, FOLDS) for trial in range(3))
    for fold, seconds in enumerate((8.0, 4.0, 2.0)):
        finish(first, fold, 0.8, seconds=seconds)
    finish(slow, 0, 0.8, seconds=24.0)
    expected = expectations(first, slow, new)
    # Three times as slow as the first, whose other folds take 3 s.
    assert expected.of_candidate(slow) == pytest.approx(9.0)
    finish(slow, 1, 0.8, seconds=12.0)
    assert expected.of_candidate(slow) == pytest.approx(6.0)
    assert expected.of_candidate(new) == expected.of_model("a") == pytest.approx(10.0)


def test_nothing_changes_during_a_decision() -> None:
    first = Candidate("a", 0, {}, FOLDS)
    expected = expectations(first)
    with expected.decision():
        assert expected.of_model("a") == 3.0
        finish(first, 0, 0.8, seconds=8.0)
        assert expected.of_model("a") == 3.0
    assert expected.of_model("a") == 8.0


def test_one_wrong_prior_says_little_about_other_models() -> None:
    records = {name: ModelRecord(name, 1.0, libraries="torch") for name in "abcd"}

    def of_new(wrong: float) -> float:
        measured = {"a": [1.0], "b": [1.0], "c": [wrong], "d": []}
        expected = ExpectedSeconds(records, measured.__getitem__, measured.__getitem__, lambda name: ())
        return expected.of_model("d")

    assert of_new(MOST_RATIO) == of_new(100.0) < 1.5
