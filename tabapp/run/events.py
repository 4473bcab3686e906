"""The vocabulary of a run: what the engine says, in the order it happened. Small, typed, versioned.

Every event has `v` (version of the vocabulary), `seq` (1, 2, 3 … within a run), `t` (seconds since the epoch) and `ev` (its name).
A reader skips events it does not know and fields it does not know; a new field has a default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

VERSION = 1

Stage = Literal["starting", "reading", "ready", "fitting", "ensembling", "explaining", "exporting", "done"]
RowStatus = Literal["ok", "running", "queued", "failed", "pruned", "skipped"]
FinishStatus = Literal["ok", "interrupted", "failed"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="ev"):
    """What all events have. `seq` and `t` are given when the event is written."""

    v: int = VERSION
    seq: int = 0
    t: float = 0.0


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
    """A model of the plan; `reason` says why it sits out, None when it competes."""

    name: str
    title: str
    family: str
    reason: str | None = None


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
        share: how much more of the time than its due the user gives it; 1 is its due.
        left_out: the user keeps it out of the ensemble.
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
    """A hyper-parameter and its share of what decides whether a trial is among the best; the shares of a model sum to 1."""

    name: str
    importance: float


class ErrorSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that have a column's value in common, and how wrong the predictions are on them.

    Attributes:
        level: what they have in common, such as "> 65", "= Private" or "missing".
        error: mean error of the `n` rows; `share_wrong` of them are given the wrong class (None for regression).
        difference: how much worse than the rest of the table, shrunk towards 0 as far as chance among so many slices asks.
        low, high: its interval, adjusted for the number of slices that were looked at.
        clear: whether the interval lies above 0.
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


class RunStarted(Event, tag="run.started", frozen=True, kw_only=True):
    """The engine has taken the run: at first, and again on each resume."""

    run: str
    name: str
    data: str
    pid: int
    seed: int
    budget: float | None
    version: str
    resumed: bool = False


class StageChanged(Event, tag="stage.changed", frozen=True, kw_only=True):
    """The run entered a stage, was paused, or goes on. `deadline` is when the run must be over, in seconds since the epoch."""

    stage: Stage
    paused: bool = False
    deadline: float | None = None


class DataRead(Event, tag="data.read", frozen=True, kw_only=True):
    """The file is read; `preview` holds its first rows as text, None for an empty cell."""

    file: str
    rows: int
    columns: int
    n_bytes: int
    format: str
    encoding: str | None
    delimiter: str | None
    names: tuple[str, ...]
    preview: tuple[tuple[str | None, ...], ...]


class SchemaInferred(Event, tag="schema.inferred", frozen=True, kw_only=True):
    """What each column was taken for, and what looks wrong."""

    columns: tuple[ColumnView, ...]
    warnings: tuple[WarningView, ...]
    rows: int
    rows_without_target: int


class PlanMade(Event, tag="plan.made", frozen=True, kw_only=True):
    """What the run will do. Sent again when a screen changes an option before the start."""

    target: str
    target_reason: str
    task: Literal["binary", "multiclass", "regression"]
    task_reason: str
    classes: tuple[str, ...]
    metric: str
    metric_title: str
    metrics: tuple[str, ...]
    """Every metric that fits the task."""
    greater_is_better: bool
    validation: str
    """In words, such as "5-fold stratified"."""
    validation_reason: str
    folds: int
    budget: float | None
    trials: int | None
    quality: str
    device: str
    workers: int
    seed: int
    models: tuple[ModelView, ...]
    command: str


class PlanRefused(Event, tag="plan.refused", frozen=True, kw_only=True):
    """An option that a screen sent cannot be followed; the plan stands as it was. `message` is a sentence for the user."""

    message: str


class FitStarted(Event, tag="fit.started", frozen=True, kw_only=True):
    """A fit process works on one fold of one trial. `folds` is how many the trial has in all."""

    fit: str
    model: str
    trial: int
    fold: int
    folds: int
    pid: int


class FitProgress(Event, tag="fit.progress", frozen=True, kw_only=True):
    """A score on the early-stopping rows after `step` epochs or trees."""

    fit: str
    model: str
    trial: int
    fold: int
    step: int
    value: float


class FitFinished(Event, tag="fit.finished", frozen=True, kw_only=True):
    """A fit is complete and on disk. `score` is on the fold's held-out rows."""

    fit: str
    model: str
    trial: int
    fold: int
    score: float
    seconds: float


class FitFailed(Event, tag="fit.failed", frozen=True, kw_only=True):
    """A fit ended without a model: `reason` is a sentence, `detail` the traceback or what the system said."""

    fit: str
    model: str
    trial: int
    fold: int
    reason: str
    detail: str = ""


class TrialFinished(Event, tag="trial.finished", frozen=True, kw_only=True):
    """All folds of a trial have a score."""

    model: str
    trial: int
    score: float
    seconds: float
    params: dict[str, Any]


class TrialPruned(Event, tag="trial.pruned", frozen=True, kw_only=True):
    """A trial was given up; told to the tuner as pruned, with the true cause in `reason`."""

    model: str
    trial: int
    reason: str
    score: float | None = None
    params: dict[str, Any] = {}


