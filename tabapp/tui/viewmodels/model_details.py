"""The details of a model or a trial as text."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp import charts
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import validation_of
from tabapp.run.record.state import RunState, TrialView, format_score, member_title
from tabapp.run.texts.model_summary import summary_rows
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED, brief, count
from tabapp.tui.viewmodels.trial_facts import TrialFacts, changes, plot

CURVE_WIDTH, CURVE_HEIGHT = 56, 5
TRIALS_SHOWN = 30


def model_details(state: RunState, row: ev.LeaderboardRow) -> Content:
    """Score, reason, members, parameters, tuning curve, trials and failures of a row of the leaderboard."""
    metric = state.plan.metric_title if state.plan else "score"
    lines: list[Content] = []
    if row.score is not None:
        interval = f"{format_score(row.low)} … {format_score(row.high)}" if row.low is not None else "no interval"
        plan = state.plan
        validation = validation_of(row, plan.folds, plan.validation) if plan else count(row.folds, "fold")
        lines.append(_fact(metric, f"{format_score(row.score)}   95 %: {interval}   {validation}, out of fold"))
    if row.reason:
        lines.append(_fact(row.status, row.reason))
    if row.fit_seconds:
        text = f"{format_duration(row.fit_seconds)} for {count(row.folds, 'fold')}"
        if row.predict_ms_per_1k is not None:
            text += f" · {format_duration(row.predict_ms_per_1k / 1000)} to predict 1,000 rows"
        lines.append(_fact("Fit", text))
    if row.in_ensemble > 0:
        lines.append(_fact("Ensemble", f"{row.in_ensemble:.0%} of the weight"))
    if row.model == "ensemble" and state.ensemble is not None:
        lines.append(_heading("Members"))
        for member in state.ensemble.members:
            lines.append(_fact(f"{member.weight:6.1%}", member_title(state, member)))
    if row.params:
        lines.append(_heading(f"Parameters of trial {row.trial}" if row.trial is not None else "Parameters"))
        width = max(map(len, row.params))
        lines += [Content.assemble((f"  {name:<{width}}  ", MUTED), brief(value)) for name, value in row.params.items()]
    facts = summary_rows(row.summary)
    if facts:
        lines.append(_heading("Reported by the fitted models"))
        width = max(len(name) for name, _ in facts)
        lines += [Content.assemble((f"  {name:<{width}}  ", MUTED), text) for name, text in facts]
    trials = [trial for trial in state.trials if trial.model == row.model]
    lines += _trial_lines(trials, greater_is_better=state.plan.greater_is_better if state.plan else True)
    lines += _failure_lines([failure for failure in state.failures if failure.model == row.model])
    if not lines:
        lines.append(Content.styled("Nothing is known of it yet.", MUTED))
    return Content("\n").join(lines)


def _trial_lines(trials: list[TrialView], *, greater_is_better: bool) -> list[Content]:
    if not trials:
        return []
    lines = [_heading(count(len(trials), "trial"))]
    scores = [trial.score for trial in trials if trial.score is not None and not trial.pruned]
    if len(scores) > 1:
        best = charts.best_so_far(scores, greater_is_better=greater_is_better)
        lines += [Content("  ") + line for line in plot(charts.step_points(best), CURVE_WIDTH, CURVE_HEIGHT)]
    top = (max if greater_is_better else min)(scores) if scores else None
    for trial in reversed(trials[-TRIALS_SHOWN:]):
        mark = ("⊘", "$warning") if trial.pruned else ("★", "$accent") if trial.score == top else ("✓", "$success")
        words = f"  #{trial.trial:<4} {format_score(trial.score):>9}  {format_duration(trial.seconds) if trial.seconds else '':>5}"
        note = trial.reason if trial.pruned else changes(trial, trials)
        lines.append(Content.assemble("  ", mark, words, "  ", (note, MUTED)))
    if len(trials) > TRIALS_SHOWN:
        lines.append(Content.styled(f"  … and {len(trials) - TRIALS_SHOWN} earlier ones", MUTED))
    return lines


def trial_details(state: RunState, trial: TrialFacts, siblings: Sequence[TrialFacts]) -> Content:
    """Score, folds, reason, and hyperparameters of a trial against the defaults, which are trial 0 of its model."""
    lines: list[Content] = [_fact("Status", trial.status)]
    if trial.score is not None:
        words = "" if trial.is_complete else f"   {trial.folds} of {trial.n_folds} folds"
        metric = state.plan.metric_title if state.plan else "Score"
        lines.append(_fact(metric, format_score(trial.score) + words))
    if trial.seconds:
        lines.append(_fact("Fit", format_duration(trial.seconds)))
    if trial.reason:
        lines.append(_fact("Reason", trial.reason))
    fits = [fit for fit in state.fits.values() if (fit.model, fit.trial) == (trial.model, trial.trial)]
    if fits:
        lines.append(_heading("Folds"))
        for fit in sorted(fits, key=lambda fit: fit.fold):
            lines.append(
                Content(f"  {fit.fold + 1:>2}  {format_score(fit.score):>9}  {format_duration(fit.seconds):>5}")
            )
    defaults = next((row.params for row in siblings if row.trial == 0), {})
    if trial.params:
        lines.append(_heading("Hyperparameters" + (" · ≠ differs from the defaults" if trial.trial else "")))
        width = max(map(len, trial.params))
        for name, value in trial.params.items():
            differs = name in defaults and defaults[name] != value
            mark = ("≠ ", "$warning") if differs else "  "
            was = (f"   default {brief(defaults[name])}", MUTED) if differs else ""
            lines.append(Content.assemble(mark, (f"{name:<{width}}  ", MUTED), brief(value), was))
    lines += _failure_lines([each for each in state.failures if (each.model, each.trial) == (trial.model, trial.trial)])
    return Content("\n").join(lines)


def _failure_lines(failures: Sequence[ev.FitFailed]) -> list[Content]:
    lines: list[Content] = []
    for failure in failures:
        lines.append(_heading(f"Failure · trial {failure.trial} fold {failure.fold + 1}"))
        lines.append(Content.assemble(("  ✗ ", "$error"), failure.reason))
        lines += [Content.styled(f"  {line}", MUTED) for line in failure.detail.splitlines()]
    return lines


def _fact(name: str, text: str) -> Content:
    return Content.assemble((f"{name:<10} ", MUTED), text)


def _heading(text: str) -> Content:
    return Content.assemble("\n", (text, "bold $primary"))
