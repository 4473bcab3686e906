"""Opens Parquet and Arrow files for Polars, which never receives a path.

Polars takes brackets, `*` and `?` in a path for a pattern, expands a leading `~`, and rejects names that are not UTF-8. An open
file has none of these problems. Polars keeps a descriptor of its own, so the file is closed here at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tabapp import files
from tabapp.zones import accept_any_zone

accept_any_zone()


def scan(path: Path, kind: str) -> pl.LazyFrame:
    """A Parquet or Arrow file as a lazy frame.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
        PolarsError: it is damaged; perhaps only when the frame is collected.
    """
    with files.open_to_read(path) as file:
        return pl.scan_parquet(file) if kind == "parquet" else pl.scan_ipc(file)


def read(path: Path, kind: str, n_rows: int | None = None, columns: list[int] | None = None) -> pl.DataFrame:
    """A Parquet or Arrow file, or its first rows or some columns by their places, as a frame; raises as `scan`."""
    reader = pl.read_parquet if kind == "parquet" else pl.read_ipc
    with files.open_to_read(path) as file:
        return reader(file, n_rows=n_rows, columns=columns)


def scan_parts(parts: Sequence[Path]) -> pl.LazyFrame:
    """Arrow files of the temporary folder, one below the other. There may be more of them than a process can hold open."""
    return pl.scan_ipc([part.absolute() for part in parts], glob=False)
