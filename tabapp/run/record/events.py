"""The events of a run, in the order in which the engine writes them: typed and versioned.

Every event has `v` (version of the vocabulary), `seq` (1, 2, 3 … within a run), `t` (seconds since the epoch), `elapsed` (seconds
of the session) and `ev` (its name). Readers skip unknown events and unknown fields; a new field has a default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tabapp.findings import Effect, ErrorSlice, ImportanceRow, ModelAttention, ReliabilityBin, ResidualBand
from tabapp.run.record.event_base import ENSEMBLE as ENSEMBLE
from tabapp.run.record.event_base import VERSION as VERSION
from tabapp.run.record.event_base import AnalysisEnded as AnalysisEnded
from tabapp.run.record.event_base import AnalysisEvent as AnalysisEvent
from tabapp.run.record.event_base import AnalysisProgress as AnalysisProgress
from tabapp.run.record.event_base import AnalysisStarted as AnalysisStarted
from tabapp.run.record.event_base import AnalysisStep as AnalysisStep
from tabapp.run.record.event_base import Described as Described
from tabapp.run.record.event_base import Event
from tabapp.run.record.records import BASELINE as BASELINE
from tabapp.run.record.records import (
    Best,
    ColumnView,
    EnsembleMember,
    LeaderboardRow,
    MetricView,
    ModelChoice,
    ModelView,
    PairedDifference,
    ParameterImportance,
    PlannedFit,
    TargetResult,
    WaitingModel,
    WarningView,
)
from tabapp.run.record.undefined import OptionalScore
from tabapp.task import Task

Stage = Literal["starting", "reading", "ready", "fitting", "ensembling", "explaining", "exporting", "done"]
FinishStatus = Literal["ok", "interrupted", "failed"]


class RunStarted(Event, tag="run.started", frozen=True, kw_only=True):
    """The engine started or resumed the run. `environment` is what `tabapp.run.texts.environment` returns."""

    run: str
    name: str
    data: str
    pid: int
    seed: int
    budget: float | None
    version: str
    resumed: bool = False
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class StageChanged(Event, tag="stage.changed", frozen=True, kw_only=True):
    """The run entered a stage, was paused, or resumed. `deadline` is the end of the budget, in seconds since the epoch."""

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
    """The inferred kind and role of each column, and warnings about the data. `rows_unlabelled` counts the rows of the file
    `--unlabelled`."""

    columns: tuple[ColumnView, ...]
    warnings: tuple[WarningView, ...]
    rows: int
    rows_without_target: int
    rows_unlabelled: int = 0


class PlanMade(Event, tag="plan.made", frozen=True, kw_only=True):
    """The plan of the run. The engine sends it again after a change of an option, the budget or the maximum of trials, and when
    it has loaded the plugins of further models. Views show the last plan."""

    target: str
    target_reason: str
    task: Task
    task_reason: str
    classes: tuple[str, ...]
    metric: str
    metric_title: str
    metrics: tuple[MetricView, ...]
    """Every metric that fits the task, the chosen one first."""
    greater_is_better: bool
    validation: str
    """A description such as "5-fold stratified cross-validation"."""
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
    n_gpus: int = 0
    device_reason: str = ""
    """Why some networks do not use the GPU of the run; empty otherwise."""
    targets: tuple[str, ...] = ()
    """All targets of a run with several; the plan is that of `target`."""
    choices: tuple[ModelChoice, ...] = ()
    """Every model that the plan may have; empty in earlier versions."""
    notes: tuple[str, ...] = ()
    """Warnings of the plan, such as that the metric is undefined on some folds."""
    seeds: int = 1
    """Seeds of each model of the final ensemble."""


class PlanRefused(Event, tag="plan.refused", frozen=True, kw_only=True):
    """An option that a screen sent is not valid; the plan is unchanged. `message` is a sentence for the user."""

    message: str


class FitStarted(Event, tag="fit.started", frozen=True, kw_only=True):
    """A fit process works on one of the `folds` of a trial, on a `device` such as "cuda:1"; None in runs of earlier versions.

    `reason` says why the scheduler chose it, and `seconds` how long it is expected to take; empty and None in runs of earlier
    versions, and where a node reports that it has begun. `seed` is above 0 for a further seed of a model of the final ensemble.
    """

    fit: str
    model: str
    trial: int
    fold: int
    folds: int
    pid: int
    node: str | None = None
    device: str | None = None
    reason: str = ""
    seconds: float | None = None
    seed: int = 0


class FitProgress(Event, tag="fit.progress", frozen=True, kw_only=True):
    """A score on the early-stopping rows after `step` epochs or trees."""

    fit: str
    model: str
    trial: int
    fold: int
    step: int
    value: float


class FitFinished(Event, tag="fit.finished", frozen=True, kw_only=True):
    """A fit is complete and on disk. `score` is on the fold's held-out rows; None if the metric is undefined there."""

    fit: str
    model: str
    trial: int
    fold: int
    score: OptionalScore
    seconds: float
    seed: int = 0


