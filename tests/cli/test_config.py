"""The configuration file as commands read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tabapp.cli.commands.run import run
from tabapp.cli.main import run_command_line
from tabapp.run.options.config import RunConfig, with_exact_names
from tabapp.run.record.folder import list_runs
from tests.tables import write_wine


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("TABAPP_CONFIG", str(path))
    return path


def test_path_show_and_validate(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["config", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(file)
    assert run_command_line(["config"]) == 0
    shown = capsys.readouterr()
    assert "does not exist. An example:" in shown.err
    # The example is valid, with and without its comment signs.
    for text in (shown.out, "\n".join(line.removeprefix("# ") for line in shown.out.splitlines())):
        file.write_text(text)
        assert run_command_line(["config", "validate"]) == 0
        assert "is valid" in capsys.readouterr().err
    assert run_command_line(["config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == {"budget": "2m"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("theme = 'textual-ligth'", "There is no theme 'textual-ligth'; did you mean 'textual-light'?"),
        ("[keys]\n'run.puse' = 'f5'", "there is no action 'run.puse'; did you mean 'run.pause'?"),
        ("[keys]\n'data.start' = 't'", "'t' would be the key of both 'data.start' and 'data.target'."),
        ("[run]\nbudgt = '2m'", "line 2 sets run.budgt, which is no option; did you mean 'budget'?"),
    ],
)
def test_validate_reports_what_is_wrong(
    file: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert run_command_line(["config", "validate"]) == 2
    assert capsys.readouterr().err.strip().endswith(sentence)


@pytest.mark.parametrize("kinds", ["'zip=categorical,a=b=numeric'", "['zip=categorical', 'a=b=numeric']"])
def test_settings_by_column_are_text_a_list_or_a_table(file: Path, kinds: str) -> None:
    file.write_text(
        f"[run]\nkind = {kinds}\nmonotonic = {{age = '+', 'a,b' = '-'}}\nignore = ['c,d']\ntarget = ['e', 'f,g']\n"
    )
    given = run.make_context("run", ["shop.csv"]).params
    fields = {name: given[name] for name in ("kinds", "monotonic", "ignore", "target")}
    exact = with_exact_names(RunConfig(data="shop.csv", **fields), ["zip", "a=b", "age", "a,b", "c,d", "e", "f,g"])
    assert exact.kinds == {"zip": "categorical", "a=b": "numeric"}
    assert exact.monotonic == {"age": "+", "a,b": "-"}
    assert exact.ignore == ("c,d",)
    assert exact.target == ("e", "f,g")


@pytest.mark.slow
def test_run_takes_its_defaults_from_the_file(file: Path, tmp_path: Path) -> None:
    file.write_text("[run]\nmodels = ['linear']\ntrials = 1\nfolds = 4\nseed = 7\n")
    data = write_wine(tmp_path / "wine.csv")
    words = ["--auto", str(data), "--folds", "3", "--runs-dir", str(tmp_path / "runs"), "--json"]
    done = subprocess.run([sys.executable, "-m", "tabapp", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = list_runs(tmp_path / "runs")[0].config()
    assert (config.models, config.trials, config.folds, config.seed) == (("linear",), 1, 3, 7)


def test_invalid_file_stops_a_run_before_it_is_created(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[run]\nfolds = 'many'\n")
    data = write_wine(tmp_path / "wine.csv")
    assert run_command_line(["--auto", str(data), "--runs-dir", str(tmp_path / "runs")]) == 2
    assert "'many'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    file.write_text("thme = 'x'")
    assert run_command_line(["--help"]) == 0
