"""The facts of a model's best trial, and the differences of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.state import RunState, title_of
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
    """A hyperparameter with a value for each model (None where a model has none), and the default."""

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
        members=tuple((f"{title_of(state, member.model)} #{member.trial}", member.weight) for member in members),
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
        if len(cards) > 1:
            differs = any(name not in card.params for card in cards) or len({repr(value) for value in values}) > 1
        else:
            differs = default is not None and repr(default) != repr(values[0])
        rows.append(Difference(name, values, default, differs))
    return sorted(rows, key=lambda row: not row.differs)
