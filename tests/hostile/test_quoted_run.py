"""A table with quotes, commas and line ends in its names and labels, from a run to the verified bundle and its predictions."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys

import pytest

from tabapp.bundle.files.contents import open_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import ExitCode
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.waiting import HANG_SECONDS

COLUMNS = ('a"x', "b,c", "new\nline", " sp ", 'the "size"')
READ = ('a"x', "b,c", "new line", "sp", 'the "size"')
LABELS = ('5"', '6"')
LEVELS = ('say "no"', "x,y", "two\nlines", "back\\slash", "[red]")
REFUSING = """
import sys
from tabapp.processes import engine as worker
from tabapp.bundle.writing import write
from tabapp.errors import BundleError

def refuse(path, **_):
    raise BundleError(f"{path}: its sample_output.csv does not have the rows and columns of its predictions.")

write.load_bundle = refuse
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose bundle did not pass its own test."""
    folder = tmp_path_factory.mktemp("quoted")
    generator = random.Random(0)
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for i in range(80):
            numbers = [f"{generator.gauss(2 * (i % 2), 1):.3f}" for _ in range(2)]
            rows.writerow([numbers[0], LEVELS[i % 5], numbers[1], f"{generator.random():.3f}", LABELS[i % 2]])
    config = RunConfig(data=str(folder / "table.csv"), target=COLUMNS[-1], models=("linear",), trials=1, folds=2)
    run = create_run(config, folder / "runs")
    words = [sys.executable, "-P", "-c", REFUSING, str(run.path)]
    done = subprocess.run(words, capture_output=True, timeout=HANG_SECONDS)
    assert done.returncode == ExitCode.BUNDLE, done.stderr
    return run


@pytest.mark.slow
def test_a_run_whose_bundle_is_refused_is_kept_and_completed_later(refused, tmp_path, monkeypatch, capfd):
    last = refused.state().finished
    assert last is not None
    assert last.message.startswith(f"{refused.bundle}: its sample_output.csv")
    assert "The trained models are kept in the run." in last.message
    assert "`tabapp resume`" in last.message
    assert not refused.bundle.exists()
    n_fits = len(list(refused.fits.iterdir()))

    assert run_command_line(["resume", str(refused.path), "--plain"]) == 0
    assert len(list(refused.fits.iterdir())) == n_fits
    contents = open_bundle(refused.bundle)
    assert [column.name for column in contents.schema.columns] == list(READ)
    assert contents.schema.classes == LABELS
    assert all(column.role in ("feature", "target") for column in contents.schema.columns)

    table, out = str(refused.path.parent.parent / "table.csv"), tmp_path / "out.csv"
    assert run_command_line(["predict", str(refused.bundle), table, "-o", str(out), "--keep"]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == [*READ, "prediction", *(f"probability_{label}" for label in LABELS)]
    assert {row[header.index("b,c")] for row in rows} == set(LEVELS)
    n_right = sum(row[header.index("prediction")] == row[header.index(READ[-1])] for row in rows)
    assert n_right > 0.8 * len(rows)

    capfd.readouterr()
    assert run_command_line(["evaluate", str(refused.bundle), str(out), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["target"] == READ[-1]
    assert found["rows"] == len(rows)
