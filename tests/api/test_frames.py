"""Tables in and out: types are kept, and names are checked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabapp.api.frames import frame_like, series_like, to_polars
from tabapp.api.profiling import profile
from tabapp.data.plain import left_out
from tabapp.errors import DataError, UsageError

DAY = datetime(2024, 5, 1, 12, 30)
COLUMNS: dict[str, tuple[object, pl.DataType, list[object]]] = {
    "integers": (pd.Series([1, 2, 3], dtype="int32"), pl.Int32(), [1, 2, 3]),
    "nullable integers": (pd.Series([1, None, 2**60], dtype="Int64"), pl.Int64(), [1, None, 2**60]),
    "nullable unsigned": (pd.Series([1, None, 255], dtype="UInt8"), pl.UInt8(), [1, None, 255]),
    "floats": (pd.Series([0.1, np.nan, 2.5]), pl.Float64(), [0.1, None, 2.5]),
    "half floats": (pd.Series([0.5, 1.5, 2.5], dtype="float16"), pl.Float32(), [0.5, 1.5, 2.5]),
    "nullable floats": (pd.Series([0.1, None, 2.5], dtype="Float64"), pl.Float64(), [0.1, None, 2.5]),
    "booleans": (pd.Series([True, False, True]), pl.Boolean(), [True, False, True]),
    "nullable booleans": (pd.Series([True, None, False], dtype="boolean"), pl.Boolean(), [True, None, False]),
    "booleans as objects": (pd.Series([True, None, False], dtype=object), pl.Boolean(), [True, None, False]),
    "text": (pd.Series(["a", None, "c"]), pl.String(), ["a", None, "c"]),
    "text as objects": (pd.Series(["a", None, np.nan], dtype=object), pl.String(), ["a", None, None]),
    "nullable text": (pd.Series(["a", None, "c"], dtype="string"), pl.String(), ["a", None, "c"]),
    "categories": (pd.Series(["x", None, "y"], dtype="category"), pl.Categorical(), ["x", None, "y"]),
    "categories of numbers": (pd.Series([3, 1, 3], dtype="category"), pl.Categorical(), ["3", "1", "3"]),
    "ordered categories": (
        pd.Series(pd.Categorical(["lo", "hi", None], categories=["lo", "hi"], ordered=True)),
        pl.Enum(["lo", "hi"]),
        ["lo", "hi", None],
    ),
    "moments": (pd.Series([DAY, pd.NaT, DAY]), pl.Datetime("us"), [DAY, None, DAY]),
    "moments with a zone": (
        pd.Series([DAY.replace(tzinfo=UTC), None]).dt.tz_convert("Asia/Tokyo"),
        pl.Datetime("us"),
        [DAY, None],
    ),
    "moments in seconds": (pd.Series([DAY, None], dtype="datetime64[s]"), pl.Datetime("us"), [DAY, None]),
    "durations in seconds": (
        pd.Series([timedelta(hours=1), None], dtype="timedelta64[s]"),
        pl.Duration("us"),
        [timedelta(hours=1), None],
    ),
    "periods": (
        pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
        pl.Datetime("us"),
        [datetime(2024, 1, 1), datetime(2024, 2, 1)],
    ),
    "durations": (pd.Series([timedelta(hours=1), None]), pl.Duration("us"), [timedelta(hours=1), None]),
    "dates as objects": (pd.Series([date(2024, 5, 1), None], dtype=object), pl.Date(), [date(2024, 5, 1), None]),
    "decimals": (pd.Series([Decimal("1.5"), 2, None], dtype=object), pl.Float64(), [1.5, 2.0, None]),
    "mixed objects": (pd.Series(["a", 1, True], dtype=object), pl.String(), ["a", "1", "True"]),
    "sparse": (pd.Series([0, 0, 5], dtype="Sparse[int]"), pl.Int64(), [0, 0, 5]),
    "intervals": (pd.Series(pd.interval_range(0, 2)), pl.String(), ["(0, 1]", "(1, 2]"]),
    "nothing": (pd.Series([None, None], dtype=object), pl.String(), [None, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_pandas_column_keeps_its_type(name):
    column, dtype, values = COLUMNS[name]
    frame = to_polars(pd.DataFrame({"a": column}))
    assert frame["a"].to_list() == values
    if isinstance(dtype, pl.Datetime | pl.Duration):
        assert isinstance(frame["a"].dtype, type(dtype))
    else:
        assert frame["a"].dtype == dtype


@pytest.mark.parametrize(
    ("values", "held"),
    [([[1], [2]], "lists"), ([{"a": 1}, None], "structures"), ([b"a", b"b"], "bytes"), ([(1,), 2], "lists")],
    ids=str,
)
def test_values_that_are_no_plain_column_are_named_when_they_are_left_out(values, held):
    table = pd.DataFrame({"bag": pd.Series(values, dtype=object), "x": [1, 2]})
    frame = to_polars(table)
    assert left_out(frame.schema) == {"bag": held}
    assert frame["bag"].null_count() == 2
    assert left_out(to_polars(pl.DataFrame({"bag": [[1], [2]], "x": [1, 2]})).schema) == {"bag": "lists"}
    many = pd.concat([table.assign(y=["a", "b"])] * 15)
    (warning,) = [each for each in profile(many, target="y", kind={"x": "numeric"}).warnings if each.check == "nested"]
    assert f"'bag' ({held})" in warning.message
    assert "nested" not in {each.check for each in profile(many, target="y", ignore="bag").warnings}


def test_complex_numbers_are_rejected_by_name():
    with pytest.raises(DataError, match="'bag' of data holds complex numbers"):
        to_polars(pd.DataFrame({"bag": [1j, 2j]}))


def test_the_index_of_a_pandas_table_is_ignored():
    table = pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 7], name="number"))
    assert to_polars(table).to_dict(as_series=False) == {"a": [1, 2]}


def test_duplicate_column_names_are_rejected():
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="several columns named 'a'"):
        to_polars(table)
    with pytest.raises(DataError, match="several columns named '1'"):
        to_polars(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(DataError, match="Column 2 of data has no name"):
        to_polars(pl.DataFrame({"a": [1], " ": [2]}))


def test_column_names_become_text_with_single_spaces():
    assert to_polars(pd.DataFrame([[1, 2]], columns=[0, " a  b "])).columns == ["0", "a b"]
    assert to_polars(pl.DataFrame({" a  b ": [1]})).columns == ["a b"]
    with pytest.raises(DataError, match="several levels"):
        to_polars(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])))


def test_an_arrow_table_needs_no_pyarrow():
    class ArrowTable:
        """Any library's table with the Arrow PyCapsule interface."""

        def __init__(self, frame: pl.DataFrame) -> None:
            self._frame = frame

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self._frame.__arrow_c_stream__(requested_schema)

    frame = pl.DataFrame({"a": [1, None], "b": pl.Series(["x", "y"], dtype=pl.Categorical)})
    found = to_polars(ArrowTable(frame))
    assert found["a"].to_list() == [1, None]
    assert found.schema["b"] == pl.Categorical()


