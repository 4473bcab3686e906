from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.impute import Imputer, impute, schema_without_target
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands import impute as imputing
from tabapp.data.infer import infer_schema
from tabapp.data.typed import typed_frame
from tabapp.errors import BundleError, DataError, UsageError
from tabapp.features.arrays import FIRST_LEVEL, FeatureRecipe
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FittedModel, Uncertainty
from tests.bundle.making import fit_candidate, make_contents, register_linear, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip

COLUMNS = ("size", "weight", "color", "smokes", "rooms")
FILLED = ("weight", "color", "smokes", "rooms")


def table_with_missing_cells(n_rows=160, seed=0):
    """A text table with missing cells, and a mask of these cells for each column."""
    generator = np.random.default_rng(seed)
    size = generator.normal(10, 2, n_rows)
    cells = {
        "size": [f"{value:.3f}" for value in size],
        "weight": [f"{3 * value + generator.normal():.2f}" for value in size],
        "color": ["red" if value > 10 else "green" for value in size],
        "smokes": [("yes", "no")[i] for i in generator.integers(0, 2, n_rows)],
        "rooms": [str(i) for i in generator.integers(1, 30, n_rows)],
        "joined": [f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in generator.integers(0, 336, n_rows)],
    }
    missing = {}
    for name in (*FILLED, "joined"):
        missing[name] = generator.random(n_rows) < 0.1
        cells[name] = [
            "NA" if is_missing else cell for is_missing, cell in zip(missing[name], cells[name], strict=True)
        ]
    return pl.DataFrame(cells), missing


