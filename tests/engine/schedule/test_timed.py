"""The order of fits in runs with a time limit: decisions one by one, and whole runs in simulated time."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.choices import Rule, first_fold
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.engine.schedule.moment import Gain, Moment
from tabapp.engine.schedule.rules import defaults, new_trials
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.work import Fold, Work
from tabapp.policy import POLICY
from tests.engine.schedule.test_scheduler import FOLDS, finish, make, mean_loss, take
from tests.engine.simulation import MODELS, Library, Simulation, simulate


def timed(simulation: Simulation) -> Scheduler:
    simulation.add_models()
    return Scheduler(simulation.setup())


def breadth_first(simulation: Simulation) -> Scheduler:
    """First folds of all models in 40 % of the time, then the other folds of the defaults, then trials of the best models."""

    def first_folds(m: Moment) -> Work | None:
        models = m.competition.models
        used = sum(record.spent for record in models.values())
        used += sum(models[name].prior_seconds for name, _, _ in m.running)

        def may_start(m: Moment, record: ModelRecord) -> bool:
            return record.is_core or used + record.cost <= 0.4 * (used + m.left_of_workers)

        return first_fold(m, "", allowed=may_start)

    return with_rules(simulation, first_folds, defaults, new_trials)


def in_turns(simulation: Simulation) -> Scheduler:
    """All folds of one trial of each model after those of another."""

    def next_model(m: Moment) -> Work | None:
        competition = m.competition
        for candidate in competition.candidates.values():
            folds = m.open_folds(candidate)
            if candidate.status == "active" and folds:
                return Work(candidate, folds[0])
        name = min(competition.models, key=lambda name: len(competition.of_model(name)))
        return Work(competition.begin(name), 0)

    return with_rules(simulation, next_model)


def with_rules(simulation: Simulation, *rules: Rule) -> Scheduler:
    simulation.add_models()
    scheduler = Scheduler(simulation.setup(is_timed=False))
    scheduler._rules = rules  # pyright: ignore[reportPrivateUsage]
    return scheduler


def moment_of(scheduler: Scheduler) -> Moment:
    """What the scheduler knows, without fits in progress."""
    return Moment(scheduler._setup, scheduler._memory, set(), 100.0, math.inf)  # pyright: ignore[reportPrivateUsage]


def make_timed(
    models: dict[str, float],
    weights: Mapping[tuple[str, int], float] | None = None,
    *,
    gains: Mapping[tuple[str, int], float] | None = None,
    n_folds: int = FOLDS,
    trials: int | None = None,
    tune: bool = True,
    race: bool = True,
    gain: Gain | None = None,
) -> Scheduler:
    """A scheduler whose candidates improve the ensemble if they are at most 0.2 worse than the best, or by `gains`."""

    def lowers(candidate: Candidate, beside: tuple[Candidate, ...] = ()) -> float:
        scored = [c for c in scheduler.competition.candidates.values() if c.results and c is not candidate]
        lead = min(map(mean_loss, scored), default=1.0) - mean_loss(candidate)
        return (gains or {}).get(candidate.key, lead + 0.2)

    scheduler = make(
        models,
        trials=trials,
        tune=tune,
        race=race,
        n_folds=n_folds,
        is_timed=True,
        gain=gain or lowers,
        weights=lambda: weights or {},
    )
    return scheduler


def with_first_folds(scheduler: Scheduler, scores: Mapping[str, float], seconds: float = 1.0) -> Scheduler:
    for name, score in scores.items():
        finish(scheduler.competition.add(Candidate(name, 0, {}, scheduler.competition.n_folds)), 0, score, seconds)
        scheduler.competition.models[name].spent += seconds
    return scheduler


def complete(scheduler: Scheduler, name: str, trial: int = 0, score: float = 0.9, seconds: float = 1.0) -> None:
    candidate = scheduler.competition.candidates.get((name, trial)) or scheduler.competition.add(
        Candidate(name, trial, {}, scheduler.competition.n_folds)
    )
    for fold in candidate.missing_folds:
        finish(candidate, fold, score, seconds)
        scheduler.competition.models[name].spent += seconds


def test_core_models_start_first_and_others_only_if_all_of_their_folds_end_in_time() -> None:
    scheduler = make_timed({"core": 6.0, "cheap": 1.0, "expensive": 50.0})
    scheduler.competition.models["cheap"].is_core = scheduler.competition.models["expensive"].is_core = False
    running: set[Fold] = set()
    for expected in ("core", "cheap"):
        work = take(scheduler, running, seconds=20.0)
        assert work[0] == expected
        running.add(work)
    assert scheduler.next_work(running, 20.0) is None
    assert take(scheduler, running, seconds=1e9)[0] == "expensive"


def test_merit_moves_a_model_up_in_the_queue() -> None:
    scheduler = make_timed({"core": 0.5, "cheap": 0.05, "worthy": 4.0})
    scheduler.competition.models["cheap"].is_core = scheduler.competition.models["worthy"].is_core = False
    for merit, expected in ((1.0, ["core", "cheap", "worthy"]), (16.0, ["worthy", "core", "cheap"])):
        scheduler.competition.models["worthy"].merit = merit
        order: list[Fold] = []
        for _ in range(3):
            order.append(take(scheduler, set(order), seconds=1e4))
        assert [name for name, _, _ in order] == expected


def test_a_run_without_a_score_starts_a_fit_that_exceeds_its_time() -> None:
    scheduler = make_timed({"expensive": 500.0, "slowest": 900.0})
    for record in scheduler.competition.models.values():
        record.is_core = False
    running = {take(scheduler, set(), seconds=5.0)}
    assert running == {("expensive", 0, 0)}
    running.add(take(scheduler, running, seconds=5.0))
    assert ("slowest", 0, 0) in running


def test_the_best_of_a_few_first_folds_is_completed_before_other_models_start() -> None:
    scheduler = with_first_folds(make_timed(dict.fromkeys("abcdef", 1.0)), {"a": 0.6, "b": 0.9, "c": 0.85})
    for record in scheduler.competition.models.values():
        record.is_core = False
    works = [take(scheduler, seconds=30.0)]
    works.append(take(scheduler, set(works), seconds=30.0))
    assert works == [("b", 0, 1), ("b", 0, 2)]
    complete(scheduler, "b")
    assert take(scheduler, seconds=30.0) == ("c", 0, 1)
    complete(scheduler, "c")
    # The first fold of a does not help.
    assert take(scheduler, seconds=30.0) == ("d", 0, 0)


def test_cheap_first_folds_come_before_the_other_folds_of_useful_candidates() -> None:
    gains = {("useful", 0): 0.1}
    scheduler = make_timed({"first": 1.0, "useful": 5.0, "cheap": 0.5}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    scheduler.competition.models["cheap"].is_core = False
    with_first_folds(scheduler, {"useful": 0.9}, seconds=5.0)
    assert take(scheduler, seconds=15.0) == ("useful", 0, 1)
    assert take(scheduler, seconds=100.0) == ("cheap", 0, 0)


def test_models_that_take_hardly_any_time_are_completed_before_expensive_models_start() -> None:
    scheduler = make_timed({"cheap": 0.5, "core": 20.0})
    scheduler.competition.models["cheap"].is_core = False
    assert take(scheduler, seconds=100.0) == ("cheap", 0, 0)
    finish(scheduler.competition.candidates["cheap", 0], 0, 0.5, 0.5)
    assert take(scheduler, seconds=100.0) == ("cheap", 0, 1)
    complete(scheduler, "cheap", seconds=0.5)
    assert take(scheduler, seconds=100.0) == ("core", 0, 0)


def test_quick_models_that_start_first_on_all_tables_come_before_the_other_folds_of_useful_candidates() -> None:
    scheduler = make_timed({"first": 1.0, "useful": 5.0, "core": 3.0}, {("first", 0): 1.0}, gains={("useful", 0): 0.1})
    complete(scheduler, "first")
    with_first_folds(scheduler, {"useful": 0.9}, seconds=5.0)
    assert take(scheduler, seconds=100.0) == ("core", 0, 0)
    scheduler.competition.models["core"].is_core = False
    assert take(scheduler, seconds=100.0) == ("useful", 0, 1)


def with_names(scheduler: Scheduler, *names: str) -> Scheduler:
    """The user names models, whose first folds do not come before others."""
    for record in scheduler.competition.models.values():
        record.is_core, record.is_named = False, record.name in names
    return scheduler


def start_all(scheduler: Scheduler, seconds: float, limit: float) -> list[Fold]:
    """The fits that two workers start one after the other, each with its model's time or what it may take, until none starts."""
    started: list[Fold] = []
    running: dict[Fold, tuple[float, float]] = {}
    now = 0.0
    while True:
        while len(running) < 2 and (work := scheduler.next_work(set(running), seconds - now, limit)) is not None:
            candidate, fold = work.candidate, (*work.candidate.key, work.fold)
            most = scheduler.seconds_for(candidate, set(running), seconds - now, limit)
            takes = min(most, scheduler.competition.models[candidate.model].prior_seconds)
            running[fold] = now + takes, takes
            started.append(fold)
        if not running:
            return started
        fold = min(running, key=lambda each: running[each])
        now, takes = running.pop(fold)
        finish(scheduler.competition.candidates[fold[:2]], fold[2], 0.9, takes)


