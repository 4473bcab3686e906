"""Mutated model files of LightGBM, XGBoost and CatBoost, with correct checksums: nothing that they do ends the program.

The libraries crash, abort or hang on some of them. The long form counts the refusals: `pytest -m slow -s` prints them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter

import pytest

import tabapp
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import BundleError
from tests.bundle.making import make_contents, register_linear, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip
from tests.tui.driver import drive
from tests.tui.screens.test_predict_screen import choose, finished
from tests.waiting import HANG_SECONDS

FILES = {"lightgbm": "model.txt", "xgboost": "model.ubj", "catboost": "model.cbm"}
N_MUTATIONS = int(os.environ.get("TABAPP_FUZZ", "300"))


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The members of a bundle with a booster, by the booster's name."""
    found = {}

    def members(booster):
        if booster not in found:
            folder = tmp_path_factory.mktemp(booster)
            write_bundle(folder / "model.tabapp", make_contents(folder, "binary", booster=booster))
            found[booster] = members_of(folder / "model.tabapp")
        return found[booster]

    return members


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "new_rows.csv"
    text_table("binary", n_rows=5).write_csv(path)
    return path


def mutated(content, seed):
    """A file with one kind of damage; seed 0 cuts it in half, on which LightGBM and XGBoost crash."""
    generator = random.Random(seed)
    kind = (
        "cut" if seed == 0 else generator.choice(["bytes", "bytes", "bytes", "bit", "cut", "zeros", "copy", "integer"])
    )
    changed = bytearray(content)
    start = len(content) // 2 if seed == 0 else generator.randrange(len(content))
    end = start + generator.randrange(1, 64)
    match kind:
        case "bytes":
            for _ in range(generator.choice([1, 3, 8])):
                changed[generator.randrange(len(content))] = generator.randrange(256)
        case "bit":
            changed[start] ^= 1 << generator.randrange(8)
        case "cut":
            del changed[start:]
        case "zeros":
            changed[start:end] = bytes(len(changed[start:end]))
        case "copy":
            changed[start:start] = changed[start:end]
        case "integer":
            changed[start : start + 4] = generator.choice([-1, 0, 2**31 - 1, -(2**31)]).to_bytes(
                4, "little", signed=True
            )
    return bytes(changed)


def write_mutated(path, members, booster, seed):
    """Write a bundle whose first booster is damaged, with its checksum."""
    name = next(name for name in sorted(members) if name.endswith(FILES[booster]))
    content = mutated(members[name], seed)
    return write_zip(path, with_manifest(members, lambda _, members: members.update({name: content})).items())


def assert_one_sentence(sentence, path):
    assert "\n" not in sentence
    assert str(path) in sentence
    assert "fault of tabapp" not in sentence


def load_each(members, booster, seeds, path):
    """Load and use each mutation in this process; returns how often the bundle was refused and accepted."""
    outcomes = Counter()
    table = text_table("binary", n_rows=5)
    for seed in seeds:
        write_mutated(path, members, booster, seed)
        try:
            tabapp.load(path).predict(table)
            outcomes["accepted"] += 1
        except BundleError as error:
            sentence = str(error)
            assert_one_sentence(sentence, path)
            outcomes["refused"] += 1
            outcomes["process ended"] += "ended the process" in sentence
            outcomes["hung"] += "took longer" in sentence
    return outcomes


# LightGBM is on the command line below, and CatBoost on the screen.
@pytest.mark.parametrize(
    "booster", ["xgboost", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lightgbm", "catboost"))]
)
def test_a_mutated_model_never_ends_the_program(made, tmp_path, booster):
    honest = write_zip(tmp_path / "honest.tabapp", made(booster).items())
    assert len(tabapp.load(honest).predict(text_table("binary", n_rows=5))) == 5
    assert load_each(made(booster), booster, [0], tmp_path / "a.tabapp")["refused"] == 1


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("booster", FILES)
def test_many_mutated_models_never_end_the_program(made, tmp_path, booster):
    outcomes = load_each(made(booster), booster, range(N_MUTATIONS), tmp_path / "a.tabapp")
    print(booster, dict(outcomes))
    assert outcomes["refused"] > N_MUTATIONS / 4
    assert outcomes["refused"] + outcomes["accepted"] == N_MUTATIONS


def predict_each(made, boosters, seeds, path, data):
    """Predict with each mutation on the command line; returns the number of exit codes."""
    codes = Counter()
    for seed in seeds:
        booster = boosters[seed % len(boosters)]
        write_mutated(path, made(booster), booster, seed)
        command = [sys.executable, "-P", "-m", "tabapp", "predict", str(path), str(data), "-q"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
        codes[done.returncode] += 1
        if done.returncode:
            assert done.returncode == 5, done
            assert done.stdout == ""
            assert_one_sentence(done.stderr.strip(), path)
    return codes


def test_a_mutated_model_is_exit_code_5(made, tmp_path, data, capsys):
    """In the process of the test, which it must not end either."""
    path = write_mutated(tmp_path / "a.tabapp", made("lightgbm"), "lightgbm", 0)
    assert run_command_line(["predict", str(path), str(data), "-q"]) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert_one_sentence(captured.err.strip(), path)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_mutated_models_are_exit_code_5(made, tmp_path, data):
    n_mutations = min(N_MUTATIONS, 100)
    codes = predict_each(made, list(FILES), range(n_mutations), tmp_path / "a.tabapp", data)
    print("exit codes", dict(codes))
    assert set(codes) <= {0, 5}
    assert codes[5] > n_mutations / 4


async def predict_on_screen(made, boosters, seeds, path, data, monkeypatch):
    """Predict with each mutation on the Predict screen of one app, which must stay up."""
    n_refused = 0
    write_mutated(path, made(boosters[0]), boosters[0], 0)
    async with drive(path.parent, monkeypatch, finished(path)) as driver:
        screen = await choose(driver, data)
        job = screen._job
        for seed in seeds:
            booster = boosters[seed % len(boosters)]
            write_mutated(path, made(booster), booster, seed)
            job.output.unlink(missing_ok=True)
            job.predicted = None
            job.trouble = ""
            await driver.press("ctrl+r")
            await driver.until(lambda: not job.at_work and (job.trouble or job.predicted), HANG_SECONDS)
            if job.trouble:
                assert_one_sentence(job.trouble, path)
                assert "The command" not in job.trouble
                await driver.sees(path.name)
                n_refused += 1
        assert driver.app.is_running
    return n_refused


async def test_a_mutated_model_leaves_the_predict_screen_up(made, tmp_path, data, monkeypatch):
    assert await predict_on_screen(made, ["catboost"], [0], tmp_path / "a.tabapp", data, monkeypatch) == 1


@pytest.mark.slow
@pytest.mark.timeout(0)
async def test_many_mutated_models_leave_the_predict_screen_up(made, tmp_path, data, monkeypatch):
    n_mutations = min(N_MUTATIONS, 100)
    refused = await predict_on_screen(made, list(FILES), range(n_mutations), tmp_path / "a.tabapp", data, monkeypatch)
    print("refused on the screen", refused, "of", n_mutations)
    assert refused > n_mutations / 4
