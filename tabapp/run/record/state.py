"""The state of a run as a pure function of its events. Every view shows this state and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import msgspec

from tabapp.run.options.config import quoted_command
from tabapp.run.options.targets import is_folder_of_target
from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject, is_current
from tabapp.run.record.feed import describe
from tabapp.run.record.score_text import format_score as format_score
from tabapp.run.record.score_text import is_partial as is_partial
from tabapp.run.record.undefined import OptionalScore
from tabapp.run.record.used_time import seconds_used as seconds_used

FEED_LENGTH = 500
RESOURCES_LENGTH = 120
CURVE_LENGTH = 200
KEPT_CURVE_LENGTH = 60


class ActiveFit(msgspec.Struct, frozen=True, kw_only=True):
    """A running fit, with its learning curve so far as (step, value)."""

    fit: str
    model: str
    trial: int
    fold: int
    folds: int
    started: float
    curve: tuple[tuple[int, float], ...] = ()


class FinishedFit(msgspec.Struct, frozen=True, kw_only=True):
    """A complete fit: its score on the fold's held-out rows, and its thinned learning curve as (step, value)."""

    model: str
    trial: int
    fold: int
    score: OptionalScore
    seconds: float
    curve: tuple[tuple[int, float], ...] = ()


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
    deadline: float | None = None
    stage: ev.Stage = "starting"
    paused: bool = False
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
    importances: ev.ImportancesReady | None = None
    evaluations: dict[str, ev.EvaluationReady] = {}
    """The latest diagnostics by model, including the ensemble."""
    parameter_importances: dict[str, ev.ParametersRanked] = {}
    slices: ev.SlicesReady | None = None
    effects: ev.EffectsReady | None = None
    threshold: ev.ThresholdChosen | None = None
    robustness: ev.RobustnessReady | None = None
    row_curve: ev.RowCurveReady | None = None
    time_curve: ev.TimeCurveReady | None = None
    fairness: dict[str, ev.FairnessReady] = {}
    """By column."""
    dependence: ev.DependenceReady | None = None
    interactions: ev.InteractionsReady | None = None
    attention: dict[str, ev.AttentionReady] = {}
    """By model."""
    faithfulness: ev.FaithfulnessReady | None = None
    resources: tuple[ev.Resources, ...] = ()
    feed: tuple[FeedLine, ...] = ()
    finished: ev.RunFinished | None = None
    targets: tuple[TargetState, ...] = ()
    target_index: int | None = None
    """The place of the current target among `targets`."""

    @property
    def best(self) -> ev.LeaderboardRow | None:
        """The first row with a score, if any."""
        return next((row for row in self.leaderboard if row.score is not None), None)


def is_new_best(row: ev.LeaderboardRow, plan: ev.PlanMade | None, last: float | None) -> bool:
    """Whether the first row of a leaderboard is better than the last best; a score of some folds is not comparable."""
    if row.score is None or plan is None or is_partial(row, plan.folds):
        return False
    sign = 1 if plan.greater_is_better else -1
    return last is None or sign * row.score > sign * last


def _with_best(state: RunState) -> RunState:
    """A state whose history includes the best score of its leaderboard."""
    best, last = state.best, state.history[-1][1] if state.history else None
    if best is None or best.score is None or not is_new_best(best, state.plan, last):
        return state
    return msgspec.structs.replace(state, history=(*state.history, (state.time, best.score)))


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


def subject_of(state: RunState, found: ev.Described) -> str:
    """The title of what an evaluation or an analysis describes; it names the trial or the earlier ensemble if the leaderboard shows
    another one by now."""
    title, earlier = title_of(state, found.model), earlier_subject(found, state.leaderboard)
    return title if not earlier else earlier if found.model == ev.ENSEMBLE else f"{title} ({earlier})"


_ANALYSES = (
    "importances", "slices", "effects", "threshold", "robustness", "row_curve", "time_curve", "dependence", "interactions",
    "faithfulness",
)  # fmt: skip
_NAMED_ANALYSES = ("evaluations", "fairness", "attention")


