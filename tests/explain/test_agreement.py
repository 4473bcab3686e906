import pytest

from tabapp.explain.agreement import agreement, combine
from tabapp.explain.attention import AttentionShare
from tabapp.explain.permutation import ColumnImportance, PermutationImportance


def permutation(**means):
    columns = tuple(ColumnImportance(name, mean, mean - 0.1, mean + 0.1, 5) for name, mean in means.items())
    return PermutationImportance(columns, 100, 0.9)


def shares(values):
    return None if values is None else {name: AttentionShare(each, each, each, each) for name, each in values.items()}


def test_rows_are_sorted_by_permutation_and_carry_attention():
    rows = combine(permutation(a=0.1, b=0.5, c=0.1), shares({"a": 0.2, "b": 0.7, "c": 0.1}))
    assert [row.feature for row in rows] == ["b", "a", "c"]
    assert [row.attention for row in rows] == [0.7, 0.2, 0.1]
    assert (rows[0].low, rows[0].high) == (pytest.approx(0.4), pytest.approx(0.6))


def test_agreement_is_the_rank_correlation():
    importances = permutation(a=0.1, b=0.5, c=0.3, d=0.0)
    same_order = {"a": 0.2, "b": 0.4, "c": 0.3, "d": 0.1}
    assert agreement(combine(importances, shares(same_order))) == pytest.approx(1)
    assert agreement(combine(importances, shares({k: -v for k, v in same_order.items()}))) == pytest.approx(-1)
    # One swap of adjacent ranks among four: 1 - 6·2 / (4·15).
    assert agreement(combine(importances, shares({"a": 0.3, "b": 0.4, "c": 0.2, "d": 0.1}))) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "attention", [None, {"a": 0.5, "b": 0.5, "c": 0.5}], ids=["no attention", "nothing above anything"]
)
def test_agreement_with_constant_attention_is_none(attention):
    assert agreement(combine(permutation(a=0.1, b=0.5, c=0.3), shares(attention))) is None


def test_agreement_needs_three_columns():
    assert agreement(combine(permutation(a=0.1, b=0.5), shares({"a": 0.4, "b": 0.6}))) is None
