"""The search for nearest neighbors, in float32 and in bfloat16."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tabapp.nn import neighbors
from tabapp.nn.neighbors import (
    FEWEST_EXTRA,
    GROUP,
    SEARCH_CELLS,
    nearest,
    nearest_by_bfloat16,
    smallest_by_groups,
    squared_distances,
)

N_NEAREST = 24


def test_distances_equal_float64_far_from_the_origin() -> None:
    torch.manual_seed(0)
    keys = 100 + torch.randn(300, 20)
    queries = torch.cat([keys[:5] + 1e-3, 100 + torch.randn(5, 20)])
    exact = torch.cdist(queries.double(), keys.double()).square()
    torch.testing.assert_close(squared_distances(queries, keys).double(), exact, atol=2e-5, rtol=1e-5)


def test_search_excludes_the_row_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    keys = torch.randn(100, 8)
    own = torch.randperm(100)[:30]
    exact = torch.cdist(keys[own], keys).scatter(1, own[:, None], torch.inf)
    expected = exact.argsort(1)[:, :7].sort(1).values
    assert torch.equal(nearest(keys[own], keys, 7, own=own).sort(1).values, expected)
    monkeypatch.setitem(SEARCH_CELLS, "cpu", 400)
    assert torch.equal(nearest(keys[own], keys, 7, own=own).sort(1).values, expected)


def test_search_by_a_metric_equals_the_search_among_projected_rows() -> None:
    torch.manual_seed(0)
    rows, factor, own = 5 + torch.randn(300, 6), torch.randn(20, 6), torch.arange(40)
    expected = nearest(rows[own] @ factor.t(), rows @ factor.t(), 9, own=own).sort(1).values
    found = nearest(rows[own], rows, 9, own=own, metric=factor.t() @ factor)
    assert torch.equal(found.sort(1).values, expected)
    assert not torch.equal(nearest(rows[own], rows, 9, own=own).sort(1).values, expected)


@pytest.mark.parametrize("n_columns", [GROUP * 50, GROUP * 50 + 1, GROUP * 51 - 1])
def test_smallest_values_are_found_by_groups(n_columns: int) -> None:
    torch.manual_seed(0)
    values = torch.randn(30, n_columns)
    values[:10, :-5] += 4.0
    values[:, 7] = torch.inf
    expected = values.topk(20, largest=False).indices.sort(1).values
    assert torch.equal(smallest_by_groups(values, 20).sort(1).values, expected)


def clusters(spread: float, n_clusters: int = 20) -> Tensor:
    """2,000 rows of 40 columns around centers at a distance of about nine."""
    return torch.randn(n_clusters, 40).repeat(2000 // n_clusters, 1) + spread * torch.randn(2000, 40)


def distances_of(found: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Squared distances of neighbors in float64, in ascending order."""
    return (keys.double()[found] - queries.double().unsqueeze(1)).square().sum(2).sort(1).values


@pytest.mark.parametrize(
    "table", ["normal", "far from the origin", "low rank", "clusters", "small clusters", "repeated"]
)
def test_bfloat16_finds_the_neighbors(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    keys = {
        "normal": torch.randn(2000, 40),
        "far from the origin": 300 + torch.randn(2000, 40),
        "low rank": torch.randn(2000, 3) @ torch.randn(3, 40),
        "clusters": clusters(0.2),
        "small clusters": clusters(0.02),
        "repeated": torch.randn(100, 40).repeat(20, 1),
    }[table]
    own = torch.randperm(2000)[:50]
    monkeypatch.setitem(SEARCH_CELLS, "cpu", 17 * 2000)
    found = nearest_by_bfloat16(keys[own], keys, N_NEAREST, own=own)
    assert not (found == own[:, None]).any()
    assert all(len(set(row)) == N_NEAREST for row in found.tolist())
    exact = torch.cdist(keys[own].double(), keys.double()).square().scatter(1, own[:, None], torch.inf)
    farthest = exact.topk(N_NEAREST, largest=False).values.max(1, keepdim=True).values
    # Up to a rounding error of the exact distances themselves.
    is_neighbor = exact.gather(1, found) <= farthest + 1e-6 * keys.double().var(0).sum()
    assert is_neighbor.double().mean() >= 0.999


def test_bfloat16_misses_only_neighbors_that_are_hardly_nearer() -> None:
    """The clusters are larger than the rows that are compared, and smaller than bfloat16 can resolve."""
    torch.manual_seed(0)
    keys, queries = clusters(0.001, n_clusters=5), clusters(0.001, n_clusters=5)[:50]
    assert 2 * N_NEAREST + FEWEST_EXTRA < 2000 // 5
    found, exact = nearest_by_bfloat16(queries, keys, N_NEAREST), nearest(queries, keys, N_NEAREST)
    excess = distances_of(found, queries, keys) - distances_of(exact, queries, keys)
    # A value x is rounded by at most x / 512, and so is a distance.
    assert excess.max() < 2 * (1 / 512) ** 2 * 40 + distances_of(exact, queries, keys).max() / 256


@pytest.mark.parametrize("n_keys", [N_NEAREST, N_NEAREST + 1, 2 * N_NEAREST])
def test_bfloat16_search_among_few_keys(n_keys: int) -> None:
    torch.manual_seed(0)
    keys, queries = torch.randn(n_keys, 5), torch.randn(7, 5)
    found = nearest_by_bfloat16(queries, keys, N_NEAREST)
    assert torch.equal(found.sort(1).values, nearest(queries, keys, N_NEAREST).sort(1).values)
    own = torch.arange(n_keys)
    found = nearest_by_bfloat16(keys, keys, n_keys - 1, own=own)
    assert torch.equal(found.sort(1).values, nearest(keys, keys, n_keys - 1, own=own).sort(1).values)


@pytest.mark.gpu
@pytest.mark.parametrize("n_keys", [neighbors.MANY_KEYS - 1, neighbors.MANY_KEYS + 5])
def test_a_gpu_finds_the_same_neighbors(n_keys: int) -> None:
    torch.manual_seed(0)
    keys, own = torch.randn(n_keys, 30), torch.randperm(n_keys)[:100]
    factor = torch.randn(50, 30)
    projected = (keys[own] @ factor.t(), keys @ factor.t())
    expected = nearest(keys[own], keys, N_NEAREST, own=own), nearest(*projected, N_NEAREST, own=own)
    rows, places, matrix = keys.cuda(), own.cuda(), factor.cuda()
    found = [search(rows[places], rows, N_NEAREST, own=places) for search in (nearest, nearest_by_bfloat16)]
    found.append(nearest(rows[places], rows, N_NEAREST, own=places, metric=matrix.t() @ matrix))
    for index, exact, (queries, candidates) in zip(
        found, (expected[0], *expected), [(keys[own], keys)] * 2 + [projected], strict=True
    ):
        assert (index.cpu() != own[:, None]).all()
        # Neighbors at equal distances may differ.
        torch.testing.assert_close(
            distances_of(index.cpu(), queries, candidates), distances_of(exact, queries, candidates), rtol=1e-5, atol=0
        )
