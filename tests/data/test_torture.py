"""Irregular files: each case has one defined outcome, either typed columns or an error."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError

N = 40


def table(*columns: tuple[str, list[object]], delimiter: str = ",", end: str = "\n") -> str:
    """CSV text of named columns, each repeated up to 40 rows."""
    lines = [delimiter.join(name for name, _ in columns)]
    lines += [delimiter.join(str(values[i % len(values)]) for _, values in columns) for i in range(N)]
    return end.join(lines) + end


X: tuple[str, list[object]] = ("x", [f"{(i * 37 % 41) / 8}" for i in range(N)])
Y: tuple[str, list[object]] = ("y", ["no", "yes", "no"])


def column(name: str, values: list[object], **layout: str) -> str:
    """CSV text with one column under test, a numeric column and a target."""
    return table(X, (name, values), Y, **layout)


@dataclass(frozen=True)
class Case:
    """A file and the expected result.

    Attributes:
        content: bytes or text of the file.
        kinds: kinds of columns by name.
        rows: number of rows.
        cells: the first typed cells of columns by name.
        names: names of all columns.
        warnings: parts of the expected warnings.
        error: part of the expected error; the other expectations do not apply then.
        options: options for reading.
    """

    content: bytes | str
    kinds: dict[str, str] = field(default_factory=dict)
    rows: int = N
    cells: dict[str, list[object]] = field(default_factory=dict)
    names: list[str] | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    options: ReadOptions = ReadOptions()  # noqa: RUF009


def kind(values: list[object], expected: str, *cells: object, warnings: tuple[str, ...] = (), name: str = "c") -> Case:
    return Case(
        column(name, values), kinds={name: expected}, cells={name: list(cells)} if cells else {}, warnings=warnings
    )


PLAIN = column("c", ["red", "blue", "green"])
WEST = column("naïve", ["café", "thé"])


def zipped(*names: str, text: str = PLAIN) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, text)
    return buffer.getvalue()


def with_line(text: str, number: int, line: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:number], line, *lines[number:]]) + "\n"


LAYOUT: dict[str, Case] = {
    "utf-8 mark": Case(b"\xef\xbb\xbf" + PLAIN.encode(), names=["x", "c", "y"]),
    "utf-16 little": Case(PLAIN.encode("utf-16"), names=["x", "c", "y"]),
    "utf-16 big without mark": Case(PLAIN.encode("utf-16-be"), names=["x", "c", "y"]),
    "utf-32": Case(PLAIN.encode("utf-32"), names=["x", "c", "y"]),
    "cp1252 in header and cells": Case(WEST.encode("cp1252"), names=["x", "naïve", "y"], warnings=("not UTF-8",)),
    "latin-1 that is not valid cp1252": Case(WEST.encode("latin-1").replace(b"th\xe9", b"\x81"), warnings=("latin-1",)),
    "mac roman by option": Case(
        WEST.encode("mac_roman"), names=["x", "naïve", "y"], options=ReadOptions(encoding="mac_roman")
    ),
    "shift-jis by option": Case(
        column("色", ["赤", "青"]).encode("shift-jis"), names=["x", "色", "y"], options=ReadOptions(encoding="shift-jis")
    ),
    "wrong encoding by option": Case(WEST, error="not ascii text", options=ReadOptions(encoding="ascii")),
    "truncated inside a character": Case(WEST.encode() + "9,é".encode()[:-1], error="middle of a character"),
    "crlf": Case(PLAIN.replace("\n", "\r\n"), kinds={"y": "boolean"}, cells={"y": ["no", "yes"]}),
    "cr": Case(PLAIN.replace("\n", "\r"), names=["x", "c", "y"]),
    "mixed line ends": Case(PLAIN.replace("\n", "\r\n", 10), cells={"y": ["no", "yes"]}),
    "no end of line": Case(PLAIN.rstrip("\n")),
    "nul bytes": Case(PLAIN.replace("red", "r\0ed"), cells={"c": ["red"]}, warnings=("NUL characters",)),
    "blank lines": Case(PLAIN.replace("\n", "\n\n")),
    "lines of spaces": Case(with_line(PLAIN, 9, "   ")),
    "semicolons": Case(PLAIN.replace(",", ";"), names=["x", "c", "y"]),
    "semicolons and decimal commas": Case(
        PLAIN.replace(",", ";").replace(".", ","), kinds={"x": "numeric"}, cells={"x": [0.0, 4.625]}
    ),
    "tabs": Case(PLAIN.replace(",", "\t"), names=["x", "c", "y"]),
    "bars": Case(PLAIN.replace(",", "|"), names=["x", "c", "y"]),
    "sep= line": Case("sep=;\r\n" + PLAIN.replace(",", ";"), names=["x", "c", "y"]),
    "colons by option": Case(PLAIN.replace(",", ":"), names=["x", "c", "y"], options=ReadOptions(delimiter=":")),
    "commas inside quotes, tabs between": Case(column("c", ['"a,b,c,d"', '"e,f,g,h"'], delimiter="\t"), names=["x", "c", "y"]),
    "quoted newline": Case(column("c", ['"two\nlines"', "one"]), cells={"c": ["two\nlines", "one"]}),
    "doubled quotes": Case(column("c", ['"5"" pipe"', "rod"]), cells={"c": ['5" pipe', "rod"]}),
    "quote inside a field": Case(column("c", ['5" pipe', "rod"]), cells={"c": ['5" pipe', "rod"]}),
    "backslash before a quote": Case(column("c", ['"a \\""b\\"" c"', "rod"]), cells={"c": ['a \\"b\\" c', "rod"]}),
    "unclosed quote": Case(with_line(PLAIN, 30, '1,"open,yes'), error="begins in line 31 is never closed"),
    "every field quoted": Case(
        "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in PLAIN.splitlines()), cells={"x": [0.0]}
    ),
    "space after the delimiter": Case(PLAIN.replace(",", ", "), names=["x", "c", "y"], cells={"c": ["red"]}),
    "short row": Case(with_line(PLAIN, 20, "1.5"), rows=N + 1, warnings=("too few fields (line 21)",)),
    "one long row in many": Case(
        "\n".join([*PLAIN.splitlines(), *PLAIN.splitlines()[1:] * 3, "1,red,yes,9"]), rows=4 * N + 1,
        warnings=("too many fields (line 162)",),
    ),
    "many long rows": Case(PLAIN.replace("blue", "blue,navy"), error="have too many"),
    "delimiter at the end of rows": Case(PLAIN.replace("\n", ",\n").replace("x,c,y,", "x,c,y", 1), names=["x", "c", "y"]),
    "delimiter at the end of all lines": Case(PLAIN.replace("\n", ",\n"), kinds={"column_4": "constant"}),
    "repeated names": Case(PLAIN.replace("x,c,y", "x,x,y", 1), names=["x", "x_2", "y"], warnings=("repeated",)),
    "blank name": Case(PLAIN.replace("x,c,y", "x,,y", 1), names=["x", "column_2", "y"], warnings=("empty",)),
    "name that a renamed column would get": Case(PLAIN.replace("x,c,y", "x_2,x,x", 1), names=["x_2", "x", "x_3"]),
    "names with spaces and quotes": Case(PLAIN.replace("x,c,y", '" x ","the ""c""",y', 1), names=["x", 'the "c"', "y"]),
    "newline in a name": Case(PLAIN.replace("x,c,y", '"x\n(mm)",c,y', 1), names=["x (mm)", "c", "y"]),
    "no header": Case("\n".join(f"{i},{i % 3},{i % 2}" for i in range(5, N + 5)), names=["column_1", "column_2", "column_3"],
        warnings=("no header",)),
    "title above the header": Case("Sales of 2024\n\n" + PLAIN, names=["x", "c", "y"], warnings=("One line comes before",)),
    "comments above the header": Case("# made by\n# hand\n" + PLAIN, names=["x", "c", "y"], warnings=("2 lines come before",)),
    "comment in the middle": Case(with_line(PLAIN, 20, "# checked,,"), warnings=("One row is a comment",)),
    "header repeated": Case(with_line(PLAIN, 20, "x,c,y"), warnings=("copy of the header",)),
    "units below the header": Case(
        with_line(table(("w", [1.5, 2.5]), ("h", [3, 4, 7]), Y), 1, "kg,(m),"), names=["w", "h", "y"],
        kinds={"w": "numeric"}, warnings=("'w': 'kg', 'h': '(m)'",),
    ),
    "total below the table": Case(table(("i", list(range(100, 100 + 3 * N, 3))), X, Y) + "Total,99.5,\n", kinds={"i": "numeric"},
        warnings=("totals or remarks",)),
    "source below the table": Case(PLAIN + "Source: our own count,,\n", warnings=("'Source: our own count'",)),
    "total that is a category": Case(column("c", ["total", "part"]), cells={"c": ["total", "part"]}),
    "gzip": Case(gzip.compress(PLAIN.encode()), names=["x", "c", "y"]),
    "gzip of utf-16": Case(gzip.compress(PLAIN.encode("utf-16")), names=["x", "c", "y"]),
    "zip": Case(zipped("a.csv"), names=["x", "c", "y"]),
    "zip of two": Case(zipped("a.csv", "b.csv"), error="exactly one table"),
    "word": Case(zipped("word/document.xml"), error="Office document"),
    "truncated gzip": Case(gzip.compress(PLAIN.encode() * 9)[:-9], error="damaged or cut off"),
    "empty": Case("", error="is empty"),
    "white space": Case("\n \n", error="white space"),
    "header only": Case("x,c,y\n", error="no rows"),
    "picture": Case(b"\x89PNG\r\n\x1a\n" + bytes(99), error="PNG"),
    "binary": Case(bytes(range(256)) * 9, error="binary data"),
    "web page": Case("<html><body>\n" * 9, error="web page"),
    "json": Case('{"a": [1, 2],\n "b": 2}', error="JSON"),
    "array of objects": Case('[{"a": 1, "b": 2},\n{"a": 2, "b": 1},{"a": 3}]', rows=3),
    "ten thousand columns": Case(
        ",".join([*(f"f{i}" for i in range(9_999)), "y"]) + "\n" + (",".join([*["1.5"] * 9_999, "no"]) + "\n") * 3, rows=3
    ),
    "a megabyte in a field": Case(with_line(PLAIN, 3, f"1,{'a' * 1_000_000},no"), rows=N + 1),
}  # fmt: skip

