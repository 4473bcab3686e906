"""The largest sheet of an Excel workbook is read like the CSV file that would be saved from it."""

from __future__ import annotations

import sys
import zipfile
from datetime import date, datetime, time
from html import escape
from pathlib import Path

import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.reading.head import first_rows
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import is_large
from tabapp.errors import DataError, TooLargeError
from tests.data.reading.files import messages, read

pytest.importorskip("python_calamine", reason="the extra `excel` is not installed")

Row = tuple[object, ...]
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STYLES = f"""<styleSheet {MAIN}><cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="21"/>
</cellXfs></styleSheet>"""
DAY_ZERO = datetime(1899, 12, 30)


def cell(place: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime):
        return f'<c r="{place}" s="2"><v>{(value - DAY_ZERO).total_seconds() / 86_400}</v></c>'
    if isinstance(value, date):
        return f'<c r="{place}" s="1"><v>{(value - DAY_ZERO.date()).days}</v></c>'
    if isinstance(value, time):
        return f'<c r="{place}" s="3"><v>{(value.hour * 60 + value.minute) / 1440}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'


def sheet(rows: list[Row], first: int = 1) -> str:
    lines = [
        f'<row r="{number}">{"".join(cell(f"{chr(65 + i)}{number}", value) for i, value in enumerate(row))}</row>'
        for number, row in enumerate(rows, start=first)
    ]
    return f"<worksheet {MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"


def workbook(path: Path, **sheets: str) -> Path:
    names = list(enumerate(sheets, start=1))
    listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in names)
    targets = "".join(
        f'<Relationship Id="r{i}" Type="{RELATED}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i, _ in names
    )
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        office = f'<Relationship Id="r1" Type="{RELATED}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{package}">{office}</Relationships>')
        archive.writestr(
            "xl/workbook.xml", f'<workbook {MAIN} xmlns:r="{RELATED}"><sheets>{listed}</sheets></workbook>'
        )
        archive.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}">{targets}</Relationships>')
        archive.writestr("xl/styles.xml", STYLES)
        for i, name in names:
            archive.writestr(f"xl/worksheets/sheet{i}.xml", sheets[name])
    return path


HEADER: Row = ("when", "shop, city", "sold", "code", "open", "noon", "y")
ROWS: list[Row] = [
    (
        date(2024, 1, 1 + i % 28),
        None if i == 4 else f'{"North" if i % 2 else "South;"} "{i % 3}"',
        i / 8,
        f"{i % 7:05}",
        bool(i % 3),
        time(i % 24, 30),
        i,
    )
    for i in range(40)
]


def test_cells_are_those_of_the_saved_csv(tmp_path: Path) -> None:
    path = workbook(tmp_path / "sales.xlsx", Sales=sheet([HEADER, *ROWS]))
    reading = read_table(path)
    assert (reading.format, reading.delimiter, reading.encoding, reading.warnings) == ("excel", None, None, ())
    assert reading.frame.columns == list(HEADER)
    assert reading.frame.row(9) == ("2024-01-10", 'North "0"', "1.125", "00002", "FALSE", "09:30:00", "9")
    assert reading.frame["shop, city"][4] is None
    kinds = {column.name: column.kind for column in infer_schema(reading.frame, target="y").columns}
    assert (kinds["when"], kinds["sold"], kinds["code"], kinds["open"]) == (
        "datetime",
        "numeric",
        "categorical",
        "boolean",
    )


def test_moments_keep_their_time(tmp_path: Path) -> None:
    rows: list[Row] = [("at", "y"), *((datetime(2024, 1, 2, i, 15), i % 2) for i in range(20))]
    frame = read_table(workbook(tmp_path / "t.xlsx", A=sheet(rows))).frame
    assert frame["at"][3] == "2024-01-02 03:15:00"


def test_titles_above_and_totals_below_are_no_rows(tmp_path: Path) -> None:
    table: list[Row] = [("shop", "sold", "price"), *(("NSE"[i % 3], i, i / 4) for i in range(30))]
    total: Row = ("Total", sum(range(30)), sum(range(30)) / 4)
    path = workbook(tmp_path / "t.xlsx", A=sheet([("Sales of 2024",), (None,), *table, total], first=3))
    reading = read_table(path)
    assert (reading.frame.columns, reading.frame.height) == (["shop", "sold", "price"], 30)
    assert "totals or remarks ('Total')" in messages(reading)


def test_the_largest_sheet_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    notes, empty = sheet([("Made by", "me")]), sheet([])
    path = workbook(tmp_path / "t.xlsx", Notes=notes, Data=sheet([HEADER, *ROWS]), Empty=empty)
    reading = read_table(path)
    assert reading.frame.height == len(ROWS)
    (warning,) = reading.warnings
    assert warning.check == "sheets"
    assert warning.message == "The workbook has 2 sheets with cells; the largest, 'Data', is read."
    assert warning.action.startswith("'Notes' left out; ")


def test_new_rows_may_come_from_a_workbook(tmp_path: Path) -> None:
    rows: list[Row] = [("a", "g", "y"), *((i / 4, "xy"[i % 2], i % 2) for i in range(40))]
    text = "".join(f"{a},{g},{y}\n" for a, g, y in rows)
    columns = infer_schema(read(tmp_path, text).frame, target="y").columns
    path = workbook(tmp_path / "new.xlsx", A=sheet([("g", "a"), ("x", 1.5)]))
    assert read_table(path, columns=columns).frame.rows() == [("x", "1.5")]
    assert not is_large(path, ReadOptions())
    assert first_rows(path, 5) is None


def test_a_workbook_without_a_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="the workbook has no cells"):
        read_table(workbook(tmp_path / "none.xlsx", A=sheet([])))
    with pytest.raises(DataError, match="damaged or protected"):
        read_table(workbook(tmp_path / "bad.xlsx", A="<worksheet><sheetData><row"))
    path = workbook(tmp_path / "t.xlsx", A=sheet([HEADER, *ROWS]))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(DataError, match=r"is an Excel workbook\. Save the sheet as CSV, or install"):
        read_table(path)


@pytest.mark.parametrize("place", ['<c r="XFD1048576">', '<c s="0" r="XFD1048576">', "<c\n r='xfd1048576'>"])
def test_a_cell_far_away_cannot_exhaust_the_memory(tmp_path: Path, place: str) -> None:
    far = sheet([HEADER, *ROWS]).replace("</sheetData>", '<row r="1048576">' + place + "<v>1</v></c></row></sheetData>")
    with pytest.raises(TooLargeError, match="memory"):
        read_table(workbook(tmp_path / "far.xlsx", A=far), ReadOptions(max_memory=4 << 30))


def test_an_archive_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabapp.data.reading.decode._MIN_LIMIT", 1_000)
    monkeypatch.setattr("tabapp.data.reading.decode._MAX_RATIO", 1)
    with pytest.raises(DataError, match="unpacks to more than"):
        read_table(workbook(tmp_path / "bomb.xlsx", A=sheet([HEADER, *ROWS])))
