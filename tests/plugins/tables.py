"""Small parameters that make the plugins fast enough for tests, and the tables of the public plugin checks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.checks.tables import make_context, make_table, shape_of
from tabapp.models.contract import Params, Plugin
from tabapp.task import Task

__all__ = ["SMALL", "defaults_of", "make_context", "make_table", "shape_of", "smaller"]

SMALL: dict[str, dict[str, object]] = {
    "ft_transformer": {"n_layers": 2, "d_token": 32, "learning_rate": 3e-3},
    "tabm": {"n_members": 4, "width": 64, "n_bins": 8, "learning_rate": 5e-3, "average_decay": 0.0},
    "snn": {"widths": (64, 64), "learning_rate": 3e-3, "average_decay": 0.0},
    "dcn_v2": {"width": 64, "learning_rate": 3e-3, "average_decay": 0.0},
    "tab_transformer": {"n_layers": 1, "learning_rate": 3e-3, "average_decay": 0.0},
    "autoint": {"d_token": 32, "learning_rate": 3e-3, "average_decay": 0.0},
    "amformer": {"d_token": 32, "learning_rate": 3e-3, "warmup_steps": 10, "average_decay": 0.0},
    "node": {"n_trees": 32, "depth": 3, "learning_rate": 3e-2, "average_decay": 0.0},
    "tabnet": {
        "n_steps": 2,
        "n_shared": 1,
        "n_independent": 1,
        "virtual_batch_size": 64,
        "batch_size": 64,
        "max_epochs": 15,
        "learning_rate": 5e-2,
        "average_decay": 0.0,
    },
    "grownet": {"n_learners": 3, "width": 16},
    "dcap": {"d_embedding": 8, "widths": (64,), "learning_rate": 3e-3, "average_decay": 0.0},
    "realmlp": {"widths": (64, 64), "batch_size": 64},
    "modern_nca": {"width": 32, "n_frequencies": 8, "d_embedding": 8, "learning_rate": 1e-2},
    "tabr": {"width": 32, "n_neighbors": 16, "learning_rate": 5e-3, "dropout": 0.0, "context_dropout": 0.0},
    "npt": {"d_embedding": 8, "n_layers": 2, "n_steps": 90, "learning_rate": 1e-2, "n_evaluations": 2},
}
"""Changes to the defaults with which a model learns in a few epochs on a few rows."""


def smaller(plugin: Plugin) -> Callable[[Params], Params]:
    """Reduce the number of steps in the plugin's parameters, because the tests check behavior and not scores."""
    fewer: dict[str, object] = {"n_trees": 40, "patience": 10, "max_epochs": 4} | SMALL.get(plugin.name, {})

    def shrink(params: Params) -> Params:
        return msgspec.structs.replace(params, **{key: value for key, value in fewer.items() if hasattr(params, key)})

    return shrink


def defaults_of(plugin: Plugin, task: Task, table: Table, spec: FeatureSpec, n_classes: int) -> Params:
    """The plugin's defaults for a table, with fewer steps."""
    return smaller(plugin)(plugin.defaults(task, shape_of(table, spec, n_classes), "cpu"))
