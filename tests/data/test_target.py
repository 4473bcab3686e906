"""Choice of the target and the task, and the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.errors import DataError, UsageError
from tests.data.test_infer import NUMBERS, N, cycle, frame


def with_target(values: Sequence[object], name: str = "outcome", **options: object) -> Schema:
    n = len(values)
    x = np.random.default_rng(0).normal(size=n).tolist()
    return infer_schema(frame(x=x, **{name: values}), target=name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        (["a", "b", "c"], "c"),
        (["Survived", "b", "sex"], "Survived"),
        (["a", "target", "c"], "target"),
        (["a", "b", "is_canceled", "c"], "is_canceled"),
        (["species", "b", "sex"], "species"),
        (["depth", "price", "x", "y", "z"], "price"),
        (["x", "y", "z"], "z"),
        (["y", "x1", "x2"], "y"),
        (["median_income", "median_house_value", "near"], "median_house_value"),
        (["Class", "a", "b"], "Class"),
        (["a", "income", "price"], "price"),
        (["workclass", "b", "bracket"], "bracket"),
        (["risk_class", "b", "bracket"], "risk_class"),
        (["home_score", "away", "Year"], "away"),
        (["lat", "longitude"], "longitude"),
    ],
)
def test_default_target_is_plausible(columns: list[str], target: str) -> None:
    generator = np.random.default_rng(0)
    table = frame(**{name: generator.integers(0, 3, N).tolist() for name in columns})
    schema = infer_schema(table)
    assert schema.target == target
    assert schema.target_reason.endswith(".")
    assert schema.column(target).role == "target"


def test_unsuitable_columns_are_not_the_default_target() -> None:
    table = frame(
        x=NUMBERS, group=cycle("a", "b", "c"), when=cycle("2024-01-02", "2024-01-03"), id=range(N), one=cycle("x")
    )
    assert infer_schema(table).target == "group"
    with pytest.raises(DataError, match="no column can be predicted"):
        infer_schema(frame(id=range(N), one=cycle("x")))


@pytest.mark.parametrize(
    ("values", "name", "task"),
    [
        (cycle("a", "b"), "t", "binary"),
        (cycle(1, 2), "t", "binary"),
        (cycle(0.5, 1.5), "t", "binary"),
        (cycle("a", "b", "c"), "t", "multiclass"),
        (cycle(0, 1, 2), "t", "multiclass"),
        (cycle("0.0", "1.0", "2.0"), "t", "multiclass"),
        (cycle(*range(7), n=4000), "cover_type", "multiclass"),
        (cycle(*range(7), n=4000), "quality", "regression"),
        (cycle(*range(9), n=60), "t", "regression"),
        (cycle(*range(25), n=4000), "t", "regression"),
        (cycle(0.5, 1.25, 2, 3), "t", "regression"),
        (NUMBERS, "t", "regression"),
        (list(range(N)), "t", "regression"),
        ([f"${1000 + 7 * i:,}" for i in range(N)], "t", "regression"),
    ],
)
def test_inferred_task(values: Sequence[object], name: str, task: str) -> None:
    schema = with_target(values, name)
    assert schema.task == task
    assert schema.task_reason.endswith(".")
    assert bool(schema.classes) == (task != "regression")


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (cycle("no", "yes", "yes"), ("no", "yes")),
        (cycle("Yes", "No"), ("No", "Yes")),
        (cycle(0, 1, 1), ("0", "1")),
        (cycle("1.0", "0.0", "1.0"), ("0.0", "1.0")),
        (cycle(-1, 1, 1), ("-1", "1")),
        (cycle("'1'", "'-1'", "'1'"), ("'-1'", "'1'")),
        (cycle(1, 2, 1), ("1", "2")),
        (cycle(1, 2, 2), ("2", "1")),
        (cycle(" <=50K", " >50K", " >50K"), ("<=50K", ">50K")),
        (cycle("true", "false"), ("false", "true")),
        (cycle("benign", "malignant", "malignant"), ("benign", "malignant")),
        (cycle("ham", "spam", "spam"), ("ham", "spam")),
        (cycle("cat", "dog", "cat"), ("cat", "dog")),
        (cycle("cat", "dog", "dog"), ("dog", "cat")),
        (cycle("+", "-", "-"), ("-", "+")),
        (cycle("none", "some"), ("none", "some")),
        (cycle("None", "Mild", "Severe"), ("Mild", "None", "Severe")),
        (cycle("10", "9", "2"), ("2", "9", "10")),
    ],
)
def test_classes_keep_their_spelling_with_the_positive_class_last(
    values: Sequence[object], classes: tuple[str, ...]
) -> None:
    schema = with_target(values)
    assert schema.classes == classes
    assert schema.rows_without_target == 0


def test_positive_option() -> None:
    assert with_target(cycle("no", "yes"), positive="no").classes == ("yes", "no")
    with pytest.raises(UsageError, match="two classes"):
        with_target(cycle("a", "b", "c"), positive="a")


def test_two_spellings_of_a_number_are_one_class() -> None:
    schema = with_target(["1", "1", "0.0", *cycle("1.0", "0.0", "2.0", n=57)])
    assert schema.classes == ("0.0", "1.0", "2.0")


def test_rows_without_a_target_are_counted() -> None:
    schema = with_target([*cycle("a", "b", n=40), *cycle("", "NA", "?", n=20)])
    assert (schema.rows, schema.rows_without_target) == (40, 20)
    numbers = with_target([*NUMBERS, "?", "inf", "n/a"])
    assert (numbers.rows, numbers.rows_without_target) == (N, 3)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (cycle("a"), {}, "says 'a' in every row"),
        (cycle(""), {}, "is missing in every row"),
        (cycle("a", "b", n=19), {}, "only 19 rows"),
        ([*cycle("a", "b", n=10), *cycle("", n=50)], {}, "only 10 rows have a target (50 more have no target)"),
        (cycle("a", "b"), {"task": "regression"}, "text"),
        (cycle("a", "b", "c"), {"task": "binary"}, "3 distinct values"),
        (NUMBERS, {"task": "multiclass"}, "too many"),
        ([f"key{i}" for i in range(N)], {}, "too many"),
        (cycle("2024-01-02", "2024-01-03"), {}, "dates"),
    ],
)
def test_unsuitable_targets_are_rejected(values: Sequence[object], options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        with_target(values, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_target_is_rejected() -> None:
    with pytest.raises(DataError, match="did you mean 'Outcome'"):
        infer_schema(frame(x=NUMBERS, Outcome=cycle("a", "b")), target="outcom")


def test_task_option() -> None:
    assert with_target(cycle(1, 2, 3), task="regression").task == "regression"
    assert with_target(cycle(1, 2), task="regression").task == "regression"
    assert with_target(cycle(0, 1), task="regression").task == "regression"
    assert with_target(cycle(*range(9)), task="multiclass").task == "multiclass"
    assert with_target(cycle("a", "b"), task="multiclass").task == "binary"
    assert with_target(cycle(1, 2, 3), kinds={"outcome": "numeric"}).task == "regression"


@pytest.mark.parametrize(
    ("load", "task"),
    [
        (load_iris, "multiclass"),
        (load_wine, "multiclass"),
        (load_breast_cancer, "binary"),
        (load_diabetes, "regression"),
    ],
)
def test_datasets_of_scikit_learn(load, task: str) -> None:
    table = load(as_frame=True).frame
    texts = pl.DataFrame({name: pl.Series([repr(float(v)) for v in table[name]]) for name in table.columns})
    schema = infer_schema(texts)
    assert (schema.target, schema.task) == ("target", task)
    assert len(schema.features) == table.shape[1] - 1
