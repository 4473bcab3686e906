"""Every block of docs/reference/python.md runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tabapp
from tests.api.tables import houses

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def churn(n: int, seed: int) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    visits, plan = generator.poisson(6, n), generator.choice(["1", "2", "3"], n)
    leaves = generator.random(n) < 1 / (1 + np.exp(visits - 5 + (plan == "3") * 2))
    return pl.DataFrame(
        {
            "plan": plan,
            "visits": visits,
            "paid": (visits * generator.gamma(3, 4, n)).round(2),
            "since": [f"20{year:02d}-03-15" for year in generator.integers(10, 24, n)],
            "churned": np.where(leaves, "yes", "no"),
        }
    )


def run(block: str, names: dict[str, object]) -> None:
    exec(compile(block, str(PAGE), "exec"), names)


def test_the_first_block_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    churn(90, 0).write_csv("customers.csv")
    churn(40, 1).write_csv("new_customers.csv")
    run(BLOCK.findall(PAGE.read_text())[0], {})
    assert len(tabapp.runs()) == 1


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    churn(90, 0).write_csv("customers.csv")
    churn(40, 1).write_csv("new_customers.csv")
    houses().write_csv("houses.csv")
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        run(block, names)
    printed = capsys.readouterr().out
    assert "There is no column 'chruned'; did you mean 'churned'?" in printed
    assert len(tabapp.runs()) == 3


def test_the_readme_shows_the_first_block():
    assert BLOCK.findall((PAGE.parents[2] / "README.md").read_text())[:1] == BLOCK.findall(PAGE.read_text())[:1]
