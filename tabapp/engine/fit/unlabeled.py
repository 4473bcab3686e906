"""Rows without a target in fits: their features, and the pre-training that all fits of a model share. No label is read here."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.data.schema import Schema
from tabapp.engine.fit.seeds import seed_of
from tabapp.features.arrays import FeatureRecipe, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.target_encoding import Target
from tabapp.models.contract import FitContext, Params, Plugin

PRETRAINED = "pretrained"
"""Folder of the results of pre-training in a run folder."""
PRETRAINING_SHARE = 0.5
"""Share of the time of a fit that pre-training may take."""


def fitted_features(
    frame: pl.DataFrame,
    schema: Schema,
    recipe: FeatureRecipe,
    seed: int,
    target: Target,
    groups: npt.NDArray[np.generic] | None,
    unlabeled: pl.DataFrame | None,
) -> tuple[FeaturePreparer, Table]:
    """A preparer fitted on training rows or on rows without a target, as the recipe says, and the arrays of the training rows.

    Args:
        frame, target, groups: the training rows, as for `FeaturePreparer.fit_transform`.
        unlabeled: the rows without a target.

    Raises:
        ValueError: the recipe needs rows without a target, and there are none.
    """
    if recipe.rows == "training":
        return FeaturePreparer.fit_transform(frame, schema, recipe, seed, target, groups)
    if unlabeled is None:
        raise ValueError("the run has no rows without a target")
    preparer = FeaturePreparer.fit(unlabeled, schema, recipe, seed)
    return preparer, preparer.transform(frame)


def add_unlabeled(
    context: FitContext, plugin: Plugin, unlabeled: pl.DataFrame | None, preparer: FeaturePreparer
) -> None:
    """Give a fit the rows without a target, if its model uses them."""
    if unlabeled is not None and plugin.uses_unlabeled:
        context.unlabeled = preparer.transform(unlabeled)


def pretrained_folder(
    parent: Path, plugin: Plugin, params: Params, context: FitContext, recipe: str, run_seed: int
) -> tuple[Path, float]:
    """The folder with the pre-trained parts of a model, and the seconds that this process took to make it.

    It depends on the rows without a target, the run's seed, the features and `Plugin.pretraining_key`, and neither on the fold nor
    on the trial. Two processes may make it at the same time: the first to finish keeps it, as for features.

    Args:
        parent: contains the folder.
        context: of the fit; pre-training takes a share of the time until its deadline.
        recipe: identifies the features.
    """
    key = f"{recipe}/{plugin.pretraining_key(params)}/{context.device.partition(':')[0]}"
    place = parent / f"{plugin.name}-{crc32(key.encode()):08x}"
    if place.is_dir():
        return place, 0.0
    assert context.unlabeled is not None
    started, end = time.monotonic(), context.soft_deadline
    alone = replace(
        context,
        seed=seed_of(run_seed, f"{PRETRAINED}-{plugin.name}", 0),
        soft_deadline=None if end is None else started + PRETRAINING_SHARE * (end - started),
        on_report=lambda step, value: None,
    )
    with files.new_folder(place) as temporary:
        plugin.pretrain(context.unlabeled, params, alone, temporary)
    return place, time.monotonic() - started