def _without_earlier(state: RunState) -> RunState:
    """A state that has ended, without what describes earlier ensembles and earlier best trials."""
    rows = state.leaderboard
    changes: dict[str, object] = {}
    for name in _ANALYSES:
        found = getattr(state, name)
        changes[name] = found if found is not None and is_current(found, rows) else None
    for name in _NAMED_ANALYSES:
        changes[name] = {key: found for key, found in getattr(state, name).items() if is_current(found, rows)}
    return msgspec.structs.replace(state, **changes)


def _decimate(curve: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    return curve[::2] if len(curve) > CURVE_LENGTH else curve


def _thin(curve: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """Reduce a curve to at most `KEPT_CURVE_LENGTH` points; the last point is kept."""
    stride = -(-len(curve) // KEPT_CURVE_LENGTH) or 1
    return curve[::-1][::stride][::-1]


_OF_THE_WHOLE_RUN = frozenset(
    {"seq", "time", "run", "name", "data", "seed", "read", "resources", "feed", "targets", "target_index"}
)
_OF_A_TARGET = {name: getattr(RunState(), name) for name in RunState.__struct_fields__ if name not in _OF_THE_WHOLE_RUN}
"""The fields of a state that belong to the current target, with their values before any event."""


def _start_target(state: RunState, event: ev.TargetStarted) -> dict[str, object]:
    """The changes of a state when the run turns to a target."""
    if not 0 <= event.index < len(event.targets):
        return {}
    known = {view.target: view for view in state.targets}
    targets = [known.get(name) or TargetState(target=name) for name in event.targets]
    # The folder of a run from elsewhere may be anything; one outside of the run is not opened.
    folder = event.folder if is_folder_of_target(event.folder) else ""
    targets[event.index] = TargetState(target=event.target, folder=folder)
    # The run as a whole has started: no view may take it for one that only reads its table.
    return {
        **_OF_A_TARGET,
        "stage": "fitting",
        "started": event.t,
        "fitting_since": event.t,
        "targets": tuple(targets),
        "target_index": event.index,
    }


def _finish_target(state: RunState, event: ev.TargetFinished) -> dict[str, object]:
    """The changes of a state when the run of a target has ended: its state is kept."""
    finished = ev.RunFinished(**msgspec.structs.asdict(event.result))
    own = msgspec.structs.replace(
        state, finished=finished, stage="done", active={}, paused=False, feed=(), resources=(), targets=()
    )
    if event.result.leaderboard:
        own = msgspec.structs.replace(own, leaderboard=event.result.leaderboard)
    own = _without_earlier(_with_best(own))
    targets = list(state.targets)
    if event.index < len(targets):
        targets[event.index] = msgspec.structs.replace(targets[event.index], state=own)
    return {"targets": tuple(targets), "active": {}}


def _finish_run(state: RunState, event: ev.RunFinished) -> dict[str, object]:
    """The changes of a state at the end: in a run with several targets, it is that of the first again."""
    first = state.targets[0].state if state.targets else None
    restored = {} if first is None else {name: getattr(first, name) for name in _OF_A_TARGET}
    changes: dict[str, object] = {**restored, "finished": event, "stage": "done", "active": {}, "paused": False}
    if first is not None:
        changes["target_index"] = 0
    if event.leaderboard:
        changes["leaderboard"] = event.leaderboard
    return changes


def reduce(state: RunState, event: ev.AnyEvent) -> RunState:
    """The state after one more event, without modifying the old state. An event that is already included changes nothing."""
    if event.seq and event.seq <= state.seq:
        return state
    changes: dict[str, object] = {"seq": event.seq, "time": event.t}
    match event:
        case ev.RunStarted():
            changes |= {
                "run": event.run,
                "name": event.name,
                "data": event.data,
                "seed": event.seed,
                "started": event.t,
                "active": {},
                "finished": None,
                "paused": False,
                "threshold": None,
                "robustness": None,
                "row_curve": None,
                "time_curve": None,
                "fairness": {},
                "dependence": None,
                "interactions": None,
                "attention": {},
                "faithfulness": None,
            }
        case ev.StageChanged():
            changes |= {"stage": event.stage, "paused": event.paused, "deadline": event.deadline}
            if event.stage == "fitting" and state.fitting_since is None:
                changes["fitting_since"] = event.t
        case ev.DataRead():
            changes["read"] = event
        case ev.SchemaInferred():
            changes["schema"] = event
        case ev.PlanMade():
            plan = msgspec.structs.replace(event, command=quoted_command(event.command))
            changes |= {"plan": plan, "refusal": None}
        case ev.PlanRefused():
            changes["refusal"] = event.message
        case ev.FitStarted():
            fit = ActiveFit(
                fit=event.fit,
                model=event.model,
                trial=event.trial,
                fold=event.fold,
                folds=event.folds,
                started=event.t,
            )
            changes["active"] = {**state.active, event.fit: fit}
        case ev.FitProgress():
            running = state.active.get(event.fit)
            if running is not None and isfinite(event.value):
                curve = _decimate((*running.curve, (event.step, event.value)))
                changes["active"] = {**state.active, event.fit: msgspec.structs.replace(running, curve=curve)}
        case ev.FitFinished():
            running = state.active.get(event.fit)
            fit = FinishedFit(
                model=event.model,
                trial=event.trial,
                fold=event.fold,
                score=event.score,
                seconds=event.seconds,
                curve=_thin(running.curve) if running is not None else (),
            )
            changes["fits"] = {**state.fits, event.fit: fit}
            changes["active"] = {name: fit for name, fit in state.active.items() if name != event.fit}
        case ev.FitFailed():
            changes["active"] = {name: fit for name, fit in state.active.items() if name != event.fit}
            changes["failures"] = (*state.failures, event)
        case ev.TrialFinished():
            view = TrialView(
                model=event.model,
                trial=event.trial,
                score=event.score,
                seconds=event.seconds,
                params=event.params,
            )
            changes["trials"] = (*state.trials, view)
        case ev.TrialPruned():
            view = TrialView(
                model=event.model,
                trial=event.trial,
                score=event.score,
                pruned=True,
                reason=event.reason,
                params=event.params,
            )
            changes["trials"] = (*state.trials, view)
            changes["active"] = {
                name: fit for name, fit in state.active.items() if (fit.model, fit.trial) != (event.model, event.trial)
            }
        case ev.LeaderboardChanged():
            changes["leaderboard"] = event.rows
        case ev.EnsembleChanged():
            changes["ensemble"] = event
        case ev.ImportancesReady():
            changes["importances"] = event
        case ev.EvaluationReady():
            changes["evaluations"] = {**state.evaluations, event.model: event}
        case ev.ParametersRanked():
            changes["parameter_importances"] = {**state.parameter_importances, event.model: event}
        case ev.SlicesReady():
            changes["slices"] = event
        case ev.EffectsReady():
            changes["effects"] = event
        case ev.ThresholdChosen():
            changes["threshold"] = event if event.value is not None else None
        case ev.RobustnessReady():
            changes["robustness"] = event
        case ev.RowCurveReady():
            changes["row_curve"] = event
        case ev.TimeCurveReady():
            changes["time_curve"] = event
        case ev.FairnessReady():
            changes["fairness"] = {**state.fairness, event.column: event}
        case ev.DependenceReady():
            changes["dependence"] = event
        case ev.InteractionsReady():
            changes["interactions"] = event
        case ev.AttentionReady():
            changes["attention"] = {**state.attention, event.model: event}
        case ev.FaithfulnessReady():
            changes["faithfulness"] = event
        case ev.Resources():
            changes["resources"] = (*state.resources[-RESOURCES_LENGTH + 1 :], event)
        case ev.Log():
            pass
        case ev.TargetStarted():
            changes |= _start_target(state, event)
        case ev.TargetFinished():
            changes |= _finish_target(state, event)
        case ev.RunFinished():
            changes |= _finish_run(state, event)
    in_target = state.target_index is not None
    line = describe(event, state.plan, lambda model: title_of(state, model), in_target=in_target)
    if line is not None:
        shown = FeedLine(t=event.t, kind=line[0], text=line[1], target=state.target_index)
        changes["feed"] = (*state.feed[-FEED_LENGTH + 1 :], shown)
    state = msgspec.structs.replace(state, **changes)
    if "leaderboard" in changes:
        state = _with_best(state)
    return _without_earlier(state) if isinstance(event, ev.RunFinished) else state


def replay(stream: Iterable[ev.AnyEvent]) -> RunState:
    """The state after a stream of events."""
    state = RunState()
    for event in stream:
        state = reduce(state, event)
    return state