def test_each_model_that_the_user_names_gets_a_first_fold_before_others_are_completed() -> None:
    priors = {"a": 30.0, "b": 200.0, "c": 300.0, "d": 400.0, "e": 1e5}
    gains = {("a", 0): 0.3}
    started = start_all(with_names(make_timed(priors, gains=gains), *priors), seconds=220.0, limit=36.0)
    # The longest first, since it may take longer than its part, beside it the shortest.
    assert started[:5] == [(name, 0, 0) for name in "eabcd"]
    assert [fold for name, trial, fold in started[5:] if (name, trial) == ("a", 0)] == [1, 2]
    others = start_all(with_names(make_timed(priors, gains=gains)), seconds=220.0, limit=36.0)
    assert {"d", "e"}.isdisjoint(name for name, _, _ in others)


def test_a_named_model_in_progress_does_not_make_others_seem_cheap() -> None:
    priors = {"a": 30.0, "b": 200.0, "c": 1e5}
    scheduler = with_names(make_timed(priors), *priors)
    scheduler.competition.models["a"].is_core = True
    started = start_all(scheduler, seconds=220.0, limit=60.0)
    assert started[:3] == [(name, 0, 0) for name in "cab"]


def test_named_models_wait_for_those_that_take_hardly_any_time() -> None:
    scheduler = with_names(make_timed({"cheap": 0.5, "long": 500.0}), "cheap", "long")
    assert take(scheduler, seconds=100.0) == ("cheap", 0, 0)
    finish(scheduler.competition.candidates["cheap", 0], 0, 0.5, 0.5)
    assert take(scheduler, seconds=100.0) == ("cheap", 0, 1)
    complete(scheduler, "cheap", seconds=0.5)
    assert reason_of(scheduler) == "you named it, and its first fold gets its part of the time"


