"""Files read in parts give the table that `read_table` gives."""

from __future__ import annotations

import gzip
import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.data.reading import decode, stream
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.errors import DataError


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK", 400)
    monkeypatch.setattr(stream, "LARGE_TEXT", 1000)
    monkeypatch.setattr(stream, "LARGE_ARCHIVE", 100)
    monkeypatch.setattr(stream, "LARGE_ROWS", 100)
    monkeypatch.setattr(stream, "PART_CELLS", 10)


def text(n_rows: int = 200) -> str:
    """Rows with quoted line ends, missing cells, non-ASCII text, comments, copies of the header, and a total."""
    generator = np.random.default_rng(0)
    lines = ["id,name,amount"]
    for number in range(n_rows):
        name = ['"a, ""b"""', "Köln", "", '"two\nlines"', "plain"][number % 5]
        lines.append(f"{number},{name},{generator.normal():.3f}")
    lines[50:50] = ["# a comment", "id,name,amount"]
    return "\n".join([*lines, f"Total,,{n_rows}"]) + "\n"


def read(path: Path, options: ReadOptions) -> tuple[pl.DataFrame, list[str]]:
    parts = list(stream.read_parts(path, options))
    assert len(parts) > 5
    assert all(part.frame.height for part in parts)
    return pl.concat([part.frame for part in parts]), [w.message for part in parts for w in part.warnings]


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd", "zip", "byte order mark", "cp1252"])
def test_text_in_parts_is_the_same_table(tmp_path, kind):
    path, content = tmp_path / "table.csv", text().encode("cp1252" if kind == "cp1252" else "utf-8")
    if kind == "gzip":
        path.write_bytes(gzip.compress(content))
    elif kind == "zstd":
        with decode.zstd_library().open(path, "wb") as file:
            file.write(content)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("table.csv", content)
    else:
        path.write_bytes(b"\xef\xbb\xbf" * (kind == "byte order mark") + content)
    options = ReadOptions(encoding="cp1252" if kind == "cp1252" else None)
    assert stream.is_large(path, options)
    whole = read_table(path, options)
    frame, warnings = read(path, options)
    assert frame.equals(whole.frame)
    assert frame.height == 200
    kinds = [
        {re.sub(r"[\d,]+", "", each) for each in found} for found in (warnings, [w.message for w in whole.warnings])
    ]
    assert kinds[0] == kinds[1]


def test_a_later_byte_that_is_not_utf8_changes_the_encoding_of_the_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(text().replace("Köln", "Koln").encode() + "999,Köln,1\n".encode("cp1252"))
    with pytest.raises(stream.EncodingChanged) as caught:
        list(stream.read_parts(path, ReadOptions()))
    options = ReadOptions(encoding=caught.value.encoding)
    assert read(path, options)[0].equals(read_table(path, ReadOptions()).frame)


def test_a_later_wrong_byte_in_another_encoding_is_read_as_cp1252(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(text().replace("Köln", "北京").encode("gb18030") + b"999,\xff!,1\n")
    frame, warnings = read(path, ReadOptions(encoding="gb18030"))
    assert frame.row(-1)[1] == "ÿ!"
    assert "北京" in frame.to_series(1).to_list()
    assert any(each.endswith("are not gb18030 text.") for each in warnings)


def test_a_later_wrong_byte_in_utf8_is_read_as_cp1252(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(text().encode() + "999,Bär,1\n".encode("cp1252"))
    frame, warnings = read(path, ReadOptions())
    whole = read_table(path, ReadOptions())
    assert frame.equals(whole.frame)
    assert whole.frame.row(-1)[1] == "Bär"
    message = "A byte is not UTF-8, byte 3,486 (in line 245, which contains '999,Bär,1' as cp1252)."
    assert message in warnings
    assert message in [each.message for each in whole.warnings]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columnar_files_in_parts_are_the_same_table(tmp_path, kind):
    path = tmp_path / f"table.{kind}"
    frame = pl.DataFrame({"a": np.arange(100) / 7, "b": ["x", None] * 50, "a ": pl.Series([True, False] * 50)})
    (frame.write_parquet if kind == "parquet" else frame.write_ipc)(path)
    assert stream.is_large(path, ReadOptions())
    parts = list(stream.read_parts(path, ReadOptions()))
    assert len(parts) == 34
    assert pl.concat([part.frame for part in parts]).equals(read_table(path).frame)
    assert parts[-1].share == 1


def test_decimal_commas_are_read_in_every_part(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b\n" + "".join(f"{number},5;x\n" for number in range(500)))
    options = ReadOptions(decimal=",")
    assert read(path, options)[0].equals(read_table(path, options).frame)


def test_a_long_row_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,2\n" * 400 + "1,2,3,4\n" * 30 + "1,2\n" * 10)
    with pytest.raises(DataError, match="line 402 has 4 fields"):
        list(stream.read_parts(path, ReadOptions()))


@pytest.mark.parametrize("content", [b"a,b\r1,2\r" * 500, text().encode("utf-16"), b"\x89PNG" + bytes(2000), b""])
def test_what_cannot_be_cut_at_line_ends_is_not_read_in_parts(tmp_path, content):
    (tmp_path / "table.csv").write_bytes(content)
    assert not stream.is_large(tmp_path / "table.csv", ReadOptions())


def test_a_damaged_archive_is_one_sentence(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text(2000).encode())[:-200])
    with pytest.raises(DataError, match="damaged or cut off"):
        list(stream.read_parts(path, ReadOptions()))
