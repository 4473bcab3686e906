"""Compares two runs: their ensembles on the rows that both have scored, their leaderboards, and what differs between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files, metrics
from tabapp.bundle.files.archive import open_archive
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.errors import BundleError
from tabapp.run.options.units import format_duration
from tabapp.run.protocol.comparing import ComparedModel, ComparedRun, Comparison, Difference
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder
from tabapp.run.record.labels import read_labels
from tabapp.run.record.score_text import folds_text

RESAMPLES = 1_000
LEAST_ROWS = 10
UNKNOWN = "—"
Array = npt.NDArray[Any]


def compare_runs(a: RunFolder, b: RunFolder) -> Comparison:
    """Compare run B with run A by the metric of A.

    Raises:
        UsageError: one of them has no result.
    """
    first, second = FinishedRun(a), FinishedRun(b)
    common: dict[str, Any] = {
        "a": _run(first),
        "b": _run(second),
        "leaderboard": tuple(_leaderboard(first, second)),
        "differences": tuple(_differences(first, second)),
        "metric": first.plan.metric,
        "metric_title": metrics.get(first.plan.metric).title,
        "greater_is_better": metrics.get(first.plan.metric).greater_is_better,
    }
    note = _not_comparable(first, second)
    if note:
        return Comparison(**common, note=note)
    left, right, matched_by = _common_rows(first, second)
    if len(left) < LEAST_ROWS:
        return Comparison(
            **common,
            common_rows=len(left),
            matched_by=matched_by,
            note=f"The scores are not compared: only {len(left)} rows were scored in both runs.",
        )
    score_a, score_b, low, high = paired_difference(
        first.plan.metric,
        first.truth[left],
        first.prediction[left],
        _in_classes_of(first, second)[right],
        None if first.weight is None else first.weight[left],
        seed=first.plan.seed,
    )
    if math.isnan(score_a) or math.isnan(score_b):
        note = f"The scores are not compared: {common['metric_title']} is undefined on the rows that both runs scored."
        return Comparison(**common, common_rows=len(left), matched_by=matched_by, note=note)
    better = None
    if low > 0 or high < 0:
        better = "b" if (low > 0) == metrics.get(first.plan.metric).greater_is_better else "a"
    return Comparison(
        **common,
        common_rows=len(left),
        matched_by=matched_by,
        score_a=score_a,
        score_b=score_b,
        difference=score_b - score_a,
        low=low,
        high=high,
        better=better,
    )


def paired_difference(
    metric: str,
    truth: Array,
    prediction_a: Array,
    prediction_b: Array,
    weight: Array | None,
    *,
    seed: int,
    n_resamples: int = RESAMPLES,
) -> tuple[float, float, float, float]:
    """Both scores, and the 95 % interval of the second minus the first: a percentile bootstrap over rows, in which both
    predictions get the same resample (Efron & Tibshirani 1993, chapter 13). NaN where the metric is undefined.
    """
    found = metrics.get(metric)
    functions = [found.resampled(truth, prediction) for prediction in (prediction_a, prediction_b)]
    base = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    generator = np.random.default_rng(seed)
    differences: list[float] = []
    for _ in range(n_resamples):
        counts = base * np.bincount(generator.integers(0, len(truth), len(truth)), minlength=len(truth))
        score_a, score_b = (function(counts) for function in functions)
        differences.append(score_b - score_a)
    known = [each for each in differences if not math.isnan(each)] or [math.nan]
    low, high = np.quantile(known, [0.025, 0.975])
    scores = [metrics.score(metric, truth, prediction, weight) for prediction in (prediction_a, prediction_b)]
    return scores[0], scores[1], float(low), float(high)


def _run(run: FinishedRun) -> ComparedRun:
    best = run.state.best
    partial = folds_text(best, run.plan.folds) if best is not None else ""
    title = "" if best is None else f"{best.title} on {partial}" if partial else best.title
    return ComparedRun(
        run=run.folder.run, name=read_labels(run.folder.path).name or run.state.name, best=title, rows=len(run.rows)
    )


def _not_comparable(a: FinishedRun, b: FinishedRun) -> str:
    if a.plan.target != b.plan.target:
        return f"The scores are not compared: the targets are {a.plan.target!r} and {b.plan.target!r}."
    if a.plan.task != b.plan.task:
        return f"The scores are not compared: the tasks are {a.plan.task} and {b.plan.task}."
    if set(a.data.schema.classes) != set(b.data.schema.classes):
        return "The scores are not compared: the classes differ."
    return ""


def _in_classes_of(a: FinishedRun, b: FinishedRun) -> Array:
    """The predictions of B with its classes in the order of A."""
    if not a.data.schema.classes:
        return b.prediction
    return b.prediction[:, [b.data.schema.classes.index(label) for label in a.data.schema.classes]]


def _common_rows(a: FinishedRun, b: FinishedRun) -> tuple[Array, Array, str]:
    """Positions of the common rows among the scored rows of each run, and how they were matched."""
    if _fingerprint(a).get("sha256") == _fingerprint(b).get("sha256"):
        _, left, right = np.intersect1d(a.rows.of(a.numbers), b.rows.of(b.numbers), return_indices=True)
        return left, right, "number in the same file"
    columns = sorted(set(a.data.frame.columns) & set(b.data.frame.columns))
    keys = [_content_of(run.rows.of(run.data.frame[columns])) for run in (a, b)]
    unique = [set(key.filter(key.is_unique()).to_list()) for key in keys]
    shared = pl.Series(list(unique[0] & unique[1]), dtype=pl.String)
    places = [
        pl.DataFrame({"key": key, "place": np.arange(len(key))}).filter(pl.col("key").is_in(shared.implode()))
        for key in keys
    ]
    joined = places[0].join(places[1], on="key", how="inner", suffix="_b").sort("place")
    return joined["place"].to_numpy(), joined["place_b"].to_numpy(), f"content of {len(columns)} common columns"


def _content_of(frame: pl.DataFrame) -> pl.Series:
    """(rows,) a text that is equal for rows with equal cells."""
    cells = [pl.col(name).cast(pl.String).fill_null("\x00") for name in frame.columns]
    return frame.select(pl.concat_str(cells, separator="\x1f")).to_series()


def _fingerprint(run: FinishedRun) -> dict[str, Any]:
    try:
        return files.read_json(run.folder.data / "fingerprint.json")
    except (OSError, ValueError):
        return {}


def _leaderboard(a: FinishedRun, b: FinishedRun) -> Iterable[ComparedModel]:
    """Every model with a score in either run: in the order of A, then those that only B has."""
    rows_a, rows_b = ({row.model: row for row in run.state.leaderboard if row.score is not None} for run in (a, b))
    for model in {**rows_a, **rows_b}:
        left, right = rows_a.get(model), rows_b.get(model)
        row = left or right
        assert row is not None
        title = "Ensemble" if model == "ensemble" else row.title
        yield ComparedModel(model=model, title=title, a=left.score if left else None, b=right.score if right else None)


def _differences(a: FinishedRun, b: FinishedRun) -> Iterable[Difference]:
    parts = {"plan": _plan_facts, "result": _result_facts, "data": _data_facts, "versions": _version_facts}
    for part, facts in parts.items():
        left, right = facts(a), facts(b)
        for name in {**left, **right}:
            values = left.get(name, UNKNOWN), right.get(name, UNKNOWN)
            # A bundle names only the libraries that its models need.
            is_known = part != "versions" or UNKNOWN not in values
            if values[0] != values[1] and is_known:
                yield Difference(part=part, name=name, a=values[0], b=values[1])
    models = [{model.name for model in run.plan.competing} for run in (a, b)]
    if models[0] != models[1]:
        only = [", ".join(sorted(own - other)) or UNKNOWN for own, other in (models, models[::-1])]
        yield Difference(part="plan", name="models of one run", a=only[0], b=only[1])


def _plan_facts(run: FinishedRun) -> dict[str, str]:
    plan = run.plan
    facts = {
        name: str(getattr(plan, name))
        for name in (
            "target",
            "task",
            "metric",
            "validation",
            "quality",
            "seeds",
            "device",
            "workers",
            "seed",
        )
    }
    facts["budget"] = UNKNOWN if plan.budget is None else format_duration(plan.budget)
    facts["trials"] = UNKNOWN if plan.trials is None else str(plan.trials)
    return facts


def _result_facts(run: FinishedRun) -> dict[str, str]:
    if run.state.ensemble is None:
        return {}
    members = (f"{each.model} #{each.trial} {each.weight:.2f}" for each in run.state.ensemble.members)
    return {"ensemble": ", ".join(members)}


def _data_facts(run: FinishedRun) -> dict[str, str]:
    print_ = _fingerprint(run)
    facts = {"file": PurePath(str(print_.get("file", "—"))).name, "SHA-256": str(print_.get("sha256", "—"))[:12]}
    facts |= {"rows": f"{len(run.data.target):,}", "columns": str(len(run.data.schema.columns))}
    facts |= {f"column {column.name}": f"{column.kind} {column.role}" for column in run.data.schema.columns}
    return facts


def _version_facts(run: FinishedRun) -> dict[str, str]:
    started = [event for event in EventReader(run.folder.events).read_new() if isinstance(event, ev.RunStarted)]
    facts = {"tabapp": started[-1].version} if started else {}
    try:
        with open_archive(run.folder.bundle) as archive:
            return {**facts, "Python": archive.manifest.python, **archive.manifest.libraries}
    except (BundleError, OSError):
        return facts
