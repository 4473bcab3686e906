"""Why a model is at its place: what its fits were chosen for, what ended its trials, and what its next fit needs."""

from __future__ import annotations

from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import folds_text, format_score, score_with_folds
from tabapp.run.record.state import RunState, title_of
from tabapp.run.texts.differences import difference_of, difference_text, is_ensemble_of
from tabapp.run.texts.verdict import verdict_of
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED, count
from tabapp.tui.viewmodels.verdict_lines import verdict_lines

MOST_REASONS = 8
WIDTH = 86


def why_content(state: RunState, row: ev.LeaderboardRow) -> Content:
    """The reasons for the place of a row of the leaderboard, from the events of the run."""
    if row.model == ev.ENSEMBLE:
        return _of_ensemble(state)
    parts = [
        _section("Place", _place(state, row)),
        _section("Next fit", _next(state, row)),
        _section("Trials that ended early", _lost(state, row)),
        _section("Why its fits were chosen", _chosen(state, row)),
    ]
    return Content("\n\n").join([part for part in parts if part is not None])


def _section(title: str, lines: list[Content]) -> Content | None:
    return Content("\n").join([Content.styled(title, "bold $primary"), *lines]) if lines else None


def _of_ensemble(state: RunState) -> Content:
    verdict = verdict_of(state)
    if verdict is None:
        return Content.styled("The ensemble is selected when the first model has all of its folds.", MUTED)
    text = "The weights of the ensemble are selected on some rows and scored on others, and its row is always first."
    return Content("\n").join([*verdict_lines(verdict, WIDTH), Content(""), *Content.styled(text, MUTED).wrap(WIDTH)])


def _place(state: RunState, row: ev.LeaderboardRow) -> list[Content]:
    folds = state.plan.folds if state.plan else 0
    lines: list[Content] = []
    if row.score is not None:
        lines.append(Content(f"Rank {row.rank} with {score_with_folds(row, folds)}."))
        if folds_text(row, folds):
            lines.append(Content("Scores of only some folds are ranked below complete ones."))
    elif row.reason:
        lines.append(Content(f"{row.reason[0].upper()}{row.reason[1:].rstrip('.')}."))
    else:
        lines.append(Content("It has no complete fold yet."))
    if is_ensemble_of(state, row):
        lines.append(Content("The ensemble consists of it alone."))
    elif row.in_ensemble:
        lines.append(Content(f"It has {row.in_ensemble:.0%} of the weight in the ensemble."))
    found = difference_of(state, row)
    if found is not None and not is_ensemble_of(state, row):
        word = "is clearly behind" if found.is_behind else "does not differ clearly from"
        lines.append(Content(f"It {word} the ensemble: {difference_text(state, found)} on the same rows."))
    return lines


def _next(state: RunState, row: ev.LeaderboardRow) -> list[Content]:
    if state.is_over and not row.not_started:
        return []
    planned, lines = state.planned, list[Content]()
    for fit in (fit for fit in state.active.values() if fit.model == row.model):
        expected = f", about {format_duration(fit.seconds)}" if fit.seconds else ""
        lines.append(Content(f"In progress: trial {fit.trial}, fold {fit.fold + 1} of {fit.folds}{expected}."))
    for place, fit in enumerate(planned.next, start=1):
        if fit.model == row.model and not state.is_over:
            lines.append(Content(f"Place {place} of the next fits: {fit.reason}."))
    for place, waiting in enumerate(planned.waiting, start=1):
        if waiting.model == row.model:
            need = f"a fold needs about {format_duration(waiting.seconds)}, all {format_duration(waiting.needed)}"
            lines.append(Content(f"Place {place} of {count(len(planned.waiting), 'waiting model')}; {need}."))
            if waiting.note:
                lines.append(Content(f"It does not continue now: {waiting.note}."))
    if not lines and row.status not in ("failed", "skipped"):
        lines.append(Content.styled("No further fit is planned yet; new trials go to members of the ensemble.", MUTED))
    return lines


def _lost(state: RunState, row: ev.LeaderboardRow) -> list[Content]:
    lost = [trial for trial in state.trials if trial.model == row.model and trial.pruned]
    failed = [failure for failure in state.failures if failure.model == row.model]
    lines = [
        Content.assemble(("⊘ ", "$warning"), f"#{trial.trial} {format_score(trial.score)}: {trial.reason}")
        for trial in lost[-MOST_REASONS:]
    ]
    return [*lines, *(Content.assemble(("✗ ", "$error"), f"#{each.trial}: {each.reason}") for each in failed[-2:])]


def _chosen(state: RunState, row: ev.LeaderboardRow) -> list[Content]:
    """The reason of each fit, the last first; the same reason of several folds of a trial once."""
    reasons: dict[tuple[int, str], list[int]] = {}
    for fit in (*state.fits.values(), *state.active.values()):
        if fit.model == row.model and fit.reason:
            reasons.setdefault((fit.trial, fit.reason), []).append(fit.fold + 1)
    lines: list[Content] = []
    for (trial, reason), folds in reversed(reasons.items()):
        where = f"{title_of(state, row.model)} #{trial} fold {', '.join(map(str, sorted(folds)))}"
        lines.append(Content.assemble((f"{where}: ", MUTED), reason))
    more = len(lines) - MOST_REASONS
    return lines[:MOST_REASONS] + ([Content.styled(f"… and {more} earlier", MUTED)] if more > 0 else [])
