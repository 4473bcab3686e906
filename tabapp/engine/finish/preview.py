"""The bundle of the best models so far, of a run in progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tabapp import files, metrics
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.evaluate import metric_value
from tabapp.bundle.prediction.intervals import fit_intervals
from tabapp.bundle.writing.write import BundleContents, CandidateSource, write_bundle
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish.refit import sources_of
from tabapp.engine.loop.selection import Selected, select_ensemble
from tabapp.engine.plan.write_rows import read_sample
from tabapp.errors import UsageError
from tabapp.run.protocol.exporting import PreviewWritten
from tabapp.run.record.folder import RunFolder
from tabapp.temporary import TemporaryFolder

PRELIMINARY = "preliminary: the best models so far, written during the run"


def write_preview(folder: RunFolder, out: Path, stage: Callable[[str], None]) -> PreviewWritten:
    """Write a bundle of the members of the current ensemble of a run, which is not changed and continues.

    Their weights are chosen again from the folds that are on disk, which may be more than at the last choice.

    Raises:
        UsageError: no model has a score yet, or the file cannot be written.
    """
    stage("reading the models so far")
    with TemporaryFolder("preview") as name:
        run = FinishedRun(folder, Path(name))
        selected = select_ensemble([member for member, _ in run.members], run.scorer, run.plan.metric, run.plan.seed)
        if selected is None:
            raise UsageError(f"No model of the run {folder.run} has a score yet. Try again after the first model.")
        stage("writing the preliminary bundle")
        new = Path(name) / "preview.tabapp"
        write_bundle(new, _contents(run, selected, sources_of(run.models, selected.members, Path(name))))
        try:
            files.write_bytes(out, files.read_regular(new), shared=True)
        except OSError as error:
            raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
    return PreviewWritten(
        path=str(out),
        members=len(selected.members),
        metric=metrics.get(run.plan.metric).title,
        score=selected.score.value,
        folds=len(selected.members[0][0].results),
        planned_folds=run.plan.folds,
    )


def _contents(run: FinishedRun, selected: Selected, sources: list[CandidateSource]) -> BundleContents:
    truth, weight = run.scorer.target[selected.covered], run.scorer.weight
    weight = None if weight is None else weight[selected.covered]
    values: list[MetricValue] = []
    for name in metrics.names_for(run.plan.task, first=run.plan.metric):
        # A third-party metric that nobody chose must not stop the preview.
        with suppress(Exception):
            values.append(metric_value(name, truth, selected.prediction, weight, seed=run.plan.seed, n_resamples=0))
    return BundleContents(
        run=run.folder.run,
        name=run.folder.config().name or "",
        schema=run.data.schema,
        metric=run.plan.metric,
        metrics=values,
        validation=f"{run.plan.validation}; {PRELIMINARY}",
        leaderboard=[msgspec.to_builtins(row) for row in run.state.leaderboard],
        seed=run.plan.seed,
        data=files.read_json(run.folder.data / "fingerprint.json"),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        candidates=sources,
        sample=read_sample(run.folder),
        targets=run.data.target_by_number,
        calibration=selected.calibration_of_mean,
        intervals=fit_intervals(truth, selected.prediction, weight) if run.plan.task == "regression" else None,
    )
