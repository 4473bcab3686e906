"""Makes the scheduler of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tabapp.engine.fit.candidates import Candidate, Scorer
from tabapp.engine.machine.slots import Slots
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.starting import Gain
from tabapp.engine.schedule.timed import TimedScheduler


def new_scheduler(
    plan: Plan,
    slots: Slots,
    scorer: Scorer,
    *,
    n_folds: int,
    new_trial: Callable[[str], Candidate],
    siblings: Callable[[Candidate], Iterator[Candidate]],
    gain: Gain,
    weights: Callable[[], Mapping[tuple[str, int], float]],
    is_timed: bool,
) -> Scheduler:
    """A scheduler without models.

    Args:
        is_timed: the run has a time limit. Only then may decisions depend on measured times.
        others: as in `TimedScheduler`.
    """
    options: dict[str, Any] = {
        "metric": plan.metric,
        "workers": slots.of,
        "n_folds": n_folds,
        "trials": 1 if plan.quality == "fast" else plan.trials,
        "tune": plan.quality != "fast",
        "race": plan.quality != "best",
        "new_trial": new_trial,
        "siblings": siblings,
        "loss": scorer.loss,
        "clearly_behind": scorer.clearly_behind,
    }
    if not is_timed:
        return Scheduler([], **options)
    return TimedScheduler([], gain=gain, weights=weights, **options)
