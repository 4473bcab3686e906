"""The command that takes the measurements on a GPU within a time limit."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu import gpu_session
from benchmarks.gpu.gpu_session import STEPS, Step


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run steps with options; returns the exit code."""

    def run(steps: tuple[Step, ...], *options: str) -> int:
        monkeypatch.setattr(sys, "argv", ["gpu_session", "--logs", str(tmp_path / "logs"), *options])
        return gpu_session.main(steps)

    return run


def test_every_step_names_a_module() -> None:
    for step in STEPS:
        assert find_spec(step.arguments.split()[0]), step.name
        assert step.least <= step.most


def test_steps_start_while_their_least_time_is_left(run, capsys: pytest.CaptureFixture[str]) -> None:
    steps = (
        Step("long", "this", 500, 600),
        Step("short", "this", 1, 60),
        Step("unnamed", "this", 1, 60, in_every_call=False),
    )
    assert run(steps, "--seconds", "100") == 0
    output = capsys.readouterr().out
    assert "== short: exit code 0" in output
    assert "The Zen of Python" in output
    assert "long" not in output
    assert "unnamed" not in output
    assert run(steps, "--seconds", "100", "--steps", "unnamed") == 0
    assert "== unnamed" in capsys.readouterr().out


def test_a_step_that_takes_too_long_is_ended(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "endless.py").write_text("print('began', flush=True)\nwhile True: pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run((Step("endless", "endless", 1, 2),), "--seconds", "60") != 0
    assert "== endless: exit code" in capsys.readouterr().out


def test_an_unknown_step_is_named(run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(STEPS, "--steps", "tests,nothing")
    assert "no step is called nothing" in capsys.readouterr().err
