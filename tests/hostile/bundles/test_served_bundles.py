"""Damaged bundles as start arguments and as replacements of a served file: each is refused, and the server stays up."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tabapp.bundle.writing.write import write_bundle
from tests.bundle.making import make_contents, register_linear
from tests.bundle.test_load import members_of
from tests.hostile.bundles.test_native_models import FILES, assert_one_sentence, mutated, write_mutated
from tests.serve.serving import serving, until
from tests.waiting import HANG_SECONDS

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

NAMES = ("refused", "reloaded")
GOOD = {"size": 0.5, "age": 40, "color": "red", "joined": "2024-02-03"}


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle without a booster, and the members of one with a booster, by its name."""
    found = {}

    def make(booster=None):
        if booster not in found:
            folder = tmp_path_factory.mktemp(booster or "plain")
            write_bundle(folder / "model.tabapp", make_contents(folder, "binary", booster=booster))
            found[booster] = folder / "model.tabapp"
        return found[booster]

    return make


def write_damaged(path, made, boosters, number):
    """Write a damaged bundle: every other one with correct checksums and a damaged model file, the others damaged as a file."""
    booster = boosters[number // 2 % len(boosters)]
    if number % 2 == 0:
        # A damage on which LightGBM and XGBoost crash comes first.
        write_mutated(path, members_of(made(booster)), booster, number // 2)
    else:
        content = mutated(made(booster).read_bytes(), random.Random(number).randrange(1, 10**6))
        path.write_bytes(content)


def replace_each(server, path, made, boosters, numbers):
    """Replace the served file by each damaged bundle; returns how many were refused and accepted."""
    outcomes = Counter()
    for number in numbers:
        before = events(server)
        temporary = path.with_suffix(".new")
        write_damaged(temporary, made, boosters, number)
        temporary.rename(path)
        until(server, lambda _: events(server) != before)  # noqa: B023
        outcomes.update({name: now - then for name, now, then in zip(NAMES, events(server), before, strict=True)})
        # An accepted model may still crash when it predicts; its process is then restarted.
        assert server.ask("POST", "/predict", {"rows": [GOOD]}).status in (200, 503)
        assert server.ask("GET", "/").status == 200
    return outcomes


def events(server) -> tuple[int, int]:
    """How often the server has refused and loaded a replaced file."""
    metrics = server.ask("GET", "/metrics").content
    lines = [line for line in metrics.decode().splitlines() if line.startswith("tabapp_bundle_events_total")]
    counts = {line.split('event="')[1].split('"')[0]: int(float(line.rpartition(" ")[2])) for line in lines}
    return counts["refused"], counts["reloaded"]


def start_with_each(path, made, boosters, numbers):
    """Start a server with each damaged bundle; returns the exit codes of those that did not start."""
    codes = Counter()
    for number in numbers:
        write_damaged(path, made, boosters, number)
        command = [sys.executable, "-P", "-m", "tabapp", "serve", str(path), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if process.stdout.readline():
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG_SECONDS) == 0
            process.communicate()
            codes["started"] += 1
            continue
        _, narration = process.communicate(timeout=HANG_SECONDS)
        assert_one_sentence(narration.strip(), path)
        codes[process.returncode] += 1
    return codes


@pytest.mark.slow
def test_damaged_replacements_leave_the_server_up(made, tmp_path):
    path = tmp_path / "model.tabapp"
    path.write_bytes(made().read_bytes())
    with serving(path, log=tmp_path / "log") as server:
        # Numbers 0 and 2 are damaged model files, the others damaged archives.
        outcomes = replace_each(server, path, made, ["lightgbm"], [0, 1, 3, 5, 7, 9])
        assert sum(outcomes.values()) == 6
        assert outcomes["refused"] >= 5
        assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_start_with_a_damaged_model_is_exit_code_5(made, tmp_path):
    assert start_with_each(tmp_path / "a.tabapp", made, ["lightgbm"], [0]) == {5: 1}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_damaged_replacements_leave_the_server_up(made, tmp_path):
    path = tmp_path / "model.tabapp"
    path.write_bytes(made().read_bytes())
    with serving(path, log=tmp_path / "log") as server:
        outcomes = replace_each(server, path, made, list(FILES), range(100))
        print("replacements", dict(outcomes))
        path.with_suffix(".new").write_bytes(made().read_bytes())
        path.with_suffix(".new").rename(path)
        n_loaded = events(server)[1]
        until(server, lambda _: events(server)[1] > n_loaded)
        assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_starts_with_damaged_bundles_end_in_one_sentence(made, tmp_path):
    codes = start_with_each(tmp_path / "a.tabapp", made, list(FILES), range(100))
    print("exit codes", dict(codes))
    assert set(codes) <= {"started", 5}
    assert codes[5] > 25
