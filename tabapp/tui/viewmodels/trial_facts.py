"""All trials of a run as rows: complete, pruned, failed, running and incomplete ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tabapp import charts
from tabapp.run.record.state import RunState, TrialView, format_score, title_of
from tabapp.run.record.undefined import OptionalScore
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.query import Value
from tabapp.tui.viewmodels.texts import MUTED, brief

Status = str
"""One of ok, running, incomplete (some folds, none in progress), pruned, failed."""


@dataclass(frozen=True)
class TrialFacts:
    """A trial as the tables show it.

    Attributes:
        score: over `folds` of `n_folds` folds, those that are complete.
        seconds: of fitting, all folds that are done.
        best: it is the best complete trial of its model.
    """

    model: str
    title: str
    trial: int
    status: Status
    score: float | None
    seconds: float
    folds: int
    n_folds: int
    reason: str = ""
    params: dict[str, object] = field(default_factory=dict[str, object])
    best: bool = False

    @property
    def key(self) -> str:
        """A key unique among the trials of the run."""
        return f"{self.model}#{self.trial}"

    @property
    def is_complete(self) -> bool:
        """Whether its score can be compared with others."""
        return self.status == "ok" and self.score is not None

    def facts(self) -> dict[str, Value]:
        """Its fields, for filters."""
        named: dict[str, Value] = {
            "model": f"{self.title} {self.model}",
            "trial": float(self.trial),
            "status": self.status,
            "score": self.score,
            "seconds": self.seconds,
            "reason": self.reason,
        }
        params: dict[str, Value] = {
            name: value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
            for name, value in self.params.items()
        }
        return {**params, **named}


def all_trials(state: RunState) -> list[TrialFacts]:
    """Every trial of a run, the newest first."""
    greater = state.plan.greater_is_better if state.plan else True
    n_folds = state.plan.folds if state.plan else 0
    scores: dict[tuple[str, int], dict[int, tuple[OptionalScore, float]]] = {}
    for fit in state.fits.values():
        scores.setdefault((fit.model, fit.trial), {})[fit.fold] = (fit.score, fit.seconds)
    failed = {(failure.model, failure.trial) for failure in state.failures}
    best: dict[str, tuple[float, int]] = {}
    for trial in state.trials:
        if trial.score is not None and not trial.pruned:
            signed = trial.score if greater else -trial.score
            if trial.model not in best or signed > best[trial.model][0]:
                best[trial.model] = (signed, trial.trial)
    rows: list[TrialFacts] = []
    ended: set[tuple[str, int]] = set()
    for trial in state.trials:
        key = (trial.model, trial.trial)
        ended.add(key)
        done = scores.get(key, {})
        rows.append(
            TrialFacts(
                model=trial.model,
                title=title_of(state, trial.model),
                trial=trial.trial,
                status="ok" if not trial.pruned else "failed" if key in failed else "pruned",
                score=trial.score,
                seconds=trial.seconds or sum(seconds for _, seconds in done.values()),
                folds=len(done),
                n_folds=n_folds,
                reason=trial.reason,
                params=trial.params,
                best=not trial.pruned and best.get(trial.model, (0.0, -1))[1] == trial.trial,
            )
        )
    running = {(fit.model, fit.trial): fit.folds for fit in state.active.values()}
    under_way = {**dict.fromkeys(scores, n_folds), **running}
    for (model, trial), folds in under_way.items():
        if (model, trial) not in ended:
            done = scores.get((model, trial), {})
            known = [score for score, _ in done.values() if score is not None]
            rows.append(
                TrialFacts(
                    model=model,
                    title=title_of(state, model),
                    trial=trial,
                    status="running" if (model, trial) in running else "incomplete",
                    score=fmean(known) if known else None,
                    seconds=sum(seconds for _, seconds in done.values()),
                    folds=len(done),
                    n_folds=folds,
                )
            )
    return rows[::-1]


def sort_trials(rows: Sequence[TrialFacts], by: str, *, greater_is_better: bool) -> list[TrialFacts]:
    """Trials by "newest", "score", "time" or "model"; those without a score come last."""
    sign = -1 if greater_is_better else 1
    keys: dict[str, Callable[[TrialFacts], tuple[object, ...]]] = {
        "score": lambda row: (not row.is_complete, math.inf if row.score is None else sign * row.score),
        "time": lambda row: (-row.seconds,),
        "model": lambda row: (row.title.casefold(), row.trial),
    }
    return sorted(rows, key=keys[by]) if by in keys else list(rows)  # pyright: ignore[reportArgumentType]


def varied_parameters(rows: Sequence[TrialFacts]) -> list[str]:
    """The hyperparameters that differ between trials, in their own order."""
    names = dict.fromkeys(name for row in rows for name in row.params)
    return [name for name in names if len({repr(row.params.get(name)) for row in rows if row.params}) > 1]


@dataclass(frozen=True)
class Slice:
    """A hyperparameter against the score, ready to be drawn.

    Attributes:
        points: (place of the value, score) of each complete trial.
        keys: of the trials, in the order of the points.
        categories: the values in their order when they are no numbers; places count from 0.
        logarithmic: places are decimal logarithms.
    """

    parameter: str
    points: tuple[charts.Point, ...]
    keys: tuple[str, ...]
    categories: tuple[str, ...] = ()
    logarithmic: bool = False


def slice_of(rows: Sequence[TrialFacts], parameter: str) -> Slice:
    """The scores of complete trials over one hyperparameter; over its logarithm where it spans more than a factor of 50."""
    shown = [row for row in rows if row.is_complete and parameter in row.params]
    scores = [row.score for row in shown if row.score is not None]
    values = [row.params[parameter] for row in shown]
    keys = tuple(row.key for row in shown)
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        categories = tuple(sorted({str(value) for value in values}))
        places = [float(categories.index(str(value))) for value in values]
        return Slice(parameter, tuple(zip(places, scores, strict=True)), keys, categories)
    logarithmic = bool(numbers) and min(numbers) > 0 and max(numbers) > 50 * min(numbers)
    places = [math.log10(value) if logarithmic else value for value in numbers]
    return Slice(parameter, tuple(zip(places, scores, strict=True)), keys, (), logarithmic)


def changes(trial: TrialView, trials: Sequence[TrialView]) -> str:
    """The hyperparameters of a trial, those only that differ between the trials if any do."""
    varied = [name for name in trial.params if len({repr(each.params.get(name)) for each in trials}) > 1]
    return "  ".join(f"{name}={brief(trial.params[name])}" for name in varied or trial.params)


def plot(values: list[charts.Point], width: int, height: int) -> list[Content]:
    """A line chart with the values at its edges written to the left."""
    low, high = charts.extent([value for _, value in values])
    labels = charts.axis_labels(low, high, height, format_score)
    room = width - len(labels[0]) - 1 if labels else 0
    lines = charts.braille_line(values, room, height, y_range=(low, high))
    return [
        Content.assemble((label, MUTED), " ", (line, "$primary")) for label, line in zip(labels, lines, strict=True)
    ]
