"""The search for the nearest neighbors of rows among the keys of training rows."""

from __future__ import annotations

import torch
from torch import Tensor

from tabapp.nn.layers.linear import linear

SEARCH_CELLS = {"cpu": 2**21, "cuda": 2**28}
"""Distances held at once in a search or a prediction: 8 MB on a CPU, 1 GB on a GPU. The C library of Linux keeps a freed block of
at most 32 MB, and so the distances in double precision, for the next operation."""
GROUP = 16
"""Values of which the first of two stages keeps the least."""
VALUES_PER_FOUND = 100
"""Values for each one that is found, from which two stages take no longer than one on an H100: 10,240 distances for 96 neighbors.
It is more than `GROUP`, so that there are enough groups."""


def queries_at_once(keys: Tensor) -> int:
    """How many queries to compare with all keys at once."""
    return max(1, SEARCH_CELLS[keys.device.type] // max(1, len(keys)))


def centered(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float32 and centered at the mean of the keys, which changes no distance."""
    middle = keys.detach().float().mean(0)
    return queries.float() - middle, keys.float() - middle


def squared_distances(queries: Tensor, keys: Tensor) -> Tensor:
    """(n_queries, n_keys) squared Euclidean distances in float32 whatever autocast says, by one matrix product.

    ‖q‖² - 2qk + ‖k‖² loses precision for nearly equal rows far from the origin, so all rows are first centered at the mean
    of the keys. Where exact distances are needed, they are computed from differences instead.
    """
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys = centered(queries, keys)
        products = linear(-2 * queries, keys, keys.square().sum(1))
        return (products + queries.square().sum(1, keepdim=True)).clamp_min(0)


@torch.no_grad()
def nearest(
    queries: Tensor, keys: Tensor, n_nearest: int, *, own: Tensor | None = None, metric: Tensor | None = None
) -> Tensor:
    """(n_queries, n_nearest) indices of the keys nearest to each query, in any order, by chunks of queries.

    Args:
        own: (n_queries,) index of the query itself among the keys, which is excluded.
        metric: (d, d) symmetric matrix M of the squared distance (q - k)ᵀ M (q - k); None for the identity.
    """
    found = [torch.zeros(0, n_nearest, dtype=torch.int64, device=keys.device)]
    chunk = queries_at_once(keys)
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys = centered(queries, keys)
        weighted = keys if metric is None else keys @ metric
        norms = (weighted * keys).sum(1)
        for start in range(0, len(queries), chunk):
            # What a query's own norm adds is the same for all keys.
            distance = linear(-2 * queries[start : start + chunk], weighted, norms)
            if own is not None:
                distance.scatter_(1, own[start : start + chunk, None], torch.inf)
            found.append(smallest(distance, n_nearest))
    return torch.cat(found)


def smallest(values: Tensor, n: int) -> Tensor:
    """(rows, n) columns of the smallest values of each row, in any order."""
    if prefers_groups(values, n):
        return smallest_by_groups(values, n)
    return values.topk(n, dim=1, largest=False, sorted=False).indices


def prefers_groups(values: Tensor, n: int) -> bool:
    """Whether two stages select the n smallest values of each row at least as fast as one."""
    return values.device.type == "cuda" and values.shape[1] >= VALUES_PER_FOUND * n


def smallest_by_groups(values: Tensor, n: int) -> Tensor:
    """`smallest` in two stages: the n smallest values are in the n groups of columns with the smallest minima.

    Selecting from a row reads it several times, computing the minima once.
    """
    n_columns = values.shape[1]
    n_groups = n_columns // GROUP
    n_grouped = n_groups * GROUP
    # Each group has columns far apart, so that neighboring threads read neighboring columns.
    minima = values[:, :n_grouped].unflatten(1, (GROUP, n_groups)).amin(1)
    groups = minima.topk(n, dim=1, largest=False, sorted=False).indices
    members = torch.arange(0, n_grouped, n_groups, device=values.device)
    rest = torch.arange(n_grouped, n_columns, device=values.device).expand(len(values), -1)
    columns = torch.cat([(groups.unsqueeze(2) + members).flatten(1), rest], dim=1)
    return columns.gather(1, values.gather(1, columns).topk(n, dim=1, largest=False, sorted=False).indices)
