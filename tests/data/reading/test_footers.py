"""Lines below a table are no rows, whatever program printed them; a value that training knows always is one."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import read_parts
from tests.data.reading.files import NAMES, PLAIN, ROWS, lines, messages, read, schema_of

FOOTERS = (
    "(40 rows)", "(40 Zeilen)", "(1 row)", "40 rows in set (0.01 sec)", "40 rows selected.", "(40 rows affected)",
    "40 lignes", "1.000 Zeilen", "Fetched 40 row(s)", "Fetched 1,000 row(s)", "[40 rows x 4 columns]",
    "40 rows × 4 columns", "Query OK, 40 rows affected (0.00 sec)", "Records: 40", "Total rows: 40", "Row count: 40",
    "SELECT 40", "Showing 1 to 40 of 40 entries", "Time: 12.3 ms", "Elapsed: 00:00:00.01",
    "Completion time: 2024-01-01T00:00:00.1+00:00", "Total", "Total,,123.4,", "Total:,,,", "Grand Total,,99,",
    "Average,,4.5,", "EOF", "#EOF", "END", "\\.", "-- end", "End of report", "Bye", "mysql>", "----",
    "====,====,====,====", "Source: World Bank", "Source: World Bank, 2024", '"Source: our own, 2024",,,',
    "Notes: a, b", "* estimates", "© 2024 ACME", "Copyright ACME, Inc.", "Generated on 2024-01-02 by X, Y",
    "Last Updated: 12/21/2023", "Data from database: World Development Indicators", "Page 1 of 1", "Report by John",
    "(40 rows),,,", ",,,\n\nSource: x,,,", "\n\nPrepared by: Bob",
)  # fmt: skip


@pytest.mark.parametrize("footer", FOOTERS)
def test_footer_is_no_row(tmp_path: Path, footer: str) -> None:
    for end in ("\n", ""):
        reading = read(tmp_path, PLAIN + footer + end)
        assert reading.frame.rows() == ROWS
        (warning,) = reading.warnings
        assert "totals or remarks" in warning.message
        assert warning.action.startswith("dropped; ")


def test_all_lines_below_a_table_are_named(tmp_path: Path) -> None:
    reading = read(tmp_path, PLAIN + "Total,,7.5,\n\n(40 rows)\nSource: x\nTime: 3 ms\n")
    assert reading.frame.rows() == ROWS
    assert "4 rows have totals or remarks ('Total', '(40 rows)', 'Source: x' …)." in messages(reading)


def test_control_z_at_the_end_is_removed(tmp_path: Path) -> None:
    for end in ("\x1a", "\n\x1a", "\r\n\x1a\r\n"):
        reading = read(tmp_path, PLAIN.rstrip("\n") + end)
        assert reading.frame.rows() == ROWS
        assert "Ctrl+Z" in messages(reading)


SALES = "region,sales,y\n" + "".join(f"{'NSE'[i % 3]},{100 + 10 * i},{i / 7:.2f}\n" for i in range(40))


@pytest.mark.parametrize(
    "total", ["Total,11800,111.43", "Grand total,11801,2.79", 'Sum,"11,800.00",2.79', "Total,x,111.4"]
)
def test_a_total_with_all_cells_is_no_row(tmp_path: Path, total: str) -> None:
    reading = read(tmp_path, f"{SALES}{total}\n")
    assert reading.frame.height == 40
    assert f"One row has totals or remarks ('{total.split(',')[0]}')." in messages(reading)
    for two in (f"Average,295,2.79\n{total}\n", f"{total}\nAverage,295,2.79\n\nSource: us\n"):
        assert read(tmp_path, SALES + two).frame.height == 40


@pytest.mark.parametrize("row", ["Total,500,2.79", "Total,11300,112", "Totally,11800,111.43", "Total,0,0", "Total,x,y"])
def test_a_row_that_is_not_the_sum_of_the_others_stays(tmp_path: Path, row: str) -> None:
    assert read(tmp_path, f"{SALES}{row}\n").frame.height == 41
    few = "region,sales\nN,1\nS,2\nTotal,3\n"
    assert read(tmp_path, few).frame.height == 3, "of two rows, a sum may be chance"


def test_a_total_below_a_long_text_stays(tmp_path: Path) -> None:
    text = "region,text,y\n" + "".join(f"{'NSE'[i % 3]},{'x' * (200_000 if i == 7 else 3)},{i}\n" for i in range(40))
    before = csv.field_size_limit(131_072)
    try:
        assert read(tmp_path, f"{text}Total,x,{sum(range(40))}\n").frame.height == 41
    finally:
        csv.field_size_limit(before)


def test_a_total_stays_where_it_is_a_level(tmp_path: Path) -> None:
    total = "Total,11800,111.43\n"
    assert read(tmp_path, SALES.replace("S,", "Total,", 1) + total).frame.height == 41
    columns = schema_of(read(tmp_path, SALES.replace("S,", "Total,")))
    assert read(tmp_path, SALES + total, columns).frame.height == 41


@pytest.mark.parametrize(
    "row",
    ["7.5", "7.5,,,", "NA,,,", "7.5,,1.25", "new,,3.5,yes", "3.5,total,1.5,no", "12 kg,,,"],
)
def test_row_with_gaps_stays(tmp_path: Path, row: str) -> None:
    assert read(tmp_path, f"{PLAIN}{row}\n").frame.height == len(ROWS) + 1


def test_rows_without_a_cell_are_rows_only_of_a_file_to_predict(tmp_path: Path) -> None:
    text = PLAIN + ",,,\n" * 30 + " , ,,\n" + f"{'1.5,green,0.25,no'}\n"
    reading = read(tmp_path, text)
    assert reading.frame.height == len(ROWS) + 1
    assert reading.frame.row(-1) == ("1.5", "green", "0.25", "no")
    assert "31 rows are empty in every cell." in messages(reading)
    assert read(tmp_path, text, schema_of(reading)).frame.height == len(ROWS) + 32


def test_a_cut_off_row_of_words_stays(tmp_path: Path) -> None:
    text = lines([("g", "a", "y")]) + lines([(g, a, y) for a, g, _, y in ROWS])
    reading = read(tmp_path, text + "gre")
    assert reading.frame.row(-1) == ("gre", None, None)
    assert "too few fields" in messages(reading)


def test_quotes_over_several_lines_are_no_footer(tmp_path: Path) -> None:
    reading = read(tmp_path, PLAIN + '1.5,"red\nTotal\n(40 rows)",2.5,"yes\nEOF"\n')
    assert reading.frame.row(-1) == ("1.5", "red\nTotal\n(40 rows)", "2.5", "yes\nEOF")
    assert reading.warnings == ()


def test_known_levels_are_rows_of_a_new_file(tmp_path: Path) -> None:
    firsts = ("Total", "Note Inc", "#7", "Source: A", "END")
    training = [(firsts[i % 5], a, y) for i, (a, _, _, y) in enumerate(ROWS)]
    columns = schema_of(read(tmp_path, "g,a,y\n" + lines(training)))
    for first in firsts:
        for rest in (",", ",1.5"):
            new = f"g,a\nTotal,1.5\n{first}{rest}\n{first}{rest}\n"
            reading = read(tmp_path, new, columns)
            assert reading.frame["g"].to_list() == ["Total", first, first], first
            assert reading.warnings == ()


def test_footer_of_a_file_with_few_new_rows(tmp_path: Path) -> None:
    columns = schema_of(read(tmp_path, PLAIN))
    for footer in ("(1 row)", "Report by John", "Total,,4.5", "Source: x, y"):
        reading = read(tmp_path, f"a,g,b\n1.5,red,2.5\n{footer}\n", columns)
        assert reading.frame.rows() == [("1.5", "red", "2.5")]
        assert "totals or remarks" in messages(reading)


def test_footers_of_a_single_column(tmp_path: Path) -> None:
    reading = read(tmp_path, "name\nTotal\nEOF\n(2 rows)\n")
    assert reading.frame["name"].to_list() == ["Total", "EOF"]


def test_joined_files(tmp_path: Path) -> None:
    for joint in ("", "\ufeff", "(40 rows)\n\n", "Total,,3.5,\n", "Report of May\n\n"):
        text = ("Report of May\n\n" if "Report" in joint else "") + PLAIN + joint + PLAIN
        reading = read(tmp_path, text)
        assert reading.frame.rows() == [*ROWS, *ROWS], joint
        assert "copy of the header" in messages(reading)


def test_copies_of_a_header_with_units_or_repeated_names(tmp_path: Path) -> None:
    text = "a,a,,b\nm,s,kg,\n" + lines()
    reading = read(tmp_path, text + text)
    assert reading.frame.rows() == [*ROWS, *ROWS]
    assert reading.frame.columns == ["a", "a_2", "column_3", "b"]


def test_a_second_header_in_another_order_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="row 41 is a second header with the columns in another order"):
        read(tmp_path, PLAIN + "g,a,b,y\n" + lines([(g, a, b, y) for a, g, b, y in ROWS]))
    letters = "a,b,c\n" + "".join(f"{'cba'[i % 3]},{'bca'[i % 3]},{'abc'[i % 3]}\n" for i in range(30)) + "b,b,b\n"
    assert read(tmp_path, letters).frame.height == 31


def test_a_large_file_ends_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabapp.data.reading.stream.BLOCK", 1000)
    path = tmp_path / "table.csv"
    path.write_text(lines([NAMES]) + lines() * 20 + "Total,,7.5,\n(800 rows)\n")
    parts = list(read_parts(path, ReadOptions()))
    assert len(parts) > 3
    assert [row for part in parts for row in part.frame.rows()] == ROWS * 20
    assert read_table(path).frame.rows() == ROWS * 20
    assert "2 rows have totals or remarks" in parts[-1].warnings[0].message
