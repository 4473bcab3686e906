"""Small fitted models and tables for the tests of explanations."""

from __future__ import annotations

import threading

import numpy as np

from tabapp.explain.fold_model import FoldModel
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import FittedModel

SPEC = FeatureSpec(
    numeric=("strong", "weak", "noise", "strong__missing"),
    categorical=("color", "unused"),
    cardinalities=(5, 4),
    sources=("strong", "weak", "noise", "strong", "color", "unused"),
)
COLUMNS = ("noise", "weak", "strong", "color", "unused", "absent")


class LinearModel(FittedModel):
    """Predicts 3·strong + weak + 10 where strong is missing + the color's code."""

    def __init__(self):
        self.threads = set()

    def predict(self, table):
        self.threads.add(threading.get_ident())
        numeric = table.numeric
        value = 3 * numeric[:, 0] + numeric[:, 1] + 10 * numeric[:, 3] + table.categorical[:, 0]
        return value.astype(np.float32)

    def attention(self, table):
        shares = np.array([0.4, 0.1, 0.05, 0.2, 0.2, 0.05], dtype=np.float32)
        return np.tile(shares, (len(table), 1))

    def save(self, folder):
        raise NotImplementedError


class WithoutAttention(LinearModel):
    def attention(self, table):
        return None


def fold_models(n_folds=3, n_rows=200, model=LinearModel):
    generator = np.random.default_rng(0)
    folds = []
    for _ in range(n_folds):
        numeric = generator.normal(size=(n_rows, 4)).astype(np.float32)
        numeric[:, 3] = generator.random(n_rows) < 0.1
        numeric[:, 0] *= 1 - numeric[:, 3]
        categorical = generator.integers(0, 3, (n_rows, 2)).astype(np.int32)
        table = Table(numeric=numeric, categorical=categorical)
        fitted = model()
        target = fitted.predict(table).astype(np.float64) + generator.normal(scale=0.1, size=n_rows)
        folds.append(FoldModel(fitted, Table(numeric, categorical, target), SPEC))
    return folds
