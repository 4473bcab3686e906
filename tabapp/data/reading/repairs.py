"""Repairs of a text table, each with a warning: NUL bytes, header cells, and rows that are not data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.limits import MemoryLimit
from tabapp.data.reading.dialect import Dialect
from tabapp.data.reading.footers import Footers
from tabapp.data.reading.headers import is_ruler
from tabapp.data.reading.known import NOTHING, Known
from tabapp.data.schema import DataWarning
from tabapp.errors import DataError

Cells = tuple[str | None, ...]
Positions = npt.NDArray[np.uint32]

_MANY_ROWS = 10_000
_NAMED = 5
_END_OF_FILE = b"\x1a"
_MARK = b"\xef\xbb\xbf"
_REWRITTEN = 12
"""Bytes of memory per byte of a text whose layout is rewritten: its characters twice, its lines and its cells."""
_COMMA_NUMBER = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+\s*$|^\s*[+-]?\d{1,3}(\.\d{3})+\s*$"


def clean_bytes(data: bytes, warnings: list[DataWarning]) -> bytes:
    """Convert line ends for polars; remove NUL bytes, byte order marks of joined files, and the Ctrl+Z that ended a file in DOS."""
    first = data.find(b"\n")
    if b"\r" in data[: max(0, first - 1) if first >= 0 else None] and data.count(b"\r") > 2 * data.count(b"\n"):
        # Lines of old Macintosh programs, of which another program may have ended the last one.
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    joined = b"\n" + _MARK
    for unwanted, kept, what in ((b"\0", b"", "NUL characters"), (joined, b"\n", "byte order marks inside")):
        if (count := data.count(unwanted)) > 0:
            data = data.replace(unwanted, kept)
            message = f"The file contains {count:,} {what}."
            warnings.append(DataWarning(check="repaired_rows", message=message, action="removed"))
    if data[-64:].rstrip().endswith(_END_OF_FILE):
        data = data.rstrip(b"\r\n \x1a")
        message = "The file ends in Ctrl+Z, the end of a file in DOS."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="removed"))
    return data.removeprefix(_MARK)


def plain_text(data: bytes, dialect: Dialect, memory: MemoryLimit, warnings: list[DataWarning]) -> bytes:
    """A text in the layout of its dialect as delimited text, with the same number of lines."""
    if dialect.layout is None:
        return data
    memory.require(_REWRITTEN * len(data))
    done = dialect.layout.rewrite(data)
    if done.dropped:
        shown = ", ".join(repr(line[:40]) for line in done.dropped[:_NAMED])
        message = f"{len(done.dropped):,} lines are not between the bars of the table ({shown})."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
    return done.data


def warn_about_header(dialect: Dialect, warnings: list[DataWarning]) -> None:
    """Report the layout, a missing header, rows of units below it, skipped lines above it, and names that were given."""

    def warn(message: str, action: str) -> None:
        warnings.append(DataWarning(check="repaired_rows", message=message, action=action))

    if dialect.layout is not None:
        warn(dialect.layout.found, dialect.layout.action)
    if not dialect.header:
        warn(
            "The first row looks like the rows below it, so the file has no header.",
            f"columns named {', '.join(dialect.names[:2])} …; add a line of names if the first row has them",
        )
    if dialect.doubtful_header:
        shown = ", ".join(repr(name) for name in dialect.names[:_NAMED])
        warn(
            f"The first row may be data, because its cells are like those below ({shown}).",
            "used as names; add a line of names above it if it is data",
        )
    if dialect.row_names:
        warn(
            "The header has one name less than the rows have fields, as R writes tables with row names.",
            f"first column named {dialect.names[0]}; add the name if another column has none",
        )
    if dialect.ruler:
        warn("A line of dashes follows the header.", "dropped")
    if dialect.labels:
        named = ", ".join(f"{name!r}: {label[:40]!r}" for name, label in list(dialect.labels.items())[:_NAMED])
        warn(
            f"Units, types or titles are in {dialect.header_lines - 1} rows below the names ({named}).",
            "kept as labels of the columns; not a row",
        )
    if dialect.preamble:
        lines = "One line comes" if dialect.preamble == 1 else f"{dialect.preamble} lines come"
        warn(f"{lines} before the table.", "skipped")
    if dialect.renamed:
        named = ", ".join(f"{name!r} (column {number})" for number, name in dialect.renamed[:_NAMED])
        more = f" and {len(dialect.renamed) - _NAMED} more" if len(dialect.renamed) > _NAMED else ""
        warn("Header cells are empty or repeated.", f"named {named}{more}")


def drop_non_data_rows(
    frame: pl.DataFrame, dialect: Dialect, warnings: list[DataWarning], known: Known = NOTHING
) -> pl.DataFrame:
    """Drop comments, further copies of the header, remarks above such a copy, and for training rows without a cell. New rows keep
    their number.

    Raises:
        DataError: a further header has the names in another order.
    """
    if frame.height < 2 or frame.width < 2:
        return frame
    # Columns are taken by position and without a name: polars takes names such as "*" for patterns.
    first, second = (frame.to_series(index).alias("") for index in (0, 1))
    is_comment = first.str.starts_with("#") & second.is_null()
    column = known.get(dialect.names[0])
    if column is not None and column.levels:
        is_comment &= ~first.is_in(list(column.levels))
    comments = _positions(frame, is_comment, lambda cells, _: cells.is_null(), _is_alone)
    copies = _copies_of_header(frame, dialect)
    remarks = _remarks_above(frame, copies, dialect, known)
    empty = _positions(
        frame, _is_empty(first) & _is_empty(second) & (not known), lambda cells, _: _is_empty(cells), _is_blank
    )
    for one, several, positions in (
        ("a comment", "comments", comments),
        ("a copy of the header", "copies of the header", copies),
        ("a remark above a copy of the header", "remarks above a copy of the header", remarks),
        ("empty in every cell", "empty in every cell", empty),
    ):
        if len(positions):
            message = f"{len(positions):,} rows are {several}." if len(positions) > 1 else f"One row is {one}."
            warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
    if not (len(comments) or len(copies) or len(empty)):
        return frame
    keep = np.ones(frame.height, dtype=np.bool_)
    keep[comments] = keep[copies] = keep[remarks] = keep[empty] = False
    return frame.filter(pl.Series(keep))


def _copies_of_header(frame: pl.DataFrame, dialect: Dialect) -> Positions:
    """The rows that repeat the names, or the rows of units and the ruler below them."""
    found: list[Positions] = []
    first, second = (frame.to_series(index).alias("").str.strip_chars() for index in (0, 1))
    for number, cells in enumerate(dialect.header_rows):
        names = _comparable(cells, frame.width)
        like = _same(first, names[0]) & _same(second, names[1])
        copies = _positions(
            frame,
            like,
            lambda cells, index, names=names: _same(cells.str.strip_chars(), names[index]),
            lambda row, names=names: _comparable(row, len(names)) == names,
        )
        if number == 0:
            _reject_other_order(frame, first, dialect)
            if not len(copies):
                return copies
        found.append(copies)
    if not found:
        return np.zeros(0, dtype=np.uint32)
    below = found[0] + 1
    rulers = [at for at in below[below < frame.height] if is_ruler([cell or "" for cell in frame.row(int(at))])]
    return np.unique(np.concatenate([*found, np.array(rulers, dtype=np.uint32)]))


def _comparable(cells: Sequence[str | None], width: int) -> list[str | None]:
    stripped = [(cell or "").strip() or None for cell in cells[:width]]
    return [*stripped, *[None] * (width - len(stripped))]


def _same(cells: pl.Series, text: str | None) -> pl.Series:
    return cells.is_null() | (cells == "") if text is None else cells == text


def _reject_other_order(frame: pl.DataFrame, first: pl.Series, dialect: Dialect) -> None:
    """Raise if a row has all names in another order: the rows below it belong to other columns.

    Raises:
        DataError: names the row.
    """
    names = sorted(dialect.header_rows[0])
    if len(set(names)) < max(3, len(names)) or len(names) > _MANY_ROWS:
        return
    is_name = first.is_in(names).fill_null(False)
    candidates = is_name.arg_true()
    if not 0 < len(candidates) <= _MANY_ROWS:
        return
    rows = [[cell or "" for cell in frame.row(at)] for at in candidates]
    # Names that are values of the first column, too, show nothing.
    if all(sorted(map(str.strip, row)) == names for row in rows) and any(
        row != list(dialect.header_rows[0]) for row in rows
    ):
        raise DataError(
            f"row {candidates[0] + 1:,} is a second header with the columns in another order. "
            "Join the files by the names of their columns."
        )


def _remarks_above(frame: pl.DataFrame, copies: Positions, dialect: Dialect, known: Known) -> Positions:
    """The rows directly above copies of the header that are no data: footers and titles of files that were joined."""
    if not len(copies):
        return copies
    sample = [(cell or "").strip() for cell in frame.to_series(0).head(_MANY_ROWS).to_list()]
    footers = Footers(dialect, lambda: [cell for cell in sample if cell != dialect.names[0]], known)
    found: list[int] = []
    for copy in map(int, copies):
        at = copy - 1
        while at >= 0:
            row = [(cell or "").strip() for cell in frame.row(at)]
            # The fields that a short row lacks were filled.
            record = row[:1] if not any(row[1:]) else row
            title = row[0] in dialect.preamble_texts and not any(row[2:])
            if any(row) and not (title or footers.include(record, lambda: False)):
                break
            found.append(at)
            at -= 1
    return np.array(sorted(found), dtype=np.uint32)


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


def _is_empty(cells: pl.Series) -> pl.Series:
    return cells.is_null() | (cells.str.strip_chars() == "")


def _is_blank(row: Cells) -> bool:
    """Whether a row has no cell."""
    return not any(cell and cell.strip() for cell in row)


def _is_alone(row: Cells) -> bool:
    """Whether all cells but the first are empty."""
    return all(cell is None for cell in row[1:])


def use_decimal_points(frame: pl.DataFrame) -> pl.DataFrame:
    """Rewrite numbers such as 1.234,5 with a decimal point; other cells are unchanged."""
    text = pl.all()
    rewritten = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return frame.with_columns(pl.when(text.str.contains(_COMMA_NUMBER)).then(rewritten).otherwise(text).name.keep())
