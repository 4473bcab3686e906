"""Corruption and deletion of stored rows, and maps of weights, with models whose use of rows is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tabapp.explain.between_rows.changes import corrupted_predictions, delete_rows, kept_distances, predictions_from_few
from tabapp.explain.between_rows.folds import FoldRows, differences, distances, spread
from tabapp.explain.between_rows.maps import NEAREST, averaged_map, measure
from tabapp.features.arrays import MISSING, Table
from tabapp.models.contract import Floats, RowWeights, StoredRows


class KernelRows(StoredRows):
    """The mean target of stored rows, weighted by similarity; a share `own` of the prediction is the row's first feature."""

    def __init__(self, known: Table, own: float = 0.0, sharpness: float = 50.0, source=None) -> None:
        self.known, self.own, self.sharpness = known, own, sharpness
        self.source = np.arange(len(known)) if source is None else source

    def weights(self, table: Table) -> list[RowWeights]:
        close = np.exp(-self.sharpness * distances(table, self.known)) + 1e-12
        one = (close / close.sum(axis=1, keepdims=True)).astype(np.float32)
        equal = np.full_like(one, 1 / len(self))
        return [RowWeights("layer 1", np.stack([one, one])), RowWeights("layer 3", np.stack([one, equal]))]

    def predict(self, table: Table) -> Floats:
        said = self.weights(table)[0].heads[0].astype(np.float64) @ self.known.target
        return (1 - self.own) * said + self.own * table.numeric[:, 0]

    def take(self, rows) -> KernelRows:
        return KernelRows(self.known.take(rows), self.own, self.sharpness, self.source[rows])

    def permuted(self, seed: int) -> KernelRows:
        generator = np.random.default_rng(seed)
        numeric = generator.permuted(self.known.numeric, axis=0)
        changed = replace(self.known, numeric=numeric, target=generator.permutation(self.known.target))
        return KernelRows(changed, self.own, self.sharpness)


def table_of(n_rows: int, seed: int) -> Table:
    """Two features of which the target is a wave."""
    numeric = np.random.default_rng(seed).uniform(size=(n_rows, 2)).astype(np.float32)
    return Table(numeric, np.empty((n_rows, 0), np.int32), np.sin(6 * numeric[:, 0]) + numeric[:, 1].astype(float))


def fold_of(own: float, n_stored: int = 200, n_asked: int = 40) -> FoldRows:
    known, table = table_of(n_stored, 0), table_of(n_asked, 1)
    rows = np.arange(n_stored, n_stored + n_asked)
    return FoldRows(KernelRows(known, own), known, table, table.take(slice(0, 1)), rows, np.arange(n_stored))


@pytest.mark.parametrize(("own", "uses_rows"), [(0.0, True), (1.0, False)])
def test_corruption_changes_only_what_depends_on_other_rows(own: float, uses_rows: bool) -> None:
    fold = fold_of(own)
    plain = fold.stored.predict(fold.table)
    first, second = (corrupted_predictions(fold.stored, fold.table, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    change = differences(plain, first).mean() / spread(plain)
    assert change > 0.5 if uses_rows else change < 1e-9
    grouped = corrupted_predictions(fold.stored, fold.table, seed=3, together=7)
    assert len(grouped) == len(plain)
    assert (differences(plain, grouped).mean() > 0) == uses_rows


def test_corruption_ends_at_its_deadline_with_the_first_rows() -> None:
    fold = fold_of(0.0)
    assert len(corrupted_predictions(fold.stored, fold.table, seed=0, together=10, deadline=0.0)) == 10


def test_deletion_leaves_the_rows_that_matter() -> None:
    fold = fold_of(0.0)
    row = fold.table.take(slice(0, 1))
    left = delete_rows(fold.stored, row, 1.0, seed=0)
    assert left is not None
    assert 1 <= len(left) < 60
    near, random, deleted = kept_distances(left, distances(row, fold.known)[0], seed=0)
    assert near < min(random, deleted) / 2
    assert delete_rows(fold.stored, row, 1.0, seed=0, deadline=0.0) is None
    few = delete_rows(fold.stored, row, 1.0, seed=0, most_tries=20)
    assert few is not None
    assert len(few) >= 180


def test_deletion_leaves_two_percent_where_rows_do_not_matter() -> None:
    fold = fold_of(1.0, 100)
    left = delete_rows(fold.stored, fold.table.take(slice(0, 1)), 1.0, seed=0)
    assert left is not None
    assert len(left) == 2
    alone = fold_of(1.0, 1)
    assert len(delete_rows(alone.stored, alone.table.take(slice(0, 1)), 1.0, seed=0)) == 1
    near, random, deleted = kept_distances(np.array([0]), np.array([2.0]), seed=0)
    assert (near, random) == (2.0, 2.0)
    assert np.isnan(deleted)


def test_rows_with_the_largest_weights_suffice() -> None:
    fold = fold_of(0.0)
    plain = fold.stored.predict(fold.table)
    changes = np.array(
        [
            [abs(each[0][0] - plain[i]) for each in predictions_from_few(fold, i, [0.1], seed=0)]
            for i in range(len(fold))
        ]
    )
    assert changes[:, 0].mean() < 0.2 * changes[:, 1].mean()


def test_weights_are_compared_with_distances() -> None:
    fold = fold_of(0.0)
    found = measure([fold])
    on_nearest, chance = np.mean(found.on_nearest, axis=0), np.mean(found.chance, axis=0)
    np.testing.assert_allclose(chance, NEAREST, atol=0.005)
    # One of four heads has equal weights.
    assert on_nearest[NEAREST.index(0.2)] == pytest.approx(0.75 * 1 + 0.25 * 0.2, abs=0.03)
    assert on_nearest[-1] == pytest.approx(1, abs=1e-5)
    assert np.mean(found.by_head["layer 1"]) > 10
    assert np.mean(found.by_head["layer 3"], axis=0)[1] == pytest.approx(1)
    assert np.mean(found.common) > 0.9
    cells = averaged_map(found.groups[""], found.place)
    assert cells.shape == (20, 20)
    np.testing.assert_allclose(cells.mean(axis=1), 1, atol=1e-4)
    assert cells.diagonal().mean() > 2
    for each in found.linked:
        assert [link.rank for link in each.nearest] == [1, 2, 3]
        assert each.row >= 200
        assert each.weighty[0].weight >= each.weighty[1].weight


def test_two_stored_rows_and_one_held_out_row() -> None:
    found = measure([fold_of(0.0, n_stored=2, n_asked=1)])
    assert averaged_map(found.groups[""], found.place).shape == (1, 1)
    assert np.isfinite(np.array(found.on_nearest)).all()
    assert found.common == [1.0]


def test_distances_leave_out_missing_cells() -> None:
    one = Table(np.array([[1.0, np.nan]], np.float32), np.array([[2, MISSING]], np.int32))
    other = Table(np.array([[3.0, 5.0], [1.0, 5.0]], np.float32), np.array([[3, 2], [2, 3]], np.int32))
    assert distances(one, other).tolist() == [[5.0, 0.0]]


def test_differences_of_probabilities_are_their_total_variation() -> None:
    one, other = np.array([[0.2, 0.8], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(differences(one, other), [0.3, 1.0])
    assert spread(np.array([[0.5, 0.5]] * 3)) == 0.0
    assert spread(np.array([])) == 0.0
