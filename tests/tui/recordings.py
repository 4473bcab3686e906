"""The events of a synthetic run from start to end, as an engine would write them."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec

from tabapp import metrics
from tabapp.findings import ImportanceRow
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import RunFolder, create_run

START = 1_790_000_000.0
BUDGET = 120.0
DEADLINE = START + BUDGET

COLUMNS = (
    ("PassengerId", "identifier", "ignore", "every value is different and they count up from 1", 0, 891, "1 … 891", ()),
    (
        "Survived",
        "boolean",
        "target",
        "the name says an outcome, and it has 2 values",
        0,
        2,
        "62% 0",
        (549, 342),
    ),
    (
        "Pclass",
        "categorical",
        "feature",
        "3 whole numbers, each 184 times or more",
        0,
        3,
        "55% 3",
        (491, 216, 184),
    ),
    (
        "Name",
        "text",
        "feature",
        "891 different texts of 27 characters on average",
        0,
        891,
        "Braund, Mr. Owen Harris",
        (),
    ),
    ("Sex", "boolean", "feature", "2 values: male, female", 0, 2, "65% male", (577, 314)),
    (
        "Age",
        "numeric",
        "feature",
        "88 different numbers",
        177,
        88,
        "0.42 … 80",
        (54, 46, 177, 169, 118, 70, 45, 24, 9, 2),
    ),
    ("SibSp", "numeric", "feature", "7 different whole numbers", 0, 7, "0 … 8", (608, 209, 28, 16, 0, 18, 5, 0, 0, 7)),
    ("Parch", "numeric", "feature", "7 different whole numbers", 0, 7, "0 … 6", (678, 118, 0, 80, 0, 5, 4, 0, 5, 1)),
    ("Ticket", "categorical", "feature", "681 different texts", 0, 681, "1% 347082", (7, 7, 7, 6, 6, 6, 5, 4, 4, 4)),
    ("Fare", "numeric", "feature", "248 different numbers", 0, 248, "0 … 512", (732, 106, 31, 2, 11, 6, 0, 0, 0, 3)),
    ("Cabin", "categorical", "feature", "147 different texts", 687, 147, "2% B96 B98", (4, 4, 4, 3, 3, 3, 2, 2, 2, 2)),
    ("Embarked", "categorical", "feature", "3 different texts", 2, 3, "72% S", (644, 168, 77)),
)

PREVIEW = (
    ("1", "0", "3", "Braund, Mr. Owen Harris", "male", "22", "1", "0", "A/5 21171", "7.25", None, "S"),
    ("2", "1", "1", "Cumings, Mrs. John Bradley (Florence Briggs T.)", "female", "38", "1", "0", "PC 17599", "71.2833", "C85", "C"),
    ("3", "1", "3", "Heikkinen, Miss. Laina", "female", "26", "0", "0", "STON/O2. 3101282", "7.925", None, "S"),
    ("4", "1", "1", "Futrelle, Mrs. Jacques Heath (Lily May Peel)", "female", "35", "1", "0", "113803", "53.1", "C123", "S"),
    ("5", "0", "3", "Allen, Mr. William Henry", "male", "35", "0", "0", "373450", "8.05", None, "S"),
    ("6", "0", "3", "Moran, Mr. James", "male", None, "0", "0", "330877", "8.4583", None, "Q"),
)  # fmt: skip

WARNINGS = (
    ("identifier", "PassengerId", "PassengerId counts the rows, so it says nothing about a new one", "left out; space keeps it"),
    ("missing", "Cabin", "Cabin is missing in 77 % of the rows", "kept; missing is a value of its own"),
    ("rare_class", "Ticket", "547 of the 681 values of Ticket occur once", "rare values are taken together"),
)  # fmt: skip

MODELS = (
    ("xgboost", "XGBoost", "gbdt", None),
    ("catboost", "CatBoost", "gbdt", None),
    ("lightgbm", "LightGBM", "gbdt", None),
    ("mlp", "MLP", "deep", None),
    ("resnet", "ResNet", "deep", None),
    ("ft_transformer", "FT-Transformer", "deep", None),
    ("tabpfn", "TabPFN", "deep", "its library is not installed"),
)

CHOICES = (
    *(
        ev.ModelChoice(
            name=name,
            title=title,
            family=family,
            paper="Author et al. 2021",
            reason=reason,
            is_planned=reason is None,
            seconds=None if reason else 1.5 * place,
            n_bytes=None if reason else 20_000_000 * place,
            device="cpu",
        )
        for place, (name, title, family, reason) in enumerate(MODELS, 1)
    ),
    ev.ModelChoice(
        name="xgboost:paper",
        title="XGBoost (paper)",
        family="gbdt",
        paper="Author et al. 2021",
        seconds=4.0,
        device="cpu",
    ),
)

LEVELS = {"xgboost": 0.871, "catboost": 0.8785, "lightgbm": 0.866, "mlp": 0.852, "ft_transformer": 0.869}
TRIALS = {"xgboost": 14, "catboost": 9, "lightgbm": 18, "mlp": 6, "ft_transformer": 3}
SECONDS = {"xgboost": 1.9, "catboost": 4.2, "lightgbm": 0.8, "mlp": 3.1, "ft_transformer": 11.5}

IMPORTANCES = (
    ("Sex", 0.31, 0.1432, 0.0121),
    ("Pclass", 0.17, 0.0587, 0.0078),
    ("Age", 0.14, 0.0391, 0.0069),
    ("Fare", 0.12, 0.0214, 0.0052),
    ("Cabin", 0.06, 0.0162, 0.0041),
    ("SibSp", 0.05, 0.0118, 0.0033),
    ("Ticket", 0.07, 0.0064, 0.0030),
    ("Embarked", 0.04, 0.0041, 0.0022),
    ("Parch", 0.03, 0.0009, 0.0012),
    ("Name", 0.01, -0.0003, 0.0010),
)


def schema() -> ev.SchemaInferred:
    columns = tuple(
        ev.ColumnView(name=n, kind=k, role=r, reason=w, missing=m, unique=u, summary=s, histogram=h)
        for n, k, r, w, m, u, s, h in COLUMNS
    )
    warnings = tuple(ev.WarningView(check=c, column=n, message=m, action=a) for c, n, m, a in WARNINGS)
    return ev.SchemaInferred(columns=columns, warnings=warnings, rows=891, rows_without_target=0)


def plan(**changes: object) -> ev.PlanMade:
    made = ev.PlanMade(
        target="Survived",
        target_reason="its name says an outcome, and nothing else has 2 values and no missing cell",
        task="binary",
        task_reason="the target has 2 values",
        classes=("0", "1"),
        metric="roc_auc",
        metric_title="ROC AUC",
        metrics=tuple(
            ev.MetricView(
                name=metric.name,
                title=metric.title,
                description=metric.description,
                chooses_threshold=metric.chooses_threshold,
            )
            for metric in metrics.for_task("binary")
        ),
        greater_is_better=True,
        validation="5-fold stratified",
        validation_reason="891 rows are few, so each is scored once by a model that has not seen it",
        folds=5,
        budget=BUDGET,
        trials=None,
        quality="balanced",
        device="cpu",
        workers=2,
        seed=0,
        models=tuple(ev.ModelView(name=n, title=t, family=f, reason=r) for n, t, f, r in MODELS),
        choices=CHOICES,
        command="tabapp --auto titanic.csv --target Survived --budget 2m",
    )
    return msgspec.structs.replace(made, **changes)


def opening(run: str = "20260921-120000-titanic-a3f9") -> list[ev.Event]:
    """From the first event to a plan that waits for the start."""
    events: list[ev.Event] = [
        ev.RunStarted(t=START, run=run, name="", data="titanic.csv", pid=4711, seed=0, budget=BUDGET, version="0.1.0"),
        ev.StageChanged(t=START + 0.1, stage="reading"),
        ev.DataRead(
            t=START + 0.4,
            file="titanic.csv",
            rows=891,
            columns=len(COLUMNS),
            n_bytes=60_302,
            format="csv",
            encoding="utf-8",
            delimiter=",",
            names=tuple(column[0] for column in COLUMNS),
            preview=PREVIEW,
        ),
        msgspec.structs.replace(schema(), t=START + 0.6),
        plan(t=START + 0.7),
        ev.StageChanged(t=START + 0.7, stage="ready"),
    ]
    return events


class _Board:
    """The engine's leaderboard, kept as the recorded trials come in."""

    def __init__(self) -> None:
        self.rows = {
            name: ev.LeaderboardRow(
                rank=0, model=name, title=title, family=family, status="skipped" if reason else "queued", reason=reason
            )
            for name, title, family, reason in MODELS
        }

    def update(self, model: str, **changes: object) -> None:
        self.rows[model] = msgspec.structs.replace(self.rows[model], **changes)

    def event(self, t: float) -> ev.LeaderboardChanged:
        scored = sorted((r for r in self.rows.values() if r.score is not None), key=lambda row: -(row.score or 0))
        ranked = [msgspec.structs.replace(row, rank=rank) for rank, row in enumerate(scored, 1)]
        unscored = [row for row in self.rows.values() if row.score is None]
        return ev.LeaderboardChanged(t=t, rows=(*ranked, *unscored))