MEANING: dict[str, Case] = {
    "leading zeros": kind(["00501", "10001", "00501"], "categorical", "00501"),
    "beyond 2^53": kind([9_007_199_254_740_993, 9_007_199_254_740_995], "categorical", "9007199254740993"),
    "beyond 64 bits": kind([10**25 + 1, 10**25 + 2], "categorical", str(10**25 + 1)),
    "too large for a float": kind(["1e400", *[f"{i}.5" for i in range(39)]], "numeric", None, 0.5),
    "infinities": kind(["inf", "-Infinity", *[f"{i}.5" for i in range(38)]], "numeric", None, None, 0.5),
    "nan in many spellings": kind(["nan", "NaN", "NAN", "-nan", "1.5", "2.5"], "numeric", None, None, None, None, 1.5),
    "missing in many spellings": kind(["?", "NA", "n/a", "NULL", "-", "#N/A", "", "1", "2", "7"], "numeric", *[None] * 7, 1.0),
    "words among numbers": kind([*[f"{i}.5" for i in range(39)], "unknown"], "numeric", 0.5),
    "a word among row numbers": kind([*[f"{i}" for i in range(39)], "unknown"], "identifier"),
    "thousands": kind(['"1,234"', '"12,345"', '"999"'], "numeric", 1234.0, 12345.0, 999.0),
    "indian grouping": kind(['"1,23,456"', '"2,34,567"', '"23,456"'], "numeric", 123456.0, 234567.0),
    "swiss thousands": kind(["1'234.5", "12'345.5"], "numeric", 1234.5),
    "no-break spaces": kind(["1\u00a0234", "12\u202f345"], "numeric", 1234.0, 12345.0),
    "typographic minus": kind(["\u22123.5", "4", "2"], "numeric", -3.5),
    "dollars": kind(['"$1,234.50"', "$7.00", "$12.25"], "numeric", 1234.5),
    "euros": kind(["3 €", "4 €", "19 €"], "numeric", 3.0),
    "two currencies": kind(["$3", "€4", "$5"], "categorical"),
    "percent": kind(["5%", "7.5%", "100%"], "numeric", 5.0),
    "negative numbers in brackets": kind(["(1,5)".replace(",", "."), "2.5", "7"], "numeric", -1.5),
    "units": kind(["3 kg", "4.5 kg", "7 kg", *[f"{i} kg" for i in range(20)]], "numeric", 3.0),
    "exponents": kind(["1.5e3", "2E-2", "7"], "numeric", 1500.0, 0.02),
    "spaces around": kind(["  3", "4  ", " 5 "], "numeric", 3.0, 4.0, 5.0),
    "true and false": kind(["True", "FALSE", "true"], "boolean"),
    "t and f": kind(["t", "f"], "boolean"),
    "iso dates": kind([f"2024-0{i}-15" for i in range(1, 10)], "datetime"),
    "iso moments": kind([f"2024-01-15T0{i}:30:00Z" for i in range(10)], "datetime"),
    "american": kind([f"{1 + i % 12}/{1 + i % 28}/2024" for i in range(N)], "datetime"),
    "day first by one cell": kind(["01/02/2024", "13/02/2024", "05/06/2024"], "datetime"),
    "twelve-hour clock": kind([f"1/{1 + i % 28}/2024 {1 + i % 12}:05 PM" for i in range(N)], "datetime"),
    "months in words": kind([f"{1 + i % 28} March 2024" for i in range(N)], "datetime"),
    "mixed dates": kind(["2024-01-02", "03/04/2024"], "datetime"),
    "impossible dates": kind(["2024-13-45", "2024-99-99"], "categorical"),
    "epochs": kind([1_700_000_000 + 977 * i for i in range(N)], "datetime", name="created_at"),
    "times of day": kind([f"{i % 24:02}:{i:02}" for i in range(N)], "numeric", 0.0, 3660.0),
    "durations": kind([f"{i}:00:30" for i in range(N)], "numeric", 30.0, 3630.0),
    "row numbers": kind(list(range(N)), "identifier", warnings=("Row number: ",)),
    "hashes": kind([f"{i * 2654435761 % 2**32:08x}f" for i in range(N)], "identifier"),
    "constant": kind(["same"], "constant", warnings=("Constant: every row is 'same'.",)),
    "all missing": kind(["NA", "", "?"], "constant", warnings=("missing",)),
    "ninety percent missing": kind([*[""] * 18, "1.5", "2.5"], "numeric", warnings=("90% of the cells are missing.",)),
    "sentences": kind([f"the package number {i} came late" for i in range(60)], "text"),
    "emoji and accents": kind(["naïve 😀", "naïve 😀", "ok"], "categorical", "naïve 😀"),
    "composed and decomposed characters are equal": kind(["\u00e9", "e\u0301", "z"], "categorical", "\u00e9", "\u00e9", "z"),
    "sentinel": kind([*[f"{i}" for i in range(18)], "-999", "-999"], "numeric", warnings=("-999",)),
    "codes of types": kind([10, 20, 70], "categorical", name="soil_type"),
    "copy of the target": Case(table(X, ("c", ["no", "yes", "no"]), Y), warnings=("copy of the target",)),
    "copy of a column": Case(table(X, ("c", X[1]), Y), warnings=("repeats the column 'x'",)),
}  # fmt: skip

