"""The rules that choose the next fit. They are asked in their order; the first that has a fit decides, and says why.

With a time limit (`TIMED_RULES`), only fits start that can be useful in the end: a candidate counts once it has all of its folds,
so it is either completed or dropped after its first fold.

Without one (`UNTIMED_RULES`), the order changes no result, since a trial gets all of its folds unless its first is worse than that
of its own model's best trial: the defaults of every model on fold 0, core models and those with a high merit first, cheap before
expensive, so that the leaderboard fills quickly; then the other folds of the defaults; then new trials, where better models get
more of the time.
"""

from __future__ import annotations

import math
from collections.abc import Container
from functools import partial

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.choices import FAVORED, Rule, first_fold, next_share, shares_by_rank
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.engine.schedule.moment import Moment
from tabapp.engine.schedule.starting import (
    comes_early,
    has_prospects,
    has_turn,
    longest_named,
    may_start,
    may_start_in_leftover,
)
from tabapp.engine.schedule.work import Work
from tabapp.run.options.units import format_duration

NEXT_TRIAL = "its model has had the least time for its rank"
MEMBER = "its model is in the ensemble, and has had the least time for its weight"


def shortest_network(m: Moment) -> Work | None:
    """On a GPU, before any network has begun: the first fold of a short network that starts early. Its measured time soon corrects
    the priors of the others."""
    networks = [record for record in m.competition.models.values() if record.uses_device and m.may_fit(record)]
    worthy = [record for record in networks if comes_early(m, record)]
    if m.device == CPU or not worthy or any(m.competition.of_model(record.name) for record in networks):
        return None
    shortest = min(worthy, key=lambda record: (m.expected(record.name), record.name))
    if m.expected(shortest.name) > m.policy.cheap_seconds:
        return None
    reason = "the time of the shortest network shows how long others take on this GPU"
    return first_fold(m, reason, lambda record: record is shortest)


def first_candidate(m: Moment) -> Work | None:
    """Until a candidate is complete: a few first folds, then the other folds of the best of them, so that there is an ensemble to
    compare other models with. It may be a weak one: an expensive model is then completed only if it is better than the others that
    have a first fold. If some models take hardly any time, and not more than some seconds, only those."""
    competition, reason = m.competition, "no model has all of its folds yet, and a fold of this one takes {time}"
    if competition.has_complete:
        return None
    cheap = {
        name
        for name, record in competition.models.items()
        if m.is_own(name) and m.is_cheap(name) and (record.is_core or m.expected(name) <= m.policy.cheap_seconds)
    }
    if cheap:
        return first_fold(m, reason, lambda record: record.name in cheap) or _completed(m, only=cheap)
    if (named := named_models(m)) is not None:
        return named
    started = {c.model for c in competition.candidates.values() if c.results} | {name for name, _, _ in m.running}
    best = _completed(m)
    if sum(map(m.is_own, started)) < m.policy.n_rivals:
        return first_fold(m, reason, allowed=partial(_may_start_beside, best)) or best
    return best


def cheap_models(m: Moment) -> Work | None:
    """The first folds of models that take hardly any time."""
    return first_fold(m, "a fold takes hardly any of the time, {time}", lambda record: m.is_cheap(record.name))


def promising_models(m: Moment) -> Work | None:
    """The first folds of quick models that start first on all tables, and of those with a high merit: on some tables they are far
    ahead of all others, and later there would be no time for their other folds. They leave time for the best candidate so far."""
    return first_fold(
        m,
        "models of its kind start early on such tables, and a fold takes {time}",
        lambda record: comes_early(m, record) and (record.merit > 1 or m.is_quick(record.name)),
        allowed=partial(_may_start_beside, _completed(m)),
    )


def named_models(m: Moment) -> Work | None:
    """The first folds of models that the user names, so that each has a score, even if there is no time for its other folds. The
    longest starts at once beside the shortest: after the others, it would not end in time."""
    reason, long = "you named it, and its first fold gets its part of the time", longest_named(m)
    return (long and first_fold(m, reason, lambda record: record is long)) or first_fold(
        m, reason, lambda record: has_turn(m, record)
    )