def test_a_lazy_frame_is_collected():
    assert to_polars(pl.LazyFrame({"a": [1]})).height == 1


@pytest.mark.parametrize(
    ("data", "what"),
    [(np.zeros((3, 2)), "numpy.ndarray"), ([1, 2], "list"), (None, "NoneType"), (pl.Series([1]), "polars.Series")],
)
def test_what_is_no_table_is_rejected(data, what):
    with pytest.raises(UsageError, match=f"data is a {what}; pass"):
        to_polars(data)


def test_results_have_the_library_and_the_index_of_the_data():
    values = pl.Series("y", ["b", "a"])
    table = pd.DataFrame({"a": [1, 2]}, index=[20, 10])
    series = series_like(table, values)
    assert isinstance(series, pd.Series)
    assert (list(series.index), list(series), series.name) == ([20, 10], ["b", "a"], "y")
    frame = frame_like(table, {"low": pl.Series([0.5, 1.5])})
    assert (list(frame.index), list(frame["low"])) == ([20, 10], [0.5, 1.5])
    assert series_like("file.csv", values) is values
    assert frame_like(pl.DataFrame(), {"low": pl.Series([0.5])}).columns == ["low"]


def test_a_type_that_polars_does_not_read_is_one_sentence():
    class Table:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise pl.exceptions.ComputeError('The datatype "+r" is still not supported')

    with pytest.raises(DataError, match=r"data has a column of a type that cannot be read \(The datatype"):
        to_polars(Table())
