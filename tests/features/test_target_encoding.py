"""Target encoding: no leak of the target of a row into its feature, or of scored rows into the state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.features.arrays import FeatureRecipe, Table
from tabapp.features.prepare import FeaturePreparer, recipe_for

N = 1200
ENCODED = FeatureRecipe(target_encoding=True)


def example(task: str, informative: bool, seed: int = 0) -> tuple[pl.DataFrame, Schema, np.ndarray]:
    generator = np.random.default_rng(seed)
    shop = generator.integers(0, 300, N)
    effect = generator.normal(size=300)[shop] * informative + generator.normal(size=N) * (0.3 if informative else 1)
    y = {
        "binary": np.where(effect > 0, "yes", "no"),
        "multiclass": np.array(["low", "mid", "high"])[np.digitize(effect, [-0.5, 0.5])],
        "regression": np.char.mod("%.4f", effect),
    }[task]
    columns = {"shop": [f"s{i}" for i in shop], "x": [f"{v:.4f}" for v in generator.normal(size=N)], "y": y.tolist()}
    source = pl.DataFrame(columns)
    schema = infer_schema(source, target="y")
    assert schema.task == task
    assert schema.column("shop").kind == "categorical"
    typed = typed_frame(source, schema)
    return typed, schema, encode_target(typed, schema)


def encodings(preparer: FeaturePreparer, table: Table) -> np.ndarray:
    shown = [i for i, name in enumerate(preparer.spec.numeric) if name.startswith(("shop target", "shop share"))]
    return table.numeric[:, shown]


@pytest.mark.parametrize(("task", "n_outputs"), [("binary", 1), ("multiclass", 3), ("regression", 1)])
def test_levels_are_encoded_as_the_mean_of_the_target(task: str, n_outputs: int) -> None:
    typed, schema, target = example(task, informative=True)
    train, new = np.arange(N) < 900, np.arange(N) >= 900
    preparer, table = FeaturePreparer.fit_transform(typed.filter(train), schema, ENCODED, 0, target[train])
    for rows, part in ((train, table), (new, preparer.transform(typed.filter(new)))):
        shown = encodings(preparer, part)
        assert shown.shape == (rows.sum(), n_outputs)
        assert np.isfinite(shown).all()
        truth = target[rows] if task == "regression" else target[rows] == (1 if task == "binary" else 0)
        assert np.corrcoef(shown[:, 0], truth)[0, 1] > 0.4
    if task == "multiclass":
        np.testing.assert_allclose(shown.sum(axis=1), 1, atol=0.25)


def test_unseen_levels_and_missing_cells_are_finite() -> None:
    typed, schema, target = example("regression", informative=True)
    preparer, _ = FeaturePreparer.fit_transform(typed, schema, ENCODED, 0, target)
    odd = typed.head(3).with_columns(shop=pl.Series(["nowhere", None, "s1"]))
    shown = encodings(preparer, preparer.transform(odd))
    assert np.isfinite(shown).all()
    assert abs(shown[1, 0] - target.mean()) < 0.2


def test_encoding_of_a_training_row_excludes_its_target() -> None:
    typed, schema, target = example("binary", informative=False)
    preparer, table = FeaturePreparer.fit_transform(typed, schema, ENCODED, 0, target)
    row = 17
    changed = target.copy()
    changed[row] = 1 - changed[row]
    _, other = FeaturePreparer.fit_transform(typed, schema, ENCODED, 0, changed)
    # The folds are stratified by the target, so they may change with it; the encoding uses only other rows in both cases.
    assert abs(encodings(preparer, table)[row, 0] - encodings(preparer, other)[row, 0]) < 0.2
    # For pure noise, out-of-fold encodings are uninformative, while encodings that include the row would predict the target.
    assert abs(roc_auc_score(target, encodings(preparer, table)[:, 0]) - 0.5) < 0.06
    assert roc_auc_score(target, encodings(preparer, preparer.transform(typed))[:, 0]) > 0.65


def test_category_of_pure_noise_is_not_better_than_chance() -> None:
    scores: list[float] = []
    for seed in range(6):
        typed, schema, target = example("binary", informative=False, seed=seed)
        train, held_out = np.arange(N) % 3 != 0, np.arange(N) % 3 == 0
        preparer, table = FeaturePreparer.fit_transform(typed.filter(train), schema, ENCODED, 0, target[train])
        model = LogisticRegression().fit(encodings(preparer, table), target[train])
        shown = encodings(preparer, preparer.transform(typed.filter(held_out)))
        scores.append(roc_auc_score(target[held_out], model.predict_proba(shown)[:, 1]))
    assert abs(np.mean(scores) - 0.5) < 0.04


def test_groups_are_not_split_between_folds() -> None:
    typed, schema, target = example("regression", informative=True)
    group = typed["shop"].rank("dense").to_numpy().astype(np.int64)
    preparer, table = FeaturePreparer.fit_transform(typed, schema, ENCODED, 0, target, groups=group)
    # A shop that is completely in one fold is unknown to the others, so all of its rows get the overall mean.
    assert np.ptp(encodings(preparer, table)) < 0.3 < np.ptp(encodings(preparer, preparer.transform(typed)))


def test_state_does_not_depend_on_other_rows(tmp_path: Path) -> None:
    typed, schema, target = example("multiclass", informative=True)
    train = np.arange(N) % 4 != 0
    shuffled = target.copy()
    shuffled[~train] = np.random.default_rng(1).permutation(shuffled[~train])
    states: list[tuple[bytes, ...]] = []
    for i, (answer, rows) in enumerate(((target, train), (shuffled, train), (np.roll(target, 1), train))):
        folder = tmp_path / str(i)
        folder.mkdir()
        preparer, table = FeaturePreparer.fit_transform(typed.filter(rows), schema, ENCODED, 0, answer[rows])
        preparer.save(folder)
        files = [(folder / name).read_bytes() for name in ("features.json", "features.safetensors")]
        states.append((*files, table.numeric.tobytes()))
    assert states[0] == states[1]
    assert states[0] != states[2]


@pytest.mark.parametrize("numeric", ["raw", "quantile", "robust"])
def test_loaded_state_is_bit_identical(numeric: str, tmp_path: Path) -> None:
    typed, schema, target = example("multiclass", informative=True)
    recipe = FeatureRecipe(numeric=numeric, target_encoding=True)  # type: ignore[arg-type]
    preparer, table = FeaturePreparer.fit_transform(typed, schema, recipe, 0, target)
    preparer.save(tmp_path)
    loaded = FeaturePreparer.load(tmp_path)
    assert loaded.spec == preparer.spec
    assert len(preparer.spec.numeric) == table.numeric.shape[1] == len(preparer.spec.sources) - 1
    assert loaded.transform(typed).numeric.tobytes() == preparer.transform(typed).numeric.tobytes()


def test_fit_without_target_is_rejected() -> None:
    typed, schema, _ = example("binary", informative=True)
    with pytest.raises(ValueError, match="fit_transform"):
        FeaturePreparer.fit(typed, schema, ENCODED, 0)


def test_few_levels_and_other_recipes_are_unaffected() -> None:
    typed, schema, target = example("binary", informative=True)
    plain, table = FeaturePreparer.fit_transform(typed, schema, FeatureRecipe(), 0, target)
    assert not any("share of" in name for name in plain.spec.numeric)
    assert table.numeric.tobytes() == plain.transform(typed).numeric.tobytes()
    few = typed.with_columns(shop=typed["shop"].str.slice(0, 2))
    preparer, _ = FeaturePreparer.fit_transform(few, schema, ENCODED, 0, target)
    assert not any("share" in name for name in preparer.spec.numeric)


def test_tables_without_high_cardinality_use_the_plain_recipe() -> None:
    _, schema, _ = example("binary", informative=True)
    assert recipe_for(ENCODED, schema) == ENCODED
    source = pl.DataFrame({"x": [f"{i * 0.37 % 1:.3f}" for i in range(90)], "y": ["a", "b", "b"] * 30})
    assert recipe_for(ENCODED, infer_schema(source, target="y")) == FeatureRecipe()
