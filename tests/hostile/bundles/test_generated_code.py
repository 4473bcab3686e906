"""Names and labels of a bundle are data in generated code, whatever they contain, and never code."""

from __future__ import annotations

import ast
import csv
import io
import json
import runpy
import sys
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.export.code_text import comment
from tabapp.bundle.export.container import _dockerfile
from tabapp.bundle.export.mlflow_folder import write_mlflow
from tabapp.bundle.export.script import _script, write_script
from tabapp.bundle.export.script_models import MODELS
from tabapp.bundle.files.contents import Contents, open_bundle
from tabapp.bundle.files.records import Candidate
from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.main import run_command_line
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import read_table
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.features.state import PreparerState
from tabapp.models import registry
from tabapp.models.contract import MONOTONIC
from tests.bundle.making import text_table
from tests.bundle.portable import make_bundle
from tests.bundle.test_load import members_of, with_manifest, write_zip

pytest.importorskip("pandas")

HOSTILE = (
    '""";open("owned","w").write("x");"""',
    "'''\nimport os\n'''",
    "x = __import__('os').getpid() + 1",
    "\\",
    'ends with a quote"',
    "ends with a backslash \\",
    "\\N{nothing} \\u12 \\x1 \\777",
    "{target!r} {} {0} %s",
    "nul \0 and escape \x1b[2J",
    "# -*- coding: utf-7 -*- +AAo-import os",
    "line\nfeed\rreturn\x0cform\x0b\x85\u2028\u2029",
    "*/ -- ; DROP TABLE data; /* #",
    "bidi \u202e gpj",
    "RUN rm -rf / \\",
)


def renamed(table: pl.DataFrame, task: str, text: str) -> pl.DataFrame:
    """A table with a text around the names of all columns, all levels and all labels."""
    texts = ["color", *(["outcome"] if task != "regression" else [])]
    changed = [pl.concat_str(pl.lit(text), pl.col(name), pl.lit(text)).alias(name) for name in texts]
    return table.with_columns(changed).rename(lambda name: f"{text}{name}{text}")


@pytest.fixture(scope="module")
def contents(tmp_path_factory) -> Contents:
    folder = tmp_path_factory.mktemp("code")
    return open_bundle(make_bundle(folder, "binary", ["linear"]))


def hostile(contents: Contents, task: str, text: str) -> Contents:
    """The records of a bundle with a text in all names."""
    table = renamed(text_table(task, 60), task, text)
    schema = infer_schema(table, target=table.columns[-1])
    changes = {"run": f"run {text}", "target": schema.target, "metric": f"metric {text}", "classes": schema.classes}
    board = tuple({"model": name, "score": 0.5} for name in MODELS)
    manifest = msgspec.structs.replace(contents.manifest, task=schema.task, leaderboard=board, **changes)
    return replace(contents, manifest=manifest, schema=schema)


def state_of(schema: Schema, table: pl.DataFrame) -> PreparerState:
    """Features with arithmetic of two columns."""
    typed = typed_frame(table, schema)
    plugin = registry.get("lightgbm")
    recipe = recipe_for(plugin.features_for(plugin.params_type(derived_features=True)), schema)
    return FeaturePreparer.fit_transform(typed, schema, recipe, 0, encode_target(typed, schema))[0].state


def scripts(contents: Contents, task: str, text: str) -> dict[str, str]:
    """The script of every model for a bundle with a text in all names, by model."""
    changed = hostile(contents, task, text)
    state = state_of(changed.schema, renamed(text_table(task, 60), task, text))
    made: dict[str, str] = {}
    for name in MODELS:
        kind = registry.find(name).plugin.params_type
        params = msgspec.to_builtins(kind())
        if MONOTONIC in kind.__struct_fields__:
            params[MONOTONIC] = {changed.schema.features[0].name: 1}
        made[name] = _script(
            changed.manifest, changed.schema, Candidate(name, 0, 1.0, params, ()), state, 10, None, 0.0
        )
    return made


def skeleton(script: str) -> str:
    """The code of a script without its constants; the bytes are parsed, because a comment may declare an encoding."""
    tree = ast.parse(script.encode())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = type(node.value).__name__
    return ast.dump(tree)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_the_code_of_a_script_does_not_depend_on_names(task, contents):
    # The features of LightGBM and XGBoost are numbered if their names contain a sign such as a colon.
    plain = [scripts(contents, task, text) for text in ("", "a:b")]
    expected = {name: {skeleton(each[name]) for each in plain} for name in MODELS}
    for text in HOSTILE:
        for name, script in scripts(contents, task, text).items():
            assert skeleton(script) in expected[name], (name, text)
            assert repr(text)[1:-1] in script, "names are data"


