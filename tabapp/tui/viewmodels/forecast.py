"""What a plan is expected to reach on its table, from the expected time of each model."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.policy import Policy
from tabapp.run.record import events as ev
from tabapp.tui.viewmodels.texts import count

USABLE_SHARE = 0.85
"""Share of the budget in which models are fitted; the engine reserves the rest for the ensemble, explanations and the bundle."""
FIRST_SHARE = Policy().first_share
"""Share of the time beyond which no expensive model starts."""
CPU = "cpu"


def forecast(plan: ev.PlanMade) -> str:
    """The number of models that the budget completes and tunes, in words; empty if no time is known, as in earlier versions."""
    planned = [choice for choice in plan.choices if choice.is_planned]
    known = [choice for choice in planned if choice.seconds is not None]
    if not known:
        return ""
    if plan.budget is None:
        trials = "" if plan.trials is None else f", up to {count(plan.trials, 'trial')} each"
        return f"All {count(len(planned), 'model')}{trials}, without a time limit"
    complete, tuned = reached(plan, known)
    of_all = f"~{complete} of {count(len(planned), 'model')}"
    if not complete:
        return f"{of_all[1:].capitalize()} in time; a longer budget or fewer folds help"
    if plan.quality == "fast" or plan.trials == 1:
        return f"{of_all}, with default parameters"
    return f"{of_all}, {tuned or 'none'} tuned"


def reached(plan: ev.PlanMade, known: Sequence[ev.ModelChoice]) -> tuple[int, int]:
    """How many models get all folds of their defaults, the quickest first, and how many of them further trials.

    The models of each device share its time. What the defaults leave is divided equally, and a model is tuned if its part is long
    enough for one more trial with all folds.
    """
    complete = tuned = 0
    for device in sorted({choice.device for choice in known}):
        workers = plan.workers if device in ("", CPU) else max(1, plan.n_gpus)
        total = USABLE_SHARE * (plan.budget or 0.0) * workers / len(plan.targets or (plan.target,))
        trials: list[float] = []
        for seconds in sorted(plan.folds * (choice.seconds or 0.0) for choice in known if choice.device == device):
            if sum(trials) + seconds > FIRST_SHARE * total:
                break
            trials.append(seconds)
        complete += len(trials)
        left = total - sum(trials)
        tuned += sum(seconds <= left / len(trials) for seconds in trials)
    return complete, tuned
