"""Repairs of a text table, each with a warning: NUL bytes, header cells, and rows that are not data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.reading.dialect import Dialect
from tabapp.data.schema import DataWarning

Cells = tuple[str | None, ...]
Positions = npt.NDArray[np.uint32]

_MAX_FOOTERS = 5
_MANY_ROWS = 10_000
_TOTAL = r"(?i)^\s*(grand |sub)?(total|sum|summe|gesamt|somme|average|mean|count)s?:?\s*$"
_REMARK = r"(?i)^\s*(\*|source|note|generated|exported|quelle|©|\(c\)|--+ ?end|\d+ rows?\b|end of)"
_COMMA_NUMBER = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+\s*$|^\s*[+-]?\d{1,3}(\.\d{3})+\s*$"


def clean_bytes(data: bytes, warnings: list[DataWarning]) -> bytes:
    """Convert line ends for polars and remove NUL bytes."""
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if (n_nul := data.count(b"\0")) > 0:
        data = data.replace(b"\0", b"")
        message = f"The file contains {n_nul:,} NUL characters."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="removed"))
    return data


def warn_about_header(dialect: Dialect, warnings: list[DataWarning]) -> None:
    """Report a missing header, one of two rows, skipped lines above it, and names that were given."""

    def warn(message: str, action: str) -> None:
        warnings.append(DataWarning(check="repaired_rows", message=message, action=action))

    if not dialect.header:
        warn(
            "The first row contains only numbers, so the file has no header.",
            "columns named column_1 …",
        )
    if dialect.header_lines > 1:
        warn(
            "The header has two rows: the second has no numbers but is above numeric columns.",
            "joined into one name per column",
        )
    if dialect.preamble:
        warn(f"{dialect.preamble} lines come before the table.", "skipped")
    if dialect.renamed:
        named = ", ".join(f"{name!r} (column {number})" for number, name in dialect.renamed[:5])
        more = f" and {len(dialect.renamed) - 5} more" if len(dialect.renamed) > 5 else ""
        warn("Header cells are empty or repeated.", f"named {named}{more}")


def drop_non_data_rows(
    frame: pl.DataFrame, dialect: Dialect, warnings: list[DataWarning], *, at_end: bool = True
) -> pl.DataFrame:
    """Drop comments and repeated headers anywhere, and totals and remarks at the end.

    Args:
        at_end: whether the last row of the frame is the last of the file.
    """
    if frame.height < 2 or frame.width < 2:
        return frame
    # Columns are taken by position and without a name: polars takes names such as "*" for patterns.
    first, second = (frame.to_series(index).alias("") for index in (0, 1))
    comments = _positions(
        frame, first.str.starts_with("#") & second.is_null(), lambda cells, _: cells.is_null(), _is_alone
    )
    copies: Positions = np.zeros(0, dtype=np.uint32)
    if dialect.header:
        names = dialect.names
        like_header = (first.str.strip_chars() == names[0]) & (second.str.strip_chars() == names[1])
        copies = _positions(
            frame,
            like_header,
            lambda cells, index: cells.str.strip_chars() == names[index],
            lambda row: _repeats(row, names),
        )
    for what, positions in (("comments", comments), ("copies of the header", copies)):
        if len(positions):
            message = f"{len(positions):,} rows are {what}."
            warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
    if len(comments) or len(copies):
        keep = np.ones(frame.height, dtype=np.bool_)
        keep[comments] = keep[copies] = False
        frame = frame.filter(pl.Series(keep))
    return _drop_footers(frame, warnings) if at_end else frame


def _positions(
    frame: pl.DataFrame,
    candidates: pl.Series,
    column_belongs: Callable[[pl.Series, int], pl.Series],
    row_belongs: Callable[[Cells], bool],
) -> Positions:
    """The positions of the candidates whose cells pass a test.

    A few rows are tested in Python, which costs less than a query per column of a wide table; many rows by column.

    Args:
        candidates: rows whose first two cells pass.
        column_belongs: the test of each cell of a column, given its index.
        row_belongs: the same test of a whole row.
    """
    found = candidates.fill_null(False).arg_true()
    for index in range(2, frame.width):
        if len(found) <= _MANY_ROWS:
            break
        cells = frame.to_series(index).alias("").gather(found)
        found = found.filter(column_belongs(cells, index).fill_null(False))
    positions: Positions = found.to_numpy()
    if not 0 < len(positions) <= _MANY_ROWS:
        return positions
    return positions[[row_belongs(row) for row in frame[found].iter_rows()]]


def _is_alone(row: Cells) -> bool:
    """Whether all cells but the first are empty."""
    return all(cell is None for cell in row[1:])


def _repeats(row: Cells, names: Sequence[str]) -> bool:
    return all(cell is not None and cell.strip() == name for cell, name in zip(row, names, strict=True))


def _drop_footers(frame: pl.DataFrame, warnings: list[DataWarning]) -> pl.DataFrame:
    """Drop remarks and totals at the end, at most `_MAX_FOOTERS` rows."""
    tail: list[Cells] = frame.tail(_MAX_FOOTERS).rows()
    above = frame.head(max(0, frame.height - _MAX_FOOTERS)).to_series(0).alias("")
    footers = 0
    for row in reversed(tail):
        if not (_is_remark(row) or _is_total(row, above)):
            break
        footers += 1
    if 0 < footers < frame.height:
        text = next(cell for cell in tail[-footers] if cell is not None)
        message = f"The last {footers} rows are totals or remarks ({text[:40]!r})."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
        frame = frame.head(frame.height - footers)
    return frame


def _is_remark(row: Cells) -> bool:
    return row[0] is not None and re.search(_REMARK, row[0]) is not None and _is_alone(row)


def _is_total(row: Cells, above: pl.Series) -> bool:
    """Whether a row begins with a word such as "Total", which no earlier row does.

    The rest of the first column must be numbers or dates, or the row must have missing cells.

    Args:
        above: the first column, without the end of the table.
    """
    if row[0] is None or re.search(_TOTAL, row[0]) is None or above.str.contains(_TOTAL).any():
        return False
    numbers = above.drop_nulls().head(1000).str.contains(r"^\s*[-+]?[\d.,/:-]+\s*$")
    return None in row[1:] or (len(numbers) > 0 and bool(numbers.all()))


def use_decimal_points(frame: pl.DataFrame) -> pl.DataFrame:
    """Rewrite numbers such as 1.234,5 with a decimal point; other cells are unchanged."""
    text = pl.all()
    rewritten = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return frame.with_columns(pl.when(text.str.contains(_COMMA_NUMBER)).then(rewritten).otherwise(text).name.keep())
