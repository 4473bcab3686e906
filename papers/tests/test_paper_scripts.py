"""Every experiment of a paper runs in a small form and writes its table with the published values."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.document import ROOT, page, read_results
from benchmarks.machine import Results

from .paper_tables import write_tables

KEEP = "--data {data} --keep {scratch}/kept"
CACHE = "--data {data} --cache {scratch}/cache.json"
SCRIPTS = {
    "papers.ablation": f"{CACHE} --seeds 1 --settings cpu --minutes 0.05",
    "papers.amformer_ablations": "--data {data} --tables products --seeds 1 --rows 300 --steps 4 --d-token 16",
    "papers.amformer_scaling": "--features 8,16 --layouts self,prompts --rows 4 --d-token 8 --layers 1 --steps 1",
    "papers.arithmetic": "--experiments classes --models transformer,amformer,xgboost --rows 400 --steps 3 --rounds 2 --draws 0 "
    "--cache {scratch}/cache.json",
    "papers.attention_faithfulness": "--data {data} --tables california_housing --seeds 1 --rows 200 --dropped 3 --layers 1 "
    "--token-size 8 --epochs 2 --threads 1",
    "papers.deep_models": f"{CACHE} --models mlp --seeds 1 --settings cpu --minutes 0.05",
    "papers.ft_transformer_tables": f"{KEEP} --tables california_sklearn,adult --models mlp,ft_transformer,catboost --seeds 7 "
    "--rows 200 --epochs 1",
    "papers.ft_transformer_tuned": "--data {data} --rows 120 --epochs 1 --trials 2",
    "papers.imputation": "--data {data} --tables boston --rows 60 --budget 5s",
    "papers.npt.ablations": f"{KEEP} --tables boston --splits 1 --steps 2",
    "papers.npt.experiments": "--data {data} --tables boston --steps 6 --rows 1",
    "papers.npt.paper": "--data {data} --tables boston --steps 6 --rows 1",
    "papers.npt.tables": f"{KEEP} --tables boston,breast_cancer_wdbc,poker_hand --splits 2 --rows 120 --test-rows 50 --steps 2",
    "papers.npt.targets": f"{KEEP} --tables poker_hand:x0:x1 --splits 1 --rows 60 --test-rows 30 --steps 4",
    "papers.npt.uci": "--data {data} --tables boston --splits 1 --set n_steps=6",
    "papers.partly_labeled": "--data {data} --tables poker_hand:x0:x1 --draws 1 --rows 60 --test-rows 30 --known 0.6 --models mlp",
    "papers.tab_transformer_embeddings": "--data {data} --tables adult --seeds 1 --rows 150 --epochs 2 --map {scratch}/map.svg",
    "papers.tab_transformer_robustness": "--data {data} --tables adult --seeds 2 --rows 150 --shares 0,0.5 --epochs 2",
    "papers.tab_transformer_semi_supervised": f"{KEEP} --tables bank_marketing --labeled 60 --draws 2 --unlabeled 120 --seconds 2",
    "papers.tree_like": "--rows 200 --features 6 --alphas 0,1 --minutes 0.03",
    "benchmarks.lab.unlabeled_rows": f"{CACHE} --tables adult --labeled 60 --draws 1 --unlabeled 120 --seconds 2",
}
MISSES_ITS_GATE = ("papers.arithmetic",)
"""Scripts whose exit code says that a result was not reproduced, which a few steps cannot."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of tables."""
    return write_tables(tmp_path_factory.mktemp("papers") / "data")


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(SCRIPTS))
def test_a_small_form_writes_results(module: str, data: Path, tmp_path: Path) -> None:
    name = module.rpartition(".")[2]
    out = tmp_path / f"{name}.json"
    arguments = shlex.split(SCRIPTS[module].format(data=data, scratch=tmp_path))
    command = [sys.executable, "-m", module, *arguments, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode in ((0, 1) if module in MISSES_ITS_GATE else (0,)), done.stderr
    results = msgspec.json.decode(out.read_bytes(), type=Results)
    assert results.benchmark == name
    assert results.results
    assert results.tables[0].rows
    assert all(len(row) == len(table.columns) for table in results.tables for row in table.rows)
    assert f"python -m {module}" in page(results)


@pytest.mark.slow
def test_kept_fits_are_not_trained_again(data: Path, tmp_path: Path) -> None:
    arguments = f"--data {data} --keep {tmp_path / 'kept'} --out {tmp_path / 'out.json'}"
    command = f"{sys.executable} -m papers.npt.ablations {arguments} --tables yacht --splits 1 --steps 2"
    progress = [
        subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True, timeout=900).stderr
        for _ in range(2)
    ]
    assert "yacht base split 0" in progress[0]
    assert progress[1] == ""


def test_every_script_of_a_paper_has_a_small_form() -> None:
    linked = {
        name
        for path in (ROOT / "docs" / "background" / "papers").glob("*.md")
        for name in re.findall(r"/generated/benchmarks/(\w+)\.md", path.read_text())
    }
    commands = [result.command for result in read_results() if result.benchmark in linked]
    assert len(commands) == len(linked) >= 8
    assert {shlex.split(command)[2] for command in commands} <= SCRIPTS.keys()
