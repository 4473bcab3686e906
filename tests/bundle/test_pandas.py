"""Bundles and their exports predict the tables of pandas like the file that they come from, whatever types the columns have."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tabapp.api.frames import to_polars
from tabapp.bundle.export.mlflow_folder import write_mlflow
from tabapp.bundle.export.onnx_export import write_onnx
from tabapp.bundle.export.sql import write_sql
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.data.stored import as_text
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents
from tests.bundle.pandas_tables import pandas_tables, text_rows
from tests.bundle.portable import PARAMS, make_bundle

pd = pytest.importorskip("pandas")

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "bundles.md"
TRAINING, NEW = text_rows(300), text_rows(40, seed=1, gap=True).drop("outcome")
TABLES = pandas_tables(NEW)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    """Models of all columns."""
    folder = tmp_path_factory.mktemp("pandas")
    contents = make_contents(folder / "made", "binary", frame=TRAINING)
    candidates = []
    for name in ("lightgbm", "linear", "catboost"):
        plugin = registry.get(name)
        params = plugin.params_type(**PARAMS[name])
        candidates.append(fit_candidate(folder / name, plugin, params, TRAINING, contents.schema, 1.0, folder / "made"))
    write_bundle(folder / "model.tabapp", replace(contents, candidates=candidates))
    return folder / "model.tabapp"


def probabilities(bundle: Path) -> np.ndarray:
    """Those of the file."""
    return load_bundle(bundle).predictor.predict_frame(NEW).values


def test_the_kinds_of_the_columns_are_those_that_the_tables_are_made_for(bundle):
    kinds = {column.name: column.kind for column in load_bundle(bundle).contents.schema.columns}
    assert kinds == {
        "member": "boolean", "branch_code": "categorical", "visits": "numeric", "amount": "numeric", "since": "datetime",
        "side": "categorical", "outcome": "categorical",
    }  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_python_predicts_every_table_alike(name, bundle):
    loaded = load_bundle(bundle)
    frame = as_text(to_polars(TABLES[name]), "data", loaded.contents.schema.columns)
    np.testing.assert_array_equal(loaded.predictor.predict_frame(frame).values, probabilities(bundle))


def test_the_signature_for_mlflow_accepts_every_type(bundle, tmp_path):
    write_mlflow(open_bundle(bundle), tmp_path / "mlflow")
    inputs = re.search(r"inputs: '(.*)'", (tmp_path / "mlflow" / "MLmodel").read_text())
    assert inputs is not None
    assert [(each["name"], each["type"], each["required"]) for each in json.loads(inputs[1])] == [
        (name, "any", False) for name in NEW.columns
    ]


@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # of MLflow's own modules
def test_mlflow_predicts_every_table_alike(bundle, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    write_mlflow(open_bundle(bundle), tmp_path / "mlflow")
    model = mlflow.pyfunc.load_model(str(tmp_path / "mlflow"))
    expected = probabilities(bundle)
    for name, table in TABLES.items():
        found = model.predict(table)
        assert list(found.columns) == ["prediction", "probability_stay", "probability_go"]
        columns = list(found.columns[1:])
        np.testing.assert_array_equal(found[columns].to_numpy(), expected, err_msg=name)
        assert found["prediction"].tolist() == ["go" if row[1] > row[0] else "stay" for row in expected]


def test_onnx_predicts_every_table_with_the_inputs_of_the_guide(bundle, tmp_path):
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    (code,) = re.findall(r"```python\n(def inputs_of.*?)```", GUIDE.read_text(), re.DOTALL)
    scope: dict[str, object] = {"np": np, "pd": pd}
    exec(code, scope)
    write_onnx(bundle, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    expected = probabilities(bundle)
    for name, table in TABLES.items():
        found = session.run(None, scope["inputs_of"](session, table))[1]
        np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=name)


def queried(bundle: Path, query, tables) -> None:
    """Compare the probabilities that a query gives for each table of pandas with those of the file."""
    write_sql(bundle, bundle.with_suffix(".sql"))
    expected = probabilities(bundle)
    for name, table in tables.items():
        found = np.array([row[1:] for row in query(table, bundle.with_suffix(".sql").read_text())], dtype=float)
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


def test_sqlite_predicts_every_table_that_pandas_writes(tmp_path):
    def query(table, text: str):
        with sqlite3.connect(":memory:") as database:
            database.create_function("exp", 1, np.exp)
            database.create_function("power", 2, pow)
            table.to_sql("data", database)
            return database.execute(text).fetchall()

    queried(make_bundle(tmp_path, "binary", ["lightgbm", "linear"], frame=TRAINING), query, TABLES)


def test_duckdb_predicts_every_table_of_pandas(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

    # DuckDB refuses to compare texts with numbers, in either direction.
    numbers = {name: table for name, table in TABLES.items() if name not in ("texts", "objects", "truth as numbers")}

    def query(table, text: str):
        with duckdb.connect() as database:
            database.register("data", table.reset_index(drop=True))
            return database.execute(text).fetchall()

    queried(make_bundle(tmp_path, "binary", ["lightgbm", "linear"], frame=TRAINING), query, numbers)
