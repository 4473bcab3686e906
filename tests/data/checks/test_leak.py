"""Features that give the target away."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from tabapp.data.leaks import area_under_curve, score_alone
from tests.data.checks.tables import CLASSES, NOISE, N, found

RANDOM = np.random.default_rng(11)


def test_area_under_curve_equals_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    scores = np.round(NOISE + CLASSES, 1)
    assert area_under_curve(scores, CLASSES == 1) == pytest.approx(roc_auc_score(CLASSES, scores))
    assert area_under_curve(scores, np.zeros(N, dtype=bool)) == 0.5


def test_score_of_an_unrelated_feature_is_near_zero() -> None:
    codes = RANDOM.integers(0, 300, N)
    for answer, classes in ((pl.Series(CLASSES), 2), (pl.Series(RANDOM.integers(0, 4, N)), 4), (pl.Series(NOISE), 0)):
        assert score_alone(codes, answer, classes)[0] < 0.15


def test_numbers_dates_and_texts_that_determine_the_target() -> None:
    days = [date(2024, 1, 1) + timedelta(days=int(200 * c + abs(x) * 30)) for c, x in zip(CLASSES, NOISE, strict=True)]
    leaks = found(
        "leak",
        number=CLASSES * 10 + np.round(NOISE, 3), text=[f"{'ok' if c else 'no'} {i % 9}" for i, c in enumerate(CLASSES)],
        day=days, honest=NOISE + CLASSES, y=CLASSES,
    )  # fmt: skip
    assert set(leaks) == {"number", "text", "day"}
    assert "--ignore number" in leaks["number"].action


def test_column_among_leaks_after_the_target_is_a_leak() -> None:
    before = {f"x{i}": RANDOM.normal(size=N).round(3) for i in range(6)}
    after = {
        "first": CLASSES * 10 + np.round(NOISE, 3),
        "second": CLASSES * 7 + np.round(NOISE, 2),
        "last": NOISE.round(2),
    }
    leaks = found("leak", **before, y=CLASSES, **after)
    assert set(leaks) == {"first", "second", "last"}
    assert "comes after the target" in leaks["last"].message
    assert set(found("leak", y=CLASSES, **after, **before)) == {"first", "second"}
    assert set(found("leak", **before, y=CLASSES, first=after["first"], last=NOISE.round(2))) == {"first"}


def test_several_classes_and_numbers() -> None:
    classes = RANDOM.integers(0, 5, N)
    assert set(found("leak", code=[f"k{c}" for c in classes], x=NOISE, y=[f"class {c}" for c in classes])) == {"code"}
    assert set(found("leak", power=np.exp(NOISE / 3).round(6), x=CLASSES + RANDOM.normal(size=N), y=NOISE)) == {"power"}


def test_parts_whose_sum_difference_or_product_is_the_target() -> None:
    a, b, c = RANDOM.integers(1, 500, N), RANDOM.integers(1, 500, N), RANDOM.normal(size=N)
    for y in (a + b, a - b, a * b):
        assert set(found("leak", a=a, c=c, b=b, y=y)) == {"a", "b"}
    assert found("leak", a=a, b=b, c=c, y=a + b + RANDOM.integers(0, 9, N)) == {}


def test_a_target_that_is_mostly_zero() -> None:
    claims = (RANDOM.random(N) < 0.1).astype(int)
    cost = np.where(claims, np.exp(RANDOM.normal(8, 2, N)).round(), 0).astype(int)
    assert set(found("leak", claims=claims, age=RANDOM.integers(18, 90, N), cost=cost, target="cost")) == {"claims"}


def test_names_that_imply_afterwards() -> None:
    duration = np.abs(NOISE + 2 * CLASSES).round(3)
    assert set(found("leak", duration=duration, x=NOISE, y=CLASSES)) == {"duration"}
    assert found("leak", width=duration, x=NOISE, y=CLASSES) == {}
    status = [["open", "done"][c] for c in CLASSES]
    days = [date(2024, 1, 1) + timedelta(days=int(i)) for i in RANDOM.integers(0, 300, N)]
    assert set(found("leak", status=status, status_date=days, x=NOISE, y=CLASSES)) == {"status", "status_date"}
    assert set(found("leak", kMt=RANDOM.normal(size=N), kMc=NOISE, x=CLASSES, target="kMc")) == {"kMt"}
    assert set(found("leak", Y2=RANDOM.normal(size=N), X1=RANDOM.normal(size=N), Y1=NOISE, target="Y1")) == {"Y2"}


SPECIES = [f"s{c}" for c in np.random.default_rng(3).choice(6, N, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])]


def test_class_that_all_but_determines_several_classes() -> None:
    """An accuracy of 0.96 is far from the 0.99 that a measurement needs, but a class is not a measurement."""
    mistaken = np.random.default_rng(4).random(N) < 0.04
    subtype = [
        f"t{s}{i % 2}" if not wrong else "t?" for i, (s, wrong) in enumerate(zip(SPECIES, mistaken, strict=True))
    ]
    codes = [SPECIES.index(s) if not wrong else 999 for s, wrong in zip(SPECIES, mistaken, strict=True)]
    leaks = found("leak", subtype=subtype, code=codes, x=NOISE, y=SPECIES)
    assert set(leaks) == {"subtype", "code"}
    assert "all but determine the target" in leaks["subtype"].message
    measured = [float(SPECIES.index(s)) + 0.25 + 0.3 * x for s, x in zip(SPECIES, NOISE, strict=True)]
    assert found("leak", length=measured, x=NOISE, y=SPECIES) == {}


def test_coarser_label_of_several_classes() -> None:
    """Genus of a species: each species has one genus, but the largest genus has two species."""
    genus = [{"s0": "g0", "s1": "g1", "s2": "g0", "s3": "g3", "s4": "g3", "s5": "g5"}[s] for s in SPECIES]
    leaks = found("leak", genus=genus, x=NOISE, y=SPECIES)
    assert set(leaks) == {"genus"}
    assert "groups the classes" in leaks["genus"].message


def test_honest_categories_of_several_classes_are_no_leak() -> None:
    random = np.random.default_rng(5)
    strong = [s if random.random() < 0.8 else "other" for s in SPECIES]
    has_milk = ["yes" if s == "s0" else "no" for s in SPECIES]
    city = [f"c{c}" for c in random.integers(0, 6, N)]
    assert found("leak", strong=strong, has_milk=has_milk, city=city, x=NOISE, y=SPECIES) == {}


def test_a_word_that_most_names_have_says_nothing_of_a_column() -> None:
    noise = {f"value_{i}": RANDOM.normal(size=N).round(3) for i in range(2, 9)}
    near = (CLASSES * 2 + NOISE).round(3)
    assert not found("leak", value_1=near, **noise, target="value_9", value_9=CLASSES)
    others = {name.replace("value", "x"): column for name, column in noise.items()}
    assert set(found("leak", value_1=near, **others, target="value_9", value_9=CLASSES)) == {"value_1"}
    # A single feature is not the habit of a table.
    assert set(found("leak", value_1=near, target="value_9", value_9=CLASSES)) == {"value_1"}