MIN_ROWS = 5


@pytest.mark.parametrize("case", [*LAYOUT.values(), *MEANING.values()], ids=[*LAYOUT, *MEANING])
def test_file_has_the_expected_result(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(case.content.encode() if isinstance(case.content, str) else case.content)
    if case.error is not None:
        with pytest.raises(DataError) as caught:
            read_table(path, case.options)
        assert case.error in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    reading = read_table(path, case.options)
    assert reading.frame.height == case.rows
    assert case.names is None or reading.frame.columns == case.names
    given = list(reading.warnings)
    if case.rows >= MIN_ROWS:
        schema = infer_schema(
            reading.frame, target=reading.frame.columns[-1] if "y" not in reading.frame.columns else "y"
        )
        given += schema.warnings
        assert {name: schema.column(name).kind for name in case.kinds} == case.kinds
        for name in case.kinds:
            assert schema.column(name).reason.endswith(".")
        for name, cells in case.cells.items():
            columns = [column for column in schema.columns if column.name == name]
            assert columns
            if columns[0].role == "ignore":
                continue
            typed = typed_frame(reading.frame, schema)[name].head(len(cells)).to_list()
            assert typed == cells
    messages = " ".join(warning.message for warning in given)
    for piece in case.warnings:
        assert piece in messages


def test_number_of_cases() -> None:
    assert len(LAYOUT) + len(MEANING) >= 80


WORD = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=8)
HEADER = st.lists(
    st.text("abcdefg XYZé", min_size=1, max_size=6).map(str.strip).filter(bool), min_size=2, max_size=5, unique=True
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    header=HEADER,
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    packed=st.sampled_from(["", "gzip"]),
    preamble=st.booleans(),
    last_end=st.booleans(),
)
def test_round_trip_of_any_layout(
    tmp_path: Path, data: st.DataObject, header: list[str], delimiter: str, line_end: str, encoding: str,
    quoting: int, packed: str, preamble: bool, last_end: bool,
) -> None:  # fmt: skip
    cell = WORD.map(str.strip).filter(lambda c: c and not c.startswith("#") and c.casefold() not in ("total", "sum"))
    rows = data.draw(st.lists(st.tuples(*[cell] * len(header)), min_size=2, max_size=7))
    assume(not any(list(row) == header for row in rows))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=line_end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([header, *rows])
    text = buffer.getvalue() if last_end else buffer.getvalue().removesuffix(line_end)
    text = f"# a remark{line_end}" * preamble + text
    content = text.encode(encoding)
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    options = ReadOptions(delimiter=delimiter, encoding=encoding if encoding == "utf-16-le" else None)
    frame = read_table(path, options).frame
    assert frame.columns == [" ".join(name.split()) for name in header]
    assert frame.rows() == [tuple(row) for row in rows]


