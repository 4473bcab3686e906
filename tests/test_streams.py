"""Standard streams of every encoding, closed ones, and those that cannot be written."""

from __future__ import annotations

import ast
import codecs
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tabapp import charts
from tabapp.headless import narration
from tabapp.streams import PLAIN
from tests.cli.tables import write_tables
from tests.waiting import HANG_SECONDS

PACKAGE = Path(narration.__file__).parent.parent
NAME = "größe"
ENCODINGS = ("ascii", "latin-1", "cp437", "utf-8")


@pytest.fixture
def narrated(monkeypatch) -> Callable[..., bytes]:
    """What a function prints on a stdout with an encoding."""

    def narrated(encoding: str, function: Callable[..., None], *arguments: object) -> bytes:
        content = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding, errors="strict"))
        function(*arguments)
        return content.getvalue()

    return narrated


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_is_lossless_on_every_stream(narrated, encoding):
    value = {NAME: "größer → 🙂 \u2028"}
    printed = narrated(encoding, narration.echo_json, json.dumps(value, ensure_ascii=False))
    assert json.loads(printed.decode(encoding)) == value


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_piped_data_is_unchanged_on_every_stream(narrated, encoding):
    assert narrated(encoding, narration.echo_data, NAME.encode()) == NAME.encode()


def test_a_line_has_what_the_encoding_has(narrated):
    line = f"{NAME} · 0.1 … 0.2 → ✓ {charts.bar(0.5, 4)}|"
    assert narrated("utf-8", narration.echo, line).decode() == f"{line}\n"
    assert narrated("latin-1", narration.echo, line).decode("latin-1") == f"{NAME} · 0.1 ... 0.2 -> + ##  |\n"
    assert narrated("ascii", narration.echo, line) == b"gr\\xf6\\xdfe - 0.1 ... 0.2 -> + ##  |\n"


def test_every_sign_of_the_views_has_an_ascii_form():
    """An escape such as \\u25cf in the place of a sign could not be read."""
    used: set[str] = set()
    for room in ("headless", "cli", "run", "tui/widgets", "tui/screens", "tui/viewmodels"):
        for source in sorted(PACKAGE.glob(f"{room}/**/*.py")):
            texts = [node.value for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Constant)]
            used.update(*[text for text in texts if isinstance(text, str)])
    signs = [sign for sign in used if ord(sign) >= 0x2000]
    handler = codecs.lookup_error(PLAIN)
    plain = {sign: handler(UnicodeEncodeError("ascii", sign, 0, 1, ""))[0] for sign in signs}
    assert len(signs) > 10
    assert [sign for sign, text in plain.items() if text.startswith(("\\x", "\\u"))] == []


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    write_tables(folder)
    table = (folder / "shop.csv").read_text(encoding="utf-8")
    (folder / f"{NAME}.csv").write_text(table.replace("age", NAME, 1), encoding="utf-8")
    return folder


def shell(folder: Path, command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command line of bash, in which $tabapp is the program."""
    env = {**os.environ, "tabapp": f"{sys.executable} -P -m tabapp", **environment}
    words = ["bash", "-c", command]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, timeout=HANG_SECONDS)


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">/dev/full", 1, b"tabapp: Standard output: No space left on device.\n"),
        (">&-", 0, b""),
        ("<&- >&- 2>&-", 0, b""),
        (">/dev/null 2>/dev/full", 0, b""),
        ("| true; exit ${PIPESTATUS[0]}", 141, b""),
        ("2>&1 | true; exit ${PIPESTATUS[0]}", 141, b""),
    ],
)
def test_streams_that_cannot_be_written(tables, redirection, code, message):
    done = shell(tables, f"$tabapp runs --runs-dir {tables} --json {redirection}")
    assert (done.returncode, done.stderr) == (code, message)


def test_a_closed_stdin_is_empty(tables):
    done = shell(tables, "$tabapp profile - <&-")
    assert (done.returncode, done.stderr) == (3, b"tabapp: stdin: is empty.\n")


def test_an_error_with_a_broken_stderr_has_an_exit_code(tables):
    done = shell(tables, "$tabapp profile missing.csv 2>&1 | true; exit ${PIPESTATUS[0]}")
    assert done.returncode in (3, 141)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.slow),
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["latin-1", "ascii", "C locale"],
)
def test_names_of_files_and_columns_are_found(tables, environment):
    done = shell(tables, f"$tabapp profile {NAME}.csv --target {NAME} && $tabapp --help", **environment)
    assert done.returncode == 0, done.stderr
    assert b"regression" in done.stdout
