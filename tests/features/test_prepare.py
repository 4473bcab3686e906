"""Conversion of typed frames to arrays: properties of each recipe, fitting on training rows only, saving and loading."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import QuantileTransformer

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.typed import typed_frame
from tabapp.errors import BundleError
from tabapp.features import columns, prepare, text
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN, FeatureRecipe, Table
from tabapp.features.columns import DatetimeStep, TextStep
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.quantile import QuantileMap

N = 240
GENERATOR = np.random.default_rng(0)
WORDS = np.array(
    ["red", "green", "blue", "apple", "pear", "house", "tree", "river", "stone", "cloud", "light", "music"]
)
RAW, QUANTILE = FeatureRecipe(numeric="raw"), FeatureRecipe(numeric="quantile")
STANDARD, ROBUST = FeatureRecipe(numeric="standard"), FeatureRecipe(numeric="robust")
KEEP = tuple(FeatureRecipe(numeric=numeric, missing="keep") for numeric in ("quantile", "standard", "robust"))
RECIPES = pytest.mark.parametrize(
    "recipe", [RAW, QUANTILE, STANDARD, ROBUST, *KEEP], ids=lambda r: f"{r.numeric}-{r.missing}"
)
SCALED = pytest.mark.parametrize(
    "recipe", [QUANTILE, STANDARD, ROBUST, *KEEP], ids=lambda r: f"{r.numeric}-{r.missing}"
)


def texts(values: object) -> pl.Series:
    return pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)  # type: ignore[attr-defined]


SOURCE = pl.DataFrame(
    {
        "x": texts(GENERATOR.normal(size=N)),
        "gaps": texts([None if i % 7 == 0 else i * 1.5 for i in range(N)]),
        "count": texts(GENERATOR.integers(0, 4, N)),
        "flag": texts(["yes" if i % 3 else "no" for i in range(N)]),
        "city": texts([["Oslo", "Rome", None, "Bonn", "Oslo"][i % 5] for i in range(N)]),
        "shop": texts([f"s{i}" for i in np.minimum(GENERATOR.geometric(0.02, N), 120)]),
        "when": texts([f"2024-{1 + i % 12:02}-{1 + i % 28:02} {i % 24:02}:00" for i in range(N)]),
        "note": texts([" ".join(GENERATOR.choice(WORDS, 4)) + f" {i}" for i in range(N)]),
        "y": texts(["a" if i % 2 else "b" for i in range(N)]),
    }
)
SCHEMA = infer_schema(SOURCE, target="y")
TYPED = typed_frame(SOURCE, SCHEMA)


def fitted(recipe: FeatureRecipe, frame: pl.DataFrame = TYPED, schema: Schema = SCHEMA) -> FeaturePreparer:
    return FeaturePreparer.fit(frame, schema, recipe, seed=0)


def equal(a: Table, b: Table) -> bool:
    return a.numeric.tobytes() == b.numeric.tobytes() and a.categorical.tobytes() == b.categorical.tobytes()


def column(preparer: FeaturePreparer, table: Table, name: str) -> np.ndarray:
    spec = preparer.spec
    if name in spec.categorical:
        return table.categorical[:, spec.categorical.index(name)]
    return table.numeric[:, spec.numeric.index(name)]


def test_example_table_has_all_kinds() -> None:
    kinds = {c.name: c.kind for c in SCHEMA.features}
    assert kinds == {
        "x": "numeric", "gaps": "numeric", "count": "numeric", "flag": "boolean", "city": "categorical", "shop": "categorical",
        "when": "datetime", "note": "text",
    }  # fmt: skip


@RECIPES
def test_tables_have_the_documented_shapes_and_types(recipe: FeatureRecipe) -> None:
    preparer = fitted(recipe)
    table = preparer.transform(TYPED)
    spec = preparer.spec
    assert table.target is None
    assert table.numeric.dtype == np.float32
    assert table.categorical.dtype == np.int32
    assert table.numeric.shape == (N, len(spec.numeric))
    assert table.categorical.shape == (N, len(spec.categorical))
    assert len(spec.sources) == len(spec.numeric) + len(spec.categorical)
    assert set(spec.sources) == {c.name for c in SCHEMA.features}
    names = spec.numeric + spec.categorical
    assert len(set(names)) == len(names)
    assert (table.categorical.max(axis=0) < np.array(spec.cardinalities)).all()
    assert table.categorical.min() >= 0
    assert not np.isinf(table.numeric).any()
    assert np.isnan(table.numeric).any() == (recipe == RAW or recipe.missing == "keep")
    for i in range(len(spec.numeric)):
        assert len(np.unique(table.numeric[:, i])) > 1, spec.numeric[i]


def test_raw_numbers_keep_units_and_missing_cells() -> None:
    preparer = fitted(RAW)
    table = preparer.transform(TYPED)
    np.testing.assert_array_equal(column(preparer, table, "gaps"), TYPED["gaps"].to_numpy().astype(np.float32))
    assert set(column(preparer, table, "flag")) == {0.0, 1.0}
    assert (column(preparer, table, "flag") == (TYPED["flag"] == "yes").to_numpy()).all()


def test_category_codes() -> None:
    preparer = fitted(RAW)
    codes = column(preparer, preparer.transform(TYPED), "city")
    assert (codes[TYPED["city"].is_null().to_numpy()] == MISSING).all()
    assert (codes[(TYPED["city"] == "Oslo").fill_null(False).to_numpy()] == FIRST_LEVEL).all()
    assert preparer.spec.cardinalities[preparer.spec.categorical.index("city")] == FIRST_LEVEL + 3
    other = preparer.transform(TYPED.with_columns(city=pl.lit("Atlantis")))
    assert (column(preparer, other, "city") == UNSEEN).all()


def test_high_cardinality_adds_counts_and_rare_levels_share_a_code() -> None:
    preparer = fitted(RAW)
    table = preparer.transform(TYPED)
    counts = TYPED["shop"].value_counts()
    frequency = dict(zip(counts["shop"], counts["count"], strict=True))
    assert column(preparer, table, "shop count").tolist() == [frequency[shop] for shop in TYPED["shop"]]
    single = np.array([frequency[shop] == 1 for shop in TYPED["shop"]])
    assert single.any()
    assert ((column(preparer, table, "shop") == UNSEEN) == single).all()
    assert "shop count" not in fitted(QUANTILE).spec.numeric


def test_number_of_levels_is_limited_for_deep_models() -> None:
    values = texts([f"v{i // 2}" for i in range(3000)])
    source = pl.DataFrame({"v": values, "y": texts(["a", "b"] * 1500)})
    schema = infer_schema(source, target="y")
    typed = typed_frame(source, schema)
    assert fitted(QUANTILE, typed, schema).spec.cardinalities == (502,)
    assert fitted(RAW, typed, schema).spec.cardinalities == (1502,)


def test_dates_are_split_into_parts() -> None:
    preparer = fitted(RAW)
    table = preparer.transform(TYPED)
    assert (column(preparer, table, "when month") == TYPED["when"].dt.month().to_numpy()).all()
    assert (column(preparer, table, "when hour") == TYPED["when"].dt.hour().to_numpy()).all()
    assert column(preparer, table, "when elapsed days").min() == 0
    assert "when year" not in preparer.spec.numeric  # all dates are in one year
    later = preparer.transform(TYPED.with_columns(when=TYPED["when"].dt.offset_by("10y")))
    assert column(preparer, later, "when elapsed days").min() > 3600


def test_periodic_parts_of_dates_have_sine_and_cosine() -> None:
    step = DatetimeStep.fit("d", pl.Series("d", [datetime(2023, month, 15, 6) for month in range(1, 13)]), cyclic=True)
    assert set(step.cycles) == {"month", "weekday", "day of year"}
    values = pl.Series("d", [datetime(2023, 12, 28), datetime(2024, 1, 3), datetime(2024, 7, 1), None])
    numbers = step.numbers(values)
    assert numbers.shape == (4, len(step.names()))
    circle = [i for i, name in enumerate(step.names()) if name.startswith("d day of year ") and name != "d day of year"]
    points = numbers[:, circle]
    assert np.linalg.norm(points[0] - points[1]) < 0.2 < 1.5 < np.linalg.norm(points[0] - points[2])
    assert np.isnan(numbers[3]).all()
    assert "when hour sine" in fitted(QUANTILE).spec.numeric
    assert not any("sine" in name for name in fitted(RAW).spec.numeric)


def test_style_features_of_text() -> None:
    step = TextStep("t", 0)
    numbers = step.numbers(pl.Series("t", ["WIN 500 now!", "see you", None, ""]))
    assert step.names() == [
        "t characters", "t words", "t digit share", "t capital share", "t mark share", "t word length",
    ]  # fmt: skip
    np.testing.assert_allclose(numbers[0], [12, 3, 3 / 12, 3 / 12, 1 / 12, 4])
    np.testing.assert_allclose(numbers[1], [7, 2, 0, 0, 0, 3.5])
    assert np.isnan(numbers[2]).all()
    assert numbers[3].tolist() == [0.0] * 6


def test_similar_texts_are_close() -> None:
    n = 200
    kinds = ["buy cheap watches now", "see you at dinner tonight"]
    source = pl.DataFrame({"t": texts([f"{kinds[i % 2]} {i}" for i in range(n)]), "y": texts(["a", "b"] * (n // 2))})
    schema = infer_schema(source, target="y")
    typed = typed_frame(source, schema)
    preparer = fitted(RAW, typed, schema)
    new = preparer.transform(pl.DataFrame({"t": ["buy cheap shoes now", "dinner tonight with you", None]})).numeric
    topics = [i for i, name in enumerate(preparer.spec.numeric) if "topic" in name]
    table = preparer.transform(typed).numeric[:, topics]
    centers = np.stack([table[0::2].mean(axis=0), table[1::2].mean(axis=0)])
    nearest = ((new[:2, topics][:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert nearest.tolist() == [0, 1]
    assert np.isnan(new[2]).all()
    none = FeaturePreparer.fit(typed, schema, FeatureRecipe(numeric="raw", text_components=0), 0)
    assert not any("topic" in name for name in none.spec.numeric)


@pytest.mark.parametrize("n_rows", [5, 40, 2000, 40_000])
def test_quantiles_equal_scikit_learn(n_rows: int) -> None:
    generator = np.random.default_rng(1)
    train = np.column_stack(
        [generator.normal(size=n_rows), generator.exponential(size=n_rows), generator.integers(0, 3, n_rows)]
    )
    fitted_map = QuantileMap.fit(train, seed=3)
    noise = 1e-5 * np.random.default_rng(3).standard_normal(train.shape)
    reference = QuantileTransformer(
        n_quantiles=min(max(min(n_rows // 30, 1000), 10), n_rows),
        output_distribution="normal",
        subsample=10**9,
        random_state=3,
    ).fit(train + noise)
    new = np.concatenate([train, generator.normal(size=(500, 3)) * 10, [[1e30, -1e30, 0.0]]])
    np.testing.assert_allclose(fitted_map.transform(new), reference.transform(new), atol=1e-6)


@RECIPES
def test_values_are_bounded_for_any_input(recipe: FeatureRecipe) -> None:
    preparer = fitted(recipe)
    extreme = TYPED.with_columns(
        x=pl.Series([1e300, -1e300, None, 5e-324] * (N // 4)),
        gaps=pl.Series([None] * N, dtype=pl.Float64),
        city=pl.Series(["Atlantis", None] * (N // 2)),
        when=pl.Series([None] * N, dtype=pl.Datetime("us")),
        note=pl.Series([None, "", "zzz", "é" * 5000] * (N // 4)),
        flag=pl.Series(["maybe", None] * (N // 2)),
    )
    table = preparer.transform(extreme)
    assert not np.isinf(table.numeric).any()
    assert (table.categorical < np.array(preparer.spec.cardinalities)).all()
    if recipe == RAW:
        return
    assert np.isnan(table.numeric).any() == (recipe.missing == "keep")
    assert np.nanmax(np.abs(table.numeric)) <= {"quantile": 5.2, "standard": 1000.0, "robust": 3.0}[recipe.numeric]


def test_spec_and_categories_are_equal_for_all_scalings() -> None:
    expected = fitted(QUANTILE)
    for recipe in (STANDARD, ROBUST):
        spec = fitted(recipe).spec
        assert spec == expected.spec
        assert fitted(recipe).transform(TYPED).categorical.tolist() == expected.transform(TYPED).categorical.tolist()


@SCALED
def test_kept_missing_cells_stay_nan_without_indicator(recipe: FeatureRecipe) -> None:
    preparer = fitted(recipe)
    table = preparer.transform(TYPED)
    missing = TYPED["gaps"].is_null().to_numpy()
    if recipe.missing == "keep":
        assert not any(name.endswith("missing") for name in preparer.spec.numeric)
        assert (np.isnan(column(preparer, table, "gaps")) == missing).all()
    else:
        assert "gaps missing" in preparer.spec.numeric


def test_standard_and_robust_are_centered() -> None:
    for recipe, center in ((STANDARD, np.mean), (ROBUST, np.median)):
        values = column(fitted(recipe), fitted(recipe).transform(TYPED), "x")
        assert abs(center(values)) < 1e-6
    standard = column(fitted(STANDARD), fitted(STANDARD).transform(TYPED), "x")
    assert standard.std() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("recipe", [QUANTILE, STANDARD, ROBUST], ids=lambda r: r.numeric)
def test_missing_cells_are_filled_and_have_an_indicator(recipe: FeatureRecipe) -> None:
    preparer = fitted(recipe)
    table = preparer.transform(TYPED)
    missing = TYPED["gaps"].is_null().to_numpy()
    assert (column(preparer, table, "gaps missing") == missing).all()
    assert len(np.unique(column(preparer, table, "gaps")[missing])) == 1
    assert "x missing" not in preparer.spec.numeric


@RECIPES
def test_rows_are_independent(recipe: FeatureRecipe) -> None:
    preparer = fitted(recipe)
    whole = preparer.transform(TYPED)
    parts = [preparer.transform(TYPED[i : i + 1]) for i in range(0, N, 40)]
    for i, part in zip(range(0, N, 40), parts, strict=True):
        assert equal(part, whole.take(slice(i, i + 1)))
    assert len(preparer.transform(TYPED.clear())) == 0


@RECIPES
def test_state_depends_only_on_training_features(recipe: FeatureRecipe, tmp_path: Path) -> None:
    train = np.arange(N) % 4 != 0
    states: list[tuple[bytes, bytes]] = []
    shuffled = TYPED.with_columns(y=TYPED["y"].shuffle(seed=1))
    trained = pl.Series(train)
    odd = TYPED.with_columns(
        x=pl.when(trained).then("x").otherwise(1e9), city=pl.when(trained).then("city").otherwise(pl.lit("?!"))
    )
    for i, frame in enumerate((TYPED, shuffled, odd)):
        folder = tmp_path / str(i)
        folder.mkdir()
        fitted(recipe, frame.filter(train)).save(folder)
        states.append(((folder / "features.json").read_bytes(), (folder / "features.safetensors").read_bytes()))
    assert states[0] == states[1] == states[2]
    folder = tmp_path / "all"
    folder.mkdir()
    fitted(recipe, odd).save(folder)
    assert (folder / "features.json").read_bytes() != states[0][0]


@RECIPES
def test_loaded_state_is_bit_identical(recipe: FeatureRecipe, tmp_path: Path) -> None:
    preparer = fitted(recipe)
    preparer.save(tmp_path)
    loaded = FeaturePreparer.load(tmp_path)
    assert loaded.spec == preparer.spec
    assert loaded.recipe == recipe
    assert equal(loaded.transform(TYPED), preparer.transform(TYPED))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.json", "features.safetensors"]
    json.loads((tmp_path / "features.json").read_text())


def test_texts_of_rare_categories_are_features_too(tmp_path: Path) -> None:
    cabins = [None if i % 9 == 0 else f"{'ABC'[i // 2 % 3]}/{i // 2}/P" for i in range(N)]
    source = SOURCE.select("x", "y").with_columns(
        cabin=texts(cabins), town=texts([f"town {'xyz'[i % 3]}" for i in range(N)])
    )
    schema = infer_schema(source, target="y")
    assert [column.name for column in schema.columns if column.learns_texts] == ["cabin"]
    typed = typed_frame(source, schema)
    for recipe in (RAW, QUANTILE):
        preparer = fitted(recipe, typed, schema)
        spec = preparer.spec
        assert {"cabin number 1", "cabin topic 1"} <= set(spec.numeric)
        assert spec.categorical == ("cabin", "town")
        assert {source for name, source in zip(spec.numeric, spec.sources, strict=False) if "cabin" in name} == {
            "cabin"
        }
        table = preparer.transform(typed)
        number = table.numeric[:, spec.numeric.index("cabin number 1")]
        known = np.array([cabin is not None for cabin in cabins])
        assert np.corrcoef(number[known], np.arange(N)[known])[0, 1] > 0.9
        folder = tmp_path / recipe.numeric
        folder.mkdir()
        preparer.save(folder)
        assert equal(FeaturePreparer.load(folder).transform(typed), table)
    by_user = infer_schema(source, target="y", kinds={"cabin": "categorical"})
    assert not any("number" in name for name in fitted(RAW, typed, by_user).spec.numeric)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_numbers": 99},
        {"n_numbers": -1},
        {"last_number": True, "n_numbers": 0},
        {"decimal": "x"},
        {"thousands": "::"},
    ],
)
def test_numbers_of_texts_in_a_damaged_state_are_rejected(tmp_path: Path, changes: dict[str, object]) -> None:
    fitted(RAW).save(tmp_path)
    file = tmp_path / "features.json"
    state = json.loads(file.read_text())
    step = next(step for step in state["steps"] if step["type"] == "text")
    step.update({"n_numbers": 1, "last_number": False, "decimal": ".", "thousands": None} | changes)
    file.write_text(json.dumps(state))
    with pytest.raises(BundleError, match="cannot be read"):
        FeaturePreparer.load(tmp_path)


@pytest.mark.parametrize("damage", ["absent", "cut", "unknown key", "later version", "arrays"])
def test_damaged_state_is_rejected(tmp_path: Path, damage: str) -> None:
    fitted(QUANTILE).save(tmp_path)
    state, arrays = tmp_path / "features.json", tmp_path / "features.safetensors"
    content = json.loads(state.read_text())
    if damage == "absent":
        state.unlink()
    elif damage == "cut":
        state.write_bytes(state.read_bytes()[:-20])
    elif damage == "arrays":
        arrays.write_bytes(arrays.read_bytes()[:100])
    else:
        content |= {"surprise": 1} if damage == "unknown key" else {"version": 99}
        state.write_text(json.dumps(content))
    with pytest.raises(BundleError):
        FeaturePreparer.load(tmp_path)


@RECIPES
@pytest.mark.parametrize(
    ("columns", "n_numeric", "n_categorical"),
    [(["x"], 1, 0), (["city"], 0, 1), (["fixed"], 0, 0), (["x", "city"], 1, 1), (["empty"], 0, 0)],
)
def test_tables_without_numbers_or_without_categories(
    recipe: FeatureRecipe, columns: list[str], n_numeric: int, n_categorical: int, tmp_path: Path
) -> None:
    source = SOURCE.with_columns(fixed=texts(range(N)), empty=texts(range(0, 2 * N, 2)))
    schema = infer_schema(source, target="y", kinds={"fixed": "numeric", "empty": "numeric"})
    schema = infer_schema(
        source, target="y", kinds={"fixed": "numeric", "empty": "numeric"},
        ignore=[c.name for c in schema.features if c.name not in columns],
    )  # fmt: skip
    typed = typed_frame(source, schema).with_columns(
        pl.lit(1.0).alias("fixed"), pl.lit(None, dtype=pl.Float64).alias("empty")
    )
    preparer = FeaturePreparer.fit(typed, schema, recipe, seed=0)
    preparer.save(tmp_path)
    table = FeaturePreparer.load(tmp_path).transform(typed)
    assert table.numeric.shape == (N, n_numeric)
    assert table.categorical.shape == (N, n_categorical)


def test_result_depends_only_on_the_seed() -> None:
    first, again = fitted(QUANTILE).transform(TYPED), fitted(QUANTILE).transform(TYPED)
    other = FeaturePreparer.fit(TYPED, SCHEMA, QUANTILE, seed=1).transform(TYPED)
    assert equal(first, again)
    assert not equal(first, other)


def test_few_rows_have_the_features_of_many(monkeypatch):
    levels = ("b", "a", "c")
    values = pl.Series("x", ["a", None, "new", "c", "b", ""], dtype=pl.String)
    categorical = columns.CategoricalStep("x", levels, (3, 2, 1), True, ())
    boolean = columns.BooleanStep("x", "a", "b")
    few = categorical.codes(values), categorical.numbers(values), boolean.numbers(values)
    monkeypatch.setattr(columns, "_FEW", 0)
    many = categorical.codes(values), categorical.numbers(values), boolean.numbers(values)
    for found, expected in zip(few, many, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert list(few[0]) == [FIRST_LEVEL + 1, MISSING, UNSEEN, FIRST_LEVEL + 2, FIRST_LEVEL, UNSEEN]


@pytest.mark.parametrize("recipe", [RAW, QUANTILE, ROBUST], ids=lambda r: r.numeric)
def test_tables_that_are_filled_in_chunks_are_equal(recipe: FeatureRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = fitted(recipe)
    monkeypatch.setattr(prepare, "_CHUNK_ROWS", 7)
    in_chunks = fitted(recipe)
    assert in_chunks.state == at_once.state
    part = in_chunks.transform(TYPED)
    monkeypatch.undo()
    assert equal(part, at_once.transform(TYPED))


def test_texts_are_counted_once_for_all_preparations_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    preparers = [fitted(FeatureRecipe(numeric="raw"), TYPED[rows]) for rows in (slice(0, 200), slice(100, 300))]
    alone = [preparer.transform(TYPED) for preparer in preparers]
    counted: dict[str, text.CountedTexts] = {}
    hashed: list[int] = []
    count = text._hash
    monkeypatch.setattr(text, "_hash", lambda texts: (hashed.append(len(texts)), count(texts))[1])
    assert all(equal(each.transform(TYPED, counted), table) for each, table in zip(preparers, alone, strict=True))
    assert hashed == [TYPED["shop"].n_unique(), TYPED["note"].n_unique()]
    assert list(counted) == ["shop", "note"]
