"""What the events of a run are made of: rows, columns, curves, as a screen shows them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RowStatus = Literal["ok", "running", "queued", "failed", "pruned", "skipped"]


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """One column as a screen shows it; see `tabapp.data.schema.Column`. `histogram` holds up to 10 counts."""

    name: str
    kind: str
    role: str
    reason: str
    missing: int
    unique: int
    summary: str
    histogram: tuple[int, ...] = ()
    overridden: bool = False


class WarningView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that looks wrong with the data, and what is done about it by default."""

    check: str
    column: str | None
    message: str
    action: str


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the plan; `reason` says why it is skipped, None when it competes."""

    name: str
    title: str
    family: str
    reason: str | None = None


class MetricView(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that fits the task: the name to choose it by, its title and one line about it."""

    name: str
    title: str
    description: str


class LeaderboardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the leaderboard: a model at its best trial so far, or the ensemble.

    Attributes:
        rank: 1 is best; 0 for rows without a score.
        score, low, high: out-of-fold score with its 95 % bootstrap interval, in the metric's units.
        folds: how many folds the score covers.
        trials: how many trials have ended; `trial` is the number of the best (0 is the defaults).
        fit_seconds: training time of the best trial, all folds together.
        predict_ms_per_1k: milliseconds to predict 1,000 rows with all its fold models.
        status, reason: where it stands, and why where that needs a reason.
        activity: what runs right now, such as "trial 3 · fold 2/5"; empty when nothing does.
        in_ensemble: weight in the ensemble, 0 when it is not a member.
        params: the best trial's hyper-parameters.
        held: what the user has done to the model: stopped for good, or paused; it gets no further fits.
        share: the user's factor on the model's share of the time; 1 is an equal share.
        left_out: the user keeps it out of the ensemble.
        not_started: the row is skipped because no fit of the model started within the budget.
    """

    rank: int
    model: str
    title: str
    family: str
    score: float | None = None
    low: float | None = None
    high: float | None = None
    folds: int = 0
    trials: int = 0
    trial: int | None = None
    fit_seconds: float = 0.0
    predict_ms_per_1k: float | None = None
    status: RowStatus = "queued"
    reason: str | None = None
    activity: str = ""
    in_ensemble: float = 0.0
    params: dict[str, Any] = {}
    held: Literal["", "stopped", "paused"] = ""
    share: float = 1.0
    left_out: bool = False
    not_started: bool = False


class EnsembleMember(msgspec.Struct, frozen=True, kw_only=True):
    """A trial in the ensemble with its weight; the weights sum to 1."""

    model: str
    trial: int
    weight: float


class ImportanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """How much one data column matters: its share of attention (None without a model that has any), and how much the
    metric worsens when its values are shuffled, with the spread over repeats."""

    feature: str
    attention: float | None
    permutation: float
    low: float
    high: float


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that were given about the same probability: its mean, how often it came true with a 95 % interval, how many rows."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


class ResidualBand(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with about the same prediction: its mean, and the 10 %, 50 % and 90 % quantiles of truth minus prediction."""

    predicted: float
    low: float
    median: float
    high: float
    count: int


class ParameterImportance(msgspec.Struct, frozen=True, kw_only=True):
    """A hyper-parameter and its importance for being among the best trials; the shares of a model sum to 1."""

    name: str
    importance: float


class ErrorSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that have a column's value in common, and how wrong the predictions are on them.

    Attributes:
        level: what they have in common, such as "> 65", "= Private" or "missing".
        error: mean error of the `n` rows; `share_wrong` of them are given the wrong class (None for regression).
        difference: how much worse than the rest of the table, shrunk towards 0 as far as chance among so many slices asks.
        low, high: its interval, adjusted for the number of slices that were looked at.
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
    """The mean prediction at each place of a feature; `low` and `high` are the 10 % and 90 % quantiles over rows.

    `label` is the class whose probability it is, empty for regression.
    """

    label: str
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """How the prediction goes with one feature: numbers in `places` or levels in `labels`, `counts` rows of the table at each."""

    feature: str
    places: tuple[float, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    curves: tuple[EffectCurve, ...]


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The winner of a run and its score with interval."""

    model: str
    score: float | None
    low: float | None
    high: float | None
