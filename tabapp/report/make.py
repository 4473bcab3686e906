"""A report from the state of a run. Pure: no file is read, and the numbers are those that the screens show."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from tabapp.report.diagnoses import analysis_parts
from tabapp.report.examples import Example, example_parts
from tabapp.report.importances import importance_parts
from tabapp.report.parts import Bar, Bars, Facts, Part, Report, Section, Table, Text
from tabapp.report.quality import quality_parts, slice_parts
from tabapp.report.verdict import verdict_parts
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Lines, Series
from tabapp.run.record.score_text import folds_text, interval_text, score_with_folds, validation_of
from tabapp.run.record.state import RunState, format_score, is_partial, member_title, subject_of
from tabapp.run.texts.differences import mark_of
from tabapp.run.texts.mean_score import mean_score, partial_note
from tabapp.run.texts.model_summary import summary_rows

MAX_CLASSES_OF_EFFECT = 6


def make_report(
    state: RunState, *, environment: Mapping[str, str] | None = None, examples: Sequence[Example] = ()
) -> Report:
    """Make the report of a run, finished or not.

    Args:
        environment: the machine and the versions of the run; None if unknown.
        examples: explained rows.
    """
    states = [view.state for view in state.targets if view.state is not None]
    if states:
        return _of_targets(state, states, environment or {})
    sections = (
        ("Result", [*verdict_parts(state), *_result(state)]),
        ("Data", _data(state)),
        ("Plan", _plan(state)),
        ("Leaderboard", _leaderboard(state)),
        ("Ensemble", _ensemble(state)),
        ("Quality of the predictions", quality_parts(state)),
        ("Threshold, robustness, groups and other rows", analysis_parts(state, of_columns=False)),
        ("Importances", importance_parts(state)),
        ("Correlated columns, interactions and attention", analysis_parts(state, of_columns=True)),
        ("Effects", _effects(state)),
        ("Weak slices", slice_parts(state)),
        ("Example rows", example_parts(examples)),
        ("Hyperparameters", _hyperparameters(state)),
        ("Problems", _problems(state)),
        ("Environment", _environment(environment or {})),
        ("Reproduce", _reproduce(state)),
    )
    file = state.read.file if state.read else state.data
    target = f" · {state.plan.target}" if state.plan else ""
    return Report(
        f"{PurePath(file).name}{target}",
        summary_of(state),
        tuple(Section(title, tuple(parts)) for title, parts in sections if parts),
    )


def _of_targets(state: RunState, states: Sequence[RunState], environment: Mapping[str, str]) -> Report:
    """The report of a run with several targets: the result, and then the report of each."""
    results = [
        (
            each.plan.target if each.plan else "",
            each.plan.task if each.plan else "",
            each.best.title if each.best else "—",
            each.plan.metric_title if each.plan else "",
            _interval(each.best, each) if each.best else (each.finished.message if each.finished else "—"),
        )
        for each in states
    ]
    parts: list[Part] = [
        Table("Targets", ("Target", "Task", "Best model", "Metric", "Out-of-fold score"), tuple(results))
    ]
    if mean := mean_score(state):
        parts.append(Text(f"The mean {mean[0]} over the targets is {format_score(mean[1])}{partial_note(state)}."))
    sections = [Section("Targets", tuple(parts))]
    for each in states:
        target = each.plan.target if each.plan else ""
        own = make_report(each)
        sections += [Section(f"{target} · {section.title}", section.parts) for section in own.sections]
    if environment:
        sections.append(Section("Environment", tuple(_environment(environment))))
    file = state.read.file if state.read else state.data
    names = ", ".join(view.target for view in state.targets)
    # The sentence on a target without a model does not name it.
    found = [
        summary_of(each) if each.best or each.plan is None else f"{each.plan.target}: {summary_of(each)}"
        for each in states
    ]
    return Report(f"{PurePath(file).name} · {names}", " ".join(found), tuple(sections))


def summary_of(state: RunState) -> str:
    """The result in one sentence."""
    best, plan = state.best, state.plan
    if best is None or plan is None:
        return (
            "No model has a score yet." if state.finished is None else state.finished.message or "No model has a score."
        )
    return (
        f"{best.title} predicts {plan.target}; its {plan.metric_title} is {_interval(best, state)}, "
        f"measured by {validation_of(best, plan.folds, plan.validation)} on rows that its models were not trained on."
    )


def _interval(row: ev.LeaderboardRow, state: RunState) -> str:
    score, partial = format_score(row.score), folds_text(row, state.plan.folds if state.plan else 0)
    interval = "" if row.low is None else f" (95 % interval {interval_text(row, ' to ')})"
    return f"{score}{interval}" + (f" on {partial}" if partial else "")


def _result(state: RunState) -> list[Part]:
    plan, finished, best = state.plan, state.finished, state.best
    rows = [("Run", state.run)]
    if state.started is not None:
        rows.append(("Started", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(state.started))))
    if finished is not None:
        rows += [("Status", finished.status), ("Duration", format_duration(finished.seconds))]
    else:
        rows.append(("Status", f"not finished ({state.stage})"))
    if plan is not None:
        rows += [("Target", plan.target), ("Task", plan.task), ("Metric", plan.metric_title)]
    if best is not None and plan is not None:
        rows += [("Best model", best.title), (f"Out-of-fold {plan.metric_title}", _interval(best, state))]
    if finished is not None and finished.test_score is not None and plan is not None:
        rows.append((f"{plan.metric_title} on the test file", format_score(finished.test_score)))
    if finished is not None and finished.bundle:
        rows.append(("Bundle", PurePath(finished.bundle).name))
    return [Facts(tuple(rows))]


def _data(state: RunState) -> list[Part]:
    read, schema = state.read, state.schema
    if read is None:
        return []
    parts: list[Part] = [Text(f"{read.rows:,} rows and {read.columns:,} columns of {PurePath(read.file).name}.")]
    if schema is None:
        return parts
    n_unlabeled = schema.rows_without_target + schema.rows_unlabelled
    if n_unlabeled:
        parts.append(
            Text(f"{n_unlabeled:,} rows without a target. Only models that learn from unlabeled rows use them.")
        )
    rows = tuple(
        (c.name, c.kind, c.role, f"{c.missing:,}", f"{c.unique:,}", c.summary, c.reason) for c in schema.columns
    )
    header = ("Column", "Kind", "Role", "Missing", "Distinct", "Values", "Reason")
    parts.append(Table("Columns", header, rows, (3, 4)))
    if schema.warnings:
        warnings = tuple((w.column or "—", w.message, w.action) for w in schema.warnings)
        parts.append(Table("Checks", ("Column", "Finding", "Action"), warnings))
    else:
        parts.append(Text("The checks of the data found no problem."))
    return parts


def _plan(state: RunState) -> list[Part]:
    plan = state.plan
    if plan is None:
        return []
    limits = [
        *([format_duration(plan.budget)] if plan.budget is not None else []),
        *([f"{plan.trials} trial{'' if plan.trials == 1 else 's'} per model"] if plan.trials is not None else []),
    ]
    rows = (
        ("Target", f"{plan.target} ({plan.target_reason})"),
        ("Task", f"{plan.task} ({plan.task_reason})"),
        *((("Classes", ", ".join(plan.classes)),) if plan.classes else ()),
        ("Metric", f"{plan.metric_title}, {'higher' if plan.greater_is_better else 'lower'} is better"),
        ("Validation", f"{plan.validation} ({plan.validation_reason})"),
        ("Limit", " and ".join(limits)),
        ("Quality", plan.quality),
        ("Device", _device(plan)),
        ("Workers", str(plan.workers)),
        ("Seed", str(plan.seed) if plan.seeds == 1 else f"{plan.seed}, and {plan.seeds} seeds of each final model"),
    )
    return [Facts(rows)]


def _device(plan: ev.PlanMade) -> str:
    name = f"{plan.n_gpus} GPUs" if plan.n_gpus > 1 else plan.device
    return f"{name} ({plan.device_reason})" if plan.device_reason else name


STATUSES = {"ok": "complete", "queued": "not started"}


def _status(row: ev.LeaderboardRow, folds: int) -> str:
    word = "incomplete" if is_partial(row, folds) else STATUSES.get(row.status, row.status)
    return f"{word}: {row.reason}" if row.reason else word


def _leaderboard(state: RunState) -> list[Part]:
    plan = state.plan
    if plan is None or not state.leaderboard:
        return []
    shown = [row for row in state.leaderboard if not row.not_started]
    rows = tuple(
        (
            str(row.rank) if row.rank else "–",
            row.title,
            format_score(row.score),
            interval_text(row, " to "),
            f"{row.folds}/{plan.folds}" if row.score is not None else "—",
            str(row.trials) if row.trials else "—",
            format_duration(row.fit_seconds) if row.score is not None else "—",
            "—" if row.predict_ms_per_1k is None else format_duration(row.predict_ms_per_1k / 1000),
            f"{row.in_ensemble:.2f}" if row.in_ensemble and row.model != "ensemble" else "—",
            _status(row, plan.folds),
            mark_of(state, row) or "—",
        )
        for row in shown
    )
    header = (
        "Rank", "Model", plan.metric_title, "95 % interval", "Folds", "Trials", "Training", "Predict 1,000 rows", "Weight",
        "Status", "Minus the ensemble",
    )  # fmt: skip
    better = "higher" if plan.greater_is_better else "lower"
    alike = " ≈ marks models that are not clearly behind the ensemble on the same rows." if state.comparison else ""
    parts: list[Part] = [
        Text(f"Each score is out of fold, by {plan.validation}; {better} is better.{alike}"),
        Table("Models", header, rows, (0, 2, 3, 4, 5, 6, 7, 8)),
    ]
    if state.best is not None and (partial := folds_text(state.best, plan.folds)):
        parts.append(Text(f"The scores cover only {partial}: the run ended before the others."))
    left = len(state.leaderboard) - len(shown)
    if left:
        models = "1 model was" if left == 1 else f"{left} models were"
        parts.append(Text(f"{models} not started within the budget."))
    folds = _folds(state)
    return [*parts, folds] if folds is not None else parts


def _folds(state: RunState) -> Table | None:
    """The score of each fold of each model's best trial."""
    scores = {(fit.model, fit.trial, fit.fold): fit.score for fit in state.fits.values()}
    numbers = sorted({fold for _, _, fold in scores})
    scored = [row for row in state.leaderboard if row.score is not None and row.model != "ensemble"]
    if not numbers or not scored:
        return None
    rows = tuple(
        (row.title, *(format_score(scores.get((row.model, row.trial or 0, fold))) for fold in numbers))
        for row in scored
    )
    header = ("Model", *(f"Fold {fold + 1}" for fold in numbers))
    return Table("Score by fold", header, rows, tuple(range(1, len(header))))


