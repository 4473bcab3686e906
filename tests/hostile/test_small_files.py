"""Small files that need gigabytes are refused in a sentence before they are decoded."""

from __future__ import annotations

import os

import polars as pl
import psutil
import pytest

from tabapp.cli.main import run_command_line
from tabapp.data import limits as data_limits
from tabapp.data.columnar.parquet_sizes import row_groups
from tabapp.data.reading import records
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import read_parts
from tabapp.errors import DataError, ExitCode, TooLargeError
from tests.hostile.bodies import ARROW, BODIES, CSV, PARQUET
from tests.hostile.delta_texts import equal_texts

SMALL = 1 / 16
"""Scale of the files; the memory that may be used has the same."""
SUFFIXES = {CSV: "csv", ARROW: "arrow", PARQUET: "parquet"}
FILES = [name for name, body in BODIES.items() if body.kind in SUFFIXES]


@pytest.mark.parametrize("name", FILES)
def test_files_are_refused_before_they_are_decoded(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(data_limits, "LONGEST_CELL", int(data_limits.LONGEST_CELL * SMALL))
    path = tmp_path / f"table.{SUFFIXES[BODIES[name].kind]}"
    path.write_bytes(BODIES[name].make(SMALL))
    assert run_command_line(["profile", str(path), "--max-memory", "64MiB"]) == ExitCode.DATA
    sentence = capsys.readouterr().err.strip().splitlines()[-1]
    assert sentence.startswith(f"tabapp: {path}:")
    assert "panicked" not in sentence
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    with pytest.raises(DataError, match=r"GiB of memory to read|has a text of|fields but the header"):
        read_table(path, ReadOptions(max_memory=2**26))
    assert process.memory_info().rss - before < 2**27


def test_texts_as_their_difference_to_the_text_before_are_read_in_steps(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_bytes(equal_texts(5_000, 300))
    for options in (ReadOptions(), ReadOptions(max_memory=2**24)):
        frame = read_table(path, options).frame
        assert frame.height == 5_000
        assert frame.to_series().unique().to_list() == ["x" * 300]
    assert sum(part.frame.height for part in read_parts(path, ReadOptions(max_memory=2**24))) == 5_000


def test_sizes_that_the_pages_of_parquet_files_claim(tmp_path):
    path = tmp_path / "table.parquet"
    table = pl.DataFrame({"a": range(20_000), "b": [f"a text of more than twelve bytes {i}" for i in range(20_000)]})
    for compression in ("uncompressed", "snappy", "zstd"):
        table.write_parquet(path, compression=compression, row_group_size=10_000)
        groups = row_groups(path)
        assert [group.n_rows for group in groups] == [10_000, 10_000]
        assert 0.5 * table.estimated_size() < sum(group.size()[0] for group in groups) < 2 * table.estimated_size()
    content = path.read_bytes()
    for damaged in (
        content[:-1],
        content[:-8] + b"\xff" * 8,
        content[-12:],
        b"PAR1" * 3,
        content[: len(content) // 2] + b"PAR1",
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"metadata|end is missing"):
            row_groups(path)


def test_a_large_file_in_parts_counts_its_texts(tmp_path):
    path = tmp_path / "table.arrow"
    path.write_bytes(BODIES["Arrow, many rows of a category"].make(0.6))
    with pytest.raises(TooLargeError, match="GiB of memory to read"):
        list(read_parts(path, ReadOptions(max_memory=2**28)))


def test_a_cell_that_no_model_uses_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(data_limits, "LONGEST_CELL", 1_000)
    monkeypatch.setattr(records, "LONGEST_CELL", 1_000)
    for rows in (f"a,y\n{'x' * 1_001},1\nz,2\n", f"a,y\n{'x' * 1_001},1\nz\n", f'a,y\n"{"x" * 1_001}"" ",1\nz,2\n'):
        path = tmp_path / "table.csv"
        path.write_text(rows)
        with pytest.raises(TooLargeError, match="column 'a' has a text of"):
            read_table(path)
