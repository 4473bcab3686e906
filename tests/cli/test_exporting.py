"""`tabapp export --docker`: the files of a container, and its steps in a new environment."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands.export import OTHER_FORMS
from tabapp.cli.main import run_command_line
from tests.bundle.making import make_contents, register_linear, text_table
from tests.serve.serving import CSV, Server
from tests.waiting import HANG_SECONDS

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

ROOT = Path(__file__).resolve().parents[2]
USAGE = 2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of LightGBM alone."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("bundle")
        contents = make_contents(folder, "binary", booster="lightgbm")
        write_bundle(folder / "b.tabapp", replace(contents, candidates=[replace(contents.candidates[1], weight=1.0)]))
        return folder / "b.tabapp"


def test_a_container_has_the_bundle_and_what_its_models_need(bundle, tmp_path, capsys):
    folder = tmp_path / "container"
    assert run_command_line(["export", str(bundle), "--docker", str(folder), "-o", str(tmp_path / "copy.tabapp")]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "copy.tabapp"), str(folder)]
    assert (folder / "model.tabapp").read_bytes() == bundle.read_bytes() == (tmp_path / "copy.tabapp").read_bytes()
    packages = {re.split("[=;]", line)[0] for line in (folder / "requirements.txt").read_text().splitlines()}
    assert {"lightgbm", "uvicorn", "polars"} <= packages
    assert not packages & {"torch", "xgboost", "catboost", "scikit-learn", "textual", "optuna"}
    instructions = [line.split()[0] for line in (folder / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert instructions[0] == "FROM"
    assert instructions[-1] == "ENTRYPOINT"
    assert "USER tabapp" in (folder / "Dockerfile").read_text()


def sentence(capsys) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_container_that_cannot_be_written_is_one_sentence(bundle, tmp_path, capsys, monkeypatch):
    register_linear(monkeypatch)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "damaged.tabapp").write_bytes(bundle.read_bytes()[:1000])
    write_bundle(tmp_path / "plugin.tabapp", make_contents(tmp_path / "made", "binary"))
    for arguments, code, part in (
        ([str(bundle)], USAGE, "Say what to write"),
        *(([str(bundle), "-o", f"x{end}"], USAGE, f"with {option} x{end}") for end, option in OTHER_FORMS.items()),
        ([str(bundle), "--docker", str(tmp_path / "full")], USAGE, "is not empty"),
        ([str(bundle), "--docker", str(tmp_path / "full" / "file" / "x")], USAGE, "cannot be written"),
        ([str(bundle), "--docker", str(tmp_path / "new"), "--sign", "key"], USAGE, "--sign signs"),
        ([str(tmp_path / "damaged.tabapp"), "--docker", str(tmp_path / "new")], 5, "is not a tabapp bundle"),
        ([str(tmp_path / "plugin.tabapp"), "--docker", str(tmp_path / "new")], USAGE, "third-party plugin"),
    ):
        assert run_command_line(["export", *arguments]) == code
        assert part in sentence(capsys)
    assert not (tmp_path / "new" / "Dockerfile").exists()


def test_the_target_of_a_bundle_with_one_can_be_named(bundle, tmp_path, capsys):
    out = tmp_path / "copy.tabapp"
    assert run_command_line(["export", str(bundle), "--target", "outcome", "-o", str(out)]) == 0
    assert out.read_bytes() == bundle.read_bytes()
    capsys.readouterr()
    assert run_command_line(["export", str(bundle), "--target", "y", "-o", str(out)]) == USAGE
    assert sentence(capsys).endswith("does not predict 'y'; its target is 'outcome'.")


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_steps_of_a_container_serve_the_bundle(bundle, tmp_path, capfd):
    """Follows the steps of the Dockerfile in a new environment, because a test cannot expect a container engine."""
    folder, environment = tmp_path / "container", tmp_path / "venv"
    assert run_command_line(["export", str(bundle), "--docker", str(folder)]) == 0
    rows = text_table("binary", n_rows=20, seed=5).drop("outcome")
    rows.write_csv(tmp_path / "rows.csv")
    capfd.readouterr()
    assert run_command_line(["predict", str(bundle), str(tmp_path / "rows.csv")]) == 0
    expected = capfd.readouterr().out
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder / "wheels",
        ROOT,
    ]
    subprocess.run(wheel, check=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    steps = (folder / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    (install,) = [step.removeprefix("RUN ") for step in steps if step.startswith("RUN pip install")]
    for command in install.split("&&"):
        subprocess.run([environment / "bin" / "python", "-m", *shlex.split(command)], check=True, cwd=folder)
    (start,) = [step.removeprefix("ENTRYPOINT ") for step in steps if step.startswith("ENTRYPOINT")]
    words = [*json.loads(start), "--port", "0", "--token", "a secret"]
    process = subprocess.Popen(
        [environment / "bin" / words[0], *words[1:]], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
        server = Server(process, address)
        assert server.ask("GET", "/health").json == {"status": "ok"}
        headers = {**CSV, "Authorization": "Bearer a secret"}
        assert (
            server.ask("POST", "/predict", (tmp_path / "rows.csv").read_bytes(), headers).content.decode() == expected
        )
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
