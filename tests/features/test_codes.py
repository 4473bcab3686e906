"""The codes of categories: in the order of the target where models take codes for numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.typed import typed_frame
from tabapp.features.arrays import FIRST_LEVEL, FeatureRecipe
from tabapp.features.codes import codes_by_target
from tabapp.features.columns import CategoricalStep
from tabapp.features.prepare import FeaturePreparer

N_ROWS = 600


def levels_after(names, target, recipe=None):
    """The levels of a column in the order of their codes, after fitting features to a numeric target."""
    frame = pl.DataFrame({"city": names, "y": [str(value) for value in target]})
    schema = infer_schema(frame, target="y", task="regression")
    recipe = FeatureRecipe() if recipe is None else recipe
    preparer, table = FeaturePreparer.fit_transform(typed_frame(frame, schema), schema, recipe, 0, np.asarray(target))
    (step,) = (step for step in preparer.state.steps if isinstance(step, CategoricalStep))
    again = preparer.transform(typed_frame(frame, schema))
    assert (table.categorical == again.categorical).all()
    return step.levels


def cities(n_levels, seed=0):
    """Rows of cities, their numbers, and a target that follows another order of the cities."""
    generator = np.random.default_rng(seed)
    code = np.concatenate([np.arange(n_levels), generator.integers(0, n_levels, N_ROWS - n_levels)])
    names = [f"city of {chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(n_levels)]
    effect = generator.permutation(n_levels)
    return [names[n] for n in code], [names[n] for n in np.argsort(effect)], effect[code].astype(float)


def test_codes_follow_the_mean_of_the_target() -> None:
    rows, ordered, target = cities(12)
    found = levels_after(rows, target + np.random.default_rng(1).normal(0, 0.1, N_ROWS))
    assert list(found) in (ordered, ordered[::-1])


def test_codes_of_many_levels_and_for_other_models_follow_the_frequency() -> None:
    for rows, target, recipe in (
        (*cities(40)[::2], None),
        (*cities(12)[::2], FeatureRecipe(numeric="quantile")),
    ):
        counts = pl.Series("level", rows).value_counts(name="n").sort(["n", "level"], descending=[True, False])
        assert list(levels_after(rows, target, recipe)) == counts["level"].to_list()


def test_numbered_levels_keep_the_order_of_their_numbers() -> None:
    generator = np.random.default_rng(0)
    code = generator.integers(0, 12, N_ROWS)
    target = generator.permutation(12)[code].astype(float)
    assert levels_after([f"zone {n}" for n in code], target) == tuple(f"zone {n}" for n in range(12))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_levels_with_similar_shares_of_the_classes_get_neighboring_codes(n_classes: int) -> None:
    generator = np.random.default_rng(0)
    codes = FIRST_LEVEL + generator.integers(0, 10, 5_000)
    is_even = codes % 2 == 0
    target = np.where(is_even & (generator.random(5_000) < 0.6), 1, generator.integers(0, n_classes, 5_000))
    task = "binary" if n_classes == 2 else "multiclass"
    found = codes_by_target(codes.astype(np.int32), FIRST_LEVEL + 10, target, task)
    assert sorted(found.tolist()) == list(range(FIRST_LEVEL, FIRST_LEVEL + 10))
    assert {code % 2 for code in found[:5].tolist()} != {code % 2 for code in found[5:].tolist()}
    assert len({code % 2 for code in found[:5].tolist()}) == 1


@pytest.mark.parametrize("target", [[0.0] * 6, [1e200, 2e200, 3e200, 1e200, 2e200, 3e200]])
def test_extreme_and_constant_targets_order_all_levels(target: list[float]) -> None:
    codes = np.tile(FIRST_LEVEL + np.arange(3, dtype=np.int32), 2)
    found = codes_by_target(codes, FIRST_LEVEL + 3, np.array(target), "regression")
    assert sorted(found.tolist()) == [FIRST_LEVEL, FIRST_LEVEL + 1, FIRST_LEVEL + 2]
