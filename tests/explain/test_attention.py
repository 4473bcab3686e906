import numpy as np
import pytest

from tabapp.explain.attention import (
    CLS,
    OTHER,
    attention_streams,
    column_combinations,
    column_maps,
    mean_attention,
)
from tabapp.models.contract import AttentionMap, FeatureCombination
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


def test_columns_outside_of_the_attention_are_left_out():
    class OfCategories(LinearModel):
        def attention(self, table):
            shares = np.array([np.nan, np.nan, np.nan, np.nan, 0.75, 0.25], dtype=np.float32)
            return np.tile(shares, (len(table), 1))

    shares = mean_attention(fold_models(model=OfCategories), COLUMNS, seed=0)
    # "absent" has no feature that could be attended to; the numbers have features that cannot be.
    assert {name: each.share for name, each in shares.items()} == {"color": 0.75, "unused": 0.25, "absent": 0}


def test_a_column_that_is_seen_in_part_keeps_its_share():
    class WithoutIndicator(LinearModel):
        def attention(self, table):
            shares = np.array([0.4, 0.1, 0.1, np.nan, 0.3, 0.1], dtype=np.float32)
            return np.tile(shares, (len(table), 1))

    shares = mean_attention(fold_models(model=WithoutIndicator), COLUMNS, seed=0)
    assert shares["strong"].share == pytest.approx(0.4), "of its one feature that is seen"


def test_streams_have_shares_of_their_own():
    class TwoStreams(LinearModel):
        def attention_streams(self, table):
            sums = super().attention(table)
            return {"sums": sums, "products": sums[:, ::-1]}

    folds = fold_models(model=TwoStreams)
    streams = attention_streams(folds, COLUMNS, seed=0)
    assert list(streams) == ["sums", "products"]
    assert streams["sums"] == mean_attention(folds, COLUMNS, seed=0)
    assert streams["products"]["color"].raw == pytest.approx(0.1)
    assert attention_streams(fold_models(), COLUMNS, seed=0) == {}


def test_combinations_are_of_columns_and_counted_over_folds():
    class Combining(LinearModel):
        made = 0

        def __init__(self):
            super().__init__()
            Combining.made += 1
            self.number = Combining.made

        def combinations(self, table):
            # Features 0 and 3 are of the same column.
            found = [FeatureCombination((0, 3, 4), (0.9, 0.8, 0.7)), FeatureCombination((4, 0), (0.6, 0.6))]
            return [*found, FeatureCombination((1, 2), (1.0, 0.5))] if self.number == 2 else found

    found = column_combinations(fold_models(model=Combining), seed=0)
    assert [each.columns for each in found] == [("strong", "color"), ("weak", "noise")]
    assert (found[0].n_found, found[0].n_folds) == (6, 3)
    assert found[0].frequency == pytest.approx(0.7)
    assert (found[1].n_found, found[1].n_folds, found[1].frequency) == (1, 1, 0.75)
    assert column_combinations(fold_models(), seed=0) == []


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
