"""What the result of a run is worth, in plain sentences: the same facts on the screen, on the command line and in reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tabapp.policy import POLICY
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.score_text import decimals, folds_text, format_score, interval_text, written_like
from tabapp.run.record.state import RunState, subject_of
from tabapp.run.texts.differences import (
    WHY_BETTER,
    baseline_of,
    best_single,
    difference_of,
    difference_text,
    is_ensemble_of,
)

Level = Literal["good", "weak", "none", "unknown"]
Mark = Literal["", "good", "warn"]
WORDS: dict[Level, str] = {
    "good": "Good",
    "weak": "Weak",
    "none": "No better than a constant prediction",
    "unknown": "",
}
GLYPHS: dict[Mark, str] = {"good": "✓", "warn": "⚠", "": "·"}

WEAK_BELOW = 0.1
"""Share of the way from the baseline to a perfect score below which a result is weak."""
SUSPICIOUS_FROM = 0.98
MOST_COLUMNS = 5
LEAST_SPEEDUP = 2.0
CALIBRATED_SHARE = 0.8
"""Share of the rows whose observed frequency agrees with the probabilities of a calibrated model."""
OVERHEAD = 1.25
"""Elapsed time of waiting models beside what their fits take."""


@dataclass(frozen=True)
class Fact:
    """A sentence on one aspect of the result."""

    topic: str
    text: str
    mark: Mark = ""


@dataclass(frozen=True)
class Verdict:
    """The result of a run in words.

    Attributes:
        level: how it compares with the best constant prediction.
        is_interrupted: the run ended early.
        headline: the model, and its score with its interval.
        judgment: a sentence on the level.
        columns: the most important columns, as shares of the largest importance; `columns_of` says of which model.
    """

    level: Level
    is_interrupted: bool
    headline: str
    judgment: str
    facts: tuple[Fact, ...]
    columns: tuple[tuple[str, float], ...] = ()
    columns_of: str = ""

    @property
    def word(self) -> str:
        """The verdict in a few words; empty for a run of an earlier version, which has no comparison."""
        words = [WORDS[self.level], "interrupted" if self.is_interrupted else ""]
        text = ", ".join(filter(None, words))
        return text[:1].upper() + text[1:]


def verdict_of(state: RunState) -> Verdict | None:
    """The verdict on a run, finished or not; None without a score."""
    best, plan = state.best, state.plan
    if best is None or plan is None:
        return None
    arrow = "↑" if plan.greater_is_better else "↓"
    level, judgment = _judged(state, best, plan)
    importances = state.importances
    columns = () if importances is None else _columns(importances)
    return Verdict(
        level=level,
        is_interrupted=_is_interrupted(state),
        headline=f"{best.title} · {plan.metric_title} {arrow} {format_score(best.score)} ({interval_text(best)})",
        judgment=judgment,
        facts=tuple(_facts(state, best, plan)),
        columns=columns,
        columns_of=_columns_of(state, importances) if importances is not None and columns else "",
    )


def _is_interrupted(state: RunState) -> bool:
    return state.is_stopped or (state.finished is not None and state.finished.status == "interrupted")


def skill(score: float, baseline: float, *, greater_is_better: bool) -> float | None:
    """How much of the way from a baseline to a perfect score (1, or 0 if lower is better) a score is; None on other scales."""
    perfect = 1.0 if greater_is_better else 0.0
    span, way = perfect - baseline, score - baseline
    if span == 0 or (perfect - score) * span < 0:
        return None
    return way / span


def _judged(state: RunState, best: ev.LeaderboardRow, plan: ev.PlanMade) -> tuple[Level, str]:
    found = baseline_of(state)
    if found is None or found.score is None or best.score is None:
        return "unknown", ""
    constant = f"always predicting {found.what} ({format_score(found.score)})"
    if found.low <= 0:
        return "none", (
            f"Chance can explain the difference from {constant}. The columns say little about {plan.target}, or there are too few "
            "rows."
        )
    share = skill(best.score, found.score, greater_is_better=plan.greater_is_better)
    if share is None:
        return "good", f"Clearly better than {constant}."
    if share < WEAK_BELOW:
        return "weak", f"Clearly better than {constant}, but only {share:.0%} of the way to a perfect score."
    return "good", f"{share:.0%} of the way from {constant} to a perfect score."


def _facts(state: RunState, best: ev.LeaderboardRow, plan: ev.PlanMade) -> Iterator[Fact]:
    if partial := folds_text(best, plan.folds):
        yield Fact("Folds", f"The score covers only {partial}.", "warn")
    if state.comparison is not None and (earlier := earlier_subject(state.comparison, state.leaderboard)):
        yield Fact("Comparison", f"The comparisons are of {earlier}.", "warn")
    found = baseline_of(state)
    if found is not None and found.score is not None and best.score is not None:
        share = skill(best.score, found.score, greater_is_better=plan.greater_is_better)
        if share is not None and share >= SUSPICIOUS_FROM:
            yield Fact("Check", "The score is nearly perfect: make sure that no column gives the target away.", "warn")
    finished = state.finished
    if finished is not None and finished.test_score is not None:
        yield Fact("Test file", f"{plan.metric_title} {format_score(finished.test_score)}")
    yield from _single(state, best)
    yield from _unfinished(state, best, plan)
    if found is None or found.is_behind:
        yield from _time(state, plan)
    yield from _calibration(state, best)
    yield from _groups(state)
    chosen = state.result(ThresholdChosen)
    if chosen is not None:
        yield Fact("Threshold", f"{chosen.value:.3g}, which is best by {chosen.metric_title}.")


def _single(state: RunState, best: ev.LeaderboardRow) -> Iterator[Fact]:
    """The best single model beside the ensemble."""
    single = best_single(state)
    if single is None:
        return
    if is_ensemble_of(state, single):
        yield Fact("Single model", f"The ensemble is {single.title} alone.")
        return
    found = difference_of(state, single)
    if found is None:
        return
    speed = ""
    if single.predict_ms_per_1k and best.predict_ms_per_1k:
        ratio = best.predict_ms_per_1k / single.predict_ms_per_1k
        speed = f", and predicts {ratio:,.0f} times as fast" if ratio >= LEAST_SPEEDUP else ""
    difference = f"{format_score(single.score)}, {difference_text(state, found)}"
    if found.is_behind:
        yield Fact("Single model", f"{single.title} alone is clearly worse ({difference}){speed}.")
    elif found.advantage >= 0 or not round(found.advantage, decimals(found.score or 0.0)):
        yield Fact("Single model", f"{single.title} alone does not differ clearly ({difference}){speed}.")
    else:
        n_trials = sum(row.trials for row in state.leaderboard if row.model != ev.ENSEMBLE)
        trials = f"{n_trials} trials" if n_trials > 1 else "several models"
        yield Fact(
            "Single model",
            f"{single.title} alone looks better ({difference}){speed}. {WHY_BETTER.format(trials=trials)}",
        )


def _unfinished(state: RunState, best: ev.LeaderboardRow, plan: ev.PlanMade) -> Iterator[Fact]:
    """The model whose first folds look better than the result, which covers more folds, and than those of all complete models."""
    sign = 1 if plan.greater_is_better else -1
    scored = [row for row in state.leaderboard if row.score is not None]
    ahead = [row for row in scored if row.folds < best.folds and sign * (row.score or 0.0) > sign * (best.score or 0.0)]
    complete = [_fold_scores(state, row) for row in scored if row.folds == best.folds and row.trial is not None]
    ahead = [row for row in ahead if all(_is_ahead(_fold_scores(state, row), other, sign) for other in complete)]
    if ahead:
        row = max(ahead, key=lambda row: (row.folds, sign * (row.score or 0.0)))
        text = f"{row.title} looks better on {folds_text(row, plan.folds)} ({format_score(row.score)}), but was not completed."
        yield Fact("Unfinished", text, "warn")


def _fold_scores(state: RunState, row: ev.LeaderboardRow) -> dict[int, float]:
    """The score of a row on each of its folds."""
    fits = [fit for fit in state.fits.values() if (fit.model, fit.trial) == (row.model, row.trial)]
    return {fit.fold: fit.score for fit in fits if fit.score is not None}


def _is_ahead(scores: dict[int, float], others: dict[int, float], sign: int) -> bool:
    """Whether the sum of scores is better than that of others on the same folds; folds differ in difficulty."""
    common = scores.keys() & others.keys()
    return not common or sign * sum(scores[fold] for fold in common) > sign * sum(others[fold] for fold in common)


def _time(state: RunState, plan: ev.PlanMade) -> Iterator[Fact]:
    """What was not started, and what more time would probably bring."""
    missing = [row for row in state.leaderboard if row.not_started]
    trend = _trend(state)
    if missing:
        of_all = sum(model.reason is None for model in plan.models)
        text = f"{len(missing)} of {of_all} models {'was' if len(missing) == 1 else 'were'} not started."
        reached = _reached(state, plan, {row.model for row in missing})
        if reached and plan.budget is not None and not _is_interrupted(state):
            them = f"about {reached} of them" if reached < len(missing) else "it" if reached == 1 else "all of them"
            text += f" {format_duration(plan.budget)} more would probably reach {them}."
        yield Fact("More time", f"{text} {trend}".strip(), "warn")
    elif trend:
        yield Fact("More time", trend)


def _reached(state: RunState, plan: ev.PlanMade, missing: set[str]) -> int:
    """How many of the models that were not started another budget of the same length would complete."""
    left = (plan.budget or 0.0) * max(1, plan.workers)
    number = 0
    for waiting in state.planned.waiting:
        left -= OVERHEAD * waiting.needed if waiting.model in missing else 0.0
        if left < 0:
            break
        number += waiting.model in missing
    return number


def _trend(state: RunState) -> str:
    """What the second half of fitting brought."""
    if state.settled is not None and state.settled.ends:
        return "Fitting ended before its time limit, since more would probably add little."
    steps = [step for step in state.steps if not step.is_final and step.score is not None]
    if len(steps) < 2 or state.plan is None:
        return ""
    end = state.steps[-1].seconds
    before = [step for step in steps if step.seconds <= end / 2]
    first, last = before[-1] if before else steps[0], steps[-1]
    assert first.score is not None
    assert last.score is not None
    sign = 1 if state.plan.greater_is_better else -1
    gain = sign * (last.score - first.score)
    if last.low is None or last.high is None:
        return ""
    shown = written_like(abs(gain), last.score)
    if gain <= POLICY.settled_share * (last.high - last.low):
        shown = "nothing" if gain <= 0 else shown if float(shown.replace(",", "")) else "hardly anything"
        return f"The second half of fitting gained {shown}, so that more would probably add little."
    return f"The second half of fitting still gained {shown}."


def _calibration(state: RunState, best: ev.LeaderboardRow) -> Iterator[Fact]:
    found = state.evaluations.get(best.model)
    if found is None or not found.calibration or found.calibration_error is None:
        return
    rows = sum(each.count for each in found.calibration)
    off = [each for each in found.calibration if not each.low <= each.predicted <= each.high]
    error = f"calibration error {format_score(found.calibration_error)}"
    if sum(each.count for each in off) <= (1 - CALIBRATED_SHARE) * rows:
        yield Fact("Probabilities", f"Calibrated ({error}).", "good")
        return
    worst = max(off, key=lambda each: each.count * abs(each.predicted - each.observed))
    predicted, observed = _percents(worst.predicted, worst.observed)
    text = f"Not calibrated ({error}): where it predicts {predicted}, {observed} come true."
    yield Fact("Probabilities", text, "warn")


def _percents(*shares: float) -> list[str]:
    """Shares as percents, with as many decimals as they need to differ; at most two."""
    texts: list[str] = []
    for n_decimals in range(3):
        texts = [f"{share:.{n_decimals}%}" for share in shares]
        if len({*texts}) == len(shares):
            break
    return texts


def _groups(state: RunState) -> Iterator[Fact]:
    found = state.slices
    if found is None or not found.tested:
        return
    clear = [row for row in found.rows if row.clear]
    if not clear:
        yield Fact("Groups", f"No group of {found.tested} is clearly worse than the rest.", "good")
        return
    worst = clear[0]
    text = f"Weakest: {worst.column} {worst.level} ({worst.n:,} rows), {found.measure} {format_score(worst.error)}"
    more = f"; {len(clear) - 1} more are clearly worse" if len(clear) > 1 else ""
    yield Fact("Groups", f"{text} instead of {format_score(found.overall)}{more}.", "warn")


def _columns(found: ev.ImportancesReady) -> tuple[tuple[str, float], ...]:
    """The columns whose importance is above zero beyond chance, as shares of the largest."""
    rows = [row for row in found.rows if row.low > 0 and not row.unstable]
    rows = sorted(rows, key=lambda row: -row.permutation)[:MOST_COLUMNS]
    return tuple((row.feature, row.permutation / rows[0].permutation) for row in rows)


def _columns_of(state: RunState, found: ev.ImportancesReady) -> str:
    preliminary = "preliminary, " if found.preliminary else ""
    return f"{preliminary}{subject_of(state, found)} on {found.n_rows:,} rows"