class LeaderboardChanged(Event, tag="leaderboard.changed", frozen=True, kw_only=True):
    """The whole leaderboard, best first."""

    rows: tuple[LeaderboardRow, ...]


class EnsembleChanged(Event, tag="ensemble.changed", frozen=True, kw_only=True):
    """The ensemble was selected anew. The score is cross-fitted: weights never saw the rows they are scored on."""

    members: tuple[EnsembleMember, ...]
    score: float
    low: float
    high: float


class ImportancesReady(Event, tag="importances.ready", frozen=True, kw_only=True):
    """What the columns matter: permutation importance of `model`, attention of `attention_model` where one was trained."""

    rows: tuple[ImportanceRow, ...]
    model: str
    attention_model: str | None
    n_rows: int
    agreement: float | None
    """Spearman's rank correlation of attention and permutation importance."""


class EvaluationReady(Event, tag="evaluation.ready", frozen=True, kw_only=True):
    """Pictures of the out-of-fold predictions of a model's best trial, or of the ensemble. What a task does not have is empty.

    Attributes:
        trial: None for the ensemble.
        n_rows: how many rows the pictures rest on; `sampled` when they are fewer than were scored.
        size: bytes of its fold models on disk.
        labels, confusion: classes, and rows by true class and predicted class; the last class may be "other".
        positive: the class of the two curves; empty where they are means over the classes.
        roc: (false positive rate, true positive rate), `precision_recall`: (recall, precision), each at most 100 points.
        base_rate: share of rows that are positive.
        density: counts by bin of the truth (lowest first), then by bin of the prediction; both axes span `density_range`.
        residuals: counts of truth minus prediction in equal bins of `residual_range`; both ranges leave out far outliers, which
            count in the outermost bins.
        residual_quantiles: the 5, 25, 50, 75 and 95 % quantiles.
    """

    model: str
    trial: int | None
    n_rows: int
    sampled: bool = False
    size: int = 0
    labels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    positive: str = ""
    roc: tuple[tuple[float, float], ...] = ()
    precision_recall: tuple[tuple[float, float], ...] = ()
    roc_auc: float | None = None
    average_precision: float | None = None
    base_rate: float | None = None
    calibration: tuple[ReliabilityBin, ...] = ()
    calibration_error: float | None = None
    density: tuple[tuple[int, ...], ...] = ()
    density_range: tuple[float, float] = (0.0, 0.0)
    residuals: tuple[int, ...] = ()
    residual_range: tuple[float, float] = (0.0, 0.0)
    residual_quantiles: tuple[float, ...] = ()
    bands: tuple[ResidualBand, ...] = ()


class ParametersRanked(Event, tag="parameters.ranked", frozen=True, kw_only=True):
    """Which hyper-parameters of a model decide whether a trial is good, from its `n_trials` complete trials; dearest first."""

    model: str
    n_trials: int
    rows: tuple[ParameterImportance, ...]


class SlicesReady(Event, tag="slices.ready", frozen=True, kw_only=True):
    """Where the out-of-fold predictions of `model` are worst: the worst of `tested` slices, `overall` being the mean error."""

    model: str
    measure: str
    overall: float
    n_rows: int
    tested: int
    rows: tuple[ErrorSlice, ...]


class EffectsReady(Event, tag="effects.ready", frozen=True, kw_only=True):
    """Partial dependence of the predictions of `model` on the features that matter most to it."""

    model: str
    n_rows: int
    effects: tuple[Effect, ...]


class Resources(Event, tag="resources", frozen=True, kw_only=True):
    """What the run uses now: CPU in percent of one core, memory in bytes; GPU figures where there is one."""

    cpu_percent: float
    memory: int
    memory_total: int
    gpu_percent: float | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None


class Log(Event, tag="log", frozen=True, kw_only=True):
    """A sentence for the reader of the run."""

    level: Literal["info", "warning", "error"]
    message: str


class RunFinished(Event, tag="run.finished", frozen=True, kw_only=True):
    """The last event, as `interface.md` fixes it. `exit_code` and `message` say what a command should end with."""

    status: FinishStatus
    run: str
    bundle: str | None
    task: str | None
    target: str | None
    metric: str | None
    greater_is_better: bool | None
    best: Best | None
    test_score: float | None
    seconds: float
    leaderboard: tuple[LeaderboardRow, ...]
    importances: tuple[ImportanceRow, ...]
    agreement: dict[str, float | None]
    exit_code: int = 0
    message: str = ""


AnyEvent = (
    RunStarted
    | StageChanged
    | DataRead
    | SchemaInferred
    | PlanMade
    | PlanRefused
    | FitStarted
    | FitProgress
    | FitFinished
    | FitFailed
    | TrialFinished
    | TrialPruned
    | LeaderboardChanged
    | EnsembleChanged
    | ImportancesReady
    | EvaluationReady
    | ParametersRanked
    | SlicesReady
    | EffectsReady
    | Resources
    | Log
    | RunFinished
)

_decoder = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


def encode(event: Event) -> bytes:
    """One event as a line of JSON with its newline. NaN and infinity become null."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes | str) -> AnyEvent | None:
    """Read one line; None for an event of a kind that this version does not know, or a damaged line."""
    try:
        return _decoder.decode(line)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
