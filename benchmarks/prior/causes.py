"""Structural causal models of random functions, many tables at once.

A model has root nodes and layers of nodes. A node is a function of few or many nodes of the previous layer and of the roots: an
activation of a linear combination, a sum of oblivious trees, or a product. Every node has noise. Linear models, additive models,
multi-layer networks, forests and rules with interactions are all cases of this model.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.prior.draws import Draws, rows_of, standardized

ROOT_KINDS = (4.0, 2.0, 1.0, 1.0, 2.0, 2.0)
"""Weights of normal, uniform, heavy-tailed, skewed, discrete and clustered roots."""
ACTIVATIONS = (4.0, 3.0, 3.0, 0.7, 0.5, 1.0, 0.7, 0.6, 0.4, 0.7)
"""Weights of the activations in the order of `_activated`."""
MOST_LEVELS, MOST_CLUSTERS = 8, 6
DEEPEST_TREE, TREES = 4, 2


class Nodes(NamedTuple):
    """The nodes of many causal models.

    Attributes:
        values: (tables, rows, nodes) standardized values; roots first, then layer by layer.
        layer: (nodes,) layer of each node; 0 for roots.
        used: (tables, nodes) whether a table's model has the node.
        depth: (tables,) number of layers, at least 1.
    """

    values: Tensor
    layer: Tensor
    used: Tensor
    depth: Tensor


def causal_nodes(draws: Draws, n_tables: int, n_rows: int, *, width: int, most_roots: int, most_layers: int) -> Nodes:
    """Values of all nodes of `n_tables` random models for `n_rows` independent rows, with `width` nodes a layer."""
    depth = draws.choice([1.0 / layer for layer in range(1, most_layers + 1)], n_tables) + 1
    n_roots = draws.log_integers(n_tables, low=2, high=min(most_roots, width))
    root_used = torch.arange(width, device=draws.device) < n_roots.unsqueeze(1)
    roots = _roots(draws, n_tables, n_rows, width) * rows_of(root_used)
    noise = draws.log_uniform(n_tables, 1, low=1e-3, high=0.3)
    # Nodes of one table mostly share an activation, a density and a share of trees.
    shared = draws.choice(ACTIVATIONS, n_tables, 1)
    own = draws.chance(draws.uniform(n_tables, 1) ** 2, n_tables, width)
    tree_share = draws.choice((0.5, 0.2, 0.3), n_tables, 1)
    tree_share = torch.where(tree_share == 1, 1.0, torch.where(tree_share == 0, 0.0, draws.uniform(n_tables, 1)))
    density = draws.log_uniform(n_tables, 1, 1, low=1.0 / width, high=1.0)
    values, used, layers = [roots], [root_used], [0]
    previous, alive = roots, root_used
    for layer in range(1, most_layers + 1):
        parents = torch.where(rows_of(draws.chance(0.25, n_tables, width) & root_used), roots, previous)
        alive = (parents.abs().sum(1) > 0) if layer == 1 else torch.ones_like(root_used)
        linear = _linear(draws, parents, alive, density)
        kinds = torch.where(own, draws.choice(ACTIVATIONS, n_tables, width), shared)
        nodes = _activated(linear * rows_of(draws.log_uniform(n_tables, width, low=0.3, high=1.5)), kinds)
        nodes = torch.where(rows_of(draws.chance(tree_share, n_tables, width)), _trees(draws, parents, alive), nodes)
        nodes = torch.where(rows_of(draws.chance(0.08, n_tables, width)), nodes * linear.roll(1, 2), nodes)
        nodes = standardized(nodes)
        nodes = nodes + rows_of(noise * draws.log_uniform(n_tables, width, low=0.3, high=2.0)) * draws.normal(
            *nodes.shape
        )
        values.append(nodes)
        used.append((depth >= layer).unsqueeze(1).expand(n_tables, width))
        layers.append(layer)
        previous = nodes
    layer_of_node = torch.tensor(layers, device=draws.device).repeat_interleave(width)
    return Nodes(torch.cat(values, 2), layer_of_node, torch.cat(used, 1), depth)


def _roots(draws: Draws, n_tables: int, n_rows: int, width: int) -> Tensor:
    """(tables, rows, width) independent or clustered roots."""
    shape = (n_tables, n_rows, width)
    normal, uniform = draws.normal(*shape), draws.uniform(*shape)
    shared = draws.choice(ROOT_KINDS, n_tables, 1)
    kinds = torch.where(draws.chance(0.5, n_tables, 1), shared, draws.choice(ROOT_KINDS, n_tables, width))
    heavy = normal / uniform.clamp(min=1e-2).sqrt()
    skewed = (normal * rows_of(draws.uniform(n_tables, width, low=0.3, high=1.2))).exp()
    n_levels = rows_of(draws.log_integers(n_tables, width, low=2, high=MOST_LEVELS))
    level = (uniform ** rows_of(draws.log_uniform(n_tables, width, low=0.5, high=2.0)) * n_levels).long()
    level_values = draws.normal(n_tables, MOST_LEVELS, width)
    discrete = level_values.gather(1, level.clamp(max=MOST_LEVELS - 1))
    n_clusters = draws.integers(n_tables, 1, low=2, high=MOST_CLUSTERS)
    cluster = (draws.uniform(n_tables, n_rows) * n_clusters).long()
    centers = draws.normal(n_tables, MOST_CLUSTERS, width) * rows_of(draws.uniform(n_tables, width, low=0.5, high=3.0))
    clustered = centers.gather(1, cluster.unsqueeze(2).expand(shape)) + normal
    chosen = normal
    for kind, values in enumerate((uniform, heavy, skewed, discrete, clustered), 1):
        chosen = torch.where(rows_of(kinds == kind), values, chosen)
    return standardized(chosen)


def _linear(draws: Draws, parents: Tensor, alive: Tensor, density: Tensor) -> Tensor:
    """Standardized sparse linear combinations of the parents, one for each node, and a bias."""
    n_tables, _, width = parents.shape
    kept = draws.chance(density, n_tables, width, width)
    # Every node has at least one parent.
    first = draws.uniform(n_tables, width, width).masked_fill_(~alive.unsqueeze(2), -1.0).argmax(1, keepdim=True)
    weights = draws.normal(n_tables, width, width) * kept.scatter_(1, first, True)
    return standardized(parents @ weights) + rows_of(0.7 * draws.normal(n_tables, width))


def _activated(x: Tensor, kinds: Tensor) -> Tensor:
    """The activation of each node."""
    bounded = x.clamp(-4, 4)
    results = (
        torch.tanh(x),
        F.relu(x),
        x.abs(),
        x.square(),
        torch.sin(2 * x),
        torch.exp(-x.square()),
        torch.sign(x),
        torch.round(x),
        torch.exp(bounded),
    )
    chosen = x
    for kind, values in enumerate(results, 1):
        chosen = torch.where(rows_of(kinds == kind), values, chosen)
    return chosen


def _trees(draws: Draws, parents: Tensor, alive: Tensor) -> Tensor:
    """Sums of `TREES` oblivious trees for each node. A tree compares up to `DEEPEST_TREE` parents with a value that occurs in the
    table; its leaves are random numbers, or 1 and -1 by the parity of the comparisons.
    """
    n_tables, n_rows, width = parents.shape
    n_trees = width * TREES
    feature = torch.multinomial(
        alive.float().clamp(min=1e-9), n_trees * DEEPEST_TREE, replacement=True, generator=draws.generator
    )
    threshold_row = draws.integers(n_tables, 1, low=0, high=n_rows - 1)
    # Thresholds come from a few rows of each table.
    sampled = (threshold_row + torch.arange(17, device=draws.device)) % n_rows
    candidates = parents.gather(1, sampled.unsqueeze(2).expand(-1, -1, width))
    which = draws.integers(n_tables, 1, n_trees * DEEPEST_TREE, low=0, high=16)
    threshold = candidates.gather(2, feature.unsqueeze(1).expand(-1, 17, -1)).gather(1, which)
    depth = draws.integers(n_tables, n_trees, low=1, high=DEEPEST_TREE).view(n_tables, 1, TREES, width)
    leaf = torch.zeros(n_tables, n_rows, TREES, width, dtype=torch.long, device=draws.device)
    feature = feature.view(n_tables, DEEPEST_TREE, n_trees)
    threshold = threshold.view(n_tables, 1, DEEPEST_TREE, n_trees)
    for level in range(DEEPEST_TREE):
        chosen = parents.gather(2, feature[:, level].unsqueeze(1).expand(-1, n_rows, -1))
        above = (chosen > threshold[:, :, level]).view(n_tables, n_rows, TREES, width)
        leaf += (above & (depth > level)).long() << level
    leaves = draws.normal(n_tables, 2**DEEPEST_TREE, n_trees)
    bits = torch.arange(2**DEEPEST_TREE, device=draws.device)
    parity = sum((bits >> level) & 1 for level in range(DEEPEST_TREE))
    signs = (1.0 - 2.0 * (parity % 2)).view(1, -1, 1).expand_as(leaves)
    leaves = torch.where(rows_of(draws.chance(0.15, n_tables, n_trees)), signs, leaves)
    return leaves.gather(1, leaf.view(n_tables, n_rows, n_trees)).view(n_tables, n_rows, TREES, width).sum(2)
