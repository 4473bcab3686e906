"""Write a finished run to disk without an engine. It contains every kind of event."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabapp.findings import (
    ColumnAttention,
    CombinedColumns,
    CurvePoint,
    Effect,
    EffectCurve,
    ErrorSlice,
    Gap,
    Group,
    ImportanceRow,
    Interaction,
    ModelAttention,
    Rate,
    ReliabilityBin,
)
from tabapp.run.analyses.attention import AttentionMap, AttentionReady
from tabapp.run.analyses.attention_importances import AttentionImportancesReady
from tabapp.run.analyses.between_rows import (
    BetweenRowsReady,
    Deletion,
    FewRows,
    HeadWeight,
    LinkedRow,
    NearWeight,
    RowLink,
    WeightMap,
)
from tabapp.run.analyses.dependence import ConditionalImportance, DependenceReady, GroupImportance
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.faithfulness import FaithfulnessReady, FaithfulnessRow
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.analyses.learning_curve import RowCurveReady
from tabapp.run.analyses.parts import Gain
from tabapp.run.analyses.robustness import RobustnessReady
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.analyses.time_curve import TimeCurveReady
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventLog, RunFolder

MODEL = ev.ModelView(name="lightgbm", title="LightGBM", family="gbdt")
ENSEMBLE_ROW = ev.LeaderboardRow(
    rank=1, model="ensemble", title="Ensemble", family="ensemble", score=0.91, low=0.9, high=0.92, folds=5, status="ok"
)
LIGHTGBM_ROW = ev.LeaderboardRow(
    rank=2,
    model="lightgbm",
    title="LightGBM",
    family="gbdt",
    score=0.9,
    low=0.89,
    high=0.91,
    folds=5,
    trials=2,
    trial=1,
    fit_seconds=3.0,
    predict_ms_per_1k=1.5,
    status="ok",
    in_ensemble=1.0,
    params={"num_leaves": 31},
)
POINT = CurvePoint(place=0.0, score=0.91, low=0.9, high=0.92)
IMPORTANCE = ImportanceRow(feature="age", attention=0.4, permutation=0.05, low=0.04, high=0.06)
PLAN = ev.PlanMade(
    target="bought",
    target_reason="Set by --target.",
    task="binary",
    task_reason="It has two distinct values.",
    classes=("no", "yes"),
    metric="roc_auc",
    metric_title="ROC AUC",
    metrics=(
        ev.MetricView(name="roc_auc", title="ROC AUC", description="Ranking of the classes"),
        ev.MetricView(name="log_loss", title="log loss", description="Error of the probabilities"),
    ),
    greater_is_better=True,
    validation="5-fold stratified cross-validation",
    validation_reason="1,000 rows; every row is scored once",
    folds=5,
    budget=60.0,
    trials=None,
    quality="balanced",
    device="cpu",
    workers=2,
    seed=0,
    models=(MODEL,),
    command="tabapp --auto shop.csv",
)


def finished(run: str, **changes: object) -> ev.RunFinished:
    """The last event of a successful run."""
    fields: dict[str, object] = {
        "status": "ok",
        "run": run,
        "bundle": None,
        "task": "binary",
        "target": "bought",
        "metric": "roc_auc",
        "greater_is_better": True,
        "best": ev.Best(model="ensemble", score=0.91, low=0.9, high=0.92),
        "test_score": None,
        "seconds": 12.0,
        "leaderboard": (ENSEMBLE_ROW, LIGHTGBM_ROW),
        "importances": (IMPORTANCE,),
        "agreement": {"attention_vs_permutation": 1.0},
    }
    return ev.RunFinished(**{**fields, **changes})  # type: ignore[arg-type]


def recorded(run: str) -> list[ev.Event]:
    """Every kind of event at least once, in an order that an engine could produce."""
    return [
        ev.RunStarted(run=run, name="shop", data="/data/shop.csv", pid=1, seed=0, budget=60.0, version="0.1.0"),
        ev.StageChanged(stage="reading"),
        ev.DataRead(
            file="shop.csv",
            rows=1000,
            columns=3,
            n_bytes=20_000,
            format="csv",
            encoding="utf-8",
            delimiter=",",
            names=("age", "city", "bought"),
            preview=(("31", None, "yes"),),
        ),
        ev.SchemaInferred(
            columns=(
                ev.ColumnView(
                    name="age",
                    kind="numeric",
                    role="feature",
                    reason="Numbers.",
                    missing=0,
                    unique=60,
                    summary="18 … 90",
                ),
            ),
            warnings=(ev.WarningView(check="imbalance", column="bought", message="It is rare.", action="kept"),),
            rows=1000,
            rows_without_target=0,
        ),
        PLAN,
        ev.StageChanged(stage="ready"),
        ev.PlanRefused(message="There is no metric named 'auc'."),
        ev.StageChanged(stage="fitting", deadline=1e9),
        ev.FitStarted(
            fit="lightgbm-0-0",
            model="lightgbm",
            trial=0,
            fold=0,
            folds=5,
            pid=2,
            reason="a fold takes about 1 s",
            seconds=1.0,
        ),
        ev.FitProgress(fit="lightgbm-0-0", model="lightgbm", trial=0, fold=0, step=10, value=0.8),
        ev.FitFinished(fit="lightgbm-0-0", model="lightgbm", trial=0, fold=0, score=0.9, seconds=1.0),
        ev.TrialFinished(model="lightgbm", trial=0, score=0.9, seconds=3.0, params={"num_leaves": 31}),
        ev.FitStarted(fit="lightgbm-1-0", model="lightgbm", trial=1, fold=0, folds=5, pid=3),
        ev.FitFailed(fit="lightgbm-1-0", model="lightgbm", trial=1, fold=0, reason="its process was ended by SIGKILL"),
        ev.TrialPruned(model="lightgbm", trial=1, reason="a fit failed"),
        ev.FitsPlanned(
            next=(
                ev.PlannedFit(model="lightgbm", trial=0, fold=1, folds=5, seconds=1.0, reason="its first fold is done"),
            ),
            waiting=(ev.WaitingModel(model="mlp", seconds=4.0, needed=20.0, note="its 5 folds need about 20 s"),),
            in_time=0,
        ),
        ev.LeaderboardChanged(rows=(LIGHTGBM_ROW,)),
        ev.Resources(cpu_percent=150.0, memory=2**30, memory_total=2**34),
        ev.Log(level="warning", message="Something to know."),
        ev.ScoreSettled(gain=0.0004, half_width=0.01),
        ev.StageChanged(stage="ensembling"),
        ev.EnsembleChanged(
            members=(ev.EnsembleMember(model="lightgbm", trial=0, weight=1.0),), score=0.91, low=0.9, high=0.92
        ),
        ev.EnsembleCompared(
            n_rows=1000,
            rows=(
                ev.PairedDifference(
                    model=ev.BASELINE, what="the share of each class", score=0.5, advantage=0.41, low=0.38, high=0.44
                ),
                ev.PairedDifference(model="lightgbm", trial=0, score=0.912, advantage=-0.002, low=-0.006, high=0.002),
            ),
        ),
        ev.EvaluationReady(
            model="lightgbm",
            trial=0,
            n_rows=1000,
            labels=("no", "yes"),
            confusion=((700, 100), (50, 150)),
            positive="yes",
            roc=((0.0, 0.0), (0.1, 0.8), (1.0, 1.0)),
            calibration=(ReliabilityBin(predicted=0.1, observed=0.12, low=0.08, high=0.17, count=300),),
        ),
        ev.ParametersRanked(
            model="lightgbm", n_trials=12, rows=(ev.ParameterImportance(name="num_leaves", importance=1.0),)
        ),
        ev.StageChanged(stage="explaining"),
        ev.SlicesReady(
            model="ensemble",
            measure="log loss",
            overall=0.3,
            n_rows=1000,
            tested=12,
            rows=(
                ErrorSlice(
                    column="age",
                    level="> 70",
                    n=80,
                    error=0.7,
                    share_wrong=0.3,
                    difference=0.3,
                    low=0.1,
                    high=0.5,
                    clear=True,
                ),
            ),
        ),
        ev.ImportancesReady(
            rows=(IMPORTANCE,), model="lightgbm", attention_model="ft_transformer", n_rows=1000, agreement=1.0
        ),
        ev.EffectsReady(
            model="lightgbm",
            n_rows=200,
            effects=(
                Effect(
                    feature="age",
                    places=(18.0, 90.0),
                    labels=(),
                    counts=(600, 400),
                    curves=(EffectCurve(label="yes", values=(0.2, 0.6), low=(0.1, 0.4), high=(0.3, 0.8)),),
                ),
            ),
        ),
        finished(run),
    ]


def steps() -> list[ev.Event]:
    """What the process of an analysis records beside the result."""
    return [
        ev.AnalysisStarted(option="fairness", value="city"),
        ev.AnalysisProgress(option="fairness", value="city", share=0.5),
        ev.AnalysisEnded(option="fairness", value="city", status="done"),
    ]


ATTENTION = ModelAttention(
    model="lightgbm",
    trial=1,
    kind="attention",
    n_rows=200,
    n_folds=5,
    rows=(
        ColumnAttention(feature="age", share=0.7, low=0.6, high=0.8, raw=0.7, streams=(0.7, 0.4)),
        ColumnAttention(feature="city", share=0.3, low=0.2, high=0.4, raw=0.3, streams=(0.3, 0.6)),
    ),
    agreement=0.5,
    streams=("sums", "products"),
    combinations=(CombinedColumns(columns=("age", "city"), frequency=0.9, n_found=4, n_folds=5),),
)


def analyses() -> list[ev.Event]:
    """What a user requests after a run."""
    return [
        AttentionImportancesReady(model="lightgbm", trial=1, found=ATTENTION),
        ThresholdChosen(
            value=0.31,
            metric="f1",
            metric_title="F1",
            positive="yes",
            low=0.25,
            high=0.4,
            score=0.7,
            score_low=0.65,
            score_high=0.75,
            at_half=0.6,
            curve=((0.2, 0.65), (0.31, 0.71), (0.5, 0.6)),
            tp=180,
            fp=90,
            fn=20,
            tn=710,
            counts=((190, 150, 10, 650), (180, 90, 20, 710), (120, 40, 80, 760)),
        ),
        RobustnessReady(
            n_rows=1000,
            missing=(POINT, CurvePoint(place=0.2, score=0.85, low=0.83, high=0.87)),
            noisy=(POINT, CurvePoint(place=0.2, score=0.82, low=0.8, high=0.84)),
        ),
        RowCurveReady(
            model="lightgbm",
            points=(
                CurvePoint(place=400, score=0.85, low=0.83, high=0.87),
                msgspec.structs.replace(POINT, place=800),
            ),
            gain=0.02,
            low=0.01,
            high=0.03,
        ),
        TimeCurveReady(
            model="lightgbm",
            column="joined",
            since="2024-03-01 00:00:00",
            n_rows=200,
            recent=(
                CurvePoint(place=400, score=0.86, low=0.84, high=0.88),
                msgspec.structs.replace(POINT, place=800),
            ),
            oldest=(CurvePoint(place=400, score=0.8, low=0.78, high=0.82),),
            older_rows=Gain(value=-0.01, low=-0.03, high=0.01),
            recency=Gain(value=0.06, low=0.04, high=0.08),
        ),
        FairnessReady(
            column="city",
            label="yes",
            threshold=0.31,
            groups=tuple(
                Group(
                    level=level,
                    n=500,
                    rates=(Rate(name="selection rate", value=share, low=share - 0.04, high=share + 0.04, n=500),),
                )
                for level, share in (("= east", 0.3), ("= west", 0.2))
            ),
            gaps=(
                Gap(
                    rate="selection rate",
                    highest="= east",
                    lowest="= west",
                    difference=0.1,
                    low=0.04,
                    high=0.16,
                    clear=True,
                ),
            ),
        ),
        DependenceReady(
            model="lightgbm",
            groups=(GroupImportance(columns=("age", "city"), permutation=0.12, low=0.1, high=0.14),),
            conditional=(ConditionalImportance(feature="age", permutation=0.02, low=0.01, high=0.03),),
        ),
        InteractionsReady(
            model="lightgbm",
            label="yes",
            columns=("age", "city"),
            pairs=(Interaction(a="age", b="city", h=0.35, size=0.04),),
        ),
        AttentionReady(
            model="ft_transformer",
            n_rows=500,
            maps=tuple(
                AttentionMap(
                    title=title,
                    queries=("[CLS]", "age", "city")[:n],
                    keys=("[CLS]", "age", "city"),
                    chance=(0.25, 0.25, 0.5),
                    heads=tuple(((0.2, 0.5, 0.3),) * n for _ in range(2)),
                    spread=((0.01, 0.02, 0.02),) * n,
                )
                for title, n in (("layer 1", 3), ("layer 2", 1))
            ),
        ),
        BetweenRowsReady(
            model="ft_transformer",
            n_rows=300,
            n_stored=800,
            metric_title="ROC AUC",
            n_corrupted=300,
            score=0.9,
            corrupted=0.8,
            gain=Gain(value=-0.1, low=-0.12, high=-0.08),
            change=(0.3, 0.25, 0.35),
            near=(
                NearWeight(chance=0.05, weight=0.3, low=0.28, high=0.32),
                NearWeight(chance=1.0, weight=1.0, low=1.0, high=1.0),
            ),
            common=0.4,
            common_chance=0.006,
            maps=(
                WeightMap(title="", cells=((2.0, 0.5), (0.4, 1.8))),
                WeightMap(title="layer 1", cells=((1.0, 1.0), (1.0, 1.0))),
            ),
            heads=(HeadWeight(title="layer 1", heads=(6.0, 1.0)),),
            few=(FewRows(share=0.5, by_weight=0.1, at_random=0.2, p=0.01, score_by_weight=0.9, score_at_random=0.88),),
            n_few=30,
            deletion=Deletion(
                n_rows=10,
                n_stored=200,
                share_left=0.1,
                left=2.0,
                random=4.0,
                deleted=None,
                p_random=0.001,
                p_deleted=None,
            ),
            rows=(
                LinkedRow(
                    row=7,
                    prediction="yes (80 %)",
                    target="no",
                    nearest=(RowLink(row=2, target="no", distance=0.1, rank=1, weight=0.2),),
                    attended=(RowLink(row=5, target="yes", distance=1.5, rank=9, weight=0.4),),
                ),
            ),
        ),
        FaithfulnessReady(
            model="ft_transformer",
            metric_title="ROC AUC",
            methods=("attention", "permutation", "integrated gradients", "drop and refit"),
            rows=(
                FaithfulnessRow(feature="age", values=(0.5, 0.05, 0.4, 0.03)),
                FaithfulnessRow(feature="city", values=(0.5, 0.01, 0.1, None), advice="Trust permutation."),
            ),
            correlations=(
                (1.0, 0.5, 0.5, None),
                (0.5, 1.0, 1.0, None),
                (0.5, 1.0, 1.0, None),
                (None, None, None, 1.0),
            ),
        ),
    ]


def write_run(runs_dir: Path, run: str = "20260102-030405-shop-a1b2", config: RunConfig | None = None) -> RunFolder:
    """Create a run folder that contains the recorded run."""
    folder = RunFolder(runs_dir / run)
    folder.path.mkdir(parents=True)
    folder.save_config(config or RunConfig(data="/data/shop.csv", target="bought", budget=60.0))
    log = EventLog(folder.events)
    for event in recorded(run):
        log.append(event)
    log.close()
    return folder


def target_result(target: str, score: float | None, **changes: object) -> ev.TargetResult:
    """The result of one target of a run with several."""
    fields: dict[str, object] = {
        "status": "ok",
        "run": "1-a",
        "bundle": "/runs/a/model.tabapp",
        "task": "binary",
        "target": target,
        "metric": "roc_auc",
        "greater_is_better": True,
        "best": ev.Best(model="ensemble", score=score, low=0.8, high=0.95),
        "test_score": None,
        "seconds": 2.0,
        "leaderboard": (msgspec.structs.replace(ENSEMBLE_ROW, score=score),),
        "importances": (),
        "agreement": {"attention_vs_permutation": None},
    }
    return ev.TargetResult(**{**fields, **changes})  # type: ignore[arg-type]


def targets() -> list[ev.Event]:
    """The events that only a run with several targets has."""
    names = ("bought", "price")
    return [
        ev.TargetStarted(index=0, target="bought", targets=names, folder="targets/1-bought"),
        ev.TargetFinished(index=0, result=target_result("bought", 0.91)),
    ]
