"""The task of training a model on rows of a run: the one way from rows to a fit that is ready to train."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.engine.fit.features import Features, recipe_id
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.seeds import seed_of
from tabapp.features.arrays import OtherTarget, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Params, Plugin
from tabapp.models.prepared_fit import PreparedFit, Split, TrainedModel
from tabapp.task import Task
from tabapp.temporary import TemporaryFolder

PRETRAINED = "pretrained"
"""Folder of the results of pre-training in a run folder."""
PRETRAINING_SHARE = 0.5
"""Share of the time of a fit that pre-training may take."""


class Goal(Protocol):
    """What the models of a run are trained for: a part of its plan, and of the job of a fit."""

    @property
    def task(self) -> Task: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def metric(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class FoldTask:
    """A model to train: every model of a run is trained in the same way, wherever and on whichever rows.

    Attributes:
        features: of the training rows; they also decide the seed, by their fold.
        deadline, report, most_step_rows, n_scored: see `FitContext`.
        pilots: see `PreparedFit`.
        soft: see `Split`; of the rows of the features.
        seed: number of the seed, from 0, of models that differ in their random numbers only.
    """

    goal: Goal
    model: str
    params: Mapping[str, Any]
    features: Features
    device: str
    n_threads: int
    deadline: float | None = None
    report: Callable[[int, float], None] = lambda step, value: None
    most_step_rows: int | None = None
    pilots: Sequence[Mapping[str, Any]] = ()
    soft: npt.NDArray[np.floating] | None = None
    seed: int = 0
    n_scored: int = 0

    def train(self) -> TrainedModel:
        """Prepare and train the model."""
        with TemporaryFolder("fit") as folder:
            return self.prepare(Path(folder) / self.model)[0].train()

    def prepare(self, folder: Path, splits: dict[int, Split] | None = None) -> tuple[PreparedFit, float]:
        """The fit, ready to train, and the seconds that pre-training took, which is done once for all fits of a model.

        Args:
            folder: private folder for checkpoints, made if needed.
            splits: the training rows of each fold, so that fits that train together share them.
        """
        data, plugin = self.features.source.data, registry.get(self.model)
        params = msgspec.convert(self.params, plugin.params_type)
        folder.mkdir(parents=True, exist_ok=True)
        context = FitContext(
            task=self.goal.task,
            n_classes=self.goal.n_classes,
            metric=self.goal.metric,
            features=self.features.spec,
            seed=seed_of(
                self.features.source.seed, f"{self.model}/{self.seed}" if self.seed else self.model, self.features.fold
            ),
            device=self.device,
            n_threads=self.n_threads,
            folder=folder,
            soft_deadline=self.deadline,
            on_report=self.report,
            most_step_rows=self.most_step_rows,
            is_ordered=data.time is not None,
            n_scored=self.n_scored,
        )
        if data.others is not None and plugin.uses_other_targets:
            context.other_targets = described(data)
        context.unlabeled = self._unlabeled(plugin)
        seconds = 0.0
        if plugin.pretrains:
            context.pretrained, seconds = self._pretrained(plugin, params, context)
        splits = {} if splits is None else splits
        if self.features.fold not in splits:
            splits[self.features.fold] = self._split(context)
        return PreparedFit(plugin, params, splits[self.features.fold], context, self.pilots), seconds

    def _unlabeled(self, plugin: Plugin) -> Table | None:
        """The rows without a target that a model uses, with their other targets; None if there are none."""
        data, transform = self.features.source.data, self.features.preparer.transform
        if data.unlabeled is None:
            return None
        others = data.unlabeled_others if plugin.uses_other_targets else None
        if others is None:
            return transform(data.unlabeled) if plugin.uses_unlabeled else None
        values = _values(others)
        if plugin.uses_unlabeled:
            return replace(transform(data.unlabeled), others=values)
        known = np.flatnonzero(np.isfinite(values).any(axis=1))
        return replace(transform(data.unlabeled[known]), others=values[known])

    def _split(self, context: FitContext) -> Split:
        data, features = self.features.source.data, self.features
        table, rows = features.table, features.training
        if data.others is not None and context.other_targets:
            # Only training rows have them: held-out rows are predicted from the table of the features.
            table = replace(table, others=features.rows.of(_values(data.others)))
        places = None if len(rows) == len(features.rows) else rows.places
        return Split(table, data.stopping(rows, context.task, context.seed), places, self.soft)

    def _pretrained(self, plugin: Plugin, params: Params, context: FitContext) -> tuple[Path, float]:
        """The folder with the pre-trained parts of a model, and the seconds that this process took to make it.

        It depends on the rows without a target, the run's seed, the features and `Plugin.pretraining_key`, and neither on the fold
        nor on the trial. Two processes may make it at the same time: the first to finish keeps it, as for features.
        """
        source, recipe = self.features.source, recipe_id(self.features.preparer.recipe)
        key = f"{recipe}/{plugin.pretraining_key(params)}/{context.device.partition(':')[0]}"
        name = f"{plugin.name}-{crc32(key.encode()):08x}"
        places = [folder.path / PRETRAINED / name for folder in source.folders]
        for place in places:
            if place.is_dir():
                return place, 0.0
        assert context.unlabeled is not None
        started, end = time.monotonic(), context.soft_deadline
        alone = replace(
            context,
            seed=seed_of(source.seed, f"{PRETRAINED}-{plugin.name}", 0),
            soft_deadline=None if end is None else started + PRETRAINING_SHARE * (end - started),
            on_report=lambda step, value: None,
        )
        with files.new_folder(places[-1]) as temporary:
            plugin.pretrain(context.unlabeled, params, alone, temporary)
        return places[-1], time.monotonic() - started


def described(data: RunData) -> tuple[OtherTarget, ...]:
    """The other targets of a run that has some, in the order of their columns."""
    assert data.others is not None
    columns = data.others if data.unlabeled_others is None else pl.concat([data.others, data.unlabeled_others])
    return tuple(OtherTarget(name=each.name, n_classes=_n_classes(each)) for each in columns)


def _n_classes(codes: pl.Series) -> int:
    """The number of classes of a column of codes; 1 for numbers."""
    return 1 if codes.dtype == pl.Float64 else max(2, int(codes.fill_null(0).to_numpy().max(initial=0)) + 1)


def _values(others: pl.DataFrame) -> npt.NDArray[np.float64]:
    """(rows, targets) other targets as `Table.others` has them."""
    return others.select(pl.all().cast(pl.Float64).fill_null(float("nan"))).to_numpy()