def _ensemble(state: RunState) -> list[Part]:
    found = state.ensemble
    if found is None or state.plan is None:
        return []
    members = sorted(found.members, key=lambda member: -member.weight)
    bars = tuple(Bar(member_title(state, m), m.weight) for m in members)
    return [
        Text(
            f"The ensemble is a weighted mean of {len(bars)} candidate{'s' if len(bars) > 1 else ''}. Its "
            f"{state.plan.metric_title} of {score_with_folds(found, state.plan.folds)} is cross-fitted: weights are selected and "
            "scored on different rows."
        ),
        Bars("Weights", "weight", bars),
    ]


def _effects(state: RunState) -> list[Part]:
    found, plan = state.effects, state.plan
    if found is None or plan is None or not found.effects:
        return []
    parts: list[Part] = [
        Text(
            f"Partial dependence: the mean prediction of {subject_of(state, found)} on {found.n_rows:,} rows when a column has "
            "the same value in all of them. Bands contain the middle 80 % of the rows. Accumulated local effects use only values "
            "near those of each row; where both lines differ, trust them rather than partial dependence."
        )
    ]
    for effect in found.effects:
        curves = effect.curves[:MAX_CLASSES_OF_EFFECT]
        y_title = f"probability of {curves[0].label}" if len(curves) == 1 and curves[0].label else plan.target
        if len(curves) > 1:
            y_title = "probability"
        if effect.places:
            series = tuple(
                Series(c.label, tuple(zip(effect.places, c.values, strict=True)), c.low, c.high) for c in curves
            )
            if len(curves) == 1 and curves[0].ale:
                series = (
                    Series("partial dependence", series[0].points, series[0].low, series[0].high),
                    Series("accumulated local effects", tuple(zip(effect.places, curves[0].ale, strict=True))),
                )
            parts.append(Lines(effect.feature, effect.feature, y_title, series))
        else:
            header = ("Value", "Rows", *(curve.label or plan.target for curve in curves))
            rows = tuple(
                (label, f"{count:,}", *(format_score(curve.values[i]) for curve in curves))
                for i, (label, count) in enumerate(zip(effect.labels, effect.counts, strict=True))
            )
            parts.append(Table(effect.feature, header, rows, tuple(range(1, len(header)))))
        if len(effect.curves) > len(curves):
            parts.append(Text(f"{len(effect.curves) - len(curves)} more classes are not shown."))
    return parts


