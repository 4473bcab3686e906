"""Bundles of models that other programs can have, without the date column, which has no counterpart there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from tabapp.bundle.writing.write import write_bundle
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents, text_table

PARAMS = {
    "lightgbm": {"n_trees": 15, "min_data_in_leaf": 5},
    "xgboost": {"n_trees": 15},
    "catboost": {"n_trees": 15},
    "linear": {},
    "extra_trees": {"n_trees": 5},
    "hist_gradient_boosting": {"n_trees": 15},
}
BOOSTERS = ["lightgbm", "xgboost", "catboost", "hist_gradient_boosting"]
DERIVED = {"derived_features": True}
POISSON = {"loss": "poisson"}
"""Hyperparameters of boosters."""


def make_bundle(
    folder: Path,
    task: str,
    names: list[str],
    threshold: float | None = None,
    changes: dict[str, object] | None = None,
    frame: pl.DataFrame | None = None,
) -> Path:
    """A bundle of some models, with changed hyperparameters or of another table, whose last column is the target."""
    frame = text_table(task) if frame is None else frame
    contents = make_contents(folder / "made", task, frame=frame)
    columns = [
        msgspec.structs.replace(column, role="ignore") if column.kind == "datetime" else column
        for column in contents.schema.columns
    ]
    schema = msgspec.structs.replace(contents.schema, columns=tuple(columns))
    candidates = []
    for name in names:
        plugin = registry.get(name)
        params = plugin.params_type(**PARAMS.get(name, {}), **(changes or {}))
        place = folder / "fits" / name
        candidates.append(fit_candidate(place, plugin, params, frame, schema, 1.0, folder / name))
    path = folder / "model.tabapp"
    write_bundle(path, replace(contents, schema=schema, candidates=candidates, threshold=threshold))
    return path


def new_rows(task: str) -> pl.DataFrame:
    """Rows with an unseen level, missing cells, and a number far from all others."""
    rows = text_table(task, n_rows=50, seed=9)
    rows[0, "color"] = "violet"
    rows[1, "color"] = None
    rows[2, "age"] = None
    rows[3, "age"] = "9999"
    return rows
