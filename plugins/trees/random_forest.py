"""Random forest (Breiman 2001), grown by scikit-learn."""

from __future__ import annotations

from tabapp.models.contract import Cost, Params, Shape, Task, Trial

from .._shared.trees import ForestParams, ForestPlugin, forest_bytes, share_of_columns


class RandomForest(ForestPlugin):
    name = "random_forest"
    title = "Random forest"
    requires = ("sklearn", "safetensors")
    paper = "Breiman 2001, Random Forests"
    estimator = "RandomForest"
    bootstrap = True

    def defaults(self, task: Task, shape: Shape, device: str) -> ForestParams:
        return ForestParams(max_features=share_of_columns(shape, 0.5))

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[ForestParams, ...]:
        """Leaves of single rows and splits of more columns, which are better on most small tables
        (`forest_portfolios.json` in `benchmarks/results`)."""
        return (ForestParams(min_samples_leaf=1, max_features=share_of_columns(shape, 0.75)),)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ForestParams:
        return ForestParams(
            min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 50, log=True),
            max_features=trial.suggest_float("max_features", share_of_columns(shape, 0.1), 1.0),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, ForestParams)
        n_rows = min(shape.n_rows, params.max_rows)
        # Few different values are soon sorted.
        columns = shape.n_numeric + 0.3 * shape.n_categorical
        per_tree = 1.5e-3 + 5e-7 * n_rows * max(1.0, columns * params.max_features)
        n_nodes = params.n_trees * 2 * n_rows / params.min_samples_leaf
        return Cost(
            seconds=0.1 + params.n_trees * per_tree,
            n_bytes=forest_bytes(shape, n_nodes, share=0.4 if task == "regression" else 0.09),
        )
