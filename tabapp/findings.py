"""What analyses find, as plain structs: `explain` computes them, events carry them, and views show them."""

from __future__ import annotations

import msgspec


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A score with its 95 % bootstrap interval at a place: a share of damaged cells, or a number of training rows."""

    place: float
    score: float
    low: float
    high: float


class ChosenThreshold(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold: rows whose probability is at least `value` are labeled positive.

    Attributes:
        low, high: 95 % interval of `value` over bootstrap resamples in which the threshold is chosen again.
        score: the metric with thresholds chosen on other folds than the scored one; `score_low` and `score_high` are its interval.
        at_half: the metric at 0.5.
        curve: (threshold, metric) on all scored rows.
        tp, fp, fn, tn: scored rows by truth and label at `value`.
        counts: tp, fp, fn and tn at each place of the curve.
    """

    value: float
    low: float
    high: float
    score: float
    score_low: float
    score_high: float
    at_half: float
    curve: tuple[tuple[float, float], ...]
    tp: float
    fp: float
    fn: float
    tn: float
    counts: tuple[tuple[float, float, float, float], ...] = ()


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of a group with its 95 % interval over `n` rows; None without rows."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that share a level of a column, and the rates of their predictions.

    Attributes:
        rates: for classification, the selection rate (share labeled as the class), the true and the false positive rate, the
            share of wrong labels, and the mean predicted minus the observed frequency. For regression, the mean of prediction minus
            truth, and the mean absolute error.
    """

    level: str
    n: int
    rates: tuple[Rate, ...]

    def rate(self, name: str) -> Rate:
        """The rate of a name."""
        return next(rate for rate in self.rates if rate.name == name)


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the groups with the largest and the smallest value of a rate, with its 95 % bootstrap interval.

    `clear` says whether the interval excludes 0 after a correction for the pairs of groups (Bonferroni).
    """

    rate: str
    highest: str
    lowest: str
    difference: float
    low: float
    high: float
    clear: bool


class Interaction(msgspec.Struct, frozen=True, kw_only=True):
    """H of two columns in [0, 1], the share of their joint effect that is no sum of single ones, and its size: the standard
    deviation of that part, in units of the output."""

    a: str
    b: str
    h: float
    size: float


class ImportanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The importance of one data column: its share of attention per feature with its interval over folds (None without a model with
    attention), and the permutation importance: how much the metric worsens when its values are shuffled, with its 95 %
    interval over rows."""

    feature: str
    attention: float | None
    permutation: float
    low: float
    high: float
    attention_low: float | None = None
    attention_high: float | None = None
    attention_raw: float | None = None
    """Share of the attention before it is divided by the number of features that the column has."""
    unstable: bool = False
    """The value is not due to the column alone: predictions of rows changed that the shuffles had left as they were."""


class ColumnAttention(msgspec.Struct, frozen=True, kw_only=True):
    """The share of the attention of a model that a column gets, for each feature of it, with its 95 % interval over folds.

    Attributes:
        raw: share before the division by the number of its features.
        streams: share by each of `ModelAttention.streams`; empty without them.
    """

    feature: str
    share: float
    low: float
    high: float
    raw: float
    streams: tuple[float, ...] = ()


class CombinedColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns that a model combines: how often they are selected, and the number of such combinations and of folds with one."""

    columns: tuple[str, ...]
    frequency: float
    n_found: int
    n_folds: int


class ModelAttention(msgspec.Struct, frozen=True, kw_only=True):
    """Attention importances of the columns by a model.

    Attributes:
        kind: "attention", or "selection" where the model selects columns without comparing them.
        n_rows, n_folds: held-out rows, and the folds whose models they are of.
        rows: the columns that the attention sees, in the order of the file; their shares sum to 1.
        agreement: Spearman's rank correlation with the permutation importances of the run; None if it is undefined.
        streams: kinds of attention of a model with several; the shares are those of the first.
        combinations: columns that the model combines, those of most folds first.
    """

    model: str
    trial: int
    kind: str
    n_rows: int
    n_folds: int
    rows: tuple[ColumnAttention, ...]
    agreement: float | None = None
    streams: tuple[str, ...] = ()
    combinations: tuple[CombinedColumns, ...] = ()


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with a similar predicted probability: its mean, the observed frequency with a 95 % interval, and the row count."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


class ResidualBand(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with a similar prediction: its mean, and the 10 %, 50 % and 90 % quantiles of truth minus prediction."""

    predicted: float
    low: float
    median: float
    high: float
    count: int


class ErrorSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that share a value of a column, and the error of the predictions on them.

    Attributes:
        level: the shared value or range, such as "> 65", "= Private" or "missing".
        error: mean error of the `n` rows; `share_wrong` is the share with a wrong class (None for regression).
        difference: error minus the error of the other rows, shrunk towards 0 to correct for selection among many slices.
        low, high: interval of the difference, adjusted for the number of tested slices.
        clear: whether the interval is above 0.
    """

    column: str
    level: str
    n: int
    error: float
    share_wrong: float | None
    difference: float
    low: float
    high: float
    clear: bool


class EffectCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The mean prediction at each value of a feature; `low` and `high` are the 10 % and 90 % quantiles over rows.

    `label` is the class of the probability, empty for regression.
    """

    label: str
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    ale: tuple[float, ...] = ()
    """Accumulated local effects at the same places; empty for levels."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Partial dependence on one feature: `places` for numbers or `labels` for levels, and the row counts at each."""

    feature: str
    places: tuple[float, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    curves: tuple[EffectCurve, ...]
