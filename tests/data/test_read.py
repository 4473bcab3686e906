"""Reading files: formats, encodings, dialects and errors. Each case has a defined outcome."""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import subprocess
import zipfile
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabapp.data.infer import infer_schema
from tabapp.data.reading import decode, records
from tabapp.data.reading.dialect import Dialect
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.errors import DataError, UsageError

PLAIN = "a,b,c\n1,x,2.5\n2,y,3.5\n3,z,4.5\n"
ROWS = {"a": ["1", "2", "3"], "b": ["x", "y", "z"], "c": ["2.5", "3.5", "4.5"]}


def written(tmp_path: Path, content: bytes | str, name: str = "table.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


SAME_TABLE = {
    "plain": PLAIN,
    "crlf": PLAIN.replace("\n", "\r\n"),
    "cr only": PLAIN.replace("\n", "\r"),
    "cr, and a last lf": PLAIN.rstrip("\n").replace("\n", "\r") + "\n",
    "cr, and a last crlf": PLAIN.rstrip("\n").replace("\n", "\r") + "\r\n",
    "no newline at the end": PLAIN.rstrip("\n"),
    "blank lines": PLAIN.replace("\n", "\n\n"),
    "blank lines at the start": "\n\n" + PLAIN,
    "utf-8 with a mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "utf-16 little endian with a mark": PLAIN.encode("utf-16"),
    "utf-16 big endian with a mark": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "utf-16 without a mark": PLAIN.encode("utf-16-le"),
    "utf-32": PLAIN.encode("utf-32"),
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "bars": PLAIN.replace(",", "|"),
    "declared delimiter": "sep=|\n" + PLAIN.replace(",", "|"),
    "all quoted": "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in PLAIN.split()),
    "spaces around names": PLAIN.replace("a,b,c", " a , b,c\t"),
    "gzip": gzip.compress(PLAIN.encode()),
    "zip": zipped({"table.csv": PLAIN}),
    "zip with macOS metadata": zipped({"table.csv": PLAIN, "__MACOSX/._table.csv": "x"}),
    "trailing delimiter": PLAIN.replace("\n", ",\n").replace("a,b,c,", "a,b,c"),
    "title and comments above the header": "# made by hand\n# in March\n" + PLAIN,
    "nul bytes": PLAIN.replace("x", "x\0"),
}


@pytest.mark.parametrize("content", SAME_TABLE.values(), ids=SAME_TABLE.keys())
def test_formats_of_the_same_table_read_equal(tmp_path: Path, content: bytes | str) -> None:
    assert read_table(written(tmp_path, content)).frame.to_dict(as_series=False) == ROWS


def rejected(tmp_path: Path, content: bytes | str, name: str = "table.csv") -> str:
    path = written(tmp_path, content, name)
    with pytest.raises(DataError) as caught:
        read_table(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


REJECTED: dict[str, tuple[bytes | str, str]] = {
    "empty": ("", "empty"),
    "white space": (" \n \t\n", "white space"),
    "header only": ("a,b,c\n", "no rows"),
    "header without newline": ("a,b,c", "no rows"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG"),
    "pdf": (b"%PDF-1.4 ...", "PDF"),
    "sqlite": (b"SQLite format 3\0" + bytes(100), "SQLite"),
    "old excel": (b"\xd0\xcf\x11\xe0" + bytes(100), "Excel"),
    "word": (zipped({"word/document.xml": "<x/>", "[Content_Types].xml": "<x/>"}), "Office"),
    "random bytes": (bytes(range(256)) * 40, "binary"),
    "json": ('{"a": [1, 2],\n "b": [3, 4]}\n', "JSON"),
    "web page": ("<!DOCTYPE html>\n<html><body>no</body></html>\n", "web page"),
    "cut off in a character": ("a,b\n1,é\n".encode()[:-2], "middle of a character (byte 6)"),
    "cut off gzip": (gzip.compress(PLAIN.encode() * 50)[:-20], "damaged or cut off"),
    "two tables in a zip": (zipped({"a.csv": PLAIN, "b.csv": PLAIN}), "exactly one"),
    "damaged zip": (zipped({"a.csv": PLAIN})[:-30], "damaged"),
    "damaged parquet": (b"PAR1 and nothing more", "damaged"),
    "unclosed quote": ('a,b\n1,x\n2,"y\n3,z\n4,w\n', "begins in line 3"),
    "rows too long": ("a,b\n1,2\n1,2,3\n1,2\n1,2,3\n", "line 3 has 3 fields but the header has 2"),
}


@pytest.mark.parametrize(("content", "expected"), REJECTED.values(), ids=REJECTED.keys())
def test_file_that_is_not_a_table_is_rejected(tmp_path: Path, content: bytes | str, expected: str) -> None:
    assert expected in rejected(tmp_path, content)


def test_table_without_rows_is_allowed_for_prediction(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, "a,b\n"), allow_no_rows=True).frame
    assert (frame.columns, frame.height, set(frame.dtypes)) == (["a", "b"], 0, {pl.String})
    frame.write_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", allow_no_rows=True).frame.equals(frame)


def test_path_that_is_not_a_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_table(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        read_table(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match="cannot be opened"):
        read_table(tmp_path / "loop")


@pytest.mark.parametrize("name", ["a[1].csv", "st*r.csv", "with space.csv", "größe.csv", "no_suffix", "wrong.parquet"])
def test_file_name_does_not_matter(tmp_path: Path, name: str) -> None:
    assert read_table(written(tmp_path, PLAIN, name)).frame.to_dict(as_series=False) == ROWS


def test_archive_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_MIN_LIMIT", 10_000)
    assert "Unpack it first" in rejected(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program to make the file")
def test_zstd(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN.replace("x", "é"))
    subprocess.run(["zstd", "-q", str(path)], check=True)
    assert read_table(tmp_path / "table.csv.zst").frame["b"].to_list() == ["é", "y", "z"]
    cut = (tmp_path / "table.csv.zst").read_bytes()[:-8]
    assert "damaged" in rejected(tmp_path, cut, "cut.zst")


def test_western_encoding_is_detected_with_a_warning(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, "name,price\ncafé,£5\nthé,€6\n".encode("cp1252")))
    assert reading.encoding == "cp1252"
    assert reading.frame.rows() == [("café", "£5"), ("thé", "€6")]
    (warning,) = reading.warnings
    assert warning.check == "encoding"
    assert "line 2" in warning.message
    assert "caf" in warning.message


@pytest.mark.parametrize(
    ("encoding", "cells"),
    [
        ("mac-roman", ["Montréal", "Québec", "Trump’s", "Zürich"]),
        ("mac-roman", ["not\xa0much", "very\xa0much", "“well”"]),
        ("cp1250", ["Wrocław", "Gdańsk", "Częstochowa", "Łódź", "żółty"]),
        ("cp1251", ["Москва", "Казань", "мужской", "женский"]),
        ("koi8-r", ["Москва", "Казань", "мужской", "женский"]),
        ("cp1253", ["Αθήνα", "Θεσσαλονίκη", "κόκκινο", "γυναίκα"]),
        ("cp1254", ["Diyarbakır", "Eskişehir", "Muğla", "yeşil"]),
        ("gb18030", ["北京", "上海", "成都市", "优秀"]),
        ("big5hkscs", ["臺北", "高雄", "新竹市", "優秀"]),
        ("cp932", ["東京", "名古屋市", "はい", "トヨタ"]),
        ("cp949", ["서울", "부산", "여자", "빨강"]),
    ],
)
def test_other_encodings_are_detected(tmp_path: Path, encoding: str, cells: list[str]) -> None:
    text = "id,city,price\n" + "".join(f"{i},{cells[i % len(cells)]},{i}.5\n" for i in range(40))
    reading = read_table(written(tmp_path, text.encode(encoding)))
    assert reading.encoding == encoding
    assert reading.frame["city"].unique().sort().to_list() == sorted(cells)


@pytest.mark.parametrize(
    "cells",
    [
        ["£5", "€6", "½", "20 °C"],
        ["“quoted”", "it’s", "a…", "5–7"],
        ["Ångström", "Þór", "Æsir", "Ørsted", "naïve", "ÉCOLE", "été"],
    ],
)
def test_western_texts_are_read_as_cp1252(tmp_path: Path, cells: list[str]) -> None:
    text = "id,note\n" + "".join(f"{i},{cells[i % len(cells)]}\n" for i in range(40))
    reading = read_table(written(tmp_path, text.encode("cp1252")))
    assert reading.encoding == "cp1252"
    assert reading.frame["note"].unique().sort().to_list() == sorted(cells)


@pytest.mark.parametrize(
    ("encoding", "cells"),
    [
        ("mac-roman", ["Zürich", "Genève", "Neuchâtel"]),
        ("cp1251", ["М", "Ж", "Н"]),
        ("koi8-r", ["М", "Ж", "Н"]),
        ("cp850", ["groß", "mäßig", "übel"]),
        ("cp949", ["서울", "부산", "여자"]),
    ],
)
def test_known_texts_decide_the_encoding_of_new_rows(tmp_path: Path, encoding: str, cells: list[str]) -> None:
    training = "id,city,price\n" + "".join(f"{i},{cells[i % 3]},{i}.5\n" for i in range(40))
    schema = infer_schema(read_table(written(tmp_path, training)).frame, target="price")
    new_rows = written(tmp_path, f"id,city\n41,{cells[0]}\n".encode(encoding))
    reading = read_table(new_rows, columns=schema.columns)
    assert reading.encoding == encoding
    assert reading.frame["city"].to_list() == cells[:1]


def test_last_letter_in_another_encoding(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "a,b\n1,café".encode("cp1252"))).frame["b"].to_list() == ["café"]
    with pytest.raises(DataError, match="middle of a character"):
        read_table(written(tmp_path, b"\xef\xbb\xbf" + "a,b\n1,café".encode("cp1252")))


def test_wrong_bytes_in_another_encoding(tmp_path: Path) -> None:
    text = "id,city\n" + "".join(f"{i},{['北京', '上海', '成都市', '优秀'][i % 4]}{i}\n" for i in range(3_000))
    reading = read_table(written(tmp_path, text.encode("gb18030") + b"3000,\xff!\n"))
    assert reading.encoding == "gb18030"
    assert reading.frame["city"].tail(2).to_list() == ["优秀2999", "ÿ!"]


def test_single_wrong_bytes_in_utf8(tmp_path: Path) -> None:
    content = b"id,note\n" + b"".join(f"{i},Köln\n".encode() for i in range(40)) + "40,café\n".encode("cp1252")
    reading = read_table(written(tmp_path, content))
    assert reading.encoding == "utf-8"
    assert reading.frame["note"].unique().sort().to_list() == ["Köln", "café"]
    (warning,) = reading.warnings
    assert warning.message == "A byte is not UTF-8, byte 364 (in line 42, which contains '40,café' as cp1252)."


def test_western_encoding_in_the_header(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "naïve,b\n1,2\n".encode("cp1252"))).frame.columns == ["naïve", "b"]


def test_encoding_option(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\nл,1\n".encode("koi8-r"))
    assert read_table(path, ReadOptions(encoding="koi8-r")).frame["a"].to_list() == ["л"]
    with pytest.raises(DataError, match="line 2"):
        read_table(path, ReadOptions(encoding="utf-8"))
    with pytest.raises(UsageError, match="no encoding"):
        read_table(path, ReadOptions(encoding="klingon"))


def test_values_are_unchanged(tmp_path: Path) -> None:
    cells = ["007", "1.50", "2024-01-02", "nan", " x ", "1e400", "true", "9999999999999999999999"]
    text = "id,v\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    assert read_table(written(tmp_path, text)).frame["v"].to_list() == cells


def test_only_empty_fields_are_null(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, 'a,b,c\n1,,NA\n2,"",?\n3, ,-\n')).frame
    assert frame["b"].to_list() == [None, None, " "]
    assert frame["c"].to_list() == ["NA", "?", "-"]


def test_quotes_commas_and_newlines_inside_a_field(tmp_path: Path) -> None:
    text = 'a,b\n"x, ""y""\nz",1\nplain,\n"end",3\n'
    assert read_table(written(tmp_path, text)).frame.rows() == [('x, "y"\nz', "1"), ("plain", None), ("end", "3")]


def test_quotes_in_the_middle_of_a_field(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, 'a,b\n5" pipe,1\n6" pipe,2\n7 pipe,3\n')).frame
    assert frame["b"].to_list() == ["1", "2", "3"]


