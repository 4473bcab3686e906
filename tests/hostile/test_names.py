"""Column names that look like patterns or markup, through a whole run and every command that reads its bundle."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tabapp.cli.main import run_command_line
from tabapp.run.record.folder import list_runs
from tests.waiting import HANG_SECONDS

FEATURES = ("*", "^a$", "price [$]", "mass [kg]", "[/b]", "[red]", "^.*$", "a.b", "#", "-1")
TARGET = "^y$ [/]"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, the bundle of a run on it, and the run."""
    folder = tmp_path_factory.mktemp("names")
    generator = random.Random(0)
    with (folder / "table.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*FEATURES, TARGET])
        for i in range(80):
            numbers = [generator.gauss(i % 2, 1) for _ in FEATURES[:-2]]
            cells = [f"{number:.3f}" if generator.random() > 0.05 else "" for number in numbers]
            rows.writerow([*cells, ("[red]", "[/b]", "*")[i % 3], f"2024-01-{i % 28 + 1:02}", f"[class] {i % 2}"])
    words = [
        "--auto",
        "table.csv",
        "--target",
        TARGET,
        "--models",
        "linear",
        "--trials",
        "1",
        "--folds",
        "2",
        "--plain",
        "-v",
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tabapp", *words, "--runs-dir", "runs", "--out", "made.tabapp"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    (folder / "output.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(made: Path, shared_process: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command in the folder; returns what it printed."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words: str) -> str:
        code = run_command_line(list(words))
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return run


def assert_shown(text: str, names: tuple[str, ...] = (*FEATURES, TARGET)) -> None:
    assert [name for name in names if name not in text] == []


@pytest.mark.slow
def test_a_run_shows_names_as_written(made: Path, run) -> None:
    output = (made / "output.txt").read_text()
    assert TARGET in output
    (folder,) = list_runs(made / "runs")
    state = folder.state()
    assert state.finished is not None
    assert {row.feature for row in state.finished.importances} == set(FEATURES)
    for row in state.finished.importances[:5]:
        assert row.feature in output
    assert_shown(run("attach", folder.run, "--plain", "-v", "--runs-dir", "runs"), (TARGET,))


def test_profile_shows_names_as_written(run) -> None:
    assert_shown(run("profile", "table.csv", "--all", "--target", TARGET))
    facts = json.loads(run("profile", "table.csv", "--json", "--target", TARGET))
    assert [column["name"] for column in facts["columns"]] == [*FEATURES, TARGET]
    warned = run("profile", "table.csv", "--kind", "[red]=categorical,*=text", "--ignore", "^a$", "--target", TARGET)
    assert "Set by --kind" in warned


def test_inspect_shows_names_as_written(run) -> None:
    assert_shown(run("inspect", "made.tabapp"))
    assert_shown(run("inspect", "made.tabapp", "--json"))


def test_predict_and_evaluate_use_names_as_written(made: Path, run) -> None:
    run("predict", "made.tabapp", "table.csv", "-o", "out.csv", "--keep")
    with (made / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[: len(FEATURES) + 1] == [*FEATURES, TARGET]
    assert len(rows) == 80
    assert {row[header.index("prediction")] for row in rows} <= {"[class] 0", "[class] 1"}
    assert json.loads(run("evaluate", "made.tabapp", "table.csv", "--json"))["target"] == TARGET


def test_a_missing_column_is_named_as_written(made: Path, run, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (made / "table.csv").read_text().splitlines()
    (made / "short.csv").write_text("\n".join(line.partition(",")[2] for line in lines) + "\n")
    assert run_command_line(["predict", "made.tabapp", "short.csv"]) == 3
    assert "'*'" in capsys.readouterr().err


@pytest.mark.slow
def test_parquet_and_missing_columns_keep_names_as_written(made: Path, run) -> None:
    run("predict", "made.tabapp", "table.csv", "-o", "out.parquet", "--keep")
    run("predict", "made.tabapp", "out.parquet", "-o", "again.csv")
    (made / "one.csv").write_text("mass [kg]\n1.5\n")
    run("predict", "made.tabapp", "one.csv", "--missing-columns", "fill", "-o", "filled.csv")
    assert TARGET in run("evaluate", "made.tabapp", "table.csv")


@pytest.mark.slow
def test_impute_keeps_names_as_written(made: Path, run) -> None:
    run("impute", "table.csv", "-o", "imputed.csv", "--budget", "2s")
    with (made / "imputed.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[: len(FEATURES) + 1] == [*FEATURES, TARGET]
    assert all(all(row[: len(FEATURES)]) for row in rows)
