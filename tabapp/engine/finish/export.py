"""Rebuilds the bundle of a finished run: refitted, within a time limit, distilled, or in half precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.evaluate import metric_value
from tabapp.bundle.prediction.intervals import Intervals, fit_intervals, stored_intervals
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.half_precision import in_half_precision
from tabapp.bundle.writing.write import BundleContents, CandidateSource, write_bundle
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun, damage_as_error
from tabapp.engine.finish.distill import distill
from tabapp.engine.finish.reduced import train_reduced
from tabapp.engine.finish.refit import Refitter, sources_of
from tabapp.engine.finish.speed import Speeds, pool_of, processor_ms, select_within, timing_rows
from tabapp.engine.finish.thresholds import threshold_for
from tabapp.engine.loop.selection import Selected, select_ensemble
from tabapp.engine.plan.write_rows import read_sample
from tabapp.ensemble.averaging import NO_AVERAGING
from tabapp.ensemble.calibration import Calibration
from tabapp.errors import UsageError, option
from tabapp.files import read_regular, write_bytes
from tabapp.models.contract import Floats
from tabapp.run.protocol import exporting as messages
from tabapp.run.record.folder import RunFolder
from tabapp.temporary import TemporaryFolder

COMPARED_ROWS = 1_000
"""Rows on which predictions in half precision are compared."""

Emit = Callable[[messages.AnyExportMessage], None]


@dataclass(frozen=True)
class _Scores:
    """Out-of-fold scores, the run's metric first, intervals of a regression, calibration and threshold of a classification, and a
    sentence about the threshold."""

    values: tuple[MetricValue, ...]
    intervals: Intervals | None
    calibration: Calibration | None = None
    threshold: float | None = None
    threshold_note: str = ""


def export_run(folder: RunFolder, out: Path, options: messages.ExportOptions, emit: Emit) -> None:
    """Rebuild the bundle of a run, compare it with the one of the run, and write it to a file. The run is not changed.

    Raises:
        UsageError: an option does not fit the run, or the file cannot be written.
        BundleError: a model of the run is damaged.
    """
    options.check()

    def stage(text: str) -> None:
        emit(messages.StageStarted(stage=text))

    stage("reading the run")
    with TemporaryFolder("export") as name:
        place = Path(name)
        run = FinishedRun(folder, place)
        # A run without a bundle is an error before anything is trained.
        assert run.contents
        sources, scores, how = _rebuilt(run, options, place, stage)
        if options.half:
            (place / "half").mkdir()
            rows = timing_rows(run, min(COMPARED_ROWS, run.data.frame.height))
            sources = in_half_precision(
                sources,
                run.data.schema,
                rows,
                place / "half",
                lambda model: stage(f"storing {model} in half precision"),
            )
        stage("writing the bundle")
        new = place / "new.tabapp"
        write_bundle(new, _contents(run, sources, scores, how))
        stage("measuring")
        timed = timing_rows(run, options.limit_rows)
        emit(
            messages.Compared(
                metric=run.plan.metric,
                n_rows=options.limit_rows,
                rows=[_row("bundle of the run", folder.bundle, timed), _row("this export", new, timed)],
                threshold_note=_threshold_note(options, scores),
                notes=_notes(options),
            )
        )
        try:
            write_bytes(out, read_regular(new), shared=True)
        except OSError as error:
            raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
    emit(messages.Written(path=str(out)))


def _rebuilt(
    run: FinishedRun, options: messages.ExportOptions, place: Path, stage: Callable[[str], None]
) -> tuple[list[CandidateSource], _Scores, str]:
    """The models of the new bundle, their scores, and how they were made in words."""
    refitter = Refitter(run.models, place)
    if options.distill is not None:
        teacher = _selected(run, [candidate for candidate, _ in run.members])
        student = distill(run, teacher, options.distill, refitter, stage)
        scores = _scores(run, student.prediction, np.ones(len(student.prediction), dtype=bool), stage)
        return [student.source], scores, "one model distilled from the ensemble and trained on all rows"
    members: Sequence[tuple[Any, float]] = run.members
    stored = run.contents
    ensemble = stored.ensemble
    scores = _Scores(stored.manifest.metrics, stored_intervals(ensemble), ensemble.calibration, ensemble.threshold)
    how = ""
    if options.limit_ms is not None:
        selected = _within_limit(run, options, place, stage)
        members = selected.members
        if not options.refit:
            stage("comparing the models of the folds")
            scored = run.data.scored.at(selected.covered)
            averaging = averaging_of_ensemble(run.models, selected.members, scored) or NO_AVERAGING
            selected = selected.averaged(averaging, run.plan.metric)
        scores = _scores(run, selected.prediction, selected.covered, stage, selected)
        how = f"selected to predict {options.limit_rows:,} rows within {options.limit_ms:g} ms"
    if not options.refit:
        with damage_as_error(run.folder):
            return sources_of(run.models, members, place), scores, how
    sources: list[CandidateSource] = []
    for candidate, weight in members:
        stage(f"training {candidate.model} on all rows")
        sources.append(refitter.refit(candidate, weight))
    return sources, scores, "; ".join(part for part in (how, "models then trained again on all rows") if part)


def _selected(run: FinishedRun, candidates: list[Any]) -> Selected:
    selected = select_ensemble(candidates, run.scorer, run.plan.metric, run.plan.seed)
    assert selected is not None, "the members of an ensemble have folds"
    return selected


def _within_limit(
    run: FinishedRun, options: messages.ExportOptions, place: Path, stage: Callable[[str], None]
) -> Selected:
    """The best ensemble within the limit.

    Small boosters are trained only if the ensemble of the run exceeds the limit.
    """
    assert options.limit_ms is not None
    pool = pool_of(run)
    if not pool:
        raise UsageError(f"No model of the run has all of its folds, so {option('limit_ms')} cannot compare them.")
    speeds = Speeds(run, timing_rows(run, options.limit_rows))
    for candidate in pool:
        stage(f"measuring {candidate.model} {candidate.trial}")
        speeds.measure(candidate)
    n_models = 1 if options.refit else run.data.n_folds
    members = [candidate for candidate, _ in run.members]
    if any(member not in pool for member in members) or speeds.total(members, n_models) > options.limit_ms:
        pool += train_reduced(run, speeds, place, limit=options.limit_ms, n_models=n_models, report=stage)
    stage("selecting the ensemble")
    chosen = select_within(
        pool,
        speeds,
        run.scorer,
        run.plan.metric,
        run.plan.seed,
        limit=options.limit_ms,
        n_models=n_models,
    )
    return _selected(run, chosen)


def _scores(
    run: FinishedRun,
    prediction: Floats,
    covered: npt.NDArray[np.bool_],
    stage: Callable[[str], None],
    selected: Selected | None = None,
) -> _Scores:
    """Every metric of the task on out-of-fold predictions, and intervals for a regression.

    Args:
        selected: the ensemble of the predictions, whose fold models are averaged; None for a single model.
    """
    stage("scoring")
    truth, weight = run.scorer.target[covered], run.scorer.weight
    weight = None if weight is None else weight[covered]
    averaging = NO_AVERAGING if selected is None else selected.averaging
    values: list[MetricValue] = []
    for name in metrics.names_for(run.plan.task, first=run.plan.metric):
        # A third-party metric that nobody chose must not stop the export.
        with suppress(Exception):
            values.append(metric_value(name, truth, prediction, weight, seed=run.plan.seed, averaging=averaging))
    if run.plan.task != "regression":
        calibration = None if selected is None else selected.calibration_of_mean
        return _Scores(tuple(values), None, calibration, *threshold_for(run, prediction, covered))
    return _Scores(tuple(values), fit_intervals(truth, prediction, weight))


def _contents(run: FinishedRun, sources: list[CandidateSource], scores: _Scores, how: str) -> BundleContents:
    manifest = run.contents.manifest
    return BundleContents(
        run=manifest.run,
        name=manifest.name,
        schema=run.data.schema,
        metric=manifest.metric,
        metrics=scores.values,
        validation=f"{manifest.validation}; {how}" if how else manifest.validation,
        leaderboard=manifest.leaderboard,
        seed=manifest.seed,
        data=manifest.data,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        candidates=sources,
        sample=read_sample(run.folder),
        intervals=scores.intervals,
        calibration=scores.calibration,
        threshold=scores.threshold,
        targets=run.data.target_by_number,
    )


def _row(title: str, path: Path, rows: pl.DataFrame) -> messages.ExportRow:
    """Size, speed and score of a bundle that this machine has written."""
    loaded = load_bundle(path)
    manifest = loaded.contents.manifest
    score = manifest.metrics[0]
    return messages.ExportRow(
        title=title,
        models=sum(len(candidate.folds) for candidate in loaded.contents.ensemble.candidates),
        n_bytes=path.stat().st_size,
        ms=round(processor_ms(lambda: loaded.predictor.predict_typed(rows)), 3),
        score=score.score,
        low=score.low,
        high=score.high,
    )


def _threshold_note(options: messages.ExportOptions, scores: _Scores) -> str:
    if scores.threshold is None or not options.refit:
        return scores.threshold_note
    kept = (
        f"The threshold {scores.threshold:.3f} fits the models of the folds; the models trained on all rows have no out-of-fold "
        "predictions to choose it again."
    )
    return f"{scores.threshold_note} {kept}".strip()


def _notes(options: messages.ExportOptions) -> list[str]:
    if options.distill is not None:
        return ["The score is that of models of the folds on rows that they were not trained on."]
    if options.refit:
        return [
            "The score is that of the models of the folds; the new models were trained on all rows, so none is left."
        ]
    return []
