"""The state of a run. Every view shows this state and nothing else; `tabapp.run.record.reducing` makes it from the events."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.score_text import format_score as format_score
from tabapp.run.record.score_text import is_partial as is_partial
from tabapp.run.record.undefined import OptionalScore
from tabapp.run.record.used_time import seconds_used as seconds_used

AnalysisT = TypeVar("AnalysisT", bound=ev.AnalysisEvent)


class ActiveFit(msgspec.Struct, frozen=True, kw_only=True):
    """A running fit, with its learning curve so far as (step, value), why it was chosen, and its expected seconds."""

    fit: str
    model: str
    trial: int
    fold: int
    folds: int
    started: float
    curve: tuple[tuple[int, float], ...] = ()
    reason: str = ""
    seconds: float | None = None
    device: str | None = None


class FinishedFit(msgspec.Struct, frozen=True, kw_only=True):
    """A complete fit: its score on the fold's held-out rows, its thinned learning curve as (step, value), and why it was chosen."""

    model: str
    trial: int
    fold: int
    score: OptionalScore
    seconds: float
    curve: tuple[tuple[int, float], ...] = ()
    reason: str = ""


class EnsembleStep(msgspec.Struct, frozen=True, kw_only=True):
    """The score of an ensemble with its interval, and the models that joined it.

    `seconds` is the time of fitting until then. `is_final` marks ensembles that were selected after fitting, more thoroughly.
    """

    seconds: float
    score: OptionalScore
    low: OptionalScore = None
    high: OptionalScore = None
    n_members: int = 0
    is_final: bool = False
    joined: tuple[str, ...] = ()


class TrialView(msgspec.Struct, frozen=True, kw_only=True):
    """A finished trial. `score` is None when it was pruned before it had one, or the metric is undefined on its rows."""

    model: str
    trial: int
    score: float | None
    pruned: bool = False
    reason: str = ""
    seconds: float = 0.0
    params: dict[str, object] = {}


class FeedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the event feed: time, kind (fit, trial, prune, ensemble, warn, error, info) and a sentence.

    `target` is the place of its target in a run with several.
    """

    t: float
    kind: str
    text: str
    target: int | None = None


class AnalysisUnderway(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis that a process has begun. `share` is the share of its work that is done, None before it is known."""

    option: str
    value: str | None
    model: str | None
    since: float
    share: float | None = None


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """One target of a run with several, and the folder of its run, relative to that of the whole run. `state` is that of its run,
    None before it has ended."""

    target: str
    folder: str = ""
    state: RunState | None = None


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a view may show. `seq` is the number of the last event.

    In a run with several targets, the state is that of the current target and, at the end, that of the first; `targets` has the
    states of all targets that have ended.
    """

    seq: int = 0
    time: float = 0.0
    run: str = ""
    name: str = ""
    data: str = ""
    seed: int = 0
    started: float | None = None
    """When the engine started or last resumed the run."""
    fitting_since: float | None = None
    idle: float = 0.0
    """Seconds since then without fitting: while paused, and between sessions."""
    deadline: float | None = None
    stage: ev.Stage = "starting"
    paused: bool = False
    paused_at: float = 0.0
    read: ev.DataRead | None = None
    schema: ev.SchemaInferred | None = None
    plan: ev.PlanMade | None = None
    refusal: str | None = None
    active: dict[str, ActiveFit] = {}
    leaderboard: tuple[ev.LeaderboardRow, ...] = ()
    history: tuple[tuple[float, float], ...] = ()
    """(time, score) of each new best score over all folds."""
    trials: tuple[TrialView, ...] = ()
    failures: tuple[ev.FitFailed, ...] = ()
    fits: dict[str, FinishedFit] = {}
    ensemble: ev.EnsembleChanged | None = None
    steps: tuple[EnsembleStep, ...] = ()
    """The ensembles so far, those that changed neither members nor score left out."""
    settled: ev.ScoreSettled | None = None
    """Set once more time is expected to add little; a resumed run starts without it."""
    comparison: ev.EnsembleCompared | None = None
    planned: ev.FitsPlanned = ev.FitsPlanned()
    importances: ev.ImportancesReady | None = None
    evaluations: dict[str, ev.EvaluationReady] = {}
    """The latest diagnostics by model, including the ensemble."""
    parameter_importances: dict[str, ev.ParametersRanked] = {}
    slices: ev.SlicesReady | None = None
    effects: ev.EffectsReady | None = None
    analyses: dict[str, ev.AnalysisEvent] = {}
    """The latest results of analyses, by kind and `AnalysisEvent.part`."""
    underway: AnalysisUnderway | None = None
    """The analysis in progress; its process may have been killed, which only the lock of the run shows."""
    resources: tuple[ev.Resources, ...] = ()
    feed: tuple[FeedLine, ...] = ()
    finished: ev.RunFinished | None = None
    is_stopped: bool = False
    """Whether the engine has ended without a result. No event says so; see `stopping.stopped`."""
    targets: tuple[TargetState, ...] = ()
    target_index: int | None = None
    """The place of the current target among `targets`."""

    @property
    def is_over(self) -> bool:
        """Whether no engine works on the run."""
        return self.finished is not None or self.is_stopped

    def fitting_seconds(self, now: float) -> float:
        """Seconds of fitting until a time."""
        if self.fitting_since is None:
            return 0.0
        return max(0.0, (self.paused_at if self.paused else now) - self.fitting_since - self.idle)

    @property
    def best(self) -> ev.LeaderboardRow | None:
        """The first row with a score, if any."""
        return next((row for row in self.leaderboard if row.score is not None), None)

    def results(self, kind: type[AnalysisT]) -> list[AnalysisT]:
        """The results of one kind of analysis; most kinds have at most one."""
        return [found for found in self.analyses.values() if isinstance(found, kind)]

    def result(self, kind: type[AnalysisT]) -> AnalysisT | None:
        """The first result of one kind of analysis."""
        return next(iter(self.results(kind)), None)


def is_new_best(row: ev.LeaderboardRow, plan: ev.PlanMade | None, last: float | None) -> bool:
    """Whether the first row of a leaderboard is better than the last best; a score of some folds is not comparable."""
    if row.score is None or plan is None or is_partial(row, plan.folds):
        return False
    sign = 1 if plan.greater_is_better else -1
    return last is None or sign * row.score > sign * last


def history_until_now(state: RunState) -> tuple[tuple[float, float], ...]:
    """The history, extended with the last best score to the time of the last event."""
    if not state.history or state.history[-1][0] == state.time:
        return state.history
    return (*state.history, (state.time, state.history[-1][1]))


def title_of(state: RunState, model: str) -> str:
    """The title of a model in the plan, or its name without a plan."""
    if model == ev.ENSEMBLE:
        return "Ensemble"
    models = state.plan.models if state.plan else ()
    return next((view.title for view in models if view.name == model), model)


def member_title(state: RunState, member: ev.EnsembleMember) -> str:
    """The title of a member of the ensemble with its trial, and its seeds if they are several."""
    seeds = f" × {member.seeds} seeds" if member.seeds > 1 else ""
    return f"{title_of(state, member.model)} #{member.trial}{seeds}"


def subject_of(state: RunState, found: ev.Described) -> str:
    """The title of what an evaluation or an analysis describes; it names the trial or the earlier ensemble if the leaderboard shows
    another one by now."""
    title, earlier = title_of(state, found.model), earlier_subject(found, state.leaderboard)
    return title if not earlier else earlier if found.model == ev.ENSEMBLE else f"{title} ({earlier})"
