"""Names of columns in new rows: another Unicode form is the same name, another case or punctuation is a question."""

from __future__ import annotations

import unicodedata
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from tabapp.data.columns import as_in_training
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.reading.stream import read_parts
from tabapp.data.schema import Schema
from tabapp.errors import DataError
from tests.data.new_rows.comparing import compared

NAMES = ["Größe", "Ökohöfe, m²", "plain"]
FORMS = [("NFC", "NFD"), ("NFD", "NFC")]
N = 60


def table(form: str) -> pl.DataFrame:
    names = [unicodedata.normalize(form, name) for name in NAMES]
    columns = [pl.Series(name, [float((i * k) % 7) for i in range(N)]) for k, name in enumerate(names, start=2)]
    return pl.DataFrame([*columns, pl.Series("y", ["no", "yes", "yes"] * (N // 3))])


def written(frame: pl.DataFrame, path: Path) -> Path:
    content = BytesIO()
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".arrow": frame.write_ipc}[path.suffix](content)
    path.write_bytes(content.getvalue())
    return path


def trained(form: str, folder: Path) -> Schema:
    return infer_schema(read_table(written(table(form), folder / "train.csv")).frame, target="y")


@pytest.mark.parametrize(("training", "new"), FORMS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_names_in_another_form_are_those_of_training(training: str, new: str, suffix: str, tmp_path: Path) -> None:
    schema = trained(training, tmp_path)
    path = written(table(new), tmp_path / f"new{suffix}")
    reading = read_table(path, columns=schema.columns)
    assert reading.frame.columns == table(training).columns
    (warning,) = reading.warnings
    assert warning.check == "name_form"
    assert all(repr(unicodedata.normalize(training, name)) in warning.message for name in NAMES[:2])
    assert "plain" not in warning.message
    assert compared(reading.frame, schema, fill=False).notes() == []
    parts = list(read_parts(path, ReadOptions(), schema.columns))
    assert pl.concat([part.frame for part in parts]).equals(reading.frame)
    assert [each.check for part in parts for each in part.warnings] == ["name_form"]


def test_names_in_the_form_of_training_have_no_warning(tmp_path: Path) -> None:
    schema = trained("NFC", tmp_path)
    assert read_table(tmp_path / "train.csv", columns=schema.columns).warnings == ()


def test_two_columns_that_differ_in_the_form_stay_two(tmp_path: Path) -> None:
    both = pl.concat([table("NFC"), table("NFD").select(pl.nth(0, 1)) + 1], how="horizontal")
    path = written(both, tmp_path / "both.csv")
    schema = infer_schema(read_table(path).frame, target="y")
    assert len(schema.features) == 5
    reading = read_table(path, columns=schema.columns)
    assert reading.frame.columns == both.columns
    assert reading.warnings == ()
    # A file with one of them lacks the other.
    one = read_table(written(table("NFC"), tmp_path / "one.csv"), columns=schema.columns)
    assert one.frame.columns == table("NFC").columns
    with pytest.raises(DataError, match="columns are missing"):
        compared(one.frame, schema, fill=False).notes()
    assert as_in_training(both.columns, trained("NFC", tmp_path).columns) == {}


@pytest.mark.parametrize(("old", "new"), [("Größe", "GRÖSSE"), ("Ökohöfe, m²", "Ökohöfe m2"), ("plain", "(Plain)")])
def test_a_likely_column_is_named_and_never_used(old: str, new: str, tmp_path: Path) -> None:
    schema = trained("NFC", tmp_path)
    path = written(table("NFC").rename({old: new}), tmp_path / "new.csv")
    frame = read_table(path, columns=schema.columns).frame
    with pytest.raises(DataError) as raised:
        compared(frame, schema, fill=False).notes()
    assert f"{old!r} (did you mean {new!r}?)" in str(raised.value)
    note = next(note for note in compared(frame, schema, fill=True).notes() if "absent" in note)
    assert f"did you mean {new!r}?" in note
    (missing,) = [match for match in compared(frame, schema).matches() if match.finding == "missing"]
    assert f"which has {new!r} instead" in missing.message


def test_a_column_without_a_likely_one_is_named_alone(tmp_path: Path) -> None:
    schema = trained("NFC", tmp_path)
    frame = read_table(written(table("NFC").rename({"plain": "other"}), tmp_path / "new.csv")).frame
    with pytest.raises(DataError, match="columns are missing: 'plain'\\."):
        compared(frame, schema, fill=False).notes()