NUMBER = st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 3))


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(NUMBER, min_size=25, max_size=40, unique=True),
    style=st.sampled_from(["plain", "thousands", "continental", "swiss", "dollar", "percent", "exponent"]),
    missing=st.sampled_from(["", "NA", "?", "-", "null"]),
)
def test_numbers_keep_their_value_in_all_formats(numbers: list[float], style: str, missing: str) -> None:
    swap = str.maketrans(",.", ".,")
    written = {
        "plain": lambda x: f"{x:.3f}",
        "thousands": lambda x: f"{x:,.3f}",
        "continental": lambda x: f"{x:,.3f}".translate(swap),
        "swiss": lambda x: f"{x:,.3f}".replace(",", "'"),
        "dollar": lambda x: f"{'-' * (x < 0)}${abs(x):,.3f}",
        "percent": lambda x: f"{x:.3f}%",
        "exponent": lambda x: f"{x:.15e}",
    }[style]
    texts = [written(x) for x in numbers] + [missing] * 2
    frame = pl.DataFrame({"c": texts, "y": [["a", "b", "b"][i % 3] for i in range(len(texts))]})
    schema = infer_schema(frame, target="y")
    assert schema.column("c").kind == "numeric"
    typed = typed_frame(frame, schema)["c"].to_list()
    assert typed[:-2] == pytest.approx(numbers)
    assert typed[-2:] == [None, None]
