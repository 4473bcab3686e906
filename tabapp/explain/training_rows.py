"""The values of the training rows on which predictions rest, from the training file: bundles do not contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tabapp.data.schema import Schema

if TYPE_CHECKING:
    from tabapp.explain.rows import NeighborLike


def training_cells(neighbor: NeighborLike, training: pl.DataFrame, schema: Schema) -> dict[str, str | None] | None:
    """The cells of a training row by feature column, as text.

    None if the file has no such row with the same target: it is not the file that the models were trained on.

    Args:
        training: the training file as text.
    """
    if neighbor.row >= training.height or schema.target not in training.columns:
        return None
    cells = training.row(neighbor.row, named=True)
    if not _is_same(cells[schema.target], neighbor.target):
        return None
    return {column.name: cells.get(column.name) for column in schema.inputs}


def _is_same(cell: str | None, target: str | float) -> bool:
    if cell is None or isinstance(target, str):
        return cell is not None and cell.strip() == str(target).strip()
    try:
        value = float(cell)
    except ValueError:
        return False
    # Targets are stored with the precision of their text or of 32 bits.
    return abs(value - target) <= 1e-6 * max(1.0, abs(target))
