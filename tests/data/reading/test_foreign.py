"""Files that are no tables are named for what they are, with what to do."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zlib
from pathlib import Path

import pytest

from tabapp.cli.options import check_file
from tabapp.data.reading.read import read_table
from tabapp.errors import DataError
from tests.data.reading.files import PLAIN


def tar_of(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("table.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


FILES: dict[str, tuple[bytes | str, str, str]] = {
    "git lfs": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n",
        "Git LFS pointer",
        "git lfs pull",
    ),
    "libsvm": ("+1 1:0.5 3:0.25\n-1 2:1 3:0.5 # x\n", "LIBSVM", "load_svmlight_file"),
    "svmrank": ("3 qid:1 1:0.5 2:0.1\n2 qid:1 1:0.3 2:1\n", "LIBSVM", "Convert it"),
    "yaml": ("name: x\nitems:\n  - a: 1\n    b: 2\n", "YAML", "Save it as CSV"),
    "yaml list": ("- a: 1\n  b: x\n- a: 2\n  b: y\n", "YAML", "Save it as CSV"),
    "yaml document": ("---\nname: x\n", "YAML", "Save it as CSV"),
    "json": ('{"a": {"0": 1}, "b": {"0": 2}}', "JSON", "CSV"),
    "web page": ("\n<HTML><body>404</body></html>", "web page", "download"),
    "xml": ('<?xml version="1.0"?><a/>', "XML", "download"),
    "web error": ("404: Not Found", "web server", "download"),
    "latex": ("\\begin{tabular}{ll}\na & b \\\\\n\\end{tabular}\n", "LaTeX", "CSV"),
    "mysqldump": ("-- MySQL dump 10.13\n\nDROP TABLE IF EXISTS `t`;\nCREATE TABLE t (a int);\n", "SQL", "database"),
    "pg_dump": (
        "--\n-- dump\n--\nSET statement_timeout = 0;\nCOPY t (a, b) FROM stdin;\n1\t2\n\\.\n",
        "SQL",
        "database",
    ),
    "inserts": ("INSERT INTO t VALUES (1, 'x');\n", "SQL", "database"),
    "psql expanded": ("-[ RECORD 1 ]\na | 1\nb | 2\n", "expanded", "csv"),
    "mysql vertical": ("*************************** 1. row ***************************\na: 1\n", "expanded", "--batch"),
    "merge conflict": (
        PLAIN.replace("\n", "\n<<<<<<< HEAD\n", 1) + ">>>>>>> b\n",
        "merge conflict in line 2",
        "Resolve",
    ),
    "pickle": (pickle.dumps({"a": 1}), "pickle", "save the table as CSV"),
    "joblib": (zlib.compress(b"x" * 100), "zlib", "CSV"),
    "rds": (gzip.compress(b"X\n\0\0\0\3\0\4"), "RDS", "write.csv"),
    "rdata": (gzip.compress(b"RDX3\nX\n\0"), "RData", "write.csv"),
    "spss": (b"$FL2@(#) SPSS DATA FILE", "SPSS", "Save it"),
    "stata": (b"<stata_dta><header>", "Stata", "Save it"),
    "old stata": (b"\x72\x02\x01\x00" + bytes(99), "Stata", "Save it"),
    "sas": (bytes(12) + b"\xc2\xea\x81\x60" + bytes(99), "SAS", "Save it"),
    "sas transport": (b"HEADER RECORD*******LIBRARY HEADER RECORD", "SAS", "Save it"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "HDF5", "Save it"),
    "numpy": (b"\x93NUMPY\x01\0", "NumPy", "Save it"),
    "matlab": (b"MATLAB 5.0 MAT-file, Platform", "MATLAB", "Save it"),
    "tar": (tar_of(PLAIN), "tar archive", "Unpack"),
    "tar in gzip": (gzip.compress(tar_of(PLAIN)), "tar archive", "Unpack"),
    "parquet in gzip": (gzip.compress(b"PAR1 and more"), "Parquet", "Unpack"),
    "image": (b"\xff\xd8\xff\xe0", "JPEG", ""),
    "pdf": (b"%PDF-1.7", "PDF", "CSV"),
}


@pytest.mark.parametrize(("content", "what", "remedy"), FILES.values(), ids=FILES.keys())
def test_file_is_named_for_what_it_is(tmp_path: Path, content: bytes | str, what: str, remedy: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as caught:
        read_table(path)
    message = str(caught.value)
    assert what in message
    assert remedy in message
    assert "\n" not in message


@pytest.mark.parametrize("url", ["https://example.com/a.csv", "s3://bucket/a.parquet", "file:///tmp/a.csv"])
def test_address_is_no_path(url: str) -> None:
    for check in (lambda: read_table(Path(url)), lambda: check_file(url)):
        with pytest.raises(DataError, match=r"is an address on a network\. Download the file"):
            check()


@pytest.mark.parametrize(
    "header", ["time: s,value: V", "key: x", "select,from", "version,name", "begin;end", "set x;use y", "1:2,3:4"]
)
def test_tables_with_such_words_are_read(tmp_path: Path, header: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        header + "\n" + "\n".join(f"{i},{i % 2}" for i in range(5)).replace(",", ";" if ";" in header else ",")
    )
    assert read_table(path, allow_no_rows=True).frame.height in (5, 6)
