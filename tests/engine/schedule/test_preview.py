"""A preview of the next fits, which changes nothing in the run."""

from __future__ import annotations

import math

from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.run.record import events as ev
from tests.engine.schedule.test_timed import complete, make_timed, with_first_folds


def preview(
    scheduler: Scheduler, running: set[tuple[str, int, int]] | None = None, seconds: float = 100.0
) -> ev.FitsPlanned:
    return scheduler.preview(lambda: set(running or ()), lambda: seconds, lambda device: math.inf)


def test_the_first_of_the_next_fits_is_the_one_that_starts() -> None:
    scheduler = make_timed(
        {"first": 0.3, "useful": 4.0, "late": 30.0}, {("first", 0): 1.0}, gains={("useful", 0): 0.021}
    )
    complete(scheduler, "first", seconds=0.3)
    for _ in range(2):
        planned = preview(scheduler).next
        before = set(scheduler.competition.candidates)
        work = scheduler.next_work(set(), 100.0)
        assert work is not None
        assert (planned[0].model, planned[0].trial, planned[0].fold) == (*work.candidate.key, work.fold)
        assert planned[0].reason == work.reason
        assert len({(fit.model, fit.trial, fit.fold) for fit in planned}) == len(planned) > 1
        assert before <= set(scheduler.competition.candidates)
        with_first_folds(scheduler, {"useful": 0.9}, seconds=4.0)


def test_a_preview_begins_no_trial() -> None:
    scheduler = make_timed({"first": 0.3, "useful": 4.0}, {("first", 0): 1.0})
    complete(scheduler, "first", seconds=0.3)
    before = {key: len(candidate.results) for key, candidate in scheduler.competition.candidates.items()}
    assert preview(scheduler).next
    assert {key: len(candidate.results) for key, candidate in scheduler.competition.candidates.items()} == before


def test_waiting_models_have_their_time_and_why_they_do_not_start() -> None:
    scheduler = make_timed({"first": 0.3, "quick": 2.0, "long": 60.0}, {("first", 0): 1.0})
    complete(scheduler, "first", seconds=0.3)
    planned = preview(scheduler)
    waiting = {each.model: each for each in planned.waiting}
    assert list(waiting) == ["quick", "long"]
    assert (waiting["quick"].note, waiting["quick"].seconds, waiting["quick"].needed) == ("", 2.0, 6.0)
    assert "its 3 folds need about 3m" in waiting["long"].note
    assert planned.in_time == 1
    scheduler.competition.begin("quick")
    assert "quick" not in {each.model for each in preview(scheduler, {("quick", 0, 0)}).waiting}


def test_a_paused_model_waits_for_the_user() -> None:
    scheduler = make_timed({"first": 0.3, "quick": 2.0}, {("first", 0): 1.0})
    scheduler.competition.models["quick"].paused = True
    assert {each.model: each.note for each in preview(scheduler).waiting}["quick"] == "paused by you"