def _resources(t: float, random_: random.Random) -> ev.Resources:
    load = 150 + 45 * math.sin(t / 3) + random_.uniform(-8, 8)
    return ev.Resources(t=t, cpu_percent=load, memory=int(1.1e9 + (t - START) * 5e6), memory_total=int(15.6 * 2**30))


def running(seconds: float = 75.0) -> list[ev.Event]:
    """An opening, the start, and everything that happens in so many seconds of fitting. One model fails at once."""
    random_ = random.Random(0)
    board = _Board()
    now = START + 1.0
    events: list[ev.Event] = [
        *opening(),
        ev.StageChanged(t=now, stage="fitting", deadline=DEADLINE),
        board.event(now),
    ]
    failed = "The fit ran out of memory (2.0 GiB allowed)"
    events += [
        ev.FitStarted(t=now, fit="resnet-0-0", model="resnet", trial=0, fold=0, folds=5, pid=4800),
        ev.FitFailed(
            t=now + 1, fit="resnet-0-0", model="resnet", trial=0, fold=0, reason=failed, detail="MemoryError: 2.0 GiB"
        ),
        ev.TrialPruned(t=now + 1, model="resnet", trial=0, reason=failed, params={"n_blocks": 2, "d_block": 192}),
    ]
    board.update("resnet", status="failed", reason=failed, trials=1)
    turns = [model for trial in range(max(TRIALS.values())) for model in TRIALS if trial < TRIALS[model]]
    counts = dict.fromkeys(TRIALS, 0)
    for model in turns:
        trial = counts[model]
        counts[model] += 1
        each = SECONDS[model] / 5
        board.update(model, status="running" if trial == 0 else "ok", activity=f"trial {trial} · fold 1/5")
        events.append(board.event(now))
        scores: list[float] = []
        params = {"learning_rate": round(10 ** random_.uniform(-3, -0.7), 5), "max_depth": random_.randint(3, 10)}
        pruned = trial > 2 and random_.random() < 0.25
        for fold in range(2 if pruned else 5):
            fit = f"{model}-{trial}-{fold}"
            events.append(
                ev.FitStarted(t=now, fit=fit, model=model, trial=trial, fold=fold, folds=5, pid=5000 + len(events))
            )
            for step in range(1, 13):
                value = LEVELS[model] - 0.2 * math.exp(-step / 3) + random_.gauss(0, 0.002)
                events.append(
                    ev.FitProgress(
                        t=now + each * step / 13,
                        fit=fit,
                        model=model,
                        trial=trial,
                        fold=fold,
                        step=step * 8,
                        value=value,
                    )
                )
            now += each
            if now - START > seconds:
                return events
            scores.append(LEVELS[model] + random_.gauss(-0.012 / (trial + 1), 0.004))
            events.append(
                ev.FitFinished(t=now, fit=fit, model=model, trial=trial, fold=fold, score=scores[-1], seconds=each)
            )
            events.append(_resources(now, random_))
        score = sum(scores) / len(scores)
        row = board.rows[model]
        if pruned:
            reason = f"{score:.3f} after fold 2, below the median"
            events.append(ev.TrialPruned(t=now, model=model, trial=trial, reason=reason, score=score, params=params))
            board.update(model, trials=trial + 1, activity="", status="ok")
            continue
        seconds_taken = SECONDS[model]
        events.append(
            ev.TrialFinished(t=now, model=model, trial=trial, score=score, seconds=seconds_taken, params=params)
        )
        board.update(model, trials=trial + 1, activity="", status="ok")
        if row.score is None or score > row.score:
            board.update(
                model,
                score=score,
                low=score - 0.021,
                high=score + 0.021,
                folds=5,
                trial=trial,
                fit_seconds=seconds_taken,
                predict_ms_per_1k=3.0,
                params=params,
            )
            events += _ensemble(board, now)
        events.append(board.event(now))
    return events


