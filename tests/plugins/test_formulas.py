"""Models as formulas predict what the models predict, also for missing cells, unseen levels and classes that a fold lacks."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext
from tabapp.models.formula import TreeFormula

CARDINALITIES = (9, 30)
FEATURES = FeatureSpec(
    numeric=("a", "b"), categorical=("c", "d"), cardinalities=CARDINALITIES, sources=("a", "b", "c", "d")
)
PARAMS = {
    "xgboost": {"n_trees": 12},
    "lightgbm": {"n_trees": 12, "min_data_in_leaf": 5},
    "xgboost, leaf by leaf": {"n_trees": 12, "grow_policy": "lossguide", "max_leaves": 9},
    "catboost": {"n_trees": 12},
    "catboost, not symmetric": {"n_trees": 12, "grow_policy": "Depthwise"},
    "random_forest": {"n_trees": 10},
    "hist_gradient_boosting": {"n_trees": 12, "min_samples_leaf": 5},
}


def table(n_rows: int, seed: int, task: str) -> Table:
    """Numbers with gaps, and codes; code 0 is an unseen level, of which there are few."""
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n_rows, 2)).astype(np.float32)
    numeric[generator.random(n_rows) < 0.2, 1] = np.nan
    codes = np.column_stack([generator.integers(0, each, n_rows) for each in CARDINALITIES]).astype(np.int32)
    signal = numeric[:, 0] + (codes[:, 0] % 3) + 0.1 * codes[:, 1] + 0.8 * np.isnan(numeric[:, 1])
    if task == "regression":
        target = 1000.0 + 50 * signal
    else:
        # The second of four classes has no row.
        edges = np.quantile(signal, [0.5] if task == "binary" else [0.3, 0.7])
        target = np.searchsorted(edges, signal)
        target = target if task == "binary" else np.array([0, 2, 3])[target]
    return Table(numeric=numeric, categorical=codes, target=target)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("case", PARAMS)
def test_formula_predicts_like_the_model(case, task, tmp_path):
    plugin = registry.get(case.partition(",")[0])
    context = FitContext(
        task=task,
        n_classes={"binary": 2, "multiclass": 4, "regression": 1}[task],
        metric="rmse" if task == "regression" else "log_loss",
        features=FEATURES,
        seed=0,
        device="cpu",
        n_threads=1,
        folder=tmp_path,
    )
    model = plugin.fit(table(160, 0, task), table(40, 1, task), plugin.params_type(**PARAMS[case]), context)
    formula = model.formula(FEATURES)
    new = table(60, 2, task)
    expected = model.predict(new)
    assert isinstance(formula, TreeFormula)
    scale = np.ptp(expected) if task == "regression" else 1.0
    np.testing.assert_allclose(formula.predict(new), expected, atol=2e-6 * scale)