def test_short_rows_are_filled_with_a_warning(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, "a,b,c\n1,2,3\n4,5\n6\n7,8,9\n"))
    assert reading.frame.rows() == [("1", "2", "3"), ("4", "5", None), ("6", None, None), ("7", "8", "9")]
    (warning,) = reading.warnings
    assert warning.check == "repaired_rows"
    assert "line 3, 4" in warning.message


def test_few_long_rows_are_truncated_with_a_warning(tmp_path: Path) -> None:
    lines = ["a,b", *("1,2" for _ in range(300)), "1,2,3", "8,9"]
    reading = read_table(written(tmp_path, "\n".join(lines)))
    assert reading.frame.height == 302
    assert reading.frame.row(-1) == ("8", "9")
    assert "line 302" in reading.warnings[0].message


def test_rows_that_end_in_missing_cells_need_no_repair(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, 'a,b,c\n1,"x,y",\n2,,\n3,z,\n'))
    assert reading.warnings == ()
    assert reading.frame["c"].to_list() == [None, None, None]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
def test_completeness_of_rows_does_not_depend_on_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(records, "_CHUNK", chunk)
    whole = b'a,b\n1,"x,\ny"\n2,\n3,4'
    dialect = Dialect(",", ("a", "b"), 1)
    assert records._rows_are_complete(whole, dialect)
    assert not records._rows_are_complete(whole + b"\n5", dialect)
    assert not records._rows_are_complete(whole + b"\n\n", dialect)


