"""Columns that do not hold one value in each row are left out by name, and moments of any zone are read as UTC."""

from __future__ import annotations

import base64
import re
import struct
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from tabapp.data.columnar.arrow_sizes import unreadable_columns
from tabapp.data.columnar.parquet_sizes import row_groups
from tabapp.data.infer import infer_schema
from tabapp.data.plain import left_out
from tabapp.data.profile import schema_with_warnings
from tabapp.data.reading import columnar
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import read_parts
from tabapp.data.stored import as_text
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError, UsageError
from tests.data.new_rows.comparing import compared

N = 60
FORMATS = [".arrow", ".parquet"]
START = datetime(2024, 1, 1)
MOMENTS = [START + timedelta(minutes=37 * i) for i in range(N)]


def nested() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "tags": [["a", "b"]] * N,
            "x": [float(i % 7) for i in range(N)],
            "address": [{"city": "Ulm", "zip": i} for i in range(N)],
            "photo": [b"\xff\x00" * 8] * N,
            "y": ["no", "yes", "yes"] * (N // 3),
        }
    )


def written(frame: pl.DataFrame, path: Path) -> Path:
    frame.write_ipc(path, compression="lz4") if path.suffix == ".arrow" else frame.write_parquet(path)
    return path


def with_zone(path: Path, zone: str) -> Path:
    """Replace the zone of the moments in a file by one of the same length that polars does not write."""
    old, new = b"Israel", zone.encode()
    assert len(old) == len(new)
    content = path.read_bytes()
    if path.suffix == ".arrow":
        assert old in content
        path.write_bytes(content.replace(old, new))
        return path

    def patched(found: re.Match[bytes]) -> bytes:
        return base64.b64encode(base64.b64decode(found[0]).replace(old, new))

    path.write_bytes(re.sub(rb"/////[A-Za-z0-9+/]+=*", patched, content))
    assert path.read_bytes() != content
    return path


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_of_lists_structures_and_bytes_are_left_out_by_name(suffix: str, tmp_path: Path) -> None:
    reading = read_table(written(nested(), tmp_path / f"t{suffix}"))
    assert reading.frame.columns == ["x", "y"]
    assert reading.left_out == {"tags": "lists", "address": "structures", "photo": "bytes"}
    schema = schema_with_warnings(reading, target="y")
    (warning,) = [each for each in schema.warnings if each.check == "nested"]
    assert all(repr(name) in warning.message for name in ("tags", "address", "photo"))
    assert [column.name for column in schema.features] == ["x"]
    assert {column.name for column in schema.columns if column.role == "ignore"} == set(reading.left_out)
    asked = schema_with_warnings(reading, target="y", ignore=["tags", "address", "photo"])
    assert not [each for each in asked.warnings if each.check == "nested"]
    assert asked.column("tags").overridden


