"""The records in the events of a run: rows and columns as screens show them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tabapp.findings import ImportanceRow, ModelAttention
from tabapp.run.record.undefined import OptionalScore

BASELINE = "baseline"
"""The name of the best constant prediction where a model is named."""
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


class RemedyView(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the plan that remedies a warning: what it does, and an option of the run with its value as the command line
    takes it."""

    label: str
    option: str
    value: str


class WarningView(msgspec.Struct, frozen=True, kw_only=True):
    """A problem found in the data, the default action, and changes of the plan that remedy it."""

    check: str
    column: str | None
    message: str
    action: str
    remedies: tuple[RemedyView, ...] = ()


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the plan; `reason` explains why it is skipped, None when it competes. `predicts_from_rows` as in a plugin."""

    name: str
    title: str
    family: str
    reason: str | None = None
    predicts_from_rows: bool = False


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that `--models` may name.

    Attributes:
        paper: author and year of its source, or all of it where it does not begin with them.
        reason: why it is skipped on this table; None if it can compete.
        is_planned: it competes in this plan.
        seconds, n_bytes: expected time and memory of one fit of its defaults on this table; None until its plugin is loaded.
        device: where its fits run.
    """

    name: str
    title: str
    family: str = ""
    paper: str = ""
    reason: str | None = None
    is_planned: bool = False
    seconds: float | None = None
    n_bytes: int | None = None
    device: str = ""


class MetricView(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that is defined for the task: its name as an option, its title, a one-line description, whether it chooses a
    threshold, and whether its score has the unit of the target."""

    name: str
    title: str
    description: str
    chooses_threshold: bool = False
    has_unit: bool = True


class LeaderboardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the leaderboard: a model at its best trial so far, or the ensemble.

    Attributes:
        rank: 1 is best; 0 for rows without a score.
        score, low, high: out-of-fold score with its 95 % bootstrap interval, in the metric's units.
        folds: number of folds that the score covers.
        trials: number of finished trials; `trial` is the number of the best (0 has the default hyperparameters).
        fit_seconds: training time of the best trial, all folds together.
        predict_ms_per_1k: milliseconds to predict 1,000 rows with the models that a bundle has of it.
        status, reason: status of the model, and its cause where there is one.
        activity: the running fit, such as "trial 3 · fold 2/5"; empty without one.
        in_ensemble: weight in the ensemble, 0 for models outside it.
        params: the best trial's hyperparameters.
        summary: what the fitted models of the best trial report about themselves, over folds.
        held: whether the user stopped or paused the model; it gets no further fits.
        share: the user's factor on the model's share of the time; 1 is an equal share.
        left_out: the user excluded the model from the ensemble.
        not_started: the row is skipped because no fit of the model started within the budget.
        identity: a digest of the predictions that the score is of. Evaluations and analyses with the same one describe them; empty
            without a score.
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
    summary: dict[str, Any] = {}
    held: Literal["", "stopped", "paused"] = ""
    share: float = 1.0
    left_out: bool = False
    not_started: bool = False
    identity: str = ""


class EnsembleMember(msgspec.Struct, frozen=True, kw_only=True):
    """A trial in the ensemble with its weight; the weights sum to 1. Its predictions are means over `seeds` models of each fold."""

    model: str
    trial: int
    weight: float
    seeds: int = 1


class PairedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How much better the ensemble is than another prediction of the same rows.

    Attributes:
        model: name of the model, or `BASELINE`.
        trial, identity: of its best trial, as in `LeaderboardRow`.
        what: what a baseline predicts, such as "the mean".
        score: score of the other prediction.
        advantage: how much better the score of the ensemble is, in the metric's units; negative if it is worse.
        low, high: 95 % interval of the advantage, by a paired bootstrap over rows.
    """

    model: str
    trial: int | None = None
    identity: str = ""
    what: str = ""
    score: OptionalScore = None
    advantage: float
    low: float
    high: float

    @property
    def is_behind(self) -> bool:
        """Whether the other prediction is worse by more than chance explains.

        The opposite cannot be shown: the best of many trials was chosen on the rows that score it.
        """
        return self.low > 0


class PlannedFit(msgspec.Struct, frozen=True, kw_only=True):
    """A fit that would start next if no other ended: its expected seconds, and why the scheduler would choose it."""

    model: str
    trial: int
    fold: int
    folds: int
    seconds: float
    reason: str = ""


class WaitingModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model whose defaults lack folds, none of which is in progress.

    Attributes:
        folds: number of its folds that are complete.
        seconds: expected seconds of one more fold; `needed` is that of all missing folds together.
        note: why it does not continue now; empty if it only waits for a worker.
    """

    model: str
    folds: int = 0
    seconds: float
    needed: float
    note: str = ""


class ParameterImportance(msgspec.Struct, frozen=True, kw_only=True):
    """A hyperparameter and its importance for reaching the best trials; the importances of a model sum to 1."""

    name: str
    importance: float


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The best model of a run, and its score with interval."""

    model: str
    score: float | None
    low: float | None
    high: float | None


class TargetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one target of a run with several; the fields are those of `run.finished`."""

    status: Literal["ok", "interrupted", "failed"]
    run: str
    bundle: str | None
    task: str | None
    target: str
    metric: str | None
    greater_is_better: bool | None
    best: Best | None
    test_score: float | None
    seconds: float
    leaderboard: tuple[LeaderboardRow, ...]
    importances: tuple[ImportanceRow, ...]
    agreement: dict[str, float | None]
    importance_columns: int | None = None
    """Number of columns of the data, of which `importances` has those that were measured in time."""
    attention: tuple[ModelAttention, ...] = ()
    exit_code: int = 0
    message: str = ""
    folds: int = 0
    planned_folds: int = 0
