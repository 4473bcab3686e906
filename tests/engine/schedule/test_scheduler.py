from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.moment import Gain, Setup
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.features.arrays import FeatureRecipe

FOLDS = 3


def finish(candidate: Candidate, fold: int, score: float | None, seconds: float = 1.0, slowdown: float = 1.0) -> None:
    candidate.results[fold] = FitResult(
        fit=candidate.fit_name(fold),
        model=candidate.model,
        trial=candidate.trial,
        fold=fold,
        score=score,
        seconds=seconds,
        predict_seconds=0.0,
        n_rows=10,
        recipe=FeatureRecipe(),
        summary={},
        slowdown=slowdown,
    )
    if candidate.is_complete:
        candidate.status = "complete"


def mean_loss(candidate: Candidate) -> float:
    return -sum(result.score or 0.0 for result in candidate.results.values()) / len(candidate.results)


def make(
    models: dict[str, float],
    *,
    trials: int | None = None,
    tune: bool = True,
    race: bool = True,
    n_folds: int = FOLDS,
    is_timed: bool = False,
    gain: Gain = lambda candidate, beside=(): 0.0,
    weights: Callable[[], Mapping[tuple[str, int], float]] = dict,
) -> Scheduler:
    def new_trial(name: str) -> Candidate:
        return Candidate(name, len(competition.of_model(name)), {}, n_folds)

    competition = Competition("roc_auc", n_folds, trials=trials, new_trial=new_trial, loss=mean_loss)
    for name, prior in models.items():
        competition.add_model(ModelRecord(name, prior))
    return Scheduler(
        Setup(
            competition=competition,
            workers=lambda device: 2,
            tune=tune,
            race=race,
            gain=gain,
            weights=weights,
            clearly_behind=lambda candidate, other: mean_loss(candidate) > mean_loss(other) + 0.2,
            is_timed=is_timed,
        )
    )


def take(
    scheduler: Scheduler, running: set[tuple[str, int, int]] | None = None, seconds: float = 1e9
) -> tuple[str, int, int]:
    work = scheduler.next_work(running or set(), seconds)
    assert work is not None
    return (*work.candidate.key, work.fold)


def test_every_model_starts_with_its_first_fold_cheapest_first() -> None:
    scheduler = make({"expensive": 30.0, "cheap": 1.0, "middle": 5.0})
    running: set[tuple[str, int, int]] = set()
    for expected in ("cheap", "middle", "expensive"):
        work = take(scheduler, running)
        assert work == (expected, 0, 0)
        running.add(work)
    assert scheduler.next_work(running, 1e9) is None


def test_few_models_may_take_more_of_the_budget_for_a_fit() -> None:
    assert make({"a": 1.0}, n_folds=5).cap_share() == pytest.approx(0.3)
    assert make({"a": 1.0, "b": 1.0}, n_folds=1).cap_share() == pytest.approx(0.9)
    six = dict.fromkeys("abcdef", 1.0)
    assert (make(six, n_folds=5).cap_share(), make(six, n_folds=1).cap_share()) == (0.15, 0.3)


def test_a_better_model_gets_the_next_folds_and_an_expensive_one_waits() -> None:
    scheduler = make({"good": 1.0, "poor": 1.0, "expensive": 1.0})
    for name, score, seconds in (("good", 0.9, 1.0), ("poor", 0.6, 1.0), ("expensive", 0.95, 30.0)):
        work = scheduler.next_work({(m, 0, 0) for m in scheduler.competition.models if m < name}, 1e9)
        candidate = scheduler.competition.candidates.get((name, 0)) or scheduler.competition.add(
            Candidate(name, 0, {}, FOLDS)
        )
        finish(candidate, 0, score, seconds)
        scheduler.competition.models[name].spent = seconds
        assert work is None or work.fold == 0
    assert take(scheduler)[0] == "good"


def test_defaults_are_completed_before_tuning_unless_clearly_behind() -> None:
    scheduler = make({"best": 1.0, "close": 1.0, "far": 1.0})
    for name, score in (("best", 0.9), ("close", 0.8), ("far", 0.6)):
        finish(scheduler.competition.add(Candidate(name, 0, {}, FOLDS)), 0, score)
    order: list[tuple[str, int, int]] = []
    for _ in range(6):
        model, trial, fold = take(scheduler)
        candidate = scheduler.competition.candidates[model, trial]
        finish(candidate, fold, candidate.results[0].score if candidate.results else 0.5)
        scheduler.competition.models[model].spent += 1.0
        order.append((model, trial, fold))
    assert order[:4] == [("best", 0, 1), ("best", 0, 2), ("close", 0, 1), ("close", 0, 2)]
    assert order[4] == ("best", 1, 0)


