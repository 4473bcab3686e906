"""Events of analyses that a user requests after a run: threshold, robustness, learning curve over rows, and fairness.

They follow `run.finished`, take no time of the budget, and are cleared when the run is resumed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tabapp.run.event_base import Event


class AnalysisEvent(Event, frozen=True, kw_only=True):
    """The base of these events."""


class ThresholdChosen(AnalysisEvent, tag="threshold.chosen", frozen=True, kw_only=True):
    """The threshold on the probability of the positive class that the bundle uses; `value` None restores 0.5.

    Attributes:
        metric: the metric of labels that the threshold optimizes.
        low, high: 95 % bootstrap interval of `value`.
        score: the metric with thresholds chosen on other folds than the scored one, with its interval; `at_half` is that of 0.5.
        curve: (threshold, metric) on all scored rows.
        tp, fp, fn, tn: scored rows by truth and label at `value`.
    """

    value: float | None
    metric: str = ""
    metric_title: str = ""
    greater_is_better: bool = True
    positive: str = ""
    low: float = 0.0
    high: float = 0.0
    score: float = 0.0
    score_low: float = 0.0
    score_high: float = 0.0
    at_half: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()
    tp: float = 0.0
    fp: float = 0.0
    fn: float = 0.0
    tn: float = 0.0


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A score with its 95 % bootstrap interval at a place: a share of damaged cells, or a number of training rows."""

    place: float
    score: float
    low: float
    high: float


class RobustnessReady(AnalysisEvent, tag="robustness.ready", frozen=True, kw_only=True):
    """The score of the ensemble on `n_rows` held-out rows when a share of the cells is missing, or has the value of another row."""

    n_rows: int
    missing: tuple[CurvePoint, ...]
    noisy: tuple[CurvePoint, ...]


class RowCurveReady(AnalysisEvent, tag="row_curve.ready", frozen=True, kw_only=True):
    """The score of `model`, trained on fewer rows.

    Attributes:
        points: by mean number of training rows of a fold.
        gain: how much better the score with all rows is than with half of them, with the 95 % interval of a paired bootstrap; a
            positive gain is an improvement.
    """

    model: str
    points: tuple[CurvePoint, ...]
    gain: float
    low: float
    high: float


class RateView(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of a group with its 95 % interval over `n` rows; None without rows."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that share a level of the column, and the rates of their predictions."""

    level: str
    n: int
    rates: tuple[RateView, ...]


class GapView(msgspec.Struct, frozen=True, kw_only=True):
    """The largest difference of a rate between two groups, with its 95 % interval; `clear` if chance does not explain it."""

    rate: str
    highest: str
    lowest: str
    difference: float
    low: float
    high: float
    clear: bool


class FairnessReady(AnalysisEvent, tag="fairness.ready", frozen=True, kw_only=True):
    """Out-of-fold predictions of the ensemble by the groups of a column.

    Attributes:
        label: the class of the rates; empty for a regression.
        threshold: on its probability.
        left_out: groups with too few rows.
    """

    column: str
    label: str
    threshold: float | None
    groups: tuple[GroupView, ...]
    gaps: tuple[GapView, ...]
    left_out: int = 0


AnyAnalysisEvent = ThresholdChosen | RobustnessReady | RowCurveReady | FairnessReady
AnalysisKind = Literal["threshold", "robustness", "row_curve", "fairness"]