def useful_candidates(m: Moment) -> Work | None:
    """The other folds of candidates whose first fold improves the ensemble, together with those that are being completed, by
    improvement. Those that improve it far more than candidates that are being completed go first."""
    return _completed(m)


def quick_models(m: Moment) -> Work | None:
    """The first folds of models that take little time."""
    return first_fold(m, "a fold takes little of the time, {time}", lambda record: m.is_quick(record.name))


def other_models(m: Moment) -> Work | None:
    """The first folds of other models, those that take little time first."""
    return first_fold(m, "it is the next model to try, and a fold takes {time}")


def second_trials(m: Moment) -> Work | None:
    """The first fold of the second trial of quick models that start first on all tables, and of others that are not uncertain and
    take almost no time, the cheapest first: its hyperparameters differ much from the defaults, and on some tables only they improve
    the ensemble."""
    competition = m.competition
    for record in sorted(competition.models.values(), key=lambda record: (record.cost, record.name)):
        candidates, each = competition.of_model(record.name), m.expected(record.name)
        is_tiny = not record.is_uncertain and each <= m.policy.tiny_share * m.total()
        if (
            not m.setup.tune
            or not (record.is_core or is_tiny)
            or not m.may_fit(record)
            or competition.is_out(record.name)
        ):
            continue
        if len(candidates) != 1 or not candidates[0].results or not competition.has_trials_left(record.name):
            continue
        if m.is_quick(record.name) and m.ends_in_time(competition.n_folds, each, m.committed[1]):
            reason = f"a second set of hyperparameters takes about {format_duration(each)} for a fold"
            return Work(competition.begin(record.name), 0, reason=reason)
    return None


def members_of_the_ensemble(m: Moment) -> Work | None:
    """New trials of models in the ensemble, in proportion to their weight and to the success of their earlier trials. A trial is
    pruned if its first fold does not improve the ensemble. Models whose trials hardly ever succeed wait."""
    return next_share(m, _shares_of_members(m, m.policy.least_success), MEMBER)


def folds_ahead(m: Moment) -> Work | None:
    """Another fold of a new trial whose first is in progress, if there is nothing else to do."""
    for name, trial, _ in sorted(m.running):
        candidate, record = m.competition.candidates[name, trial], m.competition.models[name]
        fold = m.next_fold(candidate)
        if not trial or candidate.status != "active" or not m.may_fit(record) or record.stopped or fold is None:
            continue
        if candidate.batch is not None and not candidate.results:
            continue
        if m.ends_in_time(len(m.open_folds(candidate)), m.expected(name)):
            return Work(candidate, fold, reason="nothing else is left to do while its first fold is in progress")
    return None


def unlikely_trials(m: Moment) -> Work | None:
    """Trials that hardly ever succeed. Models come before them that have not run and are not uncertain, or have a high merit."""
    shares = _shares_of_members(m)
    if len(shares) == len(_shares_of_members(m, m.policy.least_success)):
        return None
    return first_fold(
        m,
        "it has not run yet, and new trials of other models hardly ever improve the ensemble",
        lambda record: not record.is_uncertain or has_prospects(m, record),
        may_start_in_leftover,
    ) or next_share(m, shares, MEMBER)


def useless_candidates(m: Moment) -> Work | None:
    """In time that nothing else can use: candidates that do not improve the ensemble yet."""
    return _completed(m, improving=False)


def leftover_models(m: Moment) -> Work | None:
    """In time that nothing else can use: models that have not run."""
    return first_fold(m, "no other fit can use the time that is left", allowed=may_start_in_leftover)


def members_beside(m: Moment) -> Work | None:
    """Further trials of models in the ensemble, beside open ones. None if trials are bounded: a trial then depends on all earlier
    ones of its model, whatever the number of workers."""
    return next_share(m, _shares_of_members(m), MEMBER, beside=True) if m.competition.trials is None else None


