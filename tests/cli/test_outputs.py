"""An output that is an input, under whatever name: refused before any work, and the file stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tabapp
from tabapp.api.runs import Run
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.cli.tables import HEADER, rows, write

COMMANDS = [
    ("predict b.tabapp in.csv -o OUT", "in.csv"),
    ("predict b.tabapp in.csv --keep --json -o OUT", "in.csv"),
    ("predict b.tabapp in.csv --trust key.csv -o OUT", "key.csv"),
    ("explain b.tabapp in.csv -o OUT", "in.csv"),
    ("explain b.tabapp in.csv --training old.csv -o OUT", "old.csv"),
    ("impute in.csv -o OUT", "in.csv"),
    ("impute in.csv --model m.csv -o OUT", "m.csv"),
    ("monitor b.tabapp old.csv in.json -o OUT", "in.json"),
    ("update b.tabapp in.csv -o OUT", "in.csv"),
    ("update b.tabapp in.csv --data old.csv -o OUT", "old.csv"),
    ("update b.tabapp in.csv -o OUT", "b.tabapp"),
    ("in.csv --auto --out OUT", "in.csv"),
    ("in.csv --auto --test old.csv --out OUT", "old.csv"),
    ("in.csv --auto --unlabelled old.csv --out OUT", "old.csv"),
    ("in.csv --auto --out OUT", "config.toml"),
    ("export b.tabapp -o OUT", "b.tabapp"),
    ("export b.tabapp --python OUT", "b.tabapp"),
    ("export b.tabapp --sign key.csv -o OUT", "key.csv"),
    ("export RUN -o OUT", "in.csv"),
    ("export RUN --refit -o OUT", "in.csv"),
    ("export RUN --python OUT", "old.csv"),
    ("export RUN --sql OUT", "in.csv"),
    ("export RUN --onnx OUT", "in.csv"),
    ("export RUN -o OUT", "RUN/model.tabapp"),
    ("report RUN --format html -o OUT", "in.csv"),
    ("report RUN -o OUT", "RUN/run.json"),
    ("resume RUN --out OUT", "in.csv"),
    ("resume RUN --out OUT", "RUN/study.db"),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that has not started, in a folder of inputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_CONFIG", str(tmp_path / "config.toml"))
    for name in ("in.csv", "old.csv", "key.csv", "m.csv", "in.json"):
        write(tmp_path / name, HEADER, rows())
    for name in ("b.tabapp", "config.toml"):
        (tmp_path / name).write_text("# a text\n")
    folder = create_run(RunConfig(data=str(tmp_path / "in.csv"), test=str(tmp_path / "old.csv")), tmp_path / "runs")
    folder.bundle.write_text("a bundle")
    folder.study.write_text("a study")
    return folder


def linked(path: Path, name: str) -> str:
    """Another name of a file."""
    other = path.parent / f"other{path.suffix}"
    match name:
        case "same":
            return str(path)
        case "dotted":
            return f"{path.parent}/../{path.parent.name}/./{path.name}"
        case "link":
            other.symlink_to(path.name)
        case _:
            os.link(path, other)
    return str(other)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command_line(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.parametrize(("command", "file"), COMMANDS, ids=lambda each: each)
def test_an_output_is_no_input(run, capsys, command, file):
    path = Path(file.replace("RUN", str(run.path))).absolute()
    before = path.read_bytes()
    words = command.replace("RUN", str(run.path)).replace("OUT", str(path)).split()
    assert "is the same file as the input" in refused(words, capsys)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["same", "dotted", "link", "hard link"])
@pytest.mark.parametrize("command", ["predict b.tabapp in.csv -o", "in.csv --auto --out", "export RUN --sql"])
def test_every_name_of_an_input_is_refused(run, capsys, command, name):
    output = linked(Path("in.csv").absolute(), name)
    assert "is the same file as the input" in refused([*command.replace("RUN", str(run.path)).split(), output], capsys)


@pytest.mark.parametrize("output", ["RUN/data/table.html", "RUN/fits/linear-0000-f0/new.html"])
def test_the_folders_of_a_run_are_its_own(run, capsys, output):
    path = output.replace("RUN", str(run.path))
    assert "is among the files of the run" in refused(["report", str(run.path), "-o", path], capsys)


def test_two_outputs_are_two_files(run, capsys):
    words = ["export", "b.tabapp", "--sql", "out.txt", "--python", "./out.txt"]
    assert "Two outputs are the same file out.txt" in refused(words, capsys)
    assert not Path("out.txt").exists()


def test_python_refuses_an_input_as_output(run):
    before = Path("in.csv").read_bytes()
    for work in (
        lambda: tabapp.fit("in.csv", target="bought", out="in.csv", runs_dir="runs"),
        lambda: tabapp.fit("in.csv", target="bought", test="old.csv", out="old.csv", runs_dir="runs"),
        lambda: Run(run).export("in.csv"),
        lambda: Run(run).export("key.csv", sign="key.csv"),
        lambda: Run(run).report(run.path / "run.json"),
    ):
        with pytest.raises(UsageError, match="is the same file as the input"):
            work()
    assert Path("in.csv").read_bytes() == before
    assert len(list(Path("runs").iterdir())) == 1


def test_a_terminal_may_be_input_and_output(run, capsys):
    """Nothing of a pipe or a device is replaced; the bundle is what is wrong here."""
    assert run_command_line(["predict", "b.tabapp", "/dev/stdin", "-o", os.devnull]) == 2
    assert "same file" not in capsys.readouterr().err
