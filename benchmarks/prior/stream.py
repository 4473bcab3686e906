"""Batches of the prior: a function of a seed and a step, so that a resumed training sees the same tables."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import torch
from tabapp_plugins.prior_fitted.network import Size, encode
from torch import Tensor

from benchmarks.prior.draws import Draws
from benchmarks.prior.tables import make_tables

ROWS, ROW_WEIGHTS = (128, 256, 512, 1024), (0.15, 0.25, 0.3, 0.3)
FEWEST_COLUMNS, MOST_COLUMNS = 2, 60
SHAPES, SLICES = 4, 8
"""Shapes of tables in a round, and batches of each shape, which are made together."""


class Batch(NamedTuple):
    """Tables of one shape for a training step.

    Attributes:
        cells: encoded cells of context rows and then query rows.
        labels: (tables, rows) classes; the first `n_context` are known to the network.
    """

    cells: Tensor
    labels: Tensor
    n_context: int


class Stream:
    """The batches of a seed.

    Args:
        tokens: tokens of a batch, about.
    """

    def __init__(self, seed: int, size: Size, tokens: int, device: torch.device, most_rows: int = ROWS[-1]) -> None:
        self._seed, self._size, self._tokens, self._device, self._most_rows = seed, size, tokens, device, most_rows
        self._round, self._batches = -1, list[Batch]()

    def batch(self, step: int) -> Batch:
        """The batch of a step, from 0."""
        index, position = divmod(step, SHAPES * SLICES)
        if index != self._round:
            groups = [self._shape(index * SHAPES + i) for i in range(SHAPES)]
            # The shapes alternate.
            self._batches = [group[i] for i in range(SLICES) for group in groups]
            self._round = index
        return self._batches[position]

    def _shape(self, index: int) -> list[Batch]:
        chance = random.Random(f"{self._seed} {index}")
        n_rows = min(chance.choices(ROWS, ROW_WEIGHTS)[0], self._most_rows)
        n_columns = int(math.exp(chance.uniform(math.log(FEWEST_COLUMNS), math.log(MOST_COLUMNS + 1))))
        n_context = int(n_rows * chance.uniform(0.4, 0.92))
        tokens_of_table = n_rows * (math.ceil(n_columns / self._size.group) + 1)
        n_tables = max(1, round(self._tokens / tokens_of_table))
        draws = Draws(chance.getrandbits(62), self._device)
        tables = make_tables(n_tables * SLICES, n_rows, n_columns, draws)
        cells = encode(tables.values, tables.categorical, n_context)
        return [
            Batch(c, y, n_context) for c, y in zip(cells.split(n_tables), tables.labels.split(n_tables), strict=True)
        ]
