"""Extremely randomized trees (Geurts et al. 2006), grown by scikit-learn."""

from __future__ import annotations

import msgspec

from tabapp.models.contract import Cost, Params, Shape, Task, Trial

from .._shared.trees import ForestParams, ForestPlugin, forest_bytes, share_of_columns


class ExtraTrees(ForestPlugin):
    name = "extra_trees"
    title = "Extra trees"
    requires = ("sklearn", "safetensors")
    paper = "Geurts, Ernst & Wehenkel 2006, Extremely Randomized Trees"
    estimator = "ExtraTrees"
    bootstrap = False

    def defaults(self, task: Task, shape: Shape, device: str) -> ForestParams:
        """Every split considers all columns in regression, as in the paper, and half of them in classification; fewer on a
        table with many columns.
        """
        return ForestParams(max_features=share_of_columns(shape, 1.0 if task == "regression" else 0.5))

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[ForestParams, ...]:
        """Leaves of single rows, which are better on most small tables (`forest_portfolios.json` in `benchmarks/results`)."""
        return (msgspec.structs.replace(self.defaults(task, shape, device), min_samples_leaf=1),)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ForestParams:
        return ForestParams(
            min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 50, log=True),
            max_features=trial.suggest_float("max_features", share_of_columns(shape, 0.1), 1.0),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, ForestParams)
        # Trees of numbers are deeper than those of classes.
        per_cell = 2e-7 if task == "regression" else 1.5e-7
        per_tree = 1.2e-3 + per_cell * shape.n_rows * max(1.0, shape.n_features * params.max_features)
        n_nodes = params.n_trees * 2 * shape.n_rows / params.min_samples_leaf
        return Cost(
            seconds=0.1 + params.n_trees * per_tree,
            n_bytes=forest_bytes(shape, n_nodes, share=0.4 if task == "regression" else 0.22),
        )
