"""The search for nearest neighbors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tabapp.nn.layers import neighbors
from tabapp.nn.layers.neighbors import (
    GROUP,
    SEARCH_CELLS,
    VALUES_PER_FOUND,
    nearest,
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


def test_search_by_groups_finds_the_same_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    keys, own = torch.randn(GROUP * 30 + 3, 8), torch.randperm(GROUP * 30)[:40]
    expected = nearest(keys[own], keys, N_NEAREST, own=own).sort(1).values
    calls: list[int] = []

    def always(values: Tensor, n: int) -> bool:
        calls.append(n)
        return True

    monkeypatch.setattr(neighbors, "prefers_groups", always)
    assert torch.equal(nearest(keys[own], keys, N_NEAREST, own=own).sort(1).values, expected)
    assert calls == [N_NEAREST]


def test_a_cpu_selects_in_one_stage() -> None:
    assert not neighbors.prefers_groups(torch.zeros(1, 10 * VALUES_PER_FOUND), 1)


def distances_of(found: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Squared distances of neighbors in float64, in ascending order."""
    return (keys.double()[found] - queries.double().unsqueeze(1)).square().sum(2).sort(1).values


@pytest.mark.gpu
@pytest.mark.parametrize("n_keys", [VALUES_PER_FOUND * N_NEAREST - 1, VALUES_PER_FOUND * N_NEAREST + 5])
def test_a_gpu_finds_the_same_neighbors(n_keys: int) -> None:
    torch.manual_seed(0)
    keys, own = torch.randn(n_keys, 30), torch.randperm(n_keys)[:100]
    factor = torch.randn(50, 30)
    projected = (keys[own] @ factor.t(), keys @ factor.t())
    expected = nearest(keys[own], keys, N_NEAREST, own=own), nearest(*projected, N_NEAREST, own=own)
    rows, places, matrix = keys.cuda(), own.cuda(), factor.cuda()
    found = [
        nearest(rows[places], rows, N_NEAREST, own=places, metric=metric) for metric in (None, matrix.t() @ matrix)
    ]
    for index, exact, (queries, candidates) in zip(found, expected, [(keys[own], keys), projected], strict=True):
        assert (index.cpu() != own[:, None]).all()
        # Neighbors at equal distances may differ.
        torch.testing.assert_close(
            distances_of(index.cpu(), queries, candidates), distances_of(exact, queries, candidates), rtol=1e-5, atol=0
        )
