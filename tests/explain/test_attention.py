import pytest

from tabapp.explain.attention import mean_attention
from tests.explain.models import COLUMNS, WithoutAttention, fold_models


def test_features_of_a_column_are_summed_and_shares_sum_to_one():
    shares = mean_attention(fold_models(), COLUMNS, seed=0)
    assert shares is not None
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["strong"] == pytest.approx(0.6)
    assert shares["color"] == pytest.approx(0.2)
    assert shares["absent"] == 0
    assert tuple(shares) == COLUMNS


def test_shares_of_the_requested_columns_sum_to_one():
    shares = mean_attention(fold_models(), ["strong", "weak"], seed=0, max_rows=50)
    assert shares == {"strong": pytest.approx(6 / 7), "weak": pytest.approx(1 / 7)}


def test_model_without_attention_has_none():
    assert mean_attention(fold_models(model=WithoutAttention), COLUMNS, seed=0) is None
