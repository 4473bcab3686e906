"""A header is found or found missing, and rows of units and types below it are labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabapp.data.infer import infer_schema
from tabapp.errors import DataError
from tests.data.reading.files import NAMES, PLAIN, ROWS, lines, messages, read, schema_of

N = 60
NO_HEADER = {
    "iris": [(f"{4 + i % 30 / 10}", f"{2 + i % 17 / 10}", ("Iris-setosa", "Iris-virginica")[i % 2]) for i in range(N)],
    "car": [(("vhigh", "low")[i % 2], ("2", "4", "more")[i % 3], ("acc", "unacc")[i % 5 % 2]) for i in range(N)],
    "adult": [(f"{20 + i}", (" Private", " ?", " State-gov")[i % 3], f" {10_000 + 7 * i}", (" <=50K", " >50K")[i % 2])
              for i in range(N)],
    "titanic": [(f"{i + 1}", f"{i % 2}", f'"Name{i}, Mr. A{i}"', ("male", "female")[i % 3 % 2], f"{7 + i}.25", "SCQ"[i % 3])
                for i in range(N)],
    "dates": [(f"2024-01-{1 + i % 28:02}", f"{i % 13}.5", "uv"[i % 2]) for i in range(N)],
    "messages": [(("ham", "spam")[i % 2], f"the text number {i} is long") for i in range(N)],
    "a rare level": [(f"{i}", f"{i % 9}.5", "once" if i == 0 else "uv"[i % 2], "yn"[i % 2]) for i in range(N)],
}  # fmt: skip


@pytest.mark.parametrize("rows", NO_HEADER.values(), ids=NO_HEADER.keys())
def test_missing_header_is_found(tmp_path: Path, rows: list[tuple[str, ...]]) -> None:
    reading = read(tmp_path, lines(rows))
    assert reading.frame.shape == (N, len(rows[0]))
    assert reading.frame.columns == [f"column_{i + 1}" for i in range(len(rows[0]))]
    assert "the file has no header" in messages(reading)
    assert "column_1, column_2 …; add a line of names" in messages(reading)


HEADERS = {
    "years": ("country,code,1990,1991,1992", [(f"C{i}", f"X{i}", f"{i * 91}", f"{i * 87}", f"{i * 95}") for i in range(N)]),
    "doses": ("sensor,10,20,50,100", [(f"s{i}", f"{5 + i}", f"{9 + i}", f"{8 + i}", f"{120 - i}") for i in range(N)]),
    "wavelengths": (",".join(f"{1100 + 2 * i}.5" for i in range(6)), [tuple(f"0.{i + k}" for k in range(6)) for i in range(N)]),
    "a name that is a value": ("message,spam", [(f"the text number {i} is long", ("spam", "ham")[i % 2]) for i in range(N)]),
    "letters": ("a,b,c", [("abc"[i % 3], "abc"[i % 2], "bca"[i % 3]) for i in range(N)]),
    "text columns": ("buying,maint,class", NO_HEADER["car"]),
    "series of pandas": (",0", [(f"{i}", f"{i % 7}.5") for i in range(N)]),
    "names not in the values": ("name,city", [(f"N{i}", f"C{i}") for i in range(N)]),
}  # fmt: skip


@pytest.mark.parametrize(("header", "rows"), HEADERS.values(), ids=HEADERS.keys())
def test_header_is_kept(tmp_path: Path, header: str, rows: list[tuple[str, ...]]) -> None:
    reading = read(tmp_path, f"{header}\n{lines(rows)}")
    assert reading.frame.columns == [name or "column_1" for name in header.split(",")]
    assert reading.frame.height == N
    assert "first row" not in messages(reading)


def test_a_first_row_that_may_be_data_is_named(tmp_path: Path) -> None:
    reading = read(tmp_path, "Bob,23\n" + lines([(f"N{i}", f"{20 + i}") for i in range(N)]))
    assert reading.frame.columns == ["Bob", "23"]
    assert "The first row may be data" in messages(reading)


LABELS = {
    "units": ("m/s,,kg,", {"a": "m/s", "b": "kg"}),
    "units in brackets": ("[m],-,(kg),-", {"a": "[m]", "g": "-", "b": "(kg)", "y": "-"}),
    "types": ("double,varchar,float,text", {"a": "double", "g": "varchar", "b": "float", "y": "text"}),
    "titles": ("Length of a leaf,Color,Width?,Sold", {"a": "Length of a leaf", "g": "Color", "b": "Width?", "y": "Sold"}),
    "two rows": (
        "Length,Color,Width,Sold\nid1,id2,id3,id4",
        {"a": "Length, id1", "g": "Color, id2", "b": "Width, id3", "y": "Sold, id4"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("below", "expected"), LABELS.values(), ids=LABELS.keys())
def test_rows_of_labels_are_no_rows(tmp_path: Path, below: str, expected: dict[str, str]) -> None:
    text = f"{','.join(NAMES)}\n{below}\n"
    reading = read(tmp_path, text + lines())
    assert reading.frame.columns == list(NAMES)
    assert reading.frame.rows() == ROWS
    assert dict(reading.labels) == expected
    assert "kept as labels" in messages(reading)
    columns = schema_of(reading)
    assert {column.name: column.label for column in columns if column.label} == expected
    assert repr(expected["b"]) in columns[2].reason
    for header in (text, ",".join(NAMES) + "\n"):
        for rows in (ROWS[:1], ROWS[:2], ROWS):
            assert read(tmp_path, header + lines(rows), columns).frame.rows() == rows


@pytest.mark.parametrize(
    "first", ["n.d.,red,n.d.,yes", "unknown,red,1.5,no", "m,red,2.5,yes", "NA,blue,NA,no", ",new,,"]
)
def test_a_first_row_with_words_in_number_columns_is_a_row(tmp_path: Path, first: str) -> None:
    reading = read(tmp_path, f"{','.join(NAMES)}\n{first}\n{lines()}")
    assert reading.frame.height == len(ROWS) + 1
    assert not reading.labels


def test_names_with_units_of_an_earlier_version_are_kept(tmp_path: Path) -> None:
    old = infer_schema(read(tmp_path, "a m,g,b kg,y\n" + lines()).frame, target="y").columns
    assert read(tmp_path, "a,g,b,y\nm,,kg,\n" + lines(), old).frame.columns == ["a m", "g", "b kg", "y"]


def test_ruler_below_the_header(tmp_path: Path) -> None:
    for ruler in ("-,-----,---,---", "---|:---|--:|:-:".replace("|", ",")):
        reading = read(tmp_path, f"{','.join(NAMES)}\n{ruler}\n{lines()}(40 rows affected)\n")
        assert reading.frame.rows() == ROWS
        assert "line of dashes" in messages(reading)
    assert read(tmp_path, f"{','.join(NAMES)}\n-,-,-,-\n{lines()}").frame.height == len(ROWS) + 1


def test_new_rows_without_header_if_training_had_none(tmp_path: Path) -> None:
    rows = NO_HEADER["iris"]
    columns = infer_schema(read(tmp_path, lines(rows)).frame, target="column_3").columns
    for new in (rows[:1], rows[3:5], [("1.5", "9.5", "new")]):
        assert read(tmp_path, lines(new), columns).frame.rows() == new
        without = [row[:2] for row in new]
        assert read(tmp_path, lines(without), columns).frame.rows() == without
    named = read(tmp_path, "column_1,column_2\n1.5,2.5\n", columns).frame
    assert (named.columns, named.rows()) == (["column_1", "column_2"], [("1.5", "2.5")])


def test_absent_target_in_the_first_column_of_a_file_without_header(tmp_path: Path) -> None:
    rows = [(row[-1], *row[:2]) for row in NO_HEADER["iris"]]
    columns = infer_schema(read(tmp_path, lines(rows)).frame, target="column_1").columns
    frame = read(tmp_path, lines([row[1:] for row in rows[:2]]), columns).frame
    assert (frame.columns, frame.rows()) == (["column_2", "column_3"], [row[1:] for row in rows[:2]])


def test_new_rows_need_the_header_of_training(tmp_path: Path) -> None:
    columns = schema_of(read(tmp_path, PLAIN))
    with pytest.raises(
        DataError, match=r"has no header, unlike the table of training\. Add a first line with the names 'a'"
    ):
        read(tmp_path, lines(), columns)
    assert read(tmp_path, "g,a,b\nred,1.5,2.5\n", columns).frame.rows() == [("red", "1.5", "2.5")]
    assert read(tmp_path, f"Title\nof,this\n{PLAIN}", columns).frame.rows() == ROWS


def test_numbered_columns_are_no_twins_of_the_target(tmp_path: Path) -> None:
    frame = read(tmp_path, lines(NO_HEADER["iris"])).frame
    schema = infer_schema(frame, target="column_3")
    assert not [warning for warning in schema.warnings if "similar" in warning.message]
    named = infer_schema(frame.rename({"column_2": "outcome_2", "column_3": "outcome_3"}), target="outcome_3")
    assert [warning.column for warning in named.warnings if "similar" in warning.message] == ["outcome_2"]


TITLES = ("Sales of 2024,,,\n", "Sales of 2024,,,\n,,,\n", "Report,,,\nDate: 2024-01-01,,,\n,,,\n")


@pytest.mark.parametrize("titles", TITLES)
def test_titles_as_wide_as_the_table_are_above_the_header(tmp_path: Path, titles: str) -> None:
    rows = [("NSE"[i % 3], f"{i % 13}", f"{i / 4}", "uv"[i % 2]) for i in range(N)]
    table = lines([("shop", "sold", "price", "y")]) + lines(rows)
    reading = read(tmp_path, titles + table)
    assert reading.frame.equals(read(tmp_path, table).frame)
    shown = "One line comes" if titles.count(",") < 7 else "2 lines come"
    assert f"{shown} before the table" in messages(reading)
    columns = schema_of(reading)
    assert read(tmp_path, titles + table, columns).frame.equals(reading.frame)
    assert read(tmp_path, table, columns).frame.equals(reading.frame)


@pytest.mark.parametrize(
    "rows",
    [
        [("NSE"[i % 3], f"{i % 13}", f"{i / 4}", "uv"[i % 2]) for i in range(N)],
        [("NSE"[i % 3], "xyz"[i % 3], ["red", "blue"][i % 2], "uv"[i % 2]) for i in range(N)],
    ],
)
def test_a_header_that_lacks_most_names_is_one(tmp_path: Path, rows: list[tuple[str, ...]]) -> None:
    reading = read(tmp_path, "shop,,,\n" + lines(rows))
    assert reading.frame.columns == ["shop", "column_2", "column_3", "column_4"]
    assert reading.frame.height == N


@pytest.mark.parametrize("groups", [",2023,,2024", "shop,2023,2023,2024"])
def test_names_of_groups_of_columns_are_part_of_their_names(tmp_path: Path, groups: str) -> None:
    below = f"{'shop' if groups[0] == ',' else ''},sold,price,sold\n"
    rows = [("NSE"[i % 3], f"{i % 13}", f"{i / 4}", f"{i % 7}") for i in range(N)]
    reading = read(tmp_path, f"{groups}\n{below}" + lines(rows))
    names = ["shop", "2023 sold", "2023 price", "2024 sold"]
    assert (reading.frame.columns, reading.frame.height, reading.labels) == (names, N, {})
    assert "named" in messages(reading)
    columns = infer_schema(reading.frame, target="shop").columns
    for n_new in (1, 2, N):
        new = read(tmp_path, f"{groups}\n{below}" + lines(rows[:n_new]), columns)
        assert (new.frame.columns, new.frame.height) == (names, n_new)
    assert read(tmp_path, ",".join(names) + "\n" + lines(rows[:2]), columns).frame.columns == names


def test_a_new_row_with_empty_cells_is_no_row_of_names(tmp_path: Path) -> None:
    columns = schema_of(read(tmp_path, PLAIN))
    for row in ("1.5,,2.5,yes", ",,,", "x,,,no"):
        new = read(tmp_path, f"{','.join(NAMES)}\n{row}\n1.5,red,2.5,yes\n", columns)
        assert new.frame.columns == list(NAMES)
        assert new.frame.row(-1) == ("1.5", "red", "2.5", "yes")
        assert new.labels == {}


def test_units_below_a_missing_name_are_no_names(tmp_path: Path) -> None:
    rows = [(f"{i % 13}", f"{i / 4}", f"{i % 7}") for i in range(N)]
    reading = read(tmp_path, "weight,,time\nkg,cm,s\n" + lines(rows))
    assert reading.frame.columns == ["weight", "column_2", "time"]
    assert reading.labels["column_2"] == "cm"