def all_models(m: Moment) -> Work | None:
    """The first fold of each model's defaults."""
    return first_fold(m, "the defaults of every model start with one fold", allowed=lambda m, record: True)


def defaults(m: Moment) -> Work | None:
    """The next fold of a model's first successful trial: trials already begun first, then cheap and good models."""
    competition, ranked = m.competition, m.competition.ranked()
    leader = competition.best_of(ranked[0]) if ranked else None
    options: list[tuple[bool, float, Candidate]] = []
    for rank, name in enumerate(ranked, start=1):
        candidate, record = next(c for c in competition.of_model(name) if c.results), competition.models[name]
        if not m.may_fit(record) or candidate.status != "active" or leader is None:
            continue
        cost = len(candidate.missing_folds) * m.expected(name)
        begun = len(candidate.results) > 1
        if begun or record.is_favored or not m.setup.clearly_behind(candidate, leader):
            options.append((not begun, cost * rank / record.share, candidate))
    for _, _, candidate in sorted(options, key=lambda option: option[:2]):
        fold = m.next_fold(candidate)
        if fold is not None:
            return Work(candidate, fold, reason="the first trial of its model is completed before others")
    return None


def new_trials(m: Moment) -> Work | None:
    """New trials, where better models get more of the time."""
    return next_share(m, shares_by_rank(m), NEXT_TRIAL)


def trials_beside(m: Moment) -> Work | None:
    """Further trials beside open ones, whose folds occupy no further worker. None if trials are bounded: a trial then depends on
    all earlier ones of its model, whatever the number of workers."""
    return next_share(m, shares_by_rank(m), NEXT_TRIAL, beside=True) if m.competition.trials is None else None


TIMED_RULES: tuple[Rule, ...] = (
    shortest_network,
    first_candidate,
    cheap_models,
    promising_models,
    named_models,
    useful_candidates,
    quick_models,
    other_models,
    second_trials,
    members_of_the_ensemble,
    folds_ahead,
    unlikely_trials,
    useless_candidates,
    leftover_models,
    members_beside,
)
UNTIMED_RULES: tuple[Rule, ...] = (all_models, defaults, new_trials, trials_beside)


def _completed(m: Moment, *, improving: bool = True, only: Container[str] | None = None) -> Work | None:
    """The next fold of a candidate that has some of its folds. First come those of which more than one was begun, by improvement
    per second left, so that no two are completed by turns; then others, by improvement. One that takes most of the time left
    comes last: a single model is less certain than several.

    Args:
        improving: leave out candidates that do not improve the ensemble.
        only: names of the models that may continue; None means all.
    """
    options: list[tuple[tuple[bool, bool, int, float, tuple[str, int]], Work]] = []
    policy = m.policy
    for candidate in m.competition.candidates.values():
        record = m.competition.models[candidate.model]
        if candidate.status != "active" or not candidate.results or not m.may_fit(record):
            continue
        if m.competition.is_out(record.name) or (only is not None and record.name not in only):
            continue
        fold, n_open = m.next_fold(candidate), len(m.open_folds(candidate))
        each = min(m.expected_of(candidate), m.limit)
        is_new = candidate not in m.begun
        if not is_new:
            # At its deadline, a fit returns its best so far: rather that than two folds that count nowhere.
            each = max(policy.short_share * each, min(each, 0.999 * m.slot(max(1, n_open))))
        leads = is_new and improving and _leads(m, candidate)
        beside = m.committed_beside(record.name) if is_new and not leads else 0.0
        if fold is None or not m.ends_in_time(n_open, each, beside):
            continue
        if improving and not record.is_favored and not m.improves(candidate):
            continue
        cost = n_open * each
        gain = m.gain(candidate, m.begun if is_new and improving else ())
        is_free = not improving or not is_new or record.is_favored
        if not is_free and cost > policy.leader_share * m.left_of_workers:
            continue
        comes_last = not is_free and cost > _affordable_share(m, gain) * m.left_of_workers
        per_second = gain / max(cost, 1e-3) if gain > 0 else gain * cost
        value = gain if is_new and improving else per_second
        order = not record.is_favored, comes_last, -1 if leads else int(is_new), -value, candidate.key
        reason = _why_completed(m, candidate, gain if is_new and improving else None, cost)
        options.append((order, Work(candidate, fold, reason=reason)))
    return min(options, key=lambda option: option[0])[1] if options else None


