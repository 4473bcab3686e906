"""Hostile tables: handwritten ones, and mutations of valid files by a seed. The same names always have the same content."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta

import polars as pl
from backports import zstd

ROWS = "".join(
    f"{i * 7 % 101 / 4},{['red', 'blue', 'green'][i % 3]},{['yes', 'no'][i * 3 % 7 % 2]}\n" for i in range(60)
)
CSV = ("size,color,answer\n" + ROWS).encode()


def frame() -> pl.DataFrame:
    """60 rows of every plain type."""
    count = range(60)
    return pl.DataFrame(
        {
            "x": [i * 7 % 101 / 4 for i in count],
            "n": [None if i % 9 == 0 else i * 31 % 17 for i in count],
            "color": [["red", "blue", "green"][i % 3] for i in count],
            "day": [date(2024, 1, 1) + timedelta(days=i * 3) for i in count],
            "moment": [datetime(2024, 1, 1) + timedelta(hours=i * 5) for i in count],
            "took": [timedelta(seconds=i * 11) for i in count],
            "flag": [i % 2 == 0 for i in count],
            "y": [["yes", "no"][i * 3 % 7 % 2] for i in count],
        }
    ).with_columns(pl.col("color").cast(pl.Categorical).alias("category"))


def parquet(table: pl.DataFrame, **options: object) -> bytes:
    content = io.BytesIO()
    table.write_parquet(content, **options)
    return content.getvalue()


def arrow(table: pl.DataFrame, compression: str = "uncompressed") -> bytes:
    content = io.BytesIO()
    table.write_ipc(content, compression=compression)
    return content.getvalue()


def zipped(content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("table.csv", content)
    return archive.getvalue()


def valid_files() -> dict[str, bytes]:
    """The files that `mutations` starts from, by format."""
    table = frame()
    return {
        "csv": CSV,
        "quoted": b'"a ""b""","c\nd",y\n' + ROWS.replace("red", '"r,e\nd"').encode(),
        "utf16": CSV.decode().encode("utf-16"),
        "gzip": gzip.compress(CSV, mtime=0),
        "zstd": zstd.compress(CSV),
        "zip": zipped(CSV),
        "parquet": parquet(table, compression="uncompressed"),
        "parquet_zstd": parquet(table),
        "arrow": arrow(table),
        "arrow_lz4": arrow(table, "lz4"),
        "arrow_zstd": arrow(table, "zstd"),
    }


