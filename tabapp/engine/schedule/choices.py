"""What the rules choose from: first folds, and new trials by their share of the time; and how a choice is worded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.engine.schedule.moment import Moment
from tabapp.engine.schedule.starting import comes_early, may_start, start_cost
from tabapp.engine.schedule.work import Work
from tabapp.run.options.units import format_duration

Rule = Callable[[Moment], Work | None]
"""Finds the next fit, or None if it has none."""
FAVORED = "you gave it a larger share of the time"


def first_fold(
    m: Moment,
    reason: str,
    wanted: Callable[[ModelRecord], bool] = lambda record: True,
    allowed: Callable[[Moment, ModelRecord], bool] = may_start,
) -> Work | None:
    """The first fold of a model without a score. A model that the user favors is always wanted and allowed.

    Args:
        reason: why such a fit starts; `{time}` is replaced by its expected seconds.
    """
    competition = m.competition
    waiting = [record for record in competition.models.values() if m.may_fit(record)]
    waiting = [record for record in waiting if not competition.has_fold(record.name)]
    waiting.sort(key=lambda r: (not r.is_favored, not comes_early(m, r), start_cost(m, r), r.name))
    for record in waiting:
        if competition.is_out(record.name):
            continue
        active = [candidate for candidate in competition.of_model(record.name) if candidate.status == "active"]
        if active and (*active[0].key, 0) in m.running:
            continue
        if not active and not competition.has_trials_left(record.name):
            continue
        if record.is_favored or (wanted(record) and allowed(m, record)):
            candidate = active[0] if active else competition.begin(record.name)
            text = reason.format(time=f"about {format_duration(m.expected(record.name))}")
            return Work(candidate, 0, reason=FAVORED if record.is_favored else text)
    return None


def next_share(m: Moment, targets: Mapping[str, float], reason: str, *, beside: bool = False) -> Work | None:
    """The fit of the model that is furthest below its share of the time, which is proportional to its target.

    The expected time of the fit counts as spent, so that cheap fits come before expensive ones.

    Args:
        beside: a model may have several open trials.
    """
    options: list[tuple[float, str, Candidate | None, int]] = []
    for name, target in targets.items():
        record = m.competition.models[name]
        option = option_of(m, name, beside=beside) if m.may_fit(record) else None
        if option is not None:
            in_progress = sum(key[0] == name for key in m.running)
            share = (record.spent + (1 + in_progress) * m.expected(name)) / target
            options.append((share, name, *option))
    if not options:
        return None
    _, name, candidate, fold = min(options, key=lambda option: option[:2])
    return Work(candidate or m.competition.begin(name), fold, reason=reason)


def option_of(m: Moment, name: str, *, beside: bool = False) -> tuple[Candidate | None, int] | None:
    """The next fit of a model: a missing fold of an open trial, or fold 0 of a new trial (with None as candidate). None if all
    folds are in progress and no new trial may start beside them, or if the time left is too short to complete the trial."""
    competition = m.competition
    active = [candidate for candidate in competition.of_model(name) if candidate.status == "active"]
    for candidate in active:
        open_folds = m.open_folds(candidate)
        # A first fold that waits for its device, or whose process was killed, is open and not in progress.
        begins = not candidate.results and len(open_folds) < candidate.n_folds
        fold = m.next_fold(candidate)
        if fold is not None and not begins and m.fits(name, len(open_folds)):
            return candidate, fold
    if active and not beside:
        return None
    n_open = sum(len(m.open_folds(candidate)) for candidate in active)
    tunes = m.setup.tune or competition.models[name].is_favored
    if not tunes or not competition.has_trials_left(name) or not m.fits(name, n_open + competition.n_folds):
        return None
    return None, 0


def shares_by_rank(m: Moment) -> dict[str, float]:
    """Share of the time of each model that may get new trials, not normalized: the model of rank k gets 1/k of the time of the
    first. A model that the user favors counts as first, times its share."""
    records = [m.competition.models[name] for name in m.competition.ranked()]
    return {
        record.name: record.share if record.is_favored else record.share / rank
        for rank, record in enumerate(records, start=1)
    }
