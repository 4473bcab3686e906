"""Small boosters for `--limit-ms`: with fewer and smaller trees than those of a run, they predict in a few milliseconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish.speed import Speeds
from tabapp.engine.fit.candidates import Candidate, read_results
from tabapp.engine.fit.jobs import FitJob
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.machine.devices import available_cores
from tabapp.models import registry
from tabapp.models.contract import Params
from tabapp.run.record.folder import RunFolder

_OWN = {"fits", "features", "checkpoints", "lock"}


def train_reduced(
    run: FinishedRun, speeds: Speeds, place: Path, *, limit: float, n_models: int, report: Callable[[str], None]
) -> tuple[FinishedRun, list[Candidate]]:
    """Train reduced versions of the run's boosters on its folds, from the smallest to the largest that stays within a limit.

    The run is not changed: new fits are in a folder that links to the others.

    Args:
        speeds: the run's candidates, measured; the new ones are added.
        place: an empty folder.
        limit: milliseconds that a candidate alone may take.
        n_models: models of each candidate that predict.
        report: called with what is being done.

    Returns:
        The run with the new candidates, and these.
    """
    folder = _linked(run.folder, place)
    linked = FinishedRun(folder)
    speeds.run = linked
    made: list[Candidate] = []
    for model in sorted({model for model, _ in run.candidates} - run.left_out):
        plugin = registry.get(model)
        tried = [candidate for candidate in run.candidates.values() if candidate.model == model]
        best = min(tried, key=lambda candidate: (run.scorer.loss(candidate), candidate.key))
        trial = _unused_trial(folder, model)
        for params in plugin.reduced(msgspec.convert(best.params, plugin.params_type)):
            report(f"training a smaller {model}")
            candidate = _trained(linked, model, trial, params, [0])
            speeds.measure(candidate)
            if speeds.total([candidate], n_models) > limit:
                shutil.rmtree(folder.fits / candidate.fit_name(0))
                break
            made.append(_trained(linked, model, trial, params, list(range(1, run.data.n_folds))))
            trial += 1
    return FinishedRun(folder), made


def _unused_trial(folder: RunFolder, model: str) -> int:
    """A trial number above those of all fits of a model, also of trials that were pruned."""
    return 1 + max(int(fit.name.split("-")[-2]) for fit in folder.fits.glob(f"{model}-*-f*"))


def _trained(run: FinishedRun, model: str, trial: int, params: Params, folds: list[int]) -> Candidate:
    """Fit a candidate on some folds."""
    plan, plugin = run.plan, registry.get(model)
    candidate = Candidate(model, trial, msgspec.to_builtins(params), run.data.n_folds)
    for fold in folds:
        job = FitJob(
            fit=candidate.fit_name(fold),
            run=str(run.folder.path),
            model=model,
            trial=trial,
            fold=fold,
            params=candidate.params,
            recipe=plugin.features_for(params),
            task=plan.task,
            n_classes=plan.n_classes,
            metric=plan.metric,
            seed=seed_of(plan.seed, model, fold),
            run_seed=plan.seed,
            device="cpu",
            libraries="boosters",
            n_threads=available_cores(),
            soft_deadline=None,
        )
        run_fit(job, lambda step, value: None)
    read_results(run.folder, candidate)
    return candidate


def _linked(run: RunFolder, place: Path) -> RunFolder:
    """A copy of a run folder that links to its files, with folders of its own for fits and features."""
    copy = RunFolder(place / run.run)
    copy.path.mkdir(parents=True)
    for child in run.path.iterdir():
        if child.name not in _OWN:
            (copy.path / child.name).symlink_to(child.resolve())
    for old, new in ((run.fits, copy.fits), (run.features, copy.features)):
        new.mkdir()
        for child in old.iterdir() if old.is_dir() else ():
            (new / child.name).symlink_to(child.resolve())
    copy.checkpoints.mkdir()
    return copy
