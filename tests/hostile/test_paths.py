"""Paths that look like patterns, URLs, options or shell syntax, or are no text, through a run and the commands that read it."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tabapp.cli.main import run_command_line
from tabapp.data.reading.pages import saved_rows
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import is_large, read_parts
from tabapp.engine.loop.recovery import read_arrow
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run, list_runs
from tabapp.run.record.resuming import save_resumed
from tests.cli.tables import HEADER, rows, write
from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).parent.parent.parent
FOLDER = "Projects [2024] {a,b} *?'\"#%41 ~ é\n$(id)"
NO_TEXT = os.fsdecode(b"r\xffuns")
NAMES = ("a[b]", "[2024]", "st*r", "q?", "~", "~root", "-dash", "%41#", "new\nline", "$(id)", "http:", NO_TEXT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, a run and its bundle."""
    folder = tmp_path_factory.mktemp("paths") / FOLDER
    folder.mkdir()
    write(folder / "shop.csv", HEADER, rows())
    write(folder / "-new [1].csv", HEADER, rows(12))
    write(folder / "test?.csv", HEADER, rows(24))
    words = ["--auto", "shop.csv", "--models", "linear", "--trials", "1", "--folds", "2", "--plain"]
    words += ["--test", "test?.csv", "--runs-dir=-runs [1]", "--out", "made [1].tabapp"]
    command = [sys.executable, "-P", "-m", "tabapp", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    (folder / "output.txt").write_text(done.stdout)
    return folder


@pytest.fixture
def run(made: Path, shared_process: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command in the folder; returns what it printed."""
    monkeypatch.chdir(made)

    def run(*words: str) -> str:
        code = run_command_line(list(words))
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return run


def test_a_run_writes_only_into_its_folder(made):
    (folder,) = list_runs(made / "-runs [1]")
    assert folder.study.is_file()
    assert [path.name for path in made.parent.iterdir()] == [FOLDER]
    (line,) = [line for line in (made / "output.txt").read_text().splitlines() if line.startswith("Use it")]
    assert shlex.split(line.replace("⏎", "\n"))[4] == str(made / "made [1].tabapp")


@pytest.mark.parametrize("name", ["p[1].csv", "-p.parquet", "p?.arrow", "p*.jsonl"])
def test_predictions_are_written_where_they_should_be(run, made, name):
    run("predict", "made [1].tabapp", "./-new [1].csv", "-o", name)
    assert (made / name).stat().st_size


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "made [1].tabapp", "./-new [1].csv"],
        ["explain", "made [1].tabapp", "./-new [1].csv", "-o", "e[1].parquet"],
        ["monitor", "made [1].tabapp", "./-new [1].csv", "-o", "m[1].html"],
        ["inspect", "made [1].tabapp"],
        ["profile", "test?.csv"],
        ["runs", "--runs-dir=-runs [1]"],
        ["attach", "last", "--plain", "--runs-dir=-runs [1]"],
        ["report", "last", "--runs-dir=-runs [1]", "-o", "r[1].html"],
        ["export", "last", "--runs-dir=-runs [1]", "-o", "e[1].tabapp", "--python", "s[1].py"],
    ],
    ids=lambda words: words[0],
)
def test_commands_read_and_write(run, made, words):
    run(*words)
    for option in ("-o", "--python"):
        if option in words:
            assert (made / words[words.index(option) + 1]).stat().st_size


@pytest.mark.slow
def test_a_run_is_resumed(run, made):
    run("resume", "last", "--trials", "2", "--plain", "--runs-dir=-runs [1]")
    (folder,) = list_runs(made / "-runs [1]")
    assert len(folder.state().trials) == 2
    assert [path.name for path in made.parent.iterdir()] == [FOLDER]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_every_reader_takes_every_name(tmp_path, monkeypatch, name, suffix):
    """Relative paths, too: Polars expands `~`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tabapp.data.reading.stream.LARGE_ROWS", 1)
    monkeypatch.setattr("tabapp.data.reading.stream.LARGE_TEXT", 1)
    path = Path(name) / f"t{name}{suffix}"
    path.parent.mkdir()
    frame = pl.DataFrame({"a": ["1", "2"], "b": ["x", "y"]})
    with path.open("wb") as file:
        {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".arrow": frame.write_ipc}[suffix](file)
    assert read_table(path, ReadOptions()).frame.equals(frame)
    assert is_large(path, ReadOptions())
    assert pl.concat([part.frame for part in read_parts(path, ReadOptions())]).equals(frame)
    if suffix == ".arrow":
        assert read_arrow(path).equals(frame)
        saved = saved_rows(path)
        assert saved is not None
        assert saved.equals(frame)


@pytest.mark.parametrize("field", ["data", "test", "out", "target"])
def test_a_run_refuses_what_it_cannot_record(tmp_path, field):
    config = RunConfig(**{"data": "t.csv", field: NO_TEXT})
    with pytest.raises(UsageError, match="r�uns contains bytes that are not UTF-8"):
        create_run(config, tmp_path)
    with pytest.raises(UsageError, match="not UTF-8"):
        create_run(RunConfig(data="t.csv"), tmp_path / NO_TEXT)
    with pytest.raises(UsageError, match="not UTF-8"):
        save_resumed(RunFolder(tmp_path), config)
    assert list(tmp_path.iterdir()) == []


def test_polars_never_receives_a_path():
    """`tabapp.data.columnar.table_files` alone opens files for Polars, which takes brackets in a path for a pattern."""
    found: list[str] = []
    for source in sorted([*ROOT.glob("tabapp/**/*.py"), *ROOT.glob("plugins/**/*.py")]):
        if source.name == "table_files.py":
            continue
        calls = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
        readers = [call for call in calls if _is_reader(call.func)]
        wrong = [call for call in readers if not (call.args and _is_in_memory(call.args[0]))]
        found += [f"{source.relative_to(ROOT)}:{call.lineno}" for call in wrong]
    assert found == []


def _is_reader(function: ast.expr) -> bool:
    return ast.unparse(function).startswith(("pl.read_", "pl.scan_", "polars.read_", "polars.scan_"))


def _is_in_memory(argument: ast.expr) -> bool:
    """Whether an argument is `BytesIO(...)`, or `data`, which is bytes everywhere."""
    is_bytes_io = isinstance(argument, ast.Call) and ast.unparse(argument.func).endswith("BytesIO")
    return is_bytes_io or (isinstance(argument, ast.Name) and argument.id == "data")
