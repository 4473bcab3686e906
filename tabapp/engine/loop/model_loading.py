"""Which models of a plan compete at once, and what loads in the background for the others."""

from __future__ import annotations

from collections.abc import Callable

from tabapp.engine.fit.executors import Executor
from tabapp.engine.fit.library_loading import BackgroundLoader, split_models
from tabapp.engine.machine.devices import CPU
from tabapp.engine.plan.make_plan import Plan, fit_device
from tabapp.engine.schedule.competition import ModelRecord, record_of
from tabapp.engine.schedule.tuning import LEAST_RANKED_TRIALS
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.models.stated import BOOSTERS, Libraries
from tabapp.run.record.folder import RunFolder


def planned_record(plugin: Plugin, plan: Plan, shape: Shape) -> ModelRecord:
    """The record of a model that begins to compete in the run of a plan."""
    facts = plan.task, shape, fit_device(plugin, plan, shape), plan.fixed_values(plugin.name)
    return record_of(plugin, *facts, is_named=any(model.named for model in plan.models if model.name == plugin.name))


def load_models(
    plan: Plan, shape: Shape, folder: RunFolder, executor: Executor, libraries_of: Callable[[Plugin], Libraries]
) -> tuple[list[str], BackgroundLoader]:
    """The models that compete at once, and the loader of the others, which is not started.

    Of libraries, the loader begins with those of the model that comes first in the queue.
    """
    competing = [model.name for model in plan.competing]
    # A model with fits of an earlier session is loaded at once: its results count even if the run ends now.
    fitted = {fit.name.rsplit("-", 2)[0] for fit in folder.fits.glob("*-f*")}
    at_once, later = split_models(competing, fitted, lambda name: libraries_of(registry.get(name)))
    pending = {model.name for model in plan.competing if model.pending} & {*later}
    waiting = [planned_record(registry.get(name), plan, shape) for name in later if name not in pending]
    first = min(waiting, key=lambda record: record.cost, default=None)
    loader = BackgroundLoader(
        later,
        executor,
        pending=pending,
        first=None if first is None else later[first.name],
        boosters={each for name in at_once for each in registry.get(name).requires if each in BOOSTERS},
        ranks_parameters=plan.trials is None or plan.trials >= LEAST_RANKED_TRIALS,
        n_cores=plan.workers * plan.n_threads,
        plugins_first=plan.device != CPU,
    )
    return at_once, loader
