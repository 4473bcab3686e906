import numpy as np
import pytest

from tabapp.explain.attention import CLS, OTHER, column_maps, mean_attention
from tabapp.models.contract import AttentionMap
from tests.explain.models import COLUMNS, LinearModel, WithoutAttention, fold_models


def test_features_of_a_column_are_summed_and_shares_sum_to_one():
    shares = mean_attention(fold_models(), COLUMNS, seed=0)
    assert shares is not None
    assert sum(each.share for each in shares.values()) == pytest.approx(1)
    assert sum(each.raw for each in shares.values()) == pytest.approx(1)
    assert shares["strong"].raw == pytest.approx(0.6)
    # Per feature: 0.3 for the two of strong, and 0.1, 0.05, 0.2 and 0.05 for the others.
    assert shares["strong"].share == pytest.approx(0.3 / 0.7)
    assert shares["color"].share == pytest.approx(0.2 / 0.7)
    assert shares["absent"].share == 0
    assert tuple(shares) == COLUMNS
    assert all(each.low == pytest.approx(each.share, abs=1e-6) for each in shares.values())


def test_intervals_are_over_folds():
    class Drifting(LinearModel):
        made = 0

        def __init__(self):
            super().__init__()
            Drifting.made += 1
            self.shift = 0.02 * Drifting.made

        def attention(self, table):
            return super().attention(table) + np.array([self.shift, 0, 0, 0, 0, 0], dtype=np.float32)

    shares = mean_attention(fold_models(model=Drifting), COLUMNS, seed=0)
    assert shares["strong"].low < shares["strong"].share < shares["strong"].high


def test_shares_of_the_requested_columns_sum_to_one():
    shares = mean_attention(fold_models(), ["strong", "weak"], seed=0, max_rows=50)
    assert {name: each.raw for name, each in shares.items()} == {
        "strong": pytest.approx(6 / 7),
        "weak": pytest.approx(1 / 7),
    }
    assert {name: each.share for name, each in shares.items()} == {
        "strong": pytest.approx(3 / 4),
        "weak": pytest.approx(1 / 4),
    }


def test_model_without_attention_has_none():
    assert mean_attention(fold_models(model=WithoutAttention), COLUMNS, seed=0) is None


def test_maps_are_between_columns():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(7), size=(2, 7)).astype(np.float32)

    class Mapped(LinearModel):
        def attention_maps(self, table):
            places = (-1, *range(6))
            return [AttentionMap("layer 1", places, places, weights)]

    (found,), n_rows = column_maps(fold_models(model=Mapped), COLUMNS, seed=0, max_rows=90)
    assert n_rows == 90
    assert found.keys == found.queries == (CLS, "noise", "weak", "strong", "color", "unused")
    np.testing.assert_allclose(found.heads.sum(axis=2), 1, atol=1e-6)
    # The two features of strong are at places 1 and 4 of the tokens.
    assert found.heads[1, 0, 3] == pytest.approx(weights[1, 0, 1] + weights[1, 0, 4])
    assert found.heads[0, 3, 1] == pytest.approx((weights[0, 1, 3] + weights[0, 4, 3]) / 2)
    assert found.chance.tolist() == pytest.approx([1 / 7, 1 / 7, 1 / 7, 2 / 7, 1 / 7, 1 / 7])
    assert OTHER not in found.keys
    assert not found.spread.any(), "all folds attend equally"
    assert column_maps(fold_models(), COLUMNS, seed=0)[0] == [], "models without maps have none"


def test_prompts_are_one_query_and_the_target_is_named():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(7), size=(1, 3)).astype(np.float32)

    class Mapped(LinearModel):
        def attention_maps(self, table):
            return [AttentionMap("layer 1", (-2, -2, 0), (-3, *range(6)), weights, "mask")]

    (found,), _ = column_maps(fold_models(model=Mapped), COLUMNS, seed=0)
    assert (found.queries, found.keys[0], found.kind) == (("[prompts]", "strong"), "[target]", "mask")
    assert found.heads[0, 0, 0] == pytest.approx(weights[0, :2, 0].mean())