class FitFailed(Event, tag="fit.failed", frozen=True, kw_only=True):
    """A fit ended without a model: `reason` is a sentence, `detail` the traceback or the message of the operating system."""

    fit: str
    model: str
    trial: int
    fold: int
    reason: str
    detail: str = ""
    seed: int = 0


class TrialFinished(Event, tag="trial.finished", frozen=True, kw_only=True):
    """A trial has all of its folds. `score` is None if the metric is undefined on their rows."""

    model: str
    trial: int
    score: OptionalScore
    seconds: float
    params: dict[str, Any]


class TrialPruned(Event, tag="trial.pruned", frozen=True, kw_only=True):
    """A trial ended early; `reason` holds the cause."""

    model: str
    trial: int
    reason: str
    score: float | None = None
    params: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class LeaderboardChanged(Event, tag="leaderboard.changed", frozen=True, kw_only=True):
    """The whole leaderboard, best first."""

    rows: tuple[LeaderboardRow, ...]


class EnsembleChanged(Event, tag="ensemble.changed", frozen=True, kw_only=True):
    """A new ensemble was selected. The score is cross-fitted: weights are selected and scored on different rows.

    `identity` is that of its row on the leaderboard; `folds` counts those that the score covers, 0 if it is unknown.
    """

    members: tuple[EnsembleMember, ...]
    score: OptionalScore
    low: OptionalScore
    high: OptionalScore
    identity: str = ""
    folds: int = 0


class ScoreSettled(Event, tag="score.settled", frozen=True, kw_only=True):
    """The time that is left is expected to improve the score of the ensemble by at most `gain`, which is small beside the width of
    the 95 % interval; `half_width` is half of that. Both are in units of the metric. `ends` says that fitting ends therefore."""

    gain: float
    half_width: float
    ends: bool = False


class EnsembleCompared(Described, tag="ensemble.compared", frozen=True, kw_only=True):
    """The ensemble compared with the best constant prediction and with the best trials of models, on the rows that both score."""

    n_rows: int
    rows: tuple[PairedDifference, ...]


class FitsPlanned(Event, tag="fits.planned", frozen=True, kw_only=True):
    """The next fits, and the models whose defaults wait, in the order in which they continue.

    `in_time` counts the waiting models that may start now, and of which all folds are expected to end in time, one model after the
    other; None without a time limit. Models with a note may start later: another fit ends early, or nothing else uses the time.
    """

    next: tuple[PlannedFit, ...] = ()
    waiting: tuple[WaitingModel, ...] = ()
    in_time: int | None = None


class ImportancesReady(Described, tag="importances.ready", frozen=True, kw_only=True):
    """Feature importances: permutation importance of `model`, and attention of `attention_model` if one was trained."""

    rows: tuple[ImportanceRow, ...]
    attention_model: str | None
    n_rows: int
    agreement: float | None
    """Spearman's rank correlation of attention and permutation importance."""
    n_columns: int | None = None
    """Number of columns of the data, of which `rows` has those that were measured in time; None in logs of earlier versions."""
    attention_identity: str = ""
    """`LeaderboardRow.identity` of `attention_model`."""
    preliminary: bool = False
    """Measured during fitting, with fewer rows and shuffles; the end of the run replaces it."""


