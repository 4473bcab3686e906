"""Different spellings of one class or category are named, and stay different."""

from __future__ import annotations

import pytest

from tests.data.checks.tables import NOISE, N, found


def cycle(*texts: str) -> list[str]:
    return [texts[i % len(texts)] for i in range(N)]


def test_spellings_of_a_class_are_named() -> None:
    warning = found("similar_levels", x=NOISE, y=cycle("cat", "dog", "Cat", "bird", "cat"))["y"]
    assert warning.message == (
        "2 of 4 classes differ from another only in case, spaces or punctuation, such as 'Cat' (120), 'cat' (240)."
    )
    assert warning.action.startswith("kept as different classes; ")


@pytest.mark.parametrize(
    "pair", [("New York", "new  york"), ("self-employed", "self_employed"), ("<=50K", "<=50K."), ("GmbH", "Gmbh")]
)
def test_spellings_of_a_category_are_named(pair: tuple[str, str]) -> None:
    warnings = found("similar_levels", shop=cycle(*pair, "other", "none of these"), y=NOISE)
    assert warnings["shop"].message.startswith("2 of 4 levels ")


@pytest.mark.parametrize(
    "levels", [("A+", "A", "A-"), ("1.5", "15", "x"), ("red", "reds", "re d."), ("<10", ">10", "10 "), ("é", "e", "ee")]
)
def test_other_levels_are_not_named(levels: tuple[str, ...]) -> None:
    assert not found("similar_levels", shop=cycle(*levels), y=NOISE)


def test_spellings_of_truth_values_are_one_level() -> None:
    assert not found("similar_levels", x=NOISE, y=cycle("Yes", "no", "yes", "NO"))
