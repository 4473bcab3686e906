"""Random thirds of the rows, for a bagged selection: each row is blended with weights that were selected without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.ensemble.blending import Weights, blend

Array = npt.NDArray[Any]

N_BLOCKS, N_PARTS, N_DIVISIONS = 24, 3, 4
"""The blocks of the rows are divided several times, each time into as many bags as parts."""


@dataclass(frozen=True)
class Bags:
    """The rows that weights are selected on.

    Attributes:
        block: (rows,) the block of each row.
        has: (bags, blocks) whether a bag has the rows of a block.
    """

    block: npt.NDArray[np.intp]
    has: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, target: Array, groups: Array | None, seed: int, *, is_classes: bool) -> Bags:
        """Thirds of the blocks, by several random divisions. The rows of a group are in one block, and those of a class without
        groups in all."""
        generator = np.random.default_rng(seed)
        if groups is None:
            noise = generator.random(len(target))
            order = np.lexsort((noise, target)) if is_classes else np.argsort(noise)
            unit = np.empty(len(target), dtype=np.intp)
            unit[order] = np.arange(len(target))
        else:
            _, unit = np.unique(groups, return_inverse=True)
            unit = generator.permutation(unit.max() + 1)[unit]
        n_blocks = min(N_BLOCKS, int(unit.max()) + 1)
        has = np.zeros((N_DIVISIONS, N_PARTS, n_blocks), dtype=np.bool_)
        for division in has:
            for part, blocks in zip(division, np.array_split(generator.permutation(n_blocks), N_PARTS), strict=True):
                part[blocks] = True
        bags = has.reshape(-1, n_blocks)
        return cls(unit % n_blocks, bags[bags.any(axis=1)])

    def rows(self, bag: int) -> npt.NDArray[np.intp]:
        """The rows of a bag."""
        return np.flatnonzero(self.has[bag][self.block])

    def blended(self, candidates: Sequence[Array], weights: Weights) -> Array:
        """Each row, blended with the mean of the weights that were selected on other rows.

        Args:
            weights: (bags, candidates).
        """
        result = np.zeros(candidates[0].shape)
        for block in range(self.has.shape[1]):
            unseen = ~self.has[:, block]
            mean = weights[unseen if unseen.any() else ...].mean(axis=0)
            members, rows = [int(i) for i in np.flatnonzero(mean)], np.flatnonzero(self.block == block)
            result[rows] = blend([candidates[i][rows] for i in members], mean[members])
        return result