def test_the_longest_named_model_waits_on_a_single_worker_and_if_it_takes_no_longer_than_its_part() -> None:
    def first(*, workers: int, seconds: float) -> str:
        priors = {"short": 20.0, "long": 60.0}
        scheduler = with_names(make_timed(priors), *priors)
        scheduler._setup = replace(scheduler._setup, workers=lambda device: workers)  # pyright: ignore[reportPrivateUsage]
        return take(scheduler, seconds=seconds)[0]

    assert first(workers=2, seconds=100.0) == "long"
    assert first(workers=2, seconds=1_000.0) == "short"
    assert first(workers=1, seconds=200.0) == "short"


def test_the_first_folds_of_named_models_take_at_most_half_of_the_time_of_all_workers() -> None:
    names = [f"m{number}" for number in range(10)]
    scheduler = with_names(make_timed(dict.fromkeys(names, 500.0)), *names)
    work = scheduler.next_work(set(), 200.0, 60.0)
    assert work is not None
    assert scheduler.seconds_for(work.candidate, set(), 200.0, 60.0) == pytest.approx(20.0)
    # The defaults of a model that nobody named would take as much as its other folds leave.
    with_names(scheduler)
    assert scheduler.seconds_for(work.candidate, set(), 200.0, 60.0) == 60.0


def test_named_models_queue_like_others_if_their_part_of_the_time_is_too_short() -> None:
    names = [f"m{number}" for number in range(10)]
    scheduler = with_names(make_timed(dict.fromkeys(names, 500.0)), *names)
    assert "you named it" in reason_of(scheduler, 200.0)
    assert reason_of(scheduler, 40.0) == "no other fit can use the time that is left"


def reason_of(scheduler: Scheduler, seconds: float = 100.0) -> str:
    work = scheduler.next_work(set(), seconds)
    assert work is not None
    return work.reason


def test_every_choice_says_why() -> None:
    scheduler = make_timed(
        {"first": 0.3, "useful": 4.0, "late": 30.0}, {("first", 0): 1.0}, gains={("useful", 0): 0.021}
    )
    scheduler.competition.models["late"].is_core = False
    assert reason_of(scheduler) == "no model has all of its folds yet, and a fold of this one takes about 0.3s"
    complete(scheduler, "first", seconds=0.3)
    assert reason_of(scheduler) == "models of its kind start early on such tables, and a fold takes about 4s"
    with_first_folds(scheduler, {"useful": 0.9}, seconds=7.0)
    assert reason_of(scheduler) == "its first fold improves the ensemble by 2.1 %, and its other folds take about 14s"
    finish(scheduler.competition.candidates["useful", 0], 1, 0.9, seconds=7.0)
    assert reason_of(scheduler) == "2 of 3 folds are done, and its other folds take about 7s"
    scheduler.competition.models["useful"].share = 2.0
    assert reason_of(scheduler) == "you gave it a larger share of the time"
    for simulation in simulated(timed, 60.0):
        assert all(simulation.reasons)
        assert len(set(simulation.reasons)) > 20


def test_a_first_fold_that_does_not_improve_the_ensemble_gets_no_others() -> None:
    scheduler = with_first_folds(make_timed({"good": 1.0, "poor": 1.0}, {("good", 0): 1.0}), {"good": 0.9, "poor": 0.5})
    complete(scheduler, "good")
    assert take(scheduler, seconds=100.0) == ("good", 1, 0)
    scheduler.competition.models["poor"].share = 2.0
    assert take(scheduler, seconds=100.0) == ("poor", 0, 1)


def test_no_two_candidates_are_completed_by_turns() -> None:
    gains = {("a", 0): 0.21, ("b", 0): 0.2}
    scheduler = make_timed({"a": 3.0, "b": 3.0, "first": 1.0}, {("first", 0): 1.0}, gains=gains, n_folds=5)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"a": 0.9, "b": 0.9}, seconds=3.0)
    for name in "ab":
        finish(scheduler.competition.candidates[name, 0], 1, 0.9, seconds=3.0)
    assert take(scheduler, seconds=100.0) == ("a", 0, 2)
    finish(scheduler.competition.candidates["a", 0], 2, 0.9, seconds=3.0)
    # With each fold, its gain is known better, and changes.
    gains["a", 0] = 0.19
    assert take(scheduler, seconds=100.0) == ("a", 0, 3)
    gains["a", 0] = 0.05
    assert take(scheduler, seconds=100.0) == ("b", 0, 2)


def test_a_rival_leaves_time_to_complete_the_best_candidate() -> None:
    scheduler = make_timed({"first": 10.0, "rival": 5.0}, n_folds=5)
    scheduler.competition.models["rival"].merit = 2.0
    with_first_folds(scheduler, {"first": 0.9}, seconds=10.0)
    assert take(scheduler, seconds=30.0) == ("rival", 0, 0)
    assert take(scheduler, seconds=23.0) == ("first", 0, 1)


def test_candidates_are_completed_by_improvement() -> None:
    gains = {("slow", 0): 0.2, ("fast", 0): 0.1}
    scheduler = make_timed({"slow": 10.0, "fast": 1.0, "first": 1.0}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"slow": 0.9}, seconds=10.0)
    with_first_folds(scheduler, {"fast": 0.9})
    assert take(scheduler, seconds=100.0) == ("slow", 0, 1)
    # Two folds of 10 s each are more than what one candidate may take, even one that improves the ensemble much.
    assert take(scheduler, seconds=10.6) == ("fast", 0, 1)
    gains["slow", 0] = 0.09
    assert take(scheduler, seconds=17.0) == ("fast", 0, 1)
    gains["slow", 0] = 0.11
    assert take(scheduler, seconds=17.0) == ("slow", 0, 1)
    # A candidate with two folds comes before any with one.
    finish(scheduler.competition.candidates["fast", 0], 1, 0.9)
    assert take(scheduler, seconds=17.0) == ("fast", 0, 2)


