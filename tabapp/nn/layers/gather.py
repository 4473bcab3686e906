"""Categorical columns by a number of operations that does not depend on the number of columns.

On a GPU, starting an operation takes longer than a lookup. On a CPU, lookups by column need less memory traffic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NO_CODE = -1


_by_column: ContextVar[bool] = ContextVar("by_column", default=False)


def starts_operations_slowly(device: torch.device) -> bool:
    """Whether starting an operation takes longer than a lookup."""
    return device.type != "cpu"


def is_preferred(codes: Tensor) -> bool:
    """Whether to gather all columns at once rather than one by one."""
    return starts_operations_slowly(codes.device) and not _by_column.get()


@contextmanager
def lookups_by_column() -> Generator[None]:
    """Use one lookup for each column on every device, as integrated gradients need: they cannot see the lookups of a gather."""
    token = _by_column.set(True)
    try:
        yield
    finally:
        _by_column.reset(token)


def one_hot(classes: Tensor, n_classes: int) -> Tensor:
    """(rows, n_classes) float32 from (rows,) class codes, without waiting for the device to check them."""
    return (classes.unsqueeze(1) == torch.arange(n_classes, device=classes.device)).float()


class EmbeddingGather:
    """Embeddings of columns whose tables differ in length and width.

    Args:
        columns: positions of the columns among all categorical columns.
        cardinalities, widths: rows and columns of each table.
    """

    def __init__(self, columns: Sequence[int], cardinalities: Sequence[int], widths: Sequence[int]) -> None:
        self._columns, self._cardinalities, self._widths = tuple(columns), tuple(cardinalities), tuple(widths)
        self._indices: dict[torch.device, tuple[Tensor, Tensor, Tensor, Tensor]] = {}

    def __call__(self, embeddings: Iterable[nn.Module], codes: Tensor) -> Tensor:
        """(rows, sum of widths): the embeddings of the columns side by side.

        Args:
            embeddings: an `nn.Embedding` for each column.
            codes: (rows, n) codes of all categorical columns.
        """
        column, start, cell, kept = self._indices_on(codes.device)
        tables = [embedding.weight for embedding in embeddings if isinstance(embedding, nn.Embedding)]
        # The last value fills the rows of narrow tables.
        values = torch.cat([*(table.flatten() for table in tables), tables[0].new_zeros(1)])
        rows = F.embedding(codes.index_select(1, column) + start, values[cell])
        return rows.flatten(1).index_select(1, kept)

    def _indices_on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The columns, the first row of each table among all rows, the position of each cell of the joined table among all
        values, and the cells of a row that are not padding."""
        if device not in self._indices:
            widest = max(self._widths)
            place = torch.arange(widest)
            n_values = sum(c * w for c, w in zip(self._cardinalities, self._widths, strict=True))
            cells: list[Tensor] = []
            starts: list[int] = []
            kept: list[Tensor] = []
            first_value = first_row = 0
            for i, (cardinality, width) in enumerate(zip(self._cardinalities, self._widths, strict=True)):
                inside = first_value + width * torch.arange(cardinality)[:, None] + place
                cells.append(torch.where(place < width, inside, n_values))
                kept.append(widest * i + place[:width])
                starts.append(first_row)
                first_value, first_row = first_value + cardinality * width, first_row + cardinality
            indices = torch.tensor(self._columns), torch.tensor(starts), torch.cat(cells), torch.cat(kept)
            column, start, cell, keep = (index.to(device) for index in indices)
            self._indices[device] = column, start, cell, keep
        return self._indices[device]


class OneHotGather:
    """One-hot columns: 1 where a column has a level, -1 where it has another, else 0.

    Args:
        columns: the categorical column of each output column.
        levels: its code.
        opposites: the code of the value -1; `NO_CODE` for none.
    """

    def __init__(self, columns: Sequence[int], levels: Sequence[int], opposites: Sequence[int] | None = None) -> None:
        self._columns, self._levels = tuple(columns), tuple(levels)
        self._opposites = None if opposites is None or set(opposites) <= {NO_CODE} else tuple(opposites)
        self._indices: dict[torch.device, tuple[Tensor, ...]] = {}

    def __call__(self, codes: Tensor) -> Tensor:
        """(rows, number of output columns) float32 from the (rows, n) codes of all categorical columns."""
        if codes.device not in self._indices:
            parts = (self._columns, self._levels, *(() if self._opposites is None else (self._opposites,)))
            self._indices[codes.device] = tuple(
                torch.tensor(part, dtype=torch.int64, device=codes.device) for part in parts
            )
        column, level, *opposite = self._indices[codes.device]
        chosen = codes.index_select(1, column)
        ones = (chosen == level).float()
        return ones - (chosen == opposite[0]).float() if opposite else ones
