"""The first rows, read without a table library, equal those of the full reader."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest

from tabapp.data.reading.head import first_rows
from tabapp.data.reading.read import read_table

TEXTS = {
    "plain": "a,b,c\n1,x,\n2,,z\n",
    "semicolons": "a;b\n1,5;x\n2,5;y\n",
    "quotes": 'a,b\n"one, two","line\nbreak"\n3,4\n',
    "mark": "\ufeffa,b\n1,ü\n",
    "windows": "a,b\r\n1,2\r\n3,4\r\n",
    "preamble": "Report of May\n\na,b,c\n1,2,3\n4,5,6\n",
    "blank lines": "a,b\n1,2\n\n3,4\n",
    "no header": "1,2.5\n2,3.5\n3,4.5\n",
    "repeated names": "a,a,\n1,2,3\n",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
def test_first_rows_equal_those_of_the_full_reader(tmp_path, name, packed):
    path = tmp_path / "t.csv"
    content = TEXTS[name].encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    head, frame = first_rows(path, 100), read_table(path).frame
    assert head is not None
    assert list(head.names) == frame.columns
    assert [tuple(row) for row in head.rows] == frame.rows()


def test_row_count_of_a_large_file_is_estimated(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("n,word\n" + "".join(f"{i},word {i % 7}\n" for i in range(100_000)))
    head = first_rows(path, 50)
    assert head is not None
    assert [row[0] for row in head.rows] == [str(i) for i in range(50)]
    assert head.about == pytest.approx(100_000, rel=0.1)
    compressed = tmp_path / "large.csv.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    packed = first_rows(compressed, 50)
    assert packed is not None
    assert (packed.rows, packed.about) == (head.rows, None)


@pytest.mark.parametrize(
    "content", [b"", b"  \n", "größe\n1\n".encode("latin-1"), "a,b\n1,2\n".encode("utf-16"), b"PAR1\0\0", b"a\0b\n1\n"]
)
def test_content_that_needs_the_full_reader_returns_none(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert first_rows(path, 10) is None


def test_encoding_and_delimiter_options(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe|b\n1|ß\n".encode("latin-1"))
    head = first_rows(path, 10, delimiter="|", encoding="latin-1")
    assert head is not None
    assert (head.names, head.rows) == (("größe", "b"), [["1", "ß"]])


def test_missing_file_returns_none(tmp_path):
    assert first_rows(tmp_path / "none.csv", 10) is None


def test_no_table_library_is_imported():
    heavy = ("polars", "numpy", "torch")
    code = (
        f"import sys, tabapp.data.reading.head, tabapp.processes.pager; print([m for m in {heavy} if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
