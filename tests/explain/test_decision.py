"""Thresholds chosen by metrics of labels, groups of a column, and damaged cells."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp import metrics
from tabapp.explain.decision import assess_threshold, candidate_thresholds, choose_threshold, labels_at
from tabapp.explain.evaluation import gain_curve
from tabapp.explain.fairness import (
    FALSE_POSITIVE,
    SELECTION,
    TRUE_POSITIVE,
    WRONG,
    classified_groups,
    gaps,
    regressed_groups,
)
from tabapp.explain.robustness import damaged, robustness_curve

RARE = 0.1


def rare_positives(n_rows=3_000, seed=0):
    """A calibrated probability of a rare class, and the truth."""
    generator = np.random.default_rng(seed)
    probability = generator.beta(1, 9, n_rows)
    truth = (generator.random(n_rows) < probability).astype(np.int64)
    return truth, np.column_stack([1 - probability, probability]), generator.integers(0, 5, n_rows)


@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy", "cost:fn=5,fp=1"])
def test_the_threshold_is_the_best_one_by_the_metric(metric):
    truth, probability, folds = rare_positives(800)
    chosen = choose_threshold(metric, truth, probability, folds, seed=0)
    sign = 1 if metrics.get(metric).greater_is_better else -1
    every = np.linspace(0.01, 0.99, 99)
    scores = [sign * metrics.score(metric, truth, labels_at(probability, each)) for each in every]
    best = metrics.score(metric, truth, labels_at(probability, chosen.value))
    assert sign * best >= max(scores) - 0.02
    for place, score in chosen.curve[::20]:
        assert score == pytest.approx(metrics.score(metric, truth, labels_at(probability, place)), rel=0.02)
    assert chosen.low <= chosen.value <= chosen.high
    assert sign * chosen.score > sign * chosen.at_half
    tp, fp, fn, tn = chosen.tp, chosen.fp, chosen.fn, chosen.tn
    label = probability[:, 1] >= chosen.value
    assert (tp, fp, fn, tn) == tuple(
        ((truth == t) & (label == each)).sum() for t, each in ((1, True), (0, True), (1, False), (0, False))
    )


def test_costs_move_the_threshold_to_the_share_that_decision_theory_gives():
    """With calibrated probabilities, the best threshold is fp / (fp + fn): Elkan, IJCAI 2001."""
    truth, probability, folds = rare_positives(20_000)
    chosen = choose_threshold("cost:fn=4,fp=1", truth, probability, folds, seed=0)
    assert chosen.value == pytest.approx(0.2, abs=0.05)
    assert chosen.high - chosen.low < 0.2


def test_the_score_is_of_rows_that_did_not_choose_the_threshold():
    generator = np.random.default_rng(0)
    truth, noise = generator.integers(0, 2, 60), generator.random(60)
    probability = np.column_stack([1 - noise, noise])
    chosen = choose_threshold("accuracy", truth, probability, np.arange(60) % 3, seed=0)
    assert chosen.score < max(score for _, score in chosen.curve), (
        "the best of many thresholds is optimistic on random predictions"
    )


def test_a_threshold_of_the_user_is_scored_on_all_rows():
    truth, probability, _ = rare_positives(800)
    found = assess_threshold("f1", 0.123, truth, probability, seed=0)
    assert (found.value, found.low, found.high) == (0.123, 0.123, 0.123)
    assert found.score == pytest.approx(metrics.score("f1", truth, labels_at(probability, 0.123)))
    assert found.score_low < found.score < found.score_high
    places = [place for place, _ in found.curve]
    assert 0.123 in places
    label = probability[:, 1] >= 0.123
    assert found.counts[places.index(0.123)] == (found.tp, found.fp, found.fn, found.tn)
    assert found.tp == ((truth == 1) & label).sum()
    assert {sum(counts) for counts in found.counts} == {len(truth)}


def test_thresholds_are_between_probabilities():
    assert candidate_thresholds(np.array([0.0, 0.0, 1.0])).tolist() == [0.5]
    assert candidate_thresholds(np.array([0.2, 0.4])).tolist() == pytest.approx([0.3, 0.5])


def test_gain_of_a_perfect_and_a_constant_score():
    truth = np.array([True] * 20 + [False] * 80)
    perfect = gain_curve(truth, truth.astype(float))
    assert (0.2, 1.0) in perfect
    assert gain_curve(truth, np.zeros(100)) == ((0.0, 0.0), (1.0, 1.0))


def test_rates_of_groups_are_those_of_their_rows():
    truth, probability, _ = rare_positives(400)
    labels = probability[:, 1] >= RARE
    slices = [("= a", np.arange(400) < 250), ("= b", np.arange(400) >= 250), ("few", np.arange(400) < 5)]
    wrong = labels != (truth == 1)
    found = classified_groups(slices, truth == 1, labels, probability[:, 1], wrong, seed=0)
    assert [(group.level, group.n) for group in found] == [("= a", 250), ("= b", 150)]
    rows = slices[0][1]
    rates = {rate.name: rate for rate in found[0].rates}
    assert rates[SELECTION].value == pytest.approx(labels[rows].mean())
    assert rates[TRUE_POSITIVE].value == pytest.approx(labels[rows & (truth == 1)].mean())
    assert rates[FALSE_POSITIVE].n == (rows & (truth == 0)).sum()
    assert all(rate.low <= rate.value <= rate.high for rate in rates.values())


@pytest.mark.parametrize(("shift", "clear"), [(0.0, False), (0.3, True)])
def test_a_clear_gap_is_not_one_of_chance(shift, clear):
    generator = np.random.default_rng(1)
    rows = {level: np.repeat([level == "a", level == "b"], 300) for level in "ab"}
    label = generator.random(600) < 0.4 + shift * rows["b"]
    truth = generator.random(600) < 0.5
    found = classified_groups(list(rows.items()), truth, label, label * 1.0, label != truth, seed=0)
    gap = next(each for each in gaps(found, lambda rate, level: label[rows[level]], seed=0) if each.rate == SELECTION)
    assert gap.clear is clear
    assert not clear or (gap.highest, gap.low > 0) == ("b", True)
    assert found[0].rate(WRONG).n


def test_groups_of_a_regression_show_bias():
    truth = np.zeros(100)
    prediction = np.where(np.arange(100) < 50, 2.0, 0.0)
    found = regressed_groups([("low", np.arange(100) < 50), ("high", np.arange(100) >= 50)], truth, prediction, seed=0)
    assert [group.rate("prediction minus truth").value for group in found] == [2.0, 0.0]


def test_cells_are_damaged_in_the_stated_share_and_columns():
    frame = pl.DataFrame({"a": np.arange(4_000.0), "b": ["x", "y"] * 2_000, "target": range(4_000)})
    missing = damaged(frame, ["a", "b"], 0.3, "missing", seed=0)
    noisy = damaged(frame, ["a", "b"], 0.3, "noisy", seed=0)
    assert missing["a"].null_count() / 4_000 == pytest.approx(0.3, abs=0.03)
    assert (noisy["a"] != frame["a"]).mean() == pytest.approx(0.3, abs=0.03)
    assert noisy["a"].is_in(frame["a"].implode()).all()
    assert missing["target"].equals(frame["target"])
    assert noisy["target"].equals(frame["target"])
    assert missing.schema == frame.schema


def test_the_score_falls_with_the_share_of_missing_cells():
    generator = np.random.default_rng(0)
    frame = pl.DataFrame({"x": generator.normal(size=500), "noise": generator.normal(size=500)})
    truth = frame["x"].to_numpy()

    def predict(change):
        return change(frame)["x"].fill_null(0.0).to_numpy()

    found = robustness_curve(predict, "rmse", truth, ["x", "noise"], "missing", seed=0, shares=(0.0, 0.3, 0.6))
    scores = [point.score for point in found]
    assert scores[0] == 0
    assert scores == sorted(scores)
    assert all(point.low <= point.score <= point.high for point in found)
