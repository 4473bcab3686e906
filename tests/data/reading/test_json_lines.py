"""JSON lines are read as the table that they are, with their digits; other JSON is rejected."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.reading.head import first_rows
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import is_large
from tabapp.errors import DataError, TooLargeError
from tests.data.reading.files import messages, read


def test_values_are_those_of_the_same_csv(tmp_path: Path) -> None:
    text = (
        '{"a": 1.50, "g": "red", "n": 7, "y": true}\n\n{"n": 12345678901234567890, "g": "", "a": null, "y": false}\r\n'
        '{"a": 1e-3, "g": "x\\ny", "new": "z"}'
    )
    reading = read(tmp_path, text)
    assert reading.frame.to_dict(as_series=False) == {
        "a": ["1.50", None, "1e-3"],
        "g": ["red", None, "x\ny"],
        "n": ["7", "12345678901234567890", None],
        "y": ["true", "false", None],
        "new": [None, None, "z"],
    }
    assert (reading.format, reading.delimiter, reading.warnings) == ("jsonl", None, ())
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert read_table(packed).frame.equals(reading.frame)
    assert first_rows(tmp_path / "table.txt", 5) is None


def test_an_array_of_objects_is_the_table_of_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [{"a": i / 4, "g": "xy"[i % 2], "l": [i], "y": None if i == 3 else i % 2} for i in range(30)]
    lines = read(tmp_path, "".join(json.dumps(each) + "\n" for each in objects))
    for text in (json.dumps(objects), " \n" + json.dumps(objects, indent=2) + "\n"):
        array = read(tmp_path, text)
        assert array.frame.equals(lines.frame)
        assert (array.format, array.left_out) == ("json", lines.left_out)
        assert first_rows(tmp_path / "table.txt", 5) is None
    monkeypatch.setattr("tabapp.data.reading.stream.LARGE_TEXT", 10)
    assert not is_large(tmp_path / "table.txt", ReadOptions())
    monkeypatch.setattr("tabapp.data.reading.read.MAX_LINE", 10)
    assert read(tmp_path, json.dumps(objects)).frame.equals(lines.frame)


def test_lists_and_objects_are_left_out(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"a": i % 7 / 2, "l": [i], "o": {"b": 1} if i else None, "y": i % 2}) + "\n" for i in range(30)
    )
    reading = read(tmp_path, text)
    assert reading.frame.columns == ["a", "y"]
    assert reading.left_out == {"l": "lists", "o": "structures"}
    schema = infer_schema(reading.frame, target="y", left_out=reading.left_out)
    assert schema.column("l").role == "ignore"
    assert read(tmp_path, text, schema.columns).warnings == ()
    assert "'new' (lists)" in messages(read(tmp_path, '{"a": 1, "new": [1]}\n', schema.columns))


def test_numbers_are_spelled_as_the_column_of_training(tmp_path: Path) -> None:
    rows = "".join(f"{i}.{100 + i},5;{'xy'[i % 2]}\n" for i in range(1, 40))
    columns = infer_schema(read(tmp_path, "a;y\n" + rows).frame, target="y").columns
    assert columns[0].decimal == ","
    assert read(tmp_path, '{"a": 1101.5}\n{"a": "1.101,5"}\n', columns).frame["a"].to_list() == ["1.101,5", "1.101,5"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}\n{"a": 1,\n', "line 2 is not a JSON object"),
        ('{"a": 1}\n[1]\n', "line 2 is not a JSON object"),
        ('[{"a": 1},\n {"a": 2}\n', "Check that the file is complete"),
        ('[{"a": 1}, 2]', "begins as a JSON array of objects, and is not one"),
        ('[{"a": {"b": 1}}]', "is JSON, not a table"),
        ('{\n "a": 1\n}\n', "is JSON, not a table"),
        ('{"a": {"0": 1, "1": 2}}\n', "JSON lines (one object in each line)"),
        ('{"rows": [1, 2]}', "is JSON, not a table"),
    ],
)
def test_other_json_is_rejected(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_for_each_line_cannot_exhaust_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"k{i}": {i}}}\n' for i in range(5_000)))
    with pytest.raises(TooLargeError, match="memory"):
        read_table(path, ReadOptions(max_memory=64 << 20))
    path.write_text("".join(f'{{"k": {i}}}\n' for i in range(5_000)))
    assert read_table(path, ReadOptions(max_memory=64 << 20)).frame.height == 5_000


def test_large_files_are_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabapp.data.reading.stream.LARGE_TEXT", 10)
    read(tmp_path, '{"a": 1, "b": 2}\n' * 9)
    assert not is_large(tmp_path / "table.txt", ReadOptions())
    read(tmp_path, "a,b\n" + "1,2\n" * 9)
    assert is_large(tmp_path / "table.txt", ReadOptions())