def _ensemble(board: _Board, t: float) -> list[ev.Event]:
    members = [row for row in board.rows.values() if row.score is not None and row.model != "ensemble"]
    members = sorted(members, key=lambda row: -(row.score or 0))[:3]
    if len(members) < 2:
        return []
    weights = {2: (0.6, 0.4), 3: (0.5, 0.3, 0.2)}[len(members)]
    score = (members[0].score or 0) + 0.004
    for name in list(board.rows):
        board.update(name, in_ensemble=0.0)
    for row, weight in zip(members, weights, strict=True):
        board.update(row.model, in_ensemble=weight)
    board.rows["ensemble"] = ev.LeaderboardRow(
        rank=1,
        model="ensemble",
        title="Ensemble",
        family="ensemble",
        score=score,
        low=score - 0.02,
        high=score + 0.02,
        folds=5,
        status="ok",
        predict_ms_per_1k=9.0,
    )
    chosen = tuple(
        ev.EnsembleMember(model=row.model, trial=row.trial or 0, weight=weight)
        for row, weight in zip(members, weights, strict=True)
    )
    return [ev.EnsembleChanged(t=t, members=chosen, score=score, low=score - 0.02, high=score + 0.02)]


def importances(t: float) -> ev.ImportancesReady:
    rows = tuple(
        ImportanceRow(feature=f, attention=a, permutation=p, low=p - 2 * s, high=p + 2 * s)
        for f, a, p, s in IMPORTANCES
    )
    return ev.ImportancesReady(
        t=t, rows=rows, model="catboost", attention_model="ft_transformer", n_rows=891, agreement=0.94
    )


