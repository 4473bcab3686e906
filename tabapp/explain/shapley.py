"""Shapley values of one prediction: how much each column moves the output from the mean over reference rows.

The game of a row x and a reference row b gives a set of columns the output for the row that has these columns from x and the
others from b (Štrumbelj and Kononenko: "Explaining prediction models and individual predictions with feature contributions", KAIS
41, 2014; Lundberg and Lee, NeurIPS 2017). The values of x are the means over the reference rows. A game is enumerated if it has few
columns in which x and b differ. Otherwise, its values are means over random permutations, each with its reverse (Mitchell, Cooper,
Frank, Holmes: "Sampling Permutations for Shapley Value Estimation", JMLR 23, 2022, section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import polars as pl

Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Output = Callable[[pl.DataFrame], Float64]
"""The output for typed rows, (rows,)."""

PAIRS = 3
"""Permutations with their reverses that each round adds to a game; 2 if there are many columns."""
MANY_COLUMNS = 50
CELLS_AT_ONCE = 4_000_000
"""Cells of the rows whose outputs are computed together."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Effort:
    """How exact the values are.

    Attributes:
        enumerated: games are enumerated if they need at most this many outputs together.
        tolerance: rounds of permutations end when the largest error is at most this, in units of the output.
        evaluations: and no round starts after this many outputs.
    """

    enumerated: int = 4_096
    tolerance: float = 0.01
    evaluations: int = 8_192


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of one row.

    Attributes:
        base: mean output of the reference rows; base plus the sum of the values is the output.
        output: the output for the row.
        values: (columns,) in units of the output.
        errors: (columns,) half-widths of the Monte-Carlo intervals that hold for all columns at once in 95 % of samples; 0 where
            every game was enumerated.
        evaluations: number of outputs that were computed.
    """

    base: float
    output: float
    values: Float64
    errors: Float64
    evaluations: int


@dataclass
class _Game:
    """The game of the row and one reference row.

    Attributes:
        reference: position of the reference row.
        columns: positions of the columns in which both rows differ; all others have the value 0.
        outputs: output by coalition, a bit mask over `columns`.
        estimates: (columns,) values by each permutation with its reverse.
    """

    reference: int
    columns: npt.NDArray[np.intp]
    outputs: dict[int, float]
    is_enumerated: bool
    estimates: list[Float64] = field(default_factory=list[Float64])

    @property
    def full(self) -> int:
        return (1 << len(self.columns)) - 1

    def enumerate(self) -> Float64:
        """The exact values, from the outputs of all coalitions."""
        n = len(self.columns)
        coalitions = np.arange(self.full + 1)
        outputs = np.array([self.outputs[coalition] for coalition in range(self.full + 1)])
        sizes = np.bitwise_count(coalitions).astype(np.int64)
        weights = np.array([1 / (n * comb(n - 1, size)) for size in range(n)])
        values = np.empty(n)
        for column in range(n):
            without = coalitions[coalitions >> column & 1 == 0]
            values[column] = weights[sizes[without]] @ (outputs[without | 1 << column] - outputs[without])
        return values

    def along(self, order: npt.NDArray[np.intp]) -> Float64:
        """(columns,) the change of the output as each column is added in this order."""
        values = np.empty(len(order))
        coalition = 0
        for column in order.tolist():
            larger = coalition | 1 << column
            values[column] = self.outputs[larger] - self.outputs[coalition]
            coalition = larger
        return values


def shapley_values(
    output: Output,
    row: pl.DataFrame,
    reference: pl.DataFrame,
    columns: Sequence[str | tuple[str, ...]],
    *,
    reference_outputs: Float64 | None = None,
    effort: Effort = Effort(),
    seed: int = 0,
) -> ShapleyValues:
    """Shapley values of the columns for one row.

    The result depends on the row, the reference rows and the seed only, so a row has the same values in every table.

    Args:
        row: one typed row.
        reference: at least one typed row with the same columns.
        columns: names of the columns that get a value, or groups of them that get one together.
        reference_outputs: (reference rows,) their outputs if they are known.

    Raises:
        ValueError: there is no reference row.
    """
    if not reference.height:
        raise ValueError("Shapley values need a reference row")
    units = [(column,) if isinstance(column, str) else column for column in columns]
    stacked = pl.concat([reference, row])
    if reference_outputs is None:
        both = output(stacked)
        reference_outputs, own = both[:-1], float(both[-1])
    else:
        own = float(output(row)[0])
    games = _games(stacked, units, reference_outputs, own, effort)
    generator = np.random.default_rng(seed)
    n_evaluated = _evaluate(output, stacked, units, _enumerated(games))
    sampled = [game for game in games if not game.is_enumerated]
    n_pairs = PAIRS if len(columns) <= MANY_COLUMNS else 2
    while sampled:
        orders = [(game, [generator.permutation(len(game.columns)) for _ in range(n_pairs)]) for game in sampled]
        wanted = [
            (game, _coalitions(both)) for game, drawn in orders for order in drawn for both in (order, order[::-1])
        ]
        n_evaluated += _evaluate(output, stacked, units, wanted)
        for game, drawn in orders:
            game.estimates += [(game.along(order) + game.along(order[::-1])) / 2 for order in drawn]
        if _errors(games, len(columns)).max() <= effort.tolerance or n_evaluated >= effort.evaluations:
            break
    values = np.zeros(len(columns))
    for game in games:
        if len(game.columns):
            values[game.columns] += game.enumerate() if game.is_enumerated else np.mean(game.estimates, axis=0)
    return ShapleyValues(
        base=float(reference_outputs.mean()),
        output=own,
        values=values / len(games),
        errors=_errors(games, len(columns)),
        evaluations=n_evaluated,
    )


def _games(
    stacked: pl.DataFrame, units: Sequence[Sequence[str]], reference_outputs: Float64, own: float, effort: Effort
) -> list[_Game]:
    """A game for each reference row; the last of the stacked rows is the explained one."""
    n_reference = stacked.height - 1
    differs = np.zeros((n_reference, len(units)), dtype=bool)
    for position, unit in enumerate(units):
        for cells in map(stacked.get_column, unit):
            own_cell = cells[-1:].extend_constant(cells[-1], n_reference - 1)
            differs[:, position] |= cells[:-1].ne_missing(own_cell).to_numpy()
    games: list[_Game] = []
    for index in range(n_reference):
        active = np.flatnonzero(differs[index])
        outputs = {0: float(reference_outputs[index]), (1 << len(active)) - 1: own}
        if not len(active):
            outputs = {0: own}
        games.append(_Game(index, active, outputs, (1 << len(active)) * n_reference <= max(effort.enumerated, 4)))
    return games


def _enumerated(games: Sequence[_Game]) -> list[tuple[_Game, list[int]]]:
    return [(game, list(range(game.full + 1))) for game in games if game.is_enumerated]


def _coalitions(order: npt.NDArray[np.intp]) -> list[int]:
    """The coalitions that adding columns in this order passes through."""
    return np.cumsum(1 << order.astype(object)).tolist()


def _evaluate(
    output: Output, stacked: pl.DataFrame, units: Sequence[Sequence[str]], wanted: Sequence[tuple[_Game, list[int]]]
) -> int:
    """Compute the outputs of coalitions that are not known yet; returns their number."""
    missing: dict[tuple[int, int], _Game] = {}
    for game, coalitions in wanted:
        for coalition in coalitions:
            if coalition not in game.outputs:
                missing[game.reference, coalition] = game
    if not missing:
        return 0
    found = list(missing.items())
    n_rows = max(1, CELLS_AT_ONCE // stacked.width)
    for start in range(0, len(found), n_rows):
        part = found[start : start + n_rows]
        rows = _mixed_rows(stacked, units, [(game, coalition) for (_, coalition), game in part])
        for ((_, coalition), game), value in zip(part, output(rows).tolist(), strict=True):
            game.outputs[coalition] = value
    return len(missing)


def _mixed_rows(
    stacked: pl.DataFrame, units: Sequence[Sequence[str]], wanted: Sequence[tuple[_Game, int]]
) -> pl.DataFrame:
    """Rows with the columns of a coalition from the explained row and the others from the reference row of the game."""
    own = stacked.height - 1
    source = np.repeat(np.array([game.reference for game, _ in wanted])[:, None], len(units), axis=1)
    for line, (game, coalition) in enumerate(wanted):
        source[line, [column for bit, column in enumerate(game.columns.tolist()) if coalition >> bit & 1]] = own
    position = {name: index for index, unit in enumerate(units) for name in unit}
    everywhere = np.full(len(wanted), own)
    return pl.DataFrame(
        [
            cells.gather(source[:, position[cells.name]] if cells.name in position else everywhere)
            for cells in stacked.get_columns()
        ]
    )


def _errors(games: Sequence[_Game], n_columns: int) -> Float64:
    """(columns,) half-widths of simultaneous 95 % intervals (Bonferroni). Games are sampled independently of each other."""
    variance = np.zeros(n_columns)
    for game in games:
        if len(game.estimates) > 1:
            variance[game.columns] += np.var(game.estimates, axis=0, ddof=1) / len(game.estimates)
    quantile = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / max(1, n_columns))
    return quantile * np.sqrt(variance) / len(games)
