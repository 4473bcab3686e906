"""Hostile tables end in a result or in one sentence and an exit code, within bounded memory and time."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from backports import zstd

from tabapp.cli.main import run_command_line
from tabapp.data.columnar.arrow_sizes import claimed_bytes
from tabapp.data.reading import decode
from tabapp.data.reading.dialect import unique_names
from tabapp.data.reading.head import first_rows
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.sample import read_sample
from tabapp.errors import DataError, ExitCode, UsageError
from tests.hostile import table_corpus
from tests.waiting import HANG_SECONDS

MUTATIONS = int(os.environ.get("TABAPP_FUZZ_TABLES", "990"))
"""Mutated files of the long form."""


def profiled(folder: Path, files: Iterable[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """The outcome of `tabapp profile` for each file. Asserts that no file ends the process, and that failures are sentences."""
    tables = folder / "tables"
    tables.mkdir()
    for name, content in files:
        (tables / name).write_bytes(content)
    command = [sys.executable, "-P", str(Path(__file__).with_name("profile_tables.py")), str(tables)]
    # As a script with `-P` it finds only the installed package.
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, cwd=folder)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    names = sorted(path.name for path in tables.iterdir())
    unfinished = names[len(found)] if len(found) < len(names) else None
    assert done.returncode == 0, f"ended with {done.returncode} at {unfinished}: {done.stderr[-500:]}"
    assert [each["name"] for each in found] == names
    assert "panicked" not in done.stderr
    for each in found:
        assert each["code"] in (ExitCode.OK, ExitCode.USAGE, ExitCode.DATA), each
        if each["code"]:
            # A large file may be preceded by the first look at its sample.
            sentence = each["stderr"].strip().splitlines()[-1]
            assert "tabapp:" in sentence, each
            assert sentence.endswith((".", ")")), each
            assert "Traceback" not in each["stderr"], each
            assert "bug in tabapp" not in each["stderr"], each
    return found


@pytest.mark.slow
def test_expensive_tables(tmp_path: Path) -> None:
    tables = table_corpus.expensive()
    found = profiled(tmp_path, tables.items())
    assert len(found) == len(tables)
    print({each["name"]: round(each["seconds"], 1) for each in found})
    codes = {each["name"]: each["code"] for each in found}
    assert codes["bomb.gz"] == codes["bomb.zst"] == ExitCode.DATA


def test_crafted_tables(tmp_path: Path) -> None:
    found = {each["name"]: each for each in profiled(tmp_path, table_corpus.crafted().items())}
    assert len(found) >= 40
    for name in ("names-of-patterns", "names-of-markup", "names-of-escapes", "nul-bytes", "formulas"):
        assert found[name]["code"] == ExitCode.OK, found[name]
        assert found[name]["rows"] == 60, found[name]
    for name in (
        "commas",
        "semicolons.gz",
        "json",
        "far-days.parquet",
        "constant-rows.parquet",
        "claims-exbibytes.arrow",
        "claims-gibibytes.arrow",
        "claims-negative.arrow",
    ):
        assert found[name]["code"] == ExitCode.DATA, found[name]


@pytest.mark.parametrize("kind", ["gz", "zst", "zip"])
def test_archive_bombs_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(decode, "_MIN_LIMIT", 1 << 20)
    content = bytes(3 << 20)
    packed = {"gz": gzip.compress, "zst": zstd.compress, "zip": table_corpus.zipped}[kind](content)
    (path := tmp_path / f"bomb.{kind}").write_bytes(packed)
    with pytest.raises(DataError, match=r"unpacks to more than 1 MiB\."):
        read_table(path)


def test_mutated_tables(tmp_path: Path) -> None:
    found = profiled(tmp_path, table_corpus.mutations(seed=0, count=99))
    assert len(found) == 99
    assert any(each["code"] == ExitCode.DATA for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_mutated_tables(tmp_path: Path, seed: int) -> None:
    assert len(profiled(tmp_path, table_corpus.mutations(seed, MUTATIONS // 3))) == MUTATIONS // 3


def test_memory_is_estimated_before_parsing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 100_000)
    with pytest.raises(DataError, match=r"GiB of memory to read.*--max-memory"):
        read_table(path, ReadOptions(max_memory=1 << 20))
    assert read_table(path, ReadOptions(max_memory=1 << 30)).frame.height == 100_000
    pl.DataFrame({"a": [1] * 100_000}).write_parquet(columnar := tmp_path / "table.parquet")
    with pytest.raises(DataError, match="--max-memory"):
        read_table(columnar, ReadOptions(max_memory=1 << 20))


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_claimed_sizes_of_arrow_files_are_those_of_their_columns(tmp_path: Path, compression: str) -> None:
    table = pl.DataFrame({"a": range(10_000), "b": [f"a text of more than twelve bytes {i}" for i in range(10_000)]})
    table.write_ipc(path := tmp_path / "table.arrow", compression=compression)
    assert 0.9 * table.estimated_size() < claimed_bytes(path) < 2 * table.estimated_size()
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-8] + b"\xff" * 8, content[-12:], b"ARROW1" * 3):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"metadata|end is missing"):
            claimed_bytes(path)


def test_many_comments_and_copies_of_the_header_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = ("a,b,c", "a, b ,c ", "a,b,x", "#,,", "#,,1", "1,2,3")
    path.write_text("a,b,c\n" + "".join(f"{row}\n" * 6_000 for row in rows))
    reading = read_table(path)
    assert reading.frame.unique(maintain_order=True).rows() == [("a", "b", "x"), ("#", None, "1"), ("1", "2", "3")]
    assert reading.frame.height == 18_000
    assert [warning.message for warning in reading.warnings] == [
        "6,000 rows are comments.",
        "12,000 rows are copies of the header.",
    ]


def test_wide_header_is_read_whole(tmp_path: Path) -> None:
    names = [f"a column with a long name, number {i}" for i in range(9_000)]
    path = tmp_path / "wide.csv"
    path.write_text(";".join(names) + "\n" + ";".join(["1"] * 9_000) + "\n" + ";".join(["2"] * 9_000) + "\n")
    assert path.stat().st_size > 262_144
    assert read_table(path).frame.columns == names


def test_equal_names_are_numbered_in_order() -> None:
    names, renamed = unique_names(["a", "a", "a_2", "a", ""])
    assert names == ("a", "a_3", "a_2", "a_4", "column_5")
    assert renamed == ((2, "a_3"), (4, "a_4"), (5, "column_5"))


def test_paths_and_encodings_that_no_system_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["profile", "x" * 5_000]) == ExitCode.DATA
    assert run_command_line(["profile", str(tmp_path / ("d/" * 2_500))]) == ExitCode.DATA
    assert "bug in tabapp" not in capsys.readouterr().err
    path = tmp_path / "table.csv"
    path.write_bytes(table_corpus.CSV)
    for encoding in ("utf\0", "\0", "rot13", "x" * 100_000, "zip"):
        with pytest.raises(UsageError, match="no encoding named"):
            read_table(path, ReadOptions(encoding=encoding))


def test_fifos_and_devices_are_rejected_without_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    for path in (fifo, Path("/dev/zero"), Path("/dev/null")):
        assert run_command_line(["profile", str(path)]) == ExitCode.DATA
        assert "not a regular file" in capsys.readouterr().err
        assert first_rows(path, 10) is None
        assert read_sample(path) is None


def test_sample_of_a_large_file_with_an_unclosed_quote(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b'a,b\n"1,2\n' + b"3,4\n" * 2_500_000)
    assert read_sample(path) is None