def test_header_names_are_made_unique(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, "a,,a,a_2, a ,b\n1,2,3,4,5,6\n"))
    assert reading.frame.columns == ["a", "column_2", "a_3", "a_2", "a_4", "b"]
    assert "column_2" in reading.warnings[0].action


def test_file_without_header(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, "5.1,3.5,1\n4.9,3.0,0\n4.7,3.2,1\n"))
    assert reading.frame.columns == ["column_1", "column_2", "column_3"]
    assert reading.frame.height == 3
    assert "no header" in reading.warnings[0].message


@pytest.mark.parametrize("header", ["0,1,2", "2019,2020,2021", "1,2,3"])
def test_header_of_numbers(tmp_path: Path, header: str) -> None:
    assert read_table(written(tmp_path, f"{header}\n5.1,3.5,1\n4.9,3.0,0\n")).frame.columns == header.split(",")


def test_semicolons_are_detected_despite_decimal_commas(tmp_path: Path) -> None:
    reading = read_table(written(tmp_path, "a;b;c\n1,5;2,5;x\n3,5;4,5;y\n5,5;6,5;z\n"))
    assert reading.delimiter == ";"
    assert reading.frame["a"].to_list() == ["1,5", "3,5", "5,5"]


def test_decimal_option(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n1.234,5;x,y\n-7,25;1,2,3\n12;z\n")
    frame = read_table(path, ReadOptions(decimal=",")).frame
    assert frame.rows() == [("1234.5", "x,y"), ("-7.25", "1,2,3"), ("12", "z")]
    with pytest.raises(UsageError, match="decimal"):
        read_table(path, ReadOptions(decimal="x"))


def test_delimiter_option(tmp_path: Path) -> None:
    path = written(tmp_path, "a b\n1 2\n3 4\n")
    assert read_table(path, ReadOptions(delimiter=" ")).frame.rows() == [("1", "2"), ("3", "4")]
    tabs = written(tmp_path, "a\tb\n1\t2\n", "tabs.csv")
    assert read_table(tabs, ReadOptions(delimiter="tab")).frame.columns == ["a", "b"]
    with pytest.raises(UsageError, match="one ASCII character"):
        read_table(path, ReadOptions(delimiter="::"))


def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = ",".join(f"c{i}" for i in range(10_000))
    row = ",".join(map(str, range(10_000)))
    frame = read_table(written(tmp_path, "\n".join([names, *[row] * 20]))).frame
    assert frame.shape == (20, 10_000)
    assert frame.row(19)[-1] == "9999"


def test_field_of_ten_megabytes(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, "a,b\n1," + "x" * 10_000_000 + "\n2,\n3\n")).frame
    assert frame["b"].str.len_chars().to_list() == [10_000_000, None, None]


