"""The ensemble compared with constants and single models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Score
from tabapp.engine.loop import comparing
from tabapp.engine.loop.comparing import best_constant, compare_ensemble
from tabapp.engine.loop.selection import Selected
from tabapp.ensemble.averaging import NO_AVERAGING, Averaging
from tests.engine.schedule.test_scheduler import finish

ROWS = 600
GENERATOR = np.random.default_rng(0)


def compared(
    metric: str,
    truth: Any,
    ensemble: Any,
    single: Any,
    classes: tuple[str, ...] = (),
    averaging: Averaging = NO_AVERAGING,
    **options: Any,
) -> Any:
    """The comparison of an ensemble with a candidate of the same rows."""
    covered = np.ones(len(truth), dtype=bool)
    candidate = Candidate("single", 3, {}, 1)
    finish(candidate, 0, 0.5)
    scorer = SimpleNamespace(
        target=truth, weight=None, classes=classes, out_of_fold=lambda candidate: (single, covered)
    )
    selected = Selected(((candidate, 1.0),), Score(0.0, 0.0, 0.0), ensemble, covered, ensemble, averaging=averaging)
    return compare_ensemble(selected, [candidate], cast(Any, scorer), metric, identity="all", seed=0, **options)


def probabilities(positive: Any) -> Any:
    return np.stack([1 - positive, positive], axis=1)


def test_a_random_prediction_is_no_better_than_the_constant() -> None:
    truth = GENERATOR.integers(0, 2, ROWS)
    noise = probabilities(GENERATOR.uniform(size=ROWS))
    baseline, single = compared("roc_auc", truth, noise, noise, ("a", "b")).rows
    assert (baseline.model, baseline.score, baseline.is_behind) == ("baseline", 0.5, False)
    assert (single.model, single.trial) == ("single", 3)
    assert single.advantage == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_an_advantage_is_positive_where_the_error_is_lower(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = GENERATOR.normal(size=ROWS)
    good, bad = truth + 0.1 * GENERATOR.normal(size=ROWS), truth + 0.5 * GENERATOR.normal(size=ROWS)
    baseline, single = compared(metric, truth, good, bad).rows
    assert baseline.is_behind
    assert single.is_behind
    assert single.low < single.advantage < single.high
    monkeypatch.setattr(comparing, "MOST_ROWS", 200)
    sampled = compared(metric, truth, good, bad).rows[1]
    assert sampled.advantage == single.advantage
    assert sampled.high - sampled.low == pytest.approx(single.high - single.low, rel=0.35)


def test_the_difference_is_that_of_the_scores_that_are_shown() -> None:
    truth = GENERATOR.normal(size=ROWS)
    good, bad = truth + 0.1 * GENERATOR.normal(size=ROWS), truth + 0.5 * GENERATOR.normal(size=ROWS)
    averaging = Averaging(share=0.5)
    row = compared("rmse", truth, good, bad, averaging=averaging).rows[1]
    shown = averaging.score("rmse", metrics.score("rmse", truth, good))
    assert row.advantage == pytest.approx(metrics.score("rmse", truth, bad) - shown)
    assert row.low < row.advantage < row.high


def test_candidates_on_other_rows_and_after_the_deadline_are_left_out() -> None:
    truth = GENERATOR.normal(size=ROWS)
    assert [row.model for row in compared("rmse", truth, truth, truth, deadline=0.0).rows] == ["baseline"]


@pytest.mark.parametrize(
    ("metric", "truth", "classes", "what"),
    [
        ("rmse", np.array([0.0, 0.0, 0.0, 10.0]), (), "the mean"),
        ("mae", np.array([0.0, 0.0, 0.0, 10.0]), (), "the median"),
        ("log_loss", np.array([0, 0, 1, 2]), ("a", "b", "c"), "the share of each class"),
        ("f1", np.array([0, 0, 0, 1]), ("a", "b"), "class b"),
    ],
)
def test_the_best_constant_depends_on_the_metric(metric: str, truth: Any, classes: tuple[str, ...], what: str) -> None:
    found, prediction = best_constant(metrics.get(metric), truth, None, classes)
    assert found == what
    assert len(np.unique(prediction, axis=0)) == 1
