"""How views write scores. They mark those on fewer folds than the validation of the plan has."""

from __future__ import annotations

from math import isnan
from typing import Protocol


def format_score(value: float | None) -> str:
    """Format a score: four significant digits or decimals, thousands grouped; an em dash for None and NaN."""
    if value is None or isnan(value):
        return "—"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}" if size >= 0.01 or not size else f"{value:#.4g}"


class Scored(Protocol):
    """Something with a score that covers a number of folds: a row of a leaderboard, or an ensemble."""

    @property
    def score(self) -> float | None: ...
    @property
    def folds(self) -> int: ...


def is_partial(scored: Scored, folds: int) -> bool:
    """Whether a score covers only some of the folds of the plan, and so cannot be compared with the others. 0 folds are unknown."""
    return scored.score is not None and bool(some_folds(scored.folds, folds))


def some_folds(scored: int, planned: int) -> str:
    """The folds of a partial score, such as "1 of 8 folds"; empty for another one."""
    return f"{scored} of {planned} folds" if 0 < scored < planned else ""


def folds_text(scored: Scored, folds: int) -> str:
    """As `some_folds`, of something with a score."""
    return "" if scored.score is None else some_folds(scored.folds, folds)


def score_with_folds(scored: Scored, folds: int) -> str:
    """A score, with its folds if it is partial: "0.9312 (1 of 8 folds)"."""
    partial = folds_text(scored, folds)
    return format_score(scored.score) + (f" ({partial})" if partial else "")


def validation_of(scored: Scored, folds: int, validation: str) -> str:
    """The validation of a score, such as "only 1 of 8 folds of 8-fold cross-validation" for a partial one.

    Args:
        folds, validation: of the plan.
    """
    partial = folds_text(scored, folds)
    return f"only {partial} of {validation}" if partial else validation


class Interval(Protocol):
    """A score with its 95 % interval."""

    @property
    def score(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def decimals(score: float) -> int:
    """The number of decimals with which a score is written."""
    return len(format_score(score).partition(".")[2])


def written_like(value: float, score: float | None, sign: str = "") -> str:
    """A bound of an interval, or a difference, with as many decimals as the score that it belongs to.

    Args:
        sign: "+" writes the sign of positive values too.
    """
    return f"{value:{sign}z,.{decimals(score or 0.0)}f}"


def interval_text(scored: Interval, between: str = " … ") -> str:
    """The interval of a score with the decimals of the score; an em dash without one."""
    if scored.score is None or scored.low is None or scored.high is None or isnan(scored.low) or isnan(scored.high):
        return "—"
    return bounds_text(scored.score, scored.low, scored.high, between)


def bounds_text(value: float, low: float, high: float, between: str = " … ") -> str:
    """An interval with the decimals of the value that it belongs to."""
    return f"{written_like(low, value)}{between}{written_like(high, value)}"