def finished(bundle: str | None = None) -> list[ev.Event]:
    """A whole run that ended well."""
    events = running(110)
    state = next(event for event in reversed(events) if isinstance(event, ev.LeaderboardChanged))
    rows = tuple(msgspec.structs.replace(row, activity="") for row in state.rows)
    best = rows[0]
    shown = importances(START + 114)
    events += [
        ev.StageChanged(t=START + 112, stage="explaining", deadline=DEADLINE),
        shown,
        ev.StageChanged(t=START + 115, stage="exporting", deadline=DEADLINE),
        ev.RunFinished(
            t=START + 117,
            status="ok",
            run="20260921-120000-titanic-a3f9",
            bundle=bundle,
            task="binary",
            target="Survived",
            metric="roc_auc",
            greater_is_better=True,
            best=ev.Best(model=best.model, score=best.score or 0, low=best.low or 0, high=best.high or 0),
            test_score=None,
            seconds=116.0,
            leaderboard=rows,
            importances=shown.rows,
            agreement={"attention_vs_permutation": 0.94},
            message=f"{best.title} reached ROC AUC {best.score:.4f}",
        ),
    ]
    return events


class Recorder:
    """Writes events to a run folder as an engine would, numbered, with the times that they carry."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.seq = 0

    def write(self, *events: ev.Event) -> None:
        with self.folder.events.open("ab") as file:
            for event in events:
                self.seq += 1
                file.write(encode(msgspec.structs.replace(event, seq=self.seq, t=event.t or START)))


def make_run(runs_dir: Path, data: str = "titanic.csv") -> RunFolder:
    """A new run folder as the command line leaves it to the screen."""
    return create_run(RunConfig(data=data, target="Survived", budget=BUDGET, start=False), runs_dir)
