"""The search for the nearest neighbors of rows among the keys of training rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tabapp.nn.linear import linear

SEARCH_CELLS = {"cpu": 2**23, "cuda": 2**28}
"""Distances held at once in a search or a prediction: 32 MB on a CPU, 1 GB on a GPU."""
MANY_KEYS = 2**15
"""Keys from which reading all distances takes longer on a GPU than starting the operations of two stages."""
GROUP = 16
"""Distances of which the first of two stages keeps the least."""
FEWEST_EXTRA = 32
"""Rows that are nearest in bfloat16 and compared in float32, beyond twice the neighbors."""


def queries_at_once(keys: Tensor) -> int:
    """How many queries to compare with all keys at once."""
    return max(1, SEARCH_CELLS[keys.device.type] // max(1, len(keys)))


def is_slow_on_gpu(n_keys: int, device: torch.device) -> bool:
    """Whether a search among so many keys runs on a GPU and takes longer than starting its operations."""
    return device.type == "cuda" and n_keys >= MANY_KEYS


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


@torch.no_grad()
def nearest_by_bfloat16(queries: Tensor, keys: Tensor, n_nearest: int, *, own: Tensor | None = None) -> Tensor:
    """`nearest`, with matrix products in bfloat16, which a GPU computes ten times as fast as those in float32.

    They select more than twice as many rows, from which exact distances choose. A neighbor is missed only if all of these rows are
    as near up to the rounding of bfloat16, such as in a cluster a thousand times as small as the spread of the keys.
    """
    n_kept = min(len(keys), 2 * n_nearest + FEWEST_EXTRA)
    found = [torch.zeros(0, n_nearest, dtype=torch.int64, device=keys.device)]
    chunk = min(queries_at_once(keys), max(1, SEARCH_CELLS[keys.device.type] // (n_kept * keys.shape[1])))
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys = centered(queries, keys)
        factors = _rounded(keys, is_query=False)
        for start in range(0, len(queries), chunk):
            part = queries[start : start + chunk]
            distance = F.linear(_rounded(part, is_query=True), factors)
            if own is not None:
                distance.scatter_(1, own[start : start + chunk, None], torch.inf)
            kept = smallest(distance, n_kept)
            exact = (F.embedding(kept, keys) - part.unsqueeze(1)).square_().sum(2)
            if own is not None:
                exact.masked_fill_(kept == own[start : start + chunk, None], torch.inf)
            found.append(kept.gather(1, smallest(exact, n_nearest)))
    return torch.cat(found)


def _rounded(rows: Tensor, *, is_query: bool) -> Tensor:
    """bfloat16 factors of queries and keys, whose product q'k' = ‖q‖² - 2qk + ‖k‖² is the squared distance of the rounded rows.

    With the norms of rows before rounding, the error would be relative to the norms instead of the distance. The three parts of a
    norm have the precision of float32. The number of columns is a multiple of eight, which matrix products of a GPU prefer.
    """
    rounded = rows.bfloat16()
    rest = torch.linalg.vector_norm(rounded, dim=1, keepdim=True, dtype=torch.float32).square()
    norm: list[Tensor] = []
    for _ in range(3):
        norm.append(rest.bfloat16())
        rest = rest - norm[-1]
    ones = rounded.new_ones(len(rows), 3)
    zeros = rounded.new_zeros(len(rows), -(rows.shape[1] + 6) % 8)
    return torch.cat([-2 * rounded, ones, *norm, zeros] if is_query else [rounded, *norm, ones, zeros], dim=1)


def smallest(values: Tensor, n: int) -> Tensor:
    """(rows, n) columns of the smallest values of each row, in any order."""
    if is_slow_on_gpu(values.shape[1], values.device) and values.shape[1] >= 4 * GROUP * n:
        return smallest_by_groups(values, n)
    return values.topk(n, dim=1, largest=False, sorted=False).indices


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