def mutations(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` damaged files, the formats in turn: changed bytes, cuts, copies, insertions and large integers."""
    valid = valid_files()
    names = list(valid)
    for index in range(count):
        name = names[index % len(names)]
        generator = random.Random(f"{seed} {index}")
        yield f"mutated-{seed}-{index:04}-{name}", mutated(valid[name], generator)


def mutated(content: bytes, generator: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 4, 16))):
        place = generator.randrange(len(data)) if data else 0
        match generator.randrange(7):
            case 0:
                data[place : place + 1] = bytes([generator.randrange(256)])
            case 1:
                data[place : place + 1] = bytes([(data[place] if data else 0) ^ 1 << generator.randrange(8)])
            case 2:
                del data[place:]
            case 3:
                del data[place : place + generator.randrange(1, 64)]
            case 4:
                data[place:place] = data[place : place + generator.randrange(1, 256)] * generator.randrange(1, 4)
            case 5:
                data[place:place] = generator.randbytes(generator.randrange(1, 32))
            case _:
                number = generator.choice((-1, 2**31 - 1, -(2**31), 2**62, 0x7F7F7F7F7F7F7F7F))
                data[place : place + 8] = (number % 2**64).to_bytes(8, "little")
    return bytes(data)


def wide(cell: Callable[[int, int], str]) -> bytes:
    """A table of 50,000 columns and 20 rows; the last column is the answer."""
    header = ",".join([*(f"c{j}" for j in range(49_999)), "y"])
    rows = (",".join([*(cell(i, j) for j in range(49_999)), str(i % 2)]) for i in range(20))
    return "\n".join([header, *rows, ""]).encode()


def with_claim(content: bytes, size: int) -> bytes:
    """An Arrow file whose first compressed buffer claims another size."""
    place = content.index(b"\x28\xb5\x2f\xfd") - 8
    return content[:place] + (size % 2**64).to_bytes(8, "little") + content[place + 8 :]


def crafted() -> dict[str, bytes]:
    """Small tables made to exhaust memory or time, or to confuse a parser."""
    days = pl.Series("day", [0, 2**31 - 1, -(2**31)] * 20, dtype=pl.Int32)
    moments = pl.Series("moment", [0, 2**63 - 1, -(2**63) + 1] * 20, dtype=pl.Int64)
    table = frame().select("x", "y")
    far = {
        "days": table.with_columns(days.cast(pl.Date)),
        "milliseconds": table.with_columns(moments.cast(pl.Datetime("ms"))),
        "microseconds": table.with_columns(moments.cast(pl.Datetime("us"))),
        "nanoseconds": table.with_columns(moments.cast(pl.Datetime("ns"))),
        "zoned": table.with_columns(moments.cast(pl.Datetime("us", "UTC"))),
        "durations": table.with_columns(moments.cast(pl.Duration("ms"))),
    }
    found = {f"far-{name}.parquet": parquet(one) for name, one in far.items()}
    found |= {f"far-{name}.arrow": arrow(one) for name, one in far.items()}
    found |= {
        "commas": b"," * 20_000_000,
        "commas-below-a-header": CSV + b"," * 1_000_000 + b"\n",
        "semicolons.gz": gzip.compress(b";" * 10_000_000, 1),
        "blank-lines-below-a-wide-header": ",".join(f"c{i}" for i in range(5_000)).encode() + b"\n" * 1_000_000,
        "equal-names": b",".join([b"a"] * 50_000) + b"\n" + b",".join([b"1"] * 50_000) + b"\n",
        "distinct-names": b",".join(b"c%d" % i for i in range(50_000)) + b"\n" + b",".join([b"1"] * 50_000) + b"\n",
        "empty-names": b"," * 50_000 + b"\n",
        "unclosed-at-start": b'a,b\n"1,2\n' + b"3,4\n" * 700_000,
        "unclosed-line": b'a,b\n1,"' + b"x" * 9_000_000,
        "ragged": b"a,b,c\n" + b"".join(b"1," * (i % 7) + b"2\n" for i in range(100_000)),
        "long-cell": b"a,y\n" + b"x" * 1_000_000 + b",1\n" + b"z,2\n" * 30,
        "names-of-escapes": b"\x1b[31ma,\x1b]0;t\x07b,y\n" + ROWS.encode(),
        "names-of-patterns": b"*,^a$,^.*$\n" + ROWS.encode(),
        "names-of-markup": b"mass [kg],[/b],price [$]\n" + ROWS.encode(),
        "nul-bytes": CSV.replace(b"red", b"r\0d"),
        "only-nul": bytes(100_000),
        "surrogates": b"a,b,y\n" + b"\xed\xa0\x80," + ROWS.encode(),
        "huge-numbers": CSV.replace(b"1", b"9" * 400),
        "exponents": CSV.replace(b".25", b"e999999999"),
        "far-years": CSV.replace(b"red", b"99999-01-01")
        .replace(b"blue", b"-9999-12-31")
        .replace(b"green", b"0000-00-00"),
        "right-to-left": "\u202ea,\u2066b,y\n".encode() + ROWS.encode(),
        "formulas": b"=cmd|' /C calc'!A0,+1,@y\n" + ROWS.encode(),
        "json": b'[{"a": 1}]' * 1_000_000,
        "separator-line": b"sep=\x00\n" + CSV,
        "nested.parquet": parquet(table.with_columns(pl.Series("list", [[1, 2]] * 60))),
        "no-columns.parquet": parquet(pl.DataFrame()),
        "no-rows.parquet": parquet(table.head(0)),
        "constant-rows.parquet": parquet(
            pl.DataFrame({f"c{i}": pl.repeat(True, 5_000_000, dtype=pl.Boolean, eager=True) for i in range(40)})
        ),
        "claims-exbibytes.arrow": with_claim(arrow(frame(), "zstd"), 2**62),
        "claims-gibibytes.arrow": with_claim(arrow(frame(), "zstd"), 2**36),
        "claims-negative.arrow": with_claim(arrow(frame(), "zstd"), -5),
        "magic.parquet": b"PAR1" * 3,
        "magic.arrow": b"ARROW1\0\0" * 3,
        "magic.gz": b"\x1f\x8b" * 8,
        "magic.zst": b"\x28\xb5\x2f\xfd" * 4,
        "magic.zip": b"PK\x03\x04" * 8,
        "zip-in-zip": zipped(zipped(CSV)),
    }
    return found


def expensive() -> dict[str, bytes]:
    """Tables whose making or reading takes seconds."""
    many = b"1,2\n" * 25_000_000
    return {
        "rows.gz": gzip.compress(many, 1),
        "rows.zst": zstd.compress(many),
        "bomb.gz": gzip.compress(bytes(1_100_000_000), 1),
        "bomb.zst": zstd.compress(bytes(1 << 20)) * 1_100,
        "many-commas-below-a-header": CSV + b"," * 10_000_000 + b"\n",
        "very-long-cell": b"a,y\n" + b"x" * 9_000_000 + b",1\n" + b"z,2\n" * 30,
        "wide-numbers": wide(lambda i, j: f"{(i * 7919 + j * 31) % 10_007 / 8}"),
        "wide-dates": wide(lambda i, j: f"2024-{(i + j) % 12 + 1:02}-{j % 28 + 1:02}"),
        "wide.parquet": parquet(pl.DataFrame({f"c{j}": [i / (j + 1) for i in range(20)] for j in range(20_000)})),
        "many-columns": b"x," * 150_000 + b"y\n" + b"1," * 150_000 + b"2\n",
        "unclosed-at-end": b"a,b\n" + b"3,4\n" * 700_000 + b'"1,2\n',
        "unclosed-header": b'"a,b\n' + b"3,4\n" * 700_000,
        "odd-quotes": b"a,b\n" + b'1",2\n' * 300_001,
        "only-quotes": b'"' * 3_000_001,
    }
