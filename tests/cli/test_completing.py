"""Shell completion: candidates as the completion script requests them, and one test through bash."""

from __future__ import annotations

import gzip
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tabapp.cli.completion import header
from tabapp.cli.main import group, run_command_line
from tests.cli.tables import write_tables
from tests.run.recording import write_run
from tests.waiting import HANG_SECONDS


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with tables, empty files named like bundles, and a run."""
    write_tables(tmp_path)
    (tmp_path / "spaced.csv").write_text('sepal length (cm);größe;"a;b"\n1;2;3\n', encoding="utf-8")
    (tmp_path / "odd.csv").write_text('"b,c","5"" pipe","new\nline", sp \n1,2,3,4\n')
    (tmp_path / "shop.tabapp").touch()
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "old.tabapp").touch()
    write_run(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("TABAPP_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path


def offered(line: str) -> list[str]:
    """Candidates for the last word of a line, which may be empty; path completion is shown as <file> or <dir>."""
    *before, incomplete = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    items = ShellComplete(group, {}, "tabapp", "_TABAPP_COMPLETE").get_completions(before, incomplete)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in items]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sho", ["shop.csv"]),
        ("no-such-", ["<file>"]),
        ("shop.csv --targ", ["--target"]),
        ("--targ", ["--target"]),
        ("shop.csv --target ", ["age", "city", "bought"]),
        ("shop.csv --target b", ["bought"]),
        ("--auto shop.csv --group ", ["age", "city", "bought"]),
        ("shop.csv --task binary --time a", ["age"]),
        ("shop.csv --weight c", ["city"]),
        ("shop.csv --ignore age,", ["age,city", "age,bought"]),
        ("spaced.csv --target ", ["sepal length (cm)", "größe", "a;b"]),
        ("odd.csv --ignore ", ['"b,c"', '"5"" pipe"', "new line", "sp"]),
        ("""odd.csv --ignore '"b,c",'""", ['"b,c","5"" pipe"', '"b,c",new line', '"b,c",sp']),
        ("""odd.csv --ignore '"b'""", ['"b,c"']),
        ("odd.csv --group ", ["b,c", '5" pipe', "new line", "sp"]),
        ("missing.csv --target ", []),
        ("picture.csv --target x", []),
        ("folder.csv --target ", []),
        ("empty.csv --target ", []),
        ("shop.csv --models linear,lightg", ["linear,lightgbm"]),
        ("shop.csv --exclude xgb", ["xgboost", "xgboost:paper"]),
        ("shop.csv --metric roc", ["roc_auc"]),
        ("shop.csv --task regression --metric r", ["rmse", "r2"]),
        ("shop.csv --quality ", ["fast", "balanced", "best"]),
        ("shop.csv --test sho", ["shop.csv"]),
        ("profile shop.csv --target ci", ["city"]),
        ("models --check xgb", ["xgboost", "xgboost:paper"]),
        ("attach ", ["last", "20260102-030405-shop-a1b2"]),
        ("resume 2026", ["20260102-030405-shop-a1b2"]),
        ("export shop-", ["shop-a1b2"]),
        ("attach zzz", ["<dir>"]),
        ("attach --runs-dir nowhere ", ["<dir>"]),
        ("predict ", ["shop.tabapp"]),
        ("predict bundles/", ["bundles/old.tabapp"]),
        ("predict z", ["<file>"]),
        ("predict shop.tabapp sho", ["shop.csv"]),
        ("inspect sh", ["shop.tabapp"]),
        ("prdict shop.tabapp --targ", ["--target"]),
    ],
)
def test_candidates(tables: Path, line: str, expected: list[str]) -> None:
    assert offered(line) == expected


def test_first_word_is_a_table_or_a_command(tables: Path) -> None:
    found = offered(" ")
    assert found.index("shop.csv") < found.index("predict")
    assert "run" not in found


def test_invalid_configuration_does_not_prevent_completion(tables: Path) -> None:
    (tables / "config.toml").write_text("[run\n")
    assert offered("shop.csv --target ci") == ["city"]


def test_header_of_compressed_and_encoded_files(tmp_path: Path) -> None:
    text = "größe,stadt\n1,Köln\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inside.csv", text)
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8-sig"))
    (tmp_path / "a.tsv").write_bytes(text.replace(",", "\t").encode("cp1252"))
    (tmp_path / "wide.txt").write_bytes(("\n" + text.replace(",", "|")).encode("utf-16"))
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    (tmp_path / "a.csv.zst").write_bytes(zstd.compress(text.encode()))
    for file in ("a.csv.gz", "a.zip", "a.csv", "a.tsv", "wide.txt", "a.csv.zst"):
        assert header(tmp_path / file) == ["größe", "stadt"], file
    assert header(tmp_path / "a.csv", delimiter="t") == ["größe,s", "ad"]


def test_header_reads_only_the_first_line(tmp_path: Path) -> None:
    with (tmp_path / "large.csv").open("wb") as file:
        file.write(b"a,b\n")
        file.truncate(1 << 40)
    assert header(tmp_path / "large.csv") == ["a", "b"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_of_each_shell(capsys, shell: str) -> None:
    assert run_command_line(["completion", shell]) == 0
    assert f"_TABAPP_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_names_with_spaces_as_one_word(tables: Path) -> None:
    program = tables / "bin" / "tabapp"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tabapp "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(tabapp completion bash)"
    COMP_WORDS=(tabapp spaced.csv --target 'sepal\\ l')
    COMP_CWORD=3
    _tabapp_completion tabapp
    eval "words=(${COMPREPLY[0]})"
    echo "${#words[@]}:${words[0]}"
    """
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.stdout == "1:sepal length (cm)\n", done.stderr
    assert done.stderr == ""
