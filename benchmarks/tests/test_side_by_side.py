"""Commands share a GPU by CUDA's Multi-Process Service if it is there, and otherwise run one after the other."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from benchmarks import side_by_side

DAEMON = """#!/bin/sh
echo "$CUDA_MPS_PIPE_DIRECTORY $@" >> {log}
if [ "$1" = -d ]; then exit {code}; fi
read line; echo "$line" >> {log}
if [ "$line" = get_server_list ]; then echo {servers}; fi
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def install(folder: Path, log: Path, monkeypatch: pytest.MonkeyPatch, *, code: int = 0, servers: str = "41") -> None:
    """A daemon that records how it is called, and a probe without a GPU."""
    file = folder / side_by_side.CONTROL
    file.write_text(DAEMON.format(log=log, code=code, servers=servers))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(side_by_side, "PROBE", "")


def test_the_daemon_has_its_own_folder_and_ends(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, log, monkeypatch)
    with side_by_side.service() as environment:
        assert environment is not None
        pipe = environment["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(pipe).is_dir()
    assert log.read_text().split("\n")[:-1] == [f"{pipe} -d", f"{pipe} ", "get_server_list", f"{pipe} ", "quit"]
    assert not Path(pipe).exists()


@pytest.mark.parametrize("failing", [{"code": 1}, {"servers": ""}])
def test_a_daemon_that_does_not_serve_is_not_used(
    failing: dict[str, str], tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, log, monkeypatch, **failing)  # pyright: ignore[reportArgumentType]
    with side_by_side.service() as environment:
        assert environment is None
    assert log.read_text().endswith("quit\n")


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_commands_run_at_the_same_time_in_their_seconds(tmp_path: Path) -> None:
    meet = "import pathlib, sys, time; a, b = map(pathlib.Path, sys.argv[1:3]); a.touch()\nwhile not b.exists(): time.sleep(0.01)"
    a, b = tmp_path / "a", tmp_path / "b"
    commands = [f"{python(meet)} {a} {b}", f"{python(meet)} {b} {a}", python("import sys; sys.exit({seconds})")]
    assert side_by_side.run(commands, 7, None) == [0, 0, 7]


def test_a_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "GRACE_SECONDS", 0.5)
    began = time.monotonic()
    assert side_by_side.run([python("import time; time.sleep(60)")], 0.5, None) == [-9]
    assert time.monotonic() - began < 30


def test_without_a_service_each_command_has_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "CONTROL", "no-such-daemon")
    say = python("print({seconds}, flush=True)")
    monkeypatch.setattr(sys, "argv", ["side_by_side", "--seconds", "60", say, say, python("import sys; sys.exit(3)")])
    assert side_by_side.main() == 3
    said = capfd.readouterr()
    assert said.out == "20\n20\n"
    assert "MPS: not available" in said.err
    assert "ended with 3" in said.err
