"""Tables that are drawn, aligned, or quoted by other rules than CSV are the same tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabapp.data.reading.head import first_rows
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import is_large, read_parts
from tabapp.errors import DataError
from tests.data.reading.files import NAMES, PLAIN, ROWS, lines, messages, read, schema_of

SPACED = " " + " | ".join(NAMES) + "\n"


def drawn(rows: list[tuple[str, ...]], form: str = "| {:6} | {:7} | {:5} | {:3} |\n") -> str:
    return "".join(form.format(*row) for row in rows)


RULER = "+--------+---------+-------+-----+\n"
BOX = "│ {:6} │ {:7} │ {:5} │ {:3} │\n"
WIDE = "{:>8} {:7} {:>6}  {:3}\n"
LAYOUTS: dict[str, Callable[[list[tuple[str, ...]]], str]] = {
    "psql": lambda rows: f"   a    |    g    |   b   |  y\n--------+---------+-------+-----\n"
    f"{drawn(rows, ' {:6} | {:7} | {:5} | {}' + chr(10))}({len(rows)} rows)\n\n",
    "mysql": lambda rows: f"mysql> select * from t;\n{RULER}{drawn([NAMES])}{RULER}{drawn(rows)}{RULER}"
    "40 rows in set (0.0 sec)\n\nmysql> Bye\n",
    "markdown": lambda rows: drawn([NAMES]) + "|---|:--:|--:|---|\n" + drawn(rows),
    "markdown without outer bars": lambda rows: " | ".join(NAMES) + "\n--- | :-: | --: | ---\n" + lines(rows, " | "),
    "org": lambda rows: drawn([NAMES]) + "|--------+---------+-------+-----|\n" + drawn(rows),
    "grid": lambda rows: RULER + drawn([NAMES]) + RULER.replace("-", "=") + RULER.join(drawn([row]) for row in rows) + RULER,
    "bars only": lambda rows: drawn([NAMES], "|{}|{}|{}|{}|\n") + drawn(rows, "|{}|{}|{}|{}|\n"),
    "duckdb": lambda rows: "┌────────┬─────────┬───────┬─────┐\n" + drawn([NAMES, ("double", "varchar", "float", "str")], BOX)
    + "├────────┼─────────┼───────┼─────┤\n" + drawn(rows, BOX) + "├────────┴─────────┴───────┴─────┤\n"
    "│ 40 rows              4 columns │\n└────────────────────────────────┘\n",
    "sqlcmd": lambda rows: WIDE.format(*NAMES) + "-------- ------- ------  ---\n" + drawn(rows, WIDE) + "\n(40 rows affected)\n",
    "sqlplus": lambda rows: "\n" + WIDE.format(*NAMES) + "-------- ------- ------  ---\n" + drawn(rows, WIDE)
    + "\n40 rows selected.\n\nElapsed: 00:00:00.02\nSQL> \n",
    "rst": lambda rows: "======  =====  ====  ===\n".join(["", drawn([NAMES], "{:6}  {:5}  {:4}  {}\n"),
                                                         drawn(rows, "{:6}  {:5}  {:4}  {}\n"), ""]),
    "aligned": lambda rows: WIDE.format(*NAMES) + drawn(rows, WIDE),
    "single spaces": lambda rows: lines([NAMES], " ") + lines(rows, " "),
    "numpy": lambda rows: "# " + lines([NAMES], " ") + lines(rows, " "),
    "doubled": lambda rows: lines([NAMES], ";;") + lines(rows, ";;"),
    "some doubled": lambda rows: lines([NAMES], "\t") + "".join(("\t\t" if i % 5 == 2 else "\t").join(row) + "\n"
                                                                for i, row in enumerate(rows)),
    "pairs": lambda rows: lines([NAMES], "::") + lines([(a, f"{g}, x", b, y) for a, g, b, y in rows], "::"),
    "arff-like": lambda rows: '"a","g","b","y"\n' + lines([(a, f"'{g}, it\\'s'", b, f"'{y}'") for a, g, b, y in rows]),
    "doubled quotes": lambda rows: "a,g,b,y\n" + lines([(a, f"'{g}, it''s'", b, f"'{y}'") for a, g, b, y in rows]),
    "arff": lambda rows: "% a comment\n@RELATION 't t'\n\n@attribute a numeric\n@ATTRIBUTE 'g' {'red, x', blue}\n"
    '@attribute "b" real\n@attribute y {yes,no}\n\n@data\n% rows\n'
    + lines([(a, f"'{g}, x'", b, y) for a, g, b, y in rows]),
    "weka": lambda rows: "a,g,b,y\n" + lines([(a, f"'{g} x'", b, y) for a, g, b, y in rows]),
}  # fmt: skip
CHANGED = {"arff": "{}, x", "pairs": "{}, x", "arff-like": "{}, it's", "doubled quotes": "{}, it's", "weka": "{} x"}


def expected(name: str, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [(a, CHANGED.get(name, "{}").format(g), b, y) for a, g, b, y in rows]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_is_the_same_table(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LAYOUTS[name](ROWS)
    reading = read(tmp_path, text)
    assert reading.frame.columns == list(NAMES)
    assert reading.frame.rows() == expected(name, ROWS)
    assert reading.warnings
    head = first_rows(tmp_path / "table.txt", 100)
    assert head is not None
    assert [tuple(row) for row in head.rows] == reading.frame.rows()
    columns = schema_of(reading)
    for rows in (ROWS[:1], ROWS[:2]):
        assert read(tmp_path, LAYOUTS[name](rows), columns).frame.rows() == expected(name, rows)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_in_parts_is_the_same_table(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabapp.data.reading.stream.BLOCK", 2000)
    monkeypatch.setattr("tabapp.data.reading.stream.LARGE_TEXT", 1000)
    path = tmp_path / "table.txt"
    path.write_text(LAYOUTS[name](ROWS * 10))
    quoted = name in ("arff", "arff-like", "doubled quotes", "weka")
    assert is_large(path, ReadOptions()) != quoted
    if not quoted:
        parts = pl.concat([part.frame for part in read_parts(path, ReadOptions())])
        assert parts.equals(read_table(path).frame)
        assert parts.height == 10 * len(ROWS)


R_ROWS = [(str(i * 37 % 101 + 200), *row) for i, row in enumerate(ROWS)]


@pytest.mark.parametrize("delimiter", ["\t", " ", ",", ";"])
@pytest.mark.parametrize("quote", ['"', ""])
def test_row_names_of_r(tmp_path: Path, delimiter: str, quote: str) -> None:
    def table(rows: list[tuple[str, ...]]) -> str:
        quoted = [NAMES, *rows]
        return "".join(delimiter.join(f"{quote}{cell}{quote}" for cell in row) + "\n" for row in quoted)

    reading = read(tmp_path, table(R_ROWS))
    assert reading.frame.columns == ["row_names", *NAMES]
    assert reading.frame.rows() == R_ROWS
    assert "row names" in messages(reading)
    assert "first column named row_names" in messages(reading)
    columns = schema_of(reading)
    assert columns[0].role == "ignore"
    assert read(tmp_path, table(R_ROWS[:1]), columns).frame.rows() == R_ROWS[:1]
    assert read(tmp_path, PLAIN, columns).frame.columns == list(NAMES)


def test_row_names_of_pandas(tmp_path: Path) -> None:
    text = "        a      g     b    y\n" + drawn(
        [(str(i), *row) for i, row in enumerate(ROWS)], "{:3}{:>6} {:>6} {:>5} {:>4}\n"
    )
    frame = read(tmp_path, text + "\n[40 rows x 4 columns]\n").frame
    assert frame.columns == ["row_names", *NAMES]
    assert [row[1:] for row in frame.rows()] == ROWS


@pytest.mark.parametrize(
    "text",
    [
        "id,a,b\n" + "".join(f"{i},{i},5,2\n" for i in range(40)),
        "a,b,c\n" + "".join(f"{i % 5},{i},5,2\n" for i in range(40)),
    ],
)
def test_decimal_commas_and_repeated_values_are_no_row_names(tmp_path: Path, text: str) -> None:
    with pytest.raises(Exception, match="line 2 has 4 fields but the header has 3"):
        read(tmp_path, text)


def test_texts_and_gaps_in_aligned_columns(tmp_path: Path) -> None:
    cities = ("New York", "Los Angeles", "Rome", "San Diego")
    rows = [(cities[i % 4], str(i * 31 % 900) if i % 3 else "", "yn"[i % 2]) for i in range(40)]
    reading = read(tmp_path, drawn([("city", "pop", "y"), *rows], "{:12} {:>5}   {}\n"))
    assert reading.frame.columns == ["city", "pop", "y"]
    assert reading.frame.rows() == [(city, pop or None, y) for city, pop, y in rows]


def test_words_and_tabs_of_a_classic_file(tmp_path: Path) -> None:
    text = "".join(f'{10 + i % 20}.0   {4 + i % 3}   {100 + i}.5\t"car {i} model"\n' for i in range(40))
    reading = read(tmp_path, text)
    assert reading.frame.width == 4
    assert reading.frame.row(0) == ("10.0", "4", "100.5", "car 0 model")


QUOTED_WORD, QUOTED_WORDS = "'Heroes'", "'A b'"
SINGLE_QUOTES_STAY = {
    "labels": "a,y\n" + "".join(f"{i},'{(-1, 1)[i % 2]}'\n" for i in range(40)),
    "titles": "title,x\n" + "".join(f"{('Let it be', QUOTED_WORD, QUOTED_WORDS)[i % 3]},{i}\n" for i in range(40)),
    "apostrophes": "text,x\n" + "".join(f"'tis {i} o'clock,{i}\n" for i in range(40)),
    "inside double quotes": 'text,x\n' + "".join(f"\"he said,'no way', {i}\",{i}\n" for i in range(40)),
}  # fmt: skip


@pytest.mark.parametrize("text", SINGLE_QUOTES_STAY.values(), ids=SINGLE_QUOTES_STAY.keys())
def test_single_quotes_that_belong_to_the_values_stay(tmp_path: Path, text: str) -> None:
    reading = read(tmp_path, text)
    assert reading.frame.height == 40
    assert reading.frame.width == 2
    assert reading.warnings == ()
    assert "'" in "".join(reading.frame.row(1)) + "".join(reading.frame.row(2))


def test_quoted_levels_of_an_earlier_version_stay(tmp_path: Path) -> None:
    text = LAYOUTS["weka"](ROWS)
    kept = schema_of(read(tmp_path, text.replace("'", "\u2019")))
    columns = [column for column in kept if column.name == "g"]
    assert read(tmp_path, text, tuple(kept)).frame["g"][0] == "red x"
    assert columns[0].levels[0].startswith("\u2019")


def test_arff_names_are_kept_and_sparse_rows_rejected(tmp_path: Path) -> None:
    header = "@relation t\n@attribute 'a b, \\'c\\'' numeric\n@attribute y {1,2}\n@data\n"
    reading = read(tmp_path, header + "".join(f"{i},{i % 2 + 1}\n" for i in range(30)) + "?,1\n")
    assert reading.frame.columns == ["a b, 'c'", "y"]
    assert reading.frame.row(-1) == ("?", "1")
    assert "ARFF" in messages(reading)
    with pytest.raises(DataError, match="The ARFF file is sparse"):
        read(tmp_path, header + "{0 3, 1 2}\n{1 1}\n")
    assert first_rows(tmp_path / "table.txt", 5) is None


PIECES = (
    '"',
    "'",
    "\n",
    ",",
    "|",
    "-",
    " ",
    "(3 rows)\n",
    "\t",
    "::",
    "\\",
    "+--+--+\n",
    "{",
    "@data\n",
    "\x1a",
    "Total",
    ",,,\n",
    "\r",
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(PIECES), st.booleans()), max_size=8),
)
def test_damaged_layouts_are_read_or_rejected_in_a_sentence(
    tmp_path: Path, name: str, changes: list[tuple[int, str, bool]]
) -> None:
    text = LAYOUTS[name](ROWS[:20])
    for place, piece, cuts in changes:
        at = place % (len(text) + 1)
        text = text[:at] + piece + (text[at:] if not cuts else text[at + 9 :])
    message = ""
    try:
        assert read(tmp_path, text).frame.width > 0
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    first_rows(tmp_path / "table.txt", 5)


PLACES = [(f"n{i}", f"Town {i % 4}, {'NSE'[i % 3]}", f'the "{i % 5}" one', f"{i / 8}") for i in range(40)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{0}, "{1}", "{2}", {3}', "Texts in quotes are after spaces."),
        ('"{0}" , "{1}" , "{2}" , {3}', "Texts in quotes are after spaces."),
        ('{0}; "{1}"; "{2}"; {3}', "Texts in quotes are after spaces."),
    ],
)
def test_texts_in_quotes_after_spaces(tmp_path: Path, line: str, found: str) -> None:
    lines = [
        line.format(*(cell.replace('"', '""') for cell in row)) for row in [("name", "at, of", "which", "x"), *PLACES]
    ]
    reading = read(tmp_path, "\n".join(lines) + "\n")
    assert reading.frame.columns == ["name", "at, of", "which", "x"]
    assert [tuple(map(str.strip, row)) for row in reading.frame.rows()] == PLACES
    assert found in messages(reading)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_after_a_backslash(tmp_path: Path, end: str) -> None:
    rows = [(name, f"{at}\nC:\\{name}", which, x) for name, at, which, x in PLACES]
    escaped = [[cell.replace("\\", "\\\\").replace('"', '\\"') for cell in row] for row in rows]
    text = f"name,at,which,x{end}" + "".join(f'"{a}","{b}","{c}",{d}{end}' for a, b, c, d in escaped)
    reading = read(tmp_path, text)
    assert reading.frame.rows() == rows
    assert "Quotes in texts follow a backslash." in messages(reading)


def test_backslashes_at_the_end_of_texts_are_no_escapes(tmp_path: Path) -> None:
    rows = [(f"C:\\dir{i}\\", f'say "{i}", please', f"{i}") for i in range(30)]
    text = "folder,text,x\n" + "".join(f'"{a}","{b.replace(chr(34), chr(34) * 2)}",{c}\n' for a, b, c in rows)
    reading = read(tmp_path, text)
    assert (reading.frame.rows(), reading.warnings) == (rows, ())
