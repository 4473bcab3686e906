"""Bundles and run folders of every format version are read, and predict the same numbers."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.files.records import FORMAT_VERSION
from tabapp.bundle.prediction.load import TOLERANCE, load_bundle
from tabapp.cli.main import run_command_line
from tabapp.run.record.folder import RunFolder
from tests.formats.make import BUNDLES, HERE, ROWS, RUN
from tests.formats.reader import Bundle
from tests.formats.reader_5 import OldBundle

VERSIONS = sorted((path.name for path in HERE.iterdir() if path.name.isdigit()), key=int)


def test_this_version_of_the_format_has_files():
    assert VERSIONS[-1] == str(FORMAT_VERSION), "run `python -m tests.formats.make`"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name", [name if name != "networks" else pytest.param(name, marks=pytest.mark.slow) for name in BUNDLES]
)
def test_bundles_predict_the_same_numbers(name, version):
    folder = HERE / version
    loaded = load_bundle(folder / f"{name}.tabapp")
    assert loaded.contents.manifest.format_version == int(version)
    rows = pl.read_csv(folder / ROWS, infer_schema=False)
    found = loaded.predictor.to_frame(loaded.predictor.predict_frame(rows))
    expected = pl.read_csv(folder / f"{name}.csv")
    assert found.columns == expected.columns
    for column in found.columns:
        if found[column].dtype == pl.String:
            assert found[column].to_list() == expected[column].to_list()
        else:
            values = expected[column].to_numpy()
            scale = np.ptp(values) if BUNDLES[name][0] == "regression" else 1.0
            np.testing.assert_allclose(found[column].to_numpy(), values, atol=TOLERANCE * scale)


@pytest.mark.parametrize("version", VERSIONS)
def test_another_program_reads_a_bundle_by_its_documentation(version):
    kind = Bundle if int(version) > 5 else OldBundle
    bundle = kind(HERE / version / "arrays.tabapp")
    rows, outputs = bundle.sample()
    assert len(rows) == 7
    for row, output in zip(rows, outputs, strict=True):
        expected = [float(output[f"probability_{label}"]) for label in bundle.manifest["classes"]]
        assert bundle.predict(row) == pytest.approx(expected, abs=1e-6)


def test_the_reader_has_at_most_a_hundred_lines_of_code():
    """Statements, without the docstrings and imports."""
    tree = ast.parse((HERE / "reader.py").read_text())
    imports = (ast.Import, ast.ImportFrom)
    code = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not isinstance(node, imports) and not is_docstring(node)
        for line in range(node.lineno, node.lineno + 1 if hasattr(node, "body") else node.end_lineno + 1)
    }
    assert 50 < len(code) <= 100


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@pytest.fixture(params=VERSIONS)
def run(request, tmp_path: Path) -> RunFolder:
    with zipfile.ZipFile(HERE / request.param / RUN) as archive:
        archive.extractall(tmp_path)
    return RunFolder(tmp_path / "run")


def test_a_run_folder_is_read(run, capfd):
    state = run.state()
    assert state.finished is not None
    assert state.finished.status == "ok"
    assert [row.model for row in state.leaderboard] == ["ensemble", "linear"]
    assert run_command_line(["export", str(run.path), "-o", str(run.path / "copy.tabapp")]) == 0
    assert (run.path / "copy.tabapp").read_bytes() == run.bundle.read_bytes()


@pytest.mark.slow
def test_a_run_folder_is_resumed_and_refitted(run, capfd):
    score = run.state().finished.best.score
    assert run_command_line(["resume", str(run.path), "--trials", "3", "-q"]) == 0
    finished = run.state().finished
    assert finished.status == "ok"
    assert finished.best.score <= score * 1.01
    assert run_command_line(["export", str(run.path), "--refit", "-o", str(run.path / "copy.tabapp")]) == 0