def _hyperparameters(state: RunState) -> list[Part]:
    rows = tuple(
        (row.title, ", ".join(f"{name}={_value(value)}" for name, value in row.params.items()))
        for row in state.leaderboard
        if row.score is not None and row.params
    )
    parts: list[Part] = [Table("Best trial of each model", ("Model", "Hyperparameters"), rows)] if rows else []
    facts = tuple(
        (row.title, name, text)
        for row in state.leaderboard
        if row.score is not None
        for name, text in summary_rows(row.summary)
    )
    if facts:
        parts.append(Text("What the fitted models of the best trials report about themselves, over folds."))
        parts.append(Table("Reported by the fitted models", ("Model", "Fact", "Value"), facts))
    best = next((row for row in state.leaderboard if row.score is not None and row.model != "ensemble"), None)
    curves = _learning_curves(state, best) if best is not None else None
    return [*parts, curves] if curves is not None else parts


def _learning_curves(state: RunState, row: ev.LeaderboardRow) -> Lines | None:
    """The learning curve of each fold of a model's best trial, on its early-stopping rows."""
    fits = [fit for fit in state.fits.values() if (fit.model, fit.trial) == (row.model, row.trial or 0)]
    series = tuple(
        Series(f"fold {fit.fold + 1}", tuple((float(step), value) for step, value in sorted(fit.curve)))
        for fit in sorted(fits, key=lambda fit: fit.fold)
        if len(fit.curve) > 1
    )
    return Lines(f"Learning curves of {row.title}", "step", "score on early-stopping rows", series) if series else None


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _problems(state: RunState) -> list[Part]:
    lines = [line.text for line in state.feed if line.kind in ("warn", "error")]
    return (
        [Table("Warnings and errors", ("Message",), tuple((line,) for line in dict.fromkeys(lines)))] if lines else []
    )


def _environment(environment: Mapping[str, str]) -> list[Part]:
    return [Facts(tuple(environment.items()))] if environment else []


def _reproduce(state: RunState) -> list[Part]:
    if state.plan is None:
        return []
    parts: list[Part] = [Text(state.plan.command, code=True)]
    if state.plan.trials is None:
        parts.append(
            Text(
                "A time limit makes the number of trials depend on the machine. With --trials and without --budget, the same seed "
                "gives the same leaderboard on the same machine."
            )
        )
    return parts
