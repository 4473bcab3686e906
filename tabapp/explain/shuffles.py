"""Which shuffles of columns are done before a deadline: first those that tell most about the most important columns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from joblib import Parallel, delayed

BLOCK = 20
"""Columns that take turns: as many as a summary lists."""
RELIABLE = 0.8
"""Rank correlation of two shuffles of the same columns from which one shuffle of a column suffices."""

Turn = tuple[int, int]
"""Position of a column, and number of its shuffle."""

_Result = TypeVar("_Result")


def run_shuffles(
    shuffle: Callable[[int, int], _Result],
    effect: Callable[[_Result], float],
    order: Sequence[int],
    n_repeats: int,
    *,
    n_jobs: int,
    deadline: float | None,
) -> dict[Turn, _Result]:
    """The results of `n_repeats` shuffles of each column, or of those that start before the deadline.

    Every column is shuffled once before any is shuffled again, and those with the largest effects are the first that are shuffled
    again. There is an exception for tables with many columns and few rows, on which the error of a shuffle is larger than most
    effects: among hundreds of columns that are shuffled once, the largest values are mostly error. So if the time does not suffice
    for one shuffle of every column, the most promising ones are shuffled twice. If the ranks of their two effects differ, all
    shuffles of a block of columns are done before those of the next.

    Args:
        shuffle: called in threads with the position of a column and the number of its shuffle.
        effect: the size of the effect in a result; may be NaN.
        order: positions of the columns, the most promising first.
        deadline: `time.monotonic()` after which no further shuffle starts.
    """
    end = math.inf if deadline is None else deadline
    done: dict[Turn, _Result] = {}

    def in_time(turn: Turn) -> tuple[Turn, _Result] | None:
        return None if time.monotonic() > end else (turn, shuffle(*turn))

    def run(turns: Sequence[Turn]) -> None:
        left = [turn for turn in turns if turn not in done]
        results = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(in_time)(turn) for turn in left)
        done.update(each for each in results if each is not None)

    def effect_of(turn: Turn) -> float:
        return effect(done[turn]) if turn in done else math.nan

    def first_effect(index: int) -> float:
        found = effect_of((index, 0))
        return -math.inf if math.isnan(found) else found

    def agree() -> bool:
        """Whether two shuffles of the most promising columns rank them alike; also if nothing shows that they do not."""
        run([(index, 1) for index in first if n_repeats > 1])
        effects = [[effect_of((index, repeat)) for repeat in range(2)] for index in first]
        return not _rank_correlation(effects) < RELIABLE

    first, others = order[:BLOCK], order[BLOCK:]
    started = time.monotonic()
    run([(index, 0) for index in first])
    now = time.monotonic()
    if others and (now + len(others) * (now - started) / len(first) <= end or agree()):
        run([(index, 0) for index in others])
        order = sorted(order, key=first_effect, reverse=True)
    run(list(_in_blocks(order, n_repeats)))
    return done


def _rank_correlation(pairs: Sequence[Sequence[float]]) -> float:
    """Spearman's rank correlation of the pairs without NaN; NaN if there are fewer than three of them or one side is constant."""
    known = np.array(pairs)
    known = known[np.isfinite(known).all(axis=1)]
    if len(known) < 3 or (np.ptp(known, axis=0) == 0).any():
        return math.nan
    ranks = pl.from_numpy(known).select(pl.all().rank()).to_numpy()
    return float(np.corrcoef(ranks, rowvar=False)[0, 1])


def _in_blocks(order: Sequence[int], n_repeats: int) -> Iterator[Turn]:
    for start in range(0, len(order), BLOCK):
        for repeat in range(n_repeats):
            for index in order[start : start + BLOCK]:
                yield index, repeat
