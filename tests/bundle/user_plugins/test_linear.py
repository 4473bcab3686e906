"""A linear model in a plugin folder, where the process that loads a bundle finds it, too."""

from __future__ import annotations

import msgspec
import numpy as np

from tabapp.features.arrays import FeatureRecipe
from tabapp.models.contract import Cost, FittedModel, Params, Plugin


class LinearParams(Params, frozen=True, kw_only=True):
    """Strength of the L2 penalty."""

    penalty: float = 1.0


class LinearModel(FittedModel):
    def __init__(self, coefficients):
        self.coefficients = coefficients

    def predict(self, table):
        output = table.numeric.astype(np.float64) @ self.coefficients[:-1] + self.coefficients[-1]
        if output.shape[1] == 1:
            return output[:, 0]
        exponents = np.exp(output - output.max(axis=1, keepdims=True))
        return (exponents / exponents.sum(axis=1, keepdims=True)).astype(np.float32)

    def save(self, folder):
        (folder / "coefficients.json").write_bytes(msgspec.json.encode(self.coefficients.tolist()))


class Linear(Plugin):
    """Ridge regression on quantile features; for classes, on one-hot targets with a softmax."""

    name = "test_linear"
    title = "Linear of the tests"
    family = "classic"
    paper = ""
    params_type = LinearParams

    def features(self):
        return FeatureRecipe(numeric="quantile")

    def defaults(self, task, shape, device):
        return LinearParams()

    def search_space(self, trial, task, shape, device):
        return LinearParams(penalty=trial.suggest_float("penalty", 0.1, 10))

    def cost(self, task, shape, params, device):
        return Cost(0.1, 1)

    def fit(self, train, valid, params, context):
        inputs = np.column_stack([train.numeric, np.ones(len(train))])
        target = train.target[:, None] if context.task == "regression" else 4 * np.eye(context.n_classes)[train.target]
        gram = inputs.T @ inputs + params.penalty * np.eye(inputs.shape[1])
        return LinearModel(np.linalg.solve(gram, inputs.T @ target))

    def load(self, folder):
        return LinearModel(np.array(msgspec.json.decode((folder / "coefficients.json").read_bytes())))