def test_a_candidate_improves_the_ensemble_beside_those_that_are_being_completed() -> None:
    asked: set[tuple[tuple[str, int], ...]] = set()

    def gain(candidate: Candidate, beside: tuple[Candidate, ...] = ()) -> float:
        asked.add(tuple(c.key for c in beside))
        return {"best": 0.3, "similar": 0.01 if beside else 0.29, "other": 0.1}[candidate.model]

    models = dict.fromkeys(("best", "similar", "other", "first"), 1.0)
    scheduler = make_timed(models, {("first", 0): 1.0}, gain=gain)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"best": 0.9, "similar": 0.9, "other": 0.9})
    assert take(scheduler, seconds=100.0) == ("best", 0, 1)
    finish(scheduler.competition.candidates["best", 0], 1, 0.9)
    running: set[Fold] = {("best", 0, 2)}
    assert take(scheduler, running, seconds=100.0) == ("other", 0, 1)
    assert {(), (("best", 0),)} <= asked


def test_two_candidates_are_completed_at_once_only_if_there_is_time_for_both() -> None:
    scheduler = make_timed(dict.fromkeys(("one", "two"), 10.0), {("first", 0): 1.0})
    with_first_folds(scheduler, {"one": 0.9, "two": 0.9}, seconds=10.0)
    finish(scheduler.competition.candidates["one", 0], 1, 0.9, seconds=10.0)
    running: set[Fold] = {("one", 0, 2)}
    # The last fold of one and two of two take 30 s of two workers, or 15.75 s with some reserve.
    for seconds, expected in ((15.0, None), (21.5, ("two", 0, 1))):
        work = scheduler.next_work(running, seconds)
        assert (None if work is None else (*work.candidate.key, work.fold)) == expected


def test_a_candidate_that_improves_the_ensemble_far_more_does_not_wait_for_others() -> None:
    gains = {("slow", 0): 0.02, ("strong", 0): 0.3}
    scheduler = make_timed({"slow": 10.0, "strong": 10.0, "first": 1.0}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"slow": 0.9, "strong": 0.9}, seconds=10.0)
    finish(scheduler.competition.candidates["slow", 0], 1, 0.9, seconds=10.0)
    # There is no time for the last fold of one and two folds of the other.
    assert take(scheduler, seconds=14.0) == ("strong", 0, 1)
    assert take(scheduler, seconds=100.0) == ("strong", 0, 1)
    gains["strong", 0] = 0.06
    assert take(scheduler, seconds=14.0) == take(scheduler, seconds=100.0) == ("slow", 0, 2)
    # Where the ensemble is poor, what is left of the error counts: 0.9 times as much, and 0.98 times.
    gains["slow", 0], gains["strong", 0] = 0.7, 0.73
    assert take(scheduler, seconds=14.0) == ("strong", 0, 1)
    gains["strong", 0] = 0.706
    assert take(scheduler, seconds=14.0) == ("slow", 0, 2)


def test_a_model_of_high_merit_may_start_after_dropped_first_folds_unless_a_better_uncertain_one_was_dropped() -> None:
    models = {"good": 1.0, "poor": 20.0, "network": 6.0, "similar": 6.0}
    scheduler = make_timed(models, {("good", 0): 1.0}, tune=False)
    complete(scheduler, "good")
    with_first_folds(scheduler, {"poor": 0.1}, seconds=20.0)
    assert take(scheduler, seconds=100.0) == ("poor", 0, 1)
    for name in ("network", "similar"):
        scheduler.competition.models[name].merit, scheduler.competition.models[name].is_uncertain = 2.0, True
    assert take(scheduler, seconds=100.0) == ("network", 0, 0)
    with_first_folds(scheduler, {"network": 0.1}, seconds=5.0)
    assert take(scheduler, seconds=100.0) == ("similar", 0, 0)
    scheduler.competition.models["network"].merit = 3.0
    assert take(scheduler, seconds=100.0)[0] != "similar"


def test_a_dropped_model_that_is_not_uncertain_holds_no_other_back() -> None:
    gains = {("catboost", 0): -0.2}
    scheduler = make_timed({"first": 1.0, "catboost": 10.0, "lightgbm": 10.0}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"catboost": 0.1}, seconds=POLICY.dropped_share * 150)
    for name in ("catboost", "lightgbm"):
        scheduler.competition.models[name].merit = 2.0
    assert take(scheduler, seconds=50.0) == ("lightgbm", 0, 0)
    for name in ("catboost", "lightgbm"):
        scheduler.competition.models[name].is_uncertain = True
    scheduler.competition.models["catboost"].merit = 3.0
    assert take(scheduler, seconds=50.0) != ("lightgbm", 0, 0)


