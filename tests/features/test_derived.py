"""Features made from two columns: what is chosen, that nothing leaks, and that files and rows do not change them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.errors import BundleError
from tabapp.features.arrays import MOST_DERIVED, FeatureRecipe
from tabapp.features.derived import Arithmetic, Deviation, Numbers
from tabapp.features.prepare import FeaturePreparer, recipe_for

N = 1_000
DERIVED = FeatureRecipe(derived=True)


def example(kind: str, seed: int = 0) -> tuple[pl.DataFrame, Schema, np.ndarray]:
    """Rows whose target is a function of two columns, with noise."""
    generator = np.random.default_rng(seed)
    a, b = generator.uniform(1, 5, N), generator.uniform(1, 5, N)
    town = generator.integers(0, 8, N)
    a += 10 * town if kind == "deviation" else 0
    signal = {"ratio": b / a, "product": (a - 3) * (b - 3), "deviation": a - 10 * town}[kind]
    y = signal + 0.05 * signal.std() * generator.normal(size=N)
    cells = {"a": [f"{v:.5f}" for v in a], "b": [f"{v:.5f}" for v in b], "town": [f"t{v}" for v in town]}
    cells["a"][3], cells["b"][4] = None, "0"
    source = pl.DataFrame({**cells, "y": [f"{v:.5f}" for v in y]})
    schema = infer_schema(source, target="y")
    typed = typed_frame(source, schema)
    return typed, schema, encode_target(typed, schema)


@pytest.mark.parametrize(("kind", "name"), [("ratio", "a / b"), ("deviation", "a - mean by town")])
def test_the_combination_that_makes_the_target_is_a_feature(kind: str, name: str) -> None:
    typed, schema, target = example(kind)
    preparer, table = FeaturePreparer.fit_transform(typed, schema, DERIVED, 0, target)
    assert name in preparer.spec.numeric
    values = table.numeric[:, preparer.spec.numeric.index(name)]
    known = np.isfinite(values)
    assert known.sum() >= N - 2
    assert np.abs(np.corrcoef(rankdata(values[known]), rankdata(target[known]))[0, 1]) > 0.95
    index = preparer.spec.numeric.index(name)
    assert preparer.spec.columns()[index] == (("a", "b") if kind == "ratio" else ("a", "town"))
    assert len(preparer.state.derived) <= MOST_DERIVED


def test_features_do_not_depend_on_other_rows_or_on_saving(tmp_path: Path) -> None:
    typed, schema, target = example("deviation")
    preparer, table = FeaturePreparer.fit_transform(typed, schema, DERIVED, 0, target)
    preparer.save(tmp_path)
    loaded = FeaturePreparer.load(tmp_path)
    assert loaded.state == preparer.state
    for rows in (slice(0, N), slice(3, 5), slice(7, 8)):
        np.testing.assert_array_equal(loaded.transform(typed[rows]).numeric, table.numeric[rows])


def test_the_same_seed_chooses_the_same_features() -> None:
    typed, schema, target = example("product")
    first, second = (FeaturePreparer.fit_transform(typed, schema, DERIVED, 3, target)[0] for _ in range(2))
    assert first.state == second.state
    assert any(isinstance(each, Arithmetic) for each in first.state.derived)
    assert any(isinstance(each, Deviation) for each in first.state.derived)


def test_values_that_are_not_defined_are_missing() -> None:
    numbers = Numbers(
        np.array([[1.0, 0.0], [np.nan, 2.0], [1e300, 1e-300], [0.0, 0.0]]), lambda _: np.zeros(4, np.int32)
    )
    assert np.isnan(numbers.derived(Arithmetic("ratio", 0, 1), None)).all()
    assert numbers.derived(Arithmetic("product", 0, 1), None).tolist()[0] == 0
    assert np.isnan(numbers.derived(Deviation(0, 0), np.ones(2))[1])


def test_a_recipe_without_pairs_shares_the_features_of_others() -> None:
    source = pl.DataFrame({"x": [f"{v}.5" for v in range(50)], "y": [f"{v}.25" for v in range(50)]})
    assert recipe_for(DERIVED, infer_schema(source, target="y")) == FeatureRecipe()
    with pytest.raises(ValueError, match="derived features needs the target"):
        FeaturePreparer.fit(source, infer_schema(source, target="y"), DERIVED, 0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"type": "arithmetic", "operation": "sum", "first": 0, "second": 99}, "out of range"),
        ({"type": "deviation", "number": 0, "step": 0}, "which is not categorical"),
        ({"type": "deviation", "number": 0, "step": -1}, "out of range"),
        ({"type": "power", "first": 0, "second": 1}, "cannot be read"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    typed, schema, target = example("deviation")
    FeaturePreparer.fit_transform(typed, schema, DERIVED, 0, target)[0].save(tmp_path)
    path = tmp_path / "features.json"
    state = json.loads(path.read_text())
    place = next(
        i for i, each in enumerate(state["derived"]) if each["type"] == change["type"] or change["type"] == "power"
    )
    state["derived"][place] = change
    path.write_text(json.dumps(state))
    with pytest.raises(BundleError, match=problem):
        FeaturePreparer.load(tmp_path)