class EvaluationReady(Described, tag="evaluation.ready", frozen=True, kw_only=True):
    """Diagnostics of the out-of-fold predictions of a model's best trial or of the ensemble. Fields that do not apply are empty.

    Attributes:
        n_rows: number of rows used; `sampled` is True when this is a sample of the scored rows.
        size: bytes of its fold models on disk.
        labels, confusion: classes, and rows by true class and predicted class; the last class may be "other".
        positive: the class of both curves; empty when they are means over the classes.
        roc: (false positive rate, true positive rate), `precision_recall`: (recall, precision), each at most 100 points.
        gain: (share of rows by descending probability, share of the positive rows among them); for two classes.
        base_rate: share of rows that are positive.
        temperature: that of the ensemble's probabilities, if it has one; `uncalibrated_log_loss` and `uncalibrated_error` are the
            values without it, or without the scaling by class that the ensemble has instead.
        density: counts by bin of the truth (lowest first), then by bin of the prediction; both axes span `density_range`.
        residuals: counts of truth minus prediction in equal bins of `residual_range`; far outliers are outside both ranges and
            count in the outermost bins.
        residual_quantiles: the 5, 25, 50, 75 and 95 % quantiles.
    """

    n_rows: int
    sampled: bool = False
    size: int = 0
    labels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    positive: str = ""
    roc: tuple[tuple[float, float], ...] = ()
    precision_recall: tuple[tuple[float, float], ...] = ()
    gain: tuple[tuple[float, float], ...] = ()
    roc_auc: float | None = None
    average_precision: float | None = None
    base_rate: float | None = None
    calibration: tuple[ReliabilityBin, ...] = ()
    calibration_error: float | None = None
    log_loss: float | None = None
    temperature: float | None = None
    uncalibrated_error: float | None = None
    uncalibrated_log_loss: float | None = None
    density: tuple[tuple[int, ...], ...] = ()
    density_range: tuple[float, float] = (0.0, 0.0)
    residuals: tuple[int, ...] = ()
    residual_range: tuple[float, float] = (0.0, 0.0)
    residual_quantiles: tuple[float, ...] = ()
    bands: tuple[ResidualBand, ...] = ()


class ParametersRanked(Event, tag="parameters.ranked", frozen=True, kw_only=True):
    """Hyperparameter importances of a model from its `n_trials` complete trials, most important first."""

    model: str
    n_trials: int
    rows: tuple[ParameterImportance, ...]


class SlicesReady(Described, tag="slices.ready", frozen=True, kw_only=True):
    """The worst of `tested` slices of the out-of-fold predictions of `model`. `overall` is the mean error of all rows."""

    measure: str
    overall: float
    n_rows: int
    tested: int
    rows: tuple[ErrorSlice, ...]


class EffectsReady(Described, tag="effects.ready", frozen=True, kw_only=True):
    """Partial dependence of the predictions of `model` on its most important features."""

    n_rows: int
    effects: tuple[Effect, ...]


class Resources(Event, tag="resources", frozen=True, kw_only=True):
    """Current resource use: CPU in percent of one core, memory in bytes; GPU values are None without a GPU."""

    cpu_percent: float
    memory: int
    memory_total: int
    gpu_percent: float | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None


class Log(Event, tag="log", frozen=True, kw_only=True):
    """A message for the user, one sentence."""

    level: Literal["info", "warning", "error"]
    message: str


class TargetStarted(Event, tag="target.started", frozen=True, kw_only=True):
    """A run with several targets works on one of them. The events up to `target.finished` are those of its own run.

    `index` is its place among `targets`, from 0; `folder` is that of its run, relative to the folder of the whole run.
    """

    index: int
    target: str
    targets: tuple[str, ...]
    folder: str


class TargetFinished(Event, tag="target.finished", frozen=True, kw_only=True):
    """The work on a target of a run with several ended."""

    index: int
    result: TargetResult


class RunFinished(Event, tag="run.finished", frozen=True, kw_only=True):
    """The last event of a session. A command exits with `exit_code` and prints `message`."""

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
    importance_columns: int | None = None
    """Number of columns of the data, of which `importances` has those that were measured in time."""
    exit_code: int = 0
    message: str = ""
    folds: int = 0
    planned_folds: int = 0
    """The score of `best` covers `folds` of the `planned_folds` of the validation; 0 without a score and in earlier versions."""
    attention: tuple[ModelAttention, ...] = ()
    """Attention importances of each model that has attention, members of the ensemble first."""
    targets: tuple[TargetResult, ...] = ()
    """The results of a run with several targets; the fields beside it are those of the first target."""


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
    | ScoreSettled
    | EnsembleCompared
    | FitsPlanned
    | ImportancesReady
    | EvaluationReady
    | ParametersRanked
    | SlicesReady
    | EffectsReady
    | Resources
    | Log
    | AnalysisStarted
    | AnalysisProgress
    | AnalysisEnded
    | TargetStarted
    | TargetFinished
    | RunFinished
    | AnalysisEvent
)
"""Analyses declare their own events, which derive from `AnalysisEvent`."""
