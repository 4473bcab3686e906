"""The prior: synthetic classification tables, many of one shape at once, on any device.

The columns and the target are nodes of random causal models (see `causes`). Columns are then distorted, rounded, turned into
categories, replaced by noise and emptied in part. The target becomes 2 to 10 classes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.prior.causes import Nodes, causal_nodes
from benchmarks.prior.draws import Draws, rows_of, standardized

MOST_CLASSES = 10
WIDTH, MOST_LAYERS = 32, 5
MOST_LEVELS = 16


class Tables(NamedTuple):
    """Tables of one shape.

    Attributes:
        values: (tables, rows, columns) float32 numbers and codes of categories, NaN for missing cells.
        categorical: (tables, columns) whether a column holds codes.
        labels: (tables, rows) classes from 0; every class up to the largest occurs.
    """

    values: Tensor
    categorical: Tensor
    labels: Tensor

    @property
    def n_classes(self) -> Tensor:
        """(tables,) number of classes."""
        return self.labels.amax(1) + 1


def make_tables(n_tables: int, n_rows: int, n_columns: int, draws: Draws) -> Tables:
    """Random tables; rows are independent and identically distributed."""
    nodes = causal_nodes(draws, n_tables, n_rows, width=WIDTH, most_roots=n_columns + 2, most_layers=MOST_LAYERS)
    target, columns, found = _chosen_nodes(draws, nodes, n_columns)
    labels = _labels(draws, nodes, target)
    values = nodes.values.gather(2, columns.unsqueeze(1).expand(-1, n_rows, -1))
    values = _with_irrelevant(draws, values, found)
    values, categorical = _discretized(draws, _distorted(draws, values))
    return Tables(_with_missing(draws, values), categorical, labels)


def _chosen_nodes(draws: Draws, nodes: Nodes, n_columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """The node of each table's target, (tables, columns) nodes of its columns, and whether the model has these nodes.

    In most tables, roots come first as columns, and the target is of the last layer: a function of the columns. In the
    others, columns and target are any nodes, so that columns can be effects of the target.
    """
    n_tables, n_nodes = nodes.used.shape
    last = nodes.layer == nodes.depth.unsqueeze(1)
    function = draws.chance(0.6, n_tables, 1)
    eligible = torch.where(function | draws.chance(0.4, n_tables, 1), last, nodes.used & (nodes.layer > 0))
    scores = draws.uniform(n_tables, n_nodes)
    target = scores.masked_fill(~eligible, -1.0).argmax(1)
    scores = draws.uniform(n_tables, n_nodes) + (function & (nodes.layer == 0))
    scores = scores.masked_fill(~nodes.used, -1.0).scatter(1, target.unsqueeze(1), -1.0)
    top = scores.topk(n_columns, dim=1)
    order = draws.permutations(n_tables, n_columns)
    return target, top.indices.gather(1, order), top.values.gather(1, order) >= 0


def _labels(draws: Draws, nodes: Nodes, target: Tensor) -> Tensor:
    """(tables, rows) classes: intervals of the target node, or the largest of several noisy nodes."""
    n_tables, n_rows, n_nodes = nodes.values.shape
    n_classes = torch.where(draws.chance(0.5, n_tables), 2, draws.log_integers(n_tables, low=2, high=MOST_CLASSES))
    exists = torch.arange(MOST_CLASSES, device=draws.device) < n_classes.unsqueeze(1)
    # Small powers of uniform numbers give classes of similar size, large powers give rare classes.
    shares = draws.uniform(n_tables, MOST_CLASSES, low=0.02) ** draws.log_uniform(n_tables, 1, low=0.1, high=2.5)
    shares = (shares * exists) / (shares * exists).sum(1, keepdim=True)
    values = nodes.values.gather(2, target.view(-1, 1, 1).expand(-1, n_rows, 1)).squeeze(2)
    noise = torch.where(draws.chance(0.5, n_tables, 1), draws.log_uniform(n_tables, 1, low=0.05, high=1.5), 0.0)
    values = values + noise * draws.normal(n_tables, n_rows)
    limits = (shares.cumsum(1)[:, :-1] * n_rows).long().clamp(max=n_rows - 1)
    limits = values.sort(1).values.gather(1, limits).masked_fill(~exists[:, 1:], float("inf"))
    intervals = torch.searchsorted(limits, values.contiguous())
    scores = draws.uniform(n_tables, n_nodes).masked_fill_(nodes.layer != nodes.depth.unsqueeze(1), -1.0)
    parts = scores.topk(MOST_CLASSES, dim=1).indices
    logits = nodes.values.gather(2, parts.unsqueeze(1).expand(-1, n_rows, -1))
    logits = logits + rows_of(shares.clamp(min=1e-9).log()) * 0.5
    noise = torch.where(draws.chance(0.5, n_tables, 1), 0.0, draws.log_uniform(n_tables, 1, low=0.05, high=0.8))
    gumbel = -(-draws.uniform(*logits.shape).clamp_(1e-6, 1 - 1e-6).log()).log()
    largest = (logits + rows_of(noise) * gumbel).masked_fill_(rows_of(~exists), float("-inf")).argmax(2)
    labels = torch.where(draws.chance(0.7, n_tables, 1), intervals, largest)
    flipped = draws.chance(
        torch.where(draws.chance(0.25, n_tables, 1), draws.uniform(n_tables, 1, high=0.25), 0.0), *labels.shape
    )
    labels = torch.where(flipped, (draws.uniform(n_tables, n_rows) * n_classes.unsqueeze(1)).long(), labels)
    # Names of classes say nothing about their order.
    names = draws.uniform(n_tables, MOST_CLASSES).masked_fill_(~exists, 2.0).argsort(1)
    return _without_gaps(names.gather(1, labels), values)


def _without_gaps(labels: Tensor, values: Tensor) -> Tensor:
    """Labels from 0 without gaps. A table of one class gets two, the halves of its target node."""
    n_tables, n_rows = labels.shape
    halves = (values.argsort(1).argsort(1) >= n_rows // 2).long()
    labels = torch.where((labels == labels[:, :1]).all(1, keepdim=True), halves, labels)
    occurs = torch.zeros(n_tables, MOST_CLASSES, dtype=torch.long, device=labels.device).scatter_(1, labels, 1)
    return (occurs.cumsum(1) - 1).gather(1, labels)


def _with_irrelevant(draws: Draws, values: Tensor, found: Tensor) -> Tensor:
    """Columns that the model does not have, and some others, get values without a relation to the rows: noise, or the column's
    own values in another order.
    """
    n_tables, n_rows, n_columns = values.shape
    share = torch.where(draws.chance(0.5, n_tables, 1), draws.uniform(n_tables, 1, high=0.5), 0.0)
    shuffled = draws.chance(share, n_tables, n_columns)
    order = draws.permutations(n_tables, n_rows).unsqueeze(2).expand(-1, -1, n_columns)
    values = torch.where(rows_of(shuffled), values.gather(1, order), values)
    return torch.where(rows_of(found), values, draws.normal(*values.shape))


def _distorted(draws: Draws, values: Tensor) -> Tensor:
    """Margins as of measured quantities: unchanged, skewed, heavy-tailed, bounded or cut off."""
    n_tables, _, n_columns = values.shape
    strength = rows_of(draws.uniform(n_tables, n_columns, low=0.3, high=1.3))
    x = standardized(values)
    bounded = x.clamp(-5, 5)
    kinds = draws.choice((6.0, 1.5, 1.0, 1.0, 0.7), n_tables, n_columns)
    kinds = torch.where(draws.chance(0.4, n_tables, 1), 0, kinds)
    results = (
        torch.exp(strength * bounded),
        torch.sign(x) * torch.expm1(strength * bounded.abs()),
        torch.erf(x * 0.7),
        x.clamp(min=rows_of(draws.normal(n_tables, n_columns) * 0.5)),
    )
    chosen = x
    for kind, distorted in enumerate(results, 1):
        chosen = torch.where(rows_of(kinds == kind), distorted, chosen)
    return chosen * rows_of(draws.choice((1.0, 1.0), n_tables, n_columns) * 2 - 1)


def _discretized(draws: Draws, values: Tensor) -> tuple[Tensor, Tensor]:
    """Some columns rounded to few levels, in order or, as categories, with codes in any order; which are categories."""
    n_tables, n_rows, n_columns = values.shape
    share = draws.choice((0.45, 0.1, 0.45), n_tables, 1)
    share = torch.where(share == 0, 0.0, torch.where(share == 1, 1.0, draws.uniform(n_tables, 1)))
    categorical = draws.chance(share, n_tables, n_columns)
    ordered = draws.chance(
        torch.where(draws.chance(0.5, n_tables, 1), draws.uniform(n_tables, 1), 0.05), n_tables, n_columns
    )
    n_levels = draws.log_integers(n_tables, n_columns, low=2, high=MOST_LEVELS)
    rows = draws.integers(n_tables, MOST_LEVELS - 1, n_columns, low=0, high=n_rows - 1)
    limits = values.gather(1, rows).transpose(1, 2)
    unused = torch.arange(1, MOST_LEVELS, device=draws.device) >= n_levels.unsqueeze(2)
    limits = limits.masked_fill(unused, float("inf")).sort(2).values
    level = torch.searchsorted(limits, values.transpose(1, 2).contiguous())
    names = draws.uniform(n_tables, n_columns, MOST_LEVELS).masked_fill_(
        torch.arange(MOST_LEVELS, device=draws.device) >= n_levels.unsqueeze(2), 2.0
    )
    codes = names.argsort(2).gather(2, level).transpose(1, 2).float()
    values = torch.where(rows_of(ordered), level.transpose(1, 2).float(), values)
    return torch.where(rows_of(categorical), codes, values), categorical


def _with_missing(draws: Draws, values: Tensor) -> Tensor:
    """In a quarter of the tables, some columns have missing cells: at random, or mostly the large values."""
    n_tables, _, n_columns = values.shape
    has = draws.chance(0.25, n_tables, 1) & draws.chance(draws.uniform(n_tables, 1), n_tables, n_columns)
    rate = rows_of(draws.uniform(n_tables, n_columns) ** 2 * 0.6 * has)
    large = (values > values.mean(1, keepdim=True)) & rows_of(draws.chance(0.3, n_tables, n_columns))
    missing = draws.chance(torch.where(large, (1.6 * rate).clamp(max=0.95), rate), *values.shape)
    return values.masked_fill(missing, float("nan"))