@pytest.mark.parametrize(
    "asked", [{"target": "tags"}, {"target": "y", "group": "photo"}, {"target": "y", "kinds": {"address": "numeric"}}]
)
def test_a_nested_column_cannot_have_a_role(asked: dict[str, object], tmp_path: Path) -> None:
    reading = read_table(written(nested(), tmp_path / "t.parquet"))
    with pytest.raises(UsageError, match="not one value in each row"):
        infer_schema(reading.frame, left_out=reading.left_out, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", FORMATS)
def test_new_rows_may_have_further_nested_columns(suffix: str, tmp_path: Path) -> None:
    plain = nested().select("x", "y")
    schema = infer_schema(as_text(plain, "t"), target="y")
    reading = read_table(written(nested(), tmp_path / f"t{suffix}"), columns=schema.columns)
    assert "'tags' (lists)" in reading.warnings[0].message
    assert compared(reading.frame, schema).notes() == []
    # Those that training left out are as expected.
    known = read_table(tmp_path / f"t{suffix}")
    trained = infer_schema(known.frame, target="y", left_out=known.left_out)
    assert read_table(tmp_path / f"t{suffix}", columns=trained.columns).warnings == ()
    assert compared(known.frame, trained).notes() == []
    (part,) = read_parts(tmp_path / f"t{suffix}", ReadOptions(), trained.columns)
    assert part.frame.equals(known.frame)
    assert part.warnings == ()


def test_a_feature_that_is_nested_in_new_rows_is_missing(tmp_path: Path) -> None:
    schema = infer_schema(as_text(nested().select("x", "y"), "t"), target="y")
    new = nested().select(pl.concat_list("x").alias("x"), "y")
    reading = read_table(written(new, tmp_path / "t.parquet"), columns=schema.columns)
    assert "'x' (lists)" in reading.warnings[0].message
    with pytest.raises(DataError, match="columns are missing: 'x'"):
        compared(reading.frame, schema).notes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_of_nested_columns_only_is_refused(suffix: str, tmp_path: Path) -> None:
    path = written(nested().select("tags", "photo"), tmp_path / f"t{suffix}")
    with pytest.raises(DataError, match="no column holds one value in each row"):
        read_table(path)


def test_columns_that_are_left_out_need_no_memory(tmp_path: Path) -> None:
    """A few bytes of a compressed file hold lists of any size, which are not decoded."""
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": range(50), "^bag$": [list(range(20_000))] * 50, "photo": [b"\0" * 100_000] * 50})
    frame.write_parquet(path, compression="zstd")
    assert sum(group.size()[0] for group in row_groups(path)) > 5_000_000
    assert sum(group.size(without={"^bag$", "photo"})[0] for group in row_groups(path)) < 10_000
    reading = read_table(path, ReadOptions(max_memory=2**20))
    assert reading.frame["x"].to_list() == [str(i) for i in range(50)]


@pytest.mark.parametrize("zone", ["+05:30", "-00:30", "Mars/1", "<+03>3"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_moments_of_any_zone_are_read_as_utc(
    zone: str, unit: pl.datatypes.TimeUnit, suffix: str, tmp_path: Path
) -> None:
    at = pl.Series("at", MOMENTS, dtype=pl.Datetime(unit, "UTC")).dt.convert_time_zone("Israel")
    path = with_zone(written(nested().select("x", "y", at), tmp_path / f"t{suffix}"), zone)
    reading = read_table(path)
    assert reading.frame["at"].str.to_datetime("%Y-%m-%d %H:%M:%S%.fZ").to_list() == MOMENTS
    schema = infer_schema(reading.frame, target="y", stored=reading.stored)
    assert schema.column("at").kind == "datetime"
    again = typed_frame(read_table(path, columns=schema.columns).frame, schema)["at"]
    assert again.to_list() == MOMENTS
    assert pl.concat([part.frame for part in read_parts(path, ReadOptions())]).equals(reading.frame)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_durations_keep_their_digits(unit: pl.datatypes.TimeUnit) -> None:
    durations = pl.Series([100, None, 123_456_789_012], dtype=pl.Int64).cast(pl.Duration(unit))
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    found = as_text(pl.DataFrame({"d": durations}), "t")["d"].to_list()
    assert [None if text is None else float(text) for text in found] == [
        100 / per_second,
        None,
        123_456_789_012 / per_second,
    ]


def extension(name: str, values: pl.Series) -> pl.Series:
    return values.ext.to(pl.Extension(name, values.dtype, None))


@pytest.mark.parametrize("suffix", FORMATS)
def test_values_of_an_extension_type_are_those_that_it_stores(suffix: str, tmp_path: Path) -> None:
    frame = nested().with_columns(
        extension("own.number", pl.Series("x", [i % 7 for i in range(N)])), extension("own.bytes", nested()["photo"])
    )
    reading = read_table(written(frame, tmp_path / f"t{suffix}"))
    assert reading.frame["x"].to_list() == [str(i % 7) for i in range(N)]
    assert reading.left_out["photo"] == "bytes"


def test_every_other_type_holds_one_value() -> None:
    frame = pl.DataFrame({"a": [None], "b": [True], "c": [1.5], "d": ["x"], "e": [START], "f": [timedelta(1)]})
    assert left_out(frame.schema) == {}


def arrow_with_type(content: bytes, number: int) -> bytes:
    """An Arrow file whose first column has another type in its metadata, which polars does not read."""
    position = len(content) - 10 - struct.unpack_from("<i", content, len(content) - 10)[0]
    footer = bytearray(content)

    def field_of(table: int, field: int) -> int:
        fields = table - struct.unpack_from("<i", footer, table)[0]
        return table + struct.unpack_from("<H", footer, fields + 4 + 2 * field)[0]

    def followed(place: int) -> int:
        return place + struct.unpack_from("<I", footer, place)[0]

    schema = followed(field_of(followed(position), 1))
    column = followed(followed(field_of(schema, 1)) + 4)
    footer[field_of(column, 2)] = number
    return bytes(footer)


@pytest.mark.parametrize(("number", "held"), [(22, "run-end encoded values"), (25, "views of lists")])
def test_a_type_that_polars_does_not_read_is_no_damage(number: int, held: str, tmp_path: Path) -> None:
    content = BytesIO()
    nested().select("x", "y").write_ipc(content)
    path = tmp_path / "t.arrow"
    path.write_bytes(arrow_with_type(content.getvalue(), number))
    assert unreadable_columns(path) == {"x": held}
    with pytest.raises(DataError, match=f"because of 'x' \\({held}\\)") as raised:
        read_table(path)
    assert "damaged" not in str(raised.value)


def test_a_damaged_file_is_still_called_damaged(tmp_path: Path) -> None:
    path = written(nested().select("x", "y"), tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    for read in (lambda: read_table(path), lambda: columnar.count_rows(path, "parquet")):
        with pytest.raises(DataError, match="damaged or cut off"):
            read()


@pytest.mark.parametrize(
    "labels", [list(range(0, 2 * N, 2)), [i % 7 for i in range(N)], [f"k{i % 9}" for i in range(N)]]
)
def test_row_labels_of_pandas_are_no_feature(labels: list[object]) -> None:
    frame = nested().select("x", "y", pl.Series("__index_level_0__", labels))
    column = infer_schema(as_text(frame, "t"), target="y").column("__index_level_0__")
    assert (column.kind, column.role) == ("identifier", "ignore")