def test_typed_files_keep_their_values(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "float": [1 / 3, 1e-7, None, float("nan")],
            "single": pl.Series([0.1, 1e10, None, -2.5], dtype=pl.Float32),
            "big": pl.Series([2**63 - 1, -1, None, 0], dtype=pl.Int64),
            "flag": [True, False, None, True],
            "day": [date(2024, 2, 29), None, date(1999, 1, 1), date(2000, 1, 1)],
            "moment": [datetime(2024, 2, 29, 12, 30, 15, 250_000), None, datetime(1999, 1, 1), datetime(2000, 1, 1)],
            "level": pl.Series(["x", "y", None, "x"], dtype=pl.Categorical),
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ipc(tmp_path / "a.arrow")
    for name, form in (("a.parquet", "parquet"), ("a.arrow", "arrow")):
        reading = read_table(tmp_path / name)
        assert reading.format == form
        texts = reading.frame
        assert set(texts.dtypes) == {pl.String}
        assert texts["float"].cast(pl.Float64).to_list() == [1 / 3, 1e-7, None, None]
        assert texts["single"].cast(pl.Float32).to_list() == frame["single"].to_list()
        assert texts["big"].to_list() == [str(2**63 - 1), "-1", None, "0"]
        assert texts["flag"].to_list() == ["true", "false", None, "true"]
        assert texts["day"].to_list() == ["2024-02-29", None, "1999-01-01", "2000-01-01"]
        assert texts["moment"].str.to_datetime("%Y-%m-%d %H:%M:%S%.f").to_list() == frame["moment"].to_list()
        assert texts["level"].to_list() == ["x", "y", None, "x"]


CELL = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6).filter(
    lambda cell: cell.strip() == cell
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(CELL, CELL, st.integers()), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_round_trip_in_any_dialect(
    tmp_path: Path, rows: list[tuple[str, str, int]], delimiter: str, line_end: str, encoding: str
) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["first", "second", "third"])
    writer.writerows(rows)
    path = written(tmp_path, buffer.getvalue().encode(encoding))
    expected = [(first, second, str(third)) for first, second, third in rows]
    assert read_table(path, ReadOptions(delimiter=delimiter)).frame.rows() == expected


def test_zstd_with_other_encodings_and_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = decode.zstd_library()
    if library is None:
        pytest.skip("needs Python 3.14 or backports.zstd")
    path = written(tmp_path, library.compress(PLAIN.encode("utf-16")), "table.csv.zst")
    assert read_table(path).frame.to_dict(as_series=False) == ROWS
    assert "damaged or cut off" in rejected(tmp_path, library.compress(PLAIN.encode() * 99)[:-9])
    monkeypatch.setattr(decode, "_MIN_LIMIT", 10_000)
    assert "Unpack it first" in rejected(tmp_path, library.compress(b"a,b\n" + b"1,2\n" * 500_000))