def test_tuning_starts_after_the_defaults_and_ends_at_the_maximum_of_trials() -> None:
    scheduler = make({"only": 1.0}, trials=2)
    for trial in range(2):
        assert take(scheduler) == ("only", trial, 0)
        for fold in range(FOLDS):
            finish(scheduler.competition.candidates["only", trial], fold, 0.9)
    assert scheduler.next_work(set(), 1e9) is None


def with_complete_defaults(trials: int | None) -> Scheduler:
    scheduler = make({"only": 1.0}, trials=trials)
    take(scheduler)
    for fold in range(FOLDS):
        finish(scheduler.competition.candidates["only", 0], fold, 0.9)
    return scheduler


def test_a_bound_on_trials_leaves_one_trial_open() -> None:
    scheduler = with_complete_defaults(trials=9)
    running = {take(scheduler)}
    assert running == {("only", 1, 0)}
    assert scheduler.next_work(running, 1e9) is None


def test_workers_without_work_begin_another_trial() -> None:
    scheduler = with_complete_defaults(trials=None)
    running = {take(scheduler)}
    assert running == {("only", 1, 0)}
    for expected in (("only", 2, 0), ("only", 3, 0)):
        running.add(take(scheduler, running))
        assert expected in running
    # A trial whose first fold is there comes before another new one.
    finish(scheduler.competition.candidates["only", 2], 0, 0.91)
    assert take(scheduler, running - {("only", 2, 0)}) == ("only", 2, 1)
    # The two folds left of each open trial and the three of a new one take four rounds of two workers, with some reserve.
    open_trials = {("only", trial, 0) for trial in (1, 3)} | {("only", 2, fold) for fold in (1, 2)}
    assert scheduler.next_work(open_trials, 3.2) is None
    assert take(scheduler, open_trials, 4.3) == ("only", 4, 0)


def test_quality_fast_never_tunes() -> None:
    scheduler = make({"only": 1.0}, tune=False)
    take(scheduler)
    for fold in range(FOLDS):
        finish(scheduler.competition.candidates["only", 0], fold, 0.9)
    assert scheduler.next_work(set(), 1e9) is None


def test_a_model_without_a_score_gets_no_fits_after_two_failures() -> None:
    scheduler = make({"broken": 1.0})
    for expected in (0, 1):
        assert take(scheduler) == ("broken", expected, 0)
        scheduler.competition.candidates["broken", expected].status = "failed"
        scheduler.competition.models["broken"].failures += 1
    assert scheduler.competition.is_out("broken")
    assert scheduler.next_work(set(), 1e9) is None


def test_a_stopped_model_gets_no_fits() -> None:
    scheduler = make({"a": 1.0})
    take(scheduler)
    scheduler.competition.models["a"].stopped = True
    assert scheduler.next_work(set(), 1e9) is None


def test_a_trial_that_starts_clearly_behind_gets_no_further_folds() -> None:
    scheduler = make({"m": 1.0})
    best = scheduler.competition.add(Candidate("m", 0, {}, FOLDS))
    for fold, score in enumerate((0.90, 0.91, 0.92)):
        finish(best, fold, score)
    behind, close = Candidate("m", 1, {}, FOLDS), Candidate("m", 2, {}, FOLDS)
    finish(scheduler.competition.add(behind), 0, 0.85)
    finish(scheduler.competition.add(close), 0, 0.8999)
    assert "0.85" in (scheduler.is_behind(behind) or "")
    assert scheduler.is_behind(close) is None
    assert scheduler.is_behind(best) is None
    scheduler_without_race = make({"m": 1.0}, race=False)
    for candidate in (best, behind):
        scheduler_without_race.competition.add(candidate)
    assert scheduler_without_race.is_behind(behind) is None


def test_folds_without_a_score_decide_nothing() -> None:
    scheduler = make({"m": 1.0, "better": 1.0, "worse": 1.0})
    best = scheduler.competition.add(Candidate("m", 0, {}, FOLDS))
    for fold, score in enumerate((None, 0.91, 0.92)):
        finish(best, fold, score)
    unknown, behind = Candidate("m", 1, {}, FOLDS), Candidate("m", 2, {}, FOLDS)
    finish(scheduler.competition.add(unknown), 0, None)
    finish(scheduler.competition.add(behind), 1, 0.5)
    assert scheduler.is_behind(unknown) is None
    assert scheduler.is_behind(behind) == "fold 2: 0.5, worse than 0.91 of trial 0"
    for name, scores in {"better": (None, 0.95), "worse": (None, 0.80)}.items():
        candidate = scheduler.competition.add(Candidate(name, 0, {}, FOLDS))
        for fold, score in enumerate(scores):
            finish(candidate, fold, score)
    assert scheduler.competition.ranked() == ["better", "m", "worse"]
    nowhere = scheduler.competition.add(Candidate("worse", 1, {}, FOLDS))
    for fold in range(FOLDS):
        finish(nowhere, fold, None)
    assert set(scheduler.competition.ranked()) == {"better", "m", "worse"}