def _may_start_beside(best: Work | None, m: Moment, record: ModelRecord) -> bool:
    """Whether a model may start, and its first fold leaves time for the other folds of the best candidate, if they are affordable
    now."""
    if not may_start(m, record):
        return False
    if best is None or best.candidate in m.begun:
        return True
    candidate, first = best.candidate, m.expected(record.name)
    n_open, each = len(m.open_folds(candidate)), min(m.expected_of(candidate), m.limit)
    share, cost = _affordable_share(m, m.gain(candidate, m.begun)), n_open * each
    if cost > share * m.left_of_workers:
        return True
    return m.ends_in_time(n_open, each, first) and cost <= share * (m.left_of_workers - first)


def _affordable_share(m: Moment, gain: float) -> float:
    """Most of the time left for the other folds of a candidate of this gain, beside which others are affordable, too."""
    most = m.policy.leader_share
    least = m.policy.affordable_share if m.competition.has_complete else most
    return least + (most - least) * m.gain_share(gain)


def _why_completed(m: Moment, candidate: Candidate, gain: float | None, cost: float) -> str:
    """Why a candidate gets another fold.

    Args:
        gain: of a candidate that is to be completed; None for one that is being completed, or does not improve the ensemble.
    """
    rest = f"its other folds take about {format_duration(cost)}"
    if m.competition.models[candidate.model].is_favored:
        return FAVORED
    if candidate in m.begun:
        n_done = len(candidate.results)
        return f"{n_done} of {candidate.n_folds} folds {'is' if n_done == 1 else 'are'} done, and {rest}"
    if gain is None:
        return f"no other fit can use the time that is left, and {rest}"
    rival = "the ensemble" if m.setup.weights() else "the best other model"
    if math.isinf(gain):
        return f"its first fold is done, and {rest}"
    if gain > 0:
        return f"its first fold improves {rival} by {100 * gain:.2g} %, and {rest}"
    return f"no trial is dropped after its first fold, and {rest}"


def _leads(m: Moment, candidate: Candidate) -> bool:
    """Whether a candidate with one fold leaves so much less of the error than each of those that are being completed that it does
    not wait for them: beside them, its own folds might not end in time."""
    if not m.competition.has_complete:
        return False
    rivals = [m.gain(other) for other in m.begun if m.is_own(other.model)]
    return bool(rivals) and 1 - m.gain(candidate) <= (1 - m.policy.large_gain) * (1 - max(rivals))


def _shares_of_members(m: Moment, least_success: float = 0.0) -> dict[str, float]:
    """The weight of a model in the ensemble, times the share of its earlier new trials that are in it. A model that the user favors
    counts as one with the largest weight.

    Args:
        least_success: leaves out models with a smaller share of successful trials, their defaults included.
    """
    weights, competition = m.setup.weights(), m.competition
    of_model: dict[str, float] = {}
    for (name, _), weight in weights.items():
        of_model[name] = of_model.get(name, 0.0) + weight
    shares: dict[str, float] = {}
    for record in competition.models.values():
        if competition.is_out(record.name) or not competition.has_fold(record.name):
            continue
        weight = max(of_model.values(), default=1.0) if record.is_favored else of_model.get(record.name, 0.0)
        tried = [c.key for c in competition.of_model(record.name) if c.trial and c.status != "active"]
        success = 1.0 if record.is_favored else (1 + sum(key in weights for key in tried)) / (1 + len(tried))
        if weight > 0 and success >= least_success:
            shares[record.name] = record.share * weight * success
    return shares
