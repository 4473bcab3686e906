"""Events of analyses of a run's models: those that the engine adds while time is left, and those that a user requests later.

The latter follow `run.finished` and take no time of the budget. All are cleared when the run is resumed.
"""

from __future__ import annotations

import msgspec

from tabapp.run.record.event_base import Described


class AnalysisEvent(Described, frozen=True, kw_only=True):
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


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis that its time limit ended after `trained` of the `planned` models."""

    seconds: float
    trained: int
    planned: int


class RowCurveReady(AnalysisEvent, tag="row_curve.ready", frozen=True, kw_only=True):
    """The score of `model`, trained on fewer rows.

    Attributes:
        points: by mean number of training rows of a fold.
        gain: how much better the score with all rows is than with half of them, with the 95 % interval of a paired bootstrap; a
            positive gain is an improvement. If half was not trained in time, the next smaller number of rows is compared.
        partial: what the time limit left out; None if the curve is complete.
    """

    points: tuple[CurvePoint, ...]
    gain: float
    low: float
    high: float
    partial: Partial | None = None


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """How much better one score is than another, with the 95 % interval of a paired bootstrap; positive is an improvement."""

    value: float
    low: float
    high: float


class TimeCurveReady(AnalysisEvent, tag="time_curve.ready", frozen=True, kw_only=True):
    """The score of `model` on the latest rows, trained on parts of the earlier rows.

    Attributes:
        column: the column of times.
        since: time of the earliest of the `n_rows` scored rows.
        recent, oldest: by number of the most recent, and of the oldest, earlier rows.
        older_rows: of training on all earlier rows rather than on the most recent half, the last two of `recent`.
        recency: of training on the most recent half rather than on the oldest half, the last of `oldest`.
        partial: what the time limit left out; None if the curve is complete.
    """

    column: str
    since: str
    n_rows: int
    recent: tuple[CurvePoint, ...]
    oldest: tuple[CurvePoint, ...]
    older_rows: Gain
    recency: Gain
    partial: Partial | None = None


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


class GroupImportance(msgspec.Struct, frozen=True, kw_only=True):
    """Correlated columns, and how much the metric worsens when they are shuffled together, with its 95 % interval; `unstable` as in
    `ImportanceRow`."""

    columns: tuple[str, ...]
    permutation: float
    low: float
    high: float
    unstable: bool = False


class ConditionalImportance(msgspec.Struct, frozen=True, kw_only=True):
    """How much the metric worsens when a column is shuffled only among rows that are similar in the columns it depends on;
    `unstable` as in `ImportanceRow`."""

    feature: str
    permutation: float
    low: float
    high: float
    unstable: bool = False


class DependenceReady(AnalysisEvent, tag="dependence.ready", frozen=True, kw_only=True):
    """Groups of correlated columns, and conditional permutation importance, of the model of the importances."""

    groups: tuple[GroupImportance, ...]
    conditional: tuple[ConditionalImportance, ...]


class InteractionView(msgspec.Struct, frozen=True, kw_only=True):
    """The H-statistic of two columns, and the standard deviation of their interaction in units of the output."""

    a: str
    b: str
    h: float
    size: float


class InteractionsReady(AnalysisEvent, tag="interactions.ready", frozen=True, kw_only=True):
    """Interactions of the most important columns, largest first. `label` is the class of the probability, empty for regression."""

    label: str
    columns: tuple[str, ...]
    pairs: tuple[InteractionView, ...]


class AttentionMapView(msgspec.Struct, frozen=True, kw_only=True):
    """Attention of one layer between columns, by head, averaged over folds.

    Attributes:
        queries, keys: columns, "[CLS]", "[prompts]" or "[target]"; columns of little attention are merged into "other".
        chance: by key, the share that equal attention to all features gives it.
        heads: by head, (queries, keys) shares of attention.
        spread: (queries, keys) half-widths of the 95 % intervals over folds of the mean over heads; 0 with one fold.
        kind: "attention"; "mask" for the steps of TabNet, "selection" for the splits of NODE.
    """

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    chance: tuple[float, ...]
    heads: tuple[tuple[tuple[float, ...], ...], ...]
    spread: tuple[tuple[float, ...], ...]
    kind: str = "attention"

    @property
    def name(self) -> str:
        """What it shows, such as "Attention, layer 1"."""
        return f"{self.kind.capitalize()}, {self.title}"


class AttentionReady(AnalysisEvent, tag="attention.ready", frozen=True, kw_only=True):
    """Attention maps of a model on `n_rows` held-out rows."""

    n_rows: int
    maps: tuple[AttentionMapView, ...]


class FaithfulnessRow(msgspec.Struct, frozen=True, kw_only=True):
    """The importance of a column by each method; None where it was not computed."""

    feature: str
    values: tuple[float | None, ...]
    advice: str = ""


class FaithfulnessReady(AnalysisEvent, tag="faithfulness.ready", frozen=True, kw_only=True):
    """Importances of the top columns by several methods, and the rank correlation of each pair.

    Attributes:
        model: the network with attention, which all methods explain.
        methods: attention, permutation, integrated gradients, drop and refit.
        correlations: (methods, methods) Spearman's rank correlation; None if undefined.
        partial: what the time limit left out of drop and refit; None if it is complete.
    """

    metric_title: str
    methods: tuple[str, ...]
    rows: tuple[FaithfulnessRow, ...]
    correlations: tuple[tuple[float | None, ...], ...]
    partial: Partial | None = None


AnyAnalysisEvent = (
    ThresholdChosen
    | RobustnessReady
    | RowCurveReady
    | TimeCurveReady
    | FairnessReady
    | DependenceReady
    | InteractionsReady
    | AttentionReady
    | FaithfulnessReady
)
