"""The lines of a run's feed: a sentence for each event that a reader of the log wants to know of."""

from __future__ import annotations

from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import analysis_of, title_of_request
from tabapp.run.record.importance_notes import is_incomplete, measured
from tabapp.run.record.score_text import format_score, score_with_folds, some_folds, written_like
from tabapp.run.record.state import RunState, title_of


def describe(event: ev.AnyEvent, state: RunState) -> tuple[str, str] | None:
    """Kind and text of the line of an event, or None if it has no line.

    Args:
        state: the state before the event. While the run works on one of several targets, its engine reads the table again.
    """
    plan, in_target = state.plan, state.target_index is not None
    match event:
        case ev.RunStarted():
            return "info", f"{'Resumed' if event.resumed else 'Started'} run {event.run}"
        case ev.DataRead():
            return (
                None if in_target else ("info", f"Read {event.rows:,} rows × {event.columns} columns of {event.file}")
            )
        case ev.PlanMade():
            line = _plan_line(event, in_target)
            return None if plan is not None and line == _plan_line(plan, in_target) else ("info", line)
        case ev.PlanRefused():
            return "warn", event.message
        case ev.FitStarted() | ev.FitFinished() | ev.FitFailed():
            return _fit_line(event, title_of(state, event.model))
        case ev.TrialFinished():
            return "trial", f"{title_of(state, event.model)} #{event.trial} {format_score(event.score)}"
        case ev.TrialPruned():
            return "prune", f"{title_of(state, event.model)} #{event.trial}: {event.reason}"
        case ev.EnsembleChanged():
            n_members = len(event.members)
            score = score_with_folds(event, plan.folds if plan is not None else 0)
            return "ensemble", f"{n_members} member{'s' if n_members > 1 else ''} → {score}"
        case ev.ScoreSettled():
            ending = ", so that fitting ends" if event.ends else ""
            noise = format_score(event.half_width)
            gain = written_like(event.gain, event.half_width)
            added = f"at most {gain}" if gain.strip("0.") else "nothing"
            return "info", f"More time would probably add {added} to a score of ±{noise}{ending}"
        case ev.ImportancesReady():
            if not event.rows:
                return "info", f"No time for importances of {title_of(state, event.model)}"
            incomplete = f": {measured(event)} measured" if is_incomplete(event) else ""
            rows = f"{event.n_rows:,} held-out rows"
            what = "Preliminary importances" if event.preliminary else "Importances"
            return "info", f"{what} of {title_of(state, event.model)} on {rows}{incomplete}"
        case ev.SlicesReady():
            clear = sum(row.clear for row in event.rows)
            found = f"{clear} clearly worse" if clear else "none clearly worse than the rest"
            return "info", f"Looked for weak slices among {event.tested}: {found}"
        case ev.AnalysisEvent():
            line = analysis_of(event).line
            return None if line is None else ("info", line(event, state))
        case ev.AnalysisStarted():
            return "info", f"Analysis started: {title_of_request(event.option, event.value)}"
        case ev.AnalysisEnded():
            return _end_of_analysis(event)
        case ev.Log():
            return {"warning": "warn"}.get(event.level, event.level), event.message
        case ev.TargetStarted():
            return "info", f"Target {event.index + 1} of {len(event.targets)}: {event.target}"
        case ev.TargetFinished():
            return _result_line(event.result, state)
        case ev.RunFinished():
            folds = some_folds(event.folds, event.planned_folds)
            done = f"The run is done; its scores cover only {folds}" if folds else "The run is done"
            return ("info" if event.status == "ok" and not folds else "warn"), event.message or done
        case _:
            return None


def _fit_line(event: ev.FitStarted | ev.FitFinished | ev.FitFailed, title: str) -> tuple[str, str] | None:
    """The feed line of a fit."""
    where = f"{title} #{event.trial} fold {event.fold + 1}" + (f" seed {event.seed + 1}" if event.seed else "")
    match event:
        case ev.FitStarted():
            return ("fit", f"{where} starts: {event.reason}") if event.reason else None
        case ev.FitFinished():
            return "fit", f"{where} {format_score(event.score)} in {format_duration(event.seconds)}"
        case ev.FitFailed():
            return "error", f"{where}: {event.reason}"


def _end_of_analysis(event: ev.AnalysisEnded) -> tuple[str, str] | None:
    """The feed line at the end of an analysis; a result has a line of its own."""
    title = title_of_request(event.option, event.value)
    match event.status:
        case "done":
            return None
        case "canceled":
            return "info", f"Analysis canceled: {title}"
        case _:
            return "warn", f"No result of the analysis {title}: {event.message}"


def _result_line(result: ev.TargetResult, state: RunState) -> tuple[str, str]:
    """The feed line of the result of a target."""
    plan = state.plan
    if result.best is None or plan is None:
        return "warn", f"{result.target}: {result.message}"
    folds = some_folds(result.folds, result.planned_folds)
    score = f"{plan.metric_title} {format_score(result.best.score)}" + (f" ({folds})" if folds else "")
    return "info", f"{result.target}: {title_of(state, result.best.model)} {score} in {format_duration(result.seconds)}"


def _plan_line(plan: ev.PlanMade, in_target: bool) -> str:
    """The feed line of a plan. A new budget or model leaves it unchanged and adds no line."""
    if len(plan.targets) > 1 and not in_target:
        return f"{len(plan.targets)} targets: {', '.join(plan.targets)}"
    return f"{plan.target}: {plan.task}, {plan.metric_title}, {plan.validation}"
