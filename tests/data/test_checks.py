"""What looks wrong with a table, and that clean tables are left in peace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from tabapp.data.checks import copies
from tabapp.data.infer import compare_with_test, infer_schema
from tabapp.data.leaks import area_under_curve, score_alone
from tabapp.data.schema import DataWarning
from tabapp.data.split import early_stopping_rows, make_folds, make_holdout

N = 600
RANDOM = np.random.default_rng(7)
NOISE = RANDOM.normal(size=N)
CLASSES = RANDOM.integers(0, 2, N)


def frame(**columns: Sequence[object]) -> pl.DataFrame:
    return pl.DataFrame({name: pl.Series([str(value) for value in values]) for name, values in columns.items()})


def found(check: str, target: str = "y", **columns: Sequence[object]) -> dict[str | None, DataWarning]:
    schema = infer_schema(frame(**columns), target=target)
    return {warning.column: warning for warning in schema.warnings if warning.check == check}


def test_area_under_curve_is_scikit_learns() -> None:
    from sklearn.metrics import roc_auc_score

    scores = np.round(NOISE + CLASSES, 1)
    assert area_under_curve(scores, CLASSES == 1) == pytest.approx(roc_auc_score(CLASSES, scores))
    assert area_under_curve(scores, np.zeros(N, dtype=bool)) == 0.5


def test_a_feature_that_says_nothing_scores_nothing() -> None:
    codes = RANDOM.integers(0, 300, N)
    for answer, classes in ((pl.Series(CLASSES), 2), (pl.Series(RANDOM.integers(0, 4, N)), 4), (pl.Series(NOISE), 0)):
        assert score_alone(codes, answer, classes)[0] < 0.15


def test_numbers_dates_and_texts_that_know_the_answer() -> None:
    days = [date(2024, 1, 1) + timedelta(days=int(200 * c + abs(x) * 30)) for c, x in zip(CLASSES, NOISE, strict=True)]
    leaks = found(
        "leak",
        number=CLASSES * 10 + np.round(NOISE, 3), text=[f"{'ok' if c else 'no'} {i % 9}" for i, c in enumerate(CLASSES)],
        day=days, honest=NOISE + CLASSES, y=CLASSES,
    )  # fmt: skip
    assert set(leaks) == {"number", "text", "day"}
    assert "--ignore number" in leaks["number"].action


def test_what_stands_behind_the_target_among_leaks_goes_with_them() -> None:
    before = {f"x{i}": RANDOM.normal(size=N).round(3) for i in range(6)}
    after = {
        "first": CLASSES * 10 + np.round(NOISE, 3),
        "second": CLASSES * 7 + np.round(NOISE, 2),
        "last": NOISE.round(2),
    }
    leaks = found("leak", **before, y=CLASSES, **after)
    assert set(leaks) == {"first", "second", "last"}
    assert "behind the target" in leaks["last"].message
    assert set(found("leak", y=CLASSES, **after, **before)) == {"first", "second"}
    assert set(found("leak", **before, y=CLASSES, first=after["first"], last=NOISE.round(2))) == {"first"}


def test_many_classes_and_numbers() -> None:
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


def test_names_that_say_afterwards() -> None:
    duration = np.abs(NOISE + 2 * CLASSES).round(3)
    assert set(found("leak", duration=duration, x=NOISE, y=CLASSES)) == {"duration"}
    assert found("leak", width=duration, x=NOISE, y=CLASSES) == {}
    status = [["open", "done"][c] for c in CLASSES]
    days = [date(2024, 1, 1) + timedelta(days=int(i)) for i in RANDOM.integers(0, 300, N)]
    assert set(found("leak", status=status, status_date=days, x=NOISE, y=CLASSES)) == {"status", "status_date"}
    assert set(found("leak", kMt=RANDOM.normal(size=N), kMc=NOISE, x=CLASSES, target="kMc")) == {"kMt"}
    assert set(found("leak", Y2=RANDOM.normal(size=N), X1=RANDOM.normal(size=N), Y1=NOISE, target="Y1")) == {"Y2"}


@pytest.mark.parametrize(
    ("values", "sentinel"),
    [
        (np.where(CLASSES, RANDOM.integers(0, 300, N), -1), "-1"),
        (np.where(CLASSES, RANDOM.integers(0, 300, N), -999), "-999"),
        (np.where(CLASSES, RANDOM.integers(0, 90, N), 999), "999"),
        (np.where(NOISE > -1, RANDOM.integers(60, 200, N), 0), "0"),
        (RANDOM.integers(-5, 300, N), None),
        (RANDOM.integers(900, 1000, N), None),
        (np.abs(NOISE).round(2), None),
        (RANDOM.poisson(3, N), None),
    ],
    ids=["-1", "-999", "999", "0", "negative integers", "near 999", "positive floats", "counts"],
)
def test_sentinels_are_told_and_kept(values: Sequence[object], sentinel: str | None) -> None:
    warnings = found("sentinel", x=values, z=NOISE, y=CLASSES)
    assert set(warnings) == ({"x"} if sentinel else set())
    if sentinel:
        assert f"--null {sentinel}" in warnings["x"].action
        assert infer_schema(frame(x=values, z=NOISE, y=CLASSES), target="y").column("x").missing == 0


def test_entities_with_several_rows() -> None:
    patients = [1000 + i // 4 for i in range(N)]
    assert set(found("group", patient_id=patients, x=NOISE, y=CLASSES)) == {"patient_id"}
    assert found("group", dose=patients, x=NOISE, y=CLASSES) == {}
    given = infer_schema(frame(patient_id=patients, x=NOISE, y=CLASSES), target="y", group="patient_id")
    assert not any(warning.check == "group" for warning in given.warnings)


def test_rows_in_order_of_time() -> None:
    days = [date(2020, 1, 1) + timedelta(days=i) for i in range(N)]
    assert "--time day" in found("time", day=days, x=NOISE, y=CLASSES)["day"].action
    assert set(found("time", day=days[::-1], x=NOISE, y=CLASSES)) == {"day"}
    assert found("time", day=RANDOM.permutation(np.array(days)).tolist(), x=NOISE, y=CLASSES) == {}


def test_columns_that_nearly_name_the_rows() -> None:
    names = [f"model {i % 400}" for i in range(N)]
    assert set(found("identifier", name=names, x=NOISE, y=CLASSES)) == {"name"}
    assert infer_schema(frame(name=names, x=NOISE, y=CLASSES), target="y").column("name").role == "feature"
    assert found("identifier", colour=[f"c{i % 40}" for i in range(N)], x=NOISE, y=CLASSES) == {}


def test_a_test_file_that_is_otherwise() -> None:
    city = [f"city {i % 7}" for i in range(N)]
    training = frame(x=NOISE, z=RANDOM.normal(size=N), city=city, y=CLASSES)
    schema = infer_schema(training, target="y")
    like = frame(x=RANDOM.normal(size=N), z=RANDOM.normal(size=N), city=city, y=CLASSES)
    assert compare_with_test(training, like, schema) == []
    other = frame(x=NOISE + 3, z=RANDOM.normal(size=N), city=[f"town {i % 7}" for i in range(N)], y=CLASSES)
    warnings = {warning.column: warning for warning in compare_with_test(training, other, schema)}
    assert set(warnings) == {"x", "city"}
    assert "100% of its values there are new" in warnings["city"].message
    assert compare_with_test(training, other.drop("x", "city"), schema) == []


def with_copies() -> tuple[pl.DataFrame, np.ndarray]:
    rows = np.concatenate([np.arange(N), RANDOM.integers(0, N, 200)])
    return pl.DataFrame({"x": NOISE[rows], "y": CLASSES[rows]}), rows


def test_copies_of_a_row_are_never_on_both_sides() -> None:
    table, rows = with_copies()
    groups = copies(table)
    assert groups is not None
    target = table["y"].to_numpy()
    for task, answer in (("binary", target), ("regression", table["x"].to_numpy())):
        fold = make_folds(answer, task, 5, 0, groups=groups)  # type: ignore[arg-type]
        assert all(len(set(fold[rows == row])) == 1 for row in set(rows))
        assert np.bincount(fold).min() > 0.8 * len(rows) / 5
        scored = make_holdout(answer, task, 0.2, 0, groups=groups) == 0  # type: ignore[arg-type]
        assert all(len(set(scored[rows == row])) == 1 for row in set(rows))
        assert 0.15 < scored.mean() < 0.25
        stopping = early_stopping_rows(answer, task, np.arange(len(rows)), 0, groups=groups)  # type: ignore[arg-type]
        assert all(len(set(stopping[rows == row])) == 1 for row in set(rows))
    share = [target[fold == number].mean() for number in range(5)]
    assert max(share) - min(share) < 0.1


def test_copies_are_grouped_only_where_they_are_the_exception() -> None:
    assert copies(pl.DataFrame({"x": [1, 2, 3]})) is None
    assert copies(pl.DataFrame({"x": [1, 2] * 50})) is None
    assert copies(pl.DataFrame({"x": [1, 2, 2]})) is not None