def test_nothing_starts_without_time() -> None:
    assert make({"m": 1.0}).next_work(set(), 0.0) is None


def with_complete_trials(scores: dict[str, float], *, trials: int | None = None, tune: bool = True) -> Scheduler:
    scheduler = make(dict.fromkeys(scores, 1.0), trials=trials, tune=tune)
    for name, score in scores.items():
        candidate = scheduler.competition.add(Candidate(name, 0, {}, FOLDS))
        for fold in range(FOLDS):
            finish(candidate, fold, score)
        scheduler.competition.models[name].spent = float(FOLDS)
    return scheduler


def test_a_paused_model_gets_no_fits_until_it_is_resumed() -> None:
    scheduler = with_complete_trials({"best": 0.9, "second": 0.8}, trials=2)
    assert take(scheduler)[0] == "best"
    scheduler.competition.candidates.pop(("best", 1))
    scheduler.competition.models["best"].paused = True
    assert take(scheduler)[0] == "second"
    scheduler.competition.models["second"].stopped = True
    assert scheduler.next_work(set(), 1e9) is None
    assert scheduler.waits_for_user(1e9)
    assert not scheduler.waits_for_user(0.0)
    scheduler.competition.models["best"].paused = False
    assert not scheduler.waits_for_user(1e9)
    assert take(scheduler)[0] == "best"


def test_a_run_does_not_wait_for_a_paused_model_with_nothing_left_to_do() -> None:
    scheduler = with_complete_trials({"only": 0.9}, trials=1)
    scheduler.competition.models["only"].paused = True
    assert not scheduler.waits_for_user(1e9)
    untried = make({"untried": 1.0})
    untried.competition.models["untried"].paused = True
    assert untried.next_work(set(), 1e9) is None
    assert untried.waits_for_user(1e9)


def test_a_favored_model_comes_first_whatever_its_rank() -> None:
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
    assert take(with_complete_trials(scores))[0] == "a"
    scheduler = with_complete_trials(scores)
    scheduler.competition.models["d"].share = 2.0
    assert take(scheduler)[0] == "d"
    scheduler = make({"cheap": 1.0, "expensive": 50.0})
    scheduler.competition.models["expensive"].is_core = False
    scheduler.competition.models["expensive"].share = 2.0
    assert take(scheduler)[0] == "expensive"
    less = with_complete_trials(scores)
    less.competition.models["a"].share = 0.25
    assert take(less)[0] == "b"


def test_a_favored_model_exceeds_the_maximum_of_trials_and_is_tuned_in_a_fast_run() -> None:
    scheduler = with_complete_trials({"a": 0.9, "b": 0.8}, trials=1, tune=False)
    assert scheduler.next_work(set(), 1e9) is None
    scheduler.competition.models["b"].share = 2.0
    assert take(scheduler) == ("b", 1, 0)
    for fold in range(FOLDS):
        finish(scheduler.competition.candidates["b", 1], fold, 0.8)
    assert scheduler.next_work(set(), 1e9) is None


@pytest.mark.parametrize("trials", [None, 3])
def test_a_model_may_have_a_maximum_of_trials_of_its_own(trials: int | None) -> None:
    scheduler = with_complete_trials({"a": 0.9, "b": 0.8}, trials=trials)
    scheduler.competition.models["a"].most_trials = 1
    assert {take(scheduler)[0] for _ in range(2 * FOLDS)} == {"b"}
    scheduler.competition.models["a"].share = 2.0
    assert scheduler.competition.has_trials_left("a")


def test_a_favored_model_is_completed_even_if_it_is_clearly_behind() -> None:
    scheduler = make({"good": 1.0, "poor": 1.0})
    good = scheduler.competition.add(Candidate("good", 0, {}, FOLDS))
    for fold in range(FOLDS):
        finish(good, fold, 0.9)
    scheduler.competition.models["good"].spent = 3.0
    finish(scheduler.competition.add(Candidate("poor", 0, {}, FOLDS)), 0, 0.5)
    scheduler.competition.models["poor"].spent = 3.0
    assert take(scheduler) == ("good", 1, 0)
    scheduler.competition.models["poor"].share = 2.0
    assert take(scheduler) == ("poor", 0, 1)


def test_folds_that_reuse_the_steps_of_others_wait_for_them() -> None:
    scheduler = make({"a": 1.0}, trials=1)
    candidate = scheduler.competition.add(Candidate("a", 0, {}, FOLDS, n_pilots=2))
    finish(candidate, 0, 0.9)
    assert take(scheduler) == ("a", 0, 1)
    assert scheduler.next_work({("a", 0, 1)}, 1e9) is None
    finish(candidate, 1, 0.9)
    assert candidate.pilots_of(1) == ()
    assert candidate.pilots_of(2) == (candidate.results[0], candidate.results[1])
    assert take(scheduler) == ("a", 0, 2)
