"""Which models may start in a run with a time limit."""

from __future__ import annotations

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.engine.schedule.moment import Moment
from tabapp.run.options.units import format_duration


def comes_early(m: Moment, record: ModelRecord) -> bool:
    """Whether the first fold of a model comes before those of others, whatever its cost. On a single holdout, a model that would be
    stopped by the limit of fits does not."""
    is_cut = m.competition.n_folds == 1 and m.is_cut(record)
    return (record.is_core or record.merit > 1) and not is_cut


def start_cost(m: Moment, record: ModelRecord) -> float:
    """Seconds by which models queue for their first fold. On a single holdout, a model that loses little if it is stopped costs no
    more than the limit of fits."""
    is_cut = m.competition.n_folds == 1 and m.is_cut(record)
    loses_little = is_cut and record.least_share <= m.policy.small_share
    return m.limit / record.merit if loses_little else record.cost


def turn_seconds(m: Moment) -> float:
    """Seconds that the first fold of each model that the user names may take: together, they leave time to complete some."""
    n_named = sum(record.is_named and m.is_own(record.name) for record in m.competition.models.values())
    share = m.policy.named_share if m.competition.n_folds > 1 else m.policy.cap_of_all
    return share * m.total() / max(1, n_named)


def has_turn(m: Moment, record: ModelRecord) -> bool:
    """Whether a model gets a first fold because the user names it, whatever its cost: it is stopped after its part of the time.
    Where the time is too short for all that are named, they queue like others."""
    if not record.is_named or m.competition.has_fold(record.name):
        return False
    needed, most = m.expected(record.name), min(turn_seconds(m), m.limit)
    if most < min(needed, m.policy.cheap_seconds):
        return False
    return m.policy.safety * min(needed, m.policy.short_share * most) <= m.seconds


def longest_named(m: Moment) -> ModelRecord | None:
    """Of the models that the user names and that wait for their first fold, the longest, if it takes longer than its part of the
    time; None on a single worker, and beside another such fold."""
    named = [record for record in m.competition.models.values() if m.may_fit(record) and has_turn(m, record)]
    named = [record for record in named if m.expected(record.name) > turn_seconds(m)]
    running = {name for name, _, _ in m.running}
    if m.workers == 1 or any(record.name in running for record in named):
        return None
    return max(named, key=lambda record: (m.expected(record.name), record.name), default=None)


def may_start(m: Moment, record: ModelRecord) -> bool:
    """Whether all folds of a model's defaults can be completed, and its first may be lost."""
    return not obstacle(m, record)


def obstacle(m: Moment, record: ModelRecord) -> str:
    """Why the first fold of a model does not start now, as a clause about the model; empty if it may."""
    if has_turn(m, record):
        return ""
    policy, n_folds = m.policy, m.competition.n_folds
    needed = m.expected(record.name)
    each = min(needed, m.limit)
    begun, committed = m.committed
    # A model with a high merit may take the place of candidates that have one fold.
    beside = begun if has_prospects(m, record) else committed
    of_all = n_folds * each / record.merit
    rest = f"its {n_folds} folds need about {format_duration(n_folds * each)}"
    if each < record.least_share * needed:
        return f"a fold needs about {format_duration(needed)}, and may take {format_duration(m.limit)}"
    if not m.ends_in_time(n_folds, min(each, m.shortest(record.name)), beside):
        return f"{rest}, more than is left beside what is being completed"
    if of_all > policy.affordable_share * m.left_of_workers:
        return f"{rest}, too large a part of the time left"
    if not m.competition.has_score or n_folds == 1:
        return ""
    if record.is_uncertain and record.merit <= 1:
        useful, dropped = _uncertain(m)
        if not useful and len(dropped) >= policy.n_dropped:
            return "models of its kind were of no use on this table"
    candidates = m.competition.candidates
    unknown = [n for n, trial, _ in m.running if m.is_own(n) and not candidates[n, trial].results and not trial]
    most = max(policy.dropped_share * m.total(), _trial_seconds(m))
    is_gamble = record.is_uncertain or not m.is_quick(record.name)
    if is_gamble and not has_prospects(m, record) and _dropped_seconds(m) > most:
        return "first folds of models that were of no use have had their share of the time"
    if m.is_quick(record.name):
        return ""
    # A measured fold of such a model predicts the next better than a prior. A GPU would fit models of less value meanwhile.
    n_at_once = max(1, m.workers // 2) if m.device == CPU else m.workers
    if sum(not m.is_quick(name) for name in unknown) >= n_at_once:
        return "it waits for the first fold of another long model"
    used = sum(_seconds_of(candidate) for candidate in m.own_candidates() if candidate.trial == 0)
    if used + of_all > policy.first_share * m.total():
        return "the defaults of other models have had their share of the time"
    return ""


def may_start_in_leftover(m: Moment, record: ModelRecord) -> bool:
    """Whether a model may start in time that nothing else can use. As long as there is no score it always may, unless a core model
    is running: any fold is better than a run without a score. If no candidate can be completed, the ensemble is selected on the
    first fold, as on a single holdout."""
    if not m.competition.has_score:
        return not any(m.is_own(name) and m.competition.models[name].is_core for name, _, _ in m.running)
    n_folds, needed = m.competition.n_folds, m.expected(record.name)
    each = min(needed, m.limit, 0.999 * m.slot(n_folds))
    on_holdout = n_folds == 1 or not m.competition.has_complete
    least = m.policy.least_share if on_holdout else record.least_share
    return each >= least * needed and m.ends_in_time(n_folds, each, m.committed[1])


def has_prospects(m: Moment, record: ModelRecord) -> bool:
    """Whether a model has a high merit, and is not uncertain while an uncertain model of higher merit was dropped."""
    if record.merit <= 1 or not record.is_uncertain:
        return record.merit > 1
    return not any(m.competition.models[name].merit > record.merit for name in _uncertain(m)[1])


def _uncertain(m: Moment) -> tuple[list[str], list[str]]:
    """Uncertain models whose defaults have a fold, and improve the ensemble or are complete, and those that were dropped."""
    useful, dropped = list[str](), list[str]()
    for record in m.competition.models.values():
        for candidate in m.competition.of_model(record.name)[:1] if record.is_uncertain else []:
            if candidate.results:
                (useful if candidate.is_complete or m.improves(candidate) else dropped).append(record.name)
    return useful, dropped


def _seconds_of(candidate: Candidate) -> float:
    return sum(result.seconds + result.predict_seconds for result in candidate.results.values())


def _trial_seconds(m: Moment) -> float:
    """Seconds of new trials that have ended."""
    return sum(_seconds_of(c) for c in m.own_candidates() if c.trial and c.status != "active")


def _dropped_seconds(m: Moment) -> float:
    """Seconds of the defaults that have one fold and are not to be completed."""
    incomplete = (c for c in m.own_candidates() if c.trial == 0 and c.results and not c.is_complete)
    return sum(_seconds_of(c) for c in incomplete if c.status != "active" or not m.improves(c))
