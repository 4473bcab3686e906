"""Bundles whose schema has lying fields, with correct checksums, are refused in one sentence before any row is read."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.data.forms.moments import is_date_format
from tabapp.data.infer import infer_schema
from tabapp.data.schema_checks import schema_problem
from tabapp.errors import ExitCode
from tests.bundle.making import make_contents, register_linear, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip
from tests.hostile import texts

LYING: list[tuple[str, dict[str, Any]]] = [
    *(
        ("joined", {"datetime_format": form})
        for form in (
            "",
            "%",
            "%Q",
            "%!",
            "epoch",
            "epoch fortnights",
            "%Y" * 10_000,
            "%99999999Y",
            "%n" * 100,
            "day first\0",
            "%Y-%m-%d\0",
            texts.TITLE,
            None,
        )
    ),
    ("age", {"datetime_format": "%Q"}),
    *(("age", {"decimal": mark}) for mark in ("", ",,", "x", "\0", "(", "." * 10_000, texts.CURSOR)),
    *(("age", {"thousands": mark}) for mark in ("", ".", "x", "(?:", "\n")),
    *(("age", {"unit": unit}) for unit in ("", "(", "[kg]", "a" * 100_000, "\\", "x" * 20, texts.BIDI)),
    ("color", {"levels": ["red", "red"], "level_counts": [1, 1]}),
    ("color", {"levels": []}),
    ("color", {"level_counts": [-1] * 4}),
    ("color", {"order": ["nowhere"]}),
    ("color", {"role": "target"}),
    ("outcome", {"role": "feature"}),
    *(("age", {name: -1}) for name in ("missing", "unique", "support")),
    ("age", {"support": 1e300}),
    ("age", {"histogram": [-1]}),
    ("age", {"low": 5.0, "high": -5.0}),
    ("age", {"low": None}),
    *(("age", {"quartiles": numbers}) for numbers in ([50.0], [60.0, 50.0, 40.0], [-1e9, 50.0, 1e9])),
]  # fmt: skip


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("made")
        write_bundle(folder / "made.tabapp", make_contents(folder))
    return members_of(folder / "made.tabapp")


def bundle_with(place: Path, members: dict[str, bytes], name: str, fields: dict[str, Any]) -> Path:
    """A bundle in whose schema a column has other fields."""
    schema = json.loads(members["schema.json"])
    column = next(column for column in schema["columns"] if column["name"] == name)
    column |= fields
    content = json.dumps(schema).encode()
    changed = with_manifest(members, lambda manifest, members: members.update({"schema.json": content}))
    return write_zip(place, changed.items())


@pytest.mark.slow
def test_lying_fields_of_columns_are_refused(
    members: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "made.tabapp"
    assert run_command_line(["inspect", str(bundle_with(place, members, "age", {"unit": "kg"}))]) == 0
    capsys.readouterr()
    for name, fields in LYING:
        code = run_command_line(["inspect", str(bundle_with(place, members, name, fields))])
        (sentence,) = capsys.readouterr().err.splitlines()
        assert code == ExitCode.BUNDLE, (name, fields)
        assert "is inconsistent" in sentence, (name, fields)
        assert len(sentence) < 500, (name, fields)


def test_predict_refuses_before_it_reads_rows(
    members: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text_table("binary", 20).write_csv(tmp_path / "rows.csv")
    for name, fields in (LYING[2], ("age", {"decimal": "("})):
        path = bundle_with(tmp_path / "made.tabapp", members, name, fields)
        assert run_command_line(["predict", str(path), str(tmp_path / "rows.csv")]) == ExitCode.BUNDLE
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "is inconsistent" in captured.err


DATES = (
    "%Y-%m-%d", "%Y/%m/%d %H:%M", "%d.%m.%Y", "%d/%m/%y", "%d %B %Y", "%d-%b-%y", "%B %d, %Y", "%a, %d %b %Y %H:%M:%S UTC",
    "%Y%m%d", "%Y-%m-%dT%H:%M:%S.5+02:00", "%m/%d/%Y %I:%M %p",
)  # fmt: skip


def test_inferred_schemas_have_no_problem() -> None:
    days = range(1, 29)
    moments = [datetime(2024, 3, day, day % 24, day) for day in days]
    columns = {f"date {i}": [moment.strftime(form) for moment in moments] * 2 for i, form in enumerate(DATES)}
    columns["created at"] = [str(1_700_000_000 + 86_400 * day) for day in days] * 2
    columns["price"] = [f"{day}.{day:03},5" for day in days] * 2
    columns["mass"] = [f"{day * 1.5} kg" for day in days] * 2
    columns["cost"] = [f"${day},000" for day in days] * 2
    columns["share"] = [f"{day} %" for day in days] * 2
    columns["took"] = [f"0{day % 10}:{day:02}:11" for day in days] * 2
    columns["size"] = [("small", "medium", "large")[day % 3] for day in days] * 2
    columns["y"] = [str(day % 2) for day in days] * 2
    schema = infer_schema(pl.DataFrame(columns), target="y")
    formats = {column.datetime_format for column in schema.columns} - {None}
    assert formats == {"iso", "day first", "month first", "epoch s"}
    assert {column.unit for column in schema.columns} >= {"kg", "$", "%", "h:m:s"}
    assert schema_problem(schema) is None
    assert not is_date_format("%Q")
