"""Small boosters for `--limit-ms`: with fewer and smaller trees than those of a run, they predict in a few milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish.speed import Speeds
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.loop.fit_orders import job_of
from tabapp.engine.machine.admission import Need
from tabapp.engine.machine.devices import CPU, available_cores
from tabapp.engine.schedule.work import Work
from tabapp.models import registry
from tabapp.run.record.folder import RunFolder


def train_reduced(
    run: FinishedRun, speeds: Speeds, place: Path, *, limit: float, n_models: int, report: Callable[[str], None]
) -> list[Candidate]:
    """Train reduced versions of the run's boosters on its folds, from the smallest to the largest that stays within a limit.

    The run is not changed.

    Args:
        speeds: the run's candidates, measured; the new ones are added.
        place: a folder for the fits.
        limit: milliseconds that a candidate alone may take.
        n_models: models of each candidate that predict.
        report: called with what is being done.
    """
    made: list[Candidate] = []
    scratch = RunFolder(place)
    for model in sorted({model for model, _ in run.candidates} - run.left_out):
        plugin = registry.get(model)
        tried = [candidate for candidate in run.candidates.values() if candidate.model == model]
        best = min(tried, key=lambda candidate: (run.scorer.loss(candidate), candidate.key))
        trial = _unused_trial(run, model)
        for params in plugin.reduced(msgspec.convert(best.params, plugin.params_type)):
            report(f"training a smaller {model}")
            candidate = Candidate(model, trial, msgspec.to_builtins(params), run.data.n_folds, fits=scratch.fits)
            _train(run, candidate, 0, scratch)
            speeds.measure(candidate)
            if speeds.total([candidate], n_models) > limit:
                break
            for fold in range(1, run.data.n_folds):
                _train(run, candidate, fold, scratch)
            made.append(candidate)
            trial += 1
    return made


def _unused_trial(run: FinishedRun, model: str) -> int:
    """A trial number above those of all fits of a model, also of trials that were pruned."""
    return 1 + max(int(fit.name.split("-")[-2]) for fit in run.folder.fits.glob(f"{model}-*-f*"))


def _train(run: FinishedRun, candidate: Candidate, fold: int, scratch: RunFolder) -> None:
    """Fit a candidate on a fold."""
    need = Need(candidate.model, CPU, 0)
    plugin = registry.get(candidate.model)
    job = job_of(Work(candidate, fold), run.plan, str(run.folder.path), plugin, "boosters", None, need)
    job = msgspec.structs.replace(job, n_threads=available_cores())
    (candidate.results[fold],) = run_fit(job, scratch=scratch)
