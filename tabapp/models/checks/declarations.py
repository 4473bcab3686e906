"""Checks of what a plugin declares about itself: attention, imputation, and training rows in saved models."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabapp.features.arrays import FIRST_LEVEL, MISSING, Table
from tabapp.models.checks.rows import n_rows_found
from tabapp.models.checks.subject import Skipped, Subject, demand
from tabapp.models.checks.tables import make_table
from tabapp.task import Task
from tabapp.temporary import TemporaryFolder


def attention_as_declared(subject: Subject, task: Task) -> None:
    """Return attention weights per feature exactly if `has_attention` is set, and maps exactly if `has_attention_maps` is."""
    if task not in subject.plugin.tasks:
        raise Skipped(f"it does not support {task} tasks")
    new, spec, _ = make_table(task, n_rows=300, seed=1)
    model, declared = subject.trained(task).model, subject.plugin.has_attention_maps
    demand(
        bool(model.attention_maps(new)) == declared,
        f"has_attention_maps is {declared}, unlike what attention_maps returns",
    )
    weights = model.attention(new)
    if not subject.plugin.has_attention:
        demand(weights is None, "attention returns an array, but has_attention is False")
        return
    shape = (300, len(spec.numeric) + len(spec.categorical))
    demand(weights is not None, "has_attention is True, but attention returns None")
    assert weights is not None
    demand(weights.shape == shape, f"attention has the shape {weights.shape}, not {shape}")
    unseen = np.isnan(weights).all(axis=0)
    demand(not unseen.all(), "attention sees no feature")
    seen = weights[:, ~unseen]
    demand(bool(np.isfinite(seen).all()), "some attention weights are not finite")
    demand(bool((seen >= 0).all()), "some attention weights are negative")
    demand(bool(np.allclose(seen.sum(axis=1), 1, atol=1e-4)), "the attention weights of a row do not sum to 1")
    streams = model.attention_streams(new)
    first = next(iter(streams.values()), weights)
    demand(bool(np.array_equal(first, weights, equal_nan=True)), "attention is not the first of attention_streams")
    demand(all(each.shape == shape for each in streams.values()), "attention_streams has arrays of other shapes")


def use_of_features_is_valid(subject: Subject) -> None:
    """If `use_of_features` answers, return finite numbers that are not negative, at most one for each feature."""
    trained = subject.trained_on_any_task()
    found = trained.model.use_of_features()
    if found is None:
        return
    n_features = trained.train.numeric.shape[1] + trained.train.categorical.shape[1]
    fits = found.ndim == 1 and len(found) <= n_features
    demand(fits, f"use_of_features has the shape {found.shape}; there are {n_features} features")
    demand(
        bool(np.isfinite(found).all() and (found >= 0).all()), "use_of_features returns negative or infinite numbers"
    )


def imputation_as_declared(subject: Subject) -> None:
    """Fill missing cells, after a fit without a target, exactly if `can_impute` is set."""
    plugin = subject.plugin
    if not plugin.can_impute:
        trained = subject.trained_on_any_task()
        answer = trained.model.impute(Table(trained.valid.numeric, trained.valid.categorical))
        demand(answer is None, "impute returns a table, but can_impute is False")
        return
    demand("regression" in plugin.tasks, "can_impute is True, but the model does not support regression tasks")
    table, spec, _ = subject.accepted("regression")
    model = subject.quick().fit("regression", Table(table.numeric, table.categorical), spec, 1)
    numeric, categorical = table.numeric[:50].copy(), table.categorical[:50].copy()
    recipe = plugin.features()
    if recipe.numeric == "raw" or recipe.missing == "keep":
        numeric[::2, 0] = np.nan
    categorical[1::2, 0] = MISSING
    filled = model.impute(Table(numeric, categorical))
    demand(filled is not None, "can_impute is True, but impute returns None")
    assert filled is not None
    demand(filled.numeric.shape == numeric.shape, f"imputed numbers have the shape {filled.numeric.shape}")
    demand(filled.categorical.shape == categorical.shape, f"imputed codes have the shape {filled.categorical.shape}")
    demand(bool(np.isfinite(filled.numeric).all()), "impute leaves numbers missing")
    was_missing = categorical == MISSING
    codes = filled.categorical[was_missing]
    demand(bool((codes >= FIRST_LEVEL).all()), "impute leaves categories missing")
    demand(bool((codes < spec.cardinalities[0]).all()), "impute returns codes that do not exist")
    known = ~np.isnan(numeric)
    kept = np.array_equal(filled.numeric[known], numeric[known])
    kept = kept and np.array_equal(filled.categorical[~was_missing], categorical[~was_missing])
    demand(kept, "impute changes cells that are not missing")


def training_rows_as_declared(subject: Subject) -> None:
    """Save no training row, exact or scaled, unless `contains_training_rows` is set."""
    if subject.plugin.contains_training_rows:
        return
    trained = subject.trained_on_any_task()
    with TemporaryFolder("check") as name:
        folder = Path(name)
        trained.model.save(folder)
        found = n_rows_found(folder, trained.train.numeric, trained.valid.numeric)
    demand(
        not found,
        f"the saved model contains {found} of the rows passed to fit, but contains_training_rows is False; "
        "its bundles would lack the privacy notice",
    )


def neighbors_are_rows_of_the_fit(subject: Subject) -> None:
    """If `row_neighbors` answers, return positions of rows passed to `fit` with their shares, largest first."""
    trained = subject.trained_on_any_task()
    found = trained.model.row_neighbors(trained.valid.take(slice(0, 20)), 3)
    if found is None:
        return
    demand(subject.plugin.contains_training_rows, "row_neighbors answers, but contains_training_rows is False")
    shape = (20, 3)
    demand(found.index.shape == shape, f"the index of neighbors has the shape {found.index.shape}, not {shape}")
    demand(found.weight.shape == shape, f"the weight of neighbors has the shape {found.weight.shape}, not {shape}")
    n_rows = len(trained.train) + len(trained.valid)
    demand(bool((found.index >= 0).all() and (found.index < n_rows).all()), "a neighbor is not a row passed to fit")
    demand(bool((found.weight >= 0).all()), "some weights of neighbors are negative")
    demand(bool((found.weight.sum(axis=1) <= 1 + 1e-4).all()), "the weights of the neighbors of a row exceed 1")
    demand(bool((np.diff(found.weight, axis=1) <= 1e-6).all()), "neighbors are not sorted by descending weight")


def stored_rows_as_declared(subject: Subject) -> None:
    """Return the rows that predictions rest on, with their weights, exactly if `predicts_from_rows` is set."""
    trained = subject.trained_on_any_task()
    stored = trained.model.stored_rows()
    declared = subject.plugin.predicts_from_rows
    demand((stored is not None) == declared, f"predicts_from_rows is {declared}, unlike what stored_rows returns")
    if stored is None:
        return
    table = trained.valid.take(slice(0, 20))
    n_rows = len(trained.train) + len(trained.valid)
    demand(
        bool((stored.source >= 0).all() and (stored.source < n_rows).all()), "a stored row is not a row passed to fit"
    )
    before = trained.model.predict(table)
    demand(np.allclose(stored.predict(table), before, rtol=1e-4, atol=1e-5), "stored_rows predicts unlike the model")
    for each in stored.weights(table):
        shape = each.heads.shape
        demand(shape[1:] == (20, len(stored)), f"weights of stored rows have the shape {shape}")
        demand(bool((each.heads >= 0).all()), "some weights of stored rows are negative")
        demand(bool(np.allclose(each.heads.sum(axis=2), 1, atol=1e-3)), "the weights of stored rows do not sum to 1")
    few = stored.take(np.arange(max(1, len(stored) // 2)))
    demand(bool(np.isfinite(few.predict(table)).all()), "predictions from some of the stored rows are not finite")
    permuted = stored.permuted(0).predict(table)
    demand(bool(np.isfinite(permuted).all()), "predictions from permuted rows are not finite")
    demand(np.array_equal(permuted, stored.permuted(0).predict(table)), "two permutations with the same seed differ")
    demand(np.array_equal(trained.model.predict(table), before), "stored_rows changes the model")
