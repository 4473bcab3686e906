"""Replays of recorded fits: what they spend, when they end, and what they predict."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lab import selection, variants
from benchmarks.lab.collect import RandomTrial
from benchmarks.lab.library import Library
from benchmarks.lab.replay import OVERHEAD_SECONDS, START_SECONDS, blended, replay, standard_errors
from tabapp.engine.schedule.rules import TIMED_RULES, second_trials
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.policy import POLICY

ROWS, FOLDS = 300, 3
NOISE = {"linear": 0.8, "lightgbm": 0.5, "xgboost": 0.52, "k_neighbors": 0.9}
SECONDS = {"linear": 0.3, "lightgbm": 1.0, "xgboost": 1.5, "k_neighbors": 0.2}


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Four models with three trials each, whose errors are known."""
    generator = np.random.default_rng(0)
    target, test = generator.normal(size=ROWS), generator.normal(size=ROWS)
    fold = np.arange(ROWS) % FOLDS
    np.savez(tmp_path / "rows.npz", target=target, fold=fold, test=test)
    (tmp_path / "table.json").write_text(json.dumps({"table": "made", "task": "regression", "metric": "rmse"}))
    (tmp_path / "fits").mkdir()
    records: list[str] = []
    for model, noise in NOISE.items():
        for trial in range(3):
            of_test = test + noise * generator.normal(size=ROWS)
            for k in range(FOLDS):
                rows = fold == k
                oof = target[rows] + noise * generator.normal(size=rows.sum())
                fit = f"{model}-{trial:04d}-f{k}"
                np.savez(tmp_path / "fits" / f"{fit}.npz", oof=oof.astype(np.float32), test=of_test.astype(np.float32))
                score = float(np.sqrt(np.mean((oof - target[rows]) ** 2)))
                record = {"fit": fit, "score": score, "seconds": SECONDS[model], "predict_seconds": 0.0}
                record |= {"prior": 2 * SECONDS[model], "merit": 1.0}
                records.append(json.dumps(record))
    records.append(json.dumps({"fit": "mlp-0000-f0", "error": "ValueError: no"}))
    (tmp_path / "fits.jsonl").write_text("\n".join(records) + "\n")
    return Library(tmp_path)


def test_a_library_has_the_complete_trials(library: Library) -> None:
    assert library.models == sorted(NOISE)
    assert library.n_trials("linear") == 3
    assert library.n_trials("mlp") == 0
    oof, test = library.predictions(("linear", 1))
    assert oof.shape == test.shape == (ROWS,)
    assert library.test_error(test) == pytest.approx(0.8, rel=0.15)


def test_a_longer_run_has_more_fits_and_a_smaller_error(library: Library) -> None:
    short, long = replay(library, 15, 2), replay(library, 120, 2)
    assert short is not None
    assert long is not None
    assert sum(short.spent.values()) <= 2 * (15 - START_SECONDS)
    assert len(short.complete) < len(long.complete)
    assert long.test_error < short.test_error < 0.8
    assert long.test_error == pytest.approx(library.test_error(blended(library, long.selected)))
    assert 0 < long.share_of_members() <= 1
    assert long.share_nowhere() < 0.1


def test_no_fit_starts_before_the_engine_is_ready(library: Library) -> None:
    assert replay(library, START_SECONDS + 0.5 * OVERHEAD_SECONDS, 2) is None


def test_an_honest_score_is_within_a_few_standard_errors(library: Library) -> None:
    found = replay(library, 60, 2)
    assert found is not None
    assert abs(standard_errors(library, found)) < 4


def test_random_trials_are_in_the_search_space_and_depend_on_the_seed() -> None:
    plugin, shape = registry.get("lightgbm"), Shape(1000, 5, 2, 2)
    drawn = [plugin.search_space(RandomTrial(seed), "binary", shape, "cpu") for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_changed_policy_is_replayed_beside_that_of_today(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = "affordable_share=0.05,leader_share=0.1"
    assert variants.changed(variants.NONE) == POLICY
    assert variants.changed(changes) == replace(POLICY, affordable_share=0.05, leader_share=0.1)
    left = variants.remaining("large_gain=1,without second_trials")
    assert set(TIMED_RULES) - set(left) == {second_trials}
    with pytest.raises(ValueError, match="there is no rule third_trials"):
        variants.remaining("without third_trials")
    out = library.place / "results.json"
    arguments = ["variants", changes, "--budgets", "12", "--out", str(out)]
    monkeypatch.setattr("sys.argv", [*arguments, "--processes", "1", "--lab", str(library.place.parent)])
    assert variants.main() == 0
    assert changes in capsys.readouterr().out
    results = json.loads(out.read_text())["results"]
    name = f"{library.place.name}|12"
    assert results[variants.NONE][name] != results[changes][name]


def test_ensembles_of_all_candidates_are_selected_again_with_changed_numbers(library: Library) -> None:
    out = library.place / "results.json"
    one = "ensemble_candidates=1,selection_rounds=1"
    assert selection.main([one, "least_weight=0.02", "--lab", str(library.place.parent), "--out", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    # A blend of independent errors is better than any of its members, and the number of today changes nothing.
    ratio, _ = variants.mean_ratio(results[variants.NONE], results[one])
    assert ratio > 1.2
    assert results["least_weight=0.02"] == results[variants.NONE]


def test_every_table_counts_once_in_a_mean_ratio() -> None:
    before = {name: {"error": 1.0} for name in ("a-0", "a-1", "b-0")}
    after = {"a-0": {"error": 1.1}, "a-1": {"error": 1 / 1.1}, "b-0": {"error": 1.21}}
    ratio, error = variants.mean_ratio(before, after, "error")
    assert ratio == pytest.approx(1.1)
    assert error == pytest.approx(math.log(1.21) / 2)
    assert math.isnan(variants.mean_ratio(before, after, "log loss")[0])
