"""TreeSHAP of the boosters: contributions add up to the raw output, and are the Shapley values of conditional expectations."""

from __future__ import annotations

import json
from itertools import combinations
from math import factorial

import numpy as np
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.typed import typed_frame
from tabapp.features.arrays import Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tests.bundle.making import fit_candidate, text_table

QUICK = {("xgboost", "regression"), ("lightgbm", "multiclass"), ("catboost", "binary")}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(name, task, marks=[] if (name, task) in QUICK else pytest.mark.slow)
        for name in ("xgboost", "lightgbm", "catboost")
        for task in ("binary", "multiclass", "regression")
    ],
)
def test_contributions_add_up_to_the_output(tmp_path, name, task):
    frame = text_table(task, n_rows=200)
    schema, plugin = infer_schema(frame, target="outcome"), registry.get(name)
    params = plugin.params_type(n_trees=8)
    fold = fit_candidate(tmp_path / "fits", plugin, params, frame, schema, 1.0, tmp_path / "features").folds[0]
    model, preparer = plugin.load(fold.model), FeaturePreparer.load(fold.features)
    table = preparer.transform(typed_frame(frame, schema))
    predicted = model.predict(table).astype(np.float64)
    found = [model.contributions(table, code) for code in range(max(1, len(schema.classes)))]
    assert all(each.values.shape == (200, len(preparer.spec.sources)) for each in found)
    output = np.column_stack([each.base + each.values.sum(axis=1) for each in found])
    if task == "regression":
        np.testing.assert_allclose(output[:, 0], predicted, rtol=1e-5)
    elif task == "binary":
        np.testing.assert_allclose(1 / (1 + np.exp(-output)), predicted, atol=1e-5)
    else:
        powers = np.exp(output - output.max(axis=1, keepdims=True))
        np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), predicted, atol=1e-5)


def expectation(node, row, known):
    """The mean output of a tree below a node if only some features of a row are known: path-dependent, by training rows."""
    if "leaf" in node:
        return node["leaf"]
    children = {child["nodeid"]: child for child in node["children"]}
    if node["split"] in known:
        yes = row[node["split"]] < node["split_condition"]
        return expectation(children[node["yes"] if yes else node["no"]], row, known)
    covers = [child["cover"] for child in node["children"]]
    outputs = [expectation(child, row, known) for child in node["children"]]
    return np.average(outputs, weights=covers)


def test_contributions_are_the_shapley_values_of_conditional_expectations():
    import xgboost
    from tabapp_plugins._shared.target import Target
    from tabapp_plugins.trees.xgboost_model import XGBoostModel

    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 4)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.maximum(x[:, 2], 0)
    booster = xgboost.train(
        {"max_depth": 3, "nthread": 1}, xgboost.DMatrix(x, y, feature_types=["q"] * 4, nthread=1), 5
    )
    model = XGBoostModel(booster, Target("regression", 1, 0.0, 1.0), {}, n_threads=1)
    found = model.contributions(Table(numeric=x[:3], categorical=np.empty((3, 0), dtype=np.int32)), 0)
    trees = [json.loads(tree) for tree in booster.get_dump(with_stats=True, dump_format="json")]
    names = [f"f{i}" for i in range(4)]
    for index in range(3):
        row = dict(zip(names, x[index], strict=True))

        def value(known, row=row):
            return sum(expectation(tree, row, set(known)) for tree in trees)

        for column, name in enumerate(names):
            others = [each for each in names if each != name]
            exact = sum(
                factorial(size) * factorial(3 - size) / factorial(4) * (value((*known, name)) - value(known))
                for size in range(4)
                for known in combinations(others, size)
            )
            assert found.values[index, column] == pytest.approx(exact, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_contributions_are_those_of_the_shap_package(library):
    """The package reads the native booster and computes path-dependent TreeSHAP with its own code."""
    shap = pytest.importorskip("shap")
    from tabapp_plugins._shared.target import Target
    from tabapp_plugins.trees.lightgbm_model import LightGBMModel
    from tabapp_plugins.trees.xgboost_model import XGBoostModel

    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 4)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.maximum(x[:, 2], 0)
    target = Target("regression", 1, 0.0, 1.0)
    if library == "xgboost":
        import xgboost

        data = xgboost.DMatrix(x, y, feature_types=["q"] * 4, nthread=1)
        model = XGBoostModel(xgboost.train({"max_depth": 4, "nthread": 1}, data, 20), target, {}, n_threads=1)
    else:
        import lightgbm

        options = {"num_leaves": 15, "verbose": -1, "num_threads": 1, "objective": "regression"}
        model = LightGBMModel(lightgbm.train(options, lightgbm.Dataset(x, y), 20), target, {}, n_threads=1)
    ours = model.contributions(Table(numeric=x, categorical=np.empty((300, 0), dtype=np.int32)), 0)
    explainer = shap.TreeExplainer(model.booster)
    np.testing.assert_allclose(ours.values, explainer.shap_values(x), atol=1e-4)
    assert ours.base == pytest.approx(float(np.ravel(explainer.expected_value)[0]), abs=1e-4)