def test_a_comment_is_one_plain_line():
    for text in HOSTILE:
        assert set(comment(text)) <= set(text) | {"_"}
        assert len(f"# {comment(text)}".splitlines()) == 1
        assert not set(comment(text)) & set("\"'\\#*/;:={}%\0\x1b\u202e")
    assert comment("Größe in m_2 - 1.5") == "Größe in m_2 - 1.5"


NAMES = {
    "size": HOSTILE[0],
    "age": HOSTILE[2],
    "color": 'b,c "\\N{x}"',
    "joined": "[when]: ",
    "outcome": 'y = "+boom()+"',
}


@pytest.mark.parametrize(("model", "task"), [("linear", "binary"), ("lightgbm", "binary"), ("linear", "regression")])
def test_a_script_with_odd_names_predicts_like_the_bundle(model, task, tmp_path, monkeypatch):
    for file, table in (("training", text_table(task)), ("new", text_table(task, 60, seed=5))):
        if task == "binary":
            table = table.with_columns(pl.col("outcome").replace({"no": '6"', "yes": "5\\"}))
        table.rename(NAMES).write_csv(tmp_path / f"{file}.csv")
    training, new = (read_table(tmp_path / f"{file}.csv").frame for file in ("training", "new"))
    bundle = make_bundle(tmp_path, task, [model], frame=training)
    write_script(bundle, tmp_path / "model.py")
    monkeypatch.setattr(
        sys, "argv", ["model.py", *(str(tmp_path / f"{file}.csv") for file in ("training", "new", "out"))]
    )
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "model.py"), run_name="__main__")
    assert not (tmp_path / "owned").exists()
    predictor = load_bundle(bundle).predictor
    expected = predictor.to_frame(predictor.predict_frame(new))
    names, *rows = csv.reader(io.StringIO((tmp_path / "out.csv").read_bytes().decode(), newline=""))
    assert names == [name for name in expected.columns if name not in ("low", "high")]
    column = len(names) - 1
    found = np.array([float(row[column]) for row in rows])
    assert np.corrcoef(found, expected[names[column]].to_numpy())[0, 1] > 0.7


@pytest.mark.parametrize("params", [{"penalty": "1e-4"}, {"penalty": None}, {"strength": 1.0}])
def test_hyperparameters_of_a_wrong_type_are_one_sentence(params, contents, tmp_path, capsys):
    def change(manifest, members):
        ensemble = json.loads(members["ensemble.json"])
        ensemble["candidates"][0]["params"] = params
        members["ensemble.json"] = json.dumps(ensemble).encode()

    path = write_zip(tmp_path / "a.tabapp", with_manifest(members_of(contents.path), change).items())
    code = run_command_line(["export", str(path), "--python", str(tmp_path / "model.py")])
    (line,) = capsys.readouterr().err.splitlines()
    assert "strength" in params or (code == 5 and "another version of the model 'linear'" in line)
    assert "bug" not in line


@pytest.mark.parametrize("text", HOSTILE)
def test_a_dockerfile_has_the_same_instructions_for_every_name(text, contents):
    plain, odd = (_dockerfile(hostile(contents, "binary", each), ["lightgbm"]).splitlines() for each in ("", text))
    assert odd[1:] == plain[1:]
    assert odd[0].startswith("# Serves the bundle ")


def test_mlflow_reads_every_name(contents, tmp_path):
    yaml = pytest.importorskip("yaml")
    for number, text in enumerate((*HOSTILE, "del \x7f and \x9b", '5"', "it's: {a}")):
        changed = hostile(contents, "binary", text)
        write_mlflow(changed, tmp_path / str(number))
        signature = yaml.safe_load((tmp_path / str(number) / "MLmodel").read_text())["signature"]
        names = [each["name"] for each in json.loads(signature["inputs"])]
        assert names == [column.name for column in changed.schema.features]
        names = [each["name"] for each in json.loads(signature["outputs"])]
        assert names == ["prediction", *(f"probability_{label}" for label in changed.schema.classes)]
