"""Expected seconds of fits in runs with a time limit."""

from __future__ import annotations

import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.expected_seconds import ExpectedSeconds
from tabapp.policy import POLICY
from tests.engine.schedule.test_scheduler import FOLDS, finish, mean_loss


def competition_of(*names: str, prior: float = 3.0) -> Competition:
    def new_trial(name: str) -> Candidate:
        return Candidate(name, len(competition.of_model(name)), {}, FOLDS)

    competition = Competition("roc_auc", FOLDS, trials=None, new_trial=new_trial, loss=mean_loss)
    for name in names:
        competition.add_model(ModelRecord(name, prior, libraries="torch"))
    return competition


def expectations(
    competition: Competition, *overheads: float, corrects: bool = True, slowdowns: tuple[float, ...] = ()
) -> ExpectedSeconds:
    latest = {"cpu": slowdowns} if slowdowns else {}
    return ExpectedSeconds(competition, POLICY, {"cpu": overheads} if overheads else {}, latest, corrects=corrects)


def test_a_model_without_a_fit_has_its_prior_and_then_its_mean() -> None:
    competition = competition_of("a")
    first = competition.begin("a")
    before = expectations(competition)
    assert before.of_model("a") == before.of_candidate(first) == 3.0
    finish(first, 0, 0.8, seconds=8.0)
    finish(first, 1, 0.8, seconds=4.0)
    after = expectations(competition)
    assert after.of_model("a") == after.of_candidate(first) == 6.0
    with_overhead = expectations(competition, 0.2, 0.5, 9.0)
    assert with_overhead.of_model("a") == with_overhead.of_candidate(first) == 6.5


def test_time_that_a_fit_waited_for_a_processor_is_not_expected_again() -> None:
    competition = competition_of("a", "b")
    first = competition.begin("a")
    finish(first, 0, 0.8, seconds=6.0, slowdown=2.0)
    busy = expectations(competition, slowdowns=(2.0,))
    assert busy.of_model("a") == busy.of_candidate(first) == 6.0, "other programs are expected to continue"
    assert busy.of_model("b") == 6.0
    quiet = expectations(competition, slowdowns=(2.0, 1.0))
    assert quiet.of_model("a") == quiet.of_candidate(first) == quiet.of_model("b") == 3.0
    assert expectations(competition, slowdowns=(1.0, 4.0, 1.0)).of_model("b") == 3.0, "one busy moment"
    assert expectations(competition, 1.0, slowdowns=(2.0,)).of_model("b") == 7.0


def test_a_slow_candidate_is_expected_to_stay_slow_by_the_pattern_of_a_complete_one() -> None:
    competition = competition_of("a")
    first, slow, new = (competition.begin("a") for _ in range(3))
    for fold, seconds in enumerate((8.0, 4.0, 2.0)):
        finish(first, fold, 0.8, seconds=seconds)
    finish(slow, 0, 0.8, seconds=24.0)
    # Three times as slow as the first, whose other folds take 3 s.
    assert expectations(competition).of_candidate(slow) == pytest.approx(9.0)
    finish(slow, 1, 0.8, seconds=12.0)
    expected = expectations(competition)
    assert expected.of_candidate(slow) == pytest.approx(6.0)
    assert expected.of_candidate(new) == expected.of_model("a") == pytest.approx(10.0)


def test_folds_that_reuse_what_the_first_have_found_are_expected_to_be_shorter() -> None:
    competition = competition_of("a")
    competition.n_folds, later = 5, 0.5
    competition.models["a"].later_share = later
    candidate = competition.add(Candidate("a", 0, {}, 5, n_pilots=2))
    assert expectations(competition).of_candidate(candidate) == 3.0
    finish(candidate, 0, 0.8, seconds=10.0)
    assert expectations(competition).of_candidate(candidate) == pytest.approx((10 + 3 * 10 * later) / 4)
    finish(candidate, 1, 0.8, seconds=10.0)
    assert expectations(competition).of_candidate(candidate) == pytest.approx(10 * later)
    finish(candidate, 2, 0.8, seconds=10 * later)
    assert expectations(competition).of_candidate(candidate) == pytest.approx(10 * later), "as it was measured"
    alone = competition.add(Candidate("a", 1, {}, 5))
    finish(alone, 0, 0.8, seconds=10.0)
    assert expectations(competition).of_candidate(alone) == 10.0


def test_one_wrong_prior_says_little_about_other_models() -> None:
    def of_new(wrong: float, *, corrects: bool = True) -> float:
        competition = competition_of(*"abcd", prior=1.0)
        for name, seconds in {"a": 1.0, "b": 1.0, "c": wrong}.items():
            finish(competition.begin(name), 0, 0.8, seconds=seconds)
        return expectations(competition, corrects=corrects).of_model("d")

    assert 1.0 < of_new(POLICY.most_ratio) == of_new(100.0) < 1.5
    assert of_new(100.0, corrects=False) == 1.0, "without a time limit, no model's time depends on that of others"
