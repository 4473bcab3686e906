"""Bodies and tables of a few bytes that need gigabytes, at any scale. The same scale always gives the same content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import polars as pl

from tests.hostile.delta_texts import equal_texts

JSON, CSV = "application/json", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.file", "application/vnd.apache.parquet"

ROW = {"size": ["0.5"], "age": ["40"], "color": ["red"], "joined": ["2024-02-03"]}
"""A row that the bundles of these tests predict."""


@dataclass(frozen=True)
class Body:
    """A body.

    Attributes:
        kind: its media type.
        make: its content at a scale; reading it at scale 1 without limits needs gigabytes.
    """

    kind: str
    make: Callable[[float], bytes]


def repeated(text: str, n_rows: int) -> pl.Series:
    """A column of equal texts, which share their bytes."""
    return pl.Series("color", [text]).gather(pl.zeros(n_rows, dtype=pl.UInt32, eager=True))


def _table(color: pl.Series) -> pl.DataFrame:
    others = {name: cells * len(color) for name, cells in ROW.items() if name != "color"}
    return pl.DataFrame([*(pl.Series(name, cells) for name, cells in others.items()), color])


def _arrow(table: pl.DataFrame, compression: str = "zstd") -> bytes:
    content = BytesIO()
    table.write_ipc(content, compression=compression)
    return content.getvalue()


def _parquet(table: pl.DataFrame) -> bytes:
    content = BytesIO()
    table.write_parquet(content)
    return content.getvalue()


def _category(n_rows: float, n_bytes: int) -> bytes:
    return _arrow(pl.DataFrame([repeated("x" * n_bytes, int(n_rows)).cast(pl.Categorical)]))


BODIES = {
    "Arrow, rows of a long category": Body(ARROW, lambda scale: _category(200_000 * scale, 60_000)),
    "Arrow, many rows of a category": Body(ARROW, lambda scale: _category(1_000_000 * scale, 6_000)),
    "CSV, one line of commas": Body(CSV, lambda scale: b"a,b,y\n" + b"," * int(16_000_000 * scale) + b"\n"),
    "CSV, two lines of commas": Body(CSV, lambda scale: b"a,b,y\n" + 2 * (b"," * int(8_000_000 * scale) + b"\n")),
    "Arrow, a long text": Body(
        ARROW, lambda scale: _arrow(_table(pl.Series("color", ["x" * int(300_000_000 * scale)])))
    ),
    "Parquet, rows of a long text": Body(
        PARQUET, lambda scale: _parquet(_table(repeated("x" * 60_000, int(10_000 * scale))))
    ),
    "Parquet, a long text in an unused column": Body(
        PARQUET, lambda scale: _parquet(pl.DataFrame({**ROW, "note": ["x" * int(500_000_000 * scale)]}))
    ),
    "Arrow, rows that share a text": Body(
        ARROW, lambda scale: _arrow(_table(repeated("x" * 200_000, int(10_000 * scale))), "uncompressed")
    ),
    "Parquet, texts as their difference to the text before": Body(
        PARQUET, lambda scale: equal_texts(int(10_000 * scale), 60_000)
    ),
    "Parquet, many constant columns": Body(
        PARQUET,
        lambda scale: _parquet(
            pl.DataFrame({f"c{i}": pl.zeros(10_000, eager=True) for i in range(int(4_000 * scale))})
        ),
    ),
    "JSON, a row that names many columns": Body(
        JSON,
        lambda scale: (
            b'{"rows":[{'
            + b",".join(b'"c%d":1' % i for i in range(int(100_000 * scale)))
            + b"}"
            + b",{}" * 9_999
            + b"]}"
        ),
    ),
    "JSON, rows without cells": Body(JSON, lambda scale: b'{"rows":[' + b"{}," * int(5_000_000 * scale) + b"{}]}"),
    "JSON, lists in lists": Body(
        JSON, lambda scale: b'{"rows":[{"size":[' + b"[]," * int(5_000_000 * scale) + b"1]}]}"
    ),
}
"""The bodies by what is in them."""
