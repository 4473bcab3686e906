"""Read the largest sheet of an Excel workbook as delimited text, which is then read as any other."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tabapp.data.limits import MemoryLimit
from tabapp.data.reading.decode import unpacked_limit
from tabapp.data.schema import DataWarning
from tabapp.errors import DataError
from tabapp.files import read_regular

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

_WORKBOOK = "xl/workbook.xml"
_PLACE = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Za-z]{1,3})([0-9]{1,7})["']""")
_CELL = 64
"""Bytes of memory for each cell of the rectangle that holds all cells of a sheet."""
_LARGEST_INTEGER = 2**53
_NAMED = 3


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is an Excel workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _WORKBOOK in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def sheet_as_csv(path: Path, memory: MemoryLimit) -> tuple[bytes, list[DataWarning]]:
    """The sheet with the most cells as CSV in UTF-8, without the empty rows and columns before its first cell.

    Numbers are those that are stored, and not as they are formatted. Dates are in ISO 8601.

    Raises:
        DataError: python-calamine is not installed, the workbook is damaged or has no cells, or it needs too much memory.
    """
    try:
        from python_calamine import CalamineWorkbook, SheetTypeEnum
    except ImportError:
        raise DataError(
            f"{path}: is an Excel workbook. Save the sheet as CSV, or install `pip install 'tabapp[excel]'`."
        ) from None
    try:
        _require_memory(path, memory)
        with CalamineWorkbook.from_filelike(io.BytesIO(read_regular(path))) as workbook:
            listed = [each.name for each in workbook.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
            sheets = [workbook.get_sheet_by_name(name) for name in listed]
            largest = max(sheets, key=lambda sheet: sheet.height * sheet.width, default=None)
            if largest is None or not largest.height:
                raise DataError(f"{path}: the workbook has no cells")
            return _as_csv(largest), _warnings(largest, [sheet for sheet in sheets if sheet.height])
    except (DataError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        # A panic of the library derives from BaseException.
        reason = str(error).partition("\n")[0][:160]
        raise DataError(f"{path}: the workbook is damaged or protected ({reason}). Save the sheet as CSV.") from None


def _require_memory(path: Path, memory: MemoryLimit) -> None:
    """Check the sizes of the sheets before the library allocates them.

    Raises:
        DataError: one unpacks to far more than its size, or needs too much memory.
    """
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(info.file_size for info in archive.infolist())
        limit = unpacked_limit(path)
        if n_bytes > limit:
            raise DataError(f"{path} unpacks to more than {limit >> 20:,} MiB. Save the sheet as CSV.")
        memory.require(2 * n_bytes)
        for info in archive.infolist():
            if info.filename.endswith(".xml"):
                n_rows = n_columns = 0
                # Without zero bytes, a text in UTF-16 is read, too.
                for place in _PLACE.finditer(archive.read(info).replace(b"\0", b"")):
                    n_rows, n_columns = max(n_rows, int(place[2])), max(n_columns, _number(place[1].upper()))
                memory.require(_CELL * n_rows * n_columns)


def _number(column: bytes) -> int:
    """The number of a column by its letters: A is 1, AA is 27."""
    number = 0
    for letter in column:
        number = 26 * number + letter - ord("A") + 1
    return number


def _as_csv(sheet: CalamineSheet) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in sheet.iter_rows())
    return text.getvalue().encode()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_INTEGER:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}:{int(seconds % 60):02}"
    return str(value)


def _warnings(largest: CalamineSheet, filled: list[CalamineSheet]) -> list[DataWarning]:
    others = [repr(sheet.name) for sheet in filled if sheet.name != largest.name]
    if not others:
        return []
    shown = ", ".join(others[:_NAMED]) + (" …" if len(others) > _NAMED else "")
    message = f"The workbook has {len(others) + 1} sheets with cells; the largest, {largest.name!r}, is read."
    return [DataWarning(check="sheets", message=message, action=f"{shown} left out; save a sheet as CSV to read it")]