def call(*arguments):
    result = CliRunner().invoke(imputing.impute, [str(argument) for argument in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def read(path):
    return pl.read_csv(path, infer_schema=False)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    table_with_missing_cells()[0].write_csv(path)
    return path


class ConstantImputer(FittedModel):
    """Imputes fixed values: a scaled number, and the code of a level."""

    def __init__(self, scaled, code):
        self.scaled, self.code = scaled, code

    def predict(self, table):
        raise NotImplementedError

    def save(self, folder):
        raise NotImplementedError

    def impute(self, table):
        numeric = np.where(np.isnan(table.numeric), np.float32(self.scaled), table.numeric)
        return replace(
            table, numeric=numeric, categorical=np.where(table.categorical == 1, self.code, table.categorical)
        )


def test_imputed_values_are_converted_to_units_and_levels():
    frame, missing = table_with_missing_cells()
    schema = schema_without_target(frame, {})
    typed = frame.select(pl.col("weight").cast(pl.Float64, strict=False))["weight"].drop_nulls()

    preparer = FeaturePreparer.fit(
        typed_frame(frame, schema), schema, FeatureRecipe(numeric="standard", missing="keep"), seed=0
    )
    imputers = [Imputer(preparer, ConstantImputer(scaled, FIRST_LEVEL)) for scaled in (0.5, 1.5)]
    done = impute(frame, schema, imputers)
    expected = typed.mean() + 1.0 * typed.std(ddof=0)
    mask = missing["weight"]
    np.testing.assert_allclose(done.frame["weight"].filter(mask).cast(pl.Float64), expected, rtol=1e-4)
    most_frequent = schema.column("color").levels[0]
    assert set(done.frame["color"].filter(missing["color"])) == {most_frequent}
    # Integer columns keep integers.
    assert all(cell.isdigit() for cell in done.frame["rooms"])
    for name in COLUMNS:
        present = ~missing.get(name, np.zeros(frame.height, dtype=bool))
        assert done.frame[name].filter(present).equals(frame[name].filter(present))
    assert done.filled == {name: int(missing[name].sum()) for name in FILLED}
    assert done.left == {"joined": int(missing["joined"].sum())}
    numbers = impute(frame, schema, imputers, as_numbers=True).frame
    assert [numbers[name].dtype for name in ("size", "weight", "color")] == [pl.Float64, pl.Float64, pl.String]
    assert numbers["weight"].null_count() == 0


def test_imputed_numbers_far_from_zero_have_the_digits_of_their_range():
    values = 1e10 + 0.5 + np.arange(200.0)
    cells = [repr(float(value)) for value in values[:-1]] + [None]
    frame = pl.DataFrame({"ticks": pl.Series(cells, dtype=pl.String), "z": [f"{i % 9}.5" for i in range(200)]})
    schema = schema_without_target(frame, {})
    recipe = FeatureRecipe(numeric="standard", missing="keep")
    preparer = FeaturePreparer.fit(typed_frame(frame, schema), schema, recipe, seed=0)
    done = impute(frame, schema, [Imputer(preparer, ConstantImputer(0.5, FIRST_LEVEL))])
    expected = values[:-1].mean() + 0.5 * values[:-1].std()
    assert float(done.frame["ticks"][-1]) == pytest.approx(expected, abs=0.01)


class UncertainImputer(ConstantImputer):
    """Knows that its numbers are off by half a scaled unit and that three of ten levels are wrong."""

    def imputation_uncertainty(self, table):
        return Uncertainty(
            np.where(np.isnan(table.numeric), np.float32(0.5), np.float32(np.nan)),
            np.where(table.categorical == 1, np.float32(0.3), np.float32(np.nan)),
        )


def test_uncertainties_are_in_units_and_only_for_filled_cells():
    frame, missing = table_with_missing_cells()
    frame = frame.with_columns(pl.Series("color_uncertainty", ["x", "y"] * (frame.height // 2)))
    schema = schema_without_target(frame, {})
    typed = frame.select(pl.col("weight").cast(pl.Float64, strict=False))["weight"].drop_nulls()
    preparer = FeaturePreparer.fit(
        typed_frame(frame, schema), schema, FeatureRecipe(numeric="standard", missing="keep"), seed=0
    )
    imputers = [Imputer(preparer, UncertainImputer(0.5, FIRST_LEVEL))]
    done = impute(frame, schema, imputers, with_uncertainty=True).frame
    assert done.columns[: frame.width] == frame.columns
    added = [f"{name}_uncertainty" for name in FILLED]
    added[FILLED.index("color")] += "_"
    assert sorted(done.columns[frame.width :]) == sorted(added)
    for name, column in zip(FILLED, added, strict=True):
        np.testing.assert_array_equal(done[column].is_not_null().to_numpy(), missing[name])
    np.testing.assert_allclose(done["weight_uncertainty"].drop_nulls(), 0.5 * typed.std(ddof=0), rtol=1e-4)
    np.testing.assert_allclose(done["color_uncertainty_"].drop_nulls(), 0.3, rtol=1e-6)
    with pytest.raises(UsageError, match="does not know the uncertainty"):
        impute(frame, schema, [Imputer(preparer, ConstantImputer(0.5, FIRST_LEVEL))], with_uncertainty=True)


def test_trains_on_the_table_and_fills_it(data, tmp_path):
    frame, missing = table_with_missing_cells()
    output = tmp_path / "filled.csv"
    result = call(data, "-o", output, "--budget", "1s", "--seed", "1")
    assert f"{sum(int(missing[name].sum()) for name in FILLED)} cells filled" in result.stderr
    assert "'joined'" in result.stderr
    filled = read(output)
    assert filled.columns == frame.columns
    for name in COLUMNS:
        present = ~missing.get(name, np.zeros(frame.height, dtype=bool))
        assert filled[name].filter(present).equals(frame[name].filter(present))
        assert filled[name].null_count() == 0
        assert "NA" not in filled[name].to_list()
    assert set(filled["color"]) == {"red", "green"}


@pytest.mark.slow
def test_typed_files_get_numbers_and_uncertainties(data, tmp_path):
    _, missing = table_with_missing_cells()
    output = tmp_path / "filled.parquet"
    call(data, "-o", output, "--budget", "1s", "-q", "--uncertainty")
    filled = pl.read_parquet(output)
    assert filled["weight"].dtype == pl.Float64
    for name in FILLED:
        doubt = filled[f"{name}_uncertainty"]
        assert doubt.dtype == pl.Float64
        np.testing.assert_array_equal(doubt.is_not_null().to_numpy(), missing[name])
        assert doubt.drop_nulls().is_between(0, 1 if name in ("color", "smokes") else 100).all()


@pytest.mark.slow
def test_table_without_missing_cells_is_unchanged(tmp_path):
    frame = table_with_missing_cells()[0].filter(pl.all_horizontal(pl.all() != "NA"))
    path = tmp_path / "whole.csv"
    frame.write_csv(path)
    result = call(path, "-o", tmp_path / "out.csv", "--budget", "1s")
    assert "0 cells filled" in result.stderr
    assert read(tmp_path / "out.csv").equals(frame)


@pytest.mark.slow
def test_fills_with_the_model_of_a_bundle(tmp_path, monkeypatch):
    register_linear(monkeypatch)
    frame, plugin = text_table("regression"), registry.get("npt")
    schema = infer_schema(frame, target="outcome")
    params = plugin.params_type(d_embedding=8, n_layers=2, n_heads=2, n_steps=30, n_evaluations=2, learning_rate=1e-2)
    candidate = fit_candidate(tmp_path / "npt", plugin, params, frame, schema, 0.5, tmp_path / "npt_features")
    contents = make_contents(tmp_path, "regression")
    metrics = [MetricValue(name="rmse", score=1.0, low=0.5, high=2.0)]
    contents = replace(contents, candidates=[*contents.candidates, candidate], metrics=metrics)
    bundle, data = tmp_path / "model.tabapp", tmp_path / "new.csv"
    manifest = write_bundle(bundle, contents)
    assert manifest.training_rows_in == ("npt",)
    new = text_table("regression", n_rows=30, seed=3)
    new.write_csv(data)
    result = call(data, "-o", tmp_path / "out.csv", "--model", bundle)
    filled = read(tmp_path / "out.csv")
    mask = new["size"].is_null()
    assert mask.any()
    assert f"{mask.sum()} cells filled" in result.stderr
    assert filled["size"].null_count() == 0
    assert filled.filter(~mask).equals(new.filter(~mask))

    commas = new.with_columns(pl.col("size").str.replace(".", ",", literal=True))
    commas = commas.with_columns(pl.col("age").str.replace(".", ",", literal=True) + "00")
    commas.write_csv(data, separator=";")
    done = call(data, "-o", tmp_path / "commas.csv", "--model", bundle)
    assert "'age' is written with another decimal mark" in done.stderr
    points = read(tmp_path / "commas.csv")["size"].str.replace(",", ".", literal=True)
    assert points.cast(pl.Float64).to_list() == filled["size"].cast(pl.Float64).to_list()
    with pytest.raises(DataError, match="Omit --strict"):
        call(data, "-o", tmp_path / "out.csv", "--model", bundle, "--strict")
    new.write_csv(data)

    def change_sample(_, members):
        header, first, *rows = members["sample_output.csv"].decode().split("\n")
        cells = [str(float(cell) + 1.0) for cell in first.split(",")]
        members["sample_output.csv"] = "\n".join([header, ",".join(cells), *rows]).encode()

    other = write_zip(tmp_path / "other.tabapp", with_manifest(members_of(bundle), change_sample).items())
    with pytest.raises(BundleError, match="predicts its sample differently"):
        call(data, "-o", tmp_path / "refused.csv", "--model", other)
    assert not (tmp_path / "refused.csv").exists()

    without = tmp_path / "without.tabapp"
    write_bundle(without, make_contents(tmp_path / "other", "regression"))
    with pytest.raises(UsageError, match="has no model that imputes, only test_linear"):
        call(data, "-o", tmp_path / "out.csv", "--model", without)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("{data}", "-o", "out.txt"), UsageError, ".csv, .parquet, .arrow or .jsonl"),
        (("{data}", "-o", "nowhere/out.csv"), UsageError, "no folder"),
        (("-", "-o", "{out}"), UsageError, "Use a file"),
        (("missing.csv", "-o", "{out}"), DataError, "no file"),
        (("{small}", "-o", "{out}"), DataError, "at least 50 training rows"),
        (("{data}", "-o", "{out}", "--budget", "soon"), UsageError, "not a duration"),
        (("{data}", "-o", "{out}", "--strict"), UsageError, "--model"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(arguments, error, words, data, tmp_path):
    small = tmp_path / "small.csv"
    table_with_missing_cells(40)[0].write_csv(small)
    named = [argument.format(data=data, out=tmp_path / "out.csv", small=small) for argument in arguments]
    with pytest.raises(error, match=words) as caught:
        call(*named)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.csv").exists()
