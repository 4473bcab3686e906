"""The facts of a model's best trial, and the differences of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.state import RunState, member_title
from tabapp.tui.viewmodels.texts import model_name

Curve = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class ModelCard:
    """A model at its best trial, or at its latest trial if none has a score.

    Attributes:
        name: its title with the number of the trial.
        defaults: the hyperparameters of trial 0; None while that has not ended, and for the ensemble.
        folds: the score of each fold, None where it is not known.
        curves: learning curves of the trial's fits, as (step, value).
        members: those of the ensemble, by name.
        evaluation: what its out-of-fold predictions look like, once a trial is complete.
        evaluated: what `evaluation` describes if that is no longer the row's score, such as "trial 3"; else empty.
    """

    row: ev.LeaderboardRow
    name: str
    trial: int | None
    params: dict[str, object]
    defaults: dict[str, object] | None
    folds: tuple[float | None, ...]
    curves: tuple[Curve, ...]
    members: tuple[tuple[str, float], ...] = ()
    evaluation: ev.EvaluationReady | None = None
    evaluated: str = ""


@dataclass(frozen=True)
class Difference:
    """A hyperparameter with a value for each model (None where a model has none), and the default. It can differ only if all models
    have it."""

    name: str
    values: tuple[object, ...]
    default: object
    differs: bool


@dataclass(frozen=True)
class Comparison:
    """One model, or two models scored by the same metric."""

    cards: tuple[ModelCard, ...] = ()
    metric: str = "Score"
    greater_is_better: bool = True
    validation: str = ""
    n_members: int = 0
    n_folds: int = 0
    is_regression: bool = False
    is_over: bool = False
    frame: int | None = field(default=None, compare=False)


def model_card(state: RunState, model: str) -> ModelCard | None:
    """The card of a model; None if the leaderboard has no such row."""
    row = next((row for row in state.leaderboard if row.model == model), None)
    if row is None:
        return None
    trials = [trial for trial in state.trials if trial.model == model]
    numbers = [trial.trial for trial in trials] + [fit.trial for fit in state.active.values() if fit.model == model]
    number = row.trial if row.trial is not None else max(numbers, default=None)
    shown = next((trial for trial in trials if trial.trial == number), None)
    defaults = next((trial.params for trial in trials if trial.trial == 0), None)
    fits = [fit for fit in state.fits.values() if (fit.model, fit.trial) == (model, number)]
    running = [fit for fit in state.active.values() if (fit.model, fit.trial) == (model, number)]
    scores = {fit.fold: fit.score for fit in fits}
    n_folds = state.plan.folds if state.plan else max(scores, default=-1) + 1
    curves = [fit.curve for fit in (*fits, *running) if len(fit.curve) > 1]
    evaluation = state.evaluations.get(model)
    members = state.ensemble.members if model == "ensemble" and state.ensemble is not None else ()
    return ModelCard(
        row=row,
        name=model_name(row),
        trial=number,
        params=row.params or (shown.params if shown is not None else {}),
        defaults=defaults,
        folds=tuple(scores.get(fold) for fold in range(n_folds)) if scores else (),
        curves=tuple(curves),
        members=tuple((member_title(state, member), member.weight) for member in members),
        evaluation=evaluation,
        evaluated=earlier_subject(evaluation, state.leaderboard) if evaluation is not None else "",
    )


def differences(cards: Sequence[ModelCard]) -> list[Difference]:
    """The hyperparameters of one model and its defaults, or of two models; differing ones come first."""
    names = dict.fromkeys(name for card in cards for name in card.params)
    rows: list[Difference] = []
    for name in names:
        values = tuple(card.params.get(name) for card in cards)
        default = next((card.defaults[name] for card in cards if card.defaults and name in card.defaults), None)
        if len(cards) > 1 and all(value is None for value in values):
            continue
        if len(cards) > 1:
            is_shared = all(name in card.params for card in cards)
            differs = is_shared and len({repr(value) for value in values}) > 1
        else:
            differs = default is not None and repr(default) != repr(values[0])
        rows.append(Difference(name, values, default, differs))
    return sorted(rows, key=lambda row: (not row.differs, any(value is None for value in row.values)))


def score_verdict(cards: Sequence[ModelCard]) -> str:
    """Whether the scores of two models differ, judged by their 95 % intervals; empty where one is not known."""
    if len(cards) != 2:
        return ""
    known = [
        (row.score, row.low, row.high)
        for row in (card.row for card in cards)
        if row.score is not None and row.low is not None and row.high is not None
    ]
    if len(known) != 2:
        return ""
    (score_a, low_a, high_a), (score_b, low_b, high_b) = known
    if high_a < low_b or high_b < low_a:
        return "the 95 % intervals do not overlap: they differ"
    is_inside = low_a <= score_b <= high_a and low_b <= score_a <= high_b
    return (
        "no clear difference: each is in the other's 95 % interval"
        if is_inside
        else "may differ: the 95 % intervals overlap"
    )