def test_models_of_high_merit_start_before_others_are_completed() -> None:
    gains = {("good", 0): 0.2}
    scheduler = make_timed({"good": 1.0, "network": 10.0, "first": 1.0}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    with_first_folds(scheduler, {"good": 0.9})
    assert take(scheduler, seconds=100.0) == ("good", 0, 1)
    scheduler.competition.models["network"].merit = 4.0
    assert take(scheduler, seconds=100.0) == ("network", 0, 0)
    # Its three folds would not end in time, not even shortened.
    assert take(scheduler, seconds=4.0) == ("good", 0, 1)
    scheduler.competition.models["network"].plans_steps, scheduler.competition.models["network"].least_share = True, 0.3
    work = scheduler.next_work(set(), seconds_left=8.0, fit_limit=3.2)
    assert work is not None
    assert work.candidate.model == "network", "it makes the most of the time that it gets"


def test_the_first_fold_of_a_model_without_prospects_takes_not_much_longer_than_expected() -> None:
    scheduler = make_timed({"first": 1.0, "unknown": 3.0}, {("first", 0): 1.0})
    scheduler.competition.models["unknown"].is_core = False
    complete(scheduler, "first")
    candidate = scheduler.competition.candidates[take(scheduler, seconds=100.0)[:2]]
    assert candidate.model == "unknown"
    limit = scheduler.seconds_for(candidate, set(), 100.0)
    assert limit == pytest.approx(POLICY.overrun * moment_of(scheduler).expected("unknown"))
    scheduler.competition.models["unknown"].merit = 2.0
    assert scheduler.seconds_for(candidate, set(), 100.0) > 2 * limit


def test_a_long_run_has_a_complete_candidate_before_first_folds_that_take_longer() -> None:
    scheduler = make_timed({"a": 1.0, "b": 2.0, "slow": 20.0})
    scheduler.competition.models["slow"].is_core = False
    running: set[Fold] = set()
    started: list[str] = []
    for _ in range(2 + FOLDS):
        name, trial, fold = take(scheduler, running, seconds=3600.0)
        started.append(name)
        finish(scheduler.competition.candidates[name, trial], fold, 0.9)
    assert "slow" not in started[: 1 + FOLDS]
    assert any(candidate.is_complete for candidate in scheduler.competition.candidates.values())
    assert started[-1] == "slow", "it is cheap for a run of an hour, so it starts before other candidates are completed"


def test_the_first_fold_of_an_uncertain_models_new_trial_takes_not_much_longer_than_expected() -> None:
    scheduler = make_timed({"m": 3.0})
    complete(scheduler, "m", seconds=3.0)
    candidate = scheduler.competition.add(Candidate("m", 1, {}, FOLDS))
    scheduler._memory.totals["cpu"] = 200.0  # pyright: ignore[reportPrivateUsage]
    assert scheduler.seconds_for(candidate, set(), 100.0, 40.0) > 2 * POLICY.overrun * 3.0, "boosters differ more"
    scheduler.competition.models["m"].is_uncertain = True
    assert scheduler.seconds_for(candidate, set(), 100.0, 40.0) == pytest.approx(POLICY.overrun * 3.0)


@pytest.mark.parametrize(
    ("seconds", "next_fit"), [(65.0, ("slow", 0, 1)), (100.0, ("network", 0, 0)), (45.0, ("network", 0, 0))]
)
def test_a_first_fold_leaves_time_for_the_best_candidate(seconds: float, next_fit: Fold) -> None:
    models = {"booster": 1.0, "slow": 50.0, "network": 20.0}
    scheduler = with_first_folds(
        make_timed(models, {("booster", 0): 1.0}, gains={("slow", 0): 0.044}), {"slow": 0.9}, 50.0
    )
    scheduler.competition.models["network"].merit = 4.0
    complete(scheduler, "booster")
    assert take(scheduler, seconds=seconds) == next_fit


@pytest.mark.parametrize(("n_dropped", "merit", "starts"), [(2, 1.0, True), (3, 1.0, False), (3, 2.0, True)])
def test_uncertain_models_without_merit_wait_if_several_were_dropped_and_none_is_of_use(
    n_dropped: int, merit: float, starts: bool
) -> None:
    dropped = [f"dropped{number}" for number in range(n_dropped)]
    gains = {(name, 0): -0.1 for name in dropped}
    scheduler = make_timed({"first": 1.0, **dict.fromkeys([*dropped, "next"], 1.0)}, gains=gains)
    for name in (*dropped, "next"):
        scheduler.competition.models[name].is_uncertain = True
        scheduler.competition.models[name].is_core = False
    complete(scheduler, "first")
    for name in dropped:
        finish(scheduler.competition.add(Candidate(name, 0, {}, FOLDS)), 0, 0.5)
    scheduler.competition.models["next"].merit = merit
    assert (take(scheduler, seconds=100.0) == ("next", 0, 0)) == starts


def test_a_candidate_that_takes_most_of_the_time_left_is_completed_after_others_but_before_new_trials() -> None:
    gains = {("long", 0): 0.02, ("short", 0): 0.02}
    scheduler = make_timed({"first": 1.0, "long": 20.0, "short": 1.0}, {("first", 0): 1.0}, gains=gains)
    complete(scheduler, "first")
    complete(scheduler, "first", 1)
    with_first_folds(scheduler, {"long": 0.9}, 20.0)
    with_first_folds(scheduler, {"short": 0.9})
    # The two other folds of "long" take 40 of the 50 seconds of both workers.
    assert take(scheduler, seconds=25.0) == ("short", 0, 1)
    complete(scheduler, "short")
    assert take(scheduler, seconds=25.0) == ("long", 0, 1)


def test_a_candidate_that_cannot_be_completed_in_time_is_not_continued() -> None:
    scheduler = with_first_folds(make_timed({"slow": 10.0}), {"slow": 0.9}, seconds=10.0)
    assert scheduler.next_work(set(), 10.0) is None
    assert take(scheduler, seconds=11.0) == ("slow", 0, 1)


def test_first_folds_that_were_dropped_end_the_search_for_other_models() -> None:
    def scheduler_after(dropped: float, cost: float = 6.0) -> Scheduler:
        scheduler = make_timed({"good": 1.0, "poor": 6.0, "next": cost}, {("good", 0): 1.0}, tune=False)
        complete(scheduler, "good")
        with_first_folds(scheduler, {"poor": 0.1}, seconds=dropped)
        return scheduler

    left = 100.0
    total = 2 * left + FOLDS
    within = scheduler_after(POLICY.dropped_share * total - 1.0)
    assert take(within, seconds=left) == ("next", 0, 0)
    beyond = scheduler_after(POLICY.dropped_share * total + 3.0)
    # What is left then is to complete a candidate that does not help.
    assert take(beyond, seconds=left) == ("poor", 0, 1)
    for is_uncertain, expected in ((False, ("next", 0, 0)), (True, ("poor", 0, 1))):
        quick = scheduler_after(POLICY.dropped_share * total + 3.0, cost=1.5)
        quick.competition.models["next"].is_uncertain = is_uncertain
        assert moment_of(quick).expected("next") < POLICY.quick_share * total
        assert take(quick, seconds=left) == expected


@pytest.mark.parametrize("ending", ["pruned", "complete"])
def test_a_model_may_start_after_as_much_time_in_trials_without_effect(ending: str) -> None:
    scheduler = make_timed({"good": 17.0, "poor": 30.0, "next": 8.0}, {("good", 0): 1.0})
    complete(scheduler, "good", seconds=17.0)
    with_first_folds(scheduler, {"poor": 0.1}, seconds=30.0)
    for trial in (1, 2):
        assert take(scheduler, seconds=100.0) == ("good", trial, 0)
        candidate = scheduler.competition.add(Candidate("good", trial, {}, FOLDS))
        finish(candidate, 0, 0.1, seconds=17.0)
        candidate.status = ending
    assert take(scheduler, seconds=100.0) == ("next", 0, 0)


def test_times_of_models_that_have_not_run_follow_those_with_the_same_libraries() -> None:
    scheduler = make_timed(dict.fromkeys(("tree", "other_tree", "network", "other_network"), 2.0))
    for name, record in scheduler.competition.models.items():
        record.libraries = "torch" if "network" in name else "boosters"
    assert moment_of(scheduler).expected("other_network") == pytest.approx(2.0)
    with_first_folds(scheduler, {"tree": 0.9}, seconds=2.0)
    with_first_folds(scheduler, {"network": 0.9}, seconds=16.0)
    assert moment_of(scheduler).expected("network") == 16.0
    # Geometric means with one pseudo-observation each: 8^(1/3) = 2 for all models, then (8 × 2 × 3)^(1/2) and (1 × 2)^(1/2).
    assert moment_of(scheduler).expected("other_network") == pytest.approx(2.0 * 16**0.5)
    assert moment_of(scheduler).expected("other_tree") == pytest.approx(2.0 * 2**0.5)
    scheduler.record_times(0.5)
    assert moment_of(scheduler).expected("network") == 16.5


def test_only_members_of_the_ensemble_get_new_trials_and_those_that_succeed_get_more() -> None:
    weights = {("a", 0): 0.5, ("b", 0): 0.5}
    scheduler = make_timed(dict.fromkeys("abc", 1.0), weights)
    for name in "abc":
        complete(scheduler, name)
    assert [take(scheduler, seconds=100.0)[0]] == ["a"]
    del scheduler.competition.candidates["a", 1]
    for trial in (1, 2):
        complete(scheduler, "a", trial)
        scheduler.competition.models["b"].spent += FOLDS
        complete(scheduler, "c", trial)
    # As much time and weight, but no trial of a has a weight.
    assert take(scheduler, seconds=100.0)[0] == "b"


def test_models_whose_trials_hardly_ever_succeed_wait_for_models_that_have_not_run() -> None:
    scheduler = make_timed({"barren": 1.0, "late": 1.0}, {("barren", 0): 1.0}, gains={("late", 0): 0.1})
    late = scheduler.competition.models["late"]
    # Nothing but the time that is left over would start it.
    late.is_core, late.prior_seconds = False, 12.0
    n_trials = math.floor(1 / POLICY.least_success)
    for trial in range(n_trials):
        complete(scheduler, "barren", trial)
    assert take(scheduler, seconds=27.0)[0] == "barren"
    complete(scheduler, "barren", n_trials)
    assert take(scheduler, seconds=27.0)[0] == "late"
    assert take(scheduler, seconds=10.0)[0] == "barren", "the other has no time for all folds"
    late.is_uncertain = True
    assert take(scheduler, seconds=27.0)[0] == "barren", "it is not expected to be of use either"
    late.is_uncertain = False
    scheduler.competition.models["barren"].share = 2.0
    assert take(scheduler, seconds=27.0)[0] == "barren", "the user gives it more time"


def test_quick_core_models_get_a_first_fold_of_a_second_trial_before_members_are_tuned() -> None:
    weights = {("a", 0): 1.0}
    scheduler = make_timed(dict.fromkeys("abcd", 1.0), weights)
    for name, is_core in (("a", True), ("b", True), ("c", False)):
        scheduler.competition.models[name].is_core = is_core
        complete(scheduler, name)
    scheduler.competition.models["d"].is_core = True
    complete(scheduler, "d", seconds=20.0)
    # One does not start first, and another is too slow.
    assert [take(scheduler, seconds=100.0), take(scheduler, seconds=100.0)] == [("a", 1, 0), ("b", 1, 0)]
    for name in "ab":
        complete(scheduler, name, trial=1)
    assert take(scheduler, seconds=100.0)[:2] == ("a", 2)


def test_models_that_take_almost_no_time_get_a_second_trial_unless_they_are_uncertain() -> None:
    scheduler = make_timed(dict.fromkeys(("member", "tiny", "network", "quick"), 1.0), {("member", 0): 1.0})
    for record in scheduler.competition.models.values():
        record.is_core = False
    scheduler.competition.models["network"].is_uncertain = True
    complete(scheduler, "member", seconds=20.0)
    for name, seconds in (("tiny", 0.1), ("network", 0.1), ("quick", 2.0)):
        complete(scheduler, name, seconds=seconds)
    assert take(scheduler, seconds=100.0) == ("tiny", 1, 0)
    complete(scheduler, "tiny", trial=1, seconds=0.1)
    assert take(scheduler, seconds=100.0) == ("member", 1, 0)


def test_a_run_continues_while_there_is_no_ensemble_or_its_members_have_all_of_their_trials() -> None:
    unselected = make_timed({"a": 1.0})
    complete(unselected, "a")
    assert take(unselected, seconds=100.0) == ("a", 1, 0)
    scheduler = make_timed({"a": 1.0, "b": 1.0}, {("a", 0): 1.0}, trials=2)
    for name, trial in (("a", 0), ("b", 0), ("a", 1)):
        complete(scheduler, name, trial)
    assert take(scheduler, seconds=100.0) == ("b", 1, 0)


def test_other_folds_of_trials_that_train_together_wait_for_their_first() -> None:
    for batch in (None, 1):
        scheduler = make_timed({"a": 1.0}, {("a", 0): 1.0}, trials=4)
        complete(scheduler, "a")
        trials = [scheduler.competition.add(Candidate("a", trial, {}, FOLDS, batch=batch)) for trial in (1, 2, 3)]
        running: set[Fold] = {("a", trial, 0) for trial in (1, 2, 3)}
        work = scheduler.next_work(running, 100.0)
        assert (work is None) == (batch is not None)
        if batch is not None:
            assert scheduler.competition.waiting_siblings(trials[0], set()) == trials[1:]
            assert scheduler.competition.waiting_siblings(trials[0], running) == []
            finish(trials[1], 0, 0.5)
            assert scheduler.competition.waiting_siblings(trials[0], set()) == trials[2:]
            running.remove(("a", 2, 0))
            assert take(scheduler, running, seconds=100.0)[1] == 2


def test_a_new_trial_is_pruned_if_it_does_not_improve_the_ensemble() -> None:
    gains = {("m", 1): -0.05, ("m", 2): -0.02, ("m", 3): 0.01}
    scheduler = make_timed({"m": 1.0}, {("m", 0): 1.0}, gains=gains)
    complete(scheduler, "m")
    candidates = [scheduler.competition.add(Candidate("m", trial, {}, FOLDS)) for trial in (1, 2, 3)]
    for candidate in candidates:
        finish(candidate, 0, 0.8)
    reasons = [scheduler.is_behind(candidate) for candidate in candidates]
    assert reasons == [*["fold 1: 0.8; it does not improve the ensemble"] * 2, None]
    assert scheduler.is_behind(scheduler.competition.candidates["m", 0]) is None
    patient = make_timed({"m": 1.0}, gains=gains, race=False)
    patient.competition.add(candidates[0])
    assert patient.is_behind(candidates[0]) is None


def test_a_fit_gets_at_most_its_part_of_the_time_that_all_folds_need() -> None:
    scheduler = make_timed({"m": 100.0}, n_folds=5)
    candidate = scheduler.competition.add(Candidate("m", 0, {}, 5))
    # Two workers fit five folds in three rounds.
    assert 3 * scheduler.seconds_for(candidate, set(), 60.0) == pytest.approx(60.0, rel=0.06)
    for fold in range(3):
        finish(candidate, fold, 0.9)
    assert scheduler.seconds_for(candidate, set(), 60.0) == pytest.approx(60.0, rel=0.06)


def test_the_other_folds_of_a_candidate_that_improves_the_ensemble_much_may_exceed_the_limit_of_fits() -> None:
    gains = {("leader", 0): POLICY.large_gain, ("good", 0): POLICY.large_gain / 4}
    scheduler = make_timed({"first": 1.0, "leader": 10.0, "good": 10.0}, {("first", 0): 1.0}, gains=gains, n_folds=5)
    leader = scheduler.competition.add(Candidate("leader", 0, {}, 5))
    good = scheduler.competition.add(Candidate("good", 0, {}, 5))
    assert scheduler.seconds_for(leader, set(), 200.0, 10.0) == 10.0, "a first fold does not"
    for candidate in (leader, good):
        finish(candidate, 0, 0.9, seconds=10.0)
    assert scheduler.seconds_for(leader, set(), 200.0, 10.0) == 10.0, "nothing is complete yet"
    complete(scheduler, "first")
    assert scheduler.seconds_for(leader, set(), 200.0, 10.0) == POLICY.longest * 10.0
    assert scheduler.seconds_for(good, set(), 200.0, 10.0) == pytest.approx((1 + (POLICY.longest - 1) / 4) * 10.0)
    # Two workers have 60 s for four folds.
    assert scheduler.seconds_for(leader, set(), 30.0, 10.0) == pytest.approx(15.0, rel=0.06)
    # The candidate that is being completed needs 30 s of them.
    finish(good, 1, 0.9, seconds=10.0)
    scheduler.next_work(set(), 30.0, 10.0)
    assert scheduler.seconds_for(leader, set(), 30.0, 10.0) == 10.0


def test_a_fold_gets_the_time_of_those_that_are_in_progress() -> None:
    scheduler = make_timed({"m": 10.0}, n_folds=5)
    candidate = scheduler.competition.add(Candidate("m", 0, {}, 5))
    for fold in range(2):
        finish(candidate, fold, 0.9)
    # Of two workers, one has a fold; the two that have not begun can run side by side.
    assert scheduler.seconds_for(candidate, {("m", 0, 2)}, 60.0) == pytest.approx(60.0, rel=0.06)


def test_a_model_that_plans_its_steps_gets_a_new_trial_with_shorter_fits_near_the_end() -> None:
    scheduler = make_timed({"m": 10.0}, {("m", 0): 1.0})
    complete(scheduler, "m", seconds=10.0)
    # Three folds take two rounds of two workers.
    assert scheduler.next_work(set(), 15.0) is None
    scheduler.competition.models["m"].plans_steps = True
    assert take(scheduler, seconds=15.0) == ("m", 1, 0)
    assert scheduler.next_work(set(), 10.0) is None


def test_with_one_holdout_a_model_may_use_leftover_time_that_is_too_short_for_it() -> None:
    for n_folds, expected in ((1, Work), (FOLDS, type(None))):
        scheduler = make_timed({"core": 5.0, "expensive": 500.0}, n_folds=n_folds, tune=False)
        scheduler.competition.models["expensive"].is_core = False
        complete(scheduler, "core")
        assert type(scheduler.next_work(set(), 60.0)) is expected


def test_a_long_fit_in_progress_leaves_the_other_worker_to_another_model() -> None:
    scheduler = make_timed({"core": 5.0, "long": 500.0, "forest": 500.0}, n_folds=1, tune=False)
    for name in ("long", "forest"):
        scheduler.competition.models[name].is_core = False
    complete(scheduler, "core")
    first = scheduler.next_work(set(), 60.0, fit_limit=90.0)
    assert first is not None
    second = scheduler.next_work({(*first.candidate.key, 0)}, 60.0, fit_limit=90.0)
    assert second is not None
    assert {first.candidate.model, second.candidate.model} == {"long", "forest"}


def test_a_model_that_is_useful_when_it_ends_early_starts_before_new_trials() -> None:
    scheduler = make_timed({"core": 30.0, "forest": 200.0}, {("core", 0): 1.0}, n_folds=1)
    scheduler.competition.models["forest"].is_core = False
    complete(scheduler, "core", seconds=30.0)
    work = scheduler.next_work(set(), 100.0, fit_limit=36.0)
    assert work is not None
    assert work.candidate.key == ("core", 1)
    scheduler.competition.models["forest"].least_share = 0.1
    work = scheduler.next_work(set(), 100.0, fit_limit=36.0)
    assert work is not None
    assert work.candidate.key == ("forest", 0)


def test_with_one_holdout_models_that_would_be_cut_do_not_come_before_cheaper_ones() -> None:
    def order(limit: float) -> list[str]:
        models = {"core": 60.0, "merit": 500.0, "cheap": 50.0, "forest": 400.0}
        scheduler = make_timed(models, n_folds=1, tune=False)
        for name in ("merit", "cheap", "forest"):
            scheduler.competition.models[name].is_core = False
        scheduler.competition.models["merit"].merit = 4.0
        scheduler.competition.models["forest"].least_share = 0.1
        started: list[str] = []
        while (work := scheduler.next_work(set(), 1000.0, fit_limit=limit)) is not None:
            started.append(work.candidate.model)
            finish(work.candidate, work.fold, 0.5, 40.0)
        return list(dict.fromkeys(started))

    assert order(90.0) == ["core", "cheap", "forest", "merit"]
    assert order(600.0) == ["core", "merit", "cheap", "forest"]


def test_a_candidate_that_cannot_be_completed_leaves_its_time_to_first_folds_of_others() -> None:
    scheduler = with_first_folds(
        make_timed({"slow": 20.0, "other": 60.0, "endless": 2000.0}), {"slow": 0.9}, seconds=20.0
    )
    # The two other folds of "slow" take 20 s, and all three of "other" 120 s; their deadlines shorten them.
    assert take(scheduler, seconds=19.0) == ("other", 0, 0)
    scheduler.competition.models["other"].stopped = True
    assert scheduler.next_work(set(), 19.0) is None


def test_a_candidate_with_several_folds_is_completed_with_shorter_fits_near_the_end() -> None:
    scheduler = with_first_folds(make_timed({"m": 10.0, "fast": 1.0}, {("fast", 0): 1.0}), {"m": 0.9}, seconds=10.0)
    complete(scheduler, "fast")
    finish(scheduler.competition.candidates["m", 0], 1, 0.9, 10.0)
    # Its last fold takes 10 s.
    assert take(scheduler, seconds=6.0) == ("m", 0, 2)
    assert take(scheduler, seconds=5.0) == ("fast", 1, 0), (
        "it can no longer be completed, and keeps no time from others"
    )


@functools.cache
def simulated(order: Callable[[Simulation], Scheduler], seconds: float) -> list[Simulation]:
    return [simulate(Library(MODELS, seed), order, seconds) for seed in range(3)]


def mean_of(
    order: Callable[[Simulation], Scheduler], measure: Callable[[Simulation], float], seconds: float = 60.0
) -> float:
    return float(np.mean([measure(run) for run in simulated(order, seconds)]))


def test_little_time_goes_to_candidates_that_count_nowhere() -> None:
    nowhere = mean_of(timed, Simulation.share_nowhere)
    assert nowhere < 0.14
    for other in (breadth_first, in_turns):
        assert nowhere < mean_of(other, Simulation.share_nowhere)


@pytest.mark.slow
def test_a_long_run_tries_other_models_in_a_bounded_share_of_its_time() -> None:
    share = mean_of(timed, lambda run: run.share_nowhere(of_defaults=True), 200.0)
    assert 0.02 < share < 0.17


def test_most_time_goes_to_members_of_the_ensemble() -> None:
    assert mean_of(timed, Simulation.share_with_weight) > 0.5


def test_many_workers_do_more_and_predict_better() -> None:
    def run(workers: int) -> Simulation:
        return simulate(Library(MODELS, 0), timed, 60.0, workers)

    few, many = run(2), run(16)
    assert sum(many.spent.values()) > 6 * sum(few.spent.values())
    assert many.errors[-1][1] < few.errors[-1][1]


def test_the_error_falls_earlier_than_breadth_first_and_further_than_in_turns() -> None:
    def area(run: Simulation) -> float:
        return run.mean_error(60.0)

    def final(run: Simulation) -> float:
        return run.errors[-1][1]

    assert mean_of(timed, area) < 0.85 * mean_of(breadth_first, area)
    assert mean_of(timed, final) < mean_of(in_turns, final)
