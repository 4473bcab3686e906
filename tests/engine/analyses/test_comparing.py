"""Two finished runs on their common rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tabapp import metrics
from tabapp.cli.commands.compare import compare
from tabapp.engine.analyses.compare_runs import compare_runs, paired_difference
from tabapp.errors import UsageError
from tabapp.run.protocol.comparing import Comparison, verdict
from tabapp.run.record.folder import RunFolder
from tests.cli.test_predicting import call
from tests.engine.finished import make_finished_run, write_table


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[RunFolder, RunFolder, RunFolder]:
    """Two runs of the same file, the second much too regularized, and one of a file with half of the rows in another order."""
    place = tmp_path_factory.mktemp("runs")
    data = write_table(place / "all.csv", "binary")
    header, *rows = data.read_text().splitlines()
    (place / "half.csv").write_text("\n".join([header, *rows[:120][::-1]]) + "\n")
    good = make_finished_run(data, place)
    bad = make_finished_run(data, place, model="k_neighbors", params={"n_neighbors": 1}, seed=1)
    return good, bad, make_finished_run(place / "half.csv", place)


def test_the_better_run_is_named_with_an_interval_of_the_difference(runs):
    good, bad, _ = runs
    found = compare_runs(good, bad)
    assert (found.common_rows, found.matched_by) == (240, "number in the same file")
    assert found.better == "a"
    assert found.score_a > found.score_b
    assert found.low <= found.difference <= found.high < 0
    assert found.difference == pytest.approx(found.score_b - found.score_a)
    assert "A is significantly better on 240 common rows" in verdict(found)
    assert [(row.model, row.a is None, row.b is None) for row in found.leaderboard] == [
        ("ensemble", False, False), ("linear", False, True), ("k_neighbors", True, False),
    ]  # fmt: skip
    differ = {(each.part, each.name) for each in found.differences}
    assert differ >= {("plan", "seed"), ("plan", "models of one run"), ("result", "ensemble")}
    assert ("plan", "ensemble") not in differ
    assert not [each for each in found.differences if each.part == "data"]


def test_a_run_does_not_differ_from_itself(runs):
    found = compare_runs(runs[0], runs[0])
    assert (found.difference, found.low, found.high, found.better) == (0, 0, 0, None)
    assert found.differences == ()
    assert "No significant difference" in verdict(found)


def test_rows_of_different_files_are_matched_by_content(runs):
    found = compare_runs(runs[0], runs[2])
    assert (found.common_rows, found.matched_by) == (120, "content of 6 common columns")
    assert ("data", "rows", "240", "120") in {(d.part, d.name, d.a, d.b) for d in found.differences}


def test_the_command_prints_json_and_a_table(runs, tmp_path):
    good, bad, _ = runs
    words = [str(good.path), str(bad.path)]
    found = json.loads(call(compare, *words, "--json").stdout)
    assert found["better"] == "a"
    assert found["a"]["run"] == good.run
    text = call(compare, *words).stdout
    assert "significantly better" in text
    assert "k_neighbors" in text
    with pytest.raises(UsageError, match="There is no run"):
        call(compare, "nothing-like-it", str(bad.path), "--runs-dir", str(tmp_path))


def test_a_run_without_a_result_is_one_sentence(runs, tmp_path):
    folder = RunFolder(tmp_path / "empty")
    folder.path.mkdir()
    (folder.path / "run.json").write_bytes((runs[0].path / "run.json").read_bytes())
    with pytest.raises(UsageError, match="has no result yet"):
        compare_runs(runs[0], folder)


def test_both_predictions_get_the_same_resamples():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=60)
    first = truth + generator.normal(size=60)
    shifted = first + 0.01
    score_a, score_b, low, high = paired_difference("mae", truth, first, shifted, None, seed=0)
    assert score_a == pytest.approx(metrics.score("mae", truth, first))
    assert score_b == pytest.approx(metrics.score("mae", truth, shifted))
    assert high - low <= 0.02, "a shift of 0.01 changes no error by more"


def test_other_targets_are_not_compared(runs, tmp_path):
    data = write_table(tmp_path / "numbers.csv", "regression")
    found = compare_runs(runs[0], make_finished_run(data, tmp_path))
    assert found.difference is None
    assert "the tasks are binary and regression" in verdict(found)
    assert isinstance(found, Comparison)
