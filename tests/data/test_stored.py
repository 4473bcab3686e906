"""Column types of Parquet and Arrow files are kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import Reading, read_table
from tabapp.data.schema import Column, Schema
from tabapp.data.stored import as_text
from tabapp.data.typed import typed_column, typed_frame

N = 60
SIZES = ["small", "medium", "large", "huge"]


def table(**columns: pl.Series) -> pl.DataFrame:
    return pl.DataFrame(
        {**columns, "x": [float(i % 7) for i in range(N)], "y": ["no", "yes", "yes"] * (N // 3)},
    )


def read(frame: pl.DataFrame, folder: Path, suffix: str = ".arrow") -> Reading:
    path = folder / f"table{suffix}"
    frame.write_ipc(path) if suffix == ".arrow" else frame.write_parquet(path)
    return read_table(path)


def schema_of(reading: Reading, **options: object) -> Schema:
    return infer_schema(reading.frame, target="y", stored=reading.stored, **options)  # type: ignore[arg-type]


def judged(values: pl.Series, folder: Path, suffix: str = ".arrow", **options: object) -> Column:
    return schema_of(read(table(column=values), folder, suffix), **options).column("column")


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
@pytest.mark.parametrize(
    "levels",
    [["1", "2", "3"], ["0", "1"], [f"{i}" for i in range(N)], [f"2024-01-{day:02d}" for day in range(1, 31)]],
    ids=["numbers", "zero and one", "all different", "dates"],
)
def test_categorical_column_is_categorical_for_any_levels(levels, suffix, tmp_path):
    values = pl.Series([levels[i % len(levels)] for i in range(N)], dtype=pl.Categorical)
    column = judged(values, tmp_path, suffix)
    assert (column.kind, column.role) == ("categorical", "feature")
    assert sorted(column.levels) == sorted(levels)
    assert "Categorical" in column.reason
    assert not column.overridden


def test_categorical_column_of_many_numbers_is_categorical(tmp_path):
    n = 3_000
    frame = pl.DataFrame(
        {
            "code": pl.Series([str(i % 1_500) for i in range(n)], dtype=pl.Categorical),
            "x": [i * 0.5 for i in range(n)],
            "y": ["no", "yes", "yes"] * (n // 3),
        }
    )
    column = schema_of(read(frame, tmp_path)).column("code")
    assert (column.kind, column.unique) == ("categorical", 1_500)


def test_enum_keeps_the_order_of_its_levels(tmp_path):
    frame = table(
        column=pl.Series(["tall", "grande", "venti"] * 20, dtype=pl.Enum(["tall", "grande", "venti", "trenta"]))
    )
    assert schema_of(read(frame, tmp_path)).column("column").order == ("tall", "grande", "venti")
    unordered = table(column=pl.Series(["tall", "grande", "venti"] * 20, dtype=pl.Categorical))
    assert schema_of(read(unordered, tmp_path)).column("column").order == ()


def test_category_spelled_like_a_missing_cell_is_a_value(tmp_path):
    texts = ["NA", "ZA", None] * 20
    reading = read(table(column=pl.Series(texts, dtype=pl.Categorical)), tmp_path)
    schema = schema_of(reading)
    assert (schema.column("column").missing, schema.column("column").unique) == (20, 2)
    assert typed_frame(reading.frame, schema)["column"].to_list() == texts
    assert judged(pl.Series(texts), tmp_path).missing == 40


def test_dates_and_datetimes_keep_their_values(tmp_path):
    days = [date(1999, 12, 1) + timedelta(days=i) for i in range(N)]
    moments = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=7 * i, microseconds=i) for i in range(N)]
    reading = read(
        table(day=pl.Series(days), moment=pl.Series(moments, dtype=pl.Datetime("ns", "Europe/Berlin"))), tmp_path
    )
    schema = schema_of(reading)
    assert [schema.column(name).kind for name in ("day", "moment")] == ["datetime", "datetime"]
    typed = typed_frame(reading.frame, schema)
    assert typed["day"].to_list() == [datetime(day.year, day.month, day.day) for day in days]
    assert typed["moment"].to_list() == [moment.replace(tzinfo=None) for moment in moments]
    assert [schema.column(name).zone for name in ("day", "moment")] == [None, "UTC"]


def test_date_before_the_year_1000_is_inferred_from_text(tmp_path):
    values = pl.Series([date(1 + i, 1, 1) for i in range(N)])
    assert judged(values, tmp_path).kind != "datetime"


@pytest.mark.parametrize("end", [date(9999, 12, 31), date(1, 1, 1), date(2999, 12, 31)])
@pytest.mark.parametrize("count", [1, 25])
def test_far_dates_of_a_typed_column_are_missing(end, count, tmp_path):
    days = [end if i < count else date(2020, 1, 3) + timedelta(days=i) for i in range(N)]
    moments = [datetime(day.year, day.month, day.day, 23, 59, 59) for day in days]
    reading = read(table(day=pl.Series(days), moment=pl.Series(moments)), tmp_path, ".parquet")
    schema = schema_of(reading)
    typed = typed_frame(reading.frame, schema)
    for name, values in (("day", days), ("moment", moments)):
        assert schema.column(name).kind == "datetime"
        assert schema.column(name).open_ends == (str(end),)
        known = [datetime.fromisoformat(str(value)) for value in values[count:]]
        assert typed[name].to_list() == [None] * count + known
        marks = [str(end)] * count + [None] * (N - count)
        assert f"{name} mark" not in typed.columns if count == 1 else typed[f"{name} mark"].to_list() == marks


def test_typed_column_with_one_value_is_constant(tmp_path):
    assert judged(pl.Series(["a"] * N, dtype=pl.Categorical), tmp_path).kind == "constant"


def test_kind_option_overrides_the_type(tmp_path):
    values = pl.Series([str(i % 9) for i in range(N)], dtype=pl.Categorical)
    column = judged(values, tmp_path, kinds={"column": "numeric"})
    assert (column.kind, column.overridden) == ("numeric", True)


def test_categorical_target_of_numbers_is_classification(tmp_path):
    frame = table(code=pl.Series([f"{i % 30}.5" for i in range(N)], dtype=pl.Categorical))
    reading = read(frame, tmp_path)
    assert infer_schema(reading.frame, target="code", stored=reading.stored).task == "multiclass"
    assert infer_schema(reading.frame, target="code").task == "regression"


def test_numbers_booleans_and_text_are_inferred_as_in_a_csv_file(tmp_path):
    frame = table(
        integers=pl.Series([i * 3 % 11 for i in range(N)]),
        holes=pl.Series([None if i % 5 == 0 else i * 7 % 13 for i in range(N)], dtype=pl.Int16),
        flags=pl.Series([i % 3 == 0 for i in range(N)]),
        texts=pl.Series([["red", "green"][i % 2] for i in range(N)]),
    )
    reading = read(frame, tmp_path)
    assert set(reading.stored) == set()
    frame.write_csv(tmp_path / "table.csv")
    from_csv = infer_schema(read_table(tmp_path / "table.csv").frame, target="y")
    assert [c.kind for c in schema_of(reading).columns] == [c.kind for c in from_csv.columns]


@pytest.mark.parametrize("form", ["iso", "day first", "month first", "year first", "epoch s", "epoch ms", "excel"])
def test_typed_dates_are_read_in_a_column_of_any_format(form):
    moments = [datetime(2023, 4, 3, 2, 1, 0, 123_456), datetime(1650, 12, 31), None]
    frame = pl.DataFrame({"day": [date(2023, 4, 3), date(1650, 12, 31), None], "moment": moments})
    columns = [Column(name=name, kind="datetime", reason="", datetime_format=form) for name in frame.columns]
    texts = as_text(frame, "table", columns)
    assert texts["day"].to_list() == ["2023-04-03", "1650-12-31", None]
    assert typed_column(texts["moment"], columns[1]).to_list() == moments
    assert typed_column(texts["day"], columns[0]).to_list() == [datetime(2023, 4, 3), datetime(1650, 12, 31), None]


@pytest.mark.parametrize(
    "cells",
    [
        ["1.234,5", "12,5", "-7.001.000,25", "0,5"],
        ["1234,5", "12,5", "-70,25", "0,5"],
        ["1:02:03", "0:00:07", "12:30:00", "0:01:00"],
    ],
)
def test_numbers_are_written_as_the_column_of_a_schema_reads_them(cells, tmp_path):
    path = tmp_path / "text.csv"
    path.write_text("".join(f"{cell};{row % 2}\n" for row, cell in enumerate(["x", *20 * cells])))
    schema = infer_schema(read_table(path).frame, target="0")
    assert schema.features[0].kind == "numeric"
    numbers = typed_frame(read_table(path).frame, schema)["x"]
    assert numbers.null_count() == 0
    for name, write in (("t.parquet", pl.DataFrame.write_parquet), ("t.arrow", pl.DataFrame.write_ipc)):
        write(pl.DataFrame({"x": [*numbers.to_list(), None, 1e-7, 1500.0]}), tmp_path / name)
        again = typed_frame(read_table(tmp_path / name, columns=schema.columns).frame, schema)["x"]
        assert again.to_list() == [*numbers.to_list(), None, 1e-7, 1500.0]
