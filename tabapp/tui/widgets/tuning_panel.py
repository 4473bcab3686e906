"""Tuning of the model under the cursor: best score by trial and the running fit, or the members of the ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from tabapp import charts
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.state import ActiveFit, RunState, TrialView, format_score, member_title, title_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED, count
from tabapp.tui.viewmodels.trial_facts import changes, plot

TALLEST = 9


@dataclass(frozen=True)
class TuningFacts:
    """The trials and running fits of one model."""

    title: str
    trials: tuple[TrialView, ...]
    active: tuple[ActiveFit, ...]
    members: tuple[tuple[str, ev.EnsembleMember], ...]
    greater_is_better: bool
    folds: tuple[float | None, ...] = ()
    """Scores of the complete folds of its defaults while it has no trial with all of them."""
    n_folds: int = 0


def tuning_facts(state: RunState, model: str | None) -> TuningFacts | None:
    """The facts of a model; None when there is no such model."""
    if model is None:
        return None
    members = state.ensemble.members if model == "ensemble" and state.ensemble is not None else ()
    return TuningFacts(
        title=title_of(state, model),
        trials=tuple(trial for trial in state.trials if trial.model == model),
        active=tuple(fit for fit in state.active.values() if fit.model == model),
        members=tuple((member_title(state, member), member) for member in members),
        greater_is_better=state.plan.greater_is_better if state.plan else True,
        folds=tuple(fit.score for fit in state.fits.values() if fit.trial == 0 and fit.model == model),
        n_folds=state.plan.folds if state.plan else 0,
    )


class Tuning(Panel[TuningFacts]):
    """The best score over trials, and the learning curve of the running fit."""

    def on_facts(self, facts: TuningFacts) -> None:
        set_titles(self, f"{'Members' if facts.members else 'Tuning'} · {facts.title}")

    def draw(self, facts: TuningFacts, width: int, height: int) -> list[Content]:
        if facts.members:
            return _members(facts, width)
        scores = [trial.score for trial in facts.trials if trial.score is not None and not trial.pruned]
        live = next((fit for fit in facts.active if len(fit.curve) > 1), None)
        lines: list[Content] = []
        if len(scores) > 1 and (live is None or height >= 9):
            best = charts.best_so_far(scores, greater_is_better=facts.greater_is_better)
            room = (height - 2) // 2 if live is not None else height - 1
            lines += plot(charts.step_points(best), width, min(room, TALLEST))
            lines.append(_summary(facts, scores))
        elif scores:
            lines.append(_summary(facts, scores))
        elif not facts.active or facts.folds:
            lines.append(Content.styled(_without_score(facts), MUTED))
        if live is not None and height - len(lines) >= 3:
            points = [(float(step), value) for step, value in live.curve]
            lines += plot(points, width, min(height - len(lines) - 1, TALLEST))
            where = f"trial {live.trial} fold {live.fold + 1}/{live.folds} · step {live.curve[-1][0]:,}"
            lines.append(Content.styled(f"{where} · {format_score(live.curve[-1][1])}", MUTED))
        if facts.trials and height - len(lines) >= 3:
            lines += [Content(""), *_recent(facts.trials, height - len(lines) - 1)]
        return lines


def _recent(trials: tuple[TrialView, ...], number: int) -> list[Content]:
    """The last trials, newest first: score, time, and parameters or the reason for pruning."""
    lines: list[Content] = []
    for trial in reversed(trials[-number:]):
        mark = ("⊘", "$warning") if trial.pruned else ("✓", "$success")
        seconds = format_duration(trial.seconds) if trial.seconds else ""
        note = trial.reason if trial.pruned else changes(trial, trials)
        words = f" #{trial.trial:<3} {format_score(trial.score):>7} {seconds:>5}  "
        lines.append(Content.assemble(mark, words, (note, MUTED)))
    return lines


def _without_score(facts: TuningFacts) -> str:
    """What is known of a model without a complete trial."""
    pruned = sum(trial.pruned for trial in facts.trials)
    if pruned:
        return f"No score yet; {count(pruned, 'trial')} pruned."
    known = [score for score in facts.folds if score is not None]
    if known:
        return f"{len(facts.folds)} of {facts.n_folds} folds of the defaults, mean {format_score(fmean(known))}"
    return "It has not started."


def _summary(facts: TuningFacts, scores: list[float]) -> Content:
    best = (max if facts.greater_is_better else min)(scores)
    pruned = sum(trial.pruned for trial in facts.trials)
    words = [count(len(facts.trials), "trial"), f"best {format_score(best)}"]
    if pruned:
        words.append(f"pruned {pruned}")
    if len(scores) == 1:
        words.append("defaults")
    return Content.styled(" · ".join(words), MUTED)


def _members(facts: TuningFacts, width: int) -> list[Content]:
    names = [title for title, _ in facts.members]
    longest = min(max(map(len, names)), max(8, width // 2))
    top = max(member.weight for _, member in facts.members)
    lines: list[Content] = []
    for name, (_, member) in zip(names, facts.members, strict=True):
        room = max(1, width - longest - 7)
        drawn = charts.rule(member.weight / top, room).ljust(room)
        label = Content(name).truncate(longest, ellipsis=True, pad=True)
        lines.append(Content.assemble(label, " ", (drawn, "$primary"), f" {member.weight:4.0%}"))
    return lines
