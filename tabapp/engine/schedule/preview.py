"""What the scheduler would choose next, for the views: the run is not changed, and nothing is asked of the sampler."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.choices import Rule
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.moment import Memory, Moment, Setup
from tabapp.engine.schedule.starting import comes_early, obstacle, start_cost
from tabapp.engine.schedule.work import Fold
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev

N_NEXT = 3
"""Fits that are shown ahead: what follows them depends on results that are not known yet."""


def preview(
    setup: Setup,
    memory: Memory,
    rules: Sequence[Rule],
    running: set[Fold],
    seconds_left: float,
    fit_limit: Callable[[str], float],
) -> ev.FitsPlanned:
    """The next fits, and the models that wait; the arguments are those of the scheduler."""
    setup = replace(setup, competition=_copy_of(setup.competition))
    memory = replace(memory, totals=dict(memory.totals))
    devices = sorted({record.device for record in setup.competition.models.values()})
    moments = [Moment(setup, memory, set(running), seconds_left, fit_limit(device), device) for device in devices]
    for moment in moments:
        moment.remember()
    waiting = [found for moment in moments for found in _waiting(moment)]
    in_time = sum(_in_time(moment) for moment in moments) if setup.is_timed else None
    planned = [fit for moment in moments for fit in _next_fits(moment, rules)]
    return ev.FitsPlanned(next=tuple(planned[:N_NEXT]), waiting=tuple(waiting), in_time=in_time)


def _copy_of(competition: Competition) -> Competition:
    """A competition in which new trials have no hyperparameters and stay unknown to the real one."""

    def new_trial(name: str) -> Candidate:
        return Candidate(name, len(copy.of_model(name)), {}, copy.n_folds, n_pilots=copy.n_folds)

    copy = Competition(
        competition.metric,
        competition.n_folds,
        trials=competition.trials,
        new_trial=new_trial,
        loss=competition.loss_of,
    )
    copy.models, copy.n_expected = competition.models, competition.n_expected
    for candidate in competition.candidates.values():
        copy.add(candidate)
    return copy


def _next_fits(m: Moment, rules: Sequence[Rule]) -> list[ev.PlannedFit]:
    planned: list[ev.PlannedFit] = []
    running = set(m.running)
    for _ in range(N_NEXT):
        # Each choice is made as if the ones before it were in progress.
        m = m.beside(running)
        work = next(filter(None, (rule(m) for rule in rules)), None)
        if work is None:
            break
        candidate = work.candidate
        planned.append(
            ev.PlannedFit(
                model=candidate.model,
                trial=candidate.trial,
                fold=work.fold,
                folds=candidate.n_folds,
                seconds=_rounded(m.expected_of(candidate)),
                reason=work.reason,
            )
        )
        running |= {(*candidate.key, work.fold)}
    return planned


def _waiting(m: Moment) -> list[ev.WaitingModel]:
    """The models on these devices whose defaults lack folds, none in progress: those with some folds first, then in the order in
    which their first folds start."""
    busy = {name for name, _, _ in m.running}
    records = [r for r in m.competition.models.values() if m.is_own(r.name) and not m.competition.is_out(r.name)]
    records = [record for record in records if record.name not in busy]
    begun = [record for record in records if _open_defaults(m, record) is not None]
    first = [record for record in records if not m.competition.has_fold(record.name)]
    begun.sort(key=lambda record: (bool(_note(m, record)), m.expected(record.name), record.name))
    first.sort(key=lambda r: (not r.is_favored, not comes_early(m, r), start_cost(m, r), r.name))
    found = [_waiting_model(m, record) for record in (*begun, *first)]
    return [each for each in found if not each.note] + [each for each in found if each.note]


def _open_defaults(m: Moment, record: ModelRecord) -> Candidate | None:
    """The defaults of a model if some of their folds are complete and others are missing."""
    candidates = [c for c in m.competition.of_model(record.name) if c.trial == 0 and c.status == "active" and c.results]
    return next((candidate for candidate in candidates if not candidate.is_complete), None)


def _waiting_model(m: Moment, record: ModelRecord) -> ev.WaitingModel:
    candidate = _open_defaults(m, record)
    folds = len(candidate.results) if candidate is not None else 0
    each = m.expected(record.name) if candidate is None else m.expected_of(candidate)
    needed = (m.competition.n_folds - folds) * each
    seconds = {"seconds": _rounded(each), "needed": _rounded(needed)}
    return ev.WaitingModel(model=record.name, folds=folds, note=_note(m, record), **seconds)


def _note(m: Moment, record: ModelRecord) -> str:
    """Why a model that waits does not continue now; empty if it only waits for a worker."""
    if record.is_held:
        return "paused by you"
    if not m.setup.is_timed or record.is_favored:
        return ""
    candidate = _open_defaults(m, record)
    if candidate is None:
        return obstacle(m, record)
    n_open = len(m.open_folds(candidate))
    if not m.ends_in_time(n_open, m.expected_of(candidate)):
        return f"its other {n_open} folds need about {format_duration(n_open * m.expected_of(candidate))}, more than is left"
    return "" if m.improves(candidate) else "its first fold does not improve the ensemble"


def _in_time(m: Moment) -> int:
    """How many of the waiting models that may start now get all of their folds, one model after the other, beside what is being
    completed."""
    beside, number = m.committed[0], 0
    for each in _waiting(m):
        n_open = m.competition.n_folds - each.folds
        if each.note or not m.ends_in_time(n_open, each.seconds, beside):
            continue
        number += 1
        beside += each.needed
    return number


def _rounded(seconds: float) -> float:
    """Seconds with two digits: a changed third digit is no news to a view."""
    return float(f"{seconds:.2g}") if math.isfinite(seconds) else 0.0
